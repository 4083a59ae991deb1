//! Rejected requests to add, list, read and change memories.

use serde_json::json;

use crate::support::{assert_rejections, post, problems, quiet_org};

suite![
    memory_rejects_invalid_request,
    memory_rejects_unauthorized_and_unknown_access,
];

async fn memory_rejects_invalid_request() {
    assert_rejections! { r#"
        owner POST /v1/workspaces/<main>/memories {"title": "", "sourceKey": "", "audienceTag": "nobody", "labels": []}
          required: sourceId is required
          too_small: title must have 1 to 128 characters, not only white space, and no control characters
          required: content is required
          invalid_value: sourceKey must have 1 to 512 characters
          invalid_value: audienceTag must be <scope>:<name>, the scope one of org, workspace, team, user, the name 1 to 64 characters of a-z 0-9 - _ .
          unknown_field: labels is unknown; known fields: sourceId, title, content, sourceKey, audienceTag, sensitivityLabel, revive, recallId
        owner POST /v1/workspaces/<main>/memories {"sourceId": "<source>", "title": "a\u0000b", "content": "a\u0000b", "sourceKey": "a\u0000b"}
          invalid_value: title must not contain the character U+0000
          invalid_value: content must not contain the character U+0000
          invalid_value: sourceKey must not contain the character U+0000
        owner POST /v1/workspaces/<main>/memories {"sourceId": "<nil>", "title": "New", "content": "New."}
          not_found: sourceId must be a source of the organisation
        owner PATCH /v1/memories/<memory> {"title": 7, "content": "", "reviewStatus": "done", "sourceId": "x"}
          invalid_type: title must be a string, not a number
          too_small: content must have 1 to 32768 bytes, and at most 61440 once JSON escapes it
          invalid_value: sourceId must be a UUID
          invalid_value: reviewStatus must be one of pending, approved, rejected
        owner GET /v1/workspaces/<main>/memories?limit=0&reviewStatus=done&color=red
          invalid_value: reviewStatus must be one of pending, approved, rejected
          invalid_value: limit must be a number from 1 to 200
          unknown_field: color is unknown; known parameters: audienceTag, sensitivityLabel, reviewStatus, sourceId, limit, cursor
        owner POST /v1/workspaces/<main>/ingest {"memories": [{"title": "One", "source_key": 1}, 7, {"title": "", "content": "x", "sensitivity": "public"}]}
          required: source_id is required
          required: memories[0].content is required
          invalid_type: memories[0].source_key must be a string, not a number
          invalid_type: memories[1] must be an object, not a number
          too_small: memories[2].title must have 1 to 128 characters, not only white space, and no control characters
          unknown_field: memories[2].sensitivity is unknown; known fields: title, content, source_key, audience_tag, sensitivity_label
        owner POST /v1/workspaces/<main>/ingest {"source_id": "<source>", "memories": []}
          too_small: memories must have 1 to 100 items, not 0
        owner POST /v1/workspaces/<main>/ingest {"source_id": "<source>", "memories": [{"title": "One", "content": "x", "source_key": "page/1"}, {"title": "One", "content": "x", "source_key": "page/1"}]}
          duplicate: memories[1].source_key must not repeat the key of memories[0]
    "# }
    let org = quiet_org();
    let item = json!({ "title": "One", "content": "x", "source_key": "page/1" });
    let batch = json!({ "source_id": org.sources[0], "memories": vec![item; 101] });
    let ingest = post(format!("/v1/workspaces/{}/ingest", org.main.id)).json(&batch);
    let refused = ingest.bearer(&org.members.owner.token).await;
    insta::assert_snapshot!(problems(&refused), @"too_large: memories must have 1 to 100 items, not 101");
}

async fn memory_rejects_unauthorized_and_unknown_access() {
    assert_rejections! { r#"
        viewer POST /v1/workspaces/<main>/memories {"sourceId": "<source>", "title": "New", "content": "New."}
          403 forbidden: missing permission memory:propose {"permission":"memory:propose"}
        viewer PATCH /v1/memories/<approved> {"title": "Mine"}
          403 forbidden: missing permission memory:update {"permission":"memory:update"}
        viewer DELETE /v1/memories/<approved>
          403 forbidden: missing permission memory:delete {"permission":"memory:delete"}
        member PATCH /v1/memories/<restricted> {"content": "Mine"}
          403 forbidden: missing permission memory:read_restricted {"permission":"memory:read_restricted"}
        owner GET /v1/workspaces/<nil>/memories
        owner POST /v1/workspaces/<nil>/memories {"sourceId": "<source>", "title": "New", "content": "New."}
          404 not_found: there is no such workspace {"kind":"workspace"}
        side_only GET /v1/memories/<approved>
        owner GET /v1/memories/none
        owner PATCH /v1/memories/<nil> {"title": "Mine"}
        viewer GET /v1/memories/<private>
        viewer DELETE /v1/memories/<private>
        viewer PATCH /v1/memories/<private> {"title": "Mine"}
          404 not_found: there is no such memory {"kind":"memory"}
    "# }
}
