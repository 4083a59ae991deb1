//! `[metrics]`: numbers for Prometheus.

use crate::config::kind::{Text, field};
use crate::config::setting::{Section, Setting, nothing};
use crate::config::{Check, Config};

pub(super) static SECTION: Section = Section {
    name: "metrics",
    about: "Numbers for Prometheus, on an address of their own: whoever reaches the service does not see them",
    settings: &[Setting::new(
        "metrics.listen",
        &Text(field!(metrics_listen)),
        "The address on which /metrics is served, such as 127.0.0.1:9464; without it there are none",
    )],
    check,
    inspect: nothing,
};

fn check(config: &Config, check: &mut Check<'_>) {
    let is_taken =
        |listen: &std::net::SocketAddr| *listen == config.net.address && listen.port() != 0;
    if config.metrics_listen.as_ref().is_some_and(is_taken) {
        check.refuse(
            "metrics.listen",
            &["server.listen"],
            "must be another address than server.listen",
        );
    }
}
