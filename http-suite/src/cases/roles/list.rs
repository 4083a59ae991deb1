//! `GET /v1/orgs/{orgSlug}/custom-roles`

use http::Method;
use serde_json::json;

use crate::support::{Show, assert_rejections, list_roles, own_org, quiet_org, update_role};

suite![
    roles_are_listed_by_name,
    roles_of_one_name_are_listed_by_identifier,
    role_list_head_is_get_without_body,
    role_list_rejects_unauthenticated_caller,
    role_list_requires_permission,
    role_list_of_unknown_organization_is_not_found,
];

async fn roles_are_listed_by_name() {
    let org = quiet_org();
    let answer = list_roles(&org.members.viewer.session, &org.slug).await;
    insta::assert_snapshot!(answer.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 2718
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "data": [
        {
          "id": "<uuid 2>", "org_id": "<uuid 3>", "workspace_id": "<uuid 4>",
          "name": "The guest role", "slug": "guest", "base_role": "member",
          "description": "The role guest, for tests.", "is_active": true, "created_by": "<uuid 5>",
          "created_at": "<time>", "updated_at": "<time>", "actions": {"allow": [], "deny": []},
          "act_for_teams": null
        },
        {
          "id": "<uuid 6>", "org_id": "<uuid 3>", "workspace_id": null, "name": "The inactive role",
          "slug": "inactive", "base_role": "viewer", "description": "The role inactive, for tests.",
          "is_active": false, "created_by": "<uuid 5>", "created_at": "<time>",
          "updated_at": "<time>", "actions": {"allow": ["memory:update"], "deny": []},
          "act_for_teams": null
        },
        {
          "id": "<uuid 7>", "org_id": "<uuid 3>", "workspace_id": null, "name": "The keeper role",
          "slug": "keeper", "base_role": "member", "description": "The role keeper, for tests.",
          "is_active": true, "created_by": "<uuid 5>", "created_at": "<time>",
          "updated_at": "<time>", "actions": {"allow": ["role:manage", "member:manage"], "deny": []},
          "act_for_teams": null
        },
        {
          "id": "<uuid 8>", "org_id": "<uuid 3>", "workspace_id": null,
          "name": "The restrained role", "slug": "restrained", "base_role": "member",
          "description": "The role restrained, for tests.", "is_active": true,
          "created_by": "<uuid 5>", "created_at": "<time>", "updated_at": "<time>",
          "actions": {"allow": [], "deny": ["memory:update", "role:read"]}, "act_for_teams": null
        },
        {
          "id": "<uuid 9>", "org_id": "<uuid 3>", "workspace_id": null, "name": "The reviewer role",
          "slug": "reviewer", "base_role": "viewer", "description": "The role reviewer, for tests.",
          "is_active": true, "created_by": "<uuid 5>", "created_at": "<time>",
          "updated_at": "<time>",
          "actions": {"allow": ["memory:update", "memory:review"], "deny": []},
          "act_for_teams": null
        },
        {
          "id": "<uuid 10>", "org_id": "<uuid 3>", "workspace_id": null, "name": "The unheld role",
          "slug": "unheld", "base_role": "viewer", "description": "The role unheld, for tests.",
          "is_active": true, "created_by": "<uuid 5>", "created_at": "<time>",
          "updated_at": "<time>", "actions": {"allow": ["audit:read"], "deny": []},
          "act_for_teams": null
        }
      ]
    }
    "#);
}

async fn roles_of_one_name_are_listed_by_identifier() {
    let org = own_org();
    let roles = &org.roles;
    let mut same_name = [roles.unheld, roles.guest, roles.keeper, roles.reviewer];
    for role in same_name {
        let rename = json!({ "name": "A role" });
        let session = &org.members.admin.session;
        assert_eq!(
            update_role(session, &org.slug, role, &rename).await.status,
            200
        );
    }
    same_name.sort();
    let list = list_roles(&org.members.admin.session, &org.slug)
        .await
        .json();
    let shown: Vec<_> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|role| role["id"].clone())
        .collect();
    assert_eq!(shown[..4], same_name.map(|role| json!(role)));
    assert_eq!(shown.len(), 6);
}

async fn role_list_head_is_get_without_body() {
    let org = quiet_org();
    let call = list_roles(&org.members.viewer.session, &org.slug);
    let (get, head) = (call.clone().await, call.method(Method::HEAD).await);
    insta::assert_snapshot!(head.show(), @"
    200 OK
    cache-control: no-store
    content-length: 2718
    content-type: application/json
    date: <date>
    request-id: <uuid 1>
    ");
    assert_eq!(head.header("content-length"), get.body.len().to_string());
}

async fn role_list_rejects_unauthenticated_caller() {
    assert_rejections! { r#"
        nobody GET /v1/orgs/<slug>/custom-roles
          401 unauthenticated: a session is required; send Cookie: service_session=wks_... [www-authenticate: Cookie realm="knowledge", cookie-name="service_session"]
    "# }
}

async fn role_list_requires_permission() {
    assert_rejections! { r#"
        restrained GET /v1/orgs/<slug>/custom-roles
          403 forbidden: missing permission role:read {"permission":"role:read"}
    "# }
}

async fn role_list_of_unknown_organization_is_not_found() {
    assert_rejections! { r#"
        viewer GET /v1/orgs/nobody/custom-roles
        viewer GET /v1/orgs/<org>/custom-roles
          404 not_found: there is no such organisation {"kind":"organization"}
    "# }
}
