//! Approving and rejecting memories, one by one and in bulk.

use serde_json::{Value, json};

use crate::support::{Answer, bulk, error, get, own_org, patch, post};

suite![
    service_account_cannot_approve_what_it_added,
    member_cannot_approve_what_it_cannot_read,
    audit_entry_marks_review_by_the_author,
];

/// Returns the outcome of each item: an empty text, or the message of its error.
fn outcomes(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let body = answer.json();
    let items = body["results"].as_array().expect("a list").iter();
    let outcome = |item: &Value| item["error"]["message"].as_str().unwrap_or("").to_owned();
    items.map(outcome).collect()
}

async fn service_account_cannot_approve_what_it_added() {
    let org = own_org();
    let robot = &org.members.robot.token;
    let batch = json!({
        "source_id": org.sources[0],
        "memories": [{ "title": "Crawled", "content": "What a program found." }],
    });
    let ingest = post(format!("/v1/workspaces/{}/ingest", org.main.id));
    let ingested = ingest.bearer(robot).json(&batch).await;
    assert_eq!(ingested.status, 200);
    let added = ingested.json()["memories"][0]["id"].clone();
    let ids = json!([added, org.main.memories.internal[0]]);
    for status in ["approved", "rejected"] {
        let body = json!({ "memoryIds": ids, "reviewStatus": status });
        let own = "a service account or an MCP key may not approve or reject what it added itself";
        assert_eq!(outcomes(&bulk(robot, &body).await), [own, ""]);
        let one = patch(format!("/v1/memories/{}", added.as_str().expect("an id")));
        let one = one.bearer(robot).json(&json!({ "reviewStatus": status }));
        let refused = one.await;
        assert_eq!(
            error(&refused),
            format!("403 forbidden: {own} {{\"permission\":null}}")
        );
    }
    let approve = json!({ "memoryIds": [added], "reviewStatus": "approved" });
    let approved = bulk(&org.members.member.token, &approve).await;
    assert_eq!(outcomes(&approved), [""]);
}

async fn member_cannot_approve_what_it_cannot_read() {
    let org = own_org();
    let memories = &org.main.memories;
    let ids = [
        memories.confidential[0],
        memories.restricted[0],
        memories.internal[0],
    ];
    let approve = json!({ "memoryIds": ids, "reviewStatus": "approved" });
    let expected = [
        "missing permission memory:read_confidential",
        "missing permission memory:read_restricted",
        "",
    ];
    let approved = bulk(&org.members.member.token, &approve).await;
    assert_eq!(outcomes(&approved), expected);
    // Nor does one who governs labels beyond its audience.
    let private = json!({ "memoryIds": [memories.private[0]], "reviewStatus": "rejected" });
    let rejected = bulk(&org.members.admin.token, &private).await;
    let expected = "only the audience of a memory may approve or reject it";
    assert_eq!(outcomes(&rejected), [expected]);
    let rejected = bulk(&org.members.owner.token, &private).await;
    assert_eq!(outcomes(&rejected), [""]);
}

async fn audit_entry_marks_review_by_the_author() {
    let org = own_org();
    let approve = json!({
        "memoryIds": [org.main.memories.internal[0]], "reviewStatus": "approved",
    });
    // The owner of the fixture has added its memories.
    for (by, is_own) in [(&org.members.owner, true), (&org.members.admin, false)] {
        let approved = bulk(&by.token, &approve).await.json();
        let id = approved["results"][0]["auditLogId"].clone();
        let entry = get(format!("/v1/audit-log/{}", id.as_str().expect("an id")));
        let entry = entry.bearer(&org.members.owner.token).await;
        assert_eq!(entry.json()["own"], is_own, "{entry:?}");
    }
}
