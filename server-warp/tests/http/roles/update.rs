//! `PATCH /v1/orgs/{orgSlug}/custom-roles/{roleId}`

use http::Method;
use knowledge_testing::fixture::OrgFixture;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Answer, Call, Show, bulk, own_org, quiet_org, role, update_role};

/// Returns an update of a role without holders, by an administrator.
fn update(org: &OrgFixture, body: &Value) -> Call {
    update_role(
        &org.members.admin.session,
        &org.slug,
        org.roles.unheld,
        body,
    )
}

/// Returns the problems of a rejected body.
async fn problems(body: Value) -> String {
    let answer = update(quiet_org(), &body).send().await;
    assert_eq!(answer.status, 400, "{answer:?}");
    assert_eq!(answer.json()["error"], "invalid_request");
    answer.json()["details"].to_string()
}

#[tokio::test]
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
    let answer = update(org, &body).send().await;
    insta::assert_snapshot!(answer.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 440
    content-type: application/json
    date: <date>
    etag: "<etag 1>"
    request-id: <uuid 1>

    {
      "data": {
        "id": "<uuid 2>",
        "org_id": "<uuid 3>",
        "workspace_id": null,
        "name": "Archivist",
        "slug": "archivist",
        "base_role": "member",
        "description": "Keeps what is old.",
        "is_active": false,
        "created_by": "<uuid 4>",
        "created_at": "<time>",
        "updated_at": "<time>",
        "actions": {
          "allow": [
            "memory:read",
            "memory:delete"
          ],
          "deny": [
            "chat:write"
          ]
        }
      }
    }
    "#);
    assert_eq!(answer.json()["data"], role(org, "archivist").await);
    assert_eq!(answer.json()["data"]["id"], json!(org.roles.unheld));
}

#[tokio::test]
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
        let answer = update(org, &json!({ field: value })).send().await;
        let changed = answer.json()["data"].clone();
        expected["updated_at"] = changed["updated_at"].clone();
        assert_eq!(changed, expected);
    }
}

#[tokio::test]
async fn empty_role_update_returns_the_role() {
    let org = own_org();
    let before = role(org, "unheld").await;
    let empty = update(org, &json!({})).send().await;
    insta::assert_snapshot!(empty.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 422
    content-type: application/json
    date: <date>
    etag: "<etag 1>"
    request-id: <uuid 1>

    {
      "data": {
        "id": "<uuid 2>",
        "org_id": "<uuid 3>",
        "workspace_id": null,
        "name": "The unheld role",
        "slug": "unheld",
        "base_role": "viewer",
        "description": "The role unheld, for tests.",
        "is_active": true,
        "created_by": "<uuid 4>",
        "created_at": "<time>",
        "updated_at": "<time>",
        "actions": {
          "allow": [
            "audit:read"
          ],
          "deny": []
        }
      }
    }
    "#);
    let no_body = update(org, &json!({}))
        .without("content-type")
        .body("")
        .send()
        .await;
    let as_it_is = json!({ "name": before["name"], "is_active": true });
    let as_it_is = update(org, &as_it_is).send().await;
    for answer in [&empty, &no_body, &as_it_is] {
        assert_eq!(answer.json(), json!({ "data": before }));
        assert_eq!(answer.header("etag"), empty.header("etag"));
    }
}

#[tokio::test]
async fn denied_action_is_lost_by_holders_at_once() {
    let org = own_org();
    let body = json!({
        "memoryIds": [org.main.memories.internal[0]],
        "audienceTag": "team:platform",
    });
    let relabels = async || {
        bulk(&org.members.reviewer.token, &body)
            .send()
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
        assert_eq!(call.send().await.status, 200);
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

#[tokio::test]
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
    assert_eq!(call.send().await.status, 200);
    assert_eq!(
        bulk(&org.members.restrained.token, &body)
            .send()
            .await
            .status,
        403
    );
}

#[tokio::test]
async fn role_update_can_require_a_version() {
    let org = own_org();
    let etag = |answer: &Answer| answer.header("etag").to_owned();
    let first = etag(&update(org, &json!({})).send().await);
    let rename = |name: &str, if_match: &str| {
        update(org, &json!({ "name": name })).header("if-match", if_match)
    };
    let changed = rename("Second", &first).send().await;
    assert_eq!(changed.status, 200);
    let second = etag(&changed);
    assert_ne!(second, first);

    let outdated = rename("Third", &first).send().await;
    insta::assert_snapshot!(outdated.show(), @r#"
    412 Precondition Failed
    cache-control: no-store
    content-length: 126
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "precondition_failed",
      "message": "the resource has changed since the version in If-Match; read it again",
      "details": {}
    }
    "#);
    // A weak tag never matches in a strong comparison (RFC 9110, 8.8.3.2).
    for not_it in [
        format!("W/{second}"),
        "\"\"".to_owned(),
        "second".to_owned(),
    ] {
        assert_eq!(
            rename("Third", &not_it).send().await.status,
            412,
            "{not_it}"
        );
    }
    // An update without effect is rejected too.
    assert_eq!(rename("Second", &first).send().await.status, 412);
    assert_eq!(role(org, "unheld").await["name"], "Second");
    for it in [format!("{first}, {second}"), "*".to_owned(), second] {
        assert_eq!(rename("Second", &it).send().await.status, 200, "{it}");
    }
}

#[tokio::test]
async fn role_update_rejects_invalid_request() {
    let org = quiet_org();
    let body = json!({
        "name": " ",
        "slug": "Not a slug",
        "description": 7,
        "base_role": "admin",
        "is_active": "yes",
        "actions": { "allow": ["memory:read", "memory:own"], "deny": "memory:read", "keep": [] },
        "workspace_id": null,
    });
    let answer = update(org, &body).send().await;
    insta::assert_snapshot!(answer.show(), @r#"
    400 Bad Request
    cache-control: no-store
    content-length: 1407
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "invalid_request",
      "message": "the request is not valid: description must be a string, not a number (and 8 more)",
      "details": {
        "fields": [
          {
            "path": "description",
            "code": "invalid_type",
            "message": "must be a string, not a number"
          },
          {
            "path": "base_role",
            "code": "invalid_value",
            "message": "must be one of viewer, member"
          },
          {
            "path": "is_active",
            "code": "invalid_type",
            "message": "must be true or false, not a string"
          },
          {
            "path": "actions.allow[1]",
            "code": "invalid_value",
            "message": "must be one of memory:read, memory:read_confidential, memory:read_restricted, memory:create, memory:update, memory:declassify, memory:review, memory:delete, dashboard:read, connector:report, connector:manage, mcp_key:manage, chat:write, recall:create, citation_subscription:manage, webhook:manage, inbound_webhook:manage, role:read, role:manage, member:manage, audit:read"
          },
          {
            "path": "actions.deny",
            "code": "invalid_type",
            "message": "must be a list of action names, not a string"
          },
          {
            "path": "actions.keep",
            "code": "unknown_field",
            "message": "is unknown; known fields: allow, deny"
          },
          {
            "path": "name",
            "code": "too_small",
            "message": "must have 1 to 128 characters, not only white space, and no control characters"
          },
          {
            "path": "slug",
            "code": "invalid_value",
            "message": "must have 1 to 64 characters of a-z 0-9 - _ ."
          },
          {
            "path": "workspace_id",
            "code": "unknown_field",
            "message": "is unknown; known fields: name, slug, description, base_role, is_active, actions"
          }
        ]
      }
    }
    "#);
}

#[tokio::test]
async fn role_fields_are_bounded() {
    insta::assert_snapshot!(problems(json!({ "name": "n".repeat(129) })).await, @r#"{"fields":[{"code":"too_large","message":"must have 1 to 128 characters, not only white space, and no control characters","path":"name"}]}"#);
    insta::assert_snapshot!(problems(json!({ "name": "tab\there" })).await, @r#"{"fields":[{"code":"invalid_value","message":"must have 1 to 128 characters, not only white space, and no control characters","path":"name"}]}"#);
    insta::assert_snapshot!(problems(json!({ "slug": "" })).await, @r#"{"fields":[{"code":"invalid_value","message":"must have 1 to 64 characters of a-z 0-9 - _ .","path":"slug"}]}"#);
    insta::assert_snapshot!(problems(json!({ "slug": "s".repeat(65) })).await, @r#"{"fields":[{"code":"invalid_value","message":"must have 1 to 64 characters of a-z 0-9 - _ .","path":"slug"}]}"#);
    insta::assert_snapshot!(problems(json!({ "description": "d".repeat(1_025) })).await, @r#"{"fields":[{"code":"too_large","message":"must have at most 1024 characters","path":"description"}]}"#);
}

#[tokio::test]
async fn omitted_list_of_actions_is_unchanged() {
    let org = own_org();
    let actions = async |actions: Value| {
        let answer = update(org, &json!({ "actions": actions })).send().await;
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

#[tokio::test]
async fn action_must_not_be_in_both_lists() {
    let both = json!({ "actions": { "allow": ["memory:read"], "deny": ["memory:read"] } });
    insta::assert_snapshot!(problems(both).await, @r#"{"fields":[{"code":"duplicate","message":"must not have memory:read in both lists","path":"actions"}]}"#);
    let twice = json!({ "actions": { "allow": ["memory:read", "memory:read"] } });
    let answer = update(own_org(), &twice).send().await;
    assert_eq!(answer.status, 200, "a list of actions is a set");
}

#[tokio::test]
async fn null_is_rejected() {
    for field in [
        "name",
        "slug",
        "description",
        "base_role",
        "is_active",
        "actions",
    ] {
        let shown = problems(json!({ field: null })).await;
        assert!(shown.contains(&format!("\"path\":\"{field}\"")), "{shown}");
        assert!(shown.contains("invalid_type"), "{shown}");
    }
    insta::assert_snapshot!(problems(json!({ "is_active": null })).await, @r#"{"fields":[{"code":"invalid_type","message":"must be true or false, not null","path":"is_active"}]}"#);
}

#[tokio::test]
async fn role_update_rejects_unauthenticated_caller() {
    let answer = update(quiet_org(), &json!({}))
        .without("cookie")
        .send()
        .await;
    insta::assert_snapshot!(answer.show(), @r#"
    401 Unauthorized
    cache-control: no-store
    content-length: 112
    content-type: application/json
    date: <date>
    request-id: <uuid 1>
    www-authenticate: Cookie realm="knowledge", cookie-name="service_session"

    {
      "error": "unauthenticated",
      "message": "a session is required; send Cookie: service_session=wks_...",
      "details": {}
    }
    "#);
}

#[tokio::test]
async fn role_update_requires_permission() {
    let org = quiet_org();
    let answer = update(org, &json!({ "name": "Mine" }))
        .without("cookie")
        .session(&org.members.member.session)
        .send()
        .await;
    insta::assert_snapshot!(answer.show(), @r#"
    403 Forbidden
    cache-control: no-store
    content-length: 77
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "forbidden",
      "message": "missing permission role:manage",
      "details": {}
    }
    "#);
}

#[tokio::test]
async fn member_cannot_grant_actions_beyond_their_own() {
    let org = quiet_org();
    let by_keeper = async |role, body: Value| {
        update_role(&org.members.keeper.session, &org.slug, role, &body)
            .send()
            .await
    };
    let escalation = json!({ "actions": { "allow": ["memory:delete"] } });
    let answer = by_keeper(org.roles.keeper, escalation).await;
    insta::assert_snapshot!(answer.show(), @r#"
    403 Forbidden
    cache-control: no-store
    content-length: 114
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "forbidden",
      "message": "cannot grant an action that the caller does not hold: memory:delete",
      "details": {}
    }
    "#);
    // Nor can a role that exceeds the caller be changed in any other way.
    let rename = by_keeper(org.roles.unheld, json!({ "name": "Mine" })).await;
    assert_eq!(rename.status, 403);
    // Only the remaining actions matter, not the removed ones.
    let org = own_org();
    let weaker = json!({ "actions": { "allow": [] } });
    let call = update_role(
        &org.members.keeper.session,
        &org.slug,
        org.roles.unheld,
        &weaker,
    );
    assert_eq!(call.send().await.status, 200);
}

#[tokio::test]
async fn role_update_requires_known_role() {
    let org = quiet_org();
    let send = async |slug: &str, role: &str| {
        Call::new(
            Method::PATCH,
            format!("/v1/orgs/{slug}/custom-roles/{role}"),
        )
        .session(&org.members.admin.session)
        .json(&json!({}))
        .send()
        .await
    };
    let unknown = send(&org.slug, &Uuid::max().to_string()).await;
    insta::assert_snapshot!(unknown.show(), @r#"
    404 Not Found
    cache-control: no-store
    content-length: 75
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "not_found",
      "message": "there is no such custom role",
      "details": {}
    }
    "#);
    for malformed in ["unheld", "0", &Uuid::nil().to_string()] {
        assert_eq!(
            send(&org.slug, malformed).await.show(),
            unknown.show(),
            "{malformed}"
        );
    }
    let unknown_org = send("nobody", &org.roles.unheld.to_string()).await;
    insta::assert_snapshot!(unknown_org.show(), @r#"
    404 Not Found
    cache-control: no-store
    content-length: 76
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "not_found",
      "message": "there is no such organisation",
      "details": {}
    }
    "#);
}

#[tokio::test]
async fn role_slug_must_be_unique() {
    let org = quiet_org();
    let answer = update(org, &json!({ "slug": "keeper" })).send().await;
    insta::assert_snapshot!(answer.show(), @r#"
    409 Conflict
    cache-control: no-store
    content-length: 103
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "slug_taken",
      "message": "the slug is used by another custom role; choose another",
      "details": {}
    }
    "#);
}

#[tokio::test]
async fn released_role_slug_is_free() {
    let org = own_org();
    assert_eq!(
        update(org, &json!({ "slug": "other" })).send().await.status,
        200
    );
    let admin = &org.members.admin.session;
    let take = update_role(
        admin,
        &org.slug,
        org.roles.guest,
        &json!({ "slug": "unheld" }),
    );
    assert_eq!(take.send().await.status, 200);
    assert_eq!(
        update(org, &json!({ "slug": "unheld" }))
            .send()
            .await
            .status,
        409
    );
}
