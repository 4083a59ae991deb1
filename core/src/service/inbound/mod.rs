//! Inbound webhooks and their signed posts.

pub(crate) mod manage;
pub(crate) mod post;
