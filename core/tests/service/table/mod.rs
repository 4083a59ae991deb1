//! Tests of every operation of the table, through HTTP.

mod audit;
mod authorization;
pub(crate) mod callers;
mod confidential;
mod idempotency;
mod idempotency_access;
mod idempotency_faults;
mod idempotency_keys;
mod non_interference;
mod reads;
mod records;
pub(crate) mod requests;
mod round_trips;
mod sealing;
mod strangers;
mod texts;
