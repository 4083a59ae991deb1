//! One of the two worlds: an organisation with the principal, and all that exists in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Response;
use serde_json::Value;

use super::gate::Gate;
use super::kinds::{Kind, Principal, WORKSPACES};
use crate::authorization::{Access, Directory, Labels, Reference, Use, Verdict};
use crate::call::{ApiCall, IDEMPOTENCY_KEY};
use crate::requests::{MEMBER, new_member, new_organization, new_workspace};
use crate::seed::Seed;
use crate::simulation::SimulatedTime;
use knowledge_core::Error;
use knowledge_core::api::{Api, Operation};
use knowledge_core::env::Env;
use knowledge_core::model::{MemberId, MemoryId, SourceId, WorkspaceId};
use knowledge_core::service::{Caller, KnowledgeService, Options, SealingKey};
use knowledge_core::store::Store;

/// Slug of the organisation.
pub(super) const ACME: &str = "acme";
/// Time between two moves.
const PAUSE: Duration = Duration::from_secs(1);

/// Memory, some of whose attributes may differ between the worlds.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) id: MemoryId,
    /// True if its labels, its text or its existence may differ.
    pub(super) differs: bool,
    /// True if it has a source key, which stays in use.
    pub(super) has_key: bool,
    /// True if a recall may cite it.
    pub(super) is_cited: bool,
    /// Source key, if others added it.
    pub(super) key: Option<&'static str>,
    /// Title and text, as others stored them in this world.
    pub(super) title: String,
    pub(super) text: String,
}

pub(super) struct World {
    pub(super) seed: Seed,
    pub(super) api: Api,
    pub(super) is_second: bool,
    /// True if others remove more than named memories, and time passes.
    pub(super) has_removals: bool,
    pub(super) gate: Arc<Gate>,
    pub(super) workspaces: [WorkspaceId; 2],
    /// Private workspace of both worlds, which has contents in the second only.
    pub(super) vault: Option<WorkspaceId>,
    pub(super) sources: [SourceId; 2],
    /// Member that sees what is hidden from the principal.
    pub(super) nora: MemberId,
    pub(super) pat: Principal,
    pub(super) memories: Vec<Known>,
    /// Identifiers by collection, as they occur in paths.
    pub(super) ids: BTreeMap<String, Vec<String>>,
    /// Entity tags of responses.
    pub(super) tags: Vec<String>,
    /// Last cursor of each path.
    pub(super) cursors: BTreeMap<String, String>,
    /// Calls that can be repeated by their idempotency keys.
    pub(super) sent: Vec<ApiCall>,
    /// First results of bulk updates, by key.
    pub(super) first_results: BTreeMap<String, Value>,
    reference: &'static Reference,
    directory: Directory,
    time: SimulatedTime,
    random: Arc<Mutex<fastrand::Rng>>,
    number: u64,
    /// Source keys in use, with the indexes of their workspaces.
    pub(super) keys: BTreeSet<(usize, &'static str)>,
    /// Number of moves so far.
    pub(super) moves: u64,
    /// Recalls and chats of others, by the move of the first world that created them.
    pub(super) hidden_ids: BTreeMap<u64, Vec<(&'static str, String)>>,
}

impl World {
    /// Creates the organisation and the principal, which are the same in both worlds.
    pub(super) async fn new(
        store: Arc<dyn Store>,
        number: u64,
        (kind, has_removals): (Kind, bool),
        is_second: bool,
    ) -> Result<Self, Error> {
        let time = SimulatedTime::new();
        let random = Arc::new(Mutex::new(fastrand::Rng::with_seed(number)));
        let (clock, bytes) = (time.clone(), Arc::clone(&random));
        let env = Env::new(
            move || clock.now(),
            move |buffer: &mut [u8]| {
                let mut random = bytes.lock().unwrap_or_else(PoisonError::into_inner);
                random.fill(buffer);
            },
        );
        let options = Options::new(SealingKey::new([7; 32]));
        let gate = Arc::new(Gate::new(store));
        let service = KnowledgeService::open(Arc::clone(&gate) as Arc<dyn Store>, env, options)
            .await
            .expect("an empty store opens");
        let seed = Seed::new(&service, &new_organization(ACME, "olga")).await?;
        let mut workspaces = Vec::new();
        for slug in WORKSPACES {
            workspaces.push(seed.workspace(&new_workspace(slug)).await?.id);
        }
        let workspaces = [workspaces[0], workspaces[1]];
        // Of the second one, a limited principal knows no memory.
        let name = ["Files", "Drafts"][usize::from(is_second && kind.is_limited())];
        let sources = [
            seed.source("Wiki", "wiki").await?,
            seed.source(name, "drive").await?,
        ];
        let mut directory = Directory::new(ACME, &WORKSPACES);
        let nora = seed.member(&new_member("nora", MEMBER)).await?.id;
        let pat = kind.create(&seed, workspaces, &mut directory).await?;
        let mut world = Self {
            api: Api::new(service),
            seed,
            is_second,
            has_removals,
            gate,
            workspaces,
            vault: None,
            sources,
            nora,
            pat,
            memories: Vec::new(),
            ids: BTreeMap::new(),
            tags: Vec::new(),
            cursors: BTreeMap::new(),
            sent: Vec::new(),
            first_results: BTreeMap::new(),
            reference: Reference::read(),
            directory,
            time,
            random,
            number,
            keys: BTreeSet::new(),
            moves: 0,
            hidden_ids: BTreeMap::new(),
        };
        let other = world.seed.member(&new_member("rob", MEMBER)).await?.id;
        world.note("members", other.to_string());
        for source in sources {
            world.note("sources", source.to_string());
        }
        // Where a source or a member is erased, none may be closed to whoever does that.
        if !has_removals {
            world.add_private(other).await?;
        }
        Ok(world)
    }

    /// Begins a move, whose time and randomness do not depend on what happened before.
    pub(super) fn begin(&mut self) {
        self.moves += 1;
        self.advance(PAUSE);
        self.reseed(0);
    }

    /// Begins a part of a move, whose randomness does not depend on the parts before.
    pub(super) fn reseed(&self, part: u64) {
        let seed = self.number ^ self.moves.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let seed = seed ^ part.wrapping_mul(0xD1B5_4A32_D192_ED03);
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        *random = fastrand::Rng::with_seed(seed);
    }

    /// Moves the clock.
    pub(super) fn advance(&self, by: Duration) {
        self.time.advance(by);
    }

    /// Returns a name that no other move has.
    pub(super) fn name(&self, prefix: &str) -> String {
        format!("{prefix}-{}", self.moves)
    }

    /// Notes an identifier that requests may name.
    pub(super) fn note(&mut self, collection: &str, id: String) {
        // What the principal does to itself could let it know more, and Nora has to stay.
        if [self.pat.member, self.nora]
            .map(|member| member.to_string())
            .contains(&id)
        {
            return;
        }
        let ids = self.ids.entry(collection.to_owned()).or_default();
        if !ids.contains(&id) {
            ids.push(id);
        }
    }

    /// Notes a memory that the principal has seen or added; others do not delete it.
    fn note_memory(&mut self, id: &str) {
        let id = id.parse().expect("an identifier");
        if self.memories.iter().all(|known| known.id != MemoryId(id)) {
            self.memories.push(Known {
                id: MemoryId(id),
                differs: false,
                has_key: true,
                is_cited: true,
                key: None,
                title: String::new(),
                text: String::new(),
            });
        }
    }

    /// Notes what a response of the principal contains.
    pub(super) fn listen(&mut self, call: &ApiCall, response: &Response<bytes::Bytes>) {
        let segments = call.operation.spec().path.rsplit('/');
        let mut collections = segments.filter(|segment| !segment.starts_with('{'));
        let collection = collections.next().unwrap_or_default();
        if let Some(tag) = response.headers().get("etag") {
            self.tags.extend(tag.to_str().map(str::to_owned));
        }
        let Ok(body) = serde_json::from_slice::<Value>(response.body()) else {
            return;
        };
        if let Some(cursor) = body["next_cursor"].as_str() {
            self.cursors.insert(call.path.clone(), cursor.to_owned());
        }
        if body["recall_id"].is_string() {
            self.cite_found(&body["results"], "memory_id");
        }
        let items = [&body["data"], &body["memories"]].map(Value::as_array);
        let items = items.into_iter().flatten().flatten();
        for item in [&body, &body["data"]].into_iter().chain(items) {
            match item["id"].as_str() {
                Some(id) if ["memories", "ingest"].contains(&collection) => self.note_memory(id),
                Some(id) => self.note(collection, id.to_owned()),
                None => {}
            }
        }
    }

    /// Notes the first result of a bulk update.
    pub(super) fn note_result(&mut self, call: &ApiCall, response: &Response<bytes::Bytes>) {
        let is_bulk = call.operation == Operation::BulkUpdateMemories;
        if is_bulk && response.status().is_success() {
            let result = serde_json::from_slice(response.body()).expect("a result is JSON");
            let key = call.header(&IDEMPOTENCY_KEY).unwrap_or_default().to_owned();
            self.first_results.entry(key).or_insert(result);
        }
    }

    /// Returns the rules for the principal.
    pub(super) fn access(&self) -> Access<'_> {
        let caller = self.pat.caller.clone();
        self.reference.access(&self.directory, caller)
    }

    /// Returns true if the principal may change neither the audience nor the sensitivity of a
    /// memory in a way that lets it read more.
    pub(super) fn cannot_widen(&self, labels: &Labels) -> bool {
        let held = self.access().actions_in(&labels.workspace);
        !held.contains("memory:share") && !held.contains("memory:declassify")
    }

    /// Returns the stored labels of a memory; `None` if it was deleted.
    pub(super) async fn labels(&self, id: MemoryId) -> Result<Option<Labels>, Error> {
        let (service, owner) = (&self.seed.service, &self.seed.owner);
        let found = match service.memories().get(owner, id).await {
            Err(Error::NotFound { .. }) => return Ok(None),
            found => found?.value,
        };
        let memory = serde_json::to_value(&found).expect("a memory is JSON");
        let text = |field: &str| memory[field].as_str().unwrap_or_default().to_owned();
        let is_main = text("workspaceId") == self.workspaces[0].to_string();
        let is_own = text("createdBy") == self.pat.member.to_string();
        Ok(Some(Labels {
            workspace: WORKSPACES[usize::from(!is_main)].to_owned(),
            audience: text("audienceTag"),
            sensitivity: text("sensitivityLabel"),
            review: text("reviewStatus"),
            author: if is_own { super::kinds::PAT } else { "olga" }.to_owned(),
            editor: String::new(),
        }))
    }

    /// Returns true if a memory is hidden from the principal, or deleted.
    pub(super) async fn is_hidden(&self, id: MemoryId) -> Result<bool, Error> {
        let labels = self.labels(id).await?;
        let verdict = |labels: Labels| self.access().verdict(&labels, &Use::Read);
        Ok(labels.is_none_or(|labels| verdict(labels) == Verdict::Unknown))
    }

    /// Returns true if a memory has to be removed at the same time in both worlds, because its key
    /// or a recall shows that.
    pub(super) fn is_pinned(&self, known: &Known) -> bool {
        self.has_removals && (known.has_key || known.is_cited)
    }

    /// Returns the hidden memories of the workspace that a path names.
    pub(super) async fn hidden_in(&self, path: &str) -> Result<Vec<MemoryId>, Error> {
        let mut found = Vec::new();
        for known in &self.memories {
            let Some(labels) = self.labels(known.id).await? else {
                continue;
            };
            let index = usize::from(labels.workspace != WORKSPACES[0]);
            let is_there = path.contains(&self.workspaces[index].to_string());
            let is_hidden = self.access().verdict(&labels, &Use::Read) == Verdict::Unknown;
            found.extend(Some(known.id).filter(|_| is_there && is_hidden));
        }
        Ok(found)
    }

    /// Returns the hidden memory that has a source key in the workspace that a path names.
    pub(super) async fn hidden_holder(
        &self,
        path: &str,
        key: &Value,
    ) -> Result<Option<&Known>, Error> {
        let hidden = self.hidden_in(path).await?;
        let has_key = |known: &&Known| known.key.is_some_and(|held| *key == *held);
        let mut known = self.memories.iter().filter(has_key);
        Ok(known.find(|known| hidden.contains(&known.id)))
    }

    /// Returns the principal as a caller that the host vouches for.
    pub(super) fn trusted_pat(&self) -> Caller {
        self.seed.trusted(self.pat.member)
    }

    /// Notes that the recall of a search cites what was found, each memory with this field.
    pub(super) fn cite_found(&mut self, found: &Value, field: &str) {
        let found = found.as_array().into_iter().flatten();
        let found = found.filter_map(|found| found[field].as_str()?.parse().ok().map(MemoryId));
        self.cite(&found.collect());
    }

    /// Notes that a recall may cite these memories.
    pub(super) fn cite(&mut self, cited: &BTreeSet<MemoryId>) {
        for memory in &mut self.memories {
            memory.is_cited |= cited.contains(&memory.id);
        }
    }
}
