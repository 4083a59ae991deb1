//! Views for analysts, compared with the records in a dump.

use std::collections::BTreeMap;

use knowledge_testing::fixture;
use serde_json::{Value, json};

use crate::support::Site;
use crate::support::knowledge::postgres;

/// Returns the rows of a query as JSON, sorted.
async fn rows(database: &str, query: &str) -> Vec<Value> {
    let client = postgres().connect(database).await;
    let rows = format!("SELECT to_jsonb(shown)::text FROM ({query}) AS shown");
    let rows = client.query(&rows, &[]).await.expect("valid SQL");
    let mut rows: Vec<Value> = rows
        .iter()
        .map(|row| serde_json::from_str(row.get(0)).expect("JSON"))
        .collect();
    rows.sort_by_key(Value::to_string);
    rows
}

/// Records of a dump by family, then by the rest of their keys.
fn records(dump: &str) -> BTreeMap<String, BTreeMap<String, Value>> {
    let mut records: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
    for line in dump.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        if let Some((family, rest)) = line["key"].as_str().and_then(|key| key.split_once('/')) {
            let of_family = records.entry(family.to_owned()).or_default();
            of_family.insert(rest.to_owned(), line["value"].clone());
        }
    }
    records
}

#[tokio::test(flavor = "multi_thread")]
async fn views_show_the_records() {
    let site = Site::new().await;
    fixture::complete(&site.open().await).await.unwrap();
    let records = records(&site.dumped("dump.jsonl"));
    let database = site.name();
    // Views with the families and the fields that both have under one name.
    let alike = [
        ("organization", "org", "slug, name"),
        ("workspace", "workspace", "slug, name, audience"),
        ("member", "member", "handle, name, kind, role, teams"),
        (
            "custom_role",
            "role",
            "org_id, workspace_id, slug, name, base_role, description, actions, is_active, created_by",
        ),
        ("source", "source", "name, kind"),
        ("audit", "audit", "operation_id, actor_id, action, body"),
    ];
    for (view, family, fields) in alike {
        let names: Vec<&str> = fields.split(", ").collect();
        let mut expected: Vec<Value> = records[family]
            .values()
            .map(|record| {
                names
                    .iter()
                    .map(|name| ((*name).to_owned(), record[name].clone()))
                    .collect()
            })
            .collect();
        expected.sort_by_key(Value::to_string);
        let query = format!("SELECT {fields} FROM knowledge_{view}");
        assert_eq!(rows(&database, &query).await, expected, "{view}");
    }

    let query = "SELECT replace(org_id::text, '-', '') || '/' || replace(memory_id::text, '-', '') AS key,
        workspace_id, source_id, audience, sensitivity, review, title, content, source_key, created_by,
        updated_at >= created_at AS is_ordered FROM knowledge_memory";
    let mut expected: Vec<Value> = records["memory"]
        .iter()
        .map(|(key, labels)| {
            let content = &records["content"][key];
            let or = |value: &Value, default: &str| match value {
                Value::Null => json!(default),
                value => value.clone(),
            };
            json!({
                "key": key,
                "workspace_id": labels["workspace_id"],
                "source_id": labels["source_id"],
                "audience": labels["audience"],
                "sensitivity": or(&labels["sensitivity"], "internal"),
                "review": or(&labels["review"], "pending"),
                "title": content["title"],
                "content": content["content"],
                "source_key": content["source_key"],
                "created_by": content["created_by"],
                "is_ordered": true,
            })
        })
        .collect();
    expected.sort_by_key(Value::to_string);
    assert!(expected.len() > 10, "{}", expected.len());
    assert_eq!(rows(&database, query).await, expected);
}

/// The service stores none, but a row that another program wrote must not stop all queries.
#[tokio::test(flavor = "multi_thread")]
async fn views_leave_out_what_a_text_cannot_have() {
    let site = Site::new().await;
    fixture::complete(&site.open().await).await.unwrap();
    let database = site.name();
    let client = postgres().connect(&database).await;
    // Escaped U+0000, and the same letters after an escaped backslash.
    let stored = r#"{"title":"a\u0000b","content":"c\\u0000d\\\u0000e","created_at":"2026-01-31T09:30:00Z"}"#;
    let update = "UPDATE knowledge_entry SET value = $1
        WHERE key = (SELECT key FROM knowledge_entry
            WHERE key >= 'content/' AND key < 'content0' ORDER BY key LIMIT 1)";
    assert_eq!(
        client.execute(update, &[&stored.as_bytes()]).await.unwrap(),
        1
    );
    let query = "SELECT title, content FROM knowledge_memory WHERE title = 'ab'";
    let expected = json!({ "title": "ab", "content": "c\\u0000d\\e" });
    assert_eq!(rows(&database, query).await, [expected]);
}
