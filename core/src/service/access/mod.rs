//! Access: who a caller is, which roles it holds, and what these permit.

pub(crate) mod acted_for;
mod acting;
pub(crate) mod coverage;
pub(crate) mod created;
mod created_list;
mod last_use;
pub(crate) mod monitor;
pub(crate) mod principal;
pub(crate) mod roles;
