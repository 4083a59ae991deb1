//! Measurements of searches by words, of the service alone over fjall and of PostgreSQL.
//!
//! ```text
//! KNOWLEDGE_TEST_POSTGRES=/usr/lib/postgresql/15/bin \
//!     cargo run --profile bench -p knowledge-benches --example search -- 50000 1000000
//! ```
//!
//! For each number it fills a new store, in the directory for temporary files, with that many
//! approved memories of 300 bytes: words of 200,000 by Zipf's law, three sensitivities, and
//! audiences that cover the caller for sixty of a hundred. It prints a section of
//! `benches/RESULTS.md`, of which `cargo xtask bench --row search` replaces that part.
//!
//! The reference is PostgreSQL with the same memories, questions and rights: see `postgres.rs`. It
//! is left out unless the variable names the directory of its programs.

mod clients;
mod postgres;
mod words;

use std::sync::Arc;
use std::time::{Duration, Instant};

use knowledge_benches::Tenant;
use knowledge_core::Error;
use knowledge_core::model::{
    BulkUpdate, MemoryChange, MemoryId, RecallSearch, ReviewStatus, SensitivityLabel,
};
use knowledge_core::service::NewMemory;
use knowledge_storage_fjall::{FjallOptions, FjallStore};
use mimalloc::MiMalloc;

use self::clients::{Side, Times, answers};
use self::postgres::{Match, Queries, Reference};
use self::words::{Question, WORDS, Zipf};

/// Allocator of the measurements: that of the server.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const NOTES: &str = "\
## Searches by words

By `cargo xtask bench --row search`, which is a part of `cargo xtask bench`. The service alone, over
fjall, with approved memories of 300 bytes: words of 200,000 by Zipf's law, and labels that let the
caller read sixty of a hundred. Times are in milliseconds. A search reads the texts of its ten
results, and registers no recall unless the row says so.

The reference is PostgreSQL's full-text search under row-level security, with the same memories,
questions and rights, and settings that make it faster (`benches/examples/search/postgres.rs`). `any`
finds the memories with any word of a question, as the service does, and `all` those with all words,
which are far fewer. The service is called in the process, PostgreSQL over a Unix socket: the rows of
a word that no memory has show what a search takes at least. The ratio is the rate of the service,
with as many clients, divided by that of the row. Each row has 1,000 searches, or those of a minute.
The resident memory of the build contains the caches of the store, which it fills.
";

/// Number of memories of a part of the load, and of a bulk update.
const PART: usize = 1_000;
/// Number of memories of a part of the load that the caller may not read.
const HIDDEN: usize = PART * 2 / 5;
/// Number of teams that hidden memories are for.
const TEAMS: usize = 100;
/// Number of searches of a row.
const SEARCHES: usize = 1_000;
/// Maximum number of memories that a search returns.
const LIMIT: u32 = 10;
/// The same for the searches whose answers are compared: the maximum of the service.
const COMPARED_LIMIT: u32 = 50;
/// Number of searches whose answers are compared.
const COMPARED: usize = 100;
/// Numbers of clients that search at the same time.
const CLIENTS: [usize; 2] = [1, 2];
/// Number of bulk updates after each of which a search follows.
const UPDATES: usize = 20;

/// Searches of the service.
struct Service<'t> {
    tenant: &'t Tenant,
    limit: u32,
    /// True to register recalls.
    record: bool,
}

impl Side for Service<'_> {
    type Connection = ();

    async fn connect(&self) {}

    async fn search(&self, (): &(), question: &Question) -> Vec<u128> {
        let found = self.ids(&question.join(" ")).await;
        found.expect("the index is built")
    }
}

impl Service<'_> {
    /// Returns the identifiers of the memories that answer a question.
    ///
    /// # Errors
    /// Those of the service, among them that the index is being built.
    async fn ids(&self, query: &str) -> Result<Vec<u128>, Error> {
        let (service, owner) = (&self.tenant.seed.service, &self.tenant.seed.owner);
        let search = RecallSearch::builder().query(query).record(self.record);
        let search = search.limit(u64::from(self.limit)).build();
        let recalls = service.recalls();
        let found = recalls
            .search(owner, self.tenant.workspace, &search)
            .await?;
        let ids = found
            .results
            .iter()
            .map(|memory| memory.memory_id.0.as_u128());
        Ok(ids.collect())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    print!("{NOTES}");
    for number in std::env::args().skip(1) {
        let memories = number.parse().expect("usage: search MEMORIES...");
        assert!(memories >= 2 * PART, "too few memories for bulk updates");
        measure(memories).await;
    }
}

/// Condition on a row.
#[derive(Clone, Copy)]
enum Target {
    /// The median is at most so many milliseconds.
    Median(f64),
    /// The 99th percentile is at most so many milliseconds.
    Last(f64),
    /// The service is at least so many times faster.
    Ratio(f64),
    None,
}

impl Target {
    /// Returns the target of the median of three words.
    fn of_three_words(memories: usize) -> Self {
        Self::Median(if memories > 50_000 { 2.0 } else { 0.3 })
    }

    /// Returns the target as text, and as text whether it holds.
    fn decide(self, median: f64, last: f64, ratio: Option<f64>) -> (String, &'static str) {
        let (text, holds) = match self {
            Self::Median(max) => (format!("median at most {max}"), median <= max),
            Self::Last(max) => (format!("99 % at most {max}"), last <= max),
            Self::Ratio(min) => (
                format!("ratio at least {min}"),
                ratio.is_some_and(|ratio| ratio >= min),
            ),
            Self::None => ("none".to_owned(), true),
        };
        (text, if holds { "yes" } else { "no" })
    }
}

/// Prints the median and the 99th percentile of some times, the rate, what that of the service is
/// divided by it, and whether the target holds.
fn print_row(
    name: &str,
    times: &mut [Duration],
    (per_second, ratio): (Option<f64>, Option<f64>),
    target: Target,
) {
    times.sort_unstable();
    let millis = |part: usize| times[times.len() * part / 100].as_secs_f64() * 1e3;
    let (median, last) = (millis(50), millis(99));
    let (target, holds) = target.decide(median, last, ratio);
    let rate = per_second.map_or("–".to_owned(), |rate| format!("{rate:.1}"));
    let ratio = ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}"));
    println!("| {name} | {median:.3} | {last:.3} | {rate} | {ratio} | {target} | {holds} |");
}

/// Adds memories, also to the reference, and returns those that the caller may read.
async fn fill(
    tenant: &Tenant,
    reference: Option<&Reference>,
    memories: usize,
    words: &mut Zipf,
) -> Vec<MemoryId> {
    let mut ids = Vec::with_capacity(memories);
    for part in 0..memories / PART {
        let numbers = part * PART..(part + 1) * PART;
        let new: Vec<NewMemory> = numbers.map(|number| words.memory(number)).collect();
        let added = tenant.ingest(new.clone()).await;
        let approved = MemoryChange::builder().review_status(ReviewStatus::Approved);
        update(tenant, &format!("approve-{part}"), &added, approved.build()).await;
        let team = format!("team:t{}", part % TEAMS);
        let hidden = MemoryChange::builder().audience_tag(team.parse().expect("a label"));
        let (hidden_ids, shown) = added.split_at(HIDDEN);
        update(tenant, &format!("hide-{part}"), hidden_ids, hidden.build()).await;
        if let Some(reference) = reference {
            reference.add(&new, &added, HIDDEN, &team).await;
        }
        ids.extend(shown);
    }
    ids
}

async fn update(tenant: &Tenant, key: &str, ids: &[MemoryId], change: MemoryChange) {
    let (service, owner) = (&tenant.seed.service, &tenant.seed.owner);
    let update = BulkUpdate::builder().memory_ids(ids.to_vec());
    let update = update.change(change).build();
    let key = key.parse().expect("a key");
    let updated = service.memories().bulk_update(owner, &key, &update).await;
    updated.expect("the update is processed");
}

async fn measure(memories: usize) {
    let directory = tempfile::tempdir().expect("a directory can be created");
    let store = FjallStore::open(directory.path(), FjallOptions::default()).expect("a store opens");
    let tenant = Tenant::fill(Arc::new(store), 0).await;
    let reference = Reference::start().await;
    let reference = reference.as_ref();
    let mut words = Zipf::new();
    let ids = fill(&tenant, reference, memories, &mut words).await;
    if let Some(reference) = reference {
        reference.complete(ids.len()).await;
        println!(
            "\nWith {memories} memories, beside {}:",
            reference.version()
        );
    }
    println!("\n| row | median | 99 % | per second | ratio | target | holds |");
    println!("| --- | ---: | ---: | ---: | ---: | --- | --- |");
    let service = Service {
        tenant: &tenant,
        limit: LIMIT,
        record: false,
    };
    measure_build(&service, memories).await;
    if let Some(reference) = reference {
        compare_answers(&tenant, reference, &words.rare_questions(COMPARED)).await;
    }
    let unknown = vec![vec![format!("w{WORDS}")]; SEARCHES];
    let three = words.questions(SEARCHES, 0);
    let eight = words.questions(SEARCHES, 5);
    let name = "a word of no memory";
    measure_questions(name, &service, reference, &unknown, [Target::None; 2]);
    let targets = [Target::of_three_words(memories), Target::Ratio(5.0)];
    let rate = measure_questions("three words", &service, reference, &three, targets);
    let name = "five stop words and three words";
    let targets = [Target::Last(15.0), Target::Ratio(5.0)];
    measure_questions(name, &service, reference, &eight, targets);
    if let Some(reference) = reference {
        reference.unmark().await;
        let times = clients::measure(&queries(reference, Match::Any, LIMIT), 1, &three);
        let name = "three words, PostgreSQL, any, not leakproof";
        print_times(name, times, Some(rate), Target::None);
    }
    let recording = Service {
        record: true,
        ..service
    };
    let times = clients::measure(&recording, 1, &three);
    print_times("three words, with the recall", times, None, Target::None);
    measure_updates(&service, &ids).await;
}

/// Measures the build of the index, which the first searches ask for, and the memory that it takes.
async fn measure_build(service: &Service<'_>, memories: usize) {
    let (before, start) = (resident_bytes(), Instant::now());
    while service.ids("w1").await.is_err() {}
    let (time, target) = (start.elapsed(), Target::Median(15_000.0));
    print_row("build of the index", &mut [time], (None, None), target);
    let grown = resident_bytes().saturating_sub(before) as f64 / memories as f64;
    let holds = if grown <= 200.0 { "yes" } else { "no" };
    println!(
        "| resident memory of the build, bytes a memory | {grown:.0} | – | – | – | at most 200 | {holds} |"
    );
}

/// Returns the size of the process in memory; 0 if the system does not report it.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Measures both sides with each number of clients, and returns the rate of the service with one.
///
/// The targets are those of the service and of what finds the same memories.
fn measure_questions(
    name: &str,
    service: &Service<'_>,
    reference: Option<&Reference>,
    questions: &[Question],
    [target, ratio]: [Target; 2],
) -> f64 {
    let mut rates = Vec::new();
    for clients in CLIENTS {
        let name = match clients {
            1 => name.to_owned(),
            _ => format!("{name}, {clients} clients"),
        };
        let times = clients::measure(service, clients, questions);
        let rate = times.per_second;
        rates.push(rate);
        print_times(&name, times, None, target);
        let Some(reference) = reference else {
            continue;
        };
        for (words, text, target) in [
            (Match::Any, "any", ratio),
            (Match::All, "all", Target::None),
        ] {
            let queries = queries(reference, words, LIMIT);
            let times = clients::measure(&queries, clients, questions);
            let name = format!("{name}, PostgreSQL, {text}");
            print_times(&name, times, Some(rate), target);
        }
    }
    rates[0]
}

/// Prints some searches; for those of the reference, with the rate of the service.
fn print_times(name: &str, mut times: Times, service_rate: Option<f64>, target: Target) {
    let rate = times.per_second;
    let ratio = service_rate.map(|service| service / rate);
    print_row(name, &mut times.each, (Some(rate), ratio), target);
}

fn queries(reference: &Reference, words: Match, limit: u32) -> Queries<'_> {
    Queries {
        reference,
        words,
        limit: i64::from(limit),
    }
}

/// Asserts that both sides find the same memories, as long as these are not too many.
async fn compare_answers(tenant: &Tenant, reference: &Reference, questions: &[Question]) {
    let (limit, record) = (COMPARED_LIMIT, false);
    let service = Service {
        tenant,
        limit,
        record,
    };
    let ours = answers(&service, questions).await;
    let queries = queries(reference, Match::Any, limit);
    let theirs = answers(&queries, questions).await;
    for ((mut ours, mut theirs), question) in ours.into_iter().zip(theirs).zip(questions) {
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours.len(), theirs.len(), "{question:?}");
        assert!(
            ours.len() == limit as usize || ours == theirs,
            "{question:?}"
        );
    }
}

/// Measures the first search after each of some bulk updates.
async fn measure_updates(service: &Service<'_>, ids: &[MemoryId]) {
    let mut times = Vec::new();
    for number in 0..UPDATES {
        let labels = [SensitivityLabel::Public, SensitivityLabel::Internal];
        let change = MemoryChange::builder().sensitivity_label(labels[number % 2]);
        let first = number * PART % (ids.len() - PART + 1);
        let part = &ids[first..first + PART];
        update(
            service.tenant,
            &format!("relabel-{number}"),
            part,
            change.build(),
        )
        .await;
        let start = Instant::now();
        service.ids("w100000").await.expect("the index follows");
        times.push(start.elapsed());
    }
    let name = "search after a bulk update of 1,000";
    print_row(name, &mut times, (None, None), Target::Median(5.0));
}
