//! Fixtures of the tests: the service under test, requests, and responses as text.

mod additions;
mod errors;
mod in_process;
mod operations;
mod rejections;
mod sender;
mod show;
mod stage;
mod target;

#[path = "../../../../server-warp/tests/support/client.rs"]
mod client;
#[path = "../../../../server-warp/tests/support/contract.rs"]
mod contract;
#[path = "../../support/knowledge.rs"]
mod knowledge;

pub(crate) use self::additions::{delete, get, patch, post, put};
pub(crate) use self::client::{Answer, Call};
pub(crate) use self::contract::Contract;
pub(crate) use self::errors::{error, problems};
pub(crate) use self::in_process::InProcess;
pub(crate) use self::operations::{
    Operation, bulk, bulk_with_key, create_inbound_webhook, create_webhook, dashboard, delete_role,
    list_roles, new_key, role, roles_by_slug, subscribe, update_role,
};
pub(crate) use self::rejections::assert_rejections;
pub(crate) use self::sender::{Sender, now_seconds};
pub(crate) use self::show::Show;
pub(crate) use self::stage::Stage;
pub(crate) use self::target::{foreign_org, own_org, quiet_org, target};
