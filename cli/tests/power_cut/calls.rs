//! The calls that change memories, and those that read them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use http::{Method, StatusCode};
use serde_json::{Value, json};

use knowledge_http_suite::client::{Answer, Call};

/// Memories on a page of a list.
const PAGE_ITEMS: usize = 200;

const AUDIENCES: &[&str] = &["org:acme", "workspace:main"];
const SENSITIVITIES: &[&str] = &["public", "internal", "confidential", "restricted"];
const REVIEWS: &[&str] = &["pending", "approved", "rejected"];

/// The labels of a memory. The owner, who makes all calls, reads memories with any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Labels {
    audience: &'static str,
    sensitivity: &'static str,
    review: &'static str,
}

impl Labels {
    /// The labels of a newly added memory.
    pub(crate) const NEW: Self = Self {
        audience: "workspace:main",
        sensitivity: "internal",
        review: "pending",
    };

    /// Returns labels other than these.
    pub(crate) fn other_than(before: Self, rng: &mut fastrand::Rng) -> Self {
        let mut pick = |names: &[&'static str]| *rng.choice(names).expect("not empty");
        loop {
            let labels = Self {
                audience: pick(AUDIENCES),
                sensitivity: pick(SENSITIVITIES),
                review: pick(REVIEWS),
            };
            if labels != before {
                return labels;
            }
        }
    }

    /// Reads the labels of a memory in a response.
    pub(crate) fn read(memory: &Value) -> Self {
        let name = |field: &str, names: &[&'static str]| {
            let found = memory[field].as_str();
            let known = names.iter().find(|name| found == Some(name));
            *known.unwrap_or_else(|| panic!("{field} was never set: {memory}"))
        };
        Self {
            audience: name("audienceTag", AUDIENCES),
            sensitivity: name("sensitivityLabel", SENSITIVITIES),
            review: name("reviewStatus", REVIEWS),
        }
    }
}

/// A memory to add, whose content follows from its unique title.
#[derive(Clone, Debug)]
pub(crate) struct Added {
    pub(crate) title: String,
    pub(crate) content_bytes: usize,
}

impl Added {
    /// Returns text that does not compress.
    pub(crate) fn content(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.title.hash(&mut hasher);
        let mut rng = fastrand::Rng::with_seed(hasher.finish());
        std::iter::repeat_with(|| rng.alphanumeric())
            .take(self.content_bytes)
            .collect()
    }
}

/// A call that changes something.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// A bulk update that changes the labels of at least one memory.
    Relabel(Relabel),
    /// The creation of one memory.
    Create(Added),
    /// The ingestion of a batch of memories.
    Ingest(Vec<Added>),
}

/// A bulk update.
#[derive(Clone, Debug)]
pub(crate) struct Relabel {
    pub(crate) key: String,
    pub(crate) memories: Vec<String>,
    pub(crate) labels: Labels,
}

/// An organisation, as its owner calls its server.
#[derive(Clone)]
pub(crate) struct Owner {
    pub(crate) token: String,
    pub(crate) workspace: String,
    pub(crate) source: String,
}

impl Owner {
    /// Creates the owner with this token, and adds a source.
    pub(crate) async fn enter(base_url: &str, token: String) -> Self {
        let mut owner = Self {
            token,
            workspace: String::new(),
            source: String::new(),
        };
        let workspaces = owner.read(base_url, "/v1/workspaces").await;
        owner.workspace = text(&workspaces["data"][0]["id"]);
        let body = json!({ "name": "Notes", "kind": "upload" });
        let call = Call::new(Method::POST, "/v1/sources").json(&body);
        let added = owner.send(base_url, call).await.expect("an answer");
        assert_eq!(added.status, StatusCode::CREATED, "{added:?}");
        owner.source = text(&added.json()["id"]);
        owner
    }

    /// Makes the change.
    ///
    /// Returns the response, or `None` if there was none or the server failed, so that the outcome
    /// is unknown.
    ///
    /// # Panics
    /// The call or a part of it is rejected.
    pub(crate) async fn make(&self, base_url: &str, change: &Change) -> Option<Answer> {
        let place = |name: &str| format!("/v1/workspaces/{}/{name}", self.workspace);
        let call = match change {
            Change::Relabel(Relabel {
                key,
                memories,
                labels,
            }) => Call::new(Method::PATCH, "/v1/memories/bulk")
                .key(key)
                .json(&json!({
                    "memoryIds": memories,
                    "audienceTag": labels.audience,
                    "sensitivityLabel": labels.sensitivity,
                    "reviewStatus": labels.review,
                })),
            Change::Create(added) => Call::new(Method::POST, place("memories")).json(&json!({
                "sourceId": self.source,
                "title": added.title,
                "content": added.content(),
            })),
            Change::Ingest(batch) => {
                let memories: Vec<_> = batch
                    .iter()
                    .map(|added| json!({ "title": added.title, "content": added.content() }))
                    .collect();
                let body = json!({ "source_id": self.source, "memories": memories });
                Call::new(Method::POST, place("ingest")).json(&body)
            }
        };
        let answer = self.send(base_url, call).await?;
        if answer.status.is_server_error() {
            return None;
        }
        assert!(answer.status.is_success(), "{change:?}: {answer:?}");
        if let Change::Relabel(relabel) = change {
            let succeeded = &answer.json()["summary"]["succeeded"];
            assert_eq!(*succeeded, relabel.memories.len(), "{change:?}: {answer:?}");
        }
        Some(answer)
    }

    /// Makes a bulk update.
    ///
    /// # Panics
    /// The update fails.
    pub(crate) async fn relabel(&self, base_url: &str, relabel: &Relabel) -> Answer {
        let change = Change::Relabel(relabel.clone());
        let answer = self.make(base_url, &change).await;
        answer.unwrap_or_else(|| panic!("the server fails: {relabel:?}"))
    }

    /// Returns one memory, with its content.
    pub(crate) async fn memory(&self, base_url: &str, id: &str) -> Value {
        self.read(base_url, &format!("/v1/memories/{id}")).await
    }

    /// Returns all memories, by their identifiers.
    pub(crate) async fn memories(&self, base_url: &str) -> BTreeMap<String, Value> {
        let list = format!(
            "/v1/workspaces/{}/memories?limit={PAGE_ITEMS}",
            self.workspace
        );
        let (mut found, mut path) = (BTreeMap::new(), list.clone());
        loop {
            let page = self.read(base_url, &path).await;
            for memory in page["data"].as_array().expect("a list") {
                let earlier = found.insert(text(&memory["id"]), memory.clone());
                assert!(earlier.is_none(), "listed twice: {memory}");
            }
            match page["next_cursor"].as_str() {
                Some(cursor) => path = format!("{list}&cursor={cursor}"),
                None => return found,
            }
        }
    }

    async fn read(&self, base_url: &str, path: &str) -> Value {
        let answer = self.send(base_url, Call::new(Method::GET, path)).await;
        let answer = answer.expect("the server is up");
        assert_eq!(answer.status, StatusCode::OK, "{path}: {answer:?}");
        answer.json()
    }

    async fn send(&self, base_url: &str, call: Call) -> Option<Answer> {
        call.bearer(&self.token).try_send_to(base_url).await.ok()
    }
}

/// Returns a string of a response.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}
