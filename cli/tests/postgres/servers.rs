//! Several servers on one database: each request is executed once, whichever server gets it and
//! whichever is killed, and each event is delivered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use http::Method;
use knowledge_core::internals::keys;
use knowledge_core::model::MemoryId;
use knowledge_core::store::StoreExt;
use knowledge_testing::fixture::{self, OrgFixture};
use serde_json::{Value, json};

use crate::events::all_announced;
use crate::support::knowledge::Knowledge;
use crate::support::{Call, Receiver, Site, guarded};

const SERVERS: usize = 3;
const CLIENTS: usize = 64;
/// Number of requests of a client, each sent to every server at once.
const REQUESTS: usize = 3;
/// Number of memories of a request; the clients share them.
const MEMORIES: usize = 5;
const KILLS: usize = 4;
/// Time between two attempts of a request without a final response.
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// Servers, some of which may be down.
pub(crate) struct Cluster {
    site: Site,
    servers: Mutex<Vec<Option<Knowledge>>>,
    urls: Mutex<Vec<String>>,
}

impl Cluster {
    pub(crate) fn start(site: Site) -> Self {
        let servers: Vec<_> = (0..SERVERS).map(|_| serve(&site)).collect();
        let urls = servers.iter().map(|server| server.base_url.clone());
        Self {
            urls: Mutex::new(urls.collect()),
            servers: Mutex::new(servers.into_iter().map(Some).collect()),
            site,
        }
    }

    pub(crate) fn url(&self, server: usize) -> String {
        self.urls.lock().unwrap()[server].clone()
    }

    /// Returns the number of a random server.
    pub(crate) fn any(&self, rng: &mut fastrand::Rng) -> usize {
        rng.usize(..SERVERS)
    }

    pub(crate) fn site(&self) -> &Site {
        &self.site
    }

    /// Kills all servers, and returns what they served.
    pub(crate) fn end(self) -> Site {
        drop(self.servers);
        self.site
    }

    /// Kills a server, and starts another one in its place.
    fn replace(&self, server: usize) {
        let killed = self.servers.lock().unwrap()[server].take();
        killed.expect("a server").kill();
        let started = serve(&self.site);
        self.urls.lock().unwrap()[server].clone_from(&started.base_url);
        self.servers.lock().unwrap()[server] = Some(started);
    }

    /// Sends a request to a server until it gets a response that is final.
    pub(crate) async fn settle(&self, server: usize, call: &Call) -> Value {
        loop {
            let answer = call.clone().try_send_to(&self.url(server)).await;
            match answer {
                Ok(answer) if answer.status == 200 => return answer.json(),
                // Contention, or a commit whose outcome is unknown.
                Ok(answer) => assert!([409, 503].contains(&answer.status.as_u16()), "{answer:?}"),
                // The server was killed.
                Err(_) => {}
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }
}

fn serve(site: &Site) -> Knowledge {
    let variables = [
        ("KNOWLEDGE_RATE_LIMIT__REQUESTS", "0"),
        ("KNOWLEDGE_WEBHOOKS__ALLOW", "127.0.0.0/8"),
        ("KNOWLEDGE_WEBHOOKS__ALLOW_HTTP", "true"),
    ];
    Knowledge::serve_with(&site.data_dir, &variables)
}

/// Creates an organisation with memories.
pub(crate) async fn seeded_org(site: &Site) -> OrgFixture {
    let seeded = fixture::seed_orgs(&site.open().await, 1).await.unwrap();
    seeded.orgs.into_iter().next().expect("an organisation")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_executed_once_by_several_servers() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let site = Site::new().await;
    let org = seeded_org(&site).await;
    let (token, workspace) = (org.members.owner.token.clone(), org.main.id);
    let memories = org.main.memories.internal.clone();
    let cluster = Arc::new(Cluster::start(site));

    let receiver = Receiver::taking().await;
    let new = json!({ "event_type": "memory.updated", "url": receiver.url() });
    let path = format!("/v1/workspaces/{workspace}/webhooks");
    let register = Call::new(Method::POST, path).bearer(&token).json(&new);
    let registered = register.send_to(&cluster.url(0)).await;
    assert_eq!(registered.status, 201, "{registered:?}");

    let answered = Arc::new(AtomicUsize::new(0));
    let clients = (0..CLIENTS).map(|client| {
        let (cluster, token, answered) =
            (Arc::clone(&cluster), token.clone(), Arc::clone(&answered));
        let (memories, mut rng) = (memories.clone(), rng.fork());
        tokio::spawn(async move {
            let mut operations = BTreeMap::new();
            for request in 0..REQUESTS {
                let key = format!("client-{client}-{request}");
                let call = bulk_update(&key, &token, &memories, &mut rng);
                let answers = (0..SERVERS).map(|server| cluster.settle(server, &call));
                let answers = join_all(answers).await;
                answered.fetch_add(1, Ordering::SeqCst);
                operations.insert(key.clone(), one_operation(&key, &answers));
            }
            operations
        })
    });
    let clients: Vec<_> = clients.collect();

    // Servers are killed at equal distances, each while clients wait for it.
    let is_over = Arc::new(AtomicBool::new(false));
    let killer = {
        let (cluster, answered, is_over) = (
            Arc::clone(&cluster),
            Arc::clone(&answered),
            Arc::clone(&is_over),
        );
        tokio::spawn(async move {
            let mut kills = 0;
            while kills < KILLS && !is_over.load(Ordering::SeqCst) {
                if answered.load(Ordering::SeqCst) >= (kills + 1) * CLIENTS * REQUESTS / (KILLS + 2)
                {
                    let (cluster, server) = (Arc::clone(&cluster), rng.usize(..SERVERS));
                    let replaced = tokio::task::spawn_blocking(move || cluster.replace(server));
                    replaced.await.unwrap();
                    kills += 1;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            kills
        })
    };
    let operations = guarded("the clients", try_join_all(clients)).await.unwrap();
    is_over.store(true, Ordering::SeqCst);
    assert!(killer.await.unwrap() > 0, "no server was killed");
    let operations: BTreeMap<String, String> = operations.into_iter().flatten().collect();
    assert_eq!(operations.len(), CLIENTS * REQUESTS);

    // Each event is delivered, by any server.
    let wanted: BTreeSet<_> = operations.values().cloned().collect();
    assert_eq!(
        wanted.len(),
        operations.len(),
        "each request is an operation of its own"
    );
    let announced = all_announced(&receiver, cluster.site(), &wanted).await;
    assert_eq!(announced, wanted, "only committed changes are announced");

    let cluster = Arc::into_inner(cluster).expect("the clients have ended");
    let site = cluster.end();
    assert_eq!(audited(&site, org.id).await, operations);
    let verified = site.run(&["verify"]);
    assert!(verified.stdout.contains(", 0 differences"), "{verified:?}");
}

/// Returns a bulk update whose audience is unique to its key.
pub(crate) fn bulk_update(
    key: &str,
    token: &str,
    memories: &[MemoryId],
    rng: &mut fastrand::Rng,
) -> Call {
    let mut memories = memories.to_vec();
    rng.shuffle(&mut memories);
    let update = json!({
        "memoryIds": memories[..MEMORIES],
        "audienceTag": format!("team:{key}"),
        "sensitivityLabel": if rng.bool() { "confidential" } else { "restricted" },
    });
    Call::new(Method::PATCH, "/v1/memories/bulk")
        .bearer(token)
        .key(key)
        .json(&update)
}

/// Returns the operation that all servers report, which at most one of them has executed.
pub(crate) fn one_operation(key: &str, answers: &[Value]) -> String {
    let executed = answers.iter().filter(|answer| answer["replayed"] == false);
    assert!(executed.count() <= 1, "{key}: {answers:?}");
    for answer in answers {
        assert_eq!(answer["summary"]["succeeded"], MEMORIES, "{key}: {answer}");
        assert_eq!(answer["operationId"], answers[0]["operationId"], "{key}");
        assert_eq!(answer["results"], answers[0]["results"], "{key}");
    }
    answers[0]["operationId"]
        .as_str()
        .expect("an identifier")
        .to_owned()
}

/// Returns the operation of each key, of which the audit log has one only.
pub(crate) async fn audited(
    site: &Site,
    org: knowledge_core::model::OrgId,
) -> BTreeMap<String, String> {
    let service = site.open().await;
    let pages = service.store().scan_all(&keys::audits(org)).await.unwrap();
    let mut operations = BTreeMap::new();
    for page in &pages {
        let stored: Value = serde_json::from_slice(&page.entry.value).unwrap();
        let audience = stored["body"]["memories"]["change"]["audienceTag"].as_str();
        let key = audience.and_then(|audience| audience.strip_prefix("team:client-"));
        if let Some(key) = key.filter(|_| stored["action"] == "memory.bulk_update") {
            let operation = stored["operation_id"].as_str().expect("an identifier");
            let earlier = operations.insert(format!("client-{key}"), operation.to_owned());
            assert_eq!(earlier, None, "{key} was executed twice");
        }
    }
    operations
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_of_a_killed_server_is_delivered_by_another_one() {
    let site = Site::new().await;
    let org = seeded_org(&site).await;
    let token = &org.members.owner.token;
    let (receiver, gate) = Receiver::held().await;
    let first = serve(&site);
    let new = json!({ "event_type": "memory.updated", "url": receiver.url() });
    let path = format!("/v1/workspaces/{}/webhooks", org.main.id);
    let register = Call::new(Method::POST, path).bearer(token).json(&new);
    assert_eq!(register.send_to(&first.base_url).await.status, 201);
    let mut rng = fastrand::Rng::new();
    let update = bulk_update("client-0", token, &org.main.memories.internal, &mut rng);
    let changed = update.send_to(&first.base_url).await.json()["operationId"].clone();
    receiver.receives(1).await;

    // While the first server holds the lease, the second one leaves the delivery alone.
    let second = serve(&site);
    let ready = Call::new(Method::GET, "/readyz")
        .send_to(&second.base_url)
        .await;
    assert_eq!(ready.status, 200);
    assert_eq!(receiver.received().len(), 1);
    first.kill();
    gate.add_permits(2);
    let received = receiver.receives(2).await;
    assert_eq!(received[0].id(), received[1].id());
    assert!(
        received
            .iter()
            .all(|received| received.json()["data"]["operation_id"] == changed)
    );
    second.kill();
}
