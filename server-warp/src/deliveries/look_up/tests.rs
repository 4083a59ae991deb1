//! Tests of the resolver, with name servers whose responses the test controls.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Condvar;
use std::sync::mpsc;

use futures::FutureExt;

use super::*;

/// Time limit of a step that has to happen.
const GUARD: Duration = Duration::from_secs(60);
/// Maximum number of names that a resolver pool of these tests remembers.
const NAMES: usize = 8;
const ADDRESS: [IpAddr; 1] = [IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1))];

/// Name servers some of which hang.
#[derive(Default)]
struct NameServers {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    hanging: BTreeSet<String>,
    /// The names asked for, in order.
    asked: Vec<String>,
    blocked: usize,
    blocked_max: usize,
}

impl NameServers {
    fn hanging(names: &[&str]) -> Arc<Self> {
        let this = Arc::new(Self::default());
        this.state().hanging = names.iter().map(|&name| name.to_owned()).collect();
        this
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn asked(&self, name: &str) -> usize {
        let state = self.state();
        state.asked.iter().filter(|asked| *asked == name).count()
    }

    fn blocked(&self) -> usize {
        self.state().blocked
    }

    fn blocked_max(&self) -> usize {
        self.state().blocked_max
    }

    /// Makes the name server respond from now on, to pending queries as well.
    fn release(&self, name: &str) {
        self.state().hanging.remove(name);
        self.changed.notify_all();
    }

    fn hang(&self, name: &str) {
        self.state().hanging.insert(name.to_owned());
    }

    fn ask(&self, name: &str) -> Vec<IpAddr> {
        let mut state = self.state();
        state.asked.push(name.to_owned());
        state.blocked += 1;
        state.blocked_max = state.blocked_max.max(state.blocked);
        let mut state = self
            .changed
            .wait_while(state, |state| state.hanging.contains(name))
            .unwrap();
        state.blocked -= 1;
        ADDRESS.to_vec()
    }
}

/// A guard that ends the blocked threads with the test.
struct Release(Arc<NameServers>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.state().hanging.clear();
        self.0.changed.notify_all();
    }
}

/// Creates a resolver; a `patience` of `GUARD` makes no look-up late, zero each that has to wait.
fn desk(
    servers: &Arc<NameServers>,
    threads: usize,
    patience: Duration,
) -> (SystemResolver, Release) {
    let limits = Limits {
        threads,
        slow_threads: 1,
        names: NAMES,
        patience,
    };
    let asked = Arc::clone(servers);
    let look_up = SystemResolver::new(limits, move |name| Ok(asked.ask(name)));
    (look_up, Release(Arc::clone(servers)))
}

async fn guarded<T>(what: &str, future: impl Future<Output = T>) -> T {
    let in_time = tokio::time::timeout(GUARD, future).await;
    in_time.unwrap_or_else(|_| panic!("{what} does not happen"))
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    guarded(what, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// Starts a look-up and abandons it at once.
fn ask_and_leave(look_up: &SystemResolver, name: &str) {
    let answered = look_up.look_up(name).now_or_never();
    assert!(answered.is_none(), "{name}");
}

/// Completes a look-up that is late.
async fn make_slow(look_up: &SystemResolver, servers: &NameServers, name: &str) {
    servers.hang(name);
    ask_and_leave(look_up, name);
    let slow_threads = &look_up.0.slow_threads;
    until("the look-up is late", || {
        slow_threads.available_permits() == 0
    })
    .await;
    servers.release(name);
    until("the look-up ends", || is_slow(look_up, name)).await;
}

fn is_slow(look_up: &SystemResolver, name: &str) -> bool {
    matches!(look_up.0.names().get(name), Some(NameState::Slow { .. }))
}

async fn found(look_up: &SystemResolver, name: &str) {
    let found = guarded("an answer", look_up.look_up(name)).await;
    assert_eq!(found.unwrap(), ADDRESS, "{name}");
}

#[tokio::test]
async fn concurrent_look_ups_of_one_name_share_one_query() {
    let servers = NameServers::hanging(&["one.example"]);
    let (look_up, _release) = desk(&servers, 4, GUARD);
    let mut askers: Vec<_> = (0..10).map(|_| look_up.look_up("one.example")).collect();
    for asker in &mut askers {
        assert!(asker.now_or_never().is_none());
    }
    servers.release("one.example");
    for answer in guarded("all answers", futures::future::join_all(askers)).await {
        assert_eq!(answer.unwrap(), ADDRESS);
    }
    assert_eq!(servers.asked("one.example"), 1);
    // The look-up was in time, so nothing is remembered.
    assert!(look_up.0.names().is_empty());
    found(&look_up, "one.example").await;
    assert_eq!(servers.asked("one.example"), 2);
}

#[tokio::test]
async fn late_response_serves_next_look_up() {
    let servers = NameServers::hanging(&["one.example", "two.example"]);
    let (look_up, _release) = desk(&servers, 4, Duration::ZERO);
    // First during the look-up, ...
    ask_and_leave(&look_up, "one.example");
    let mut next = look_up.look_up("one.example");
    assert!((&mut next).now_or_never().is_none());
    servers.release("one.example");
    assert_eq!(guarded("an answer", next).await.unwrap(), ADDRESS);
    // ... then after its end.
    make_slow(&look_up, &servers, "two.example").await;
    found(&look_up, "two.example").await;
    assert_eq!(servers.asked("one.example"), 1);
    assert_eq!(servers.asked("two.example"), 1);
}

/// Some are known to be dead, one is found to be.
#[tokio::test]
async fn dead_names_leave_threads_to_other_names() {
    const DEAD: [&str; 4] = ["a.dead", "b.dead", "c.dead", "d.dead"];
    let servers = NameServers::hanging(&[]);
    let (look_up, _release) = desk(&servers, 2, Duration::ZERO);
    for name in DEAD {
        make_slow(&look_up, &servers, name).await;
        forget_answer(&look_up, name);
        servers.hang(name);
    }
    for _ in 0..3 {
        DEAD.iter().for_each(|name| ask_and_leave(&look_up, name));
    }
    until("one thread is taken", || servers.blocked() == 1).await;
    assert_eq!(look_up.0.threads.available_permits(), 2);
    found(&look_up, "live.example").await;
    assert_eq!(servers.blocked(), 1, "the dead ones wait for each other");
    // The dead names are still queried, one at a time, once for all pending look-ups.
    DEAD.iter().for_each(|name| servers.release(name));
    for name in DEAD {
        until("it is asked again", || servers.asked(name) == 2).await;
    }
}

#[tokio::test]
async fn late_look_up_frees_its_thread() {
    let servers = NameServers::hanging(&["new.dead"]);
    let (look_up, _release) = desk(&servers, 1, Duration::ZERO);
    ask_and_leave(&look_up, "new.dead");
    until("it hangs", || servers.blocked() == 1).await;
    found(&look_up, "live.example").await;
    assert_eq!(servers.blocked(), 1);
}

#[tokio::test]
async fn resolver_threads_are_bounded() {
    let names = ["a.dead", "b.dead", "c.dead", "d.dead", "e.dead"];
    let servers = NameServers::hanging(&names);
    // Two threads, and one more for late look-ups.
    let (look_up, _release) = desk(&servers, 2, Duration::ZERO);
    for name in names {
        ask_and_leave(&look_up, name);
    }
    until("three are asked", || servers.blocked() == 3).await;
    assert_eq!(look_up.0.threads.available_permits(), 0);
    assert_eq!(look_up.0.slow_threads.available_permits(), 0);
    names.iter().for_each(|name| servers.release(name));
    for name in names {
        found(&look_up, name).await;
    }
    assert_eq!(servers.blocked_max(), 3);
}

#[tokio::test]
async fn resolver_names_are_bounded_and_late_ones_evicted_first() {
    let servers = NameServers::hanging(&[]);
    let (look_up, _release) = desk(&servers, 1, Duration::ZERO);
    make_slow(&look_up, &servers, "first.example").await;
    make_slow(&look_up, &servers, "second.example").await;
    let dead: Vec<_> = (0..NAMES).map(|number| format!("{number}.dead")).collect();
    for name in &dead {
        servers.hang(name);
    }
    let slow = || ["first.example", "second.example"].map(|name| is_slow(&look_up, name));
    let [names @ .., second_last, last] = &dead[..] else {
        panic!("too few names");
    };
    for name in names {
        ask_and_leave(&look_up, name);
    }
    assert_eq!(slow(), [true, true]);
    ask_and_leave(&look_up, second_last);
    assert_eq!(slow(), [false, true]);
    ask_and_leave(&look_up, last);
    assert_eq!(slow(), [false, false]);
    let refused = look_up.look_up("live.example").now_or_never().unwrap();
    let refused = refused.unwrap_err().to_string();
    assert_eq!(refused, "too many names are being looked up");
}

/// A hanging look-up does not delay the end of the process.
#[test]
fn runtime_ends_while_a_look_up_hangs() {
    let servers = NameServers::hanging(&["one.dead"]);
    let (look_up, _release) = desk(&servers, 1, Duration::ZERO);
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
    };
    let first = runtime().unwrap();
    first.block_on(async {
        ask_and_leave(&look_up, "one.dead");
        until("it hangs", || servers.blocked() == 1).await;
    });
    let (ended, end) = mpsc::channel();
    thread::spawn(move || {
        drop(first);
        let _ = ended.send(());
    });
    end.recv_timeout(GUARD).expect("the runtime ends");
    assert_eq!(servers.blocked(), 1);
    // A look-up begun in that runtime does not serve another.
    servers.release("one.dead");
    runtime().unwrap().block_on(found(&look_up, "one.dead"));
    assert_eq!(servers.asked("one.dead"), 2);
}

#[tokio::test]
async fn failed_or_panicked_look_up_is_finished() {
    let limits = Limits {
        threads: 1,
        slow_threads: 1,
        names: NAMES,
        patience: GUARD,
    };
    let look_up = SystemResolver::new(limits, |name| match name {
        "panics.example" => panic!("as it was told"),
        _ => Err(io::Error::other("SERVFAIL")),
    });
    for _ in 0..2 {
        let failed = guarded("an answer", look_up.look_up("fails.example")).await;
        assert_eq!(failed.unwrap_err().to_string(), "SERVFAIL");
        let failed = guarded("an answer", look_up.look_up("panics.example")).await;
        let failed = failed.unwrap_err().to_string();
        assert_eq!(failed, "the look-up ended without an answer");
    }
}

/// Drops a name's late response, as if it had expired.
fn forget_answer(look_up: &SystemResolver, name: &str) {
    match look_up.0.names().get_mut(name) {
        Some(NameState::Slow { addresses, .. }) => *addresses = None,
        _ => panic!("{name} is not slow"),
    }
}
