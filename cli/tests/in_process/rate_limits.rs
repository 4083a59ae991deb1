//! Rate limits, as callers meet them. Unless stated, the limit refills too slowly for a test to
//! notice.

use std::time::Duration;

use http::{Method, StatusCode};
use knowledge_core::access::{
    Action, ActionSet, BaseRole, BuiltInRole, Credential, CredentialKind, RoleRef,
};
use knowledge_core::model::{MemberId, MemberKind, NewCustomRole, RoleActions};
use knowledge_core::service::{Caller, MemberAssignment, NewMember};
use knowledge_server::net::{NetConfig, RateLimitConfig};
use knowledge_testing::requests::new_token;
use serde_json::json;

use crate::support::{
    Answer, Call, InProcess, Operation, Sender, bulk, create_inbound_webhook, dashboard,
    list_roles, update_role,
};

/// A window in which one request becomes free every 20 minutes.
const WINDOW: Duration = Duration::from_secs(60 * 60);

async fn server(requests: u32, window: Duration) -> InProcess {
    InProcess::behind(NetConfig {
        rate_limit: RateLimitConfig { requests, window },
        ..NetConfig::default()
    })
    .await
}

/// Returns the token of a new service account that may act for members.
async fn acting_bot(server: &InProcess) -> String {
    let (service, org) = (&server.service, server.org());
    let provisioning = service.provisioning();
    let owner = Caller::from(Credential::Trusted {
        org: org.id,
        member: org.members.owner.id,
    });
    let actions = RoleActions {
        allow: ActionSet::of(&[Action::MemberActFor]),
        deny: ActionSet::EMPTY,
    };
    let role = NewCustomRole::builder()
        .name("Acting")
        .slug("acting")
        .base_role(BaseRole::Viewer)
        .actions(actions)
        .build();
    let role = service.roles().create(&owner, &org.slug, &role).await;
    let bot = NewMember::builder()
        .handle("bot")
        .name("Bot")
        .kind(MemberKind::ServiceAccount)
        .role(RoleRef::Custom(role.expect("a role").id))
        .build();
    let bot = provisioning
        .create_member(org.id, &bot)
        .await
        .expect("a member");
    let token = new_token(bot.id, CredentialKind::Bearer);
    let issued = provisioning.issue(org.id, &token).await;
    issued.expect("a token").secret.expose().to_owned()
}

/// Returns the status and the rate limit headers.
fn quota(answer: &Answer) -> (u16, &str, &str) {
    (
        answer.status.as_u16(),
        answer.header("ratelimit-policy"),
        answer.header("ratelimit"),
    )
}

#[tokio::test]
async fn response_states_remaining_requests() {
    let server = server(3, WINDOW).await;
    let org = server.org();
    let policy = "\"default\";q=3;w=3600";
    let call = dashboard(&org.members.viewer.token, org.main.id);
    let answer = call.clone().send_to(&server.base_url).await;
    assert_eq!(quota(&answer), (200, policy, "\"default\";r=2;t=1200"));
    // Errors count too.
    let unknown = dashboard(&org.members.viewer.token, uuid::Uuid::nil().into());
    let answer = unknown.send_to(&server.base_url).await;
    assert_eq!(quota(&answer), (404, policy, "\"default\";r=1;t=2400"));
    let answer = call.clone().send_to(&server.base_url).await;
    assert_eq!(quota(&answer), (200, policy, "\"default\";r=0;t=3600"));

    let refused = call.send_to(&server.base_url).await;
    let wait: u64 = refused.header("retry-after").parse().expect("seconds");
    assert!((1..=1_200).contains(&wait), "{wait}");
    let left = format!("\"default\";r=0;t={wait}");
    assert_eq!(quota(&refused), (429, policy, left.as_str()));
}

#[tokio::test]
async fn rate_limit_error_has_the_shape_of_its_operation() {
    let server = server(1, WINDOW).await;
    let org = server.org();
    let first = dashboard(&org.members.owner.token, org.main.id);
    assert_eq!(first.send_to(&server.base_url).await.status, StatusCode::OK);
    for operation in Operation::all(org) {
        let answer = operation.call.clone().send_to(&server.base_url).await;
        assert_eq!(
            answer.status,
            StatusCode::TOO_MANY_REQUESTS,
            "{}",
            operation.name
        );
        let wait = answer.header("retry-after");
        let expected = format!("too many requests; try again in {wait} s");
        assert_eq!(
            operation.error_of(&answer),
            ("rate_limited".to_owned(), expected)
        );
        if !operation.has_errors_in_headers {
            let told = answer.json()["details"]["retry_after_seconds"].to_string();
            assert_eq!(told, wait, "{}", operation.name);
        }
    }
}

#[tokio::test]
async fn rate_limited_request_has_no_effect() {
    let server = server(2, WINDOW).await;
    let org = server.org();
    let memory = org.main.memories.internal[0];
    let relabel = |tag: &str| {
        bulk(
            &org.members.owner.token,
            &json!({ "memoryIds": [memory], "audienceTag": tag }),
        )
    };
    for _ in 0..2 {
        let answer = relabel("team:first").send_to(&server.base_url).await;
        assert_eq!(answer.status, StatusCode::OK);
    }
    let refused = relabel("team:second").send_to(&server.base_url).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    let raise = json!({ "memoryIds": [memory], "sensitivityLabel": "confidential" });
    let answer = bulk(&org.members.admin.token, &raise)
        .send_to(&server.base_url)
        .await;
    let memory = &answer.json()["results"][0]["memory"];
    assert_eq!(memory["audienceTag"], "team:first");
}

/// A service account uses up its own quota for its members, and each of theirs.
#[tokio::test]
async fn request_for_a_member_counts_for_both() {
    let server = server(4, WINDOW).await;
    let org = server.org();
    let send = async |call: Call| call.send_to(&server.base_url).await;
    let bot = acting_bot(&server).await;
    let (viewer, member) = (org.members.viewer.id, org.members.member.id);
    let for_member = async |token: &str, member: MemberId| {
        let call = dashboard(token, org.main.id);
        send(call.header("Knowledge-Act-For", member.to_string())).await
    };
    // The first one of a member is not counted for it: it may be one that the account only names.
    for left in [3, 2] {
        let answer = for_member(&bot, viewer).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.header("ratelimit").contains(&format!("r={left};")));
    }
    let own = send(dashboard(&org.members.viewer.token, org.main.id)).await;
    assert!(own.header("ratelimit").contains("r=2;"), "{own:?}");
    // Whoever is only named loses nothing.
    let refused = for_member(&bot, org.members.owner.id).await;
    assert_eq!(refused.status, 403);
    let owner = send(dashboard(&org.members.owner.token, org.main.id)).await;
    assert_eq!(owner.status, 200);
    assert_eq!(for_member(&bot, member).await.status, 200);
    assert_eq!(for_member(&bot, member).await.status, 429);
}

/// A service account that may not act for a member any more takes nothing from it, but by the
/// request that shows it.
#[tokio::test]
async fn refused_service_account_uses_up_nobodys_quota() {
    let server = server(20, WINDOW).await;
    let org = server.org();
    let send = async |call: Call| call.send_to(&server.base_url).await;
    let bot = acting_bot(&server).await;
    let viewer = &org.members.viewer;
    let for_viewer = async || {
        let call = dashboard(&bot, org.main.id);
        send(call.header("Knowledge-Act-For", viewer.id.to_string())).await
    };
    for _ in 0..2 {
        assert_eq!(for_viewer().await.status, 200);
    }
    let owner = MemberAssignment::Organization(RoleRef::BuiltIn(BuiltInRole::Owner));
    let provisioning = server.service.provisioning();
    let assigned = provisioning.assign_role(org.id, viewer.id, owner).await;
    assigned.expect("the role is assigned");
    for left in [17, 16, 15] {
        let refused = for_viewer().await;
        assert_eq!(refused.status, 403);
        let quota = refused.header("ratelimit");
        assert!(quota.contains(&format!("r={left};")), "{quota}");
    }
    let own = send(dashboard(&viewer.token, org.main.id)).await;
    assert!(own.header("ratelimit").contains("r=17;"), "{own:?}");
}

#[tokio::test]
async fn rate_limit_is_shared_by_credentials_of_a_principal() {
    let server = server(3, WINDOW).await;
    let org = server.org();
    let (owner, admin) = (&org.members.owner, &org.members.admin);
    let status = async |call: Call| call.send_to(&server.base_url).await.status.as_u16();
    assert_eq!(status(dashboard(&owner.token, org.main.id)).await, 200);
    assert_eq!(
        status(dashboard(&owner.second_token, org.main.id)).await,
        200
    );
    assert_eq!(status(list_roles(&owner.session, &org.slug)).await, 200);
    for call in [
        dashboard(&owner.token, org.main.id),
        dashboard(&owner.second_token, org.main.id),
        update_role(&owner.session, &org.slug, org.roles.guest, &json!({})),
    ] {
        assert_eq!(status(call).await, 429);
    }
    assert_eq!(status(dashboard(&admin.token, org.main.id)).await, 200);
}

#[tokio::test]
async fn unauthenticated_requests_are_limited_by_address() {
    let server = server(3, WINDOW).await;
    let org = server.org();
    let revoked = &org.tokens.dead.revoked;
    let status = async |call: Call| call.send_to(&server.base_url).await.status.as_u16();
    assert_eq!(status(dashboard(revoked, org.main.id)).await, 401);
    assert_eq!(status(dashboard("wkt_nothing", org.main.id)).await, 401);
    assert_eq!(status(Call::new(Method::GET, "/nowhere")).await, 404);
    let refused = dashboard(revoked, org.main.id)
        .send_to(&server.base_url)
        .await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.header("error-code"), "rate_limited");
    // An authenticated caller has its own limit, independent of its address.
    assert_eq!(
        status(dashboard(&org.members.viewer.token, org.main.id)).await,
        200
    );
}

#[tokio::test]
async fn verified_messages_are_limited_by_inbound_webhook_and_others_by_address() {
    let server = server(3, WINDOW).await;
    let org = server.org();
    let sender = async || {
        let new = json!({ "name": "Tickets" });
        let made = create_inbound_webhook(&org.members.owner.token, org.main.id, &new);
        Sender::of(made.send_to(&server.base_url).await.json())
    };
    let (sender, other) = (sender().await, sender().await);
    let batch = json!({ "memories": [{ "title": "Down", "content": "It is down." }] });
    let send = async |call: Call| call.send_to(&server.base_url).await;
    let status = async |call: Call| send(call).await.status.as_u16();

    // A stranger at the same address spends the quota of the address.
    let forged = Sender {
        secret: other.secret.clone(),
        ..Sender::of(sender.record.clone())
    };
    let unsigned = |id| sender.message(id, &batch).without("webhook-signature");
    assert_eq!(status(forged.message("msg_1", &batch)).await, 401);
    assert_eq!(status(unsigned("msg_1")).await, 401);
    assert_eq!(status(forged.message("msg_2", &batch)).await, 401);
    assert_eq!(status(forged.message("msg_3", &batch)).await, 429);
    assert_eq!(status(unsigned("msg_3")).await, 429);

    let policy = "\"default\";q=3;w=3600";
    for (id, left) in [("msg_1", "r=2;t=1200"), ("msg_2", "r=1;t=2400")] {
        let answer = send(sender.message(id, &batch)).await;
        assert_eq!(
            quota(&answer),
            (204, policy, &*format!("\"default\";{left}"))
        );
    }
    // A signed message counts whatever it contains.
    assert_eq!(status(sender.message("msg_3", &json!({}))).await, 400);
    assert_eq!(status(sender.message("msg_4", &batch)).await, 429);
    assert_eq!(status(other.message("msg_1", &batch)).await, 204);
}

#[tokio::test]
async fn rate_limit_refills() {
    let server = server(1, Duration::from_secs(1)).await;
    let org = server.org();
    let call = dashboard(&org.members.viewer.token, org.main.id);
    let (mut answered, mut refused) = (0, 0);
    // A machine may pause for a second between two requests, so repeat until both cases occurred.
    while answered < 3 || refused == 0 {
        match call.clone().send_to(&server.base_url).await.status {
            StatusCode::OK => answered += 1,
            StatusCode::TOO_MANY_REQUESTS => refused += 1,
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn health_checks_are_not_rate_limited() {
    let server = server(1, WINDOW).await;
    for _ in 0..3 {
        for path in ["/healthz", "/readyz"] {
            let answer = Call::new(Method::GET, path).send_to(&server.base_url).await;
            assert_eq!(answer.status, StatusCode::OK);
            assert!(!answer.headers.contains_key("ratelimit"));
        }
    }
    let org = server.org();
    let call = dashboard("wkt_nothing", org.main.id);
    assert_eq!(
        call.send_to(&server.base_url).await.status,
        StatusCode::UNAUTHORIZED
    );
}

#[tokio::test]
async fn rate_limit_headers_are_absent_without_a_limit() {
    let server = InProcess::behind(NetConfig::default()).await;
    let org = server.org();
    let call = dashboard(&org.members.viewer.token, org.main.id);
    for _ in 0..10 {
        let answer = call.clone().send_to(&server.base_url).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert!(!answer.headers.contains_key("ratelimit"));
        assert!(!answer.headers.contains_key("ratelimit-policy"));
    }
}
