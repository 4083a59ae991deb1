//! Messages of the principal to the endpoint of the Model Context Protocol.
//!
//! The endpoint is no operation: its tools call operations with the credential of the message.
//! Nothing of its responses is excepted.

use std::fmt;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Request, Response};
use serde_json::{Value, json};

use super::choices::Choices;
use super::hidden::TEXTS;
use super::kinds::Principal;
use super::world::World;
use crate::call::ACT_FOR;
use knowledge_core::model::MemoryId;

const PATH: &str = "/mcp";
/// Version of the protocol, in which each message stands alone.
const VERSION: &str = "2026-07-28";

/// Message of the principal.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// Query with its question mark, which names a workspace; empty if there is none.
    query: String,
    method: &'static str,
    params: Value,
}

impl Message {
    /// Returns the memory that it fetches, if it calls that tool.
    pub(super) fn fetched(&self) -> Option<MemoryId> {
        let is_fetch = self.params["name"] == "fetch";
        let id = self.params["arguments"]["id"].as_str();
        id.filter(|_| is_fetch)?.parse().ok().map(MemoryId)
    }

    /// Returns the request with which the principal sends it.
    pub(super) fn request(&self, pat: &Principal) -> Request<Bytes> {
        let mut params = self.params.clone();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": self.method, "params": params });
        let mut request = Request::post(format!("{PATH}{}", self.query))
            .header(AUTHORIZATION, format!("Bearer {}", pat.token.expose()))
            .header(CONTENT_TYPE, "application/json")
            .header("mcp-protocol-version", VERSION)
            .header("mcp-method", self.method);
        if let Some(tool) = self.params["name"].as_str() {
            request = request.header("mcp-name", tool);
        }
        if pat.caller.via.is_some() {
            request = request.header(ACT_FOR, pat.member.to_string());
        }
        let body = Bytes::from(body.to_string());
        request.body(body).expect("a request")
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (method, params) = (self.method, &self.params);
        write!(f, "POST {PATH}{} {method} {params}", self.query)
    }
}

impl World {
    /// Chooses a message: the call of a tool, or a question about the server.
    pub(super) fn message(&self, choices: &mut Choices<'_>) -> Message {
        let workspace = self.id(choices, "workspaces");
        let scope = &self.pat.caller.scope;
        // A credential for one workspace needs no name of it, and may name another one.
        let is_named = scope.workspaces.is_none() || choices.once_in(4);
        let query = if is_named {
            format!("?workspace={workspace}")
        } else {
            String::new()
        };
        let (method, params) = match choices.below(8) {
            0 => ("tools/list", json!({})),
            1 => ("server/discover", json!({})),
            _ => ("tools/call", self.call_of_tool(choices, &workspace)),
        };
        Message {
            query,
            method,
            params,
        }
    }

    /// Returns the parameters of a call: a tool and its arguments.
    fn call_of_tool(&self, choices: &mut Choices<'_>, workspace: &str) -> Value {
        match choices.below(5) {
            0 | 1 => {
                let limit = 1 + choices.below(4);
                let arguments = json!({ "query": TEXTS[choices.below(2)], "limit": limit });
                json!({ "name": "recall", "arguments": arguments })
            }
            2 | 3 => json!({ "name": "fetch", "arguments": { "id": self.memory(choices) } }),
            _ => {
                let listed = format!("/v1/workspaces/{workspace}/memories");
                let cursor = self.cursors.get(&listed).filter(|_| choices.once_in(2));
                json!({ "name": "list_memories", "arguments": { "cursor": cursor } })
            }
        }
    }

    /// Notes what the response to a message contains.
    pub(super) fn hear(&mut self, response: &Response<Bytes>) {
        let body: Value = serde_json::from_slice(response.body()).unwrap_or_default();
        let found = &body["result"]["structuredContent"];
        if let Some(recall) = found["recall_id"].as_str() {
            self.note("recalls", recall.to_owned());
            self.cite_found(&found["results"], "id");
        }
    }
}
