//! Roles and scopes of credentials.
//!
//! Whatever a member holds and however its credential is narrowed, the service decides as the
//! documentation states.

#![no_main]

use futures::executor::block_on;
use knowledge_testing::fuzzing::check_decisions;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| block_on(check_decisions(text)));
