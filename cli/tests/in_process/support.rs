//! The server's library in this process, and the requests of the HTTP suite.

#[path = "../support/in_process.rs"]
mod in_process;

pub(crate) use knowledge_http_suite::client::{Answer, Call};
pub(crate) use knowledge_http_suite::support::{
    Operation, Sender, Show, bulk, bulk_with_key, create_inbound_webhook, dashboard, error, get,
    list_roles, new_key, post, send_at_once, update_role,
};

pub(crate) use self::in_process::InProcess;
