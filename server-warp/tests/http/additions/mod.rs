//! The operations beside the eight of the interface.

mod chats;
mod connectors;
mod mcp_keys;
mod members;
mod roles;
mod webhooks;
