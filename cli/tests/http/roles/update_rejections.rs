//! `PATCH /v1/orgs/{orgSlug}/custom-roles/{roleId}`, rejected

use http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::update::update;
use crate::support::{Call, Show, own_org, quiet_org, update_role};

/// Returns the problems of a rejected body.
async fn problems(body: Value) -> String {
    let answer = update(quiet_org(), &body).send().await;
    assert_eq!(answer.status, 400, "{answer:?}");
    assert_eq!(answer.json()["error"], "invalid_request");
    answer.json()["details"].to_string()
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
    content-length: 1478
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "invalid_request",
      "message": "the request is not valid: name must have 1 to 128 characters, not only white space, and no control characters (and 8 more)",
      "details": {
        "fields": [
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
            "message": "must be one of memory:read, memory:read_confidential, memory:read_restricted, memory:create, memory:update, memory:share, memory:declassify, memory:review, memory:delete, dashboard:read, connector:report, connector:manage, mcp_key:manage, chat:write, recall:create, citation_subscription:manage, webhook:manage, inbound_webhook:manage, role:read, role:manage, member:manage, audit:read, erasure:manage"
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
    insta::assert_snapshot!(problems(json!({ "name": "a\u{202e}b" })).await, @r#"{"fields":[{"code":"invalid_value","message":"must have 1 to 128 characters, not only white space, and no control characters","path":"name"}]}"#);
    insta::assert_snapshot!(problems(json!({ "slug": "" })).await, @r#"{"fields":[{"code":"invalid_value","message":"must have 1 to 64 characters of a-z 0-9 - _ .","path":"slug"}]}"#);
    insta::assert_snapshot!(problems(json!({ "slug": "s".repeat(65) })).await, @r#"{"fields":[{"code":"invalid_value","message":"must have 1 to 64 characters of a-z 0-9 - _ .","path":"slug"}]}"#);
    insta::assert_snapshot!(problems(json!({ "description": "d".repeat(1_025) })).await, @r#"{"fields":[{"code":"too_large","message":"must have at most 1024 characters","path":"description"}]}"#);
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
    let answer = by_keeper(org.roles.guest, escalation).await;
    insta::assert_snapshot!(answer.show(), @r#"
    403 Forbidden
    cache-control: no-store
    content-length: 159
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "forbidden",
      "message": "cannot grant, change or take away an action that the caller does not hold wherever it would count: memory:delete",
      "details": {}
    }
    "#);
    // Nor can a role that exceeds the caller be changed in any other way.
    let rename = by_keeper(org.roles.unheld, json!({ "name": "Mine" })).await;
    assert_eq!(rename.status, 403);
    // The removed actions matter too, and so do those of an inactive role.
    let weaker = json!({ "actions": { "allow": [] } });
    assert_eq!(by_keeper(org.roles.unheld, weaker).await.status, 403);
    let hidden = json!({ "actions": { "allow": ["memory:delete"] } });
    assert_eq!(by_keeper(org.roles.inactive, hidden).await.status, 403);
    let own = by_keeper(org.roles.keeper, json!({ "name": "Mine" })).await;
    assert_eq!(
        own.json()["message"],
        "only owners can change their own role"
    );
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
    content-length: 88
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "not_found",
      "message": "there is no such custom role",
      "details": {
        "kind": "role"
      }
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
    content-length: 97
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "not_found",
      "message": "there is no such organisation",
      "details": {
        "kind": "organization"
      }
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
