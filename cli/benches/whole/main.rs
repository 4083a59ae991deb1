//! Whole requests to the real binary over the loopback interface, each beside its reference:
//! `cargo xtask bench`.
//!
//! The server serves a store of each engine. The reference is a process of its own, with a copy of
//! the files of that store: warp sends the recorded bytes of the same responses, and the bare
//! engine reads and writes the recorded keys and values of the same operations. Measurements of
//! both alternate. Every response is checked; figures are compared with targets, not asserted.
//!
//! Without `--bench` it makes one short round. Options of a measurement:
//!
//! - `--out DIRECTORY` writes `summary.json` there, with the rows of `deliveries.json`.
//! - `--results FILE` writes the same as a table.
//! - `--row ROW` measures only this row (repeatable).
//! - `--peer PROCESS@ADDRESS@DIRECTORY` measures the row `peers` too, against the peer with this
//!   address, and with the socket of its PostgreSQL server in this directory.
//! - `--node PROGRAM` measures the row `wasm` too, in this Node.js.
//! - `--native PROGRAM` is its reference, the compiled benchmark `service` of `knowledge-benches`;
//!   with it, the row `service` is measured too.
//! - `--memories N` fills the largest store with so many memories, instead of ten million.
//! - `--wait SECONDS` limits the wait for an idle machine before each row.

use std::path::PathBuf;
use std::time::Duration;

use self::peers::{Peer, Shared};
use self::report::Row;
use self::rows::{Bench, ROWS, RowKind};
use self::scale::{FULL, FULL_SIZE, SHORT, SHORT_SIZE, Size};
use self::spec::Engine;

mod bare;
mod calls;
#[path = "../support/database.rs"]
mod database;
#[path = "../../tests/support/knowledge.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod knowledge;
mod load;
#[path = "../support/machine.rs"]
mod machine;
mod module;
mod peers;
mod pressure;
#[path = "../support/process.rs"]
#[allow(dead_code, reason = "shared with another benchmark")]
mod process;
mod raw;
mod recorder;
#[path = "../support/report.rs"]
mod report;
mod results;
mod rows;
mod scale;
mod site;
mod size;
mod spec;
mod stored;

/// Row that another benchmark measures.
const DELIVERIES: &str = "deliveries";
/// Part of the processors that other programs may use while a row is measured on an idle machine.
///
/// The work of the kernel for no process, such as that of the loopback interface, is a part of it.
const OTHERS_MAX: f64 = 0.15;
/// Default limit of the wait for an idle machine.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);

/// Options of a measurement.
#[derive(Debug, Default)]
struct Options {
    is_full: bool,
    out: Option<PathBuf>,
    peer: Option<Peer>,
    node: Option<PathBuf>,
    native: Option<PathBuf>,
    results: Option<PathBuf>,
    rows: Vec<String>,
    memories: Option<usize>,
    wait: Option<Duration>,
}

impl Options {
    /// Reads the arguments; those that cargo adds and those of other benchmarks have no effect.
    fn read(arguments: &[String]) -> Self {
        let mut options = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().expect("the option has a value");
            match &**argument {
                "--bench" => options.is_full = true,
                "--out" => options.out = Some(value().into()),
                "--peer" => options.peer = Some(Peer::read(value())),
                "--node" => options.node = Some(value().into()),
                "--native" => options.native = Some(value().into()),
                "--results" => options.results = Some(value().into()),
                "--row" => options.rows.push(value().clone()),
                "--memories" => options.memories = Some(value().parse().expect("a number")),
                "--wait" => {
                    let seconds = value().parse().expect("a number of seconds");
                    options.wait = Some(Duration::from_secs(seconds));
                }
                _ => {}
            }
        }
        for row in &options.rows {
            assert!(
                row == DELIVERIES
                    || size::ROWS.contains(&&**row)
                    || module::ROWS.contains(&&**row)
                    || ROWS.iter().any(|known| known.name == row),
                "no row {row}; there are {:?}, {:?}, {:?} and {DELIVERIES}",
                ROWS.map(|known| known.name),
                size::ROWS,
                module::ROWS
            );
        }
        let (peer, node) = (options.peer.is_some(), options.node.is_some());
        let native = node && options.native.is_some();
        for (row, has_options, needed) in [
            (peers::NAME, peer, "--peer PROCESS@ADDRESS@DIRECTORY"),
            (module::WASM, node, "--node PROGRAM"),
            (module::SERVICE, native, "--node and --native PROGRAM"),
        ] {
            let is_named = options.rows.iter().any(|name| name == row);
            assert!(has_options || !is_named, "the row {row} needs {needed}");
        }
        options
    }

    fn includes(&self, row: &str) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|name| name == row)
    }

    /// Returns the rows to measure with an engine.
    fn rows(&self, engine: Engine) -> Vec<&'static RowKind> {
        let has_peer = engine == Engine::DEFAULT && self.peer.is_some();
        let rows = ROWS.iter().filter(|row| self.includes(row.name));
        rows.filter(|row| row.name != peers::NAME || has_peer)
            .collect()
    }

    fn size(&self) -> Size {
        let size = if self.is_full { FULL_SIZE } else { SHORT_SIZE };
        self.memories.map_or(size, |memories| size.limit(memories))
    }

    /// Waits for an idle machine before a measurement; returns true if it is.
    async fn wait_until_idle(&self) -> bool {
        let wait = self.wait.unwrap_or(WAIT_DEFAULT);
        self.is_full && machine::wait_until_idle(wait).await
    }

    /// Measures rows, beside which these processes run, once the machine is idle.
    async fn measured(&self, own: Vec<u32>, rows: impl Future<Output = Vec<Row>>) -> Vec<Row> {
        let is_idle = self.wait_until_idle().await;
        let others = machine::Others::watch(own);
        let rows = rows.await;
        self.finish(rows, is_idle, others.used())
    }

    /// Notes what else ran on the machine during a measurement, and prints its rows.
    fn finish(&self, mut rows: Vec<Row>, is_idle: bool, others: Option<f64>) -> Vec<Row> {
        for row in &mut rows {
            row.idle = is_idle && others.is_none_or(|others| others <= OTHERS_MAX);
            row.others = others;
            if self.is_full {
                println!("  {row}");
            } else {
                // The figures of a short round of a debug build mean nothing.
                println!("  {}: ok", row.name);
            }
        }
        rows
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    if let [role, spec, directory] = arguments.as_slice()
        && role == bare::ROLE
    {
        return runtime.block_on(bare::run(spec.as_ref(), directory.as_ref()));
    }
    runtime.block_on(run(&Options::read(&arguments)));
}

async fn run(options: &Options) {
    process::raise_open_files();
    let scale = if options.is_full { &FULL } else { &SHORT };
    let mut measured = Vec::new();
    for engine in Engine::ALL {
        let rows = options.rows(engine);
        if rows.is_empty() {
            continue;
        }
        println!("{}, {} memories", engine.name(), scale.memories);
        let bench = Bench::start(engine, scale, options.peer.clone()).await;
        for row in &rows {
            let rows = (row.measure)(&bench);
            measured.extend(options.measured(bench.processes(), rows).await);
        }
        bench.stop();
    }
    let peer = options.peer.clone();
    if let Some(peer) = peer.filter(|_| options.includes(peers::NAME)) {
        println!("{}, {} memories", database::NAME, scale.memories);
        let shared = Shared::start(scale, peer).await;
        let rows = shared.measure();
        measured.extend(options.measured(shared.processes(), rows).await);
        shared.stop();
    }
    for engine in Engine::ALL {
        measured.extend(size::measure(options, engine).await);
    }
    measured.extend(module::measure(options).await);
    if let Some(directory) = &options.out {
        results::write(directory, options.results.as_deref(), measured);
    }
}
