//! `GET /v1/orgs/{orgSlug}/custom-roles`

use http::Method;
use serde_json::json;

use crate::support::{Show, list_roles, own_org, quiet_org, update_role};

#[tokio::test]
async fn all_roles_by_name() {
    let org = quiet_org();
    let answer = list_roles(&org.members.viewer.session, &org.slug)
        .send()
        .await;
    insta::assert_snapshot!(answer.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 2556
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "data": [
        {
          "actions": {
            "allow": [],
            "deny": []
          },
          "base_role": "member",
          "created_at": "<time>",
          "created_by": "<uuid 2>",
          "description": "What a guest may do.",
          "id": "<uuid 3>",
          "is_active": true,
          "name": "The guest role",
          "org_id": "<uuid 4>",
          "slug": "guest",
          "updated_at": "<time>",
          "workspace_id": "<uuid 5>"
        },
        {
          "actions": {
            "allow": [
              "memory:update"
            ],
            "deny": []
          },
          "base_role": "viewer",
          "created_at": "<time>",
          "created_by": "<uuid 2>",
          "description": "What a inactive may do.",
          "id": "<uuid 6>",
          "is_active": false,
          "name": "The inactive role",
          "org_id": "<uuid 4>",
          "slug": "inactive",
          "updated_at": "<time>",
          "workspace_id": null
        },
        {
          "actions": {
            "allow": [
              "role:manage",
              "member:manage"
            ],
            "deny": []
          },
          "base_role": "member",
          "created_at": "<time>",
          "created_by": "<uuid 2>",
          "description": "What a keeper may do.",
          "id": "<uuid 7>",
          "is_active": true,
          "name": "The keeper role",
          "org_id": "<uuid 4>",
          "slug": "keeper",
          "updated_at": "<time>",
          "workspace_id": null
        },
        {
          "actions": {
            "allow": [],
            "deny": [
              "memory:update",
              "role:read"
            ]
          },
          "base_role": "member",
          "created_at": "<time>",
          "created_by": "<uuid 2>",
          "description": "What a restrained may do.",
          "id": "<uuid 8>",
          "is_active": true,
          "name": "The restrained role",
          "org_id": "<uuid 4>",
          "slug": "restrained",
          "updated_at": "<time>",
          "workspace_id": null
        },
        {
          "actions": {
            "allow": [
              "memory:update",
              "memory:review"
            ],
            "deny": []
          },
          "base_role": "viewer",
          "created_at": "<time>",
          "created_by": "<uuid 2>",
          "description": "What a reviewer may do.",
          "id": "<uuid 9>",
          "is_active": true,
          "name": "The reviewer role",
          "org_id": "<uuid 4>",
          "slug": "reviewer",
          "updated_at": "<time>",
          "workspace_id": null
        },
        {
          "actions": {
            "allow": [
              "audit:read"
            ],
            "deny": []
          },
          "base_role": "viewer",
          "created_at": "<time>",
          "created_by": "<uuid 2>",
          "description": "What a unheld may do.",
          "id": "<uuid 10>",
          "is_active": true,
          "name": "The unheld role",
          "org_id": "<uuid 4>",
          "slug": "unheld",
          "updated_at": "<time>",
          "workspace_id": null
        }
      ]
    }
    "#);
}

#[tokio::test]
async fn roles_of_one_name_stand_by_identifier() {
    let org = own_org();
    let roles = &org.roles;
    let mut same_name = [roles.unheld, roles.guest, roles.keeper, roles.reviewer];
    for role in same_name {
        let rename = json!({ "name": "A role" });
        let session = &org.members.admin.session;
        assert_eq!(
            update_role(session, &org.slug, role, &rename)
                .send()
                .await
                .status,
            200
        );
    }
    same_name.sort();
    let list = list_roles(&org.members.admin.session, &org.slug)
        .send()
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

#[tokio::test]
async fn head_is_get_without_the_body() {
    let org = quiet_org();
    let call = list_roles(&org.members.viewer.session, &org.slug);
    let (get, head) = (
        call.clone().send().await,
        call.method(Method::HEAD).send().await,
    );
    insta::assert_snapshot!(head.show(), @"
    200 OK
    cache-control: no-store
    content-length: 2556
    content-type: application/json
    date: <date>
    request-id: <uuid 1>
    ");
    assert_eq!(head.header("content-length"), get.body.len().to_string());
}

#[tokio::test]
async fn unauthenticated() {
    let org = quiet_org();
    let answer = list_roles("", &org.slug).without("cookie").send().await;
    insta::assert_snapshot!(answer.show(), @r#"
    401 Unauthorized
    cache-control: no-store
    content-length: 105
    content-type: application/json
    date: <date>
    request-id: <uuid 1>
    www-authenticate: Cookie realm="knowledge", cookie-name="service_session"

    {
      "details": {},
      "error": "unauthenticated",
      "message": "a session is needed: Cookie: service_session=wks_..."
    }
    "#);
}

#[tokio::test]
async fn forbidden() {
    let org = quiet_org();
    let answer = list_roles(&org.members.restrained.session, &org.slug)
        .send()
        .await;
    insta::assert_snapshot!(answer.show(), @r#"
    403 Forbidden
    cache-control: no-store
    content-length: 78
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "details": {},
      "error": "forbidden",
      "message": "this needs the action role:read"
    }
    "#);
}

#[tokio::test]
async fn not_found() {
    let org = quiet_org();
    let session = &org.members.viewer.session;
    let unknown = list_roles(session, "nobody").send().await;
    insta::assert_snapshot!(unknown.show(), @r#"
    404 Not Found
    cache-control: no-store
    content-length: 76
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "details": {},
      "error": "not_found",
      "message": "there is no such organisation"
    }
    "#);
    let by_identifier = list_roles(session, &org.id.to_string()).send().await;
    assert_eq!(by_identifier.show(), unknown.show());
}
