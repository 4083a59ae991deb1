//! Messages: JSON-RPC 2.0 requests and notifications in the body of a POST.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::api::response::ApiResponse;

/// Version without sessions.
const STATELESS: &str = "2026-07-28";
/// Supported versions of the protocol, newest first.
pub(super) const VERSIONS: [&str; 3] = [STATELESS, "2025-11-25", "2025-06-18"];
/// Newest version of the protocol that begins with `initialize`.
const HANDSHAKE: &str = VERSIONS[1];

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// Fields of `_meta`.
const VERSION_FIELD: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_FIELD: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER_FIELD: &str = "io.modelcontextprotocol/serverInfo";

/// Code of an error (JSON-RPC 2.0, 5.1, and version 2026-07-28 of the protocol).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    Parse = -32_700,
    InvalidRequest = -32_600,
    MethodNotFound = -32_601,
    InvalidParams = -32_602,
    HeaderMismatch = -32_020,
    UnsupportedVersion = -32_022,
}

/// An error of the protocol.
#[derive(Debug)]
pub(super) struct ProtocolError {
    code: Code,
    message: String,
    data: Option<Value>,
}

impl ProtocolError {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// Returns the error of a method that does not exist.
    pub(super) fn unknown_method(method: &str) -> Self {
        Self::new(Code::MethodNotFound, format!("unknown method: {method}"))
    }
}

/// A message that is not read further.
#[derive(Debug)]
pub(super) struct Refused {
    id: Value,
    error: ProtocolError,
}

impl Refused {
    pub(super) fn into_response(self) -> Response<Bytes> {
        error_response(StatusCode::BAD_REQUEST, &self.id, self.error)
    }
}

/// A request or notification of a client.
#[derive(Debug)]
pub(super) struct Message {
    /// Identifier of a request; a notification has none.
    pub(super) id: Option<Value>,
    pub(super) method: String,
    pub(super) params: Map<String, Value>,
    /// True in the version without sessions.
    pub(super) is_stateless: bool,
}

impl Message {
    /// Parses the body of a POST, and checks the headers that repeat parts of it.
    ///
    /// # Errors
    /// If it is no message of a supported version.
    pub(super) fn parse(headers: &HeaderMap, body: &[u8]) -> Result<Self, Refused> {
        let message: Value = serde_json::from_slice(body).map_err(|error| Refused {
            id: Value::Null,
            error: ProtocolError::new(Code::Parse, format!("not JSON: {error}")),
        })?;
        let id = message.get("id").cloned();
        let shown_id = id.clone().filter(is_id).unwrap_or_default();
        let message = Self::of(id, message);
        let checked = message.and_then(|message| message.checked(headers));
        checked.map_err(|error| Refused {
            id: shown_id,
            error,
        })
    }

    fn of(id: Option<Value>, message: Value) -> Result<Self, ProtocolError> {
        let invalid = |problem| Err(ProtocolError::new(Code::InvalidRequest, problem));
        let Value::Object(mut fields) = message else {
            return invalid("a POST has one JSON-RPC message: an object");
        };
        if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return invalid("jsonrpc must be \"2.0\"");
        }
        if !id.as_ref().is_none_or(is_id) {
            return invalid("id must be a string or an integer");
        }
        let Some(Value::String(method)) = fields.remove("method") else {
            return invalid("method must be a string: a POST has a request or a notification");
        };
        let params = match fields.remove("params") {
            None => Map::new(),
            Some(Value::Object(params)) => params,
            Some(_) => return invalid("params must be an object"),
        };
        Ok(Self {
            id,
            method,
            params,
            is_stateless: false,
        })
    }

    /// Determines the version, and checks what a request of the stateless version has to repeat.
    fn checked(mut self, headers: &HeaderMap) -> Result<Self, ProtocolError> {
        let in_body = self.meta(VERSION_FIELD).and_then(Value::as_str);
        let in_header = header(headers, &PROTOCOL_VERSION);
        if in_body.is_none() && self.method == "initialize" && in_header != Some(STATELESS) {
            return Ok(self);
        }
        let Some(version) = in_header else {
            let message = "MCP-Protocol-Version is required, once";
            return Err(ProtocolError::new(Code::HeaderMismatch, message));
        };
        if in_body.is_some_and(|declared| declared != version) {
            return Err(mismatch("MCP-Protocol-Version", VERSION_FIELD));
        }
        if !VERSIONS.contains(&version) {
            return Err(ProtocolError {
                data: Some(json!({ "supported": VERSIONS, "requested": version })),
                ..ProtocolError::new(Code::UnsupportedVersion, "unsupported protocol version")
            });
        }
        self.is_stateless = version == STATELESS;
        if self.is_stateless && self.id.is_some() {
            self.check_request(headers)?;
        }
        Ok(self)
    }

    fn check_request(&self, headers: &HeaderMap) -> Result<(), ProtocolError> {
        let is_declared = self.meta(VERSION_FIELD).is_some_and(Value::is_string);
        if !is_declared || !self.meta(CAPABILITIES_FIELD).is_some_and(Value::is_object) {
            let message = format!("_meta must have {VERSION_FIELD} and {CAPABILITIES_FIELD}");
            return Err(ProtocolError::new(Code::InvalidParams, message));
        }
        if header(headers, &METHOD) != Some(&self.method) {
            return Err(mismatch("Mcp-Method", "method"));
        }
        let name = self.params.get("name").and_then(Value::as_str);
        let in_header = header(headers, &NAME).and_then(decoded);
        if self.method == "tools/call" && in_header.as_deref() != name {
            return Err(mismatch("Mcp-Name", "params.name"));
        }
        Ok(())
    }

    fn meta(&self, name: &str) -> Option<&Value> {
        self.params.get("_meta")?.get(name)
    }

    /// Returns the version to speak with a client that begins with `initialize`.
    pub(super) fn negotiated(&self) -> &'static str {
        let wanted = self.params.get("protocolVersion").and_then(Value::as_str);
        let known = VERSIONS[1..]
            .iter()
            .find(|version| wanted == Some(**version));
        known.copied().unwrap_or(HANDSHAKE)
    }

    /// Returns the response to a request that the endpoint cannot serve in any version.
    pub(super) fn refuse(&self, error: ProtocolError) -> Response<Bytes> {
        error_response(
            StatusCode::BAD_REQUEST,
            &self.id.clone().unwrap_or_default(),
            error,
        )
    }

    /// Returns the response with the result of a request, or with its error.
    pub(super) fn respond(
        &self,
        result: Result<Map<String, Value>, ProtocolError>,
    ) -> Response<Bytes> {
        let id = self.id.clone().unwrap_or_default();
        match result {
            Ok(mut result) => {
                if self.is_stateless {
                    result.insert("resultType".to_owned(), json!("complete"));
                    result.insert("_meta".to_owned(), json!({ SERVER_FIELD: server() }));
                }
                let body = json!({ "jsonrpc": "2.0", "id": id, "result": result });
                ApiResponse::json(StatusCode::OK, &body).into_response()
            }
            Err(error) => {
                // Earlier versions have errors of a request with the status 200 only.
                let status = match error.code {
                    _ if !self.is_stateless => StatusCode::OK,
                    Code::MethodNotFound => StatusCode::NOT_FOUND,
                    _ => StatusCode::BAD_REQUEST,
                };
                error_response(status, &id, error)
            }
        }
    }
}

/// Returns an object with these fields.
pub(super) fn object<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    let fields = fields.into_iter();
    fields
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Returns the name and version of this server.
pub(super) fn server() -> Value {
    json!({
        "name": "knowledge",
        "title": "Workspace knowledge",
        "version": env!("CARGO_PKG_VERSION"),
    })
}

/// Returns true for an identifier of a request: a string or an integer.
fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_i64() || id.is_u64()
}

/// Returns the text of a header that was sent once.
fn header<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).into_iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    value.to_str().ok().map(str::trim)
}

/// Decodes a name in a header: as it is, or as `=?base64?…?=`.
fn decoded(value: &str) -> Option<String> {
    let encoded = value.strip_prefix("=?base64?");
    match encoded.and_then(|value| value.strip_suffix("?=")) {
        None => Some(value.to_owned()),
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
    }
}

fn mismatch(header: &str, field: &str) -> ProtocolError {
    let message = format!("{header} must be sent once and equal {field}");
    ProtocolError::new(Code::HeaderMismatch, message)
}

fn error_response(status: StatusCode, id: &Value, error: ProtocolError) -> Response<Bytes> {
    let mut body = json!({
        "jsonrpc": "2.0",
        "id": id,
        "error": { "code": error.code as i32, "message": error.message },
    });
    if let Some(data) = error.data {
        body["error"]["data"] = data;
    }
    ApiResponse::json(status, &body).into_response()
}
