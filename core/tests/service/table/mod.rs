//! Tests of every operation of the table, through HTTP.

mod audit;
mod authorization;
mod callers;
mod non_interference;
mod reads;
mod records;
mod requests;
mod strangers;
