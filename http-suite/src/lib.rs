#![doc = include_str!("../README.md")]

#[macro_use]
mod harness;
#[macro_use]
mod table;

mod address;
mod answer;
mod cases;
pub mod client;
pub mod contract;
pub mod support;
mod target;

pub use self::address::Address;
pub use self::harness::{run, run_with};
pub use self::target::{Deliveries, Service, Settings, Target};
