//! Descriptions of the operations, in one file for each file of `handlers`.

mod audit;
mod chats;
mod citations;
mod connectors;
mod dashboard;
mod deliveries;
mod mcp_keys;
mod members;
mod memories;
mod recalls;
mod roles;
mod sources;
mod webhooks;
mod workspaces;

use super::description::Descriptions;

/// Describes all operations.
pub(super) fn describe(all: &mut Descriptions) {
    memories::describe(all);
    workspaces::describe(all);
    sources::describe(all);
    dashboard::describe(all);
    connectors::describe(all);
    mcp_keys::describe(all);
    chats::describe(all);
    roles::describe(all);
    members::describe(all);
    recalls::describe(all);
    citations::describe(all);
    audit::describe(all);
    webhooks::describe(all);
    deliveries::describe(all);
}
