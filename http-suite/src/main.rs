//! Runs the HTTP suite against a service that is running already.
//!
//! ```text
//! http-suite FIXTURE [OPTION]... [FILTER]
//! ```
//!
//! The file `FIXTURE` describes the service, see [`Address`]. The rest are the options of a Rust
//! test program, such as `--list`, `--exact`, `--skip` and `--test-threads`.

use std::process::ExitCode;

use knowledge_http_suite::{Address, run_with};

fn main() -> ExitCode {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if arguments.len() < 2 || arguments[1].to_string_lossy().starts_with('-') {
        eprintln!("name the file of the service's fixture first: http-suite FIXTURE [OPTION]...");
        return ExitCode::from(2);
    }
    let fixture = arguments.remove(1);
    run_with(arguments, Address::of(fixture))
}
