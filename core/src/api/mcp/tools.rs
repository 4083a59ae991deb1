//! Tools: what assistants call, and the operations that carry it out.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode, Uri};
use serde_json::{Map, Value, json};

use super::message::{Code, ProtocolError, object};
use super::place::Place;
use crate::access::{Action, ActionSet};
use crate::api::client_scheme::ClientScheme;
use crate::api::{Api, headers};
use crate::error::{EntityKind, Error};
use crate::model::{MemoryId, RecallId, WorkspaceId};
use crate::service::{ClientInfo, Principal};

/// The tools as `tools/list` returns them.
const TOOLS: &str = include_str!("tools.json");
/// Time for which clients may keep the list of tools, in milliseconds.
const TOOLS_MILLIS: u64 = 5 * 60 * 1_000;
/// Number of memories on a page of `list_memories`.
const PAGE: usize = 50;
/// Number of memories that `recall` finds by default.
const RESULTS_DEFAULT: u64 = 5;
/// Beginning of the name of a memory without an address (RFC 9562, 4).
const URN: &str = "urn:uuid:";
/// Arguments of `remember`, and the fields of a memory that they are.
const PROPOSED: [(&str, &str); 4] = [
    ("title", "title"),
    ("content", "content"),
    ("source_key", "sourceKey"),
    ("recall_id", "recallId"),
];
/// Maximum number of characters of an excerpt.
const EXCERPT_CHARS_MAX: usize = 1_000;

/// Failure of a call that is not for the assistant to see.
pub(super) enum Failure {
    /// The call is not one of a tool.
    Protocol(ProtocolError),
    /// The credential has ended since the request began.
    Unauthenticated,
}

/// Failure of an operation.
enum Refusal {
    /// The caller may not, or the input is wrong: a text that an assistant can act on.
    Refused(String),
    Unauthenticated,
}

/// The tools of one request.
pub(super) struct Tools<'r> {
    pub(super) api: &'r Api,
    pub(super) request: &'r Request<Bytes>,
    pub(super) client: ClientInfo,
    pub(super) principal: &'r Principal,
    pub(super) place: &'r Place,
}

/// Returns the actions that a tool needs, if there is one with this name.
fn needed(tool: &str) -> Option<ActionSet> {
    match tool {
        "recall" | "search" | "cite" => {
            Some(ActionSet::of(&[Action::MemoryRead, Action::RecallCreate]))
        }
        "fetch" | "list_memories" => Some(ActionSet::of(&[Action::MemoryRead])),
        "remember" => Some(ActionSet::of(&[Action::MemoryPropose])),
        _ => None,
    }
}

impl Tools<'_> {
    /// Returns the tools that the scope of the credential permits: to propose, that of an MCP key
    /// with a source.
    pub(super) fn list(&self) -> Map<String, Value> {
        object([
            ("tools", Value::Array(self.permitted())),
            ("ttlMs", json!(TOOLS_MILLIS)),
            ("cacheScope", json!("private")),
        ])
    }

    fn permitted(&self) -> Vec<Value> {
        let mut tools: Vec<Value> = serde_json::from_str(TOOLS).expect("the tools are JSON");
        tools.retain(|tool| {
            let needed = tool["name"].as_str().and_then(needed).unwrap_or_default();
            let is_offered = tool["name"] != "remember" || self.place.proposal_source.is_some();
            is_offered && self.principal.scoped(needed) == needed
        });
        tools
    }

    /// Calls a tool. What it may not do, or cannot, is a result that says so.
    pub(super) async fn call(
        self,
        params: &Map<String, Value>,
    ) -> Result<Map<String, Value>, Failure> {
        let name = params.get("name").and_then(Value::as_str);
        let name = name.unwrap_or_default();
        let tools = self.permitted();
        let Some(tool) = tools.iter().find(|tool| tool["name"] == name) else {
            let names = tools.iter().filter_map(|tool| tool["name"].as_str());
            let names: Vec<&str> = names.collect();
            let message = format!("unknown tool {name:?}; known tools: {}", names.join(", "));
            let error = ProtocolError::new(Code::InvalidParams, message);
            return Err(Failure::Protocol(error));
        };
        let mut arguments = match params.get("arguments") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(arguments)) => arguments.clone(),
            Some(_) => {
                let message = "arguments must be an object";
                let error = ProtocolError::new(Code::InvalidParams, message);
                return Err(Failure::Protocol(error));
            }
        };
        // Models repeat the null of an absent cursor.
        arguments.retain(|_, value| !value.is_null());
        let called = match check_arguments(&tool["inputSchema"], &arguments) {
            Ok(()) => self.carry_out(name, self.place.id, &arguments).await,
            Err(problem) => Err(invalid(&problem)),
        };
        let (text, structured) = match called {
            Ok(structured) => (structured.to_string(), Some(structured)),
            Err(Refusal::Refused(message)) => (message, None),
            Err(Refusal::Unauthenticated) => return Err(Failure::Unauthenticated),
        };
        let mut result = object([
            ("content", json!([{ "type": "text", "text": text }])),
            ("isError", json!(structured.is_none())),
        ]);
        if let Some(structured) = structured {
            result.insert("structuredContent".to_owned(), structured);
        }
        Ok(result)
    }

    async fn carry_out(
        &self,
        name: &str,
        workspace: WorkspaceId,
        arguments: &Map<String, Value>,
    ) -> Result<Value, Refusal> {
        match name {
            "fetch" => self.fetch(workspace, &arguments["id"]).await,
            "list_memories" => self.list_memories(workspace, arguments.get("cursor")).await,
            "remember" => self.remember(workspace, arguments).await,
            "cite" => self.cite(workspace, arguments).await,
            _ => self.recall(workspace, arguments).await,
        }
    }

    async fn recall(
        &self,
        workspace: WorkspaceId,
        search: &Map<String, Value>,
    ) -> Result<Value, Refusal> {
        let query = search["query"].as_str();
        if query.is_some_and(|query| query.trim().is_empty()) {
            return Err(invalid("query must not be blank"));
        }
        let mut search = search.clone();
        let limit = search.entry("limit");
        limit.or_insert_with(|| json!(RESULTS_DEFAULT));
        let path = format!("/v1/workspaces/{workspace}/recalls/search");
        let search = serde_json::to_vec(&search).expect("JSON with string keys serialises");
        let found = self.operation(Method::POST, &path, search).await?;
        let base = self.base();
        let results = found["results"].as_array().into_iter().flatten();
        let results = results.map(|memory| {
            let id = &memory["memory_id"];
            json!({
                "id": id,
                "title": memory["title"],
                "excerpt": excerpt(memory["content"].as_str().unwrap_or_default()),
                "url": url(base.as_deref(), id),
                "source_id": memory["source_id"],
                "audience": memory["audience_tag"],
                "sensitivity": memory["sensitivity_label"],
                "updated_at": memory["updated_at"],
            })
        });
        let results: Vec<Value> = results.collect();
        Ok(json!({ "recall_id": found["recall_id"], "results": results }))
    }

    async fn cite(
        &self,
        workspace: WorkspaceId,
        arguments: &Map<String, Value>,
    ) -> Result<Value, Refusal> {
        let recall = arguments["recall_id"].as_str().unwrap_or_default();
        let recall = recall.parse::<RecallId>();
        let recall = recall.map_err(|_| invalid("recall_id must be one that recall returned"))?;
        let path = format!("/v1/recalls/{recall}");
        let found = self.operation(Method::GET, &path, Vec::new()).await?;
        if found["workspace_id"] != json!(workspace) {
            return Err(missing(EntityKind::Recall));
        }
        let mut ids = arguments["memory_ids"].clone();
        for id in ids.as_array_mut().into_iter().flatten() {
            if let Some(named) = id.as_str().and_then(|id| id.strip_prefix(URN)) {
                *id = json!(named);
            }
        }
        let update = json!({ "memory_ids": ids }).to_string().into_bytes();
        let narrowed = self.operation(Method::PATCH, &path, update).await?;
        Ok(json!({ "recall_id": narrowed["id"], "memory_ids": narrowed["memory_ids"] }))
    }

    async fn fetch(&self, workspace: WorkspaceId, id: &Value) -> Result<Value, Refusal> {
        let id = id.as_str().unwrap_or_default();
        let id = id.strip_prefix(URN).unwrap_or(id).parse::<MemoryId>();
        let id = id.map_err(|_| invalid("id must be that of a memory, as recall returns it"))?;
        let path = format!("/v1/memories/{id}");
        let found = self.operation(Method::GET, &path, Vec::new()).await?;
        // Unreviewed memories, and those of other workspaces, are not for assistants.
        let is_shown = found["workspaceId"] == json!(workspace)
            && found["reviewStatus"] == "approved"
            && found["content"].is_string();
        if !is_shown {
            return Err(missing(EntityKind::Memory));
        }
        let base = self.base();
        Ok(json!({
            "id": found["id"],
            "title": found["title"],
            "text": found["content"],
            "url": url(base.as_deref(), &found["id"]),
            "metadata": {
                "source_id": found["sourceId"],
                "audience": found["audienceTag"],
                "sensitivity": found["sensitivityLabel"],
                "updated_at": found["updatedAt"],
            },
        }))
    }

    async fn list_memories(
        &self,
        workspace: WorkspaceId,
        cursor: Option<&Value>,
    ) -> Result<Value, Refusal> {
        let mut path =
            format!("/v1/workspaces/{workspace}/memories?reviewStatus=approved&limit={PAGE}");
        if let Some(cursor) = cursor {
            let cursor = cursor.as_str().unwrap_or_default();
            path.push_str("&cursor=");
            path.extend(form_urlencoded::byte_serialize(cursor.as_bytes()));
        }
        let found = self.operation(Method::GET, &path, Vec::new()).await?;
        let memories = found["data"].as_array().into_iter().flatten();
        let readable = memories.filter(|memory| memory["title"].is_string());
        let memories = readable.map(|memory| {
            json!({
                "id": memory["id"],
                "title": memory["title"],
                "audience": memory["audienceTag"],
                "sensitivity": memory["sensitivityLabel"],
                "updated_at": memory["updatedAt"],
            })
        });
        let memories: Vec<Value> = memories.collect();
        Ok(json!({ "memories": memories, "next_cursor": found["next_cursor"] }))
    }

    async fn remember(
        &self,
        workspace: WorkspaceId,
        arguments: &Map<String, Value>,
    ) -> Result<Value, Refusal> {
        let mut memory = object([("sourceId", json!(self.place.proposal_source))]);
        for (argument, field) in PROPOSED {
            if let Some(value) = arguments.get(argument) {
                memory.insert(field.to_owned(), value.clone());
            }
        }
        let path = format!("/v1/workspaces/{workspace}/memories");
        let memory = serde_json::to_vec(&memory).expect("JSON with string keys serialises");
        let added = self.operation(Method::POST, &path, memory).await;
        let added = added.map_err(|refusal| match refusal {
            Refusal::Refused(message) => {
                let renamed = PROPOSED.iter().fold(message, |message, (argument, field)| {
                    message.replace(field, argument)
                });
                // Nothing is revived here.
                Refusal::Refused(renamed.replace(", unless revive is true", ""))
            }
            Refusal::Unauthenticated => refusal,
        })?;
        Ok(json!({
            "id": added["id"],
            "url": url(self.base().as_deref(), &added["id"]),
            "audience": added["audienceTag"],
            "review_status": added["reviewStatus"],
        }))
    }

    /// Calls an operation as the caller of the request.
    async fn operation(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Value, Refusal> {
        let mut request = Request::new(Bytes::from(body));
        *request.method_mut() = method;
        // A URI has a maximum length, and an argument may not.
        let uri = path.parse::<Uri>();
        *request.uri_mut() = uri.map_err(|_| invalid("an argument is too long"))?;
        let given = self.request.headers();
        for name in [AUTHORIZATION, headers::ACT_FOR] {
            for value in given.get_all(&name) {
                request.headers_mut().append(&name, value.clone());
            }
        }
        if !request.body().is_empty() {
            let json = "application/json".parse().expect("visible ASCII");
            request.headers_mut().insert(CONTENT_TYPE, json);
        }
        *request.extensions_mut() = self.request.extensions().clone();
        let response = self.api.handle_operation(&request, self.client).await;
        if response.status() == StatusCode::UNAUTHORIZED {
            return Err(Refusal::Unauthenticated);
        }
        let body: Value = serde_json::from_slice(response.body()).unwrap_or_default();
        if response.status().is_success() {
            return Ok(body);
        }
        Err(Refusal::Refused(explanation(&body)))
    }

    /// Returns the address of the screen of the workspace's memories, if it is known.
    fn base(&self) -> Option<String> {
        let slug = &self.place.workspace.as_ref()?.slug;
        let host = self.request.headers().get(HOST);
        let host = host.and_then(|host| host.to_str().ok());
        let base = match host.filter(|host| !host.is_empty()) {
            Some(host) => {
                let scheme = match self.request.extensions().get() {
                    Some(ClientScheme::Https) => "https",
                    _ => "http",
                };
                format!("{scheme}://{host}")
            }
            None => self
                .api
                .service
                .base_url()?
                .trim_end_matches('/')
                .to_owned(),
        };
        Some(format!("{base}/#/{slug}/memories"))
    }
}

/// Returns the refusal of what does not exist for the assistant.
fn missing(kind: EntityKind) -> Refusal {
    let error = Error::not_found(kind);
    Refusal::Refused(format!("{}: {error}", error.code()))
}

/// Returns the refusal of an argument.
fn invalid(problem: &str) -> Refusal {
    Refusal::Refused(format!("invalid_request: {problem}"))
}

/// Returns what an error response says, with every problem of the input.
fn explanation(body: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let fields = body["details"]["fields"].as_array().into_iter().flatten();
    let problem = |field: &Value| format!("{} {}", text(&field["path"]), text(&field["message"]));
    let problems: Vec<String> = fields.map(problem).collect();
    let message = if problems.is_empty() {
        text(&body["message"])
    } else {
        problems.join("; ")
    };
    format!("{}: {message}", text(&body["error"]))
}

/// Returns the address of a memory for people: its screen in the console, or its name as a URN.
fn url(base: Option<&str>, id: &Value) -> String {
    let id = id.as_str().unwrap_or_default();
    match base {
        Some(base) => format!("{base}/{id}"),
        None => format!("{URN}{id}"),
    }
}

/// Returns the beginning of a text.
fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
    }
}

/// Checks the names of arguments. The operation checks their values.
fn check_arguments(schema: &Value, arguments: &Map<String, Value>) -> Result<(), String> {
    let known = &schema["properties"];
    for name in arguments.keys() {
        if known.get(name).is_none() {
            let known = known.as_object().into_iter().flatten();
            let known: Vec<&str> = known.map(|(name, _)| &**name).collect();
            let known = known.join(", ");
            return Err(format!("{name} is unknown; known arguments: {known}"));
        }
    }
    let required = schema["required"].as_array().into_iter().flatten();
    let mut required = required.filter_map(Value::as_str);
    match required.find(|name| !arguments.contains_key(*name)) {
        None => Ok(()),
        Some(name) => Err(format!("{name} is required")),
    }
}
