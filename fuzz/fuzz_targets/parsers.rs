//! Bodies of bulk updates, keys of the store, and signed messages.
//!
//! They are one target because each program contains the whole service.

#![no_main]

use futures::executor::block_on;
use knowledge_testing::fuzzing::check_parsers;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| block_on(check_parsers(input)));
