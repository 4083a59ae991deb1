//! Messages on a line, and as requests.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use serde_json::{Value, json};

use crate::commands::error_response::ErrorResponse;
use crate::commands::failure::Failure;

/// Version of messages before a client and the server agree on one.
const VERSION: &str = "2025-11-25";
/// Code of an error that is none of the protocol (JSON-RPC 2.0, 5.1).
const INTERNAL_ERROR: i32 = -32_603;

/// A message of a client, as the endpoint takes it.
pub(super) struct Message {
    /// Headers that repeat parts of it.
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// Identifier of a request; a notification has none.
    id: Option<Value>,
    is_initialization: bool,
}

/// The messages of one client, which agrees on a version first or names it in each.
#[derive(Default)]
pub(super) struct Dialogue {
    version: Option<String>,
}

impl Dialogue {
    /// Returns the message on a line.
    pub(super) fn message(&self, line: Vec<u8>) -> Message {
        let parsed: Value = serde_json::from_slice(&line).unwrap_or_default();
        let method = parsed["method"].as_str().unwrap_or_default();
        let params = &parsed["params"];
        let own = params["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut add = |name: &'static str, value: &str| {
            // The server refuses a message without a header that its version has.
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        let version = own.or(self.version.as_deref()).unwrap_or(VERSION);
        add("mcp-protocol-version", version);
        add("mcp-method", method);
        if let Some(name) = params["name"].as_str() {
            add("mcp-name", &format!("=?base64?{}?=", STANDARD.encode(name)));
        }
        Message {
            headers,
            // What is no message is answered too.
            id: match &parsed {
                Value::Object(fields) => fields.get("id").cloned(),
                _ => Some(Value::Null),
            },
            is_initialization: method == "initialize" && own.is_none(),
            body: line.into(),
        }
    }

    /// Returns the line that answers a message, if it is one that is answered.
    pub(super) fn answer(
        &mut self,
        message: &Message,
        response: Result<Response<Bytes>, Failure>,
    ) -> Option<Vec<u8>> {
        let problem = match response {
            Ok(response) => {
                let body: Value = serde_json::from_slice(response.body()).unwrap_or_default();
                if body.get("jsonrpc").is_some() {
                    let agreed = body["result"]["protocolVersion"].as_str();
                    if let Some(agreed) = agreed.filter(|_| message.is_initialization) {
                        self.version = Some(agreed.to_owned());
                    }
                    // Written anew, because a proxy may have put it on several lines.
                    return message.id.is_some().then(|| body.to_string().into_bytes());
                }
                if message.id.is_none() && response.status().is_success() {
                    return None;
                }
                ErrorResponse::read(&response).into_failure(&[]).to_string()
            }
            Err(failure) => failure.to_string(),
        };
        eprintln!("error: {problem}");
        let id = message.id.as_ref()?;
        let error = json!({ "code": INTERNAL_ERROR, "message": problem });
        let answer = json!({ "jsonrpc": "2.0", "id": id, "error": error });
        Some(answer.to_string().into_bytes())
    }
}
