//! `[cors]`: cross-origin requests from browsers.

use std::time::Duration;

use super::A_DAY;
use crate::config::kind::{List, Switch, Time, field};
use crate::config::network::AllowedOrigin;
use crate::config::setting::{Section, Setting, nothing};
use crate::config::{Check, Config};

const ORIGINS: &str = "cors.origins";

pub(super) static SECTION: Section = Section {
    name: "cors",
    about: "Cross-origin requests from browsers",
    settings: &[
        Setting::new(
            ORIGINS,
            &List(field!(cors.origins)),
            "The origins whose pages may call the server, or only * for all; none if empty",
        ),
        Setting::new(
            "cors.credentials",
            &Switch(field!(cors.credentials)),
            "Allow these pages to send the session cookie; not with *",
        ),
        Setting::new(
            "cors.max_age",
            &Time {
                at: field!(cors.max_age),
                min: Duration::ZERO,
                max: A_DAY,
            },
            "Time for which a browser may cache the permission",
        ),
    ],
    check,
    inspect: nothing,
};

fn check(config: &Config, check: &mut Check<'_>) {
    let origins = &config.cors.origins;
    if !origins.iter().any(AllowedOrigin::is_any) {
        return;
    }
    if origins.len() > 1 {
        check.reject(ORIGINS, &[], "must not combine * with other origins");
    }
    if config.cors.credentials {
        let requirement = "must be false if cors.origins is *; list the origins";
        check.reject("cors.credentials", &[ORIGINS], requirement);
    }
}
