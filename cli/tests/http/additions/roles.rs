//! `POST /v1/orgs/{orgSlug}/custom-roles` and `GET …/{roleId}`

use serde_json::json;

use crate::support::{Show, get, own_org, post, quiet_org, update_role};

#[tokio::test]
async fn role_is_created_and_read() {
    let org = own_org();
    let (owner, roles) = (
        &org.members.owner.session,
        format!("/v1/orgs/{}/custom-roles", org.slug),
    );
    let body = json!({
        "name": "Curator",
        "slug": "curator",
        "base_role": "member",
        "description": "Keeps the labels in order.",
        "actions": { "allow": ["memory:declassify"], "deny": ["chat:write"] },
    });
    let made = post(&roles).session(owner).json(&body).send().await;
    insta::assert_snapshot!(made.show(), @r#"
    201 Created
    cache-control: no-store
    content-length: 433
    content-type: application/json
    date: <date>
    etag: "<etag 1>"
    request-id: <uuid 1>

    {
      "data": {
        "id": "<uuid 2>",
        "org_id": "<uuid 3>",
        "workspace_id": null,
        "name": "Curator",
        "slug": "curator",
        "base_role": "member",
        "description": "Keeps the labels in order.",
        "is_active": true,
        "created_by": "<uuid 4>",
        "created_at": "<time>",
        "updated_at": "<time>",
        "actions": {
          "allow": [
            "memory:declassify"
          ],
          "deny": [
            "chat:write"
          ]
        }
      }
    }
    "#);
    let id = made.json()["data"]["id"].as_str().unwrap().to_owned();
    let read = get(format!("{roles}/{id}"))
        .session(&org.members.viewer.session)
        .send()
        .await;
    assert_eq!((read.status.as_u16(), read.json()), (200, made.json()));
    // An update can require this tag.
    let role = id.parse().unwrap();
    let changed = update_role(
        owner,
        &org.slug,
        role,
        &json!({ "name": "Keeper of labels" }),
    )
    .header("if-match", read.header("etag"))
    .send()
    .await;
    assert_eq!(changed.status, 200);
    let taken = post(&roles).session(owner).json(&body).send().await;
    insta::assert_snapshot!(taken.show(), @r#"
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
async fn role_fields_have_defaults() {
    let org = own_org();
    let body = json!({ "name": "Reader", "slug": "reader", "base_role": "viewer" });
    let made = post(format!("/v1/orgs/{}/custom-roles", org.slug))
        .session(&org.members.owner.session)
        .json(&body)
        .send()
        .await
        .json();
    let made = &made["data"];
    assert_eq!(made["description"], "");
    assert_eq!(made["workspace_id"], json!(null));
    assert_eq!(made["actions"], json!({ "allow": [], "deny": [] }));
}

#[tokio::test]
async fn role_reports_all_problems() {
    let org = quiet_org();
    let body = json!({
        "slug": "No Slug",
        "base_role": "admin",
        "description": "x".repeat(1_025),
        "workspace_id": "handbook",
        "actions": { "allow": ["chat:write", "memory:own"], "deny": ["chat:write"] },
        "is_active": true,
    });
    let refused = post(format!("/v1/orgs/{}/custom-roles", org.slug))
        .session(&org.members.owner.session)
        .json(&body)
        .send()
        .await;
    insta::assert_snapshot!(refused.show(), @r#"
    400 Bad Request
    cache-control: no-store
    content-length: 1126
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "invalid_request",
      "message": "the request is not valid: name is required (and 6 more)",
      "details": {
        "fields": [
          {
            "path": "name",
            "code": "required",
            "message": "is required"
          },
          {
            "path": "slug",
            "code": "invalid_value",
            "message": "must have 1 to 64 characters of a-z 0-9 - _ ."
          },
          {
            "path": "base_role",
            "code": "invalid_value",
            "message": "must be one of viewer, member"
          },
          {
            "path": "description",
            "code": "too_large",
            "message": "must have at most 1024 characters"
          },
          {
            "path": "workspace_id",
            "code": "invalid_value",
            "message": "must be a UUID"
          },
          {
            "path": "actions.allow[1]",
            "code": "invalid_value",
            "message": "must be one of memory:read, memory:read_confidential, memory:read_restricted, memory:create, memory:update, memory:share, memory:declassify, memory:review, memory:delete, dashboard:read, connector:report, connector:manage, mcp_key:manage, chat:write, recall:create, citation_subscription:manage, webhook:manage, inbound_webhook:manage, role:read, role:manage, member:manage, audit:read, erasure:manage"
          },
          {
            "path": "is_active",
            "code": "unknown_field",
            "message": "is unknown; known fields: name, slug, base_role, description, workspace_id, actions"
          }
        ]
      }
    }
    "#);
}

#[tokio::test]
async fn role_errors_are_documented() {
    let org = quiet_org();
    let roles = format!("/v1/orgs/{}/custom-roles", org.slug);
    let role = json!({ "name": "Reader", "slug": "reader", "base_role": "viewer" });
    let above = json!({
        "name": "Auditor", "slug": "auditor", "base_role": "viewer",
        "actions": { "allow": ["audit:read"], "deny": [] },
    });
    let elsewhere = json!({
        "name": "Reader", "slug": "reader", "base_role": "viewer", "workspace_id": org.id,
    });
    for (session, body, status, code) in [
        (&org.members.member.session, &role, 403, "forbidden"),
        (&org.members.keeper.session, &above, 403, "forbidden"),
        (
            &org.members.owner.session,
            &elsewhere,
            400,
            "invalid_request",
        ),
    ] {
        let refused = post(&roles).session(session).json(body).send().await;
        assert_eq!(refused.status, status, "{body}");
        assert_eq!(refused.json()["error"], code);
    }
    let unknown = get(format!("{roles}/{}", org.id))
        .session(&org.members.owner.session)
        .send()
        .await;
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
}
