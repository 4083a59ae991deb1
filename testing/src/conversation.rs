//! Random requests and their responses as text, for comparison between targets.
//!
//! The strategies of proptest are not suitable: a seed yields different values on targets with
//! words of 32 bits. The values drawn here have the same width everywhere, so the same seed gives
//! the same text on every target and over every store.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use serde_json::Value;
use uuid::Uuid;

use super::fixture::{self, Fixture, OrgFixture};
use super::simulation::{SimulatedTime, contents};
use knowledge_core::api::{Api, Authentication, OPERATIONS, Operation, OperationSpec, openapi};
use knowledge_core::limits::Limits;
use knowledge_core::model::{DeliveryFailure, DeliveryFailureCode, Timestamp};
use knowledge_core::service::{
    Attempt, DeliveryResponse, InFlight, KnowledgeService, Options, SealingKey, SigningSecret,
};
use knowledge_core::store::{Commit, CommitOutcome, Found, Read, Store, StoreError};

/// Number of requests in a conversation.
const REQUESTS: u32 = 300;
/// Number of organisations.
const ORGS: usize = 2;
/// Maximum time between two requests.
const PAUSE_MAX_MS: u32 = 60_000;
/// Maximum number of delivery attempts in a row.
const CLAIMED_MAX: usize = 10;
/// Prefix of the paths of inbound webhooks.
const INBOUND: &str = "/v1/inbound/";
/// Denominator of the probability of unusual choices.
const SELDOM: u32 = 12;

/// A store without marks: a call that they answer takes no random bytes, and not every store has
/// them.
struct Unmarked(Arc<dyn Store>);

#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
impl Store for Unmarked {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        self.0.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        self.0.commit(commit).await
    }
}

/// Fills an empty store, sends random requests, and returns the transcript.
///
/// It contains each request with its response, the maintenance and deliveries in between, and
/// finally each stored key with its value.
///
/// # Panics
/// If the store cannot be filled or read.
pub async fn run(store: Arc<dyn Store>, seed: u64) -> String {
    let time = SimulatedTime::new();
    let options = Options::new(SealingKey::new([7; 32]));
    let store: Arc<dyn Store> = Arc::new(Unmarked(store));
    let opened = KnowledgeService::open(Arc::clone(&store), time.env(seed), options);
    let service = opened.await.expect("an empty store opens");
    let seeded = fixture::seed_orgs(&service, ORGS).await;
    let mut generator = RequestGenerator::new(seed, &seeded.expect("an empty store can be filled"));
    let api = Api::new(service.clone());
    let mut text = String::new();
    for _ in 0..REQUESTS {
        match generator.below(SELDOM) {
            0 => maintain(&mut text, &service, time.now()).await,
            1..=3 => deliver(&mut text, &service, &mut generator, time.now()).await,
            _ => {}
        }
        let (collection, request) = generator.request(time.now());
        note_request(&mut text, &request);
        let response = api.handle(request).await;
        generator.listen(&collection, &response);
        note_response(&mut text, &response);
        let pause = generator.below(PAUSE_MAX_MS);
        time.advance(Duration::from_millis(pause.into()));
    }
    let stored = contents(&*store).await.expect("the store works");
    for (key, value) in stored {
        let _ = writeln!(text, "{key} {}", value.escape_ascii());
    }
    text
}

/// Purges expired entries.
async fn maintain(text: &mut String, service: &KnowledgeService, now: Timestamp) {
    let done = service.maintain(now).await.expect("the store works");
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(text, "maintain {done:?}");
}

/// Fans out events, and attempts some of the deliveries that are due, with any outcome.
async fn deliver(
    text: &mut String,
    service: &KnowledgeService,
    generator: &mut RequestGenerator,
    now: Timestamp,
) {
    let report = service
        .dispatcher()
        .fan_out(now)
        .await
        .expect("the store works");
    let _ = writeln!(text, "fan out {report:?}");
    let in_flight = InFlight::default();
    let claimed = service.dispatcher().claim(now, CLAIMED_MAX, &in_flight);
    for delivery in claimed.await.expect("the store works").deliveries {
        let request = &delivery.request;
        let _ = writeln!(text, "POST {}", request.url.as_str());
        note_headers(text, &request.headers());
        let _ = writeln!(text, "  {}", request.body.escape_ascii());
        let attempt = generator.attempt();
        let finished = service
            .dispatcher()
            .finish(now, &delivery.lease, &attempt)
            .await;
        let _ = writeln!(text, "  {attempt:?} {finished:?}");
    }
}

fn note_request(text: &mut String, request: &Request<Bytes>) {
    let body = request.body().escape_ascii();
    let _ = writeln!(text, "{} {} {body}", request.method(), request.uri());
}

fn note_headers(text: &mut String, headers: &HeaderMap) {
    for (name, value) in headers {
        let _ = writeln!(text, "  {name}: {}", value.as_bytes().escape_ascii());
    }
}

fn note_response(text: &mut String, response: &Response<Bytes>) {
    let _ = writeln!(text, "  {}", response.status().as_u16());
    note_headers(text, response.headers());
    let _ = writeln!(text, "  {}", response.body().escape_ascii());
}

/// Generator of requests, with the entities it knows.
struct RequestGenerator {
    random: fastrand::Rng,
    /// Example body of each operation that has one.
    bodies: BTreeMap<String, Value>,
    orgs: Vec<Known>,
    /// Index of the organisation of the current request.
    org: usize,
}

/// Known entities of an organisation.
#[derive(Default)]
struct Known {
    slug: String,
    tokens: Vec<String>,
    sessions: Vec<String>,
    /// Paths of inbound webhooks, with their signing secrets.
    inbound: Vec<(String, SigningSecret)>,
    /// Identifiers by collection.
    ids: BTreeMap<String, Vec<String>>,
}

impl Known {
    fn of(org: &OrgFixture) -> Self {
        let mut known = Self {
            slug: org.slug.clone(),
            tokens: vec!["wkt_nobody".to_owned()],
            sessions: vec!["wks_nobody".to_owned()],
            inbound: Vec::new(),
            ids: BTreeMap::new(),
        };
        let members = &org.members;
        for member in [
            &members.owner,
            &members.admin,
            &members.member,
            &members.viewer,
        ] {
            known.tokens.push(member.token.clone());
            known.sessions.push(member.session.clone());
            known.add("members", member.id.to_string());
        }
        for workspace in [&org.main, &org.side] {
            known.add("workspaces", workspace.id.to_string());
            for memory in workspace.memories.internal.iter().take(8) {
                known.add("memories", memory.to_string());
            }
        }
        for role in [org.roles.unheld, org.roles.guest] {
            known.add("custom-roles", role.to_string());
        }
        for source in &org.sources {
            known.add("sources", source.to_string());
        }
        known.add("recalls", org.recall.to_string());
        known
    }

    fn add(&mut self, collection: &str, id: String) {
        self.ids.entry(collection.to_owned()).or_default().push(id);
    }
}

impl RequestGenerator {
    fn new(seed: u64, fixture: &Fixture) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            bodies: examples(),
            orgs: fixture.orgs.iter().map(Known::of).collect(),
            org: 0,
        }
    }

    /// Returns a number below another, drawn from 32 bits on every target.
    fn below(&mut self, end: u32) -> u32 {
        self.random.u32(..end)
    }

    fn seldom(&mut self) -> bool {
        self.below(SELDOM) == 0
    }

    fn place(&mut self, length: usize) -> usize {
        let length = u32::try_from(length).expect("lists are short");
        self.below(length) as usize
    }

    /// Returns the organisation of the request; rarely another.
    fn some_org(&mut self) -> usize {
        if self.seldom() {
            self.place(self.orgs.len())
        } else {
            self.org
        }
    }

    /// Returns an identifier of a collection; rarely of another, or an unknown one.
    fn id(&mut self, collection: &str) -> String {
        if self.seldom() {
            return Uuid::from_u128(self.random.u64(..).into()).to_string();
        }
        let org = self.some_org();
        let ids = &self.orgs[org].ids;
        let known = match ids.get(collection) {
            Some(known) => known.clone(),
            None => ids.values().flatten().cloned().collect(),
        };
        known[self.place(known.len())].clone()
    }

    /// Returns the outcome of a delivery attempt.
    fn attempt(&mut self) -> Attempt {
        let status = [200, 204, 307, 410, 429, 500][self.place(6)];
        let retry_after = (status == 429).then(|| Duration::from_secs(self.below(90).into()));
        let duration = Duration::from_millis(self.below(15_000).into());
        let outcome = if self.seldom() {
            Err(DeliveryFailure {
                code: DeliveryFailureCode::ConnectionFailed,
                message: "nobody listens".to_owned(),
            })
        } else {
            Ok(DeliveryResponse {
                status,
                retry_after,
            })
        };
        Attempt { duration, outcome }
    }

    /// Returns a request, and the collection of the entity that it creates.
    fn request(&mut self, now: Timestamp) -> (String, Request<Bytes>) {
        self.org = self.place(self.orgs.len());
        let spec = if self.seldom() {
            self.spec_of_inbound_webhooks()
        } else {
            &OPERATIONS[self.place(OPERATIONS.len())]
        };
        let (mut path, collection) = self.path(spec);
        let body = self.body(spec);
        let mut headers = HeaderMap::new();
        if !body.is_empty() {
            headers.insert("content-type", value("application/json"));
        }
        if !self.seldom() {
            let number = self.below(6);
            // Most of the creations have no key, because another one with the same is rejected.
            if spec.replay.is_none() || number == 0 {
                headers.insert("idempotency-key", value(&format!("key-{number}")));
            }
        }
        let known = &self.orgs[self.org];
        let (tokens, sessions) = (known.tokens.len(), known.sessions.len());
        match spec.authentication {
            Authentication::Signature if !known.inbound.is_empty() => {
                path = self.sign(&mut headers, &body, now);
            }
            Authentication::Bearer | Authentication::Signature => {
                let place = self.place(tokens);
                let token = &self.orgs[self.org].tokens[place];
                headers.insert("authorization", value(&format!("Bearer {token}")));
            }
            Authentication::Session => {
                let place = self.place(sessions);
                let session = &self.orgs[self.org].sessions[place];
                headers.insert("cookie", value(&format!("service_session={session}")));
            }
        }
        let mut request = Request::new(body);
        *request.method_mut() = spec.method.clone();
        *request.uri_mut() = path.parse().expect("a path");
        *request.headers_mut() = headers;
        (collection, request)
    }

    /// Returns the operation that posts to an inbound webhook, or creates one if there is none yet.
    fn spec_of_inbound_webhooks(&self) -> &'static OperationSpec {
        let wanted = if self.orgs[self.org].inbound.is_empty() {
            Operation::CreateInboundWebhook
        } else {
            Operation::PostToInboundWebhook
        };
        let found = OPERATIONS.iter().find(|spec| spec.operation == wanted);
        found.expect("the table has every operation")
    }

    fn body(&mut self, spec: &OperationSpec) -> Bytes {
        let Some(mut body) = self.bodies.get(&spec.operation.id()).cloned() else {
            return Bytes::new();
        };
        self.vary(&mut body, "");
        Bytes::from(body.to_string())
    }

    /// Signs a message to an inbound webhook and returns its path.
    ///
    /// Most signatures are valid, a few have another time, and some messages are repeated.
    fn sign(&mut self, headers: &mut HeaderMap, body: &Bytes, now: Timestamp) -> String {
        let place = self.place(self.orgs[self.org].inbound.len());
        let id = format!("msg-{}", self.below(20));
        let late = Duration::from_secs(if self.seldom() { 600 } else { 0 });
        let (path, secret) = &self.orgs[self.org].inbound[place];
        let at = now.minus(late);
        headers.insert("webhook-id", value(&id));
        headers.insert("webhook-timestamp", HeaderValue::from(at.as_seconds()));
        headers.insert("webhook-signature", value(&secret.sign(&id, at, body)));
        path.clone()
    }

    /// Returns a path with its parameters filled in, and its last segment that is not a parameter.
    fn path(&mut self, spec: &OperationSpec) -> (String, String) {
        let mut path = String::new();
        let mut collection = "";
        for segment in spec.path.split('/').skip(1) {
            path.push('/');
            match segment {
                "{orgSlug}" | "{org}" => {
                    let org = self.some_org();
                    path.push_str(&self.orgs[org].slug);
                }
                segment if segment.starts_with('{') => path.push_str(&self.id(collection)),
                segment => {
                    collection = segment;
                    path.push_str(segment);
                }
            }
        }
        (path, collection.to_owned())
    }

    /// Replaces values of an example body by existing entities, and rarely by invalid values.
    fn vary(&mut self, value: &mut Value, name: &str) {
        match value {
            Value::Object(fields) => {
                if self.seldom() {
                    let gone = self.place(fields.len().max(1));
                    let gone = fields.keys().nth(gone).cloned();
                    gone.map(|gone| fields.remove(&gone));
                }
                for (name, value) in fields {
                    self.vary(value, name);
                }
            }
            Value::Array(items) => {
                let count = self.below(3);
                if let Some(item) = items.first().cloned() {
                    items.extend((0..count).map(|_| item.clone()));
                }
                for item in items {
                    self.vary(item, name);
                }
            }
            Value::String(text) if text.parse::<Uuid>().is_ok() => {
                *text = self.id(collection_of(name));
            }
            Value::String(text) if self.seldom() => text.push_str(" ü"),
            Value::Bool(flag) => *flag = self.seldom(),
            _ => {}
        }
    }

    /// Records the entities that a response contains.
    fn listen(&mut self, collection: &str, response: &Response<Bytes>) {
        let Ok(body) = serde_json::from_slice::<Value>(response.body()) else {
            return;
        };
        let known = &mut self.orgs[self.org];
        if let (Some(path), Some(secret)) = (body["url"].as_str(), body["signing_secret"].as_str())
            && path.starts_with(INBOUND)
        {
            let secret = secret.parse().expect("a secret");
            known.inbound.push((path.to_owned(), secret));
        }
        let made = [&body["id"], &body["data"]["id"]];
        if let Some(id) = made.into_iter().find_map(Value::as_str) {
            known.add(collection, id.to_owned());
        }
    }
}

fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("visible ASCII")
}

/// Returns the collection that a field of a body refers to.
fn collection_of(field: &str) -> &'static str {
    match field {
        "memoryIds" | "memory_ids" => "memories",
        "sourceId" | "source_id" => "sources",
        "workspace_id" | "workspaceId" => "workspaces",
        "recall_id" => "recalls",
        "role" | "reassign_to" => "custom-roles",
        _ => "members",
    }
}

/// Returns the example bodies of the operations, from their description.
fn examples() -> BTreeMap<String, Value> {
    let document = openapi::document(&Limits::default());
    let methods = document["paths"].as_object().into_iter().flatten();
    let operations = methods.flat_map(|(_, methods)| methods.as_object().into_iter().flatten());
    let example = |(_, operation): (&String, &Value)| {
        let body = &operation["requestBody"]["content"]["application/json"]["example"];
        let id = operation["operationId"].as_str()?;
        (!body.is_null()).then(|| (id.to_owned(), body.clone()))
    };
    operations.filter_map(example).collect()
}
