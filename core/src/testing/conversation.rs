//! Random requests and their answers, in full: to be compared with the same conversation elsewhere.
//!
//! The strategies of proptest cannot do this: from one seed they make other values where words have 32 bits. What is drawn
//! here has the same width everywhere, and so the same seed gives the same text, on every target and over every store.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use serde_json::Value;
use uuid::Uuid;

use super::fixture::{self, Fixture, OrgFixture};
use super::simulation::{SimulatedTime, contents};
use crate::api::{Api, Authentication, OPERATIONS, OperationSpec, openapi};
use crate::limits::Limits;
use crate::service::{KnowledgeService, Options, SealingKey};
use crate::store::Store;

/// How many requests a conversation has.
const REQUESTS: u32 = 300;
/// How many organisations take part.
const ORGS: usize = 2;
/// What time goes by between two requests, at most.
const PAUSE_MAX_MS: u32 = 60_000;
/// A chance of one in so many.
const SELDOM: u32 = 12;

/// Fills an empty store, asks random things over the HTTP interface, and tells everything that came of it: each request
/// with its answer, then each key that is stored with its value.
///
/// # Panics
/// Where the store cannot be filled or read.
pub async fn hold(store: Arc<dyn Store>, seed: u64) -> String {
    let time = SimulatedTime::new();
    let options = Options::new(SealingKey::new([7; 32]));
    let opened = KnowledgeService::open(Arc::clone(&store), time.env(seed), options);
    let service = opened.await.expect("an empty store is opened");
    let seeded = fixture::seed_orgs(&service, ORGS).await;
    let mut speaker = Speaker::new(seed, &seeded.expect("an empty store is filled"));
    let api = Api::new(service);
    let mut text = String::new();
    for _ in 0..REQUESTS {
        let (collection, request) = speaker.request();
        note_request(&mut text, &request);
        let response = api.handle(request).await;
        speaker.listen(&collection, &response);
        note_response(&mut text, &response);
        let pause = speaker.below(PAUSE_MAX_MS);
        time.advance(Duration::from_millis(pause.into()));
    }
    let stored = contents(&*store).await.expect("the store answers");
    for (key, value) in stored {
        // Writing to a string does not fail, here and below.
        let _ = writeln!(text, "{key} {}", value.escape_ascii());
    }
    text
}

fn note_request(text: &mut String, request: &Request<Bytes>) {
    let body = request.body().escape_ascii();
    let _ = writeln!(text, "{} {} {body}", request.method(), request.uri());
}

fn note_response(text: &mut String, response: &Response<Bytes>) {
    let _ = writeln!(text, "  {}", response.status().as_u16());
    for (name, value) in response.headers() {
        let _ = writeln!(text, "  {name}: {}", value.as_bytes().escape_ascii());
    }
    let _ = writeln!(text, "  {}", response.body().escape_ascii());
}

/// Who asks, and what is known of what there is.
struct Speaker {
    random: fastrand::Rng,
    /// A body for each operation that takes one.
    bodies: BTreeMap<String, Value>,
    orgs: Vec<Known>,
    /// Which of them this request is about.
    org: usize,
}

/// What is known of an organisation.
#[derive(Default)]
struct Known {
    slug: String,
    tokens: Vec<String>,
    sessions: Vec<String>,
    /// Identifiers, by the collection that they are of.
    ids: BTreeMap<String, Vec<String>>,
}

impl Known {
    fn of(org: &OrgFixture) -> Self {
        let mut known = Self {
            slug: org.slug.clone(),
            tokens: vec!["wkt_nobody".to_owned()],
            sessions: vec!["wks_nobody".to_owned()],
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

impl Speaker {
    fn new(seed: u64, fixture: &Fixture) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            bodies: examples(),
            orgs: fixture.orgs.iter().map(Known::of).collect(),
            org: 0,
        }
    }

    /// A number below another, of 32 bits everywhere.
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

    /// The organisation that is asked about; seldom another.
    fn some_org(&mut self) -> usize {
        match self.seldom() {
            true => self.place(self.orgs.len()),
            false => self.org,
        }
    }

    /// An identifier of a collection; seldom one of another, or of nothing.
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

    /// A request, and the collection that what it makes is of.
    fn request(&mut self) -> (String, Request<Bytes>) {
        self.org = self.place(self.orgs.len());
        let spec = &OPERATIONS[self.place(OPERATIONS.len())];
        let (path, collection) = self.path(spec);
        let mut request = Request::builder().method(spec.method.clone()).uri(path);
        request = match spec.authentication {
            Authentication::Bearer | Authentication::Signature => {
                let token = self.place(self.orgs[self.org].tokens.len());
                let token = &self.orgs[self.org].tokens[token];
                request.header("authorization", format!("Bearer {token}"))
            }
            Authentication::Session => {
                let session = self.place(self.orgs[self.org].sessions.len());
                let session = &self.orgs[self.org].sessions[session];
                request.header("cookie", format!("service_session={session}"))
            }
        };
        if !self.seldom() {
            request = request.header("idempotency-key", format!("key-{}", self.below(6)));
        }
        let body = match self.bodies.get(&spec.operation.id()).cloned() {
            None => Bytes::new(),
            Some(mut body) => {
                self.vary(&mut body, "");
                request = request.header("content-type", "application/json");
                Bytes::from(body.to_string())
            }
        };
        let request = request.body(body);
        (
            collection,
            request.expect("the parts of a request are valid"),
        )
    }

    /// A path with something for each of its parameters; the last segment that is none.
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

    /// Puts what there is into a body that is an example, and seldom something that is wrong.
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

    /// Remembers what was made.
    fn listen(&mut self, collection: &str, response: &Response<Bytes>) {
        let Ok(body) = serde_json::from_slice::<Value>(response.body()) else {
            return;
        };
        let made = [&body["id"], &body["data"]["id"]];
        if let Some(id) = made.into_iter().find_map(Value::as_str) {
            self.orgs[self.org].add(collection, id.to_owned());
        }
    }
}

/// The collection that a field of a body names something of.
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

/// The body of each operation that takes one, as its description shows it.
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
