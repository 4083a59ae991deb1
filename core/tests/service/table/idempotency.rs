//! Tests of the replays of every operation that creates something, for its `Idempotency-Key`.

use http::{Method, Request, StatusCode};
use knowledge_core::access::TokenScope;
use knowledge_core::api::{Api, ErrorStyle, OPERATIONS, Operation, OperationSpec};
use knowledge_core::limits::IDEMPOTENCY_RETENTION;
use serde_json::{Value, json};

use super::callers::Caller;
use super::requests::Call;
use crate::make::{ACME, ADMIN, MILLISECOND};
use crate::world::World;

/// Operations that a repeated `POST` is harmless for, or that repeat nothing, with the reason.
const WITHOUT_KEY: [(Operation, &str); 13] = [
    (Operation::CheckMemoryAccess, "reads only"),
    (
        Operation::SearchRecalls,
        "a replay could not rank what is stored now as before",
    ),
    (Operation::ReportSync, "sets the state of a connector"),
    (
        Operation::RotateMcpKey,
        "a replay could not show the secret",
    ),
    (
        Operation::RotateWebhookSecret,
        "a replay could not show the secret",
    ),
    (
        Operation::RotateInboundWebhookSecret,
        "a replay could not show the secret",
    ),
    (
        Operation::RotateCitationSubscriptionSecret,
        "a replay could not show the secret",
    ),
    (
        Operation::CreateLoginLink,
        "a replay could not show the secret",
    ),
    (Operation::RedeliverToWebhook, "queues an existing delivery"),
    (
        Operation::RedeliverDeadToWebhook,
        "queues existing deliveries",
    ),
    (
        Operation::RedeliverToCitationSubscription,
        "queues an existing delivery",
    ),
    (
        Operation::RedeliverDeadToCitationSubscription,
        "queues existing deliveries",
    ),
    (
        Operation::PostToInboundWebhook,
        "its messages have identifiers",
    ),
];

/// Returns the operations that create something and do not require a key.
pub(super) fn creating() -> impl Iterator<Item = Operation> {
    let creating = OPERATIONS.iter().filter(|spec| spec.replay.is_some());
    creating.map(|spec| spec.operation)
}

/// A response, as far as the tests compare it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// Code of an error.
    pub(super) code: Option<String>,
    pub(super) is_replay: bool,
    /// Names of the headers that do not tell a replay, and the entity tag.
    headers: Vec<String>,
    pub(super) body: Value,
}

impl Answer {
    /// Returns the identifier of what the response shows; that of the first memory for a batch.
    pub(super) fn id(&self) -> &str {
        let record = self.body.get("data").unwrap_or(&self.body);
        let record = record.pointer("/memories/0").unwrap_or(record);
        record["id"].as_str().unwrap_or_default()
    }

    /// Returns the response as a replay of it has to be: without secrets.
    pub(super) fn replayed(mut self) -> Self {
        self.is_replay = true;
        for secret in secrets_in(&mut self.body) {
            assert!(secret.is_string(), "the first response has no secret");
            *secret = Value::Null;
        }
        self
    }

    /// Returns the body without secrets, which some of the compared responses may have.
    pub(super) fn replayed_body(mut self) -> Value {
        for secret in secrets_in(&mut self.body) {
            *secret = Value::Null;
        }
        self.body
    }

    /// Requires success.
    #[track_caller]
    pub(super) fn succeeded(self, spec: &OperationSpec) -> Self {
        assert_eq!(self.status, spec.success, "{:?}: {self:?}", spec.operation);
        self
    }
}

/// Returns the secrets of a response, which a replay does not show.
fn secrets_in(body: &mut Value) -> impl Iterator<Item = &mut Value> {
    let is_enveloped = body["data"].is_object();
    let record = match is_enveloped {
        true => &mut body["data"],
        false => body,
    };
    let fields = record.as_object_mut().into_iter().flatten();
    let secrets = fields.filter(|(name, _)| ["secret", "signing_secret"].contains(&name.as_str()));
    secrets.map(|(_, value)| value)
}

/// Sends a request to a service.
pub(super) async fn handle(world: &World, request: Request<bytes::Bytes>) -> Answer {
    let response = Api::new(world.service.clone()).handle(request).await;
    let text = |name| Some(response.headers().get(name)?.to_str().unwrap().to_owned());
    let body: Value = serde_json::from_slice(response.body()).unwrap_or_default();
    if text("idempotent-replayed").is_some() {
        assert_eq!(text("cache-control").as_deref(), Some("no-store"));
    }
    let names = response.headers().keys();
    let names = names.filter(|name| *name != "idempotent-replayed");
    let mut headers: Vec<String> = names.map(ToString::to_string).collect();
    headers.extend(text("etag"));
    headers.sort();
    Answer {
        status: response.status(),
        code: text("error-code").or_else(|| Some(body["error"].as_str()?.to_owned())),
        is_replay: text("idempotent-replayed").is_some_and(|value| value == "true"),
        headers,
        body,
    }
}

/// Sends the request of a caller.
pub(super) async fn send(world: &World, call: &Call, caller: &Caller) -> Answer {
    handle(world, call.request(Some(caller))).await
}

/// Prepares a world, an administrator, and its request with a key.
pub(super) async fn stage(operation: Operation) -> (World, Caller, Call) {
    let world = World::new().await;
    let caller = Caller::admin(&world).await;
    let call = Call::new(&world, operation, &caller).await.with_key("key");
    (world, caller, call)
}

/// Sends a request again, and requires that this changes nothing.
pub(super) async fn repeat(world: &World, call: &Call, caller: &Caller) -> Answer {
    let before = world.contents().await;
    let answer = send(world, call, caller).await;
    let operation = call.spec.operation;
    assert!(
        world.contents().await == before,
        "{operation:?}: {answer:?}"
    );
    answer
}

#[test]
fn post_that_creates_takes_an_idempotency_key() {
    for spec in OPERATIONS.iter().filter(|spec| spec.method == Method::POST) {
        let operation = spec.operation;
        let is_required = operation == Operation::CreateErasure;
        let takes_key = is_required || spec.replay.is_some();
        let is_harmless = WITHOUT_KEY.iter().any(|(known, _)| *known == operation);
        assert!(takes_key != is_harmless, "{operation:?}");
        assert!(takes_key || spec.success != 201, "{operation:?}");
    }
}

#[tokio::test]
async fn repeated_creation_is_replayed() {
    for operation in creating() {
        let (world, caller, call) = stage(operation).await;
        let first = send(&world, &call, &caller).await.succeeded(call.spec);
        assert!(!first.is_replay, "{operation:?}");
        let expected = first.replayed();
        for _ in 0..2 {
            let again = repeat(&world, &call, &caller).await;
            assert_eq!(again, expected, "{operation:?}");
        }
        world.assert_whole().await;
    }
}

/// The replay shows the present state, not a copy of the first response.
#[tokio::test]
async fn replay_shows_what_was_created_as_it_is_now() {
    let (world, caller, call) = stage(Operation::CreateMemory).await;
    let first = send(&world, &call, &caller).await.succeeded(call.spec);
    let id = first.id().parse().unwrap();
    let renamed = knowledge_core::model::MemoryUpdate::builder().title("Renamed");
    let renamed = renamed.build();
    world.update_memory(id, &renamed, None).await.unwrap();
    let again = repeat(&world, &call, &caller).await.succeeded(call.spec);
    assert_eq!(
        (again.id(), &again.body["title"]),
        (first.id(), &json!("Renamed"))
    );
}

/// White space and the order of the fields do not matter.
#[tokio::test]
async fn replay_compares_the_json_of_bodies() {
    for operation in creating() {
        let (world, caller, call) = stage(operation).await;
        send(&world, &call, &caller).await.succeeded(call.spec);
        let Value::Object(fields) = call.json() else {
            let call = call.with_body("{}");
            assert!(repeat(&world, &call, &caller).await.is_replay);
            continue;
        };
        let fields = fields.iter().rev();
        let fields: Vec<String> = fields
            .map(|(name, value)| format!("\t\"{name}\" :\n{value:#}"))
            .collect();
        let call = call.with_body(format!(" {{ {} }}\r\n", fields.join(" , ")));
        let again = repeat(&world, &call, &caller).await;
        assert!(again.is_replay, "{operation:?}: {again:?}");
    }
}

/// Returns another valid body; `None` if there is none.
fn other_body(mut body: Value) -> Option<Value> {
    let other = json!("https://example.com/elsewhere");
    let fields = body.as_object_mut()?;
    if let Some(memories) = fields.get_mut("memories") {
        memories[1]["title"] = other;
        return Some(body);
    }
    let texts = [
        "title",
        "name",
        "content",
        "query",
        "account_label",
        "webhook_url",
        "url",
    ];
    let name = texts.iter().find(|name| fields.contains_key(**name))?;
    fields.insert((*name).to_owned(), other);
    Some(body)
}

#[tokio::test]
async fn key_is_bound_to_one_request() {
    for operation in creating() {
        let (world, caller, mut call) = stage(operation).await;
        send(&world, &call, &caller).await.succeeded(call.spec);
        let reused = Some("idempotency_key_reused");
        let body = call.json();
        if let Some(other) = other_body(body.clone()) {
            call = call.with_body(other.to_string());
            let answer = repeat(&world, &call, &caller).await;
            let found = (answer.status.as_u16(), answer.code.as_deref());
            assert_eq!(found, (422, reused), "{operation:?}: another body");
            call = call.with_body(body.to_string());
        }
        let (place, elsewhere) = (world.workspace.id, world.workspace("elsewhere").await);
        let other = call.uri.replace(&place.to_string(), &elsewhere.to_string());
        let known = std::mem::replace(&mut call.uri, other);
        if call.uri != known {
            let answer = repeat(&world, &call, &caller).await;
            let found = (answer.status.as_u16(), answer.code.as_deref());
            assert_eq!(found, (422, reused), "{operation:?}: another path");
        }
        call.uri = known;
        assert!(
            repeat(&world, &call, &caller).await.is_replay,
            "{operation:?}"
        );
    }
}

#[tokio::test]
async fn key_belongs_to_one_member_and_operation() {
    for operation in creating() {
        let (world, caller, call) = stage(operation).await;
        let first = send(&world, &call, &caller).await.succeeded(call.spec);
        let other = Caller::admin(&world).await;
        // Some names are unique, and some chats do not exist for the other member.
        let answer = send(&world, &call, &other).await;
        assert!(!answer.is_replay, "{operation:?}: {answer:?}");
        assert_ne!(answer.status, 422, "{operation:?}: {answer:?}");
        // A known source key updates its memory.
        let is_batch = operation == Operation::IngestMemories;
        assert!(is_batch || answer.id() != first.id(), "{operation:?}");
        // Another token of the member replays.
        let rotated = Caller::of(&world, caller.member, TokenScope::default()).await;
        let again = repeat(&world, &call, &rotated).await;
        assert_eq!(again, first.replayed(), "{operation:?}");
    }
    // The key of one operation is another one for the others.
    let (world, caller, call) = stage(Operation::CreateChat).await;
    send(&world, &call, &caller).await.succeeded(call.spec);
    let mut source = call.request(Some(&caller));
    *source.uri_mut() = "/v1/sources".parse().unwrap();
    let body = json!({ "name": "Files", "kind": "drive" });
    *source.body_mut() = body.to_string().into();
    let answer = handle(&world, source).await;
    assert_eq!((answer.status.as_u16(), answer.is_replay), (201, false));
}

#[tokio::test]
async fn replay_requires_the_permissions_of_the_operation() {
    for operation in creating() {
        let (world, caller, mut call) = stage(operation).await;
        let first = send(&world, &call, &caller).await.succeeded(call.spec);
        caller.disempower(&world).await;
        let refused = send(&world, &call, &caller).await;
        assert!(!refused.is_replay, "{operation:?}: {refused:?}");
        assert_eq!(refused.code.as_deref(), Some("forbidden"), "{operation:?}");
        // Another request does not learn that its key was used.
        let body = call.json();
        if let Some(other) = other_body(body.clone()) {
            call = call.with_body(other.to_string());
            let refused = send(&world, &call, &caller).await;
            assert_eq!(refused.code.as_deref(), Some("forbidden"), "{operation:?}");
            call = call.with_body(body.to_string());
        }
        world.assign(caller.member, ADMIN).await.unwrap();
        let again = send(&world, &call, &caller).await;
        assert_eq!(again, first.replayed(), "{operation:?}");
    }
}

/// Returns the request that deletes what an operation created; `None` if nothing can.
fn deletion(world: &World, call: &Call, created: &str) -> Option<String> {
    let parent = |uri: &str| Some(uri.rsplit_once('/')?.0.to_owned());
    match call.spec.operation {
        Operation::PingWebhook | Operation::PingCitationSubscription => parent(&call.uri),
        Operation::PostChatMessage => parent(&call.uri),
        // The path names the member too.
        Operation::CreateToken => Some(format!("{}/{created}", call.uri)),
        operation => {
            let read = operation.spec().replay?.spec();
            let is_deletion =
                |spec: &&OperationSpec| spec.method == Method::DELETE && spec.path == read.path;
            let path = OPERATIONS.iter().find(is_deletion)?.path;
            let (parent, _) = path.rsplit_once('/')?;
            let parent = parent.replace("{id}", &world.workspace.id.to_string());
            Some(format!("{}/{created}", parent.replace("{orgSlug}", ACME)))
        }
    }
}

#[tokio::test]
async fn deleted_creation_is_gone_and_not_created_again() {
    let mut undeleted = Vec::new();
    for operation in creating() {
        let (world, caller, call) = stage(operation).await;
        let first = send(&world, &call, &caller).await.succeeded(call.spec);
        let Some(uri) = deletion(&world, &call, first.id()) else {
            undeleted.push(operation);
            continue;
        };
        let mut delete = call.request(Some(&caller));
        *delete.method_mut() = Method::DELETE;
        *delete.uri_mut() = uri.parse().unwrap();
        *delete.body_mut() = bytes::Bytes::new();
        let deleted = handle(&world, delete).await;
        assert_eq!(deleted.status, 204, "{operation:?}: {uri}: {deleted:?}");
        let again = repeat(&world, &call, &caller).await;
        // Without its recall or itself, nothing tells the workspace of a subscription.
        let expected = match operation {
            Operation::PingCitationSubscription => (404, "not_found"),
            _ => (410, "created_resource_gone"),
        };
        let found = (again.status.as_u16(), again.code.as_deref().unwrap());
        assert_eq!(found, expected, "{operation:?}");
        let is_empty = call.spec.error_style == ErrorStyle::Headers;
        assert_eq!(again.body.is_null(), is_empty, "{operation:?}");
    }
    assert_eq!(
        undeleted,
        [Operation::IngestMemories, Operation::CreateSource]
    );
}

/// The response to an ingested batch has identifiers only, and is replayed as it was.
#[tokio::test]
async fn replay_of_a_batch_outlives_its_memories() {
    let (world, caller, call) = stage(Operation::IngestMemories).await;
    let first = send(&world, &call, &caller).await.succeeded(call.spec);
    for memory in first.body["memories"].as_array().unwrap() {
        let id = memory["id"].as_str().unwrap().parse().unwrap();
        world.delete_memory(id).await.unwrap();
    }
    assert_eq!(repeat(&world, &call, &caller).await, first.replayed());
}

/// A batch that changes nothing is replayed too.
#[tokio::test]
async fn unchanged_batch_is_replayed() {
    let (world, caller, call) = stage(Operation::IngestMemories).await;
    send(&world, &call, &caller).await.succeeded(call.spec);
    let body = json!({ "source_id": world.source, "memories": [
        { "title": "Note", "content": "A note.", "source_key": "page/2" },
    ] });
    let call = call.with_body(body.to_string()).with_key("again");
    let first = send(&world, &call, &caller).await.succeeded(call.spec);
    assert_eq!(first.body["memories"][0]["outcome"], "unchanged");
    assert_eq!(repeat(&world, &call, &caller).await, first.replayed());
}

#[tokio::test]
async fn record_of_a_creation_expires() {
    for operation in creating() {
        let (world, caller, call) = stage(operation).await;
        let first = send(&world, &call, &caller).await.succeeded(call.spec);
        world.time.pass(IDEMPOTENCY_RETENTION - MILLISECOND);
        // The first token has expired.
        let caller = Caller::of(&world, caller.member, TokenScope::default()).await;
        assert!(
            send(&world, &call, &caller).await.is_replay,
            "{operation:?}"
        );
        world.time.pass(MILLISECOND);
        // Some names are unique, so that not all can be created again.
        let later = send(&world, &call, &caller).await;
        assert!(
            !later.is_replay && later.status != 410,
            "{operation:?}: {later:?}"
        );
        let is_batch = operation == Operation::IngestMemories;
        assert!(is_batch || later.id() != first.id(), "{operation:?}");
        world.time.pass(IDEMPOTENCY_RETENTION);
        world.maintain().await;
        assert!(
            world.family("idempotency").await.is_empty(),
            "{operation:?}"
        );
    }
}
