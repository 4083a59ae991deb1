//! `PATCH /v1/orgs/{orgSlug}/custom-roles/{roleId}`

use knowledge_testing::fixture::OrgFixture;
use serde_json::{Value, json};

use crate::support::{Answer, Call, Show, bulk, error, own_org, role, update_role};

suite![
    role_update_sets_each_field,
    role_update_changes_only_named_fields,
    empty_role_update_returns_the_role,
    denied_action_is_lost_by_holders_at_once,
    inactive_role_still_denies,
    role_update_can_require_a_version,
    omitted_list_of_actions_is_unchanged,
    released_role_slug_is_free,
];

/// Returns an update of a role without holders, by an administrator.
pub(super) fn update(org: &OrgFixture, body: &Value) -> Call {
    update_role(
        &org.members.admin.session,
        &org.slug,
        org.roles.unheld,
        body,
    )
}

async fn role_update_sets_each_field() {
    let org = own_org();
    let body = json!({
        "name": "Archivist",
        "slug": "archivist",
        "description": "Keeps what is old.",
        "base_role": "member",
        "is_active": false,
        "actions": { "allow": ["memory:delete", "memory:read"], "deny": ["chat:write"] },
    });
    let answer = update(org, &body).await;
    insta::assert_snapshot!(answer.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 461
    content-type: application/json
    date: <date>
    etag: "<etag 1>"
    request-id: <uuid 1>

    {
      "data": {
        "id": "<uuid 2>", "org_id": "<uuid 3>", "workspace_id": null, "name": "Archivist",
        "slug": "archivist", "base_role": "member", "description": "Keeps what is old.",
        "is_active": false, "created_by": "<uuid 4>", "created_at": "<time>", "updated_at": "<time>",
        "actions": {"allow": ["memory:read", "memory:delete"], "deny": ["chat:write"]},
        "act_for_teams": null
      }
    }
    "#);
    assert_eq!(answer.json()["data"], role(org, "archivist").await);
    assert_eq!(answer.json()["data"]["id"], json!(org.roles.unheld));
}

async fn role_update_changes_only_named_fields() {
    let org = own_org();
    let mut expected = role(org, "unheld").await;
    let fields = [
        ("name", json!("N")),
        ("description", json!("")),
        ("base_role", json!("member")),
        ("is_active", json!(false)),
        ("actions", json!({ "allow": [], "deny": ["memory:read"] })),
    ];
    for (field, value) in fields {
        expected[field] = value.clone();
        let answer = update(org, &json!({ field: value })).await;
        let changed = answer.json()["data"].clone();
        expected["updated_at"] = changed["updated_at"].clone();
        assert_eq!(changed, expected);
    }
}

async fn empty_role_update_returns_the_role() {
    let org = own_org();
    let before = role(org, "unheld").await;
    let empty = update(org, &json!({})).await;
    insta::assert_snapshot!(empty.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 443
    content-type: application/json
    date: <date>
    etag: "<etag 1>"
    request-id: <uuid 1>

    {
      "data": {
        "id": "<uuid 2>", "org_id": "<uuid 3>", "workspace_id": null, "name": "The unheld role",
        "slug": "unheld", "base_role": "viewer", "description": "The role unheld, for tests.",
        "is_active": true, "created_by": "<uuid 4>", "created_at": "<time>", "updated_at": "<time>",
        "actions": {"allow": ["audit:read"], "deny": []}, "act_for_teams": null
      }
    }
    "#);
    let no_body = update(org, &json!({}))
        .without("content-type")
        .body("")
        .await;
    let as_it_is = json!({ "name": before["name"], "is_active": true });
    let as_it_is = update(org, &as_it_is).await;
    for answer in [&empty, &no_body, &as_it_is] {
        assert_eq!(answer.json(), json!({ "data": before }));
        assert_eq!(answer.header("etag"), empty.header("etag"));
    }
}

async fn denied_action_is_lost_by_holders_at_once() {
    let org = own_org();
    let body = json!({
        "memoryIds": [org.main.memories.internal[0]],
        "audienceTag": "team:platform",
    });
    let relabels = async || {
        bulk(&org.members.reviewer.token, &body)
            .await
            .status
            .as_u16()
    };
    let change = async |body: Value| {
        let call = update_role(
            &org.members.admin.session,
            &org.slug,
            org.roles.reviewer,
            &body,
        );
        assert_eq!(call.await.status, 200);
    };
    assert_eq!(relabels().await, 200);
    change(json!({ "actions": { "allow": [], "deny": ["memory:update"] } })).await;
    assert_eq!(relabels().await, 403);
    // The denial overrides the base role.
    change(json!({ "base_role": "member" })).await;
    assert_eq!(relabels().await, 403);
    change(json!({ "actions": { "deny": [] } })).await;
    assert_eq!(relabels().await, 200);
    change(json!({ "base_role": "viewer", "actions": { "allow": ["memory:update"] } })).await;
    assert_eq!(relabels().await, 200);
    change(json!({ "is_active": false })).await;
    assert_eq!(relabels().await, 403);
}

async fn inactive_role_still_denies() {
    let org = own_org();
    let body = json!({
        "memoryIds": [org.main.memories.internal[0]],
        "audienceTag": "team:platform",
    });
    let off = json!({ "is_active": false });
    let call = update_role(
        &org.members.admin.session,
        &org.slug,
        org.roles.restrained,
        &off,
    );
    assert_eq!(call.await.status, 200);
    assert_eq!(bulk(&org.members.restrained.token, &body).await.status, 403);
}

async fn role_update_can_require_a_version() {
    let org = own_org();
    let etag = |answer: &Answer| answer.header("etag").to_owned();
    let first = etag(&update(org, &json!({})).await);
    let rename = |name: &str, if_match: &str| {
        update(org, &json!({ "name": name })).header("if-match", if_match)
    };
    let changed = rename("Second", &first).await;
    assert_eq!(changed.status, 200);
    let second = etag(&changed);
    assert_ne!(second, first);

    let outdated = rename("Third", &first).await;
    insta::assert_snapshot!(error(&outdated), @"412 precondition_failed: the resource has changed since the version in If-Match; read it again");
    // A weak tag never matches in a strong comparison (RFC 9110, 8.8.3.2).
    for not_it in [
        format!("W/{second}"),
        "\"\"".to_owned(),
        "second".to_owned(),
    ] {
        assert_eq!(rename("Third", &not_it).await.status, 412, "{not_it}");
    }
    // An update without effect is rejected too.
    assert_eq!(rename("Second", &first).await.status, 412);
    assert_eq!(role(org, "unheld").await["name"], "Second");
    for it in [format!("{first}, {second}"), "*".to_owned(), second] {
        assert_eq!(rename("Second", &it).await.status, 200, "{it}");
    }
}

async fn omitted_list_of_actions_is_unchanged() {
    let org = own_org();
    let actions = async |actions: Value| {
        let answer = update(org, &json!({ "actions": actions })).await;
        (
            answer.status.as_u16(),
            answer.json()["data"]["actions"].clone(),
        )
    };
    let both = json!({ "allow": ["audit:read"], "deny": ["memory:read"] });
    let set = actions(json!({ "deny": ["memory:read"] })).await;
    assert_eq!(set, (200, both.clone()));
    assert_eq!(actions(json!({})).await, (200, both));
    // The omitted list is validated too: no action may be in both.
    assert_eq!(actions(json!({ "deny": ["audit:read"] })).await.0, 400);
}

async fn released_role_slug_is_free() {
    let org = own_org();
    assert_eq!(update(org, &json!({ "slug": "other" })).await.status, 200);
    let admin = &org.members.admin.session;
    let take = update_role(
        admin,
        &org.slug,
        org.roles.guest,
        &json!({ "slug": "unheld" }),
    );
    assert_eq!(take.await.status, 200);
    assert_eq!(update(org, &json!({ "slug": "unheld" })).await.status, 409);
}
