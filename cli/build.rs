//! Embeds the version.

use std::path::Path;
use std::process::Command;
use std::{env, fs, io};

/// Versions of PostgreSQL that can be the store.
const POSTGRES: &str = "PostgreSQL 15 to 18";
/// Lock file of the workspace, with the versions of the engines.
const LOCK: &str = "../Cargo.lock";
/// File that git changes at each commit.
const COMMITS: &str = "../.git/logs/HEAD";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=KNOWLEDGE_VERSION={}", version()?);
    Ok(())
}

/// Returns the version of the program, with the commit and with the versions of the engines.
///
/// A debug build names no commit: it would be compiled again after each one.
fn version() -> io::Result<String> {
    println!("cargo::rerun-if-changed={LOCK}");
    let lock = fs::read_to_string(LOCK)?;
    let engine = |name: &str| {
        let package = format!("name = \"{name}\"\nversion = \"");
        let version = lock.split_once(&package).expect("it is a dependency").1;
        let version = version.split('"').next().unwrap_or_default();
        format!("{name} {version}")
    };
    let build = match env::var("PROFILE").as_deref() {
        Ok("release") => commit().unwrap_or_else(|| "unknown commit".to_owned()),
        _ => "debug build".to_owned(),
    };
    let version = env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let mut engines = ["sled", "fjall"].map(engine).to_vec();
    if env::var_os("CARGO_FEATURE_POSTGRES").is_some() {
        engines.push(POSTGRES.to_owned());
    }
    Ok(format!("{version} ({build}; {})", engines.join(", ")))
}

/// Returns the commit of the sources, or `None` outside a repository.
fn commit() -> Option<String> {
    if Path::new(COMMITS).exists() {
        println!("cargo::rerun-if-changed={COMMITS}");
    }
    let output = Command::new("git")
        .args([
            "describe",
            "--always",
            "--dirty",
            "--exclude=*",
            "--abbrev=12",
        ])
        .output()
        .ok()?;
    let described = String::from_utf8(output.stdout).ok()?;
    let commit = described.trim();
    (output.status.success() && !commit.is_empty()).then(|| format!("commit {commit}"))
}
