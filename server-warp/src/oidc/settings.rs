//! Configuration of the provider and of the members that it signs in.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use knowledge_core::access::BuiltInRole;
use serde_json::{Map, Value};
use url::{Host, Url};

use super::groups::{Grant, GrantedRole, GroupGrant};
use crate::http_client::RootsError;

/// Path of a provider's metadata (OpenID Connect Discovery 1.0, section 4).
const DISCOVERY_PATH: &str = "/.well-known/openid-configuration";

/// Configuration of sign-ins with an OpenID Connect provider.
#[derive(Clone, Debug, PartialEq)]
pub struct OidcConfig {
    /// Issuer; without one, nobody signs in this way.
    pub issuer: Option<Issuer>,
    /// Identifier of this server at the provider.
    pub client_id: Option<String>,
    /// File with the secret of this server at the provider; without one it is a public client.
    pub client_secret_file: Option<PathBuf>,
    /// Slug of the organisation whose members sign in.
    pub organization: Option<String>,
    /// Name of the provider for people.
    pub label: String,
    /// Requested scopes, besides `openid`.
    pub scopes: Vec<String>,
    /// Claim that identifies the member.
    pub member_claim: String,
    /// Audience of the provider's access tokens (RFC 9068) that are accepted as bearer tokens;
    /// without one, none are.
    pub access_token_audience: Option<String>,
    /// Claim with the groups of a person.
    pub groups_claim: String,
    /// True to refuse a person without that claim; otherwise its teams and roles stay.
    pub groups_required: bool,
    /// Teams and roles of the members of groups. Of several roles in one place, the first counts.
    pub groups: Vec<GroupGrant>,
    /// Role in the organisation of those to whom no group grants one.
    pub default_role: GrantedRole,
    /// True to add people who have a group of [`groups`](Self::groups) and are no members.
    pub create_members: bool,
    /// CA certificates that replace those of the operating system.
    pub ca_file: Option<PathBuf>,
    /// Time for each request to the provider.
    pub timeout: Duration,
}

impl Default for OidcConfig {
    fn default() -> Self {
        Self {
            issuer: None,
            client_id: None,
            client_secret_file: None,
            organization: None,
            label: "single sign-on".to_owned(),
            scopes: ["profile", "email"].map(str::to_owned).into(),
            member_claim: "sub".to_owned(),
            access_token_audience: None,
            groups_claim: "groups".to_owned(),
            groups_required: false,
            groups: Vec::new(),
            default_role: GrantedRole::BuiltIn(BuiltInRole::Viewer),
            create_members: false,
            ca_file: None,
            timeout: Duration::from_secs(10),
        }
    }
}

impl OidcConfig {
    /// Returns the number of teams that [`groups`](Self::groups) has.
    pub(crate) fn team_count(&self) -> usize {
        let teams = self.groups.iter().filter_map(|rule| match &rule.grant {
            Grant::Team(team) => Some(team),
            Grant::Role(..) => None,
        });
        teams.collect::<BTreeSet<_>>().len()
    }

    /// Returns true if a claim that a sign-in uses is missing.
    pub(super) fn lacks_claims(&self, claims: &Map<String, Value>) -> bool {
        let mut used = vec![self.member_claim.as_str()];
        if self.member_claim == "email" {
            used.push("email_verified");
        }
        if !self.groups.is_empty() {
            used.push(&self.groups_claim);
        }
        if self.create_members {
            used.push("name");
        }
        used.iter().any(|name| !claims.contains_key(*name))
    }
}

/// URL of a provider, in its own spelling: `https`, or `http` on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer(String);

impl Issuer {
    /// Parses an issuer; `None` if it is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // The parser of URLs removes some white space; the issuer is compared as it is written.
        let is_unusual = |char: char| {
            matches!(char, '?' | '#' | '@') || char.is_whitespace() || char.is_control()
        };
        let is_plain = !text.contains(is_unusual);
        (is_plain && is_permitted_url(text)).then(|| Self(text.to_owned()))
    }

    /// Returns the URL as it was written; the issuer in an ID token is compared with it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the part of the path that stands for any tenant of Entra ID, or for a placeholder, if
    /// there is one: no token has such an issuer.
    pub(crate) fn segment_of_any_tenant(&self) -> Option<&str> {
        let is_entra = self.0.starts_with("https://login.microsoftonline.");
        let mut segments = self.0.split('/').skip(3);
        segments.find(|segment| {
            let names_any = ["common", "organizations", "consumers"].contains(segment);
            (is_entra && names_any) || segment.contains(['{', '}'])
        })
    }

    pub(super) fn discovery_url(&self) -> String {
        format!("{}{DISCOVERY_PATH}", self.0.trim_end_matches('/'))
    }
}

impl fmt::Display for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns true for a URL whose traffic cannot be read on the network: `https`, or of this machine.
pub(super) fn is_permitted_url(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else {
        return false;
    };
    let is_here = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    url.scheme() == "https" || url.scheme() == "http" && is_here
}

/// Error of setting up sign-ins with a provider.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OidcError {
    /// A setting is missing.
    #[error("{setting} must be set if oidc.issuer is")]
    Missing {
        /// Name of the setting.
        setting: &'static str,
    },
    /// The file with the secret cannot be used.
    #[error("oidc.client_secret_file: {0}")]
    Secret(String),
    /// The CA file cannot be used.
    #[error("oidc.ca_file: {0}")]
    Authorities(#[from] RootsError),
    /// The HTTP client cannot be set up.
    #[error("the client for the OpenID Connect provider: {0}")]
    Client(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuer_is_https_or_of_this_machine() {
        for issuer in [
            "https://login.example.com",
            "https://login.example.com/realms/a/",
            "http://127.0.0.1:3000",
            "http://localhost:3000/a",
            "http://[::1]:3000",
        ] {
            assert_eq!(Issuer::parse(issuer).expect(issuer).as_str(), issuer);
        }
        for other in [
            "",
            "login.example.com",
            "http://login.example.com",
            "http://localhost.example.com",
            "ftp://127.0.0.1",
            "https://login.example.com?a=b",
            "https://login.example.com#a",
            "https://maya@login.example.com",
            " https://login.example.com",
            "https://login.example.com ",
            "https://login.example.com/\n",
            "https://login.exam\tple.com",
            "https://login.example.com/a b",
            "https://login.example.com/\u{a0}",
            "https://login.example.com/\0",
        ] {
            assert_eq!(Issuer::parse(other), None, "{other}");
        }
        let issuer = Issuer::parse("https://a.example/b/").unwrap();
        let expected = "https://a.example/b/.well-known/openid-configuration";
        assert_eq!(issuer.discovery_url(), expected);
    }
}
