//! The typed service over the in-memory store, one module per capability: what is documented, by example.

mod audit;
mod bulk;
mod bulk_access;
mod bulk_replay;
mod chats;
mod citations;
mod connectors;
mod credentials;
mod dashboard;
mod events;
mod inbound;
mod ingest;
mod lost;
mod maintain;
mod make;
mod mcp_keys;
mod members;
mod needs;
mod open;
mod probe;
mod provisioning;
mod recalls;
mod role_deletion;
mod roles;
mod webhooks;
mod world;
