//! Tests of service accounts that act for members. Who may do what is compared with the rules of
//! the reference in `authorization`.

use http::{Request, StatusCode, header};
use knowledge_core::Error;
use knowledge_core::access::{Action, ActionSet, BaseRole, MemberRef, RoleRef, TokenScope};
use knowledge_core::api::Api;
use knowledge_core::model::{
    AccessCheck, AccessFilterOptions, AudienceLabel, CustomRoleUpdate, MemberId, MemberKind,
    MemoryId, MemoryUpdate, ReviewStatus, RoleId, SensitivityLabel, WorkspaceAccess,
};
use knowledge_core::service::{
    AuditAction, AuditEntry, AuditFilter, Caller, MemberAssignment, PageRequest, ResourceKind,
};
use uuid::Uuid;

use crate::audit::entries;
use crate::make::{
    ACME, ADMIN, MEMBER, VIEWER, audience, code, new_chat, new_member, new_memory, new_recall,
    new_role, review, sensitivity,
};
use crate::world::World;
use knowledge_testing::requests::{new_access, new_mcp_key, with};

const REFUSED: &str = "the service account may not act for this member, or there is none";

/// A service account that acts for members, and its role.
struct Bot {
    id: MemberId,
    role: RoleId,
    caller: Caller,
}

impl Bot {
    /// Adds a service account that may also take these actions.
    async fn new(world: &World, others: ActionSet) -> Self {
        let allow = ActionSet::of(&[Action::MemberActFor]) | others;
        let base = BaseRole::Member;
        let role = world.role(base, allow - base.actions(), ActionSet::EMPTY);
        let role = role.await.id;
        let id = account(world, RoleRef::Custom(role)).await;
        let token = world.token(id, TokenScope::default()).await;
        let caller = Caller::new(token.secret);
        Self { id, role, caller }
    }

    fn for_member(&self, member: impl Into<MemberRef>) -> Caller {
        self.caller.clone().act_for(member)
    }

    /// Limits the role to members of these teams.
    async fn limit(&self, world: &World, teams: Option<&[&str]>) {
        let owned = |teams: &[&str]| teams.iter().map(|team| (*team).to_owned()).collect();
        let teams: Option<Vec<String>> = teams.map(owned);
        let update = CustomRoleUpdate::builder().act_for_teams(teams).build();
        let roles = world.service.roles();
        let updated = roles.update(&world.owner, ACME, self.role, &update, None);
        updated.await.unwrap();
    }
}

/// Adds a service account with a role.
async fn account(world: &World, role: RoleRef) -> MemberId {
    let new = with(new_member(&world.name("bot"), role), |new| {
        new.kind = MemberKind::ServiceAccount;
    });
    world.add(&new).await
}

/// Adds a person with a handle, a role and a team.
async fn person(world: &World, handle: &str, role: RoleRef, team: &str) -> MemberId {
    let new = with(new_member(handle, role), |new| {
        new.teams = vec![team.to_owned()];
    });
    world.add(&new).await
}

fn handle(handle: &str) -> MemberRef {
    MemberRef::Handle(handle.to_owned())
}

/// Returns the newest entry of an action.
async fn newest(world: &World, action: AuditAction) -> AuditEntry {
    let mut found = entries(world).await;
    found.retain(|entry| entry.action == action);
    found.pop().unwrap()
}

/// Returns true if a caller may list labels.
async fn works(world: &World, caller: &Caller) -> bool {
    world.by(caller).list_labels().await.is_ok()
}

/// Returns which of these memories a caller may read.
async fn readable(world: &World, caller: &Caller, memories: &[MemoryId]) -> Vec<bool> {
    let check = AccessCheck::builder().memory_ids(memories.to_vec()).build();
    let checked = world.by(caller).check_access(&check).await.unwrap();
    checked.results.iter().map(|item| item.readable).collect()
}

/// Returns the reason for which a caller may do nothing.
async fn refusal(world: &World, caller: &Caller) -> String {
    match world.by(caller).get_memory(MemoryId(Uuid::nil())).await {
        Err(Error::Forbidden { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn one_token_shows_each_member_what_exists_for_it() {
    let world = World::new().await;
    let bot = Bot::new(&world, ActionSet::EMPTY).await;
    let maya = person(&world, "maya", MEMBER, "platform").await;
    person(&world, "tom", VIEWER, "sales").await;
    let memories = world.approved_memories(4).await;
    for (memory, label) in memories
        .iter()
        .zip(["team:platform", "team:sales", "user:maya"])
    {
        world.change(&[*memory], audience(label)).await.unwrap();
    }
    let of_maya = readable(&world, &bot.for_member(maya), &memories).await;
    assert_eq!(of_maya, [true, false, true, true]);
    let of_tom = readable(&world, &bot.for_member(handle("tom")), &memories).await;
    assert_eq!(of_tom, [false, true, false, true]);
    // For itself it is in neither team.
    let own = readable(&world, &bot.caller, &memories).await;
    assert_eq!(own, [false, false, false, true]);
}

#[tokio::test]
async fn service_account_shows_nothing_that_it_may_not_read() {
    let world = World::new().await;
    let memories = world.approved_memories(1).await;
    let change = sensitivity(SensitivityLabel::Confidential);
    world.change(&memories, change).await.unwrap();
    let ada = person(&world, "adam", ADMIN, "platform").await;
    let plain = Bot::new(&world, ActionSet::EMPTY).await;
    let trusted = ActionSet::of(&[Action::MemoryReadConfidential]);
    let trusted = Bot::new(&world, trusted).await;
    assert_eq!(
        readable(&world, &world.trusted(ada), &memories).await,
        [true]
    );
    assert_eq!(
        readable(&world, &plain.for_member(ada), &memories).await,
        [false]
    );
    assert_eq!(
        readable(&world, &trusted.for_member(ada), &memories).await,
        [true]
    );
    // What the member may not read, the account does not read for it either.
    let vic = person(&world, "vic", VIEWER, "platform").await;
    assert_eq!(
        readable(&world, &trusted.for_member(vic), &memories).await,
        [false]
    );
}

#[tokio::test]
async fn members_that_cannot_be_acted_for_look_the_same() {
    let world = World::new().await;
    let bot = Bot::new(&world, ActionSet::EMPTY).await;
    let others = [
        MemberRef::Id(world.owner_id),
        MemberRef::Id(bot.id),
        MemberRef::Id(account(&world, MEMBER).await),
        MemberRef::Id(MemberId(Uuid::nil())),
        handle("nobody"),
    ];
    for other in others {
        assert_eq!(refusal(&world, &bot.for_member(other)).await, REFUSED);
    }
    let gone = person(&world, "gone", MEMBER, "platform").await;
    assert!(works(&world, &bot.for_member(gone)).await);
    world.remove_member(gone).await.unwrap();
    for other in [MemberRef::Id(gone), handle("gone")] {
        assert_eq!(refusal(&world, &bot.for_member(other)).await, REFUSED);
    }
}

#[tokio::test]
async fn only_service_accounts_with_permission_act() {
    let world = World::new().await;
    let maya = person(&world, "maya", MEMBER, "platform").await;
    let by_person = world.owner.clone().act_for(maya);
    let reason = "only service accounts act for members";
    assert_eq!(refusal(&world, &by_person).await, reason);
    let unpermitted = world.trusted(account(&world, ADMIN).await).act_for(maya);
    let reason = "missing permission member:act_for";
    assert_eq!(refusal(&world, &unpermitted).await, reason);
    let bot = Bot::new(&world, ActionSet::EMPTY).await;
    let scope = TokenScope {
        actions: Some(ActionSet::of(&[Action::MemoryRead])),
        ..TokenScope::default()
    };
    let narrow = Caller::new(world.token(bot.id, scope).await.secret);
    assert_eq!(refusal(&world, &narrow.act_for(maya)).await, reason);
}

#[tokio::test]
async fn role_limits_for_whom_a_service_account_acts() {
    let world = World::new().await;
    let bot = Bot::new(&world, ActionSet::EMPTY).await;
    let maya = person(&world, "maya", MEMBER, "platform").await;
    let tom = person(&world, "tom", MEMBER, "sales").await;
    bot.limit(&world, Some(&["platform", "support"])).await;
    assert!(works(&world, &bot.for_member(maya)).await);
    assert_eq!(refusal(&world, &bot.for_member(tom)).await, REFUSED);
    bot.limit(&world, Some(&[])).await;
    assert_eq!(refusal(&world, &bot.for_member(maya)).await, REFUSED);
    bot.limit(&world, None).await;
    assert!(works(&world, &bot.for_member(tom)).await);
}

#[tokio::test]
async fn only_owners_let_service_accounts_act() {
    let world = World::new().await;
    let bot = Bot::new(&world, ActionSet::EMPTY).await;
    // Somebody who holds the action by a custom role, and manages roles and members.
    let base = BaseRole::Member;
    let all = world.role(base, ActionSet::ALL - base.actions(), ActionSet::EMPTY);
    let all = all.await.id;
    for role in [ADMIN, RoleRef::Custom(all)] {
        let caller = world.caller(role).await;
        let (roles, members) = (world.service.roles(), world.service.members());
        let new = with(new_role(&world.name("other")), |new| {
            new.actions.allow = ActionSet::of(&[Action::MemberActFor]);
        });
        assert_eq!(code(roles.create(&caller, ACME, &new).await), "forbidden");
        let update = CustomRoleUpdate::builder()
            .act_for_teams(Some(Vec::new()))
            .build();
        let updated = roles.update(&caller, ACME, bot.role, &update, None).await;
        assert_eq!(code(updated), "forbidden");
        let other = account(&world, MEMBER).await;
        let role = MemberAssignment::Organization(RoleRef::Custom(bot.role));
        let assigned = members.assign_role(&caller, ACME, other, role).await;
        assert_eq!(code(assigned), "forbidden");
    }
}

#[tokio::test]
async fn service_account_manages_nothing_for_members() {
    let world = World::new().await;
    let bot = Bot::new(
        &world,
        ActionSet::ALL - ActionSet::of(&[Action::MemberActFor]),
    )
    .await;
    let ada = person(&world, "adam", ADMIN, "platform").await;
    let acting = bot.for_member(ada);
    let key = new_mcp_key("org:acme");
    let made = world.by(&acting).create_mcp_key(&key).await;
    let Err(Error::Forbidden { reason, .. }) = made else {
        panic!("{made:?}");
    };
    assert_eq!(reason, "not permitted for another member: mcp_key:manage");
    world
        .by(&world.trusted(ada))
        .create_mcp_key(&key)
        .await
        .unwrap();
}

#[tokio::test]
async fn private_workspace_exists_if_it_does_for_the_member() {
    let world = World::new().await;
    let bot = Bot::new(&world, ActionSet::EMPTY).await;
    let maya = person(&world, "maya", MEMBER, "platform").await;
    let tom = person(&world, "tom", MEMBER, "platform").await;
    let memories = world.approved_memories(1).await;
    let place = world.workspace.id;
    world.assign_in(maya, place, Some(MEMBER)).await.unwrap();
    let private = new_access(WorkspaceAccess::Private);
    let (provisioning, org) = (world.service.provisioning(), world.org.id);
    let set = provisioning.set_workspace_access(org, world.workspace.id, &private);
    set.await.unwrap();
    assert_eq!(
        readable(&world, &bot.for_member(maya), &memories).await,
        [true]
    );
    assert_eq!(
        readable(&world, &bot.for_member(tom), &memories).await,
        [false]
    );
    assert_eq!(readable(&world, &bot.caller, &memories).await, [false]);
}

#[tokio::test]
async fn what_is_made_belongs_to_the_member_and_the_log_names_both() {
    let world = World::new().await;
    let bot = Bot::new(&world, ActionSet::EMPTY).await;
    let maya = person(&world, "maya", MEMBER, "platform").await;
    let acting = bot.for_member(maya);
    let memories = world.approved_memories(1).await;
    let recall = world
        .by(&acting)
        .create_recall(&new_recall(&memories))
        .await;
    assert_eq!(recall.unwrap().created_by, maya);
    let chat = world
        .by(&acting)
        .create_chat(&new_chat("Queue"))
        .await
        .unwrap();
    assert_eq!((chat.created_by, chat.participants), (maya, vec![maya]));
    for action in [AuditAction::RecallCreate, AuditAction::ChatCreate] {
        let entry = newest(&world, action).await;
        assert_eq!((entry.actor_id, entry.via_id), (Some(maya), Some(bot.id)));
    }
    let filter = AuditFilter::builder().via_id(bot.id).build();
    let listed = world.list_audit_log(&filter, &PageRequest::default()).await;
    assert_eq!(listed.unwrap().data.len(), 2);
    // What the member does itself is not through anybody.
    let by_maya = world.trusted(maya);
    world
        .by(&by_maya)
        .create_chat(&new_chat("Own"))
        .await
        .unwrap();
    assert_eq!(newest(&world, AuditAction::ChatCreate).await.via_id, None);
}

#[tokio::test]
async fn refusal_is_of_the_member_or_else_of_the_service_account() {
    let world = World::new().await;
    let bot = Bot::new(&world, ActionSet::EMPTY).await;
    let vic = person(&world, "vic", VIEWER, "platform").await;
    let api = Api::new(world.service.clone());
    let token = world.token(bot.id, TokenScope::default()).await.secret;
    let post = async |member: &str| {
        let request = Request::post(format!("/v1/workspaces/{}/chats", world.workspace.id))
            .header(header::AUTHORIZATION, format!("Bearer {}", token.expose()))
            .header(header::CONTENT_TYPE, "application/json")
            .header("Knowledge-Act-For", member);
        let request = request.body(r#"{"title":"T"}"#.into()).unwrap();
        api.handle(request).await.status()
    };
    assert_eq!(post("user:vic").await, StatusCode::FORBIDDEN);
    let entry = newest(&world, AuditAction::ChatCreate).await;
    assert_eq!((entry.actor_id, entry.via_id), (Some(vic), Some(bot.id)));
    assert_eq!(
        entry.reason.as_deref(),
        Some("missing permission chat:write")
    );
    assert_eq!(post("user:nobody").await, StatusCode::FORBIDDEN);
    let entry = newest(&world, AuditAction::ChatCreate).await;
    assert_eq!((entry.actor_id, entry.via_id), (Some(bot.id), None));
    assert_eq!(entry.reason.as_deref(), Some(REFUSED));
    assert_eq!(entry.resource.kind, ResourceKind::Workspace);
}

#[tokio::test]
async fn program_decides_about_nothing_that_it_wrote_for_members() {
    let world = World::new().await;
    let bot = Bot::new(&world, ActionSet::EMPTY).await;
    let maya = person(&world, "maya", MEMBER, "platform").await;
    let acting = bot.for_member(maya);
    let batch = [new_memory("Note")];
    let added = world
        .by(&acting)
        .ingest_memories(world.source, &batch)
        .await;
    let memory = added.unwrap()[0].id.unwrap();
    let approve = review(ReviewStatus::Approved);
    let approve = MemoryUpdate::builder().change(approve).build();
    let tom = person(&world, "tom", MEMBER, "platform").await;
    for program in [&acting, &bot.caller, &bot.for_member(tom)] {
        let approved = world
            .by(program)
            .update_memory(memory, &approve, None)
            .await;
        assert_eq!(code(approved), "forbidden");
    }
    // Another person may, and so may the member, which the log says.
    let by_maya = world.trusted(maya);
    world
        .by(&by_maya)
        .update_memory(memory, &approve, None)
        .await
        .unwrap();
    assert!(newest(&world, AuditAction::MemoryUpdate).await.own);
    // A text that the account changed for another member is the account's too.
    let [other] = world.memories(1).await[..] else {
        panic!("one memory");
    };
    let rewrite = MemoryUpdate::builder().content("Changed.").build();
    world
        .by(&acting)
        .update_memory(other, &rewrite, None)
        .await
        .unwrap();
    for program in [&acting, &bot.caller, &bot.for_member(tom)] {
        let approved = world.by(program).update_memory(other, &approve, None).await;
        assert_eq!(code(approved), "forbidden");
    }
    world
        .by(&world.trusted(tom))
        .update_memory(other, &approve, None)
        .await
        .unwrap();
}

#[tokio::test]
async fn idempotency_keys_of_members_are_apart() {
    let world = World::new().await;
    let bot = Bot::new(&world, ActionSet::EMPTY).await;
    let maya = person(&world, "maya", MEMBER, "platform").await;
    let tom = person(&world, "tom", MEMBER, "platform").await;
    let keyed = |caller: Caller| caller.with_idempotency_key("key".parse().unwrap());
    let mut made = Vec::new();
    for caller in [
        bot.for_member(maya),
        bot.for_member(tom),
        world.trusted(maya),
    ] {
        let caller = keyed(caller);
        let create = async || world.by(&caller).create_chat(&new_chat("Queue")).await;
        let chat = create().await.unwrap();
        assert_eq!(create().await.unwrap(), chat);
        made.push(chat.id);
    }
    made.dedup();
    assert_eq!(made.len(), 3);
    // So are those of bulk updates.
    let memories = world.approved_memories(1).await;
    let change = sensitivity(SensitivityLabel::Public);
    for caller in [
        world.trusted(maya),
        bot.for_member(maya),
        bot.for_member(tom),
    ] {
        let update = async || {
            let updated = world.bulk_with_key(&caller, "bulk", &memories, change.clone());
            updated.await
        };
        assert!(!update().await.unwrap().replayed);
        assert!(update().await.unwrap().replayed);
    }
}

#[tokio::test]
async fn token_narrows_what_is_shown_further() {
    let world = World::new().await;
    let bot = Bot::new(&world, ActionSet::EMPTY).await;
    let maya = person(&world, "maya", MEMBER, "platform").await;
    let memories = world.approved_memories(2).await;
    world
        .change(&memories[..1], audience("user:maya"))
        .await
        .unwrap();
    let label: AudienceLabel = "user:maya".parse().unwrap();
    let scope = TokenScope {
        audience: Some(vec![label.clone()]),
        ..TokenScope::default()
    };
    let narrow = Caller::new(world.token(bot.id, scope).await.secret).act_for(maya);
    assert_eq!(readable(&world, &narrow, &memories).await, [true, false]);
    let filter = world
        .by(&narrow)
        .access_filter(&AccessFilterOptions::default())
        .await;
    assert_eq!(filter.unwrap().value.audience_tags, [label]);
}

#[tokio::test]
async fn header_names_one_member_of_a_request_with_a_token() {
    let world = World::new().await;
    let bot = Bot::new(&world, ActionSet::EMPTY).await;
    let maya = person(&world, "maya", MEMBER, "platform").await;
    let api = Api::new(world.service.clone());
    let token = world.token(bot.id, TokenScope::default()).await.secret;
    let status = async |members: &[&str]| {
        let mut request = Request::get(format!("/v1/workspaces/{}/labels", world.workspace.id))
            .header(header::AUTHORIZATION, format!("Bearer {}", token.expose()));
        for member in members {
            request = request.header("Knowledge-Act-For", *member);
        }
        api.handle(request.body(bytes::Bytes::new()).unwrap())
            .await
            .status()
    };
    assert_eq!(status(&["user:maya"]).await, StatusCode::OK);
    assert_eq!(status(&[&maya.to_string()]).await, StatusCode::OK);
    for wrong in [
        &["maya"][..],
        &[""],
        &["user:maya", "user:maya"],
        &["user:MAYA"],
    ] {
        assert_eq!(status(wrong).await, StatusCode::FORBIDDEN, "{wrong:?}");
    }
    // A session is that of a person, who acts for nobody.
    let session = world.session(world.owner_id).await.secret;
    let request = Request::get(format!("/v1/orgs/{ACME}/members"))
        .header(
            header::COOKIE,
            format!("service_session={}", session.expose()),
        )
        .header("Knowledge-Act-For", "user:maya");
    let response = api.handle(request.body(bytes::Bytes::new()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    // Who is unknown is told nothing else.
    let request = Request::get("/v1/workspaces").header("Knowledge-Act-For", "maya");
    let response = api.handle(request.body(bytes::Bytes::new()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
}
