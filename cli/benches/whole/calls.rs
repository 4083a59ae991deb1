//! Requests of the rows, and their responses.

use bytes::Bytes;
use http::Method;
use knowledge_core::model::{MemoryId, WorkspaceId};
use serde_json::json;

use crate::load::{Answer, Call};
use crate::site::Site;
use crate::spec::Recorded;

/// Headers that differ from response to response, or that the HTTP library adds.
const ADDED_HEADERS: [&str; 4] = ["connection", "content-length", "date", "transfer-encoding"];

pub(crate) fn dashboard_path(workspace: WorkspaceId) -> String {
    format!("/v1/workspaces/{workspace}/dashboard-summary")
}

/// Returns a request of the holder of a token without a body.
pub(crate) fn call(token: &str, method: Method, path: String) -> Call {
    Call {
        method,
        path,
        headers: vec![("authorization", format!("Bearer {token}"))],
        body: Bytes::new(),
    }
}

pub(crate) fn with_tag(mut get: Call, etag: &str) -> Call {
    get.headers.push(("if-none-match", etag.to_owned()));
    get
}

/// Returns a bulk update of one attribute by the owner.
pub(crate) fn patch(
    site: &Site,
    key: &str,
    memories: &[MemoryId],
    field: &str,
    value: &str,
) -> Call {
    patch_as(&site.token, key, memories, field, value)
}

/// Returns a bulk update of one attribute, by the holder of a token.
pub(crate) fn patch_as(
    token: &str,
    key: &str,
    memories: &[MemoryId],
    field: &str,
    value: &str,
) -> Call {
    let body = json!({ "memoryIds": memories, field: value });
    Call {
        method: Method::PATCH,
        path: "/v1/memories/bulk".to_owned(),
        headers: vec![
            ("authorization", format!("Bearer {token}")),
            ("idempotency-key", key.to_owned()),
        ],
        body: Bytes::from(body.to_string()),
    }
}

/// Panics unless an update changed this number of memories.
pub(crate) fn assert_succeeded(answer: &Answer, count: usize) {
    let result = answer.json();
    assert_eq!(result["summary"]["succeeded"], count, "{result}");
}

/// Returns a response as the reference repeats it.
pub(crate) fn record(answer: &Answer) -> Recorded {
    let headers = answer.headers.iter();
    let headers = headers.filter(|(name, _)| !ADDED_HEADERS.contains(&name.as_str()));
    let text = |value: &http::HeaderValue| value.to_str().expect("ASCII").to_owned();
    Recorded {
        status: answer.status.as_u16(),
        headers: headers
            .map(|(name, value)| (name.as_str().to_owned(), text(value)))
            .collect(),
        body: answer.body.to_vec(),
    }
}
