//! The command line `knowledge` of the workspace knowledge service: [`main`] runs it.
//!
//! The server and its parts are in `knowledge-server`. This is a library of its own beside the
//! program, so that it is compiled while code of the server is still generated.

/// Prints to standard error in place of the standard macro, which passes control characters on.
macro_rules! eprint {
    ($($part:tt)*) => { $crate::terminal::notice(&format!($($part)*)) };
}

/// Prints a line to standard error, as `eprint!` does.
macro_rules! eprintln {
    ($($part:tt)*) => { $crate::terminal::notice(&format!("{}\n", format_args!($($part)*))) };
}

mod commands;
mod demo;
mod progress;
mod terminal;

pub use self::commands::main;
