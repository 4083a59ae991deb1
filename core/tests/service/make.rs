//! Requests of the kit, and readers of error codes.

use knowledge_core::Error;
use knowledge_core::access::{Action, ActionSet, RoleRef};
use knowledge_core::model::RoleId;
pub(crate) use knowledge_testing::requests::*;

/// The slug of the organisation.
pub(crate) const ACME: &str = "acme";
/// The key that seals stored secrets.
pub(crate) const SEALING_KEY: [u8; 32] = [42; 32];

pub(crate) fn actions(actions: &[Action]) -> ActionSet {
    ActionSet::of(actions)
}

pub(crate) fn custom(role: RoleId) -> RoleRef {
    RoleRef::Custom(role)
}

/// Returns the only problem of an invalid request: its path and its code.
#[track_caller]
pub(crate) fn problem<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::InvalidRequest { fields }) => {
            let problems: Vec<_> = fields
                .iter()
                .map(|field| format!("{} {}", field.path, field.code))
                .collect();
            problems.join(", ")
        }
        other => panic!("not an invalid request: {other:?}"),
    }
}

/// Returns the code of an error.
#[track_caller]
pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> &'static str {
    result.expect_err("it is refused").code()
}
