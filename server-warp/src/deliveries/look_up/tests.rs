//! With a look-up that answers when the test says so.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Condvar;
use std::sync::mpsc;

use futures::FutureExt;

use super::*;

/// For what has to happen at some time.
const GUARD: Duration = Duration::from_secs(60);
/// How many names a desk of these tests knows.
const NAMES: usize = 8;
const ADDRESS: [IpAddr; 1] = [IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1))];

/// Name servers of which some hang.
#[derive(Default)]
struct NameServers {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    hanging: BTreeSet<String>,
    /// What was asked, in its order.
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

    /// Has it answer from here on, also those who ask already.
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

/// Threads end with the test.
struct Release(Arc<NameServers>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.state().hanging.clear();
        self.0.changed.notify_all();
    }
}

/// `patience`: nothing is late that ends at all, or whatever does not end at once.
fn desk(servers: &Arc<NameServers>, threads: usize, patience: Duration) -> (SystemLookUp, Release) {
    let limits = Limits {
        threads,
        slow_threads: 1,
        names: NAMES,
        patience,
    };
    let asked = Arc::clone(servers);
    let look_up = SystemLookUp::asking(limits, move |name| Ok(asked.ask(name)));
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

/// Asks, and gives up at once.
fn ask_and_leave(look_up: &SystemLookUp, name: &str) {
    let answered = look_up.look_up(name).now_or_never();
    assert!(answered.is_none(), "{name}");
}

/// Looks a name up, late, and to the end.
async fn make_slow(look_up: &SystemLookUp, servers: &NameServers, name: &str) {
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

fn is_slow(look_up: &SystemLookUp, name: &str) -> bool {
    matches!(look_up.0.names().get(name), Some(Known::Slow { .. }))
}

async fn found(look_up: &SystemLookUp, name: &str) {
    let found = guarded("an answer", look_up.look_up(name)).await;
    assert_eq!(found.unwrap(), ADDRESS, "{name}");
}

#[tokio::test]
async fn who_asks_for_the_same_name_shares_one_look_up() {
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
    // It was in time: nothing is kept of it.
    assert!(look_up.0.names().is_empty());
    found(&look_up, "one.example").await;
    assert_eq!(servers.asked("one.example"), 2);
}

#[tokio::test]
async fn an_answer_that_came_late_is_for_who_asks_next() {
    let servers = NameServers::hanging(&["one.example", "two.example"]);
    let (look_up, _release) = desk(&servers, 4, Duration::ZERO);
    // While it is under way, ...
    ask_and_leave(&look_up, "one.example");
    let mut next = look_up.look_up("one.example");
    assert!((&mut next).now_or_never().is_none());
    servers.release("one.example");
    assert_eq!(guarded("an answer", next).await.unwrap(), ADDRESS);
    // ... and after it has ended.
    make_slow(&look_up, &servers, "two.example").await;
    found(&look_up, "two.example").await;
    assert_eq!(servers.asked("one.example"), 1);
    assert_eq!(servers.asked("two.example"), 1);
}

/// Those that are dead already, and one that is found to be.
#[tokio::test]
async fn dead_names_leave_room_for_the_others() {
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
    // One after the other they are asked all the same, and only once for all who asked meanwhile.
    DEAD.iter().for_each(|name| servers.release(name));
    for name in DEAD {
        until("it is asked again", || servers.asked(name) == 2).await;
    }
}

#[tokio::test]
async fn a_look_up_that_is_late_gives_its_place_to_another() {
    let servers = NameServers::hanging(&["new.dead"]);
    let (look_up, _release) = desk(&servers, 1, Duration::ZERO);
    ask_and_leave(&look_up, "new.dead");
    until("it hangs", || servers.blocked() == 1).await;
    found(&look_up, "live.example").await;
    assert_eq!(servers.blocked(), 1);
}

#[tokio::test]
async fn threads_are_bounded() {
    let names = ["a.dead", "b.dead", "c.dead", "d.dead", "e.dead"];
    let servers = NameServers::hanging(&names);
    // Two of them, and one to which what is late moves.
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
async fn names_are_bounded_and_the_slow_ones_forgotten_first() {
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

/// Nobody waits for a look-up that hangs when the process is to end.
#[test]
fn a_runtime_ends_while_a_look_up_hangs() {
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
    // What had begun in that runtime is no answer for another.
    servers.release("one.dead");
    runtime().unwrap().block_on(found(&look_up, "one.dead"));
    assert_eq!(servers.asked("one.dead"), 2);
}

#[tokio::test]
async fn a_look_up_that_fails_or_panics_is_over() {
    let limits = Limits {
        threads: 1,
        slow_threads: 1,
        names: NAMES,
        patience: GUARD,
    };
    let look_up = SystemLookUp::asking(limits, |name| match name {
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

/// As if its late answer had come long ago.
fn forget_answer(look_up: &SystemLookUp, name: &str) {
    match look_up.0.names().get_mut(name) {
        Some(Known::Slow { addresses, .. }) => *addresses = None,
        _ => panic!("{name} is not slow"),
    }
}
