//! Helper commands.
fn main() {}
