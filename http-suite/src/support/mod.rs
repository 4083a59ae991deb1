//! Requests of every kind, and responses as text, for the cases and for further tests.

mod errors;
mod operations;
mod rejections;
mod replays;
mod resources;
mod sender;
mod show;
mod stage;

pub use self::errors::{error, problems};
pub use self::operations::{
    Operation, bulk, bulk_with_key, create_inbound_webhook, create_webhook, dashboard, delete_role,
    list_roles, new_key, roles_by_slug, subscribe, update_role,
};
pub use self::replays::send_at_once;
pub use self::resources::{delete, get, patch, post, put};
pub use self::sender::{Sender, now_seconds};
pub use self::show::Show;

pub(crate) use self::operations::role;
pub(crate) use self::rejections::{assert_rejected, assert_rejections};
pub(crate) use self::replays::{is_replay, without_replayed};
pub(crate) use self::stage::Stage;
pub(crate) use crate::client::{Answer, Call};
pub(crate) use crate::target::{base_url, foreign_org, own_org, quiet_org};
