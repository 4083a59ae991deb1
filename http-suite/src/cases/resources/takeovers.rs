//! Nobody takes over, ends or takes away what they do not cover.

use knowledge_testing::fixture::{MemberFixture, OrgFixture};
use serde_json::{Value, json};

use crate::support::{
    Answer, Call, Sender, Show, bulk, create_inbound_webhook, delete, foreign_org, get, own_org,
    patch, post,
};

suite![
    mcp_key_is_rotated_and_revoked_by_those_who_cover_it,
    inbound_webhook_is_taken_over_and_ended_by_those_who_cover_it,
    source_of_inbound_webhook_stays_closed_to_others,
    member_manager_cannot_take_away_team_that_it_may_not_give,
    unknown_session_of_another_site_is_unauthenticated,
];

/// Gives a viewer a role that also manages MCP keys, inbound webhooks and memories.
async fn caretaker(org: &OrgFixture) -> &MemberFixture {
    let (owner, viewer) = (&org.members.owner.session, &org.members.viewer);
    let allow = ["mcp_key:manage", "inbound_webhook:manage", "memory:update"];
    let role = json!({
        "name": "Caretaker", "slug": "caretaker", "base_role": "viewer",
        "actions": { "allow": allow, "deny": [] },
    });
    let roles = format!("/v1/orgs/{}/custom-roles", org.slug);
    let created = post(roles).session(owner).json(&role).await;
    assert_eq!(created.status, 201, "{}", created.show());
    let role = json!({ "role": created.json()["data"]["id"] });
    let member = format!("/v1/orgs/{}/members/{}", org.slug, viewer.id);
    let assigned = patch(member).session(owner).json(&role).await;
    assert_eq!(assigned.status, 200, "{}", assigned.show());
    viewer
}

async fn by(member: &MemberFixture, call: Call) -> Answer {
    call.bearer(&member.token).await
}

/// Asserts that a call is rejected because of this action.
fn assert_beyond(answer: &Answer, action: &str) {
    assert_eq!(answer.status, 403, "{}", answer.show());
    let message = format!("cannot take over or end what may do more than the caller: {action}");
    assert_eq!(answer.json()["message"], message);
}

async fn mcp_key_is_rotated_and_revoked_by_those_who_cover_it() {
    let org = own_org();
    let (admin, viewer) = (&org.members.admin, caretaker(org).await);
    let keys = format!("/v1/workspaces/{}/mcp-keys", org.main.id);
    let new = json!({ "name": "Laptop", "client": "cursor", "audience": ["workspace:handbook"] });
    let key_of = async |member| {
        let made = by(member, post(&keys).json(&new)).await;
        assert_eq!(made.status, 201, "{}", made.show());
        let id = made.json()["id"].as_str().unwrap().to_owned();
        (format!("{keys}/{id}"), made.json()["secret"].clone())
    };
    let (key, secret) = key_of(admin).await;
    let rotate = format!("{key}/rotate");
    let action = "memory:read_confidential";
    assert_beyond(&by(viewer, post(&rotate).json(&json!({}))).await, action);
    assert_beyond(&by(viewer, delete(&key)).await, action);
    let memories = format!("/v1/workspaces/{}/memories", org.main.id);
    let used = get(memories).bearer(secret.as_str().unwrap()).await;
    assert_eq!(used.status, 200, "the key still works");
    let rotated = by(&org.members.owner, post(&rotate).json(&json!({}))).await;
    assert_eq!(rotated.status, 200, "{}", rotated.show());
    assert_eq!(by(admin, delete(&key)).await.status, 204);

    let (own, _) = key_of(viewer).await;
    let rotated = by(viewer, post(format!("{own}/rotate")).json(&json!({}))).await;
    assert_eq!(rotated.status, 200, "{}", rotated.show());
    assert_eq!(by(viewer, delete(&own)).await.status, 204);
}

async fn inbound_webhook_is_taken_over_and_ended_by_those_who_cover_it() {
    let org = own_org();
    let (admin, viewer) = (&org.members.admin, caretaker(org).await);
    let sender = Sender::registered(org, admin).await;
    let rotate = format!("{}/rotate-secret", sender.path());
    let action = "memory:create";
    assert_beyond(&by(viewer, post(&rotate)).await, action);
    assert_beyond(&by(viewer, delete(sender.path())).await, action);
    let body = json!({ "memories": [{ "title": "Down", "content": "It is down." }] });
    assert_eq!(sender.send(&body).await.status, 204, "it still works");
    assert_eq!(by(&org.members.owner, post(&rotate)).await.status, 200);

    // What can add nothing is covered by everybody who may manage it.
    let made = create_inbound_webhook(&viewer.token, org.main.id, &json!({ "name": "Idle" }));
    let idle = Sender::of(made.await.json());
    assert_eq!(idle.send(&body).await.status, 403);
    let rotate = format!("{}/rotate-secret", idle.path());
    assert_eq!(by(viewer, post(&rotate)).await.status, 200);
    assert_eq!(by(viewer, delete(idle.path())).await.status, 204);
}

/// Returns the status of each way to put a memory under a source.
async fn added_to(org: &OrgFixture, source: &Value) -> [u16; 4] {
    let owner = &org.members.owner;
    let workspace = format!("/v1/workspaces/{}", org.main.id);
    let memory = json!({ "title": "Forged", "content": "Believe it." });
    let mut created = memory.clone();
    created["sourceId"] = source.clone();
    let created = by(owner, post(format!("{workspace}/memories")).json(&created)).await;
    let batch = json!({ "source_id": source, "memories": [memory] });
    let ingested = by(owner, post(format!("{workspace}/ingest")).json(&batch)).await;
    let known = org.main.memories.internal[0];
    let moved = json!({ "sourceId": source });
    let moved = by(owner, patch(format!("/v1/memories/{known}")).json(&moved)).await;
    let relabelled = json!({ "memoryIds": [org.main.memories.internal[1]], "sourceId": source });
    let relabelled = bulk(&owner.token, &relabelled).await;
    [created, ingested, moved, relabelled].map(|answer| answer.status.as_u16())
}

async fn source_of_inbound_webhook_stays_closed_to_others() {
    let org = own_org();
    let owner = &org.members.owner;
    assert_eq!(
        added_to(org, &json!(org.sources[1])).await,
        [201, 200, 200, 200]
    );
    let sender = Sender::registered(org, owner).await;
    let body = json!({ "memories": [{ "title": "Down", "content": "It is down." }] });
    assert_eq!(sender.send(&body).await.status, 204);
    let source = &sender.record["source_id"];
    assert_eq!(added_to(org, source).await, [403; 4]);
    assert_eq!(by(owner, delete(sender.path())).await.status, 204);
    assert_eq!(added_to(org, source).await, [403; 4]);
    assert_eq!(sender.send(&body).await.status, 404);
    // What arrived remains, and can be changed where it is.
    let listed = format!(
        "/v1/workspaces/{}/memories?sourceId={}",
        org.main.id,
        source.as_str().unwrap()
    );
    let listed = by(owner, get(listed)).await.json();
    let memory = format!("/v1/memories/{}", listed["data"][0]["id"].as_str().unwrap());
    let same = json!({ "sourceId": source, "reviewStatus": "approved" });
    assert_eq!(by(owner, patch(&memory).json(&same)).await.status, 200);
    let away = json!({ "sourceId": org.sources[0] });
    assert_eq!(by(owner, patch(&memory).json(&away)).await.status, 200);
    assert_eq!(by(owner, patch(&memory).json(&same)).await.status, 403);
}

async fn member_manager_cannot_take_away_team_that_it_may_not_give() {
    let org = own_org();
    let (owner, keeper) = (&org.members.owner.session, &org.members.keeper.session);
    let viewer = format!("/v1/orgs/{}/members/{}", org.slug, org.members.viewer.id);
    let teams = async |session: &str, teams: &[&str]| {
        let change = patch(&viewer).json(&json!({ "teams": teams }));
        change.session(session).await
    };
    let both = teams(owner, &["board", "platform"]).await;
    assert_eq!(both.status, 200, "{}", both.show());
    let refused = teams(keeper, &["platform"]).await;
    assert_eq!(refused.status, 403, "{}", refused.show());
    let message = "cannot grant or take away a team that the caller is not in: board";
    assert_eq!(refused.json()["message"], message);
    // The keeper is in the other one.
    assert_eq!(teams(keeper, &["board"]).await.status, 200);
    assert_eq!(teams(keeper, &["board", "platform"]).await.status, 200);
    assert_eq!(teams(owner, &[]).await.status, 200);
}

async fn unknown_session_of_another_site_is_unauthenticated() {
    let org = own_org();
    let roles = format!("/v1/orgs/{}/custom-roles", org.slug);
    for session in [
        &org.dead_sessions.revoked,
        &org.dead_sessions.expired,
        &org.members.owner.session.replace("wks_", "wkx_"),
    ] {
        let write = post(&roles).session(session).json(&json!({}));
        let cross = write.clone().site("cross-site").await;
        assert_eq!(cross.status, 401, "{}", cross.show());
        let silent = write.await;
        assert_eq!(silent.status, 401, "{}", silent.show());
    }
    let elsewhere = &foreign_org().members.owner.session;
    let write = post(&roles).session(elsewhere).json(&json!({}));
    assert_eq!(write.site("cross-site").await.status, 403);
}
