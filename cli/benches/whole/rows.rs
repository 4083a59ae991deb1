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
use crate::calls::{assert_succeeded, call, dashboard_path, patch, patch_as, record, with_tag};
use crate::knowledge::Knowledge;
use crate::load::{Call, Job, Target, Until};
use crate::peers::{self, Peer};
use crate::report::{self, Row, Sample, quantile};
use crate::scale::Scale;
use crate::site::{BATCH, Site, memory};
use crate::spec::{Engine, Recorded, Spec};

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

/// All rows, in the order in which they are measured.
pub(crate) const ROWS: [RowKind; 9] = [
    RowKind {
        name: "dashboard",
        measure: |bench| Box::pin(bench.dashboard()),
    },
    RowKind {
        name: "bulk",
        measure: |bench| Box::pin(bench.bulk()),
    },
    RowKind {
        name: "update",
        measure: |bench| Box::pin(bench.update()),
    },
    RowKind {
        name: "contention",
        measure: |bench| Box::pin(bench.contention()),
    },
    RowKind {
        name: "replay",
        measure: |bench| Box::pin(bench.replay()),
    },
    RowKind {
        name: "beside",
        measure: |bench| Box::pin(bench.beside_updates()),
    },
    RowKind {
        name: "overload",
        measure: |bench| Box::pin(bench.overload()),
    },
    // Before memories are added, which the peer does not have.
    RowKind {
        name: peers::NAME,
        measure: |bench| Box::pin(bench.peers()),
    },
    RowKind {
        name: "ingest",
        measure: |bench| Box::pin(bench.ingest()),
    },
];

/// A running server with its reference.
pub(crate) struct Bench {
    pub(crate) engine: Engine,
    pub(crate) scale: &'static Scale,
    pub(crate) site: Site,
    server: Knowledge,
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
        let server = Knowledge::serve(&site.data_dir());
        let target = Target {
            address: server.address().to_owned(),
            id: server.id(),
        };
        let get = call(&site.token, Method::GET, dashboard_path(site.workspace));
        let dashboard = target.send(get.clone()).await;
        let etag = dashboard.headers["etag"]
            .to_str()
            .expect("ASCII")
            .to_owned();
        let not_modified = target.send(with_tag(get, &etag)).await;
        let replayed = patch(
            &site,
            "replay",
            &site.memories[..scale.bulk],
            "audienceTag",
            "team:replay",
        );
        let first = target.send(replayed.clone()).await;
        assert_eq!(first.json()["replayed"], false);
        let replay = target.send(replayed.clone()).await;
        let last = &site.memories[scale.memories - 1..];
        let update = patch(&site, "first", last, "audienceTag", "team:first");
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
        self.server.terminate();
        assert!(self.server.ended().success(), "the server stops in order");
    }

    pub(crate) fn name(&self, what: &str) -> String {
        format!("{what}, {}", self.engine.name())
    }

    async fn dashboard(&self) -> Vec<Row> {
        let path = dashboard_path(self.site.workspace);
        let get = call(&self.site.token, Method::GET, path);
        let full = self.polled(get.clone(), 200, self.dashboard.body.clone());
        let current = self.polled(with_tag(get, &self.etag), 304, Vec::new());
        let (full, current) = (full.await, current.await);
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
    async fn polled(&self, get: Call, status: u16, body: Vec<u8>) -> Vec<Sample> {
        let job = |get: Call| {
            let body = body.clone();
            Job::new(
                move |_| get.clone(),
                move |answer| {
                    assert_eq!(answer.status.as_u16(), status);
                    assert_eq!(answer.body, body, "the summary is the first one");
                },
            )
        };
        let bare = Call {
            path: bare::DASHBOARD.to_owned(),
            ..get.clone()
        };
        let (jobs, small) = ((job(get), job(bare)), self.scale.small);
        let mut samples = Vec::new();
        for _ in 0..self.scale.rounds {
            let ours = self
                .target
                .load(DASHBOARD_CONNECTIONS, small, &jobs.0)
                .await;
            let bare = &self.reference.target;
            let bare = bare.load(DASHBOARD_CONNECTIONS, small, &jobs.1).await;
            samples.push(Sample {
                value: ours.cpu_us,
                reference: bare.cpu_us,
                per_second: ours.per_second,
                cpu_us: ours.cpu_us,
                reference_cpu_us: bare.cpu_us,
            });
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
            samples.push(Sample {
                value: report::median(ours.latencies_ms),
                reference: raw.each_ms,
                per_second: ours.per_second,
                cpu_us: ours.cpu_us,
                reference_cpu_us: raw.cpu_us,
            });
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
        let body = patch(
            &self.site,
            "bare",
            &self.site.memories[..1],
            "sensitivityLabel",
            "internal",
        );
        let bare = Call {
            path: bare::UPDATE.to_owned(),
            ..body
        };
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
            samples.push(Sample {
                value: ours.per_second,
                reference: raw.per_second.min(warp.per_second),
                per_second: ours.per_second,
                cpu_us: ours.cpu_us,
                reference_cpu_us: if is_warp { warp.cpu_us } else { raw.cpu_us },
            });
        }
        let name = self.name("bulk updates of 1, 64 connections");
        let target = report::Target::RatioAtLeast(0.5);
        let row = Row::new("update", name, "/s", target, &samples);
        vec![row.against(match 2 * against_warp > self.scale.rounds {
            true => "bare warp with the same bodies, lower than the bare engine with 64 tasks",
            false => "bare engine with 64 tasks, lower than bare warp with the same bodies",
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
                patch_as(&token, &key, &chosen, "audienceTag", &label)
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
            samples.push(Sample {
                value: four.per_second,
                reference: one.per_second,
                per_second: four.per_second,
                cpu_us: four.cpu_us,
                reference_cpu_us: one.cpu_us,
            });
            latencies.extend(four.latencies_ms);
        }
        let what = format!(
            "4 clients, bulk updates of {count} of {} memories",
            scale.contended
        );
        let rate = Row::new(
            "contention",
            self.name(&what),
            "calls/s",
            report::Target::RatioAtLeast(1.0),
            &samples,
        );
        let tail = Sample {
            value: quantile(latencies.clone(), 0.99),
            reference: quantile(latencies, 0.5),
            ..Sample::UNKNOWN
        };
        let tail = Row::new(
            "contention",
            self.name("the same, 99 % of the calls"),
            "ms",
            report::Target::RatioAtMost(5.0),
            &[tail],
        );
        let conflicts = Sample {
            value: conflicts.load(Ordering::Relaxed) as f64,
            ..Sample::UNKNOWN
        };
        let conflicts = Row::new(
            "contention",
            self.name("the same, responses 409"),
            "calls",
            report::Target::ValueAtMost(0.0),
            &[conflicts],
        );
        vec![
            rate.against("one client"),
            tail.against("median of the same calls"),
            conflicts,
        ]
    }

    async fn replay(&self) -> Vec<Row> {
        let job = |call: Call| {
            let body = self.replay.body.clone();
            Job::new(
                move |_| call.clone(),
                move |answer| {
                    assert_eq!(answer.status, StatusCode::OK);
                    assert_eq!(answer.body, body, "the result is the first one");
                },
            )
        };
        let bare = Call {
            path: bare::REPLAY.to_owned(),
            ..self.replayed.clone()
        };
        let (ours, bare) = (job(self.replayed.clone()), job(bare));
        let mut samples = Vec::new();
        for _ in 0..self.scale.rounds {
            let calls = Until::Count(5 * self.scale.large);
            let ours = self.target.load(1, calls, &ours).await;
            let bare = self.reference.target.load(1, calls, &bare).await;
            samples.push(Sample {
                value: report::median(ours.latencies_ms),
                reference: report::median(bare.latencies_ms),
                per_second: ours.per_second,
                cpu_us: ours.cpu_us,
                reference_cpu_us: bare.cpu_us,
            });
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
                Call {
                    method: Method::POST,
                    path: path.clone(),
                    headers: vec![("authorization", format!("Bearer {token}"))],
                    body: Bytes::from(body.to_string()),
                }
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
        let turn = match count {
            1 => self.scale.updated().len(),
            _ => 1,
        };
        Job::new(
            move |number| {
                let label = match (number / turn).is_multiple_of(2) {
                    true => "confidential",
                    false => "internal",
                };
                let key = format!("{prefix}-{number}");
                patch_as(&token, &key, &choose(number), "sensitivityLabel", label)
            },
            move |answer| assert_succeeded(answer, count),
        )
    }
}
