//! `[admin]`: how the operator reaches a running server.

use crate::config::kind::{Text, field};
use crate::config::setting::{Section, Setting, nothing};

pub(super) static SECTION: Section = Section {
    name: "admin",
    about: "How the commands for organisations, members and tokens reach a running server",
    settings: &[Setting::new(
        "admin.socket",
        &Text(field!(admin_socket)),
        "The admin socket, which the user of the server and root alone can open; without it DIR.sock, beside the data \
         directory; off for none",
    )
    .flag("admin-socket")],
    check: nothing,
    inspect: nothing,
};
