//! Tests of dashboards that are returned again without a read of the store.

use knowledge_core::Error;
use knowledge_core::access::{Action, BaseRole, RoleRef, TokenScope};
use knowledge_core::model::{CredentialId, MemberId};
use knowledge_core::service::Caller;
use knowledge_store::faults::FaultPlan;

use crate::make::{HOUR, MEMBER, MILLISECOND, actions, code, new_chat, new_workspace};
use crate::world::World;

/// A world with a colleague whose token has seen the dashboard.
struct Seen {
    world: World,
    member: MemberId,
    token: Caller,
    id: CredentialId,
}

impl Seen {
    async fn new() -> Self {
        let world = World::new().await;
        world.probe.show_marks();
        let member = world.member(MEMBER).await;
        let token = world.token(member, TokenScope::default()).await;
        let seen = Self {
            id: token.record.id,
            token: token.secret.into(),
            world,
            member,
        };
        seen.is_shown().await;
        seen
    }

    async fn get(&self) -> Result<String, Error> {
        Ok(self.world.by(&self.token).get_dashboard().await?.etag)
    }

    /// Asserts that the dashboard is shown again without a read.
    async fn is_shown(&self) {
        let first = self.get().await.unwrap();
        let reads = self.world.faults.counts().reads;
        assert_eq!(self.get().await.unwrap(), first);
        assert_eq!(self.world.faults.counts().reads, reads);
    }
}

#[tokio::test]
async fn unchanged_dashboard_is_shown_without_a_read() {
    let seen = Seen::new().await;
    // Nothing that another organisation does matters.
    let stranger = seen.world.stranger("elsewhere").await;
    stranger.workspace(&new_workspace("w")).await.unwrap();
    let reads = seen.world.faults.counts().reads;
    seen.get().await.unwrap();
    assert_eq!(seen.world.faults.counts().reads, reads);
}

#[tokio::test]
async fn change_is_shown_at_once() {
    let seen = Seen::new().await;
    let before = seen.get().await.unwrap();
    let chat = new_chat("Tills");
    let chat = seen.world.by(&seen.token).create_chat(&chat);
    let chat = chat.await.unwrap().id;
    let posted = seen.world.by(&seen.token).post_message(chat, "Why?");
    posted.await.unwrap();
    assert_ne!(seen.get().await.unwrap(), before);
    seen.is_shown().await;
}

#[tokio::test]
async fn change_between_the_reads_is_not_missed() {
    let seen = Seen::new().await;
    let place = seen.world.workspace.id;
    for others in 0..3 {
        // A change, so that the next call reads.
        let service = seen.world.service.clone();
        let chat = new_chat("Tills");
        let chat = service.chats().create(&seen.token, place, &chat);
        let chat = chat.await.unwrap().id;
        let token = seen.token.clone();
        seen.world.probe.before_call(others, async move {
            let posted = service.chats().post_message(&token, place, chat, "Why?");
            posted.await.unwrap();
        });
        seen.get().await.unwrap();
        seen.world.probe.expect_no_call();
        let shown = seen.get().await.unwrap();
        let fresh = seen.world.served_with(FaultPlan::none()).await;
        let fresh = fresh.by(&seen.token).within(place).get_dashboard();
        assert_eq!(shown, fresh.await.unwrap().etag);
    }
}

#[tokio::test]
async fn token_that_ends_sees_nothing_more() {
    let seen = Seen::new().await;
    seen.world.time.pass(HOUR - MILLISECOND);
    seen.is_shown().await;
    seen.world.time.pass(MILLISECOND);
    assert_eq!(code(seen.get().await), "unauthenticated");

    let seen = Seen::new().await;
    let operator = seen.world.service.provisioning();
    operator.revoke(seen.world.org.id, seen.id).await.unwrap();
    assert_eq!(code(seen.get().await), "unauthenticated");
}

#[tokio::test]
async fn member_without_access_sees_nothing_more() {
    let seen = Seen::new().await;
    let read = actions(&[Action::DashboardRead]);
    let role = seen.world.role(BaseRole::Viewer, actions(&[]), read).await;
    let role = RoleRef::Custom(role.id);
    seen.world.assign(seen.member, role).await.unwrap();
    assert_eq!(code(seen.get().await), "forbidden");

    let seen = Seen::new().await;
    let operator = seen.world.service.provisioning();
    let removed = operator.remove_member(seen.world.org.id, seen.member);
    removed.await.unwrap();
    assert_eq!(code(seen.get().await), "unauthenticated");
}

#[tokio::test]
async fn dashboard_ends_with_its_workspace_and_its_organisation() {
    let seen = Seen::new().await;
    let operator = seen.world.service.provisioning();
    let (org, workspace) = (seen.world.org.id, seen.world.workspace.id);
    operator.delete_workspace(org, workspace).await.unwrap();
    assert_eq!(code(seen.get().await), "not_found");

    let seen = Seen::new().await;
    let operator = seen.world.service.provisioning();
    operator
        .delete_organization(seen.world.org.id)
        .await
        .unwrap();
    assert_eq!(code(seen.get().await), "unauthenticated");
}

#[tokio::test]
async fn closed_store_shows_nothing() {
    let seen = Seen::new().await;
    seen.world.faults.close();
    assert_eq!(code(seen.get().await), "unavailable");
}

#[tokio::test]
async fn session_does_not_see_what_a_token_saw() {
    let seen = Seen::new().await;
    let session = seen.world.session(seen.member).await;
    let session = Caller::from(session.secret);
    let refused = seen.world.by(&session).get_dashboard().await;
    assert_eq!(code(refused), "unauthenticated");
}
