//! `[sign_in]`: the sessions of members who sign in on the server's pages.

use std::time::Duration;

use super::A_DAY;
use crate::config::kind::{Time, field};
use crate::config::setting::{Section, Setting, nothing};
use crate::config::{Check, Config};

const IDLE: &str = "sign_in.idle_timeout";
const ABSOLUTE: &str = "sign_in.absolute_timeout";

const MINUTE: Duration = Duration::from_secs(60);
/// Maximum lifetime of any session.
const LIFETIME_MAX: Duration = A_DAY.saturating_mul(400);

pub(super) static SECTION: Section = Section {
    name: "sign_in",
    about: "Sessions of members who sign in with a login link or a provider; changes apply to new sessions",
    settings: &[
        Setting::new(
            IDLE,
            &Time {
                at: field!(session_timeouts.idle),
                min: MINUTE,
                max: LIFETIME_MAX,
            },
            "Time without a use after which a session ends, in whole seconds; as uses are recorded \
             once an hour, it ends up to an hour later, but never earlier",
        ),
        Setting::new(
            ABSOLUTE,
            &Time {
                at: field!(session_timeouts.absolute),
                min: MINUTE,
                max: LIFETIME_MAX,
            },
            "Time from the sign-in after which a session ends, whatever its use",
        ),
    ],
    check,
    inspect: nothing,
};

fn check(config: &Config, check: &mut Check<'_>) {
    if config.session_timeouts.idle.subsec_nanos() > 0 {
        check.reject(IDLE, &[], "must be in whole seconds");
    }
}
