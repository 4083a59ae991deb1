#![doc = include_str!("../README.md")]

pub mod authorization;
mod call;
mod client;
#[cfg(feature = "openapi")]
pub mod conversation;
pub mod fixture;
// Services that several threads share, and files of seeds.
#[cfg(not(target_family = "wasm"))]
pub mod fuzzing;
pub mod model;
pub mod non_interference;
pub mod requests;
pub mod seed;
pub mod simulation;
pub mod strategies;
