//! `PATCH /v1/memories/bulk` with an invalid body.

use serde_json::json;
use uuid::Uuid;

use crate::support::{assert_rejections, bulk, problems, quiet_org};

suite![
    bulk_update_reports_all_problems_of_a_body,
    bulk_update_bounds_its_list_and_rejects_duplicates,
    bulk_update_requires_memories_and_a_change,
    bulk_update_with_unknown_source_is_rejected,
];

async fn bulk_update_reports_all_problems_of_a_body() {
    assert_rejections! { r#"
        member PATCH /v1/memories/bulk {"memoryIds": ["<memory>", "one", 2, "<memory>"], "audienceTag": "everybody", "sensitivityLabel": "secret", "sourceId": "wiki", "reviewStatus": null, "title": "Keys"}
          invalid_value: memoryIds[1] must be a UUID
          invalid_type: memoryIds[2] must be a string, not a number
          invalid_value: audienceTag must be <scope>:<name>, the scope one of org, workspace, team, user, the name 1 to 64 characters of a-z 0-9 - _ .
          invalid_value: sensitivityLabel must be one of public, internal, confidential, restricted
          invalid_value: sourceId must be a UUID
          invalid_type: reviewStatus must be a string, not null
          unknown_field: title is unknown; known fields: memoryIds, audienceTag, sensitivityLabel, sourceId, reviewStatus, dryRun
    "# }
}

async fn bulk_update_bounds_its_list_and_rejects_duplicates() {
    assert_rejections! { r#"
        member PATCH /v1/memories/bulk {"memoryIds": [], "audienceTag": "team:platform"}
          too_small: memoryIds must have 1 to 1000 items, not 0
        member PATCH /v1/memories/bulk {"memoryIds": ["<memory>", "<max>", "<memory>"], "audienceTag": "team:platform"}
          duplicate: memoryIds[2] must not repeat an earlier item of the list
        member PATCH /v1/memories/bulk {"memoryIds": "<memory>", "audienceTag": "team:platform"}
          invalid_type: memoryIds must be a list of UUIDs, not a string
    "# }
    let too_many: Vec<_> = (1..=1_001).map(Uuid::from_u128).collect();
    let body = json!({ "memoryIds": too_many, "audienceTag": "team:platform" });
    let answer = bulk(&quiet_org().members.member.token, &body).await;
    insta::assert_snapshot!(problems(&answer), @"too_large: memoryIds must have 1 to 1000 items, not 1001");
}

async fn bulk_update_requires_memories_and_a_change() {
    assert_rejections! { r#"
        member PATCH /v1/memories/bulk {}
          required: memoryIds is required
          required: body must set at least one of audienceTag, sensitivityLabel, sourceId, reviewStatus
        member PATCH /v1/memories/bulk {"memoryIds": ["<memory>"]}
          required: body must set at least one of audienceTag, sensitivityLabel, sourceId, reviewStatus
        member PATCH /v1/memories/bulk {"audienceTag": "team:platform"}
          required: memoryIds is required
    "# }
}

async fn bulk_update_with_unknown_source_is_rejected() {
    assert_rejections! { r#"
        member PATCH /v1/memories/bulk {"memoryIds": ["<memory>"], "sourceId": "<max>"}
          not_found: sourceId must be a source of the organisation
    "# }
}
