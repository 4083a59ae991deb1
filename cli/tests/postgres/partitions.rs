//! Organisations over two databases: routing, moves under load, and moves that are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::{Method, StatusCode};
use knowledge_http_suite::rows;
use knowledge_testing::fixture::{self, OrgFixture};
use serde_json::{Value, json};

use crate::servers::audited;
use crate::support::knowledge::Knowledge;
use crate::support::{
    AssertText, Call, Finished, Received, Receiver, Server, Site, guarded, knowledge_in, start_in,
};

/// Number of memories of a request.
const MEMORIES: usize = 5;
/// Clients of each organisation.
const CLIENTS: usize = 4;
/// Time between two attempts of a request that was held.
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// A database for home and one for the partition `eu`.
struct Pair {
    home: Site,
    eu: Site,
}

impl Pair {
    async fn new() -> Self {
        let (home, eu) = (Site::new().await, Site::new().await);
        Self { home, eu }
    }

    fn variables(&self) -> [(&'static str, String); 4] {
        rows! {
            ("KNOWLEDGE_STORAGE__PARTITIONS", format!("eu={}", self.eu.url())),
            ("KNOWLEDGE_WEBHOOKS__ALLOW", "127.0.0.0/8".to_owned()),
            ("KNOWLEDGE_WEBHOOKS__ALLOW_HTTP", "true".to_owned()),
            ("KNOWLEDGE_RATE_LIMIT__REQUESTS", "0".to_owned()),
        }
    }

    fn serve(&self) -> Knowledge {
        let variables = self.variables();
        let variables = variables
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        Knowledge::serve_with(&self.home.data_dir, &variables)
    }

    fn args<'a>(&self, args: &[&'a str], flags: &'a [String; 2]) -> Vec<&'a str> {
        let flags = flags.iter().map(String::as_str);
        args.iter().copied().chain(flags).collect()
    }

    fn run(&self, args: &[&str]) -> Finished {
        let (variables, flags) = (self.variables(), self.home.flags());
        let variables = variables
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        knowledge_in(&variables, &self.args(args, &flags))
    }

    fn start(&self, args: &[&str]) -> Server {
        let (variables, flags) = (self.variables(), self.home.flags());
        let variables = variables
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        start_in(&variables, &self.args(args, &flags))
    }

    /// Kills a move to `eu` at the beginning of a step, unless it completes before.
    fn kill_move(&self, slug: &str, step: &str) {
        let running = self.start(&["org", "move", slug, "--to=eu"]);
        match running.error_or_end(step) {
            Some(_) => running.kill(),
            None => assert_eq!(running.ended(), 0),
        }
    }

    fn assert_verified(&self) {
        for partition in ["home", "eu"] {
            let verified = self.run(&["verify", "--partition", partition]);
            assert!(
                verified.stdout.contains(", 0 differences"),
                "{partition}: {verified:?}"
            );
        }
    }
}

async fn two_orgs(site: &Site) -> [OrgFixture; 2] {
    let seeded = fixture::seed_orgs(&site.open().await, 2).await.unwrap();
    seeded.orgs.try_into().expect("two organisations")
}

async fn list(url: &str, token: &str, workspace: &str) -> StatusCode {
    let path = format!("/v1/workspaces/{workspace}/webhooks");
    Call::new(Method::GET, path)
        .bearer(token)
        .send_to(url)
        .await
        .status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_reach_the_partition_of_their_organisation() {
    let pair = Pair::new().await;
    let [moved, stays] = two_orgs(&pair.home).await;
    let servers = [pair.serve(), pair.serve()];
    let slug = moved.slug.as_str();
    let unknown = pair.run(&["org", "move", slug, "--to=us"]).failed();
    unknown.assert_has("known partitions: home, eu");
    let done = pair.run(&["org", "move", slug, "--to=eu"]).ok().stdout;
    done.assert_begins(&format!("{slug} was moved from home to eu: "));

    // Both servers have cached nothing, or the old place.
    for server in &servers {
        let url = &server.base_url;
        for (org, other) in [(&moved, &stays), (&stays, &moved)] {
            let (token, own) = (&org.members.owner.token, org.main.id.to_string());
            assert_eq!(list(url, token, &own).await, 200);
            // Of another organisation, in another partition.
            assert_eq!(list(url, token, &other.main.id.to_string()).await, 404);
            let roles = |slug: &str| format!("/v1/orgs/{slug}/custom-roles");
            let session = &org.members.owner.session;
            let read = Call::new(Method::GET, roles(&org.slug)).session(session);
            assert_eq!(read.send_to(url).await.status, 200);
            let foreign = Call::new(Method::GET, roles(&other.slug)).session(session);
            assert_eq!(foreign.send_to(url).await.status, 404);
            let memory = other.main.memories.internal[0];
            let foreign = Call::new(Method::GET, format!("/v1/memories/{memory}")).bearer(token);
            assert_eq!(foreign.send_to(url).await.status, 404);
            let read = Call::new(Method::GET, "/auth/session").session(session);
            let read = read.send_to(url).await;
            assert_eq!(read.status, 200, "{read:?}");
            // A token with the organisation of another one is unknown in both partitions.
            let forged = token.replace(
                &org.id.0.simple().to_string(),
                &other.id.0.simple().to_string(),
            );
            assert_ne!(forged, *token);
            assert_eq!(list(url, &forged, &own).await, 401);
        }
    }

    // The operator's commands, too.
    let listed = pair.run(&["org", "list", "--output=json"]).ok().stdout;
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed.len(), 2, "{listed:?}");
    let org = format!("--org={slug}");
    let made = pair
        .run(&["token", "create", "--member=owner", &org])
        .ok()
        .stdout;
    let workspace = moved.main.id.to_string();
    assert_eq!(
        list(&servers[0].base_url, made.trim(), &workspace).await,
        200
    );
    let taken = pair.run(&["org", "create", slug]).failed();
    taken.assert_has("used by another organisation");
    pair.assert_verified();

    // A server that does not know the partition does not start.
    let lost = pair.home.run(&["serve", "--listen=127.0.0.1:0"]).failed();
    lost.assert_has("is in the partition \"eu\"");
    pair.run(&["org", "delete", slug, "--yes"]).ok();
    pair.run(&["org", "create", slug]).ok();
    assert_eq!(
        list(&servers[1].base_url, made.trim(), &workspace).await,
        401
    );
}

/// Results of the clients of an organisation.
#[derive(Default)]
struct Load {
    /// Requests that were answered by an error which a client repeats.
    held: AtomicUsize,
    /// Other errors.
    failed: AtomicUsize,
    is_over: AtomicBool,
}

/// Updates memories with a new key each until the load is over; returns the operation of each key.
async fn write(
    load: Arc<Load>,
    urls: Vec<String>,
    org: OrgFixture,
    client: usize,
) -> BTreeMap<String, String> {
    let mut operations = BTreeMap::new();
    let mut number = 0;
    while !load.is_over.load(Ordering::SeqCst) {
        let key = format!("client-{client}-{number}");
        let call = update(&key, &org);
        let answer = loop {
            let url = &urls[number % urls.len()];
            let answer = call.clone().send_to(url).await;
            match answer.status.as_u16() {
                200 => break answer,
                503 => {
                    assert!(answer.headers.contains_key("retry-after"), "{answer:?}");
                    load.held.fetch_add(1, Ordering::SeqCst);
                }
                _ => {
                    eprintln!("{answer:?}");
                    load.failed.fetch_add(1, Ordering::SeqCst);
                }
            }
            tokio::time::sleep(RETRY_DELAY).await;
        };
        let operation = answer.json()["operationId"].as_str().unwrap().to_owned();
        // The same request again, at another server.
        let again = call.clone().send_to(&urls[(number + 1) % urls.len()]).await;
        if again.status == 200 {
            assert_eq!(again.json()["operationId"], operation, "{key}");
        }
        operations.insert(key, operation);
        number += 1;
    }
    operations
}

fn update(key: &str, org: &OrgFixture) -> Call {
    let update = json!({
        "memoryIds": org.main.memories.internal[..MEMORIES],
        "audienceTag": format!("team:{key}"),
        "sensitivityLabel": "confidential",
    });
    Call::new(Method::PATCH, "/v1/memories/bulk")
        .bearer(&org.members.owner.token)
        .key(key)
        .json(&update)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn move_under_load_loses_nothing_and_holds_up_nobody_else() {
    let pair = Pair::new().await;
    let [moved, stays] = two_orgs(&pair.home).await;
    let servers = [pair.serve(), pair.serve()];
    let urls: Vec<_> = servers
        .iter()
        .map(|server| server.base_url.clone())
        .collect();
    let receiver = Receiver::taking().await;
    let new = json!({ "event_type": "memory.updated", "url": receiver.url() });
    let path = format!("/v1/workspaces/{}/webhooks", moved.main.id);
    let register = Call::new(Method::POST, path)
        .bearer(&moved.members.owner.token)
        .json(&new);
    let registered = register.send_to(&urls[0]).await;
    assert_eq!(registered.status, 201, "{registered:?}");

    let loads = [Arc::new(Load::default()), Arc::new(Load::default())];
    let clients = |load: &Arc<Load>, org: &OrgFixture| -> Vec<_> {
        let client = |client| write(Arc::clone(load), urls.clone(), org.clone(), client);
        (0..CLIENTS).map(client).map(tokio::spawn).collect()
    };
    let (moving, staying) = (clients(&loads[0], &moved), clients(&loads[1], &stays));

    // Moves are killed at several times, each resumed by the next.
    let slug = moved.slug.clone();
    let pair = Arc::new(pair);
    for mark in [
        "copying while",
        "holding its",
        "switching to",
        "removing it",
    ] {
        let (pair, slug) = (Arc::clone(&pair), slug.clone());
        let run = move || pair.kill_move(&slug, mark);
        let run = tokio::task::spawn_blocking(run);
        guarded(mark, run).await.unwrap();
    }
    for to in ["eu", "home", "eu"] {
        let (pair, slug) = (Arc::clone(&pair), slug.clone());
        let run = move || pair.run(&["org", "move", &slug, "--to", to]).ok();
        let run = tokio::task::spawn_blocking(run);
        guarded("a move", run).await.unwrap();
    }
    tokio::time::sleep(RETRY_DELAY).await;
    for load in &loads {
        load.is_over.store(true, Ordering::SeqCst);
    }
    let mut executed = Vec::new();
    for clients in [moving, staying] {
        let mut all = BTreeMap::new();
        for client in clients {
            all.extend(guarded("a client", client).await.unwrap());
        }
        executed.push(all);
    }
    let [of_moved, of_other] = &loads;
    assert_eq!(of_moved.failed.load(Ordering::SeqCst), 0);
    assert_eq!(of_other.failed.load(Ordering::SeqCst), 0);
    assert_eq!(
        of_other.held.load(Ordering::SeqCst),
        0,
        "the other organisation is served"
    );
    assert!(
        executed.iter().all(|operations| operations.len() > CLIENTS),
        "{executed:?}"
    );

    // Each event is delivered, from whichever partition.
    let wanted: BTreeSet<_> = executed[0].values().cloned().collect();
    receiver
        .receives_until("all events", |received| {
            let operation = |received: &Received| {
                let body = received.json();
                body["data"]["operation_id"].as_str().map(str::to_owned)
            };
            let operations: BTreeSet<_> = received.iter().filter_map(operation).collect();
            wanted.is_subset(&operations)
        })
        .await;
    drop(servers);
    assert_eq!(audited(&pair.eu, moved.id).await, executed[0]);
    assert_eq!(audited(&pair.home, stays.id).await, executed[1]);
    assert_eq!(audited(&pair.home, moved.id).await, BTreeMap::new());
    pair.assert_verified();
}
