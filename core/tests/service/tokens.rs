//! Tests of the API tokens that members create, and of the login links of new members.

use std::time::Duration;

use knowledge_core::Error;
use knowledge_core::access::{
    Action, ActionSet, BaseRole, CredentialKind, RoleRef, Secret, TokenScope,
};
use knowledge_core::internals::keys;
use knowledge_core::model::{
    AudienceLabel, CustomRoleUpdate, MemberId, MemberKind, ResourceState, RoleId, WorkspaceAccess,
    WorkspaceId,
};
use knowledge_core::service::{
    ApiToken, AuditAction, Caller, ClientInfo, DeleteRole, Issued, IssuedApiToken,
    MemberAssignment, MemberUpdate, NewApiToken, NewTokenScope, PageRequest,
};
use knowledge_testing::requests::with;

use crate::audit::entries;
use crate::make::{
    ADMIN, DAY, HOUR, MEMBER, MILLISECOND, OWNER, VIEWER, actions, code, custom, new_access,
    new_mcp_key, new_member, problem,
};
use crate::world::World;

const NONE: ActionSet = ActionSet::EMPTY;

fn named(name: &str) -> NewApiToken {
    NewApiToken::builder().name(name).build()
}

fn scoped(scope: NewTokenScope) -> NewApiToken {
    NewApiToken::builder().name("scoped").scope(scope).build()
}

async fn create(world: &World, by: &Caller, member: MemberId) -> Result<IssuedApiToken, Error> {
    world.by(by).create_token(member, &named("a token")).await
}

async fn list(world: &World, by: &Caller, member: MemberId) -> Result<Vec<ApiToken>, Error> {
    let page = PageRequest::default();
    Ok(world.by(by).list_tokens(member, &page).await?.data)
}

fn secret(issued: &IssuedApiToken) -> &Secret {
    issued.secret.as_ref().unwrap()
}

async fn is_taken(world: &World, secret: &Secret) -> bool {
    let token = Caller::from(secret.clone());
    let seen = world.service.authenticate(&token, CredentialKind::Bearer);
    seen.await.is_ok()
}

/// Adds a service account.
async fn account(world: &World, role: RoleRef, teams: &[&str]) -> MemberId {
    let new = with(new_member(&world.name("bot"), role), |new| {
        new.kind = MemberKind::ServiceAccount;
        new.teams = teams.iter().map(|team| (*team).to_owned()).collect();
    });
    world.add(&new).await
}

/// Adds a member with the actions of a viewer and `token:manage`, and these.
async fn keeper(world: &World, allow: &[Action]) -> Caller {
    let allow = actions(allow) | actions(&[Action::TokenManage]);
    let role = world.role(BaseRole::Viewer, allow, NONE).await;
    world.caller(custom(role.id)).await
}

fn member_of(caller: &Caller) -> MemberId {
    match caller.credential() {
        knowledge_core::access::Credential::Trusted { member, .. } => *member,
        knowledge_core::access::Credential::Secret(_) => panic!("callers are trusted here"),
    }
}

#[tokio::test]
async fn token_of_ones_own_needs_no_permission() {
    let world = World::new().await;
    let nothing = world.role(BaseRole::Viewer, NONE, ActionSet::ALL).await;
    let member = world.member(custom(nothing.id)).await;
    let session = Caller::from(world.session(member).await.secret);
    let made = create(&world, &session, member).await.unwrap();
    assert!(is_taken(&world, secret(&made)).await);
    assert_eq!(made.token.member_id, member);
    assert_eq!(made.token.created_by, Some(member));
    assert_eq!(made.token.scope, TokenScope::default());
    let read = world.by(&session).get_token(member, made.token.id).await;
    assert_eq!(read.unwrap(), made.token);
    assert_eq!(list(&world, &session, member).await.unwrap(), [made.token]);
    world.assert_whole().await;
}

#[tokio::test]
async fn token_outlives_the_session_that_created_it() {
    let world = World::new().await;
    let member = world.member(MEMBER).await;
    let session = world.session(member).await.secret;
    let made = create(&world, &session.clone().into(), member).await;
    let made = made.unwrap();
    world.sign_out(&session).await.unwrap();
    assert!(is_taken(&world, secret(&made)).await);
    world.time.pass(89 * DAY);
    assert!(is_taken(&world, secret(&made)).await);
    world.time.pass(2 * DAY);
    assert!(!is_taken(&world, secret(&made)).await);
}

#[tokio::test]
async fn token_operations_require_a_session() {
    let world = World::new().await;
    let member = world.member(ADMIN).await;
    let token = Caller::from(world.token(member, TokenScope::default()).await.secret);
    let made = create(&world, &token, member).await;
    assert_eq!(code(made), "unauthenticated");
    assert_eq!(code(list(&world, &token, member).await), "unauthenticated");
}

#[tokio::test]
async fn token_is_limited_to_its_scope() {
    let world = World::new().await;
    let admin = world.caller(ADMIN).await;
    let elsewhere = world.workspace("elsewhere").await;
    let scope = NewTokenScope::builder()
        .workspaces(vec![world.workspace.id])
        .actions(actions(&[Action::MemoryRead]))
        .audience(vec!["org:acme".parse().unwrap()]);
    let new = scoped(scope.build());
    let made = world.by(&admin).create_token(member_of(&admin), &new);
    let made = made.await.unwrap();
    let expected = new.scope.unwrap();
    assert_eq!(made.token.scope, expected.into());
    let token = Caller::from(secret(&made).clone());
    world.by(&token).get_workspace().await.unwrap();
    let outside = world.by(&token).within(elsewhere).get_workspace().await;
    assert_eq!(code(outside), "not_found");
    let dashboard = world.by(&token).get_dashboard().await;
    assert_eq!(code(dashboard), "forbidden");
}

#[tokio::test]
async fn token_request_is_checked() {
    let world = World::with(|options| options.limits.token_lifetime_max = 30 * DAY).await;
    let member = world.member(MEMBER).await;
    let by = world.trusted(member);
    let create = async |new: NewApiToken| world.by(&by).create_token(member, &new).await;
    let lasting = |lifetime| NewApiToken::builder().name("A").lifetime(lifetime).build();
    let wrong = "expires_in_seconds invalid_value";
    assert_eq!(problem(create(lasting(30 * DAY + HOUR)).await), wrong);
    assert_eq!(problem(create(lasting(Duration::ZERO)).await), wrong);
    let longest = create(lasting(30 * DAY)).await.unwrap().token;
    assert_eq!(longest.expires_at, world.time.now().plus(30 * DAY));
    // Without a lifetime it is 90 days, or what is allowed.
    let usual = create(named("B")).await.unwrap().token;
    assert_eq!(usual.expires_at, longest.expires_at);
    assert_eq!(problem(create(named("")).await), "name too_small");
    let unknown = WorkspaceId(uuid::Uuid::from_u128(7));
    let places = vec![world.workspace.id, unknown];
    let scope = NewTokenScope::builder().workspaces(places).build();
    let refused = create(scoped(scope)).await;
    assert_eq!(problem(refused), "narrowing.workspaces[1] not_found");
    world.assert_whole().await;
}

#[tokio::test]
async fn tokens_of_another_person_are_their_own() {
    let world = World::new().await;
    let member = world.member(VIEWER).await;
    let theirs = world.token(member, TokenScope::default()).await.record.id;
    let plain = world.caller(MEMBER).await;
    for by in [&world.owner, &plain] {
        assert_eq!(code(create(&world, by, member).await), "forbidden");
        assert_eq!(code(list(&world, by, member).await), "forbidden");
        let read = world.by(by).get_token(member, theirs).await;
        assert_eq!(code(read), "forbidden");
        let ended = world.by(by).end_token(member, theirs, false).await;
        assert_eq!(code(ended), "forbidden");
    }
    // Nor is one reached through the path of somebody else.
    let bot = account(&world, VIEWER, &[]).await;
    let ended = world.end_token(bot, theirs, false).await;
    assert_eq!(code(ended), "not_found");
    let unknown = MemberId(uuid::Uuid::from_u128(7));
    assert_eq!(
        code(create(&world, &world.owner, unknown).await),
        "not_found"
    );
    assert_eq!(code(create(&world, &plain, unknown).await), "forbidden");
}

#[tokio::test]
async fn tokens_of_service_accounts_need_the_permission() {
    let world = World::new().await;
    let bot = account(&world, VIEWER, &[]).await;
    let plain = world.caller(MEMBER).await;
    assert_eq!(code(create(&world, &plain, bot).await), "forbidden");
    let keeper = keeper(&world, &[]).await;
    let made = create(&world, &keeper, bot).await.unwrap();
    assert_eq!(made.token.created_by, Some(member_of(&keeper)));
    let token = Caller::from(secret(&made).clone());
    let seen = world.service.authenticate(&token, CredentialKind::Bearer);
    assert_eq!(seen.await.unwrap().member_id(), bot);
    assert_eq!(code(list(&world, &plain, bot).await), "forbidden");
    let ended = world.by(&plain).end_token(bot, made.token.id, false).await;
    assert_eq!(code(ended), "forbidden");
    let id = made.token.id;
    world.by(&keeper).end_token(bot, id, false).await.unwrap();
    assert!(!is_taken(&world, secret(&made)).await);
}

#[tokio::test]
async fn tokens_of_service_accounts_need_coverage() {
    let world = World::new().await;
    let keeper = keeper(&world, &[]).await;
    let refuses = async |bot: MemberId| {
        assert_eq!(code(create(&world, &keeper, bot).await), "forbidden");
        assert_eq!(code(list(&world, &keeper, bot).await), "forbidden");
        let issued = world.token(bot, TokenScope::default()).await;
        let ended = world
            .by(&keeper)
            .end_token(bot, issued.record.id, false)
            .await;
        assert_eq!(code(ended), "forbidden");
        assert!(is_taken(&world, &issued.secret).await);
    };
    refuses(account(&world, MEMBER, &[]).await).await;
    // A role in one workspace counts there, and a team is one that only its members grant.
    let placed = account(&world, VIEWER, &[]).await;
    world
        .assign_in(placed, world.workspace.id, Some(MEMBER))
        .await
        .unwrap();
    refuses(placed).await;
    refuses(account(&world, VIEWER, &["finance"]).await).await;
    create(&world, &keeper, account(&world, VIEWER, &[]).await)
        .await
        .unwrap();
    // An admin has all actions, but does not act as an owner.
    let admin = world.caller(ADMIN).await;
    let owner = account(&world, OWNER, &[]).await;
    assert_eq!(code(create(&world, &admin, owner).await), "forbidden");
    create(&world, &world.owner, owner).await.unwrap();
    let all = account(&world, ADMIN, &["finance"]).await;
    create(&world, &admin, all).await.unwrap();
}

#[tokio::test]
async fn ended_token_is_rejected_and_not_listed() {
    let world = World::new().await;
    let member = world.member(MEMBER).await;
    let by = world.trusted(member);
    // Within a millisecond, the order is that of random identifiers.
    let first = create(&world, &by, member).await.unwrap();
    world.time.pass(MILLISECOND);
    let second = create(&world, &by, member).await.unwrap();
    world.time.pass(MILLISECOND);
    let issued = world.token(member, TokenScope::default()).await;
    let listed = list(&world, &by, member).await.unwrap();
    let listed: Vec<_> = listed
        .iter()
        .map(|token| (token.id, token.created_by))
        .collect();
    let by_member = |made: &IssuedApiToken| (made.token.id, Some(member));
    let expected = [
        by_member(&first),
        by_member(&second),
        (issued.record.id, None),
    ];
    assert_eq!(listed, expected);
    world
        .by(&by)
        .end_token(member, first.token.id, false)
        .await
        .unwrap();
    assert!(!is_taken(&world, secret(&first)).await);
    let again = world.by(&by).end_token(member, first.token.id, false).await;
    assert_eq!(code(again), "not_found");
    // A session ends tokens too, as it lists them.
    let session = world.session(member).await.secret;
    let second = second.token.id;
    world.end_own_credential(&session, second).await.unwrap();
    let operator = world.service.provisioning();
    operator
        .revoke(world.org.id, issued.record.id)
        .await
        .unwrap();
    assert_eq!(list(&world, &by, member).await.unwrap(), []);
    let counter = keys::token_count(world.org.id, member);
    assert_eq!(world.counter(counter).await, 0);
    world.assert_whole().await;
}

#[tokio::test]
async fn ended_token_ends_what_it_created_on_request() {
    let world = World::new().await;
    let by = world.caller(ADMIN).await;
    let member = member_of(&by);
    for with_created in [false, true] {
        let made = create(&world, &by, member).await.unwrap();
        let token = Caller::from(secret(&made).clone());
        let key = new_mcp_key("org:acme");
        let key = world.by(&token).create_mcp_key(&key).await.unwrap();
        let ended = world.by(&by);
        let ended = ended.end_token(member, made.token.id, with_created);
        ended.await.unwrap();
        let found = world.get_mcp_key(key.summary.id).await.unwrap();
        assert_eq!(found.state == ResourceState::Ended, with_created);
    }
    world.assert_whole().await;
}

/// Otherwise it would exist for whoever has the token.
#[tokio::test]
async fn token_does_not_open_a_private_workspace() {
    let world = World::new().await;
    let admin = world.caller(ADMIN).await;
    let bot = account(&world, VIEWER, &[]).await;
    let board = world.workspace("board").await;
    let assigned = world.assign_in(bot, board, Some(VIEWER));
    assigned.await.unwrap();
    create(&world, &admin, bot).await.unwrap();
    let private = new_access(WorkspaceAccess::Private);
    world.within(board).set_access(&private).await.unwrap();
    assert_eq!(code(create(&world, &admin, bot).await), "forbidden");
    let Err(Error::Forbidden { reason, .. }) = list(&world, &admin, bot).await else {
        panic!("the account has a role that does not exist for the administrator");
    };
    assert!(reason.starts_with("cannot manage credentials"), "{reason}");
    create(&world, &world.owner, bot).await.unwrap();
    let scope = NewTokenScope::builder().workspaces(vec![board]).build();
    let own = world.by(&admin);
    let own = own.create_token(member_of(&admin), &scoped(scope)).await;
    assert_eq!(problem(own), "narrowing.workspaces[0] not_found");
    world.assert_whole().await;
}

fn labels(names: &[&str]) -> Vec<AudienceLabel> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

/// A label of an unknown workspace looks like that of a private one.
#[tokio::test]
async fn token_is_shown_without_hidden_workspaces() {
    let world = World::new().await;
    let admin = world.caller(ADMIN).await;
    let bot = account(&world, VIEWER, &[]).await;
    let board = world.workspace("board").await;
    let private = new_access(WorkspaceAccess::Private);
    world.within(board).set_access(&private).await.unwrap();
    let named = labels(&[
        "org:acme",
        "workspace:board",
        "workspace:nowhere",
        "workspace:research",
    ]);
    let scope = NewTokenScope::builder()
        .workspaces(vec![board])
        .audience(named.clone())
        .build();
    let by = world.by(&world.owner);
    let made = by.create_token(bot, &scoped(scope)).await.unwrap().token;
    assert_eq!(made.scope.audience, Some(named));
    let shown = |workspaces: Vec<WorkspaceId>, audience: Vec<AudienceLabel>| TokenScope {
        workspaces: Some(workspaces),
        actions: None,
        audience: Some(audience),
    };
    let hidden = shown(vec![], labels(&["org:acme", "workspace:research"]));
    let known = labels(&["org:acme", "workspace:board", "workspace:research"]);
    for (caller, expected) in [(&admin, hidden), (&world.owner, shown(vec![board], known))] {
        let listed = list(&world, caller, bot).await.unwrap();
        assert_eq!(listed[0].scope, expected);
        let read = world.by(caller).get_token(bot, made.id).await.unwrap();
        assert_eq!(read.scope, expected);
    }
    // Whoever manages the account ends it all the same.
    let ended = world.by(&admin).end_token(bot, made.id, false).await;
    ended.unwrap();
    world.assert_whole().await;
}

#[tokio::test]
async fn token_shows_its_last_use() {
    let world = World::new().await;
    let by = world.caller(MEMBER).await;
    let member = member_of(&by);
    let made = create(&world, &by, member).await.unwrap();
    world.time.pass(HOUR);
    let token = Caller::from(secret(&made).clone());
    world.service.note_use(&token).await;
    let used = Some(world.time.now());
    let read = world.by(&by).get_token(member, made.token.id).await;
    assert_eq!(read.unwrap().last_used_at, used);
    let listed = list(&world, &by, member).await.unwrap();
    assert_eq!(listed[0].last_used_at, used);
}

#[tokio::test]
async fn tokens_per_member_are_limited_until_they_end_or_expire() {
    let world = World::with(|options| options.limits.tokens_per_member_max = 2).await;
    let by = world.caller(MEMBER).await;
    let member = member_of(&by);
    let first = create(&world, &by, member).await.unwrap().token.id;
    create(&world, &by, member).await.unwrap();
    let full = "body limit_reached";
    assert_eq!(problem(create(&world, &by, member).await), full);
    // Others have their own, and the operator is not limited.
    create(&world, &world.owner, member_of(&world.owner))
        .await
        .unwrap();
    world.token(member, TokenScope::default()).await;
    world.by(&by).end_token(member, first, false).await.unwrap();
    assert_eq!(problem(create(&world, &by, member).await), full);
    world.assert_whole().await;
    // One that has expired has no place any more, purged or not.
    world.time.pass(91 * DAY);
    assert_eq!(list(&world, &by, member).await.unwrap(), []);
    create(&world, &by, member).await.unwrap();
    world.assert_whole().await;
    world.maintain().await;
    let counter = keys::token_count(world.org.id, member);
    assert_eq!(world.counter(counter).await, 1);
    world.assert_whole().await;
}

#[tokio::test]
async fn removal_of_a_member_removes_its_tokens() {
    let world = World::new().await;
    let bot = account(&world, MEMBER, &[]).await;
    let made = create(&world, &world.owner, bot).await.unwrap();
    world.remove_member(bot).await.unwrap();
    assert!(!is_taken(&world, secret(&made)).await);
    let read = world.get_token(bot, made.token.id).await;
    assert_eq!(code(read), "not_found");
    world.maintain().await;
    let counter = keys::token_count(world.org.id, bot);
    assert_eq!(world.counter(counter).await, 0);
    world.assert_whole().await;
}

#[tokio::test]
async fn tokens_are_audited_without_their_secrets() {
    let world = World::new().await;
    let bot = account(&world, VIEWER, &[]).await;
    let by = world.caller(ADMIN).await;
    let made = create(&world, &by, bot).await.unwrap();
    world
        .by(&by)
        .end_token(bot, made.token.id, false)
        .await
        .unwrap();
    let mut found = entries(&world).await;
    found.retain(|entry| entry.resource.id == made.token.id.0);
    let facts: Vec<_> = found
        .iter()
        .map(|entry| (entry.action, entry.actor_id))
        .collect();
    let actor = Some(member_of(&by));
    let expected = [
        (AuditAction::CredentialCreate, actor),
        (AuditAction::CredentialRevoke, actor),
    ];
    assert_eq!(facts, expected);
    let text = serde_json::to_string(&found).unwrap();
    assert!(!text.contains(secret(&made).expose()));
    assert!(!text.contains(&secret(&made).hash().to_string()));
}

/// Adds a person, with a login link if `login_link`.
async fn invite(
    world: &World,
    by: &Caller,
    login_link: bool,
) -> knowledge_core::service::AddedMember {
    let new = with(new_member(&world.name("new"), MEMBER), |new| {
        new.login_link = login_link;
    });
    world.by(by).add_member(&new).await.unwrap().value
}

#[tokio::test]
async fn new_member_signs_in_once_with_the_link_of_its_addition() {
    let world = World::new().await;
    assert_eq!(invite(&world, &world.owner, false).await.login_link, None);
    let added = invite(&world, &world.owner, true).await;
    let link = added.login_link.unwrap();
    assert_eq!(link.expires_at, world.time.now().plus(DAY));
    let session = world.sign_in(link.secret.expose()).await.unwrap();
    assert_eq!(session.record.member_id, added.details.member.id);
    let again = world.sign_in(link.secret.expose()).await;
    assert_eq!(code(again), "unauthenticated");

    let late = invite(&world, &world.owner, true).await;
    world.time.pass(DAY);
    let link = late.login_link.unwrap();
    let refused = world.sign_in(link.secret.expose()).await;
    assert_eq!(code(refused), "unauthenticated");
    // Until then, a new link can be had.
    let id = late.details.member.id;
    let link = world.create_login_link(id).await.unwrap();
    world.sign_in(link.secret.expose()).await.unwrap();
    assert_eq!(code(world.create_login_link(id).await), "forbidden");
    world.assert_whole().await;
}

#[tokio::test]
async fn new_login_link_replaces_the_earlier_one() {
    let world = World::new().await;
    let added = invite(&world, &world.owner, true).await;
    let id = added.details.member.id;
    let first = added.login_link.unwrap().secret;
    let second = world.create_login_link(id).await.unwrap().secret;
    let third = world.create_login_link(id).await.unwrap().secret;
    for earlier in [first, second] {
        assert_eq!(
            code(world.sign_in(earlier.expose()).await),
            "unauthenticated"
        );
    }
    world.sign_in(third.expose()).await.unwrap();
    world.assert_whole().await;
}

/// Otherwise whoever manages members would read what is labelled for a person.
#[tokio::test]
async fn login_link_is_no_way_into_what_belongs_to_somebody() {
    let world = World::new().await;
    // Members of the operator, and those who have a token or a session.
    let provisioned = world.member(VIEWER).await;
    assert_eq!(
        code(world.create_login_link(provisioned).await),
        "forbidden"
    );
    let with_token = invite(&world, &world.owner, false).await.details.member.id;
    let early = world.create_login_link(with_token).await.unwrap().secret;
    world.token(with_token, TokenScope::default()).await;
    assert_eq!(code(world.create_login_link(with_token).await), "forbidden");
    let refused = world.sign_in(early.expose()).await;
    assert_eq!(code(refused), "unauthenticated");
    let added = invite(&world, &world.owner, true).await;
    let (with_session, early) = (added.details.member.id, added.login_link.unwrap().secret);
    world.session(with_session).await;
    let refused = world.create_login_link(with_session).await;
    assert_eq!(code(refused), "forbidden");
    let refused = world.sign_in(early.expose()).await;
    assert_eq!(code(refused), "unauthenticated");
    let bot = with(new_member("bot", VIEWER), |new| {
        new.kind = MemberKind::ServiceAccount;
    });
    let bot = world
        .add_member(&bot)
        .await
        .unwrap()
        .value
        .details
        .member
        .id;
    assert_eq!(code(world.create_login_link(bot).await), "forbidden");
}

#[tokio::test]
async fn login_link_needs_coverage() {
    let world = World::new().await;
    let manage = actions(&[Action::MemberManage]);
    let role = world.role(BaseRole::Viewer, manage, NONE).await;
    let keeper = world.caller(custom(role.id)).await;
    let added = invite(&world, &world.owner, true).await.details.member.id;
    let refused = world.by(&keeper).create_login_link(added).await;
    assert_eq!(code(refused), "forbidden");
    let plain = world.caller(MEMBER).await;
    let refused = world.by(&plain).create_login_link(added).await;
    assert_eq!(code(refused), "forbidden");
    let admin = world.caller(ADMIN).await;
    world.by(&admin).create_login_link(added).await.unwrap();
    world.remove_member(added).await.unwrap();
    assert_eq!(code(world.create_login_link(added).await), "not_found");
    world.assert_whole().await;
}

/// Otherwise whoever added a person would become what others make of it.
#[tokio::test]
async fn login_link_ends_when_the_role_or_the_teams_of_the_person_change() {
    let world = World::new().await;
    let (org, operator) = (world.org.id, world.service.provisioning());
    let workspace = world.workspace.id;
    let admin = world.caller(ADMIN).await;
    let teams = vec!["platform".to_owned()];
    for change in 0..6 {
        let added = invite(&world, &admin, true).await;
        let (id, mut secret) = (added.details.member.id, added.login_link.unwrap().secret);
        match change {
            0 => {
                let update = MemberUpdate::builder().role(OWNER).build();
                world.update_member(id, &update, None).await.unwrap();
            }
            1 => {
                let update = MemberUpdate::builder().teams(teams.clone()).build();
                world.update_member(id, &update, None).await.unwrap();
            }
            2 => world.assign_in(id, workspace, Some(ADMIN)).await.unwrap(),
            3 => {
                world.assign_in(id, workspace, Some(VIEWER)).await.unwrap();
                // Whoever covers the person now can create another one.
                let link = world.by(&admin).create_login_link(id).await.unwrap();
                secret = link.secret;
                world.end_workspace_role(id, workspace).await.unwrap();
            }
            4 => {
                let owner = MemberAssignment::Organization(OWNER);
                operator.assign_role(org, id, owner).await.unwrap();
            }
            _ => {
                let aligned = operator.align_teams(org, id, &teams, &teams);
                aligned.await.unwrap();
            }
        }
        let refused = world.sign_in(secret.expose()).await;
        assert_eq!(code(refused), "unauthenticated", "{change}");
        if [0, 4].contains(&change) {
            let refused = world.by(&admin).create_login_link(id).await;
            assert_eq!(code(refused), "forbidden");
        }
        let link = world.create_login_link(id).await.unwrap();
        world.sign_in(link.secret.expose()).await.unwrap();
    }
    world.assert_whole().await;
}

/// A person with the custom role `role`, whom `by` added with its session, with a login link.
struct Invited {
    person: MemberId,
    role: RoleId,
    by: MemberId,
    session: Issued,
    link: Secret,
}

impl Invited {
    /// Adds a person with the actions of a viewer, by a member who covers no more than those.
    async fn new(world: &World) -> Self {
        let manage = actions(&[Action::MemberManage]);
        let keeper = world.role(BaseRole::Viewer, manage, NONE).await;
        let by = world.member(custom(keeper.id)).await;
        let session = world.session(by).await;
        let role = world.plain_role(BaseRole::Viewer).await.id;
        let new = with(new_member(&world.name("new"), custom(role)), |new| {
            new.login_link = true;
        });
        let caller = Caller::from(session.secret.clone());
        let added = world.by(&caller).add_member(&new).await.unwrap().value;
        Self {
            person: added.details.member.id,
            role,
            by,
            session,
            link: added.login_link.unwrap().secret,
        }
    }
}

fn to_member() -> CustomRoleUpdate {
    CustomRoleUpdate::builder()
        .base_role(BaseRole::Member)
        .build()
}

/// Otherwise whoever added a person would become what it could not grant.
#[tokio::test]
async fn login_link_ends_when_its_creator_could_not_create_it() {
    let world = World::new().await;
    let wider = world.plain_role(BaseRole::Member).await.id;
    for change in 0..5 {
        let invited = Invited::new(&world).await;
        match change {
            0 => {
                let update = to_member();
                let changed = world.update_role(invited.role, &update, None);
                changed.await.unwrap();
            }
            1 => {
                let to = DeleteRole::builder().reassign_to(custom(wider)).build();
                world.delete_role(invited.role, &to).await.unwrap();
            }
            2 => world.assign(invited.by, VIEWER).await.unwrap(),
            3 => world.remove_member(invited.by).await.unwrap(),
            _ => {
                let (operator, id) = (world.service.provisioning(), invited.session.record.id);
                let ended = operator.revoke_with_created(world.org.id, id);
                ended.await.unwrap();
            }
        }
        let refused = world.sign_in(invited.link.expose()).await;
        assert_eq!(code(refused), "unauthenticated", "{change}");
        let link = world.create_login_link(invited.person).await.unwrap();
        world.sign_in(link.secret.expose()).await.unwrap();
    }
    world.assert_whole().await;
}

#[tokio::test]
async fn login_link_outlives_what_its_creator_covers() {
    let world = World::new().await;
    let invited = Invited::new(&world).await;
    let renamed = CustomRoleUpdate::builder().name("Readers").build();
    let renamed = world.update_role(invited.role, &renamed, None);
    renamed.await.unwrap();
    world.sign_out(&invited.session.secret).await.unwrap();
    world.sign_in(invited.link.expose()).await.unwrap();
    world.assert_whole().await;
}

#[tokio::test]
async fn sign_in_with_a_link_does_not_cross_a_change_of_the_role() {
    let world = World::new().await;
    let invited = Invited::new(&world).await;
    let (service, owner) = (world.service.clone(), world.owner.clone());
    let (slug, role) = (world.org.slug.clone(), invited.role);
    world.probe.before_commit(async move {
        let (roles, update) = (service.roles(), to_member());
        let changed = roles.update(&owner, &slug, role, &update, None);
        changed.await.unwrap();
    });
    let refused = world.sign_in(invited.link.expose()).await;
    assert!(world.probe.has_happened());
    assert_eq!(code(refused), "unauthenticated");
    world.assert_whole().await;
}

/// Otherwise the workspace would exist for whoever has the link.
#[tokio::test]
async fn login_link_does_not_open_a_workspace_that_is_closed_later() {
    let world = World::new().await;
    let admin = world.caller(ADMIN).await;
    let person = invite(&world, &admin, false).await.details.member.id;
    let board = world.workspace("board").await;
    let assigned = world.assign_in(person, board, Some(VIEWER));
    assigned.await.unwrap();
    let link = world.by(&admin).create_login_link(person).await.unwrap();
    let private = new_access(WorkspaceAccess::Private);
    world.within(board).set_access(&private).await.unwrap();
    let refused = world.sign_in(link.secret.expose()).await;
    assert_eq!(code(refused), "unauthenticated");
    let link = world.create_login_link(person).await.unwrap();
    world.sign_in(link.secret.expose()).await.unwrap();
}

#[tokio::test]
async fn login_link_outlives_changes_of_the_name() {
    let world = World::new().await;
    let added = invite(&world, &world.owner, true).await;
    let update = MemberUpdate::builder().name("Grace").build();
    let id = added.details.member.id;
    world.update_member(id, &update, None).await.unwrap();
    let link = added.login_link.unwrap();
    world.sign_in(link.secret.expose()).await.unwrap();
}

#[tokio::test]
async fn login_link_has_the_url_of_the_service() {
    let world = World::new().await;
    world.service.set_base_url("https://k.example/".to_owned());
    let link = invite(&world, &world.owner, true).await.login_link.unwrap();
    let expected = format!("https://k.example/#/login/{}", link.secret.expose());
    assert_eq!(link.url, Some(expected));
}

#[tokio::test]
async fn login_link_is_audited_with_the_addition() {
    let world = World::new().await;
    let by = world.caller(ADMIN).await;
    let added = invite(&world, &by, true).await;
    let link = added.login_link.unwrap();
    world
        .service
        .sessions()
        .sign_in(link.secret.expose(), ClientInfo::default())
        .await
        .unwrap();
    let found = entries(&world).await;
    let addition = found
        .iter()
        .find(|entry| entry.resource.id == added.details.member.id.0)
        .unwrap();
    assert_eq!(addition.actor_id, Some(member_of(&by)));
    let id = addition.after.as_ref().unwrap()["login_link_id"].clone();
    let sign_in = found
        .iter()
        .find(|entry| entry.action == AuditAction::CredentialCreate);
    let by_link = sign_in.unwrap().credential_id.unwrap();
    assert_eq!(id, by_link.to_string());
    let text = serde_json::to_string(&found).unwrap();
    assert!(!text.contains(link.secret.expose()));
}

#[tokio::test]
async fn login_link_is_for_people_and_not_of_the_operator() {
    let world = World::new().await;
    let bot = with(new_member("bot", VIEWER), |new| {
        new.kind = MemberKind::ServiceAccount;
        new.login_link = true;
    });
    let wrong = "login_link invalid_value";
    assert_eq!(problem(world.add_member(&bot).await), wrong);
    let person = with(new_member("robin", VIEWER), |new| new.login_link = true);
    let operator = world.service.provisioning();
    let refused = operator.create_member(world.org.id, &person).await;
    assert_eq!(problem(refused), wrong);
}
