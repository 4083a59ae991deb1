//! Scripts of HTTP requests, with invariants after each request and at the end.

#![no_main]

use futures::executor::block_on;
use knowledge_testing::fuzzing::check_requests;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: &[u8]| {
    block_on(check_requests(script));
});
