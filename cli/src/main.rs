//! The command line of the workspace knowledge service.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Allocator of the server: requests and engines allocate many small, short-lived values.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    knowledge_cli::main()
}
