//! Rows under pressure: thousands of connections, dashboards of an organisation that changes, and
//! updates beside others that conflict.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use http::{Method, StatusCode};
use knowledge_core::model::MemoryId;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::bare;
use crate::calls::{assert_succeeded, call, dashboard_path, patch};
use crate::load::{Job, Load, Until};
use crate::process::{HALF_A_HEADER, resident_mib};
use crate::report::{Row, Sample, Target, quantile};
use crate::rows::{Bench, DASHBOARD_CONNECTIONS, UPDATE_CONNECTIONS};

/// Maximum growth of the resident memory: 50 MB, in MiB.
const GROWTH: Target = Target::ValueAtMost(47.6);
/// Updates of the same memory that conflict, each over a connection of its own.
const CONFLICTING: usize = 80;

impl Bench {
    /// Returns requests for the dashboard summary, and the number of those that were served.
    ///
    /// The others are rejected, with the time after which to try again.
    fn summaries(&self) -> (Arc<Job>, Arc<AtomicUsize>) {
        let path = dashboard_path(self.site.workspace);
        let get = call(&self.site.token, Method::GET, path);
        let served = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&served);
        let job = Job::new(
            move |_| get.clone(),
            move |answer| match answer.status {
                StatusCode::OK => {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                status => {
                    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
                    assert!(answer.headers.contains_key("retry-after"));
                }
            },
        );
        (job, served)
    }

    /// Returns requests for the bytes of the dashboard summary from bare warp.
    fn bare_summaries(&self) -> Arc<Job> {
        let get = call(&self.site.token, Method::GET, bare::DASHBOARD.to_owned());
        Job::new(
            move |_| get.clone(),
            |answer| assert_eq!(answer.status, StatusCode::OK),
        )
    }

    /// Measures an overload, and clients that send half a request and wait.
    pub(crate) async fn overload(&self) -> Vec<Row> {
        let mut rows = self.many_clients().await;
        rows.extend(self.hanging_clients().await);
        rows
    }

    fn overload_row(&self, what: &str, unit: &str, target: Target, samples: &[Sample]) -> Row {
        Row::new("overload", self.name(what), unit, target, samples)
    }

    async fn many_clients(&self) -> Vec<Row> {
        let (clients, small) = (self.scale.clients, self.scale.small);
        let (job, served) = self.summaries();
        let useful = |load: &Load| {
            let requests = load.latencies_ms.len() as f64;
            load.per_second * served.swap(0, Ordering::Relaxed) as f64 / requests
        };
        let (bare, reference) = (self.bare_summaries(), &self.reference.target);
        let (mut rates, mut bare_rates, mut growth) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.scale.rounds {
            let few = self.target.load(DASHBOARD_CONNECTIONS, small, &job).await;
            let capacity = useful(&few);
            let before = resident_mib(self.target.id);
            let many = self.target.load(clients, small, &job).await;
            rates.push(many.sample(useful(&many), capacity, few.cpu_us));
            let grown = resident_mib(self.target.id) - before;
            growth.push(Sample::of(grown, f64::NAN));
            let few = reference.load(DASHBOARD_CONNECTIONS, small, &bare).await;
            let many = reference.load(clients, small, &bare).await;
            bare_rates.push(many.sample(many.per_second, few.per_second, few.cpu_us));
        }
        let served = format!("dashboard summaries served, {clients} connections");
        let bare = format!("the same of bare warp, {clients} connections");
        let (target, grown) = (
            Target::RatioAtLeast(0.9),
            "growth of memory by these connections",
        );
        vec![
            self.overload_row(&served, "/s", target, &rates)
                .against("the same with 32 connections"),
            self.overload_row(&bare, "/s", Target::None, &bare_rates)
                .against("the same with 32 connections"),
            self.overload_row(grown, "MiB", GROWTH, &growth),
        ]
    }

    async fn hanging_clients(&self) -> Vec<Row> {
        let clients = self.scale.clients;
        let (job, _) = self.summaries();
        let (mut others, mut growth) = (Vec::new(), Vec::new());
        for _ in 0..self.scale.rounds {
            let requests = Until::Count(self.scale.large * 10);
            let alone = self.target.load(1, requests, &job).await;
            let before = resident_mib(self.target.id);
            let hang = async || {
                let stream = TcpStream::connect(&self.target.address).await;
                let mut stream = stream.expect("it connects");
                let sent = stream.write_all(HALF_A_HEADER).await;
                sent.expect("the connection is open");
                stream
            };
            let hanging = join_all((0..clients).map(|_| hang())).await;
            let beside = self.target.load(1, requests, &job).await;
            let per_second = beside.per_second;
            let [value, reference] = [beside, alone].map(|load| quantile(load.latencies_ms, 0.99));
            others.push(Sample {
                per_second,
                ..Sample::of(value, reference)
            });
            let grown = resident_mib(self.target.id) - before;
            growth.push(Sample::of(grown, f64::NAN));
            drop(hanging);
        }
        let what = format!("99 % of the summaries beside {clients} hanging clients");
        let (target, grown) = (
            Target::ValueAtMost(10.0),
            "growth of memory by hanging clients",
        );
        vec![
            self.overload_row(&what, "ms", target, &others)
                .against("the same without these clients"),
            self.overload_row(grown, "MiB", GROWTH, &growth),
        ]
    }

    /// Measures dashboards of an organisation in which a client changes memories all the time.
    pub(crate) async fn beside_updates(&self) -> Vec<Row> {
        let (job, served) = self.summaries();
        let (memories, updated) = (Arc::clone(&self.site.memories), self.scale.updated());
        let updates = self.relabelings("beside", move |number| {
            memories[updated.start + number % updated.len()]
        });
        let (small, connections) = (self.scale.small, DASHBOARD_CONNECTIONS);
        let (mut rates, mut changes) = (Vec::new(), Vec::new());
        for _ in 0..self.scale.rounds {
            let alone = self.target.load(connections, small, &job).await;
            let (beside, updates) = futures::join!(
                self.target.load(connections, small, &job),
                self.target.load(1, small, &updates)
            );
            rates.push(Sample {
                per_second: beside.per_second,
                ..Sample::of(beside.per_second, alone.per_second)
            });
            changes.push(Sample {
                per_second: updates.per_second,
                ..Sample::of(updates.per_second, f64::NAN)
            });
        }
        assert!(served.load(Ordering::Relaxed) > 0, "summaries are served");
        let row = |what: &str, samples: &[Sample]| {
            let target = Target::None;
            Row::new("beside", self.name(what), "/s", target, samples)
        };
        vec![
            row("dashboard summaries beside updates, 32 connections", &rates)
                .against("the same without updates"),
            row("the updates, 1 connection", &changes),
        ]
    }

    /// Measures updates of one memory each, all different, of an organisation in which many updates
    /// of the same memory meet at the beginning.
    pub(crate) async fn beside_conflicts(&self) -> Vec<Row> {
        let (memories, updated) = (Arc::clone(&self.site.memories), self.scale.updated());
        let same = memories[updated.start];
        let (first, length) = (updated.start + 1, updated.len() - 1);
        let updates = self.relabelings("apart", move |number| memories[first + number % length]);
        let conflicts = self.relabelings("same", move |_| same);
        let (small, connections) = (self.scale.small, UPDATE_CONNECTIONS);
        let mut samples = Vec::new();
        for _ in 0..self.scale.rounds {
            let alone = self.target.load(connections, small, &updates).await;
            let (beside, _) = futures::join!(
                self.target.load(connections, small, &updates),
                self.target
                    .load(CONFLICTING, Until::Count(CONFLICTING), &conflicts)
            );
            samples.push(Sample {
                per_second: beside.per_second,
                ..Sample::of(beside.per_second, alone.per_second)
            });
        }
        let name = self.name("bulk updates of 1 beside conflicts, 64 connections");
        let target = Target::RatioAtLeast(0.9);
        let row = Row::new("conflicts", name, "/s", target, &samples);
        vec![row.against("the same without conflicts")]
    }

    /// Returns updates of the audience of one memory each, which each of them changes.
    fn relabelings(
        &self,
        prefix: &'static str,
        choose: impl Fn(usize) -> MemoryId + Send + Sync + 'static,
    ) -> Arc<Job> {
        let token = self.site.token.clone();
        Job::new(
            move |number| {
                let key = format!("{prefix}-{number}");
                let label = format!("team:{key}");
                patch(&token, &key, &[choose(number)], "audienceTag", &label)
            },
            |answer| assert_succeeded(answer, 1),
        )
    }
}
