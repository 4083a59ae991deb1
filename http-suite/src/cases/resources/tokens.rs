//! `/v1/orgs/{orgSlug}/members/{memberId}/tokens`

use knowledge_core::model::MemberId;
use knowledge_testing::fixture::OrgFixture;
use serde_json::{Value, json};

use crate::support::{
    Answer, Call, Show, dashboard, delete, error, get, own_org, patch, post, problems, quiet_org,
};

suite![
    token_of_ones_own_is_created_listed_and_ended,
    token_is_narrowed_as_requested,
    token_is_shown_once_also_to_a_repeated_request,
    creations_of_a_token_remain_unless_it_is_scoped_or_ends_with_them,
    token_of_a_service_account_needs_permission_and_coverage,
    token_of_another_person_is_theirs,
    token_operations_take_no_token,
    token_reports_all_problems,
    tokens_are_audited,
];

fn tokens(org: &OrgFixture, member: MemberId) -> String {
    format!("/v1/orgs/{}/members/{member}/tokens", org.slug)
}

async fn by(session: &str, call: Call) -> Answer {
    call.session(session).await
}

/// Returns a field of the record in an envelope.
fn text(answer: &Answer, name: &str) -> String {
    let body = answer.json();
    let value = body["data"][name].as_str();
    value.unwrap_or_else(|| panic!("{name}: {body}")).to_owned()
}

async fn is_taken(org: &OrgFixture, token: &str) -> bool {
    dashboard(token, org.main.id).await.status == 200
}

fn ids(list: &Answer) -> Vec<String> {
    let body = list.json();
    let items = body["data"].as_array().expect("a list").iter();
    items
        .map(|item| item["id"].as_str().expect("an identifier").to_owned())
        .collect()
}

async fn token_of_ones_own_is_created_listed_and_ended() {
    let org = own_org();
    let viewer = &org.members.viewer;
    let all = tokens(org, viewer.id);
    let before = ids(&by(&viewer.session, get(&all)).await);
    let body = json!({ "name": "Search", "expires_in_seconds": 3_600 });
    let made = by(&viewer.session, post(&all).json(&body)).await;
    insta::assert_snapshot!(made.brief(), @r#"
    201 Created

    {
      "data": {
        "id": "<uuid 1>", "member_id": "<uuid 2>", "name": "Search",
        "narrowing": {"workspaces": null, "actions": null, "audience": null},
        "created_by": "<uuid 2>", "created_at": "<time>", "expires_at": "<time>",
        "created_with": "<uuid 3>", "last_used_at": null, "state": "active", "ended_reason": null,
        "ended_at": null, "secret": "<token>"
      }
    }
    "#);
    let secret = text(&made, "secret");
    assert!(is_taken(org, &secret).await);
    let token = format!("{all}/{}", text(&made, "id"));
    let read = by(&viewer.session, get(&token)).await;
    assert_eq!(read.status, 200);
    assert!(read.json()["data"].get("secret").is_none());
    assert!(read.json()["data"]["last_used_at"].is_string(), "{read:?}");
    let listed = by(&viewer.session, get(&all)).await;
    let mut expected = before.clone();
    expected.push(text(&made, "id"));
    assert_eq!(ids(&listed), expected);

    let ended = by(&viewer.session, delete(&token)).await;
    assert_eq!((ended.status.as_u16(), ended.body.len()), (204, 0));
    assert!(!is_taken(org, &secret).await);
    let gone = by(&viewer.session, delete(&token)).await;
    insta::assert_snapshot!(error(&gone), @r#"404 not_found: there is no such token {"kind":"token"}"#);
    assert_eq!(ids(&by(&viewer.session, get(&all)).await), before);
}

async fn token_is_narrowed_as_requested() {
    let org = own_org();
    let admin = &org.members.admin;
    let body = json!({
        "name": "Narrow",
        "narrowing": {
            "workspaces": [org.side.id], "actions": ["dashboard:read"],
            "audience": ["org:acme"],
        },
    });
    let made = by(&admin.session, post(tokens(org, admin.id)).json(&body)).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.json()["data"]["narrowing"], body["narrowing"]);
    let secret = text(&made, "secret");
    assert_eq!(dashboard(&secret, org.side.id).await.status, 200);
    assert_eq!(dashboard(&secret, org.main.id).await.status, 404);
    let memories = format!("/v1/workspaces/{}/memories", org.side.id);
    assert_eq!(get(memories).bearer(&secret).await.status, 403);
}

async fn token_is_shown_once_also_to_a_repeated_request() {
    let org = own_org();
    let member = &org.members.member;
    let call = post(tokens(org, member.id)).json(&json!({ "name": "Once" }));
    let call = call.key("one-token");
    let first = by(&member.session, call.clone()).await;
    let again = by(&member.session, call.clone()).await;
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (201, 201));
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(text(&again, "id"), text(&first, "id"));
    assert_eq!(again.json()["data"]["secret"], Value::Null);
    let ended = delete(format!("{}/{}", tokens(org, member.id), text(&first, "id")));
    assert_eq!(by(&member.session, ended).await.status, 204);
    assert_eq!(by(&member.session, call).await.status, 410);
}

/// Asserts that an MCP key and a webhook, which a token created, are active, or ended for a reason.
async fn assert_states(org: &OrgFixture, [key, webhook]: [&Value; 2], reason: Option<&str>) {
    let state = if reason.is_some() { "ended" } else { "active" };
    let workspace = format!("/v1/workspaces/{}", org.main.id);
    let secret = key["secret"].as_str().expect("a secret");
    let used = get(format!("{workspace}/memories")).bearer(secret).await;
    let expected = if reason.is_some() { 401 } else { 200 };
    assert_eq!(used.status, expected, "{reason:?}");

    let owner = &org.members.owner.token;
    let id = |record: &Value| record["id"].as_str().expect("an identifier").to_owned();
    let path = format!("{workspace}/mcp-keys/{}", id(key));
    let shown = get(path).bearer(owner).await.json();
    assert_eq!(shown["state"], state, "{shown}");
    assert_eq!(shown["endedReason"], json!(reason), "{shown}");
    assert_eq!(shown["endedAt"].is_string(), reason.is_some(), "{shown}");
    let summary = dashboard(owner, org.main.id).await.json();
    let keys = summary["mcp_keys"].as_array().expect("a list");
    assert!(keys.contains(&shown), "{summary}");

    let path = format!("{workspace}/webhooks/{}", id(webhook));
    let shown = get(path).bearer(owner).await.json();
    assert_eq!(shown["is_active"], reason.is_none(), "{shown}");
    assert_eq!(shown["state"] == "ended", reason.is_some(), "{shown}");
    assert_eq!(shown["ended_reason"], json!(reason), "{shown}");
}

async fn creations_of_a_token_remain_unless_it_is_scoped_or_ends_with_them() {
    let org = own_org();
    let admin = &org.members.admin;
    let all = tokens(org, admin.id);
    let workspace = format!("/v1/workspaces/{}", org.main.id);
    let new_key =
        json!({ "name": "Laptop", "client": "cursor", "audience": ["workspace:handbook"] });
    let new_webhook = json!({ "event_type": "chunk.created", "url": "https://example.com/hook" });
    let scope = json!({ "actions": ["memory:read", "mcp_key:manage", "webhook:manage"] });
    for (narrowing, with_created, reason) in [
        (None, false, None),
        (None, true, Some("ended_with_credential")),
        (Some(scope), false, Some("credential_revoked")),
    ] {
        let mut body = json!({ "name": "Script" });
        if let Some(narrowing) = narrowing {
            body["narrowing"] = narrowing;
        }
        let made = by(&admin.session, post(&all).json(&body)).await;
        let secret = text(&made, "secret");
        let create = async |path: &str, body: &Value| {
            let call = post(format!("{workspace}/{path}")).bearer(&secret);
            let created = call.json(body).await;
            assert_eq!(created.status, 201, "{created:?}");
            created.json()
        };
        let key = create("mcp-keys", &new_key).await;
        let webhook = create("webhooks", &new_webhook).await;
        assert_states(org, [&key, &webhook], None).await;
        let id = text(&made, "id");
        let end = delete(format!("{all}/{id}?with_created={with_created}"));
        assert_eq!(by(&admin.session, end).await.status, 204);
        assert_states(org, [&key, &webhook], reason).await;
    }
}

async fn token_of_a_service_account_needs_permission_and_coverage() {
    let org = own_org();
    let robot = tokens(org, org.members.robot.id);
    let body = json!({ "name": "Import" });
    let create = async |session: &str| by(session, post(&robot).json(&body)).await;
    let refused = create(&org.members.member.session).await;
    insta::assert_snapshot!(error(&refused), @r#"403 forbidden: missing permission token:manage {"permission":"token:manage"}"#);
    let made = create(&org.members.admin.session).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(text(&made, "member_id"), org.members.robot.id.to_string());
    assert_eq!(text(&made, "created_by"), org.members.admin.id.to_string());
    assert!(is_taken(org, &text(&made, "secret")).await);

    // A role with the permission alone does not cover a member.
    let path = format!("/v1/orgs/{}", org.slug);
    let role = json!({
        "name": "Keys", "slug": "keys", "base_role": "viewer",
        "actions": { "allow": ["token:manage"], "deny": [] },
    });
    let owner = &org.members.owner.session;
    let role = by(owner, post(format!("{path}/custom-roles")).json(&role)).await;
    let viewer = &org.members.viewer;
    let held = json!({ "role": text(&role, "id") });
    let held = patch(format!("{path}/members/{}", viewer.id)).json(&held);
    assert_eq!(by(owner, held).await.status, 200);
    let beyond = create(&viewer.session).await;
    assert_eq!(beyond.status, 403);
    let list = by(&viewer.session, get(&robot)).await;
    assert_eq!(list.status, 403);
    let token = format!("{robot}/{}", text(&made, "id"));
    assert_eq!(by(&viewer.session, delete(&token)).await.status, 403);
    assert_eq!(by(owner, delete(&token)).await.status, 204);
    assert!(!is_taken(org, &text(&made, "secret")).await);
}

async fn token_of_another_person_is_theirs() {
    let org = quiet_org();
    let theirs = tokens(org, org.members.viewer.id);
    for session in [&org.members.owner.session, &org.members.admin.session] {
        let refused = by(session, get(&theirs)).await;
        insta::allow_duplicates! {
            insta::assert_snapshot!(error(&refused), @r#"403 forbidden: people create, list and end their own tokens; only those of service accounts are managed by others {"permission":null}"#);
        }
    }
}

async fn token_operations_take_no_token() {
    let org = quiet_org();
    let admin = &org.members.admin;
    let all = tokens(org, admin.id);
    for token in [&admin.token, &org.tokens.reading_only] {
        let call = post(&all).json(&json!({ "name": "More" }));
        assert_eq!(call.bearer(token).await.status, 401);
        assert_eq!(get(&all).bearer(token).await.status, 401);
    }
}

async fn token_reports_all_problems() {
    let org = quiet_org();
    let admin = &org.members.admin;
    let body = json!({
        "name": "", "expires_in_seconds": 0, "narrowing": { "actions": ["memory:read"] },
    });
    let refused = by(&admin.session, post(tokens(org, admin.id)).json(&body)).await;
    insta::assert_snapshot!(problems(&refused), @"
    too_small: name must have 1 to 128 characters, not only white space, and no control characters
    invalid_value: expires_in_seconds must be greater than 0 and at most 31622400 seconds
    ");
    let unknown = uuid::Uuid::nil();
    let body = json!({ "name": "A", "narrowing": { "workspaces": [org.main.id, unknown] } });
    let refused = by(&admin.session, post(tokens(org, admin.id)).json(&body)).await;
    insta::assert_snapshot!(problems(&refused), @"not_found: narrowing.workspaces[1] must be a workspace of the organisation");
    let body = json!({ "name": "A", "narrowing": { "actions": ["memory:own"] } });
    let refused = by(&admin.session, post(tokens(org, admin.id)).json(&body)).await;
    assert_eq!(refused.status, 400);
}

async fn tokens_are_audited() {
    let org = own_org();
    let admin = &org.members.admin;
    let all = tokens(org, org.members.robot.id);
    let made = by(&admin.session, post(&all).json(&json!({ "name": "A" }))).await;
    let id = text(&made, "id");
    let ended = by(&admin.session, delete(format!("{all}/{id}"))).await;
    assert_eq!(ended.status, 204);
    let log = format!("/v1/audit-log?resource_kind=credential&resource_id={id}");
    let log = get(log).bearer(&org.members.owner.token).await.json();
    let entries = log["data"].as_array().expect("a list").iter();
    let facts: Vec<_> = entries
        .map(|entry| (entry["action"].clone(), entry["actor_id"].clone()))
        .collect();
    let actor = json!(admin.id);
    let expected = [
        (json!("credential.revoke"), actor.clone()),
        (json!("credential.create"), actor),
    ];
    assert_eq!(facts, expected, "{log}");
    assert!(!log.to_string().contains(&text(&made, "secret")));
}
