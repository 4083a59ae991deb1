//! Cases by resource, with every operation on it.

mod acting;
mod audit_log;
mod chats;
mod citation_subscriptions;
mod connectors;
mod dashboard;
mod deliveries;
mod erasure_rejections;
mod erasures;
mod inbound_posts;
mod labels;
mod mcp;
mod mcp_keys;
mod members;
mod memories;
mod memory_rejections;
mod recalls;
mod reviews;
mod roles;
mod sources;
mod takeovers;
mod tokens;
mod webhooks;
mod workspaces;

suites![
    acting,
    audit_log,
    chats,
    citation_subscriptions,
    connectors,
    dashboard,
    deliveries,
    erasure_rejections,
    erasures,
    inbound_posts,
    labels,
    mcp,
    mcp_keys,
    members,
    memories,
    memory_rejections,
    recalls,
    reviews,
    roles,
    sources,
    takeovers,
    tokens,
    webhooks,
    workspaces,
];
