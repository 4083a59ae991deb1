//! The command line of the workspace knowledge service.

use std::process::ExitCode;

fn main() -> ExitCode {
    knowledge_server::cli::main()
}
