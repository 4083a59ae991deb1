//! Rejected requests to `/v1/erasures`.

use serde_json::json;
use uuid::Uuid;

use crate::support::{assert_rejections, error, post, quiet_org};

suite![erasure_rejects_invalid_requests];

async fn erasure_rejects_invalid_requests() {
    assert_rejections! { r#"
        owner POST /v1/erasures {"memoryIds": ["<max>"], "sourceId": "<source>"}
          invalid_value: body must name only one of memberId, sourceId and memoryIds
        owner POST /v1/erasures {"memberId": "<max>"}
          not_found: memberId must be a member of the organisation, or a former one
        owner POST /v1/erasures {"sourceId": "<source>", "anyPrefix": true}
          invalid_value: anyPrefix requires sourceKeyPrefix
        member POST /v1/erasures {"memoryIds": ["<max>"]}
        member POST /v1/erasures {"memoryIds": ["<max>"], "dryRun": true}
          403 forbidden: missing permission erasure:manage {"permission":"erasure:manage"}
        owner GET /v1/erasures/<max>
          404 not_found: there is no such erasure {"kind":"erasure"}
    "# }
    let named = json!({ "memoryIds": [Uuid::max()] });
    let without_key = post("/v1/erasures")
        .bearer(&quiet_org().members.owner.token)
        .json(&named);
    insta::assert_snapshot!(error(&without_key.await), @"400 idempotency_key_required: the header Idempotency-Key is required; send 1 to 255 visible ASCII characters, different for each new request");
}
