//! The same requests to the server and to a peer, an equivalent service over PostgreSQL.
//!
//! `benches/peers` has the peer and its data, and describes what it leaves out. `cargo xtask bench`
//! starts it and passes its address; without one there is no such row. The server runs on its
//! default engine, and then on the PostgreSQL server of the peer.

use std::path::PathBuf;
use std::sync::Arc;

use http::{Method, StatusCode};
use knowledge_core::env::Env;
use knowledge_core::limits::Limits;
use knowledge_core::model::MemoryId;
use serde_json::Value;

use crate::calls::{assert_succeeded, call, patch};
use crate::knowledge::{self, Knowledge};
use crate::load::{Answer, Call, Job, Load, Served, Target, Until};
use crate::report::{self, Row, Sample};
use crate::rows::{Bench, DASHBOARD_CONNECTIONS, UPDATE_CONNECTIONS};
use crate::scale::Scale;
use crate::site::Tenant;
use crate::{database, process};

/// Name of the group of rows.
pub(crate) const NAME: &str = "peers";
const REFERENCE: &str = "Fastify and PostgreSQL with the same data (`benches/peers`)";
/// Token and workspace in the data of the peer.
const TOKEN: &str = "peer-token";
const WORKSPACE: &str = "00000000-0000-7000-8000-000000000002";
/// Fields of a dashboard that differ between two stores with the same data.
const OWN_FIELDS: [&str; 7] = [
    "id",
    "last_ingest_at",
    "last_message_at",
    "rotatesAt",
    "service_account_id",
    "session_id",
    "workspaceId",
];

/// A running peer.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) target: Target,
    /// Directory with the socket of its PostgreSQL server.
    postgres: PathBuf,
}

impl Peer {
    /// Returns the peer that `PROCESS@ADDRESS@DIRECTORY` denotes.
    pub(crate) fn read(option: &str) -> Self {
        let parts: Vec<_> = option.splitn(3, '@').collect();
        let [id, address, directory] = parts[..] else {
            panic!("expected PROCESS@ADDRESS@DIRECTORY, not {option}");
        };
        Self {
            target: Target {
                address: address.to_owned(),
                id: id.parse().expect("the identifier of a process"),
            },
            postgres: directory.into(),
        }
    }
}

/// One of the two services, with what its requests name.
struct Side {
    target: Target,
    /// Name of the store of the measured service, for which no other requests have the same keys.
    store: &'static str,
    token: String,
    workspace: String,
    memories: Arc<Vec<MemoryId>>,
}

impl Side {
    /// Returns the side of the peer with this number of memories, for a store of the other side.
    fn of_peer(peer: &Peer, store: &'static str, memories: usize) -> Self {
        let memory = |number| format!("00000000-0000-7000-9000-{number:012x}").parse();
        let memories = (0..memories).map(|number| memory(number).expect("a UUID"));
        Self {
            target: peer.target.clone(),
            store,
            token: TOKEN.to_owned(),
            workspace: WORKSPACE.to_owned(),
            memories: Arc::new(memories.collect()),
        }
    }

    fn update(&self, key: &str, memories: &[MemoryId], label: &str) -> Call {
        patch(&self.token, key, memories, "audienceTag", label)
    }

    /// Returns updates of `count` memories each, which give them labels that they never had.
    fn updates(&self, kind: &str, first: usize, last: usize, count: usize) -> Arc<Job> {
        let (token, memories) = (self.token.clone(), Arc::clone(&self.memories));
        let prefix = format!("{}-{kind}", self.store.to_lowercase());
        let per_turn = (last - first) / count;
        Job::new(
            move |number| {
                let (turn, place) = (number / per_turn, number % per_turn);
                let chosen = &memories[first + place * count..][..count];
                let key = format!("{prefix}-{number}");
                let label = format!("team:{prefix}-{turn}");
                patch(&token, &key, chosen, "audienceTag", &label)
            },
            move |answer| {
                assert_succeeded(answer, count);
                assert_eq!(answer.json()["replayed"], false);
            },
        )
    }

    fn dashboard(&self) -> Call {
        let path = format!("/v1/workspaces/{}/dashboard-summary", self.workspace);
        call(&self.token, Method::GET, path)
    }

    /// Returns the dashboard without what only this store has.
    async fn comparable_dashboard(&self) -> Value {
        let mut summary = self.target.send(self.dashboard()).await.json();
        clear_own_fields(&mut summary);
        summary
    }

    /// Returns a request, each of whose responses must be this one.
    async fn repeated(&self, call: Call) -> (Answer, Arc<Job>) {
        let answer = self.target.send(call.clone()).await;
        let job = Job::repeat(call, StatusCode::OK, answer.body.clone());
        (answer, job)
    }

    /// Returns replays of an update.
    async fn replays(&self, count: usize) -> Arc<Job> {
        let key = format!("{}-replay", self.store.to_lowercase());
        let call = self.update(&key, &self.memories[..count], &format!("team:{key}"));
        let first = self.target.send(call.clone()).await;
        assert_succeeded(&first, count);
        let (again, job) = self.repeated(call).await;
        let (mut first, again) = (first.json(), again.json());
        assert_eq!(first["replayed"], false);
        first["replayed"] = true.into();
        assert_eq!(first, again, "the replay is the stored result");
        job
    }
}

fn clear_own_fields(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if OWN_FIELDS.contains(&&**name) && value.is_string() {
                    *value = "".into();
                } else {
                    clear_own_fields(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(clear_own_fields),
        _ => {}
    }
}

impl Bench {
    /// Measures the rows against the peer.
    ///
    /// # Panics
    /// If there is no peer, or one side responds wrongly.
    pub(crate) async fn peers(&self) -> Vec<Row> {
        let ours = Side {
            target: self.target.clone(),
            store: self.engine.name(),
            token: self.site.token.clone(),
            workspace: self.site.workspace.to_string(),
            memories: Arc::clone(&self.site.memories),
        };
        let peer = self.peer.as_ref().expect("a peer");
        compare_all(self.scale, &ours, peer).await
    }
}

/// A server over the PostgreSQL server of the peer.
pub(crate) struct Shared {
    scale: &'static Scale,
    peer: Peer,
    server: Served,
    side: Side,
    /// Directory with the address of the database.
    _directory: tempfile::TempDir,
}

impl Shared {
    /// Fills a new database and serves it.
    pub(crate) async fn start(scale: &'static Scale, peer: Peer) -> Self {
        let directory = tempfile::tempdir().expect("a directory can be created");
        let place = directory.path().join("data");
        let url = database::create(&peer.postgres).await;
        let data = knowledge::database_at(&place, &url).open().await;
        let data = data.expect("the store opens");
        let service = data.service(Env::system(), data.options(Limits::default()));
        let tenant = Tenant::create(&service.await.expect("the service opens")).await;
        let memories = tenant.ingest(0..scale.memories).await;
        tenant.furnish().await;
        let server = Served::new(Knowledge::serve(&place));
        let side = Side {
            target: server.target.clone(),
            store: database::NAME,
            token: tenant.token.clone(),
            workspace: tenant.workspace.to_string(),
            memories: Arc::new(memories),
        };
        Self {
            scale,
            peer,
            server,
            side,
            _directory: directory,
        }
    }

    /// Returns the processes of both sides.
    pub(crate) fn processes(&self) -> Vec<u32> {
        vec![self.side.target.id, self.peer.target.id]
    }

    /// Measures the rows against the peer.
    ///
    /// # Panics
    /// If one side responds wrongly.
    pub(crate) async fn measure(&self) -> Vec<Row> {
        compare_all(self.scale, &self.side, &self.peer).await
    }

    /// Ends the server in order.
    pub(crate) fn stop(self) {
        self.server.stop();
    }
}

async fn compare_all(scale: &Scale, ours: &Side, peer: &Peer) -> Vec<Row> {
    let peer = &Side::of_peer(peer, ours.store, scale.memories);
    let dashboards = (
        ours.comparable_dashboard().await,
        peer.comparable_dashboard().await,
    );
    assert_eq!(dashboards.0, dashboards.1, "both have the same data");

    let bulk = scale.bulk;
    let jobs = [ours, peer].map(|side| side.updates("bulk", 0, bulk, bulk));
    let until = Until::Count(scale.large);
    let large = compare(scale, ours, peer, jobs, 1, until, Load::median_ms).await;

    let updated = scale.updated();
    let jobs = [ours, peer].map(|side| side.updates("one", updated.start, updated.end, 1));
    let (until, rate) = (scale.small, |load: &Load| load.per_second);
    let small = compare(scale, ours, peer, jobs, UPDATE_CONNECTIONS, until, rate).await;

    let (_, our_job) = ours.repeated(ours.dashboard()).await;
    let (_, peer_job) = peer.repeated(peer.dashboard()).await;
    let jobs = [our_job, peer_job];
    let dashboard = compare(scale, ours, peer, jobs, DASHBOARD_CONNECTIONS, until, rate).await;

    let jobs = [ours.replays(bulk).await, peer.replays(bulk).await];
    let until = Until::Count(5 * scale.large);
    let replay = compare(scale, ours, peer, jobs, 1, until, Load::median_ms).await;

    let row = |what: &str, unit, target, samples: &[Sample]| {
        let name = format!("{what}, against a peer, {}", ours.store);
        Row::new(NAME, name, unit, target, samples).against(REFERENCE)
    };
    let (at_most, at_least) = (
        report::Target::RatioAtMost(1.0),
        report::Target::RatioAtLeast(1.0),
    );
    vec![
        row(&format!("bulk update of {bulk}"), "ms", at_most, &large),
        row("bulk updates of 1, 64 connections", "/s", at_least, &small),
        row(
            "dashboard summary, 32 connections",
            "/s",
            at_least,
            &dashboard,
        ),
        row(
            &format!("replay of a bulk update of {bulk}"),
            "ms",
            at_most,
            &replay,
        ),
    ]
}

/// Measures both sides in turns, after a round of each that does not count: it compiles the peer's
/// JavaScript and fills the caches of both.
///
/// The processor time of a side includes that of the PostgreSQL server, which belongs to the process
/// of the peer: while one side is measured, the other one waits.
async fn compare(
    scale: &Scale,
    ours: &Side,
    peer: &Side,
    jobs: [Arc<Job>; 2],
    connections: usize,
    until: Until,
    value: impl Fn(&Load) -> f64,
) -> Vec<Sample> {
    let mut samples = Vec::new();
    for round in 0..=scale.rounds {
        let shared = process::cpu_ms(peer.target.id);
        let load = ours.target.load(connections, until, &jobs[0]).await;
        let shared = process::cpu_ms(peer.target.id) - shared;
        let reference = peer.target.load(connections, until, &jobs[1]).await;
        if round > 0 {
            let sample = load.sample(value(&load), value(&reference), reference.cpu_us);
            samples.push(Sample {
                cpu_us: load.cpu_us + 1e3 * shared / load.latencies_ms.len() as f64,
                ..sample
            });
        }
    }
    samples
}
