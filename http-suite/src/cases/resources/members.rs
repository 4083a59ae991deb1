//! `/v1/orgs/{orgSlug}/members`

use knowledge_testing::fixture::OrgFixture;
use serde_json::{Value, json};

use crate::support::{
    Answer, Call, Show, assert_rejections, dashboard, delete, error, get, own_org, patch, post,
    problems, put, quiet_org,
};

suite![
    member_is_added_updated_and_removed,
    removed_member_is_rejected,
    workspace_role_is_assigned_and_unassigned,
    members_are_listed_in_pages,
    member_reports_all_problems,
    owner_is_changed_only_by_owners_and_the_last_one_remains,
    member_cannot_grant_role_beyond_their_own,
    restricted_admin_cannot_lift_restriction,
    member_manager_cannot_remove_member_beyond_their_own,
    added_person_gets_login_link_on_request,
];

fn members(org: &OrgFixture) -> String {
    format!("/v1/orgs/{}/members", org.slug)
}

fn new(handle: &str, role: &str) -> Value {
    json!({ "handle": handle, "name": "Somebody", "role": role })
}

async fn by(session: &str, call: Call) -> Answer {
    call.session(session).await
}

async fn member_is_added_updated_and_removed() {
    let org = own_org();
    let owner = &org.members.owner.session;
    let body = json!({
        "kind": "service_account", "handle": "crawler", "name": "The crawler", "role": "viewer",
        "teams": ["platform"],
    });
    let added = by(owner, post(members(org)).json(&body)).await;
    insta::assert_snapshot!(added.brief(), @r#"
    201 Created
    etag: "<etag 1>"

    {
      "data": {
        "id": "<uuid 1>", "kind": "service_account", "handle": "crawler", "name": "The crawler",
        "role": "viewer", "teams": ["platform"], "created_at": "<time>", "workspace_roles": [],
        "login_link": null
      }
    }
    "#);
    let member = format!(
        "{}/{}",
        members(org),
        added.json()["data"]["id"].as_str().unwrap()
    );
    let read = by(owner, get(&member)).await;
    let mut details = added.json();
    // Only the addition can have a login link.
    details["data"]
        .as_object_mut()
        .unwrap()
        .remove("login_link");
    assert_eq!((read.status.as_u16(), read.json()), (200, details));
    assert_eq!(read.header("etag"), added.header("etag"));
    let taken = by(owner, post(members(org)).json(&body)).await;
    insta::assert_snapshot!(error(&taken), @"409 slug_taken: the handle is or was used by another member; choose another");

    let change = json!({ "role": "member", "teams": [] });
    let bound = patch(&member)
        .header("if-match", read.header("etag"))
        .json(&change);
    let changed = by(owner, bound.clone()).await;
    assert_eq!(changed.status, 200);
    assert_eq!(changed.json()["data"]["role"], "member");
    let outdated = by(owner, bound).await;
    insta::assert_snapshot!(error(&outdated), @"412 precondition_failed: the resource has changed since the version in If-Match; read it again");

    assert_eq!(by(owner, delete(&member)).await.status, 204);
    let gone = by(owner, delete(&member)).await;
    insta::assert_snapshot!(error(&gone), @r#"404 not_found: there is no such member {"kind":"member"}"#);
}

async fn removed_member_is_rejected() {
    let org = own_org();
    let member = &org.members.member;
    assert_eq!(dashboard(&member.token, org.main.id).await.status, 200);
    let removed = delete(format!("{}/{}", members(org), member.id));
    assert_eq!(by(&org.members.admin.session, removed).await.status, 204);
    assert_eq!(dashboard(&member.token, org.main.id).await.status, 401);
    let list = get(members(org)).session(&member.session).await;
    assert_eq!(list.status, 401);
}

async fn workspace_role_is_assigned_and_unassigned() {
    let org = own_org();
    let (owner, viewer) = (&org.members.owner.session, &org.members.viewer);
    let member = format!("{}/{}", members(org), viewer.id);
    let held = format!("{member}/workspace-roles/{}", org.side.id);
    let chat = async || {
        let chats = format!("/v1/workspaces/{}/chats", org.side.id);
        let call = post(chats)
            .bearer(&viewer.token)
            .json(&json!({ "title": "Mine" }));
        call.await.status.as_u16()
    };
    assert_eq!(chat().await, 403);
    let assigned = by(owner, put(&held).json(&json!({ "role": "member" }))).await;
    assert_eq!((assigned.status.as_u16(), assigned.body.len()), (204, 0));
    assert_eq!(chat().await, 201);
    let read = by(owner, get(&member)).await.json();
    let there = json!([{ "workspace_id": org.side.id, "role": "member" }]);
    assert_eq!(read["data"]["workspace_roles"], there);
    assert_eq!(by(owner, delete(&held)).await.status, 204);
    assert_eq!(chat().await, 403);
    assert_eq!(by(owner, delete(&held)).await.status, 404);
    let refused = by(owner, put(&held).json(&json!({ "role": "owner" }))).await;
    insta::assert_snapshot!(problems(&refused), @"invalid_value: role must not be owner; owners belong to the whole organisation");
}

async fn members_are_listed_in_pages() {
    let org = quiet_org();
    let viewer = &org.members.viewer.session;
    let first = by(viewer, get(format!("{}?limit=1", members(org)))).await;
    insta::assert_snapshot!(first.brief(), @r#"
    200 OK

    {
      "data": [
        {
          "id": "<uuid 1>", "kind": "user", "handle": "owner", "name": "The owner", "role": "owner",
          "teams": ["platform"], "created_at": "<time>"
        }
      ],
      "next_cursor": "<cursor>"
    }
    "#);
    let rest = format!(
        "{}?cursor={}",
        members(org),
        first.json()["next_cursor"].as_str().unwrap()
    );
    let rest = by(viewer, get(rest)).await.json();
    let all = by(viewer, get(members(org))).await.json();
    let all = all["data"].as_array().unwrap().clone();
    assert_eq!(all[0], first.json()["data"][0]);
    assert_eq!(all[1..], *rest["data"].as_array().unwrap());
    // A session without `role:read` lists no members.
    let restrained = by(&org.members.restrained.session, get(members(org))).await;
    assert_eq!(restrained.status, 403);
}

async fn member_reports_all_problems() {
    assert_rejections! { r#"
        owner POST /v1/orgs/<slug>/members {"kind": "robot", "handle": "No Handle", "role": "king", "teams": ["fine", "Not Fine"], "email": "a@b"}
          invalid_value: kind must be one of user, service_account
          invalid_value: handle must have 1 to 64 characters of a-z 0-9 - _ .
          required: name is required
          invalid_value: role must be viewer, member, admin, owner or the UUID of a custom role
          invalid_value: teams[1] must have 1 to 64 characters of a-z 0-9 - _ .
          unknown_field: email is unknown; known fields: kind, handle, name, role, teams, login_link
    "# }
}

async fn owner_is_changed_only_by_owners_and_the_last_one_remains() {
    let org = own_org();
    let (owner, admin) = (&org.members.owner, &org.members.admin);
    let path = format!("{}/{}", members(org), owner.id);
    let held = format!("{path}/workspace-roles/{}", org.main.id);
    for call in [
        patch(&path).json(&json!({ "name": "Nobody" })),
        patch(&path).json(&json!({ "role": "viewer" })),
        delete(&path),
        put(&held).json(&json!({ "role": "viewer" })),
        post(members(org)).json(&new("usurper", "owner")),
        patch(format!("{}/{}", members(org), org.members.viewer.id))
            .json(&json!({ "role": "owner" })),
    ] {
        let refused = by(&admin.session, call).await;
        assert_eq!(refused.status, 403, "{refused:?}");
        assert_eq!(
            refused.json()["message"],
            "only owners can add, change or remove owners"
        );
    }
    let last = by(
        &owner.session,
        patch(&path).json(&json!({ "role": "admin" })),
    )
    .await;
    insta::assert_snapshot!(problems(&last), @"invalid_value: role must remain owner: there is no other owner");
    assert_eq!(by(&owner.session, delete(&path)).await.status, 400);
}

async fn member_cannot_grant_role_beyond_their_own() {
    let org = own_org();
    let keeper = &org.members.keeper.session;
    let refused = by(keeper, post(members(org)).json(&new("climber", "admin"))).await;
    assert_eq!(refused.status, 403);
    let mut teamed = new("insider", "viewer");
    teamed["teams"] = json!(["board"]);
    let refused = by(keeper, post(members(org)).json(&teamed)).await;
    insta::assert_snapshot!(error(&refused), @r#"403 forbidden: cannot grant or take away a team that the caller is not in: board {"permission":null}"#);
    teamed["teams"] = json!(["platform"]);
    assert_eq!(
        by(keeper, post(members(org)).json(&teamed)).await.status,
        201
    );
    let refused = by(
        &org.members.member.session,
        post(members(org)).json(&new("friend", "viewer")),
    )
    .await;
    assert_eq!(refused.status, 403);
}

async fn restricted_admin_cannot_lift_restriction() {
    let org = own_org();
    let (owner, admin) = (&org.members.owner.session, &org.members.admin);
    let held = |member| format!("{}/{member}/workspace-roles/{}", members(org), org.side.id);
    let viewer = json!({ "role": "viewer" });
    let restricted = by(owner, put(held(admin.id)).json(&viewer)).await;
    assert_eq!(restricted.status, 204);
    let lifted = by(&admin.session, delete(held(admin.id))).await;
    assert_eq!(lifted.status, 403);
    assert_eq!(
        lifted.json()["message"],
        "only owners can change their own role"
    );
    let helper = post(members(org)).json(&new("helper", "admin"));
    let helper = by(&admin.session, helper).await;
    helper.assert_field(403, "error", "forbidden");
    let raised = put(held(org.members.viewer.id)).json(&json!({ "role": "member" }));
    assert_eq!(by(&admin.session, raised).await.status, 403);
    let added = post(members(org)).json(&new("reader", "viewer"));
    assert_eq!(by(&admin.session, added).await.status, 201);
}

async fn member_manager_cannot_remove_member_beyond_their_own() {
    let org = own_org();
    let keeper = &org.members.keeper.session;
    let path = format!("{}/{}", members(org), org.members.admin.id);
    assert_eq!(by(keeper, delete(&path)).await.status, 403);
    let renamed = patch(&path).json(&json!({ "name": "Nobody" }));
    assert_eq!(by(keeper, renamed).await.status, 403);
}

async fn added_person_gets_login_link_on_request() {
    let org = own_org();
    let keeper = &org.members.keeper.session;
    let mut body = new("invited", "viewer");
    body["login_link"] = json!(true);
    let call = post(members(org)).json(&body).key("invitation");
    let added = by(keeper, call.clone()).await;
    assert_eq!(added.status, 201, "{added:?}");
    let link = added.json()["data"]["login_link"].clone();
    let secret = link["secret"].as_str().unwrap().to_owned();
    assert!(secret.starts_with("wkl_"), "{link}");
    if let Some(url) = link["url"].as_str() {
        assert!(url.ends_with(&format!("/#/login/{secret}")), "{url}");
    }
    // It is in the first response only.
    let again = by(keeper, call).await;
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(again.json()["data"]["login_link"], Value::Null);
    assert_eq!(again.json()["data"]["id"], added.json()["data"]["id"]);

    // Until the person signs in, there can be another one, which replaces it.
    let person = added.json()["data"]["id"].as_str().unwrap().to_owned();
    let links = format!("{}/{person}/login-links", members(org));
    let other = by(keeper, post(&links)).await;
    assert_eq!(other.status, 200, "{other:?}");
    let other = other.json()["data"]["secret"].as_str().unwrap().to_owned();
    assert!(other.starts_with("wkl_") && other != secret);
    // It is no way into what belongs to somebody.
    let links = format!("{}/{}/login-links", members(org), org.members.viewer.id);
    let refused = by(&org.members.owner.session, post(&links)).await;
    insta::assert_snapshot!(error(&refused), @r#"403 forbidden: a login link is for a person that a member added and that has no session or token yet {"permission":null}"#);

    let mut account = new("crawler", "viewer");
    account["kind"] = json!("service_account");
    account["login_link"] = json!(true);
    let refused = by(keeper, post(members(org)).json(&account)).await;
    insta::assert_snapshot!(problems(&refused), @"invalid_value: login_link must be false: a service account has tokens and does not sign in");
}
