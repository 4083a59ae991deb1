//! All cases: operations with all documented statuses, from outside.
//!
//! A case that changes data has its own organisation, so that the order of the cases does not
//! matter.

mod bad_input;
mod bulk;
mod bulk_rejections;
mod citations;
mod common;
mod credentials;
mod dashboard;
mod dashboard_etag;
mod idempotency;
mod inbound;
mod resources;
mod roles;
mod tenancy;
mod webhooks;

suites![
    bad_input,
    bulk,
    bulk_rejections,
    citations,
    common,
    credentials,
    dashboard,
    dashboard_etag,
    idempotency,
    inbound,
    resources,
    roles,
    tenancy,
    webhooks,
];
