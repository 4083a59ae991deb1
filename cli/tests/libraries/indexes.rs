//! Access filters in vector stores: what a search with them finds is what the access check allows.

use knowledge_storage_postgres::testing::{Server, servers};
use serde_json::{Value, json};

use crate::acting::{Acting, PEOPLE};
use crate::{ask_python, text};

const FORMATS: [&str; 3] = ["pgvector", "qdrant", "chroma"];
const PROGRAM: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/libraries/python/indexes.py"
);

/// Returns a server whose installation has pgvector.
async fn with_pgvector() -> &'static Server {
    for server in servers() {
        let client = server.connect("postgres").await;
        let query = "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'";
        if !client.query(query, &[]).await.expect("a query").is_empty() {
            return server;
        }
    }
    panic!("no installation has pgvector");
}

/// Adds memories with every combination of labels.
fn memories(acting: &Acting) -> Vec<String> {
    let audiences = [
        "org:acme",
        "workspace:support",
        "workspace:sales",
        "team:platform",
        "team:sales",
        "user:tom",
        "user:vic",
    ];
    let mut all = Vec::new();
    for sensitivity in ["public", "internal", "confidential", "restricted"] {
        for review in ["approved", "pending", "rejected"] {
            let new = audiences.map(|audience| {
                json!({ "title": audience, "content": "A text.", "sensitivity_label": sensitivity })
            });
            let added = acting.ingest(&new);
            acting.change(&added, json!({ "reviewStatus": review }));
            for (memory, audience) in added.iter().zip(audiences) {
                let of_one = std::slice::from_ref(memory);
                acting.change(of_one, json!({ "audienceTag": audience }));
            }
            all.extend(added);
        }
    }
    all
}

#[tokio::test]
async fn search_with_access_filter_finds_what_is_readable() {
    let acting = Acting::start(&["memory:read_confidential", "memory:share"]);
    let ids = memories(&acting);
    let check = json!({ "memoryIds": ids });
    let known = acting.service.post("/v1/memories/access-check", &check);
    let known = known["results"].as_array().expect("a list").iter();
    let indexed: Vec<Value> = known
        .map(|item| {
            json!({
                "id": item["memoryId"],
                "workspace_id": item["labels"]["workspaceId"],
                "audience_tag": item["labels"]["audienceTag"],
                "sensitivity_label": item["labels"]["sensitivityLabel"],
                "review_status": item["labels"]["reviewStatus"],
            })
        })
        .collect();
    let (mut filters, mut expected) = (Vec::new(), Vec::new());
    for (member, _, _) in PEOPLE {
        let path = "/v1/memories/access-check";
        let checked = acting.call_for(member, "POST", path, &check);
        let checked = checked["results"].as_array().expect("a list").iter();
        let readable = checked.filter(|item| item["readable"] == true);
        let mut readable: Vec<&str> = readable.map(|item| text(&item["memoryId"])).collect();
        readable.sort_unstable();
        assert!(!readable.is_empty() && readable.len() < ids.len());
        for format in FORMATS {
            let place = &acting.workspace;
            let path = format!("/v1/workspaces/{place}/access-filter?format={format}");
            let filter = acting.call_for(member, "GET", &path, &Value::Null);
            filters.push(json!({ "format": format, "filter": filter["filter"] }));
            expected.push((member, format, json!({ "found": readable })));
        }
    }
    // A filter that admits no label finds nothing, in every index.
    let nothing = json!([""]);
    filters.push(json!({ "format": "chroma", "filter": { "audience_tag": { "$in": nothing } } }));
    expected.push(("nobody", "chroma", json!({ "found": [] })));
    let server = with_pgvector().await;
    let url = server.url("postgres");
    let asked = json!({ "memories": indexed, "filters": filters, "postgres": url });
    let found = ask_python(PROGRAM, &asked);
    assert_eq!(found.len(), expected.len());
    for (found, (member, format, expected)) in found.iter().zip(&expected) {
        assert_eq!(found, expected, "{format} for {member}");
    }
}
