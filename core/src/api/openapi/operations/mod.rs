//! What the document says of each operation: one file for each file of `handlers`.

mod citations;
mod dashboard;
mod memories;
mod roles;
mod sources;
mod webhooks;
mod workspaces;

use super::description::Descriptions;

/// Describes every operation.
pub(super) fn describe(all: &mut Descriptions) {
    memories::describe(all);
    workspaces::describe(all);
    sources::describe(all);
    dashboard::describe(all);
    roles::describe(all);
    citations::describe(all);
    webhooks::describe(all);
}
