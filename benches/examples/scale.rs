//! Measurements of a store with many memories.
//!
//! ```text
//! cargo run --release -p knowledge-benches --example scale -- load fjall:DIR 1000000
//! cargo run --release -p knowledge-benches --example scale -- open fjall:DIR
//! ```
//!
//! `load` fills a new store (`fjall:`, `sled:` or `redb:`) with the records of that many memories
//! of 300 bytes, in consecutive durable commits. `open` measures a store filled in this way. The
//! last argument of both sets the cache size in MiB. Both print Markdown; times are in
//! milliseconds, and the processor time is that of all threads.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use knowledge_benches::{RedbOptions, RedbStore, Template};
use knowledge_core::store::{Commit, CommitOutcome, Direction, Key, KeyRange, Store, StoreExt};
use knowledge_storage_embedded::{CACHE_BYTES_DEFAULT, Embedded};
use knowledge_storage_fjall::{FjallOptions, FjallStore};
use knowledge_storage_sled::{SledOptions, SledStore};

/// Number of memories per copy of the template.
const TEMPLATE_MEMORIES: usize = 1_000;
/// Number of entries of one commit of the load.
const PART_ENTRIES: usize = 4_096;
/// Number of rounds of a measurement of many entries; the median is printed.
const ROUNDS: usize = 40;
/// Number of point reads.
const GETS: usize = 100_000;
/// Number of memories of a bulk read or change.
const BULK_MEMORIES: usize = 1_000;
/// Number of entries of a scan.
const SCAN_ENTRIES: usize = 10_000;
/// Number of newest memories, which get most reads of a service.
const NEWEST_MEMORIES: usize = 10_000;
/// Pause after which the store is idle.
const REST: Duration = Duration::from_secs(10);

const USAGE: &str =
    "usage: scale load ENGINE:DIR MEMORIES [CACHE_MIB] | open ENGINE:DIR [CACHE_MIB]";

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| -> usize { text.parse().expect(USAGE) };
    let cache =
        |text: Option<&&str>| text.map_or(CACHE_BYTES_DEFAULT, |mib| (number(mib) as u64) << 20);
    match &*arguments {
        ["load", address, memories, rest @ ..] => {
            load(address, number(memories), cache(rest.first())).await;
        }
        ["open", address, rest @ ..] => measure(address, cache(rest.first())).await,
        _ => panic!("{USAGE}"),
    }
}

fn directory(address: &str) -> &Path {
    Path::new(address.split_once(':').expect(USAGE).1)
}

fn open(address: &str, cache_bytes: u64) -> Arc<dyn Embedded> {
    let path = directory(address);
    // Disable the check after an unclean close: it would be measured too.
    macro_rules! open {
        ($store:ident, $options:ident) => {{
            let options = $options::default().cache_bytes(cache_bytes);
            let options = options.verify_entries(false);
            Arc::new($store::open(path, options).expect("the store opens"))
        }};
    }
    match address.split_once(':') {
        Some(("fjall", _)) => open!(FjallStore, FjallOptions),
        Some(("sled", _)) => open!(SledStore, SledOptions),
        Some(("redb", _)) => open!(RedbStore, RedbOptions),
        _ => panic!("{USAGE}"),
    }
}

async fn load(address: &str, memories: usize, cache_bytes: u64) {
    assert_eq!(
        memories % TEMPLATE_MEMORIES,
        0,
        "MEMORIES must be a multiple of 1,000"
    );
    let template = Template::new(TEMPLATE_MEMORIES).await;
    let store = open(address, cache_bytes);
    let mut random = fastrand::Rng::with_seed(1);
    let (start, cpu) = (Instant::now(), cpu_time());
    let mut bytes = 0;
    for number in 0..memories / TEMPLATE_MEMORIES {
        let entries: Vec<_> = template.copy(number as u64, &mut random).collect();
        for part in entries.chunks(PART_ENTRIES) {
            let mut commit = Commit::builder();
            for (key, value) in part {
                bytes += key.as_bytes().len() + value.len();
                commit = commit.put(key.clone(), value.clone());
            }
            run(&*store, commit.build().expect("a part fits into a commit")).await;
        }
        let loaded = (number + 1) * TEMPLATE_MEMORIES;
        if loaded.is_multiple_of(500_000) {
            let (seconds, rss) = (start.elapsed().as_secs(), memory_mb("VmRSS"));
            eprintln!("{loaded} memories after {seconds} s, RSS {rss} MB");
        }
    }
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_time() - cpu);
    let peak = memory_mb("VmHWM");
    let closing = Instant::now();
    drop(store.close().expect("the store closes"));
    let rows = [
        ("loaded, memories/s", memories as f64 / seconds),
        ("processor time, s", cpu.as_secs_f64()),
        ("peak RSS, MB", peak as f64),
        ("closing, ms", millis(closing.elapsed())),
        ("keys and values, B per memory", (bytes / memories) as f64),
        (
            "on disk after closing, B per memory",
            (disk_bytes(directory(address)) / memories as u64) as f64,
        ),
    ];
    println!("| {address}, {memories} memories | |\n| --- | ---: |");
    for (name, value) in rows {
        println!("| {name} | {value:.0} |");
    }
}

async fn run(store: &dyn Store, commit: Commit) {
    let outcome = store.commit(commit).await.expect("the store works");
    assert!(matches!(outcome, CommitOutcome::Committed(_)));
}

async fn measure(address: &str, cache_bytes: u64) {
    let template = Template::new(TEMPLATE_MEMORIES).await;
    let (start, cpu) = (Instant::now(), cpu_time());
    let store = open(address, cache_bytes);
    let (opening, opening_cpu) = (start.elapsed(), cpu_time() - cpu);
    let copies = store.stats().entries as usize / template.entries();
    let memories = copies * TEMPLATE_MEMORIES;
    let enough = memories >= SCAN_ENTRIES.max(NEWEST_MEMORIES);
    assert!(
        enough,
        "the store must have at least 10,000 memories from `load`"
    );
    println!("| {address}, {memories} memories, ms | median | least | processor time |");
    println!("| --- | ---: | ---: | ---: |");
    print_row("open", &mut [opening], opening_cpu);
    println!("| RSS after opening, MB | {} | | |", memory_mb("VmRSS"));

    let mut bench = Bench {
        store: &*store,
        template: &template,
        memories,
        random: fastrand::Rng::with_seed(2),
    };
    bench.measure_gets().await;
    println!("| RSS after {GETS} gets, MB | {} | | |", memory_mb("VmRSS"));
    for newest in [memories, NEWEST_MEMORIES] {
        bench.measure_bulk_gets(newest).await;
    }
    bench.measure_scans().await;
    for newest in [memories, NEWEST_MEMORIES] {
        bench.measure_changes(newest).await;
    }
    tokio::time::sleep(REST).await;
    println!("| RSS at rest, MB | {} | | |", memory_mb("VmRSS"));
    println!("| highest RSS, MB | {} | | |", memory_mb("VmHWM"));
    let closing = Instant::now();
    drop(store.close().expect("the store closes"));
    print_row("close", &mut [closing.elapsed()], Duration::ZERO);
    let bytes = disk_bytes(directory(address)) / memories as u64;
    println!("| on disk, B per memory | {bytes} | | |");
}

/// Measurements of an open store.
struct Bench<'b> {
    store: &'b dyn Store,
    template: &'b Template,
    memories: usize,
    random: fastrand::Rng,
}

impl Bench<'_> {
    /// Chooses some of the newest memories, in random order.
    fn choose(&mut self, count: usize, newest: usize) -> Vec<Key> {
        let chosen = self.random.choose_multiple(0..newest, count);
        let number = |age| self.memories - 1 - age;
        let key = |age| self.template.memory_key(number(age));
        chosen.into_iter().map(key).collect()
    }

    async fn measure_gets(&mut self) {
        let mut keys = Vec::with_capacity(GETS);
        keys.extend((0..GETS).map(|_| {
            let number = self.random.usize(..self.memories);
            self.template.memory_key(number)
        }));
        let (mut times, cpu) = (Vec::with_capacity(GETS), cpu_time());
        for key in keys {
            let start = Instant::now();
            let found = self.store.get(&[key]).await.expect("the store works");
            times.push(start.elapsed());
            assert!(found[0].is_some(), "every memory is stored");
        }
        print_row("get of a random memory", &mut times, cpu_time() - cpu);
    }

    async fn measure_bulk_gets(&mut self, newest: usize) {
        let (mut times, mut cpu) = (Vec::new(), Duration::ZERO);
        for _ in 0..ROUNDS {
            let keys = self.choose(BULK_MEMORIES, newest);
            let (start, began) = (Instant::now(), cpu_time());
            let found = self.store.get(&keys).await.expect("the store works");
            times.push(start.elapsed());
            cpu += cpu_time() - began;
            assert!(found.iter().all(Option::is_some), "every memory is stored");
        }
        let name = format!("get of {BULK_MEMORIES} of the newest {newest}");
        print_row(&name, &mut times, cpu);
    }

    async fn measure_scans(&mut self) {
        let (mut times, mut cpu) = (Vec::new(), Duration::ZERO);
        for _ in 0..ROUNDS {
            let first = self.random.usize(..=self.memories - SCAN_ENTRIES);
            let range = KeyRange {
                start: self.template.memory_key(first),
                end: None,
            };
            let (start, began) = (Instant::now(), cpu_time());
            let found = self.store.scan(&range, SCAN_ENTRIES, Direction::Forward);
            let found = found.await.expect("the store works");
            times.push(start.elapsed());
            cpu += cpu_time() - began;
            assert_eq!(found.len(), SCAN_ENTRIES);
            assert_eq!(found[0].key, range.start);
        }
        let name = format!("scan of {SCAN_ENTRIES}");
        print_row(&name, &mut times, cpu);
    }

    /// Reads memories and commits them again, with checks of the versions read.
    async fn measure_changes(&mut self, newest: usize) {
        let (mut times, mut cpu) = (Vec::new(), Duration::ZERO);
        for _ in 0..ROUNDS {
            let keys = self.choose(BULK_MEMORIES, newest);
            let (start, began) = (Instant::now(), cpu_time());
            let found = self.store.get(&keys).await.expect("the store works");
            let mut commit = Commit::builder();
            for (key, entry) in keys.into_iter().zip(found) {
                let entry = entry.expect("every memory is stored");
                commit = commit
                    .check(key.clone(), Some(entry.version))
                    .put(key, entry.value);
            }
            run(
                self.store,
                commit.build().expect("the records fit into a commit"),
            )
            .await;
            times.push(start.elapsed());
            cpu += cpu_time() - began;
        }
        let name = format!("change of {BULK_MEMORIES} of the newest {newest}");
        print_row(&name, &mut times, cpu);
    }
}

/// Prints the times of one measurement, and the processor time of the process per round.
fn print_row(name: &str, times: &mut [Duration], cpu: Duration) {
    times.sort_unstable();
    let (median, least) = (millis(times[times.len() / 2]), millis(times[0]));
    let cpu = millis(cpu) / times.len() as f64;
    println!("| {name} | {median:.3} | {least:.3} | {cpu:.3} |");
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns the processor time of all threads of this process.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns a size of `/proc/self/status` in MB; 0 if it is not available.
fn memory_mb(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field));
    let size = line.and_then(|line| line.split_whitespace().nth(1));
    size.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1_024 / 1_000_000
}

/// Returns the disk space of a directory, as `du` counts it.
fn disk_bytes(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;

    let entries = std::fs::read_dir(path).expect("the directory can be read");
    let bytes = entries.map(|entry| {
        let entry = entry.expect("the directory can be read");
        let metadata = entry.metadata().expect("the file is there");
        if metadata.is_dir() {
            disk_bytes(&entry.path())
        } else {
            metadata.blocks() * 512
        }
    });
    bytes.sum()
}
