#![doc = include_str!("../README.md")]

pub mod access;
pub mod api;
mod digest;
pub mod dump;
pub mod env;
mod error;
pub mod limits;
pub mod model;
#[cfg(feature = "openapi")]
mod schema;
pub mod service;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;

pub use self::error::{Error, FieldProblem, ProblemCode};
