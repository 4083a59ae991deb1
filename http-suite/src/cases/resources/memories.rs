//! `/v1/workspaces/{id}/memories`, `/v1/workspaces/{id}/ingest` and `/v1/memories/{id}`

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use knowledge_core::model::MemoryId;
use knowledge_testing::fixture::OrgFixture;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Answer, Show, bulk, delete, error, get, own_org, patch, post, quiet_org};

suite![
    memory_is_created_updated_and_deleted,
    memories_are_listed_without_hidden_content,
    memories_are_filtered_by_label_within_visibility,
    hidden_memories_lead_to_no_page,
    ingest_of_same_batch_changes_nothing,
    ingest_moves_memory_to_the_audience_that_is_declared,
    replay_does_not_find_deleted_memory,
    access_check_tells_what_may_be_shown,
    access_check_takes_source_keys,
    page_of_memories_is_empty_only_at_the_end,
    page_of_memories_goes_on_to_the_first_match,
];

pub(super) fn memories(org: &OrgFixture) -> String {
    format!("/v1/workspaces/{}/memories", org.main.id)
}

pub(super) fn new(org: &OrgFixture) -> Value {
    json!({
        "sourceId": org.sources[1],
        "title": "Rotating keys",
        "content": "Every ninety days.",
        "sourceKey": "page/7",
        "sensitivityLabel": "public",
    })
}

pub(super) async fn list(token: &str, path: String) -> Answer {
    get(path).bearer(token).await
}

/// Returns all items of a list, page by page.
async fn all(token: &str, path: &str) -> Vec<Value> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = list(token, format!("{path}&limit=30{cursor}")).await;
        assert_eq!(page.status, 200, "{page:?}");
        let page = page.json();
        found.extend(page["data"].as_array().unwrap().clone());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

async fn memory_is_created_updated_and_deleted() {
    let org = own_org();
    let token = &org.members.admin.token;
    let made = post(memories(org)).bearer(token).json(&new(org)).await;
    insta::assert_snapshot!(made.brief(), @r#"
    201 Created
    etag: "<etag 1>"

    {
      "id": "<uuid 1>", "workspaceId": "<uuid 2>", "sourceId": "<uuid 3>",
      "originSourceId": "<uuid 3>", "sourceKey": "page/7", "audienceTag": "workspace:handbook",
      "sensitivityLabel": "public", "reviewStatus": "pending", "title": "Rotating keys",
      "createdBy": "<uuid 4>", "createdAt": "<time>", "updatedAt": "<time>",
      "content": "Every ninety days."
    }
    "#);
    let path = format!("/v1/memories/{}", made.json()["id"].as_str().unwrap());
    let read = get(&path).bearer(token).await;
    insta::assert_snapshot!(read.brief(), @r#"
    200 OK
    etag: "<etag 1>"

    {
      "id": "<uuid 1>", "workspaceId": "<uuid 2>", "sourceId": "<uuid 3>",
      "originSourceId": "<uuid 3>", "sourceKey": "page/7", "audienceTag": "workspace:handbook",
      "sensitivityLabel": "public", "reviewStatus": "pending", "title": "Rotating keys",
      "createdBy": "<uuid 4>", "createdAt": "<time>", "updatedAt": "<time>",
      "content": "Every ninety days."
    }
    "#);
    assert_eq!(read.json(), made.json());
    assert_eq!(read.header("etag"), made.header("etag"));
    let known = get(&path)
        .bearer(token)
        .header("if-none-match", read.header("etag"));
    insta::assert_snapshot!(known.await.brief(), @r#"
    304 Not Modified
    etag: "<etag 1>"
    "#);

    let change = json!({ "content": "Every thirty days.", "audienceTag": "team:platform" });
    let bound = patch(&path)
        .bearer(token)
        .header("if-match", read.header("etag"))
        .json(&change);
    let changed = bound.clone().await;
    assert_eq!(changed.status, 200);
    let shown = changed.json();
    assert_eq!(shown["content"], "Every thirty days.");
    assert_eq!(shown["audienceTag"], "team:platform");
    assert_eq!(shown["title"], "Rotating keys");
    insta::assert_snapshot!(error(&bound.await), @"412 precondition_failed: the resource has changed since the version in If-Match; read it again");
    let nothing = patch(&path).bearer(token).await;
    assert_eq!((nothing.status.as_u16(), nothing.json()), (200, shown));

    let deleted = delete(&path).bearer(token).await;
    insta::assert_snapshot!(deleted.brief(), @"
    204 No Content
    ");
    for call in [get(&path), patch(&path), delete(&path)] {
        assert_eq!(call.bearer(token).await.status, 404);
    }
    let gone = get(&path).bearer(token).await;
    insta::assert_snapshot!(error(&gone), @r#"404 not_found: there is no such memory {"kind":"memory"}"#);
}

/// Memories that the reader may know of but not read are listed without content.
async fn memories_are_listed_without_hidden_content() {
    let org = quiet_org();
    let path = format!("{}?sensitivityLabel=restricted&limit=1", memories(org));
    let found = list(&org.members.member.token, path).await;
    insta::assert_snapshot!(found.brief(), @r#"
    200 OK

    {
      "data": [
        {
          "id": "<uuid 1>", "workspaceId": "<uuid 2>", "sourceId": "<uuid 3>",
          "originSourceId": "<uuid 3>", "sourceKey": null, "audienceTag": "workspace:handbook",
          "sensitivityLabel": "restricted", "reviewStatus": "pending", "title": null,
          "createdBy": "<uuid 4>", "createdAt": "<time>", "updatedAt": "<time>"
        }
      ],
      "next_cursor": "<cursor>"
    }
    "#);
}

async fn memories_are_filtered_by_label_within_visibility() {
    let org = quiet_org();
    let path = memories(org);
    let members = &org.members;
    let count =
        async |token: &str, filter: &str| all(token, &format!("{path}?{filter}")).await.len();
    let source = format!("sourceId={}", org.sources[0]);
    for (filter, expected) in [
        ("", 100),
        ("sensitivityLabel=confidential", 8),
        ("sensitivityLabel=internal&reviewStatus=approved", 20),
        ("audienceTag=workspace:handbook", 96),
        ("audienceTag=user:owner", 4),
        (&source, 100),
        ("audienceTag=user:owner&sensitivityLabel=restricted", 0),
    ] {
        assert_eq!(
            count(&members.owner.token, filter).await,
            expected,
            "{filter}"
        );
    }
    // A member reviews, and so knows what is not approved; a viewer does not.
    for (member, seen, titled) in [(&members.member, 96, 80), (&members.viewer, 20, 20)] {
        let found = all(&member.token, &format!("{path}?")).await;
        let shown = found.iter().filter(|memory| !memory["title"].is_null());
        assert_eq!((found.len(), shown.count()), (seen, titled));
    }
    let secret = org.main.memories.restricted[0];
    let read = get(format!("/v1/memories/{secret}")).bearer(&members.member.token);
    let read = read.await.json();
    assert_eq!(
        (&read["title"], &read["content"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(read["sensitivityLabel"], "restricted");
    let private = org.main.memories.private[0];
    for (hidden, token) in [(private, &members.member), (secret, &members.viewer)] {
        let read = get(format!("/v1/memories/{hidden}")).bearer(&token.token);
        assert_eq!(read.await.status, 404);
    }
}

/// The newest memories are private to the owner; a member's pages end before them.
async fn hidden_memories_lead_to_no_page() {
    let org = quiet_org();
    let token = &org.members.member.token;
    let private = &org.main.memories.private;
    for limit in [16, 48, 96] {
        let (mut cursor, mut pages) = (String::new(), 0);
        loop {
            let page = list(token, format!("{}?limit={limit}{cursor}", memories(org))).await;
            assert_eq!(page.status, 200, "{page:?}");
            let page = page.json();
            assert_eq!(page["data"].as_array().map(Vec::len), Some(limit));
            pages += 1;
            let Some(next) = page["next_cursor"].as_str() else {
                break;
            };
            let bytes = URL_SAFE_NO_PAD.decode(next).unwrap();
            let names = |id: &MemoryId| bytes.ends_with(id.0.simple().to_string().as_bytes());
            assert!(
                !private.iter().any(names),
                "the cursor names a hidden memory"
            );
            cursor = format!("&cursor={next}");
        }
        assert_eq!(pages, 96 / limit);
    }
}

async fn ingest_of_same_batch_changes_nothing() {
    let org = own_org();
    let token = &org.members.member.token;
    let path = format!("/v1/workspaces/{}/ingest", org.main.id);
    let batch = |content: &str| {
        json!({
            "source_id": org.sources[1],
            "memories": [
                { "title": "One", "content": "First.", "source_key": "page/1" },
                { "title": "Two", "content": content, "source_key": "page/2",
                  "audience_tag": "org:any", "sensitivity_label": "confidential" },
            ],
        })
    };
    let send = async |content: &str| post(&path).bearer(token).json(&batch(content)).await;
    insta::assert_snapshot!(send("Second.").await.brief(), @r#"
    200 OK

    {
      "memories": [
        {"id": "<uuid 1>", "outcome": "created"}, {"id": "<uuid 2>", "outcome": "created"}
      ]
    }
    "#);
    let again = send("Second, revised.").await;
    insta::assert_snapshot!(again.brief(), @r#"
    200 OK

    {
      "memories": [
        {"id": "<uuid 1>", "outcome": "unchanged"}, {"id": "<uuid 2>", "outcome": "updated"}
      ]
    }
    "#);
}

/// The second batch is a dry run first, which has the outcomes and stores nothing.
async fn ingest_moves_memory_to_the_audience_that_is_declared() {
    let org = own_org();
    let token = &org.members.admin.token;
    let path = format!("/v1/workspaces/{}/ingest", org.main.id);
    let send = async |labels: [&str; 3], dry_run: bool| {
        let keys = ["page/1", "page/2", "page/3"].into_iter().zip(labels);
        let memories = keys.map(|(key, label)| {
            json!({ "title": key, "content": label, "source_key": key, "audience_tag": label })
        });
        let memories: Vec<Value> = memories.collect();
        let batch = json!({
            "source_id": org.sources[1], "memories": memories, "dry_run": dry_run,
        });
        post(&path).bearer(token).json(&batch).await
    };
    let everybody = "org:any";
    let first = send([everybody; 3], false).await.json();
    let second = &first["memories"][1]["id"];
    let relabel = json!({ "memoryIds": [second], "audienceTag": "team:core" });
    assert_eq!(bulk(token, &relabel).await.status, 200);
    let moved = ["team:any", "team:any", everybody];
    let planned = send(moved, true).await;
    insta::assert_snapshot!(planned.brief(), @r#"
    200 OK

    {
      "memories": [
        {"id": "<uuid 1>", "outcome": "moved"}, {"id": "<uuid 2>", "outcome": "label_kept"},
        {"id": "<uuid 3>", "outcome": "updated"}
      ]
    }
    "#);
    let done = send(moved, false).await;
    assert_eq!(done.json(), planned.json());
    let label = async |index: usize| {
        let id = first["memories"][index]["id"].as_str().unwrap();
        let shown = get(format!("/v1/memories/{id}")).bearer(token).await.json();
        shown["audienceTag"].clone()
    };
    assert_eq!(
        (label(0).await, label(1).await),
        (json!("team:any"), json!("team:core"))
    );
}

/// A deleted memory is not found by a bulk update, nor by the replay of an earlier one.
async fn replay_does_not_find_deleted_memory() {
    let org = own_org();
    let token = &org.members.admin.token;
    let memory = org.main.memories.internal[0];
    let relabel = bulk(
        token,
        &json!({ "memoryIds": [memory], "sensitivityLabel": "public" }),
    );
    let first = relabel.clone().await.json();
    assert_eq!(first["results"][0]["ok"], true);
    let path = format!("/v1/memories/{memory}");
    assert_eq!(delete(&path).bearer(token).await.status, 204);
    let replayed = relabel.await.json();
    assert_eq!(replayed["replayed"], true);
    assert_eq!(replayed["operationId"], first["operationId"]);
    assert_eq!(replayed["results"][0]["error"]["code"], "not_found");
    let anew = bulk(
        token,
        &json!({ "memoryIds": [memory], "sensitivityLabel": "internal" }),
    );
    let anew = anew.await.json();
    assert_eq!(anew["results"][0]["error"]["code"], "not_found");
}

async fn access_check_tells_what_may_be_shown() {
    let org = quiet_org();
    let path = "/v1/memories/access-check".to_owned();
    let token = &org.members.viewer.token;
    let unknown = Uuid::nil();
    let body = json!({ "memoryIds": [unknown], "includeContent": true });
    let checked = post(path.clone()).bearer(token).json(&body).await;
    assert_eq!(checked.status, 200, "{checked:?}");
    let nothing = json!({
        "memoryId": unknown, "readable": false, "labels": null,
        "title": null, "content": null, "contentOmitted": false,
    });
    assert_eq!(checked.json()["results"], json!([nothing]));
    let listed = list(token, format!("{}?limit=200", memories(org)))
        .await
        .json();
    let shown: Vec<&Value> = listed["data"].as_array().unwrap().iter().collect();
    let ids: Vec<&Value> = shown.iter().map(|memory| &memory["id"]).collect();
    let body = json!({ "memoryIds": ids });
    let checked = post(path.clone()).bearer(token).json(&body).await;
    for (item, memory) in checked.json()["results"]
        .as_array()
        .unwrap()
        .iter()
        .zip(shown)
    {
        assert_eq!(
            item["readable"],
            json!(!memory["title"].is_null()),
            "{item}"
        );
        for label in [
            "workspaceId",
            "sourceId",
            "audienceTag",
            "sensitivityLabel",
            "reviewStatus",
        ] {
            assert_eq!(item["labels"][label], memory[label], "{item}");
        }
    }
    let refused = post(path).bearer(token).json(&json!({ "ids": [] })).await;
    assert_eq!(refused.status, 400, "{refused:?}");
}

async fn access_check_takes_source_keys() {
    let org = own_org();
    let admin = &org.members.admin.token;
    let made = post(memories(org))
        .bearer(admin)
        .json(&new(org))
        .await
        .json();
    let id = made["id"].as_str().unwrap();
    let (place, source) = (org.main.id, org.sources[1]);
    let key = |name: &str| json!({ "workspaceId": place, "sourceId": source, "sourceKey": name });
    let body = json!({ "sourceKeys": [key("page/7"), key("page/8")], "includeContent": true });
    let check = async |token: &str| {
        let path = "/v1/memories/access-check".to_owned();
        let checked = post(path).bearer(token).json(&body).await;
        assert_eq!(checked.status, 200, "{checked:?}");
        checked.json()
    };
    let found = check(admin).await;
    assert_eq!(found["results"], json!([]));
    assert_eq!(found["sourceKeyResults"][0]["memoryId"], json!(id));
    assert_eq!(
        found["sourceKeyResults"][0]["content"],
        "Every ninety days."
    );
    assert_eq!(found["sourceKeyResults"][1], Value::Null);
    // It awaits review, and does not exist for a viewer.
    let found = check(&org.members.viewer.token).await;
    assert_eq!(found["sourceKeyResults"], json!([null, null]));
}

/// A filter with few matches among many memories has them on its first page.
async fn page_of_memories_is_empty_only_at_the_end() {
    let org = own_org();
    let admin = &org.members.admin.token;
    let made = post(memories(org))
        .bearer(admin)
        .json(&new(org))
        .await
        .json();
    for filter in [
        format!("sourceId={}", org.sources[1]),
        "sensitivityLabel=public".to_owned(),
    ] {
        let path = format!("{}?{filter}&limit=200", memories(org));
        let page = list(admin, path).await.json();
        let ids = page["data"].as_array().unwrap().iter();
        let ids: Vec<&Value> = ids.map(|memory| &memory["id"]).collect();
        assert!(ids.contains(&&made["id"]), "{filter}: {page}");
    }
    let path = format!("{}?reviewStatus=rejected&limit=1", memories(org));
    let mut page = list(admin, path.clone()).await.json();
    while let Some(cursor) = page["next_cursor"].as_str() {
        assert_ne!(page["data"], json!([]), "an empty page before the end");
        page = list(admin, format!("{path}&cursor={cursor}")).await.json();
    }
}

/// The only match comes after more memories than one page of any other list looks at.
async fn page_of_memories_goes_on_to_the_first_match() {
    let org = own_org();
    let admin = &org.members.admin.token;
    let workspace = format!("/v1/workspaces/{}", org.empty.id);
    let texts = vec![json!({ "title": "Log", "content": "Nothing happened." }); 100];
    let batch = json!({ "source_id": org.sources[1], "memories": texts });
    let mut last = String::new();
    for _ in 0..21 {
        let ingest = post(format!("{workspace}/ingest")).bearer(admin);
        let ingested = ingest.json(&batch).await;
        assert_eq!(ingested.status, 200, "{ingested:?}");
        for added in ingested.json()["memories"].as_array().unwrap() {
            last = last.max(added["id"].as_str().unwrap().to_owned());
        }
    }
    let change = json!({ "reviewStatus": "approved", "sensitivityLabel": "public" });
    let changed = patch(format!("/v1/memories/{last}")).bearer(admin);
    assert_eq!(changed.json(&change).await.status, 200);
    for filter in ["reviewStatus=approved", "sensitivityLabel=public"] {
        let path = format!("{workspace}/memories?{filter}&limit=1");
        let page = list(admin, path).await.json();
        assert_eq!(page["data"][0]["id"], last, "{filter}: {page}");
    }
}
