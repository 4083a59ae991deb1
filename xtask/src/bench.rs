//! Measurements of the server and of the WebAssembly package, each beside its reference.

use std::fs;
use std::io::ErrorKind;
use std::process::Command;

use crate::peer::Peer;
use crate::process::{Result, ci_cargo, read, run, target_directory};
use crate::programs::{self, workspace_cargo};
use crate::{postgres, results, wasm};

/// Package of the server, its benchmarks among them.
const PACKAGE: &str = "knowledge-cli";
/// Row that the benchmark `deliveries` measures, over the peer's PostgreSQL too; `whole` measures the
/// others.
const DELIVERIES: &str = "deliveries";
/// Row that needs a running peer.
const PEERS: &str = "peers";
/// Row of the WebAssembly package, which must be built.
const WASM: &str = "wasm";
/// Row of the native service without a server, which is the reference of the package.
const SERVICE: &str = "service";
/// Rows of searches by words, which have a section of their own.
const SEARCH: &str = "search";
/// Numbers of memories of these rows.
const SEARCHED: [&str; 2] = ["50000", "1000000"];
/// Memories of the peer, as many as those of the server in `cli/benches/whole/scale.rs`.
const MEMORIES: usize = 50_000;
/// Memories of a short round, which are fewer.
const MEMORIES_SHORT: usize = 1_200;
/// Table with the results, from the root of the workspace.
const RESULTS: &str = "benches/RESULTS.md";

/// Runs `cargo xtask bench` with options.
///
/// The programs write the rows. A run with `--row` replaces its rows in the results; a run with
/// `--memories`, whose figures are of other sizes, does not change them.
///
/// # Errors
/// If an option is unknown, or a program does not compile or reports a wrong response.
pub(crate) fn main(options: &[&str]) -> Result {
    let options = Options::read(options)?;
    let mut recorded = fs::read_to_string(RESULTS)?;
    if options.includes(SEARCH) && options.memories.is_none() {
        let (table, _) = results::split(&recorded);
        recorded = format!("{table}\n{}\n", measure_search()?);
        fs::write(RESULTS, &recorded)?;
    }
    if options.rows != [SEARCH] {
        measure_server(&options, &recorded)?;
    }
    Ok(())
}

/// Measures searches by words, and returns their section.
fn measure_search() -> Result<String> {
    let (variable, programs) = postgres::install()?;
    read(
        ci_cargo("run")
            .args(["--profile", "bench", "--package", "knowledge-benches"])
            .args(["--example", SEARCH, "--"])
            .args(SEARCHED)
            .env(variable, programs),
    )
}

/// Measures the other rows, and replaces them in the recorded results.
fn measure_server(options: &Options<'_>, recorded: &str) -> Result {
    let out = target_directory().join("bench");
    fs::create_dir_all(&out)?;
    let out = out.canonicalize()?;
    // Rows of an earlier run would be taken for rows of this one.
    for file in ["summary.json", "deliveries.json"] {
        match fs::remove_file(out.join(file)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    let is_over_peer = [DELIVERIES, PEERS].map(|row| options.includes(row));
    let peer = is_over_peer.contains(&true).then(|| Peer::start(MEMORIES));
    let peer = peer.transpose()?;
    if options.includes(DELIVERIES) {
        run(ci_cargo("bench")
            .args(["--package", PACKAGE, "--bench", "deliveries", "--", "--out"])
            .arg(&out)
            .args(options.wait())
            .args(peer.iter().flat_map(Peer::database)))?;
    }
    let (is_wasm, is_service) = (options.includes(WASM), options.includes(SERVICE));
    if is_wasm {
        wasm::build()?;
    }
    let mut whole = ci_cargo("bench");
    whole
        .args(["--package", PACKAGE, "--bench", "whole", "--", "--out"])
        .arg(&out)
        .args(options.wait())
        .args(peer.iter().flat_map(Peer::options))
        .args(options.memories())
        .args(options.table_rows().flat_map(|row| ["--row", row]));
    if is_wasm || is_service {
        add_node(&mut whole)?;
        whole
            .arg("--native")
            .arg(programs::build_service_benchmark()?);
    }
    let measured = out.join("RESULTS.md");
    whole.arg("--results").arg(&measured);
    run(&mut whole)?;
    if options.memories.is_none() {
        let measured = fs::read_to_string(measured)?;
        let (earlier, sections) = results::split(recorded);
        let table = if options.rows.is_empty() {
            measured
        } else {
            results::merge(earlier, &measured)
        };
        fs::write(RESULTS, table + sections)?;
    }
    println!("rows: {}", out.join("summary.json").display());
    Ok(())
}

/// Makes one short round of the rows with the peer or its PostgreSQL, in a debug build.
///
/// # Errors
/// If the peer does not start, or one side responds wrongly.
pub(crate) fn test_peer() -> Result {
    let peer = Peer::start(MEMORIES_SHORT)?;
    run(workspace_cargo("test")
        .args(["--bench", "whole", "--", "--row", PEERS])
        .args(peer.options()))?;
    run(workspace_cargo("test")
        .args(["--bench", "deliveries", "--"])
        .args(peer.database()))
}

/// Makes one short round of the row of the built package, in a debug build.
///
/// # Errors
/// If the package responds wrongly.
pub(crate) fn test_package() -> Result {
    let mut test = workspace_cargo("test");
    test.args(["--bench", "whole", "--", "--row", WASM]);
    add_node(&mut test)?;
    run(&mut test)
}

/// Adds the option by which the benchmark `whole` measures the package.
fn add_node(whole: &mut Command) -> Result {
    let node = wasm::install_node()?.command("node")?;
    whole.arg("--node").arg(node.get_program());
    Ok(())
}

#[derive(Default)]
struct Options<'a> {
    rows: Vec<&'a str>,
    memories: Option<&'a str>,
    wait: Option<&'a str>,
}

impl<'a> Options<'a> {
    fn read(options: &[&'a str]) -> Result<Self> {
        let mut read = Self::default();
        for option in options.chunks(2) {
            match option {
                ["--row", row] => read.rows.push(row),
                ["--memories", count] if count.parse::<usize>().is_ok() => {
                    read.memories = Some(count);
                }
                ["--wait", seconds] if seconds.parse::<u64>().is_ok() => read.wait = Some(seconds),
                _ => {
                    let expected = "--row ROW, --memories N or --wait SECONDS";
                    let option = option.join(" ");
                    return Err(format!("expected {expected}, not {option}").into());
                }
            }
        }
        Ok(read)
    }

    fn includes(&self, row: &str) -> bool {
        self.rows.is_empty() || self.rows.contains(&row)
    }

    /// Returns the chosen rows that are in the table.
    fn table_rows(&self) -> impl Iterator<Item = &'a str> {
        self.rows.iter().copied().filter(|row| *row != SEARCH)
    }

    fn memories(&self) -> impl Iterator<Item = &'a str> {
        self.memories
            .into_iter()
            .flat_map(|count| ["--memories", count])
    }

    fn wait(&self) -> impl Iterator<Item = &'a str> {
        self.wait
            .into_iter()
            .flat_map(|seconds| ["--wait", seconds])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_select_rows_and_limit_size_and_wait() {
        let options = ["--row", "bulk", "--memories", "7", "--wait", "5"];
        let options = Options::read(&options).unwrap();
        assert!(options.includes("bulk") && !options.includes(DELIVERIES));
        assert_eq!(options.memories().collect::<Vec<_>>(), ["--memories", "7"]);
        assert_eq!(options.wait().collect::<Vec<_>>(), ["--wait", "5"]);
        assert!(Options::read(&[]).unwrap().includes(DELIVERIES));
        for wrong in [
            &["--row"][..],
            &["--wait", "long"],
            &["--memories", "all"],
            &["bulk"],
        ] {
            assert!(Options::read(wrong).is_err(), "{wrong:?}");
        }
    }
}
