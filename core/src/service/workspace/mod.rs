//! Workspaces with their access, dashboard, chats, retention and MCP keys.

pub(crate) mod access;
pub(crate) mod activity;
pub(crate) mod chats;
pub(crate) mod dashboard;
pub(crate) mod dashboard_cache;
mod dashboard_chats;
pub(crate) mod mcp_key_types;
pub(crate) mod mcp_keys;
pub(crate) mod read;
pub(crate) mod retention;
