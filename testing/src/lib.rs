//! For those who test a storage backend, or an application that links this crate.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`simulation`] | the whole service over a backend, compared with the plain model: one call |
//! | [`strategies`] | proptest strategies for the wire types and for sequences of operations |
//! | [`model`] | the domain in plain maps: what every call has to answer |
//! | [`fixture`] | an organisation with everything in it |
//! | `conversation` | random requests and their answers, the same on every target (with the feature `openapi`) |

#[cfg(feature = "openapi")]
pub mod conversation;
pub mod fixture;
pub mod model;
pub mod simulation;
pub mod strategies;
