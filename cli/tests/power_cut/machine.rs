//! The machine: a check that it allows power cuts, and a mount namespace that cleans itself up.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use crate::disk::{Disk, program, run};

/// Variable that, set to 1, skips the test.
pub(crate) const SKIP: &str = "KNOWLEDGE_POWER_CUT_SKIP";
/// Variable that is set inside the mount namespace.
const INSIDE: &str = "KNOWLEDGE_POWER_CUT_INSIDE";
/// Prefix of a command that kills it together with the thread that started it.
///
/// A process that lives on keeps its mounts.
pub(crate) const BOUND: [&str; 3] = ["setpriv", "--pdeathsig", "KILL"];
/// Requirements of the test.
const NEEDED: &str = "root, loop devices, mkfs.ext4, mount, unshare, setpriv and perl";

/// Runs the test of this name in its own mount namespace, which removes all mounts at its end.
///
/// The test calls this first, and continues if it returns true.
///
/// # Panics
/// The test fails, or cannot run although `CI` is set and the skip variable is not.
pub(crate) fn enter_namespace(test: &str, rounds: usize) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let reason = if std::env::var_os(SKIP).is_some_and(|value| value == "1") {
        Some(format!("{SKIP} is 1"))
    } else {
        let obstacle = obstacle().err();
        if let Some(obstacle) = &obstacle {
            assert!(
                std::env::var_os("CI").is_none(),
                "the power cannot be cut on this machine: {obstacle}; provide {NEEDED}, or set {SKIP}=1"
            );
        }
        obstacle.map(|obstacle| format!("{obstacle} (needed are {NEEDED})"))
    };
    match reason {
        Some(reason) => skip(test, rounds, &reason),
        None => run_inside(test),
    }
    false
}

/// Reports past the test harness, which shows the output of failed tests only.
fn skip(test: &str, rounds: usize, reason: &str) {
    let line = format!("\nskipped: 1 test, {test} ({rounds} power cuts): {reason}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Attempts a power cut.
fn obstacle() -> Result<(), String> {
    run(program("unshare")
        .args(["--mount", "--"])
        .args(BOUND)
        .arg("true"))?;
    let disk = Disk::new()?;
    disk.switch()?.cut()?;
    disk.remount()
}

fn run_inside(test: &str) {
    let itself = std::env::current_exe().expect("the path of the test");
    let mut process = program("unshare")
        .args(["--mount", "--"])
        .args(BOUND)
        .arg(itself)
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start unshare");
    let stderr = process.stderr.take().expect("a pipe");
    let shown = std::thread::spawn(move || show(stderr));
    show(process.stdout.take().expect("a pipe"));
    let _ = shown.join();
    let status = process.wait().expect("wait");
    assert!(
        status.success(),
        "the test in its namespace ended with {status}"
    );
}

/// Prints lines as this test's own.
fn show(lines: impl Read) {
    for line in BufReader::new(lines).lines().map_while(Result::ok) {
        println!("{line}");
    }
}

/// Returns a variable of the environment as a number.
pub(crate) fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} must be a number, not {value}")))
}
