//! `[metrics]`: metrics for Prometheus.

use crate::config::kind::{Text, field};
use crate::config::setting::{Section, Setting, nothing};
use crate::config::{Check, Config};

pub(super) static SECTION: Section = Section {
    name: "metrics",
    about: "Metrics for Prometheus on their own address, separate from the service",
    settings: &[Setting::new(
        "metrics.listen",
        &Text(field!(metrics_listen)),
        "The address of /metrics, such as 127.0.0.1:9464; no metrics if unset",
    )],
    check,
    inspect: nothing,
};

fn check(config: &Config, check: &mut Check<'_>) {
    let is_taken =
        |listen: &std::net::SocketAddr| *listen == config.net.address && listen.port() != 0;
    if config.metrics_listen.as_ref().is_some_and(is_taken) {
        check.reject(
            "metrics.listen",
            &["server.listen"],
            "must be another address than server.listen",
        );
    }
}
