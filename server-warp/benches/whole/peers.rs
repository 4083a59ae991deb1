//! The same requests to the server and to a peer, an equivalent service over PostgreSQL.
//!
//! `benches/peers` has the peer and its data, and describes what it leaves out. `cargo xtask bench`
//! starts it and passes its address; without one there is no such row.

use std::sync::Arc;

use http::Method;
use knowledge_core::model::MemoryId;
use serde_json::Value;

use crate::calls::{assert_succeeded, patch_as};
use crate::load::{Answer, Call, Job, Load, Target, Until};
use crate::report::{self, Row, Sample};
use crate::rows::{Bench, DASHBOARD_CONNECTIONS, UPDATE_CONNECTIONS};

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

/// Returns the target that `PROCESS@ADDRESS` denotes.
pub(crate) fn target(option: &str) -> Target {
    let (id, address) = option.split_once('@').expect("PROCESS@ADDRESS");
    Target {
        address: address.to_owned(),
        id: id.parse().expect("the identifier of a process"),
    }
}

/// One of the two services, with what its requests name.
struct Side<'b> {
    target: &'b Target,
    token: String,
    workspace: String,
    memories: Arc<Vec<MemoryId>>,
}

impl Side<'_> {
    fn update(&self, key: &str, memories: &[MemoryId], label: &str) -> Call {
        patch_as(&self.token, key, memories, "audienceTag", label)
    }

    /// Returns updates of `count` memories each, which give them labels that they never had.
    fn updates(&self, prefix: &'static str, first: usize, last: usize, count: usize) -> Arc<Job> {
        let (token, memories) = (self.token.clone(), Arc::clone(&self.memories));
        let per_turn = (last - first) / count;
        Job::new(
            move |number| {
                let (turn, place) = (number / per_turn, number % per_turn);
                let chosen = &memories[first + place * count..][..count];
                let key = format!("{prefix}-{number}");
                let label = format!("team:{prefix}-{turn}");
                patch_as(&token, &key, chosen, "audienceTag", &label)
            },
            move |answer| {
                assert_succeeded(answer, count);
                assert_eq!(answer.json()["replayed"], false);
            },
        )
    }

    fn dashboard(&self) -> Call {
        Call {
            method: Method::GET,
            path: format!("/v1/workspaces/{}/dashboard-summary", self.workspace),
            headers: vec![("authorization", format!("Bearer {}", self.token))],
            body: bytes::Bytes::new(),
        }
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
        let body = answer.body.clone();
        let job = Job::new(
            move |_| call.clone(),
            move |answer| {
                assert_eq!(answer.status, http::StatusCode::OK);
                assert_eq!(answer.body, body, "the response is the first one");
            },
        );
        (answer, job)
    }

    /// Returns replays of an update.
    async fn replays(&self, count: usize) -> Arc<Job> {
        let call = self.update("peers-replay", &self.memories[..count], "team:peers-replay");
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
                match OWN_FIELDS.contains(&&**name) && value.is_string() {
                    true => *value = "".into(),
                    false => clear_own_fields(value),
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
            target: &self.target,
            token: self.site.token.clone(),
            workspace: self.site.workspace.to_string(),
            memories: Arc::clone(&self.site.memories),
        };
        let memories = 0..self.scale.memories;
        let memory = |number| format!("00000000-0000-7000-9000-{number:012x}").parse();
        let memories = memories.map(|number| memory(number).expect("a UUID"));
        let peer = Side {
            target: self.peer.as_ref().expect("a peer"),
            token: TOKEN.to_owned(),
            workspace: WORKSPACE.to_owned(),
            memories: Arc::new(memories.collect()),
        };
        let dashboards = (
            ours.comparable_dashboard().await,
            peer.comparable_dashboard().await,
        );
        assert_eq!(dashboards.0, dashboards.1, "both have the same data");

        let (scale, bulk) = (self.scale, self.scale.bulk);
        let jobs = [&ours, &peer].map(|side| side.updates("peers-bulk", 0, bulk, bulk));
        let until = Until::Count(scale.large);
        let median = |load: &Load| report::median(load.latencies_ms.clone());
        let large = self.compare(&ours, &peer, jobs, 1, until, median).await;

        let updated = scale.updated();
        let jobs =
            [&ours, &peer].map(|side| side.updates("peers-one", updated.start, updated.end, 1));
        let (until, rate) = (scale.small, |load: &Load| load.per_second);
        let small = self.compare(&ours, &peer, jobs, UPDATE_CONNECTIONS, until, rate);
        let small = small.await;

        let (_, our_job) = ours.repeated(ours.dashboard()).await;
        let (_, peer_job) = peer.repeated(peer.dashboard()).await;
        let jobs = [our_job, peer_job];
        let dashboard = self.compare(&ours, &peer, jobs, DASHBOARD_CONNECTIONS, until, rate);
        let dashboard = dashboard.await;

        let jobs = [ours.replays(bulk).await, peer.replays(bulk).await];
        let until = Until::Count(5 * scale.large);
        let replay = self.compare(&ours, &peer, jobs, 1, until, median).await;

        let row = |what: &str, unit, target, samples: &[Sample]| {
            let name = self.name(&format!("{what}, against a peer"));
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

    /// Measures both sides in turns, after a round of each that does not count: it compiles the
    /// peer's JavaScript and fills the caches of both.
    async fn compare(
        &self,
        ours: &Side<'_>,
        peer: &Side<'_>,
        jobs: [Arc<Job>; 2],
        connections: usize,
        until: Until,
        value: impl Fn(&Load) -> f64,
    ) -> Vec<Sample> {
        let mut samples = Vec::new();
        for round in 0..=self.scale.rounds {
            let ours = ours.target.load(connections, until, &jobs[0]).await;
            let peer = peer.target.load(connections, until, &jobs[1]).await;
            if round > 0 {
                samples.push(Sample {
                    value: value(&ours),
                    reference: value(&peer),
                    per_second: ours.per_second,
                    cpu_us: ours.cpu_us,
                    reference_cpu_us: peer.cpu_us,
                });
            }
        }
        samples
    }
}
