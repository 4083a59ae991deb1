#![doc = include_str!("../README.md")]
// On docs.rs, each item names the feature that it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod api;
mod digest;
#[cfg(feature = "transfer")]
pub mod dump;
mod error;
mod format;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;
#[allow(unreachable_pub, reason = "public through `internals`")]
#[cfg_attr(not(feature = "internals"), allow(dead_code))]
mod keys;
pub mod limits;
pub mod model;
mod operation;
pub mod partition;
mod request;
#[cfg(feature = "openapi")]
mod schema;
pub mod service;

pub use knowledge_store as store;
pub use knowledge_store::env;

pub use self::error::{EntityKind, Error, FieldProblem, ProblemCode};
pub use self::model::access;
