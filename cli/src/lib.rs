//! The command line `knowledge` of the workspace knowledge service: [`main`] runs it.
//!
//! The server and its parts are in `knowledge-server`. This is a library of its own beside the
//! program, so that it is compiled while code of the server is still generated.

mod commands;
mod demo;
mod progress;

pub use self::commands::main;
