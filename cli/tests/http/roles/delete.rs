//! `DELETE /v1/orgs/{orgSlug}/custom-roles/{roleId}`

use futures::future::join_all;
use http::Method;
use knowledge_core::model::RoleId;
use knowledge_testing::fixture::OrgFixture;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{
    Answer, Call, Show, bulk, delete_role, list_roles, own_org, quiet_org, roles_by_slug, target,
    update_role,
};

fn delete(org: &OrgFixture, role: RoleId) -> Call {
    delete_role(&org.members.admin.session, &org.slug, role)
}

fn reassign(org: &OrgFixture, role: RoleId, to: impl serde::Serialize) -> Call {
    delete(org, role).json(&json!({ "reassign_to": to }))
}

async fn relabel(org: &OrgFixture, token: &str) -> Answer {
    let body = json!({
        "memoryIds": [org.main.memories.internal[0]],
        "audienceTag": "team:platform",
    });
    bulk(token, &body).send().await
}

#[tokio::test]
async fn role_without_holders_is_deleted() {
    let org = own_org();
    let answer = delete(org, org.roles.unheld).send().await;
    insta::assert_snapshot!(answer.show(), @"
    204 No Content
    date: <date>
    request-id: <uuid 1>
    ");
    let left = roles_by_slug(target().base_url(), org).await;
    assert_eq!(
        left.into_keys().collect::<Vec<_>>(),
        ["guest", "inactive", "keeper", "restrained", "reviewer"]
    );
    assert_eq!(delete(org, org.roles.unheld).send().await.status, 404);
    // Its slug is free.
    let admin = &org.members.admin.session;
    let take = update_role(
        admin,
        &org.slug,
        org.roles.guest,
        &json!({ "slug": "unheld" }),
    );
    assert_eq!(take.send().await.status, 200);
}

#[tokio::test]
async fn role_deletion_accepts_empty_body() {
    let org = own_org();
    let answer = delete(org, org.roles.unheld).json(&json!({})).send().await;
    assert_eq!((answer.status.as_u16(), answer.body.len()), (204, 0));
    // A target without any holders is accepted.
    let org = own_org();
    let answer = reassign(org, org.roles.unheld, "viewer").send().await;
    assert_eq!((answer.status.as_u16(), answer.body.len()), (204, 0));
}

#[tokio::test]
async fn role_in_use_requires_a_target() {
    let org = quiet_org();
    let answer = delete(org, org.roles.reviewer).send().await;
    insta::assert_snapshot!(answer.show(), @r#"
    409 Conflict
    cache-control: no-store
    content-length: 130
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "role_in_use",
      "message": "the role is held by 2 members; name their new role in reassign_to",
      "details": {
        "holder_count": 2
      }
    }
    "#);
    // A role held in only one workspace is in use as well.
    let answer = delete(org, org.roles.guest).send().await;
    assert_eq!(answer.json()["details"], json!({ "holder_count": 1 }));
}

#[tokio::test]
async fn holders_are_reassigned_to_built_in_role() {
    let org = own_org();
    let reviewers = [
        &org.members.reviewer.token,
        &org.members.second_reviewer.token,
    ];
    for token in reviewers {
        assert_eq!(relabel(org, token).await.status, 200);
    }
    assert_eq!(
        reassign(org, org.roles.reviewer, "viewer")
            .send()
            .await
            .status,
        204
    );
    for token in reviewers {
        assert_eq!(relabel(org, token).await.status, 403);
    }
    assert_eq!(relabel(org, &org.members.deputy.token).await.status, 403);
    assert_eq!(
        reassign(org, org.roles.inactive, "member")
            .send()
            .await
            .status,
        204
    );
    assert_eq!(relabel(org, &org.members.deputy.token).await.status, 200);
}

#[tokio::test]
async fn holders_are_reassigned_to_custom_role() {
    let org = own_org();
    let renames = async || {
        let session = &org.members.reviewer.session;
        let rename = json!({ "name": "Renamed" });
        update_role(session, &org.slug, org.roles.guest, &rename)
            .send()
            .await
            .status
            .as_u16()
    };
    assert_eq!(renames().await, 403);
    assert_eq!(
        reassign(org, org.roles.reviewer, org.roles.keeper)
            .send()
            .await
            .status,
        204
    );
    assert_eq!(renames().await, 200);
    // They count as its holders, also when that role is deleted.
    let answer = delete(org, org.roles.keeper).send().await;
    assert_eq!(answer.json()["details"], json!({ "holder_count": 3 }));
    assert_eq!(
        reassign(org, org.roles.keeper, "viewer")
            .send()
            .await
            .status,
        204
    );
    assert_eq!(renames().await, 403);
}

#[tokio::test]
async fn holders_in_a_workspace_are_reassigned_there() {
    let org = own_org();
    assert_eq!(relabel(org, &org.members.guest.token).await.status, 200);
    assert_eq!(
        reassign(org, org.roles.guest, "viewer").send().await.status,
        204
    );
    assert_eq!(relabel(org, &org.members.guest.token).await.status, 403);
}

#[tokio::test]
async fn deletion_and_reassignment_are_atomic() {
    let org = own_org();
    let calls = (0..30).map(|number| async move {
        let holders = [
            &org.members.reviewer.token,
            &org.members.second_reviewer.token,
        ];
        let mut seen = Vec::new();
        // Repeats until the switch is visible; the client's time limit ends an endless loop.
        while seen.last() != Some(&403) {
            seen.push(relabel(org, holders[number % 2]).await.status.as_u16());
        }
        seen
    });
    let deletion = reassign(org, org.roles.reviewer, "viewer").send();
    let (seen, deleted) = futures::join!(join_all(calls), deletion);
    assert_eq!(deleted.status, 204);
    // First the old role, then the new one; never none, and never an error.
    for seen in seen {
        let (last, before) = seen.split_last().unwrap();
        assert_eq!(*last, 403);
        assert!(before.iter().all(|status| *status == 200), "{before:?}");
    }
}

#[tokio::test]
async fn role_deletion_rejects_invalid_request() {
    let org = quiet_org();
    let problems = async |reassign_to: Value| {
        let answer = reassign(org, org.roles.reviewer, reassign_to).send().await;
        assert_eq!(answer.status, 400, "{answer:?}");
        answer.json()["details"].to_string()
    };
    let role = reassign(org, org.roles.reviewer, org.roles.reviewer)
        .send()
        .await;
    insta::assert_snapshot!(role.show(), @r#"
    400 Bad Request
    cache-control: no-store
    content-length: 226
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "invalid_request",
      "message": "the request is not valid: reassign_to must differ from the deleted role",
      "details": {
        "fields": [
          {
            "path": "reassign_to",
            "code": "invalid_value",
            "message": "must differ from the deleted role"
          }
        ]
      }
    }
    "#);
    insta::assert_snapshot!(problems(json!(Uuid::max())).await, @r#"{"fields":[{"code":"not_found","message":"must be viewer, member or the UUID of a custom role of the organisation","path":"reassign_to"}]}"#);
    insta::assert_snapshot!(problems(json!(org.roles.inactive)).await, @r#"{"fields":[{"code":"invalid_value","message":"must be an active role","path":"reassign_to"}]}"#);
    insta::assert_snapshot!(problems(json!(org.roles.guest)).await, @r#"{"fields":[{"code":"invalid_value","message":"must be an organisation-wide role","path":"reassign_to"}]}"#);
    insta::assert_snapshot!(problems(json!("admin")).await, @r#"{"fields":[{"code":"invalid_value","message":"must be viewer, member or the UUID of an organisation-wide custom role","path":"reassign_to"}]}"#);
    insta::assert_snapshot!(problems(json!("owner")).await, @r#"{"fields":[{"code":"invalid_value","message":"must be viewer, member or the UUID of an organisation-wide custom role","path":"reassign_to"}]}"#);
    insta::assert_snapshot!(problems(json!("keeper")).await, @r#"{"fields":[{"code":"invalid_value","message":"must be viewer, member, admin, owner or the UUID of a custom role","path":"reassign_to"}]}"#);
    insta::assert_snapshot!(problems(json!(null)).await, @r#"{"fields":[{"code":"invalid_type","message":"must be a string, not null","path":"reassign_to"}]}"#);
    insta::assert_snapshot!(problems(json!(["viewer"])).await, @r#"{"fields":[{"code":"invalid_type","message":"must be a string, not a list","path":"reassign_to"}]}"#);
    let unknown = delete(org, org.roles.reviewer).json(&json!({ "reassignTo": "viewer" }));
    insta::assert_snapshot!(unknown.send().await.json()["details"].to_string(), @r#"{"fields":[{"code":"unknown_field","message":"is unknown; known fields: reassign_to","path":"reassignTo"}]}"#);
    let no_object = delete(org, org.roles.reviewer)
        .json(&json!("viewer"))
        .send()
        .await;
    insta::assert_snapshot!(no_object.json()["details"].to_string(), @r#"{"fields":[{"code":"invalid_type","message":"must be a JSON object, not a string","path":"body"}]}"#);
}

#[tokio::test]
async fn role_deletion_rejects_unauthenticated_caller() {
    let org = quiet_org();
    let answer = delete(org, org.roles.unheld).without("cookie").send().await;
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
async fn role_deletion_requires_permission() {
    let org = quiet_org();
    let by_member = delete_role(&org.members.member.session, &org.slug, org.roles.unheld);
    insta::assert_snapshot!(by_member.send().await.show(), @r#"
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
    // The target exceeds the permissions of the caller.
    let by_keeper = delete_role(&org.members.keeper.session, &org.slug, org.roles.reviewer)
        .json(&json!({ "reassign_to": org.roles.unheld }));
    insta::assert_snapshot!(by_keeper.send().await.json().to_string(), @r#"{"details":{},"error":"forbidden","message":"cannot grant, change or take away an action that the caller does not hold wherever it would count: audit:read"}"#);
}

#[tokio::test]
async fn role_deletion_requires_known_role() {
    let org = quiet_org();
    let send = async |slug: &str, role: &str| {
        Call::new(
            Method::DELETE,
            format!("/v1/orgs/{slug}/custom-roles/{role}"),
        )
        .session(&org.members.admin.session)
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
    for malformed in ["unheld", "viewer", "0", &Uuid::nil().to_string()] {
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
    assert_eq!(
        list_roles(&org.members.admin.session, &org.slug)
            .send()
            .await
            .status,
        200
    );
}
