//! Failover to a synchronous standby under several servers: nothing that was acknowledged is lost,
//! nothing is executed twice, and each event is delivered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::try_join_all;
use http::Method;
use knowledge_storage_postgres::testing::{self, Server, ServerOptions};
use knowledge_testing::fixture::OrgFixture;
use serde_json::json;

use crate::events::all_announced;
use crate::servers::{Cluster, audited, bulk_update, one_operation, seeded_org};
use crate::support::{Call, Receiver, Site, guarded};

/// Variable with the number of failovers.
const ROUNDS: &str = "KNOWLEDGE_TEST_FAILOVERS";
const ROUNDS_DEFAULT: usize = 3;
const CLIENTS: usize = 12;
/// Range of the number of requests that are answered between two events of a round.
const ANSWERS: std::ops::Range<usize> = 20..120;

/// Primary and standby, which change their roles.
struct Pair {
    primary: Arc<Server>,
    standby: Arc<Server>,
}

impl Pair {
    async fn start() -> Self {
        let programs = &testing::installations()[0];
        let primary = Server::start(programs, &ServerOptions::default());
        let standby = Server::start_standby(&primary);
        primary.require_standby().await;
        Self {
            primary: Arc::new(primary),
            standby: Arc::new(standby),
        }
    }

    /// Returns the URL of a database, with both hosts.
    fn url(&self, database: &str) -> String {
        let hosts = [&self.primary, &self.standby].map(|host| format!("127.0.0.1:{}", host.port()));
        let password = self.primary.password();
        format!(
            "postgres://postgres:{password}@{}/{database}",
            hosts.join(",")
        )
    }

    /// Kills the primary, and promotes the standby.
    async fn fail_over(&mut self) {
        let killed = Arc::clone(&self.primary);
        let killed = tokio::task::spawn_blocking(move || killed.kill());
        killed.await.expect("the primary can be killed");
        self.standby.promote().await;
        std::mem::swap(&mut self.primary, &mut self.standby);
    }

    /// Starts the former primary as a standby, for which commits wait from now on.
    async fn repair(&self) {
        let (standby, primary) = (Arc::clone(&self.standby), Arc::clone(&self.primary));
        let followed = tokio::task::spawn_blocking(move || standby.follow(&primary));
        followed.await.expect("the former primary can follow");
        self.primary.require_standby().await;
    }
}

/// Requests of clients until they are to end.
struct Load {
    is_over: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    clients: Vec<tokio::task::JoinHandle<BTreeMap<String, String>>>,
}

impl Load {
    fn start(cluster: &Arc<Cluster>, org: &OrgFixture, rng: &mut fastrand::Rng) -> Self {
        let (is_over, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let clients = (0..CLIENTS).map(|client| {
            let (cluster, mut rng) = (Arc::clone(cluster), rng.fork());
            let (is_over, answered) = (Arc::clone(&is_over), Arc::clone(&answered));
            let (token, memories) = (
                org.members.owner.token.clone(),
                org.main.memories.internal.clone(),
            );
            tokio::spawn(async move {
                let mut operations = BTreeMap::new();
                while !is_over.load(Ordering::SeqCst) {
                    let key = format!("client-{client}-{}", operations.len());
                    let call = bulk_update(&key, &token, &memories, &mut rng);
                    let answer = cluster.settle(cluster.any(&mut rng), &call).await;
                    answered.fetch_add(1, Ordering::SeqCst);
                    // Whichever server it is sent to again, what was acknowledged is still there.
                    let again = cluster.settle(cluster.any(&mut rng), &call).await;
                    assert_eq!(again["replayed"], true, "{key}: {again}");
                    operations.insert(key.clone(), one_operation(&key, &[answer, again]));
                }
                operations
            })
        });
        Self {
            clients: clients.collect(),
            is_over,
            answered,
        }
    }

    /// Waits until this many further requests are answered.
    async fn goes_on(&self, answers: usize) {
        let until = self.answered.load(Ordering::SeqCst) + answers;
        let waited = async {
            while self.answered.load(Ordering::SeqCst) < until {
                let ended = self.clients.iter().find(|client| client.is_finished());
                assert!(ended.is_none(), "a client has failed");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        guarded("answers", waited).await;
    }

    /// Ends the clients, and returns the operation of each request.
    async fn end(self) -> BTreeMap<String, String> {
        self.is_over.store(true, Ordering::SeqCst);
        let operations = guarded("the clients", try_join_all(self.clients)).await;
        operations.unwrap().into_iter().flatten().collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failovers_lose_and_repeat_nothing() {
    let rounds = std::env::var(ROUNDS).map_or(ROUNDS_DEFAULT, |rounds| {
        rounds.parse().expect("a number of failovers")
    });
    let seed = fastrand::u64(..);
    println!("seed {seed}, {rounds} failovers");
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut pair = Pair::start().await;
    let database = pair.primary.create_database().await;
    let site = Site::at(&pair.url(&database));
    let org = seeded_org(&site).await;
    let cluster = Arc::new(Cluster::start(site));
    let receiver = Receiver::taking().await;
    let new = json!({ "event_type": "memory.updated", "url": receiver.url() });
    let path = format!("/v1/workspaces/{}/webhooks", org.main.id);
    let register = Call::new(Method::POST, path);
    let register = register.bearer(&org.members.owner.token).json(&new);
    let registered = register.send_to(&cluster.url(0)).await;
    assert_eq!(registered.status, 201, "{registered:?}");

    let load = Load::start(&cluster, &org, &mut rng);
    for round in 1..=rounds {
        load.goes_on(rng.usize(ANSWERS)).await;
        let before = load.answered.load(Ordering::SeqCst);
        pair.fail_over().await;
        load.goes_on(rng.usize(ANSWERS)).await;
        pair.repair().await;
        let after = load.answered.load(Ordering::SeqCst);
        println!("failover {round}: {before} requests before, {after} after the repair");
    }
    load.goes_on(ANSWERS.start).await;
    let operations = load.end().await;

    let wanted: BTreeSet<_> = operations.values().cloned().collect();
    assert_eq!(wanted.len(), operations.len(), "an operation for each");
    println!(
        "{} events have arrived of {} operations at the end of the load",
        receiver.received().len(),
        wanted.len()
    );
    let announced = all_announced(&receiver, cluster.site(), &wanted).await;
    assert_eq!(announced, wanted, "no other change is announced");
    let cluster = Arc::into_inner(cluster).expect("the clients have ended");
    let site = cluster.end();
    assert_eq!(audited(&site, org.id).await, operations);
    let verified = site.run(&["verify"]).ok();
    assert!(verified.stdout.contains(", 0 differences"), "{verified:?}");
}
