//! The rows: requests to the server, and the same work of the reference.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Method, StatusCode};
use knowledge_core::model::MemoryId;
use serde_json::json;

use crate::bare::{self, Reference};
use crate::calls::{assert_succeeded, call, dashboard_path, patch, record};
use crate::knowledge::Knowledge;
use crate::load::{Call, Job, Served, Target, Until};
use crate::peers::{self, Peer};
use crate::report::{self, Row, Sample, quantile};
use crate::scale::Scale;
use crate::site::{BATCH, Site, memory};
use crate::spec::{Engine, Recorded, Spec};

/// Header with the entity tag that a client has.
const IF_NONE_MATCH: &str = "if-none-match";
/// Connections of the dashboard row.
pub(crate) const DASHBOARD_CONNECTIONS: usize = 32;
/// Connections of the row of small updates, and tasks of its reference.
pub(crate) const UPDATE_CONNECTIONS: usize = 64;
/// Clients of contended updates.
const CLIENTS: usize = 4;
/// Connections over which batches arrive.
const INGEST_CONNECTIONS: usize = 4;

/// A group of rows that are measured together.
pub(crate) struct RowKind {
    pub(crate) name: &'static str,
    pub(crate) measure: for<'b> fn(&'b Bench) -> Measurement<'b>,
}

type Measurement<'b> = Pin<Box<dyn Future<Output = Vec<Row>> + 'b>>;

/// Defines the rows by their names and functions.
macro_rules! rows {
    ($($name:expr => $function:ident,)+) => {
        [$(RowKind {
            name: $name,
            measure: |bench| Box::pin(bench.$function()),
        }),+]
    };
}

/// All rows, in the order in which they are measured: that of the peer before memories are added,
/// which it does not have.
pub(crate) const ROWS: [RowKind; 10] = rows! {
    "dashboard" => dashboard,
    "bulk" => bulk,
    "update" => update,
    "contention" => contention,
    "replay" => replay,
    "beside" => beside_updates,
    "conflicts" => beside_conflicts,
    "overload" => overload,
    peers::NAME => peers,
    "ingest" => ingest,
};

/// A running server with its reference.
pub(crate) struct Bench {
    pub(crate) engine: Engine,
    pub(crate) scale: &'static Scale,
    pub(crate) site: Site,
    server: Served,
    pub(crate) target: Target,
    pub(crate) peer: Option<Peer>,
    pub(crate) reference: Reference,
    dashboard: Recorded,
    etag: String,
    replayed: Call,
    replay: Recorded,
}

impl Bench {
    pub(crate) async fn start(engine: Engine, scale: &'static Scale, peer: Option<Peer>) -> Self {
        let mut site = Site::create(engine, scale).await;
        let server = Served::new(Knowledge::serve(&site.data_dir()));
        let target = server.target.clone();
        let get = call(&site.token, Method::GET, dashboard_path(site.workspace));
        let dashboard = target.send(get.clone()).await;
        let etag = dashboard.headers["etag"].to_str().expect("ASCII");
        let etag = etag.to_owned();
        let not_modified = target.send(get.with(IF_NONE_MATCH, &*etag)).await;
        let update = |key: &str, memories: &[MemoryId]| {
            let label = format!("team:{key}");
            patch(&site.token, key, memories, "audienceTag", &label)
        };
        let replayed = update("replay", &site.memories[..scale.bulk]);
        let first = target.send(replayed.clone()).await;
        assert_eq!(first.json()["replayed"], false);
        let replay = target.send(replayed.clone()).await;
        let update = update("first", &site.memories[scale.memories - 1..]);
        let update = target.send(update).await;
        assert_succeeded(&update, 1);

        let (dashboard, replay) = (record(&dashboard), record(&replay));
        let spec = Spec {
            engine,
            dashboard_keys: std::mem::take(&mut site.dashboard_keys),
            bulk: std::mem::take(&mut site.bulk),
            updates: std::mem::take(&mut site.updates),
            batches: std::mem::take(&mut site.batches),
            dashboard: dashboard.clone(),
            not_modified: record(&not_modified),
            update: record(&update),
            replay: replay.clone(),
        };
        println!(
            "  a summary of {} bytes reads {} keys; an update of {} memories writes {} keys",
            dashboard.body.len(),
            spec.dashboard_keys.len(),
            scale.bulk,
            spec.bulk.len()
        );
        spec.write(&site.spec());
        let reference = Reference::start(&site.spec(), &site.raw_dir());
        Self {
            engine,
            scale,
            site,
            server,
            target,
            peer,
            reference,
            dashboard,
            etag,
            replayed,
            replay,
        }
    }

    /// Returns the processes of the server, the reference and the peer.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let measured = [&self.target, &self.reference.target];
        let peer = self.peer.as_ref().map(|peer| &peer.target);
        let measured = measured.into_iter().chain(peer);
        measured.map(|target| target.id).collect()
    }

    /// Ends the server in order, and the reference.
    pub(crate) fn stop(self) {
        self.server.stop();
    }

    pub(crate) fn name(&self, what: &str) -> String {
        format!("{what}, {}", self.engine.name())
    }

    async fn dashboard(&self) -> Vec<Row> {
        let path = dashboard_path(self.site.workspace);
        let get = call(&self.site.token, Method::GET, path);
        let body = self.dashboard.body.clone();
        let full = self.polled(get.clone(), StatusCode::OK, body.into()).await;
        let get = get.with(IF_NONE_MATCH, &*self.etag);
        let current = self
            .polled(get, StatusCode::NOT_MODIFIED, Bytes::new())
            .await;
        let reference = "bare warp with the same bytes + one read of the same keys";
        let row = |what: &str, bound, samples: &[Sample]| {
            let (name, target) = (self.name(what), report::Target::RatioAtMost(bound));
            Row::new("dashboard", name, "µs of CPU", target, samples).against(reference)
        };
        vec![
            row("dashboard summary, 32 connections", 1.5, &full),
            row(
                "dashboard summary not modified, 32 connections",
                1.2,
                &current,
            ),
        ]
    }

    /// Measures the same request to the server and to the reference.
    async fn polled(&self, get: Call, status: StatusCode, body: Bytes) -> Vec<Sample> {
        let bare = Job::repeat(get.to(bare::DASHBOARD), status, body.clone());
        let (job, small) = (Job::repeat(get, status, body), self.scale.small);
        let reference = &self.reference.target;
        let mut samples = Vec::new();
        for _ in 0..self.scale.rounds {
            let ours = self.target.load(DASHBOARD_CONNECTIONS, small, &job).await;
            let bare = reference.load(DASHBOARD_CONNECTIONS, small, &bare).await;
            samples.push(ours.sample(ours.cpu_us, bare.cpu_us, bare.cpu_us));
        }
        samples
    }

    async fn bulk(&self) -> Vec<Row> {
        let count = self.scale.bulk;
        let memories = self.site.memories[..count].to_vec();
        let job = self.updates("bulk", count, move |_| memories.clone());
        let mut samples = Vec::new();
        for _ in 0..self.scale.rounds {
            let calls = self.scale.large;
            let ours = self.target.load(1, Until::Count(calls), &job).await;
            let raw = self.reference.commit_bulk(calls).await;
            samples.push(ours.sample(ours.median_ms(), raw.each_ms, raw.cpu_us));
        }
        let name = self.name(&format!("bulk update of {count}, durable"));
        let target = report::Target::RatioAtMost(1.3);
        let row = Row::new("bulk", name, "ms", target, &samples);
        vec![row.against("bare engine, a durable commit of as many hot keys")]
    }

    async fn update(&self) -> Vec<Row> {
        let memories = Arc::clone(&self.site.memories);
        let updated = self.scale.updated();
        let first = updated.start;
        let length = updated.len();
        let choose = move |number: usize| vec![memories[first + number % length]];
        let job = self.updates("update", 1, choose);
        let (token, memory) = (&self.site.token, &self.site.memories[..1]);
        let bare = patch(token, "bare", memory, "sensitivityLabel", "internal");
        let bare = bare.to(bare::UPDATE);
        let bare = Job::new(move |_| bare.clone(), |answer| assert_succeeded(answer, 1));
        let (mut samples, mut against_warp) = (Vec::new(), 0);
        for _ in 0..self.scale.rounds {
            let small = self.scale.small;
            let ours = self.target.load(UPDATE_CONNECTIONS, small, &job).await;
            let reference = &self.reference;
            let tasks = reference.commit_by_tasks(UPDATE_CONNECTIONS, self.scale.commits);
            let raw = tasks.await;
            let warp = reference.target.load(UPDATE_CONNECTIONS, small, &bare);
            let warp = warp.await;
            let is_warp = warp.per_second < raw.per_second;
            against_warp += usize::from(is_warp);
            let reference = raw.per_second.min(warp.per_second);
            let reference_cpu_us = if is_warp { warp.cpu_us } else { raw.cpu_us };
            samples.push(ours.sample(ours.per_second, reference, reference_cpu_us));
        }
        let name = self.name("bulk updates of 1, 64 connections");
        let target = report::Target::RatioAtLeast(0.5);
        let row = Row::new("update", name, "/s", target, &samples);
        vec![row.against(if 2 * against_warp > self.scale.rounds {
            "bare warp with the same bodies, lower than the bare engine with 64 tasks"
        } else {
            "bare engine with 64 tasks, lower than bare warp with the same bodies"
        })]
    }

    async fn contention(&self) -> Vec<Row> {
        let (scale, token) = (self.scale, self.site.token.clone());
        let (first, count) = (scale.bulk, scale.bulk.min(scale.contended / 2));
        let memories = self.site.memories[first..first + scale.contended].to_vec();
        let conflicts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&conflicts);
        let job = Job::new(
            move |number| {
                let mut random = fastrand::Rng::with_seed(number as u64);
                let chosen = random.choose_multiple(memories.iter().copied(), count);
                let key = format!("contention-{number}");
                let label = format!("team:c{number}");
                patch(&token, &key, &chosen, "audienceTag", &label)
            },
            move |answer| match answer.status {
                StatusCode::CONFLICT => drop(counted.fetch_add(1, Ordering::Relaxed)),
                _ => assert_succeeded(answer, count),
            },
        );
        let (mut samples, mut latencies) = (Vec::new(), Vec::new());
        for _ in 0..scale.rounds {
            let calls = scale.contended_calls;
            let one = self.target.load(1, Until::Count(calls), &job).await;
            let calls = Until::Count(CLIENTS * calls);
            let four = self.target.load(CLIENTS, calls, &job).await;
            samples.push(four.sample(four.per_second, one.per_second, one.cpu_us));
            latencies.extend(four.latencies_ms);
        }
        let what = format!(
            "4 clients, bulk updates of {count} of {} memories",
            scale.contended
        );
        let tail = Sample::of(quantile(latencies.clone(), 0.99), quantile(latencies, 0.5));
        let conflicts = Sample::of(conflicts.load(Ordering::Relaxed) as f64, f64::NAN);
        let row = |what: &str, unit, target, samples: &[Sample]| {
            Row::new("contention", self.name(what), unit, target, samples)
        };
        let (at_least, at_most) = (
            report::Target::RatioAtLeast(1.0),
            report::Target::RatioAtMost(5.0),
        );
        let none = report::Target::ValueAtMost(0.0);
        vec![
            row(&what, "calls/s", at_least, &samples).against("one client"),
            row("the same, 99 % of the calls", "ms", at_most, &[tail])
                .against("median of the same calls"),
            row("the same, responses 409", "calls", none, &[conflicts]),
        ]
    }

    async fn replay(&self) -> Vec<Row> {
        let body = Bytes::from(self.replay.body.clone());
        let bare = self.replayed.to(bare::REPLAY);
        let bare = Job::repeat(bare, StatusCode::OK, body.clone());
        let job = Job::repeat(self.replayed.clone(), StatusCode::OK, body);
        let mut samples = Vec::new();
        for _ in 0..self.scale.rounds {
            let calls = Until::Count(5 * self.scale.large);
            let ours = self.target.load(1, calls, &job).await;
            let bare = self.reference.target.load(1, calls, &bare).await;
            samples.push(ours.sample(ours.median_ms(), bare.median_ms(), bare.cpu_us));
        }
        let name = self.name(&format!("replay of a bulk update of {}", self.scale.bulk));
        let target = report::Target::ValueAtMost(1.0);
        let row = Row::new("replay", name, "ms", target, &samples);
        vec![row.against("bare warp with the same bytes")]
    }

    async fn ingest(&self) -> Vec<Row> {
        let scale = self.scale;
        let (token, source) = (self.site.token.clone(), self.site.source);
        let path = format!("/v1/workspaces/{}/ingest", self.site.workspace);
        let first = scale.memories;
        let job = Job::new(
            move |number| {
                let first = first + number * BATCH;
                let memories: Vec<_> = (first..first + BATCH).map(memory).collect();
                let body = json!({ "source_id": source, "memories": memories });
                call(&token, Method::POST, path.clone()).json(&body)
            },
            |answer| {
                let result = answer.json();
                let text = result.to_string();
                assert_eq!(text.matches(r#""created""#).count(), BATCH, "{text}");
            },
        );
        let mut samples = Vec::new();
        for round in 0..scale.rounds {
            let until = Until::Count(scale.batches);
            let ours = self.target.load(INGEST_CONNECTIONS, until, &job).await;
            let first = round * scale.batches;
            let raw = self.reference.load_batches(first, scale.batches).await;
            let batch = BATCH as f64;
            samples.push(Sample {
                value: ours.per_second * batch,
                reference: raw.per_second * batch,
                per_second: ours.per_second * batch,
                cpu_us: ours.cpu_us / batch,
                reference_cpu_us: raw.cpu_us / batch,
            });
        }
        let name = self.name("ingested memories in batches of 100, 4 connections");
        let target = report::Target::RatioAtLeast(0.5);
        let row = Row::new("ingest", name, "/s", target, &samples);
        vec![row.against("bare engine, the same bytes in as many batches, one sync")]
    }

    /// Returns updates of the sensitivity of chosen memories, which each update changes.
    ///
    /// The memories chosen for a number are those chosen for it in the previous turn.
    fn updates(
        &self,
        prefix: &'static str,
        count: usize,
        choose: impl Fn(usize) -> Vec<MemoryId> + Send + Sync + 'static,
    ) -> Arc<Job> {
        let token = self.site.token.clone();
        let turn = if count == 1 {
            self.scale.updated().len()
        } else {
            1
        };
        Job::new(
            move |number| {
                let is_even = (number / turn).is_multiple_of(2);
                let label = if is_even { "confidential" } else { "internal" };
                let key = format!("{prefix}-{number}");
                patch(&token, &key, &choose(number), "sensitivityLabel", label)
            },
            move |answer| assert_succeeded(answer, count),
        )
    }
}
