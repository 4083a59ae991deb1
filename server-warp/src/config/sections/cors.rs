//! `[cors]`: which pages may call the server from a browser.

use std::time::Duration;

use super::A_DAY;
use crate::config::kind::{List, Switch, Time, field};
use crate::config::network::AllowedOrigin;
use crate::config::setting::{Section, Setting, nothing};
use crate::config::{Check, Config};

const ORIGINS: &str = "cors.origins";

pub(super) static SECTION: Section = Section {
    name: "cors",
    about: "Which pages of other origins may call the server from a browser",
    settings: &[
        Setting::new(
            ORIGINS,
            &List(field!(cors.origins)),
            "The origins whose pages may call, or * alone for all; without any no page of another origin may",
        ),
        Setting::new(
            "cors.credentials",
            &Switch(field!(cors.credentials)),
            "Whether these pages may call with the session cookie; never with *",
        ),
        Setting::new(
            "cors.max_age",
            &Time {
                at: field!(cors.max_age),
                min: Duration::ZERO,
                max: A_DAY,
            },
            "Time for which a browser may remember what it was allowed",
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
        check.refuse(ORIGINS, &[], "has * beside other origins: * stands alone");
    }
    if config.cors.credentials {
        let requirement = "must be false where cors.origins is *: name the origins";
        check.refuse("cors.credentials", &[ORIGINS], requirement);
    }
}
