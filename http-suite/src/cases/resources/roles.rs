//! `POST /v1/orgs/{orgSlug}/custom-roles` and `GET …/{roleId}`

use serde_json::json;

use crate::support::{Show, assert_rejections, error, get, own_org, post, update_role};

suite![
    role_is_created_and_read,
    role_fields_have_defaults,
    role_reports_all_problems,
    role_errors_are_documented,
];

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
    let made = post(&roles).session(owner).json(&body).await;
    insta::assert_snapshot!(made.brief(), @r#"
    201 Created
    etag: "<etag 1>"

    {
      "data": {
        "id": "<uuid 1>", "org_id": "<uuid 2>", "workspace_id": null, "name": "Curator",
        "slug": "curator", "base_role": "member", "description": "Keeps the labels in order.",
        "is_active": true, "created_by": "<uuid 3>", "created_at": "<time>", "updated_at": "<time>",
        "actions": {"allow": ["memory:declassify"], "deny": ["chat:write"]}, "act_for_teams": null
      }
    }
    "#);
    let id = made.json()["data"]["id"].as_str().unwrap().to_owned();
    let read = get(format!("{roles}/{id}"))
        .session(&org.members.viewer.session)
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
    .await;
    assert_eq!(changed.status, 200);
    let taken = post(&roles).session(owner).json(&body).await;
    insta::assert_snapshot!(error(&taken), @"409 slug_taken: the slug is used by another custom role; choose another");
}

async fn role_fields_have_defaults() {
    let org = own_org();
    let body = json!({ "name": "Reader", "slug": "reader", "base_role": "viewer" });
    let made = post(format!("/v1/orgs/{}/custom-roles", org.slug))
        .session(&org.members.owner.session)
        .json(&body)
        .await
        .json();
    let made = &made["data"];
    assert_eq!(made["description"], "");
    assert_eq!(made["workspace_id"], json!(null));
    assert_eq!(made["actions"], json!({ "allow": [], "deny": [] }));
}

async fn role_reports_all_problems() {
    assert_rejections! { r#"
        owner POST /v1/orgs/<slug>/custom-roles {"slug": "No Slug", "base_role": "admin", "description": "<1025 x>", "workspace_id": "handbook", "actions": {"allow": ["chat:write", "memory:own"], "deny": ["chat:write"]}, "is_active": true}
          required: name is required
          invalid_value: slug must have 1 to 64 characters of a-z 0-9 - _ .
          invalid_value: base_role must be one of viewer, member
          too_large: description must have at most 1024 characters
          invalid_value: workspace_id must be a UUID
          invalid_value: actions.allow[1] must be one of memory:read, memory:read_confidential, memory:read_restricted, memory:create, memory:propose, memory:update, memory:share, memory:declassify, memory:review, memory:delete, dashboard:read, connector:report, connector:manage, mcp_key:manage, chat:write, recall:create, citation_subscription:manage, webhook:manage, inbound_webhook:manage, role:read, role:manage, member:manage, member:act_for, token:manage, audit:read, erasure:manage
          unknown_field: is_active is unknown; known fields: name, slug, base_role, description, workspace_id, actions, act_for_teams
    "# }
}

async fn role_errors_are_documented() {
    assert_rejections! { r#"
        member POST /v1/orgs/<slug>/custom-roles {"name": "Reader", "slug": "reader", "base_role": "viewer"}
          403 forbidden: missing permission role:manage {"permission":"role:manage"}
        keeper POST /v1/orgs/<slug>/custom-roles {"name": "Auditor", "slug": "auditor", "base_role": "viewer", "actions": {"allow": ["audit:read"], "deny": []}}
          403 forbidden: cannot grant, change or take away an action that the caller does not hold wherever it would count: audit:read {"permission":null}
        owner POST /v1/orgs/<slug>/custom-roles {"name": "Reader", "slug": "reader", "base_role": "viewer", "workspace_id": "<org>"}
          not_found: workspace_id must be a workspace of the organisation
        owner GET /v1/orgs/<slug>/custom-roles/<org>
          404 not_found: there is no such custom role {"kind":"role"}
    "# }
}
