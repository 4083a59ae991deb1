//! Members, the roles that they hold, and custom roles.

pub(crate) mod assign;
pub(crate) mod change;
pub(crate) mod remove;
pub(crate) mod role_deletion;
pub(crate) mod roles;
