//! `/v1/sources`

use knowledge_core::model::SourceId;
use serde_json::{Value, json};

use crate::support::{Show, assert_rejections, bulk, error, get, own_org, post};

suite![
    source_is_created_listed_and_read,
    limited_credential_sees_sources_of_its_memories_only,
    source_rejects_invalid_requests,
];

async fn source_is_created_listed_and_read() {
    let org = own_org();
    let admin = &org.members.admin.token;
    let new = json!({ "name": "Plans", "kind": "drive" });
    let made = post("/v1/sources").bearer(admin).json(&new).await;
    insta::assert_snapshot!(made.brief(), @r#"
    201 Created

    {"id": "<uuid 1>", "name": "Plans", "kind": "drive", "created_at": "<time>"}
    "#);
    let path = format!("/v1/sources/{}", made.json()["id"].as_str().unwrap());
    let read = get(path).bearer(admin).await;
    assert_eq!((read.status.as_u16(), read.json()), (200, made.json()));
    let listed = get("/v1/sources").bearer(admin).await;
    insta::assert_snapshot!(listed.brief(), @r#"
    200 OK

    {
      "data": [
        {"id": "<uuid 1>", "name": "Wiki", "kind": "confluence", "created_at": "<time>"},
        {"id": "<uuid 2>", "name": "Tickets", "kind": "jira", "created_at": "<time>"},
        {"id": "<uuid 3>", "name": "Notes", "kind": "notion", "created_at": "<time>"},
        {"id": "<uuid 4>", "name": "Plans", "kind": "drive", "created_at": "<time>"}
      ],
      "next_cursor": null
    }
    "#);
    let first = get("/v1/sources?limit=3").bearer(admin).await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = get(format!("/v1/sources?limit=3&cursor={cursor}"));
    let rest = rest.bearer(admin).await.json();
    assert_eq!(rest, json!({ "data": [made.json()], "next_cursor": null }));
}

/// Lists the sources with a credential, which can read these and no other.
async fn listed(token: &str, sources: &[SourceId]) -> Vec<SourceId> {
    let list = get("/v1/sources").bearer(token).await.json();
    let ids = list["data"].as_array().unwrap().iter();
    let ids = ids.map(|source| serde_json::from_value(source["id"].clone()).unwrap());
    let ids: Vec<SourceId> = ids.collect();
    for source in sources {
        let read = get(format!("/v1/sources/{source}")).bearer(token);
        let expected = if ids.contains(source) { 200 } else { 404 };
        assert_eq!(read.await.status, expected);
    }
    ids
}

async fn limited_credential_sees_sources_of_its_memories_only() {
    let org = own_org();
    let sources = &org.sources;
    let (owner, side, key) = (
        &org.members.owner.token,
        &org.tokens.side_only,
        &org.tokens.mcp_key,
    );
    // Sources of one millisecond are in no particular order.
    let mut all = sources.clone();
    all.sort_unstable();
    assert_eq!(listed(owner, sources).await, all);
    assert_eq!(listed(&org.tokens.reading_only, sources).await, all);
    for token in [side, key] {
        assert_eq!(listed(token, sources).await, sources[..1]);
    }
    let move_to = async |memory: &Value, source: usize| {
        let body = json!({ "memoryIds": [memory], "sourceId": sources[source] });
        let moved = bulk(owner, &body).await;
        assert_eq!(moved.json()["summary"]["succeeded"], 1, "{moved:?}");
    };
    // One memory is approved in `main`, one awaits review in `side`.
    move_to(&json!(org.main.memories.internal[60]), 1).await;
    move_to(&json!(org.side.memories.internal[0]), 2).await;
    // What awaits review does not exist for an MCP key.
    move_to(&json!(org.main.memories.internal[0]), 2).await;
    let by_key = get("/v1/sources").bearer(key).await;
    insta::assert_snapshot!(by_key.brief(), @r#"
    200 OK

    {
      "data": [
        {"id": "<uuid 1>", "name": "Wiki", "kind": "confluence", "created_at": "<time>"},
        {"id": "<uuid 2>", "name": "Tickets", "kind": "jira", "created_at": "<time>"}
      ],
      "next_cursor": null
    }
    "#);
    let in_side = get("/v1/sources").bearer(side).await;
    insta::assert_snapshot!(in_side.brief(), @r#"
    200 OK

    {
      "data": [
        {"id": "<uuid 1>", "name": "Wiki", "kind": "confluence", "created_at": "<time>"},
        {"id": "<uuid 2>", "name": "Notes", "kind": "notion", "created_at": "<time>"}
      ],
      "next_cursor": null
    }
    "#);
    assert_eq!(listed(key, sources).await, sources[..2]);
    assert_eq!(listed(side, sources).await, [sources[0], sources[2]]);
    assert_eq!(listed(owner, sources).await, *sources);
    let hidden = get(format!("/v1/sources/{}", sources[2])).bearer(key);
    insta::assert_snapshot!(error(&hidden.await), @r#"404 not_found: there is no such source {"kind":"source"}"#);
    // A page has no cursor if only hidden sources follow.
    let page = get("/v1/sources?limit=2").bearer(key).await.json();
    assert_eq!(page["next_cursor"], Value::Null);
}

async fn source_rejects_invalid_requests() {
    assert_rejections! { r#"
        admin POST /v1/sources {"name": ""}
          too_small: name must have 1 to 128 characters, not only white space, and no control characters
          required: kind is required
        viewer POST /v1/sources {"name": "Plans", "kind": "drive"}
          403 forbidden: missing permission connector:manage {"permission":"connector:manage"}
    "# }
}
