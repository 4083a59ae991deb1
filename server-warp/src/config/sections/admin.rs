//! `[admin]`: access of the operator to a running server.

use crate::config::kind::{Text, field};
use crate::config::setting::{Section, Setting, nothing};

pub(super) static SECTION: Section = Section {
    name: "admin",
    about: "Access of the commands for organisations, members and tokens to a running server",
    settings: &[Setting::new(
        "admin.socket",
        &Text(field!(admin_socket)),
        "The admin socket, which only root and the server's user can open; DIR.sock beside the \
         data directory if unset; off for none",
    )
    .flag("admin-socket")],
    check: nothing,
    inspect: nothing,
};
