//! `[proxy]`: proxies in front of the server.

use crate::config::kind::{List, Switch, Text, field};
use crate::config::setting::{Section, Setting, nothing};

pub(super) static SECTION: Section = Section {
    name: "proxy",
    about: "Proxies in front of the server, which report the addresses of their clients",
    settings: &[
        Setting::new(
            "proxy.trusted",
            &List(field!(net.proxy.trusted)),
            "The addresses of the proxies; the header of any other client is ignored",
        ),
        Setting::new(
            "proxy.header",
            &Text(field!(net.proxy.header)),
            "The header to which each proxy appends the address of its client; the other one is \
             ignored",
        ),
        Setting::new(
            "proxy.protocol",
            &Switch(field!(net.proxy.protocol)),
            "Require a PROXY protocol header (version 2) at the start of every connection from a \
             proxy, before TLS",
        ),
    ],
    check: nothing,
    inspect: nothing,
};
