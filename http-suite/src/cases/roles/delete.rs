//! `DELETE /v1/orgs/{orgSlug}/custom-roles/{roleId}`

use futures::future::join_all;
use knowledge_core::model::RoleId;
use knowledge_testing::fixture::OrgFixture;
use serde_json::json;

use crate::support::{
    Answer, Call, Show, assert_rejections, base_url, bulk, delete_role, error, list_roles, own_org,
    quiet_org, roles_by_slug, update_role,
};

suite![
    role_without_holders_is_deleted,
    role_deletion_accepts_empty_body,
    role_in_use_requires_a_target,
    holders_are_reassigned_to_built_in_role,
    holders_are_reassigned_to_custom_role,
    holders_in_a_workspace_are_reassigned_there,
    deletion_and_reassignment_are_atomic,
    role_deletion_rejects_invalid_request,
    role_deletion_rejects_unauthenticated_caller,
    role_deletion_requires_permission,
    role_deletion_requires_known_role,
];

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
    bulk(token, &body).await
}

async fn role_without_holders_is_deleted() {
    let org = own_org();
    let answer = delete(org, org.roles.unheld).await;
    insta::assert_snapshot!(answer.show(), @"
    204 No Content
    date: <date>
    request-id: <uuid 1>
    ");
    let left = roles_by_slug(base_url(), org).await;
    assert_eq!(
        left.into_keys().collect::<Vec<_>>(),
        ["guest", "inactive", "keeper", "restrained", "reviewer"]
    );
    assert_eq!(delete(org, org.roles.unheld).await.status, 404);
    // Its slug is free.
    let admin = &org.members.admin.session;
    let take = update_role(
        admin,
        &org.slug,
        org.roles.guest,
        &json!({ "slug": "unheld" }),
    );
    assert_eq!(take.await.status, 200);
}

async fn role_deletion_accepts_empty_body() {
    let org = own_org();
    let answer = delete(org, org.roles.unheld).json(&json!({})).await;
    assert_eq!((answer.status.as_u16(), answer.body.len()), (204, 0));
    // A target without any holders is accepted.
    let org = own_org();
    let answer = reassign(org, org.roles.unheld, "viewer").await;
    assert_eq!((answer.status.as_u16(), answer.body.len()), (204, 0));
}

async fn role_in_use_requires_a_target() {
    let org = quiet_org();
    let answer = delete(org, org.roles.reviewer).await;
    insta::assert_snapshot!(error(&answer), @r#"409 role_in_use: the role is held by 2 members; name their new role in reassign_to {"holder_count":2}"#);
    // A role held in only one workspace is in use as well.
    let answer = delete(org, org.roles.guest).await;
    assert_eq!(answer.json()["details"], json!({ "holder_count": 1 }));
}

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
        reassign(org, org.roles.reviewer, "viewer").await.status,
        204
    );
    for token in reviewers {
        assert_eq!(relabel(org, token).await.status, 403);
    }
    assert_eq!(relabel(org, &org.members.deputy.token).await.status, 403);
    assert_eq!(
        reassign(org, org.roles.inactive, "member").await.status,
        204
    );
    assert_eq!(relabel(org, &org.members.deputy.token).await.status, 200);
}

async fn holders_are_reassigned_to_custom_role() {
    let org = own_org();
    let renames = async || {
        let session = &org.members.reviewer.session;
        let rename = json!({ "name": "Renamed" });
        update_role(session, &org.slug, org.roles.guest, &rename)
            .await
            .status
            .as_u16()
    };
    assert_eq!(renames().await, 403);
    assert_eq!(
        reassign(org, org.roles.reviewer, org.roles.keeper)
            .await
            .status,
        204
    );
    assert_eq!(renames().await, 200);
    // They count as its holders, also when that role is deleted.
    let answer = delete(org, org.roles.keeper).await;
    assert_eq!(answer.json()["details"], json!({ "holder_count": 3 }));
    assert_eq!(reassign(org, org.roles.keeper, "viewer").await.status, 204);
    assert_eq!(renames().await, 403);
}

async fn holders_in_a_workspace_are_reassigned_there() {
    let org = own_org();
    assert_eq!(relabel(org, &org.members.guest.token).await.status, 200);
    assert_eq!(reassign(org, org.roles.guest, "viewer").await.status, 204);
    assert_eq!(relabel(org, &org.members.guest.token).await.status, 403);
}

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
    let deletion = reassign(org, org.roles.reviewer, "viewer").into_future();
    let (seen, deleted) = futures::join!(join_all(calls), deletion);
    assert_eq!(deleted.status, 204);
    // First the old role, then the new one; never none, and never an error.
    for seen in seen {
        let (last, before) = seen.split_last().unwrap();
        assert_eq!(*last, 403);
        assert!(before.iter().all(|status| *status == 200), "{before:?}");
    }
}

async fn role_deletion_rejects_invalid_request() {
    assert_rejections! { r#"
        admin DELETE /v1/orgs/<slug>/custom-roles/<reviewer_role> {"reassign_to": "<reviewer_role>"}
          invalid_value: reassign_to must differ from the deleted role
        admin DELETE /v1/orgs/<slug>/custom-roles/<reviewer_role> {"reassign_to": "<max>"}
          not_found: reassign_to must be viewer, member or the UUID of a custom role of the organisation
        admin DELETE /v1/orgs/<slug>/custom-roles/<reviewer_role> {"reassign_to": "<inactive>"}
          invalid_value: reassign_to must be an active role
        admin DELETE /v1/orgs/<slug>/custom-roles/<reviewer_role> {"reassign_to": "<guest_role>"}
          invalid_value: reassign_to must be an organisation-wide role
        admin DELETE /v1/orgs/<slug>/custom-roles/<reviewer_role> {"reassign_to": "admin"}
        admin DELETE /v1/orgs/<slug>/custom-roles/<reviewer_role> {"reassign_to": "owner"}
          invalid_value: reassign_to must be viewer, member or the UUID of an organisation-wide custom role
        admin DELETE /v1/orgs/<slug>/custom-roles/<reviewer_role> {"reassign_to": "keeper"}
          invalid_value: reassign_to must be viewer, member, admin, owner or the UUID of a custom role
        admin DELETE /v1/orgs/<slug>/custom-roles/<reviewer_role> {"reassign_to": null}
          invalid_type: reassign_to must be a string, not null
        admin DELETE /v1/orgs/<slug>/custom-roles/<reviewer_role> {"reassign_to": ["viewer"]}
          invalid_type: reassign_to must be a string, not a list
        admin DELETE /v1/orgs/<slug>/custom-roles/<reviewer_role> {"reassignTo": "viewer"}
          unknown_field: reassignTo is unknown; known fields: reassign_to
        admin DELETE /v1/orgs/<slug>/custom-roles/<reviewer_role> "viewer"
          invalid_type: body must be a JSON object, not a string
    "# }
}

async fn role_deletion_rejects_unauthenticated_caller() {
    assert_rejections! { r#"
        nobody DELETE /v1/orgs/<slug>/custom-roles/<unheld>
          401 unauthenticated: a session is required; send Cookie: service_session=wks_... [www-authenticate: Cookie realm="knowledge", cookie-name="service_session"]
    "# }
}

async fn role_deletion_requires_permission() {
    // The last one exceeds the permissions of the caller.
    assert_rejections! { r#"
        member DELETE /v1/orgs/<slug>/custom-roles/<unheld>
          403 forbidden: missing permission role:manage {"permission":"role:manage"}
        keeper DELETE /v1/orgs/<slug>/custom-roles/<reviewer_role> {"reassign_to": "<unheld>"}
          403 forbidden: cannot grant, change or take away an action that the caller does not hold wherever it would count: audit:read {"permission":null}
    "# }
}

async fn role_deletion_requires_known_role() {
    assert_rejections! { r#"
        admin DELETE /v1/orgs/<slug>/custom-roles/<max>
        admin DELETE /v1/orgs/<slug>/custom-roles/unheld
        admin DELETE /v1/orgs/<slug>/custom-roles/viewer
        admin DELETE /v1/orgs/<slug>/custom-roles/0
        admin DELETE /v1/orgs/<slug>/custom-roles/<nil>
          404 not_found: there is no such custom role {"kind":"role"}
        admin DELETE /v1/orgs/nobody/custom-roles/<unheld>
          404 not_found: there is no such organisation {"kind":"organization"}
    "# }
    let list = list_roles(&quiet_org().members.admin.session, &quiet_org().slug);
    assert_eq!(list.await.status, 200);
}
