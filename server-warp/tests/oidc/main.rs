//! Tests of signing in with OpenID Connect: with the certified provider `oidc-provider` from npm,
//! and with a provider in this process that does what a certified one never does.
//!
//! `cargo xtask ci --only test` installs the npm packages and sets `TEST_OIDC_PACKAGES` and
//! `TEST_NODE_PACKAGES`; without them the tests with that provider fail.

mod access_tokens;
mod assistants;
mod browser;
mod fake;
mod groups;
mod log;
mod people;
mod provider;
mod round;
mod sessions;
mod tokens;
mod trouble;
mod waiting;
mod world;
