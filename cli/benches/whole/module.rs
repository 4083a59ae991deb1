//! Rows of the service without a server, over the store in memory: the WebAssembly package in
//! Node.js, and the native service.
//!
//! `wasm/tools/bench.mjs` measures both in turns, on the same data.

use std::collections::HashMap;
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::Options;
use crate::machine::Others;
use crate::report::{Row, Sample, Target};

/// Names of the rows.
pub(crate) const ROWS: [&str; 2] = [WASM, SERVICE];
pub(crate) const WASM: &str = "wasm";
pub(crate) const SERVICE: &str = "service";

/// Program that measures both.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../wasm/tools/bench.mjs");
/// Measurements of the program that have the same name for both.
const DASHBOARD: &str = "dashboard";
const BULK: &str = "bulk of 1,000";
const REPLAY: &str = "replay of 1,000";

/// A measurement of the package.
struct Measurement {
    what: &'static str,
    unit: &'static str,
    target: Target,
    /// Name in the output of the program.
    name: &'static str,
    /// Measurement of the native service beside it.
    native: Option<&'static str>,
}

/// Defines measurements by their fields, in this order.
macro_rules! measurements {
    ($($what:literal, $unit:literal, $name:expr, $native:expr, $target:expr;)+) => {
        [$(Measurement {
            what: $what,
            unit: $unit,
            target: $target,
            name: $name,
            native: $native,
        }),+]
    };
}

/// Measurements of the package, except for its size.
const MEASUREMENTS: [Measurement; 6] = measurements! {
    "dashboard summary by direct call", "µs", DASHBOARD, Some(DASHBOARD), Target::RatioAtMost(2.5);
    "dashboard summary by fetch", "µs", "dashboard by fetch", Some(DASHBOARD),
        Target::RatioAtMost(2.5);
    "bulk update of 1000", "ms", BULK, Some(BULK), Target::None;
    "replay of a bulk update of 1000", "ms", REPLAY, Some(REPLAY), Target::None;
    "compilation", "ms", "compile", None, Target::None;
    "start, compilation included", "ms", "import and open", None, Target::ValueAtMost(60.0);
};

/// Median times of a round in microseconds, by the names of their measurements.
type Times = HashMap<String, f64>;

/// Output of the program.
#[derive(Deserialize)]
struct Output {
    rounds: Vec<Round>,
    /// Size of the module; `None` if only the native service was measured.
    gzip_bytes: Option<f64>,
}

#[derive(Deserialize)]
struct Round {
    module: Times,
    native: Times,
}

/// Measures the chosen rows: `wasm` if Node.js is given, `service` if the native benchmark is too.
pub(crate) async fn measure(options: &Options) -> Vec<Row> {
    let is_wasm = options.includes(WASM);
    let is_service = options.includes(SERVICE) && options.native.is_some();
    let Some(node) = options.node.as_ref().filter(|_| is_wasm || is_service) else {
        return Vec::new();
    };
    println!("service in memory");
    let mut program = Command::new(node);
    program.args([SCRIPT, "--json"]);
    program.args((!options.is_full).then_some("--short"));
    program.args((!is_wasm).then_some("--only-native"));
    program.args(&options.native).stderr(Stdio::inherit());
    let is_idle = options.wait_until_idle().await;
    let others = Others::watch(Vec::new());
    let output = program.output().expect("Node.js starts");
    assert!(output.status.success(), "{SCRIPT} fails");
    let output: Output = serde_json::from_slice(&output.stdout).expect("figures");
    let mut rows = Vec::new();
    if is_wasm {
        rows.extend(MEASUREMENTS.iter().map(|row| output.module_row(row)));
        rows.push(output.size_row());
    }
    if is_service {
        rows.push(output.service_row());
    }
    options.finish(rows, is_idle, others.used())
}

impl Output {
    fn samples(&self, unit: &str, figures: impl Fn(&Round) -> (f64, f64)) -> Vec<Sample> {
        let per_unit = if unit == "ms" { 1e3 } else { 1.0 };
        let sample = |round: &Round| {
            let (value, reference) = figures(round);
            Sample {
                value: value / per_unit,
                reference: reference / per_unit,
                ..Sample::UNKNOWN
            }
        };
        self.rounds.iter().map(sample).collect()
    }

    fn module_row(&self, row: &Measurement) -> Row {
        let samples = self.samples(row.unit, |round| {
            let native = row.native.and_then(|name| round.native.get(name));
            (round.module[row.name], native.copied().unwrap_or(f64::NAN))
        });
        let name = format!("{}, WebAssembly", row.what);
        let measured = Row::new(WASM, name, row.unit, row.target, &samples);
        match row.native {
            Some(_) => measured.against("native service on the same data"),
            None => measured,
        }
    }

    fn size_row(&self) -> Row {
        let size = Sample {
            value: self.gzip_bytes.expect("the size of the module") / 1e3,
            ..Sample::UNKNOWN
        };
        let name = "size of the module in gzip, WebAssembly".to_owned();
        Row::new(WASM, name, "kB", Target::ValueAtMost(640.0), &[size])
    }

    fn service_row(&self) -> Row {
        let samples = self.samples("ms", |round| (round.native[BULK], f64::NAN));
        let name = "bulk update of 1000, service on the store in memory".to_owned();
        Row::new(SERVICE, name, "ms", Target::ValueAtMost(3.0), &samples)
    }
}
