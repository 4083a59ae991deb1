//! `/v1/workspaces`

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{
    Show, bulk, delete, error, get, own_org, patch, post, problems, put, quiet_org,
};

suite![
    workspaces_in_scope_of_credential_are_listed,
    private_workspace_exists_for_its_people_only,
    access_is_changed_by_one_of_the_people,
    what_reaches_a_private_workspace_needs_its_people,
    label_of_a_private_workspace_covers_its_people,
    access_is_audited_for_the_people_of_the_workspace,
    retention_is_set_and_read,
    retention_of_memories_is_set_by_label,
    retention_of_recalls_is_set,
    activity_counts_by_day,
];

async fn workspaces_in_scope_of_credential_are_listed() {
    let org = quiet_org();
    let all = get("/v1/workspaces")
        .bearer(&org.members.viewer.token)
        .await;
    assert_eq!(all.json()["data"].as_array().unwrap().len(), 3);
    let side = get("/v1/workspaces").bearer(&org.tokens.side_only).await;
    insta::assert_snapshot!(side.brief(), @r#"
    200 OK

    {
      "data": [
        {
          "id": "<uuid 1>", "name": "Support", "slug": "support", "audience": "workspace:support",
          "access": "open", "created_at": "<time>"
        }
      ],
      "next_cursor": null
    }
    "#);
    let read = async |workspace: Uuid| {
        let path = format!("/v1/workspaces/{workspace}");
        get(path).bearer(&org.tokens.side_only).await
    };
    let found = read(org.side.id.0).await;
    assert_eq!(
        (found.status.as_u16(), &found.json()),
        (200, &side.json()["data"][0])
    );
    insta::assert_snapshot!(error(&read(org.main.id.0).await), @r#"404 not_found: there is no such workspace {"kind":"workspace"}"#);
    insta::assert_snapshot!(error(&read(Uuid::nil()).await), @r#"404 not_found: there is no such workspace {"kind":"workspace"}"#);
    let wrong = get("/v1/workspaces?limit=201&page=2").bearer(&org.members.viewer.token);
    insta::assert_snapshot!(problems(&wrong.await), @"
    invalid_value: limit must be a number from 1 to 200
    unknown_field: page is unknown; known parameters: limit, cursor
    ");
}

async fn private_workspace_exists_for_its_people_only() {
    let org = own_org();
    let path = format!("/v1/workspaces/{}", org.main.id);
    let (owner, viewer) = (&org.members.owner, &org.members.viewer);
    let set = async |access: &str| {
        let call = put(format!("{path}/access")).bearer(&owner.token);
        call.json(&json!({ "access": access })).await
    };
    let read = async |token: &str, path: &str| get(path).bearer(token).await.status.as_u16();
    let memory = format!("/v1/memories/{}", org.main.memories.internal[70]);
    assert_eq!(read(&viewer.token, &memory).await, 200);
    let closed = set("private").await;
    assert_eq!(
        (closed.status.as_u16(), &closed.json()["access"]),
        (200, &json!("private"))
    );
    let list = get("/v1/workspaces").bearer(&viewer.token).await.json();
    let list = list["data"].as_array().unwrap().clone();
    let id = json!(org.main.id);
    assert!(list.iter().all(|workspace| workspace["id"] != id));
    let places = [
        "",
        "/memories",
        "/dashboard-summary",
        "/chats",
        "/recalls",
        "/connectors",
    ];
    for place in places
        .map(|place| format!("{path}{place}"))
        .iter()
        .chain([&memory])
    {
        assert_eq!(read(&viewer.token, place).await, 404, "{place}");
        assert_eq!(read(&owner.token, place).await, 200, "{place}");
    }
    let held = format!(
        "/v1/orgs/{}/members/{}/workspace-roles/{}",
        org.slug, viewer.id, org.main.id
    );
    let assigned = put(&held)
        .session(&owner.session)
        .json(&json!({ "role": "viewer" }));
    assert_eq!(assigned.await.status, 204);
    assert_eq!(read(&viewer.token, &memory).await, 200);
    assert_eq!(delete(&held).session(&owner.session).await.status, 204);
    assert_eq!(read(&viewer.token, &memory).await, 404);
    assert_eq!(set("open").await.status, 200);
    assert_eq!(read(&viewer.token, &memory).await, 200);
}

async fn access_is_changed_by_one_of_the_people() {
    let org = own_org();
    let path = format!("/v1/workspaces/{}/access", org.empty.id);
    let set = async |token: &str, access: &str| {
        let body = json!({ "access": access });
        put(&path).bearer(token).json(&body).await
    };
    let owner = &org.members.owner.token;
    insta::assert_snapshot!(error(&set(&org.members.viewer.token, "open").await), @r#"403 forbidden: missing permission member:manage {"permission":"member:manage"}"#);
    let by_admin = set(&org.members.admin.token, "private").await;
    insta::assert_snapshot!(error(&by_admin), @r#"403 forbidden: only an owner, or a member with a role in the workspace, can make it private; others would no longer see it {"permission":null}"#);
    let wrong = set(owner, "closed").await;
    assert_eq!(wrong.status.as_u16(), 400);
    assert_eq!(wrong.json()["details"]["fields"][0]["path"], "access");
    assert_eq!(set(owner, "private").await.status, 200);
    let by_admin = set(&org.members.admin.token, "open").await;
    insta::assert_snapshot!(error(&by_admin), @r#"404 not_found: there is no such workspace {"kind":"workspace"}"#);
    assert_eq!(set(owner, "open").await.status, 200);
}

async fn what_reaches_a_private_workspace_needs_its_people() {
    let org = own_org();
    let (owner, admin) = (&org.members.owner, &org.members.admin);
    let roles = format!("/v1/orgs/{}/custom-roles", org.slug);
    let new = json!({ "name": "Clerk", "slug": "clerk", "base_role": "viewer" });
    let made = post(&roles).session(&admin.session).json(&new).await;
    assert_eq!(made.status.as_u16(), 201, "{made:?}");
    let made = made.json();
    let id = made["data"]["id"].as_str().expect("an identifier");
    let role = format!("{roles}/{id}");
    let set = async |access: &str| {
        let path = format!("/v1/workspaces/{}/access", org.empty.id);
        let body = json!({ "access": access });
        let set = put(path).bearer(&owner.token).json(&body).await;
        assert_eq!(set.status.as_u16(), 200, "{set:?}");
    };
    set("private").await;
    let renamed = json!({ "name": "Registrar" });
    let renamed = patch(&role).session(&admin.session).json(&renamed).await;
    insta::assert_snapshot!(error(&renamed), @r#"403 forbidden: reaches every workspace of the organisation, and some do not exist for the caller {"permission":null}"#);
    let deleted = delete(&role).session(&admin.session).await;
    insta::assert_snapshot!(error(&deleted), @r#"403 forbidden: reaches every workspace of the organisation, and some do not exist for the caller {"permission":null}"#);
    let scope = json!({ "memberId": org.members.viewer.id });
    let erased = post("/v1/erasures").bearer(&admin.token).key("reaches-all");
    let erased = erased.json(&scope).await;
    insta::assert_snapshot!(error(&erased), @r#"403 forbidden: reaches every workspace of the organisation, and some do not exist for the caller {"permission":null}"#);
    set("open").await;
    let deleted = delete(&role).session(&admin.session).await;
    assert_eq!(deleted.status.as_u16(), 204, "{deleted:?}");
}

async fn label_of_a_private_workspace_covers_its_people() {
    let org = own_org();
    let members = &org.members;
    let (owner, viewer) = (&members.owner, &members.viewer);
    let cited = org.main.memories.internal[70];
    let recalls = format!("/v1/workspaces/{}/recalls", org.main.id);
    let new = json!({ "query": "Who is on call?", "memory_ids": [cited] });
    let made = post(&recalls).bearer(&owner.token).json(&new).await;
    assert_eq!(made.status, 201, "{made:?}");
    let label = format!("workspace:{}", org.empty.slug);
    let relabel = json!({ "memoryIds": [cited], "audienceTag": label });
    let relabelled = bulk(&owner.token, &relabel).await;
    assert_eq!(relabelled.json()["summary"]["succeeded"], 1);

    let memory = format!("/v1/memories/{cited}");
    let recall = format!("/v1/recalls/{}", made.json()["id"].as_str().unwrap());
    let assert_covers_viewer = async |covers: bool| {
        let check = json!({ "memoryIds": [cited], "includeContent": true });
        let checked = post("/v1/memories/access-check").bearer(&viewer.token);
        let checked = checked.json(&check).await.json()["results"][0].clone();
        assert_eq!(checked["readable"], covers, "{checked}");
        assert_eq!(checked["content"].is_string(), covers, "{checked}");
        assert_eq!(checked["labels"].is_null(), !covers, "{checked}");
        let expected = if covers { 200 } else { 404 };
        for path in [&memory, &recall] {
            let read = get(path).bearer(&viewer.token).await;
            assert_eq!(read.status, expected, "{path}");
        }
    };
    assert_covers_viewer(true).await;
    let access = put(format!("/v1/workspaces/{}/access", org.empty.id));
    let closed = access.bearer(&owner.token);
    let closed = closed.json(&json!({ "access": "private" })).await;
    assert_eq!(closed.status, 200, "{closed:?}");
    assert_covers_viewer(false).await;
    let change = json!({ "memoryIds": [cited], "sensitivityLabel": "confidential" });
    let changed = bulk(&members.member.token, &change).await.json();
    assert_eq!(changed["results"][0]["error"]["code"], "not_found");
    // An administrator sees the labels of every memory, and the content of no such one.
    let seen = get(&memory).bearer(&members.admin.token).await.json();
    assert_eq!(
        (&seen["audienceTag"], &seen["content"]),
        (&json!(label), &Value::Null)
    );
    let held = format!(
        "/v1/orgs/{}/members/{}/workspace-roles/{}",
        org.slug, viewer.id, org.empty.id
    );
    let assigned = put(&held).session(&owner.session);
    let assigned = assigned.json(&json!({ "role": "viewer" })).await;
    assert_eq!(assigned.status, 204);
    assert_covers_viewer(true).await;
    assert_eq!(delete(&held).session(&owner.session).await.status, 204);
    assert_covers_viewer(false).await;
}

async fn access_is_audited_for_the_people_of_the_workspace() {
    let org = own_org();
    let (owner, admin) = (&org.members.owner.token, &org.members.admin.token);
    let id = org.empty.id;
    let entries = async |token: &str| {
        let query = "action=workspace.update&resource_kind=workspace";
        let log = format!("/v1/audit-log?{query}&resource_id={id}");
        let listed = get(log).bearer(token).await.json();
        listed["data"].as_array().expect("a list").clone()
    };
    for (access, shown_to_admin) in [("private", 0), ("open", 2)] {
        let set = put(format!("/v1/workspaces/{id}/access")).bearer(owner);
        // Once made, the change is not made again.
        for call in [set.clone(), set] {
            let set = call.json(&json!({ "access": access })).await;
            assert_eq!(set.status, 200, "{set:?}");
        }
        assert_eq!(entries(admin).await.len(), shown_to_admin, "{access}");
    }
    let states = |entry: &Value| {
        let states = [&entry["before"], &entry["after"]];
        states.map(|state| state["access"].clone())
    };
    let changes: Vec<[Value; 2]> = entries(owner).await.iter().map(states).collect();
    let (open, private) = (json!("open"), json!("private"));
    assert_eq!(changes, [[private.clone(), open.clone()], [open, private]]);
}

async fn activity_counts_by_day() {
    let org = own_org();
    let (admin, viewer) = (&org.members.admin.token, &org.members.viewer.token);
    let workspace = format!("/v1/workspaces/{}", org.empty.id);
    let activity = async |query: &str| {
        get(format!("{workspace}/activity{query}"))
            .bearer(viewer)
            .await
    };
    let new = json!({ "sourceId": org.sources[0], "title": "On call", "content": "Ask Ada." });
    let made = post(format!("{workspace}/memories"))
        .bearer(admin)
        .json(&new)
        .await;
    let memory = format!("/v1/memories/{}", made.json()["id"].as_str().unwrap());
    for change in [
        json!({ "reviewStatus": "approved", "sensitivityLabel": "public" }),
        json!({ "content": "Ask Grace." }),
    ] {
        assert_eq!(patch(&memory).bearer(admin).json(&change).await.status, 200);
    }
    assert_eq!(delete(&memory).bearer(admin).await.status, 204);
    let read = activity("?days=2").await;
    assert_eq!(read.status, 200, "{read:?}");
    let days = read.json()["days"].as_array().unwrap().clone();
    assert_eq!(days.len(), 2);
    for day in &days {
        let begins_at = day["begins_at"].as_str().unwrap();
        assert!(begins_at.ends_with("T00:00:00.000Z"), "{begins_at}");
    }
    // A run around midnight sees both days.
    let sum = |field: &str| -> i64 { days.iter().filter_map(|day| day[field].as_i64()).sum() };
    let counts = [
        "added",
        "reviewed",
        "relabelled",
        "edited",
        "deleted",
        "backlog_change",
    ];
    assert_eq!(counts.map(sum), [1, 1, 1, 1, 1, 0]);
    assert_eq!(
        activity("").await.json()["days"].as_array().unwrap().len(),
        28
    );
    insta::assert_snapshot!(problems(&activity("?days=0&from=1").await), @"
    invalid_value: days must be a number from 1 to 400
    unknown_field: from is unknown; known parameters: days
    ");
    let unknown = get(format!("/v1/workspaces/{}/activity", Uuid::nil()))
        .bearer(viewer)
        .await;
    insta::assert_snapshot!(error(&unknown), @r#"404 not_found: there is no such workspace {"kind":"workspace"}"#);
}

async fn retention_is_set_and_read() {
    let org = own_org();
    let path = format!("/v1/workspaces/{}/retention", org.empty.id);
    let set = async |token: &str, days: u32| {
        let body = json!({ "chat_days": days });
        put(&path).bearer(token).json(&body).await
    };
    let token = &org.members.admin.token;
    insta::assert_snapshot!(set(token, 90).await.brief(), @r#"
    200 OK

    {"chat_days": 90, "memory_days": {}, "recall_days": 30, "record_recalls": true}
    "#);
    let viewer = &org.members.viewer.token;
    let read = get(&path).bearer(viewer).await;
    assert_eq!(read.json(), retention(json!({ "chat_days": 90 })));
    assert_eq!(set(viewer, 1).await.status.as_u16(), 403);
    let wrong = set(token, 36_501).await;
    assert_eq!(wrong.status.as_u16(), 400);
    let problem = &wrong.json()["details"]["fields"][0];
    assert_eq!(
        *problem,
        json!({
            "path": "chat_days",
            "code": "invalid_value",
            "message": "must be between 1 and 36,500 days",
        })
    );
    let removed = put(&path).bearer(token).json(&json!({})).await;
    assert_eq!(removed.json(), retention(json!({})));
}

/// Returns a retention with these fields, and with others as they are by default.
fn retention(set: Value) -> Value {
    let mut retention = json!({
        "chat_days": null,
        "memory_days": {},
        "recall_days": 30,
        "record_recalls": true,
    });
    for (name, value) in set.as_object().unwrap() {
        retention[name] = value.clone();
    }
    retention
}

async fn retention_of_recalls_is_set() {
    let org = own_org();
    let path = format!("/v1/workspaces/{}/retention", org.empty.id);
    let token = &org.members.admin.token;
    let set = async |body: Value| put(&path).bearer(token).json(&body).await;
    let body = json!({ "recall_days": 7, "record_recalls": false });
    assert_eq!(set(body.clone()).await.json(), retention(body.clone()));
    assert_eq!(get(&path).bearer(token).await.json(), retention(body));
    for (body, code) in [
        (json!({ "recall_days": 0 }), "recall_days invalid_value"),
        (
            json!({ "recall_days": 36_501 }),
            "recall_days invalid_value",
        ),
        (json!({ "recall_days": "7" }), "recall_days invalid_type"),
        (
            json!({ "record_recalls": 1 }),
            "record_recalls invalid_type",
        ),
    ] {
        let wrong = set(body).await;
        assert_eq!(wrong.status.as_u16(), 400);
        let problem = &wrong.json()["details"]["fields"][0];
        let text = |name: &str| problem[name].as_str().unwrap().to_owned();
        assert_eq!(format!("{} {}", text("path"), text("code")), code);
    }
    assert_eq!(set(json!({})).await.json(), retention(json!({})));
}

async fn retention_of_memories_is_set_by_label() {
    let org = own_org();
    let path = format!("/v1/workspaces/{}/retention", org.empty.id);
    let token = &org.members.admin.token;
    let set = async |body: Value| put(&path).bearer(token).json(&body).await;
    let days = json!({ "public": 36_500, "restricted": 30 });
    let body = json!({ "chat_days": 90, "memory_days": days });
    let set_to = retention(body.clone());
    assert_eq!(set(body).await.json(), set_to);
    assert_eq!(get(&path).bearer(token).await.json(), set_to);
    for (days, code) in [
        (json!({ "secret": 1 }), "memory_days.secret unknown_field"),
        (json!({ "public": 0 }), "memory_days.public invalid_value"),
        (json!({ "public": "1" }), "memory_days.public invalid_type"),
        (json!(30), "memory_days invalid_type"),
    ] {
        let wrong = set(json!({ "memory_days": days })).await;
        assert_eq!(wrong.status.as_u16(), 400);
        let problem = &wrong.json()["details"]["fields"][0];
        let text = |name: &str| problem[name].as_str().unwrap().to_owned();
        assert_eq!(format!("{} {}", text("path"), text("code")), code);
    }
    assert_eq!(get(&path).bearer(token).await.json(), set_to);
    assert_eq!(set(json!({})).await.json(), retention(json!({})));
}
