//! `[oidc]`: signing in with an OpenID Connect provider.

use std::time::Duration;

use knowledge_core::limits::TEAMS_PER_MEMBER_MAX;

use super::TIME_MIN;
use crate::config::kind::{List, Switch, Text, Time, field};
use crate::config::setting::{Section, Setting};
use crate::config::{Check, Config};
use crate::http_client::read_roots;
use crate::private_file::read_secret;

const ISSUER: &str = "oidc.issuer";
const CLIENT_ID: &str = "oidc.client_id";
const ORGANIZATION: &str = "oidc.organization";
const GROUPS: &str = "oidc.groups";
const SCOPES: &str = "oidc.scopes";
const SECRET_FILE: &str = "oidc.client_secret_file";
const CA_FILE: &str = "oidc.ca_file";
const PUBLIC_URL: &str = "server.public_url";

/// Maximum time for a request, during which a browser waits.
const TIMEOUT_MAX: Duration = Duration::from_secs(30);

pub(super) static SECTION: Section = Section {
    name: "oidc",
    about: "Signing in with an OpenID Connect provider, besides login links",
    settings: &[
        Setting::new(
            ISSUER,
            &Text(field!(oidc.issuer)),
            "The issuer of the provider, in its own spelling; if unset, members sign in with login \
             links only",
        ),
        Setting::new(
            CLIENT_ID,
            &Text(field!(oidc.client_id)),
            "The client identifier of this server at the provider, where its redirect URI is \
             server.public_url followed by /auth/oidc/callback",
        ),
        Setting::new(
            SECRET_FILE,
            &Text(field!(oidc.client_secret_file)),
            "The file with the client secret, readable by its owner only; without one this server is \
             a public client",
        ),
        Setting::new(
            ORGANIZATION,
            &Text(field!(oidc.organization)),
            "The slug of the organisation whose members sign in",
        ),
        Setting::new(
            "oidc.label",
            &Text(field!(oidc.label)),
            "The name of the provider on the sign-in page, after \"Sign in with\"",
        ),
        Setting::new(
            SCOPES,
            &List(field!(oidc.scopes)),
            "The requested scopes, besides openid",
        ),
        Setting::new(
            "oidc.member_claim",
            &Text(field!(oidc.member_claim)),
            "The claim that identifies a member, whose handle follows from it; email only where \
             email_verified is true",
        ),
        Setting::new(
            "oidc.groups_claim",
            &Text(field!(oidc.groups_claim)),
            "The claim with the groups of a person",
        ),
        Setting::new(
            GROUPS,
            &List(field!(oidc.groups)),
            "The teams and roles of groups, which every sign-in brings in line; of several roles in \
             one place the first in this list counts",
        ),
        Setting::new(
            "oidc.default_role",
            &Text(field!(oidc.default_role)),
            "The role of new members, and of members with a role of oidc.groups, to whom no group \
             grants one",
        ),
        Setting::new(
            "oidc.create_members",
            &Switch(field!(oidc.create_members)),
            "Add people who belong to a group in oidc.groups as members",
        ),
        Setting::new(
            CA_FILE,
            &Text(field!(oidc.ca_file)),
            "The CA certificates (PEM) for the provider; if unset, those of the operating system",
        ),
        Setting::new(
            "oidc.timeout",
            &Time {
                at: field!(oidc.timeout),
                min: TIME_MIN,
                max: TIMEOUT_MAX,
            },
            "Time for each request to the provider",
        ),
    ],
    check,
    inspect,
};

fn check(config: &Config, check: &mut Check<'_>) {
    let oidc = &config.oidc;
    if oidc.issuer.is_some() {
        let required = [
            (CLIENT_ID, oidc.client_id.is_none()),
            (ORGANIZATION, oidc.organization.is_none()),
            (PUBLIC_URL, config.public_url.is_none()),
        ];
        for (setting, _) in required.iter().filter(|(_, is_missing)| *is_missing) {
            check.reject(setting, &[ISSUER], "must be set if oidc.issuer is");
        }
    }
    // A member of all groups could not sign in.
    if oidc.team_count() > TEAMS_PER_MEMBER_MAX {
        let message = format!("must have at most {TEAMS_PER_MEMBER_MAX} teams");
        check.reject(GROUPS, &[], &message);
    }
    // They are joined by spaces.
    let is_scope = |scope: &String| scope.bytes().all(|byte| byte.is_ascii_graphic());
    if !oidc.scopes.iter().all(is_scope) {
        check.reject(SCOPES, &[], "must be without spaces and in ASCII");
    }
}

fn inspect(config: &Config, check: &mut Check<'_>) {
    let oidc = &config.oidc;
    if let Some(path) = &oidc.client_secret_file
        && let Err(problem) = read_secret(path)
    {
        check.reject(SECRET_FILE, &[], &format!("cannot be used: {problem}"));
    }
    if let Some(path) = &oidc.ca_file
        && let Err(problem) = read_roots(path)
    {
        let path = path.display();
        check.reject(CA_FILE, &[], &format!("cannot be used: {path}: {problem}"));
    }
}
