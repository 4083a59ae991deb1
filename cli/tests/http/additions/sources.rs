//! `/v1/sources`

use knowledge_core::model::SourceId;
use serde_json::{Value, json};

use crate::support::{Show, bulk, get, own_org, post, quiet_org};

#[tokio::test]
async fn source_is_created_listed_and_read() {
    let org = own_org();
    let admin = &org.members.admin.token;
    let new = json!({ "name": "Plans", "kind": "drive" });
    let made = post("/v1/sources").bearer(admin).json(&new).send().await;
    insta::assert_snapshot!(made.show(), @r#"
    201 Created
    cache-control: no-store
    content-length: 115
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "id": "<uuid 2>",
      "name": "Plans",
      "kind": "drive",
      "created_at": "<time>"
    }
    "#);
    let path = format!("/v1/sources/{}", made.json()["id"].as_str().unwrap());
    let read = get(path).bearer(admin).send().await;
    assert_eq!((read.status.as_u16(), read.json()), (200, made.json()));
    let listed = get("/v1/sources").bearer(admin).send().await;
    insta::assert_snapshot!(listed.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 499
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "data": [
        {
          "id": "<uuid 2>",
          "name": "Wiki",
          "kind": "confluence",
          "created_at": "<time>"
        },
        {
          "id": "<uuid 3>",
          "name": "Tickets",
          "kind": "jira",
          "created_at": "<time>"
        },
        {
          "id": "<uuid 4>",
          "name": "Notes",
          "kind": "notion",
          "created_at": "<time>"
        },
        {
          "id": "<uuid 5>",
          "name": "Plans",
          "kind": "drive",
          "created_at": "<time>"
        }
      ],
      "next_cursor": null
    }
    "#);
    let first = get("/v1/sources?limit=3").bearer(admin).send().await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = get(format!("/v1/sources?limit=3&cursor={cursor}"));
    let rest = rest.bearer(admin).send().await.json();
    assert_eq!(rest, json!({ "data": [made.json()], "next_cursor": null }));
}

/// Lists the sources with a credential, which can read these and no other.
async fn listed(token: &str, sources: &[SourceId]) -> Vec<SourceId> {
    let list = get("/v1/sources").bearer(token).send().await.json();
    let ids = list["data"].as_array().unwrap().iter();
    let ids = ids.map(|source| serde_json::from_value(source["id"].clone()).unwrap());
    let ids: Vec<SourceId> = ids.collect();
    for source in sources {
        let read = get(format!("/v1/sources/{source}")).bearer(token);
        let expected = if ids.contains(source) { 200 } else { 404 };
        assert_eq!(read.send().await.status, expected);
    }
    ids
}

#[tokio::test]
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
        let moved = bulk(owner, &body).send().await;
        assert_eq!(moved.json()["summary"]["succeeded"], 1, "{moved:?}");
    };
    // One memory is approved in `main`, one awaits review in `side`.
    move_to(&json!(org.main.memories.internal[60]), 1).await;
    move_to(&json!(org.side.memories.internal[0]), 2).await;
    // What awaits review does not exist for an MCP key.
    move_to(&json!(org.main.memories.internal[0]), 2).await;
    let by_key = get("/v1/sources").bearer(key).send().await;
    insta::assert_snapshot!(by_key.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 266
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "data": [
        {
          "id": "<uuid 2>",
          "name": "Wiki",
          "kind": "confluence",
          "created_at": "<time>"
        },
        {
          "id": "<uuid 3>",
          "name": "Tickets",
          "kind": "jira",
          "created_at": "<time>"
        }
      ],
      "next_cursor": null
    }
    "#);
    let in_side = get("/v1/sources").bearer(side).send().await;
    insta::assert_snapshot!(in_side.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 266
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "data": [
        {
          "id": "<uuid 2>",
          "name": "Wiki",
          "kind": "confluence",
          "created_at": "<time>"
        },
        {
          "id": "<uuid 3>",
          "name": "Notes",
          "kind": "notion",
          "created_at": "<time>"
        }
      ],
      "next_cursor": null
    }
    "#);
    assert_eq!(listed(key, sources).await, sources[..2]);
    assert_eq!(listed(side, sources).await, [sources[0], sources[2]]);
    assert_eq!(listed(owner, sources).await, *sources);
    let hidden = get(format!("/v1/sources/{}", sources[2])).bearer(key);
    insta::assert_snapshot!(hidden.send().await.show(), @r#"
    404 Not Found
    cache-control: no-store
    content-length: 85
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "not_found",
      "message": "there is no such source",
      "details": {
        "kind": "source"
      }
    }
    "#);
    // A page has no cursor if only hidden sources follow.
    let page = get("/v1/sources?limit=2").bearer(key).send().await.json();
    assert_eq!(page["next_cursor"], Value::Null);
}

#[tokio::test]
async fn source_rejects_invalid_requests() {
    let org = quiet_org();
    let (admin, viewer) = (&org.members.admin.token, &org.members.viewer.token);
    let incomplete = post("/v1/sources")
        .bearer(admin)
        .json(&json!({ "name": "" }));
    insta::assert_snapshot!(incomplete.send().await.show(), @r#"
    400 Bad Request
    cache-control: no-store
    content-length: 369
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "invalid_request",
      "message": "the request is not valid: name must have 1 to 128 characters, not only white space, and no control characters (and 1 more)",
      "details": {
        "fields": [
          {
            "path": "name",
            "code": "too_small",
            "message": "must have 1 to 128 characters, not only white space, and no control characters"
          },
          {
            "path": "kind",
            "code": "required",
            "message": "is required"
          }
        ]
      }
    }
    "#);
    let new = json!({ "name": "Plans", "kind": "drive" });
    let refused = post("/v1/sources").bearer(viewer).json(&new).send().await;
    insta::assert_snapshot!(refused.show(), @r#"
    403 Forbidden
    cache-control: no-store
    content-length: 82
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "forbidden",
      "message": "missing permission connector:manage",
      "details": {}
    }
    "#);
}
