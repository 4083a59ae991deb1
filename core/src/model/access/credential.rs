//! Credentials: opaque secrets, of which only a hash is stored.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::ActionSet;
use crate::digest::hex;
use crate::env::Env;
use crate::model::{AudienceLabel, CredentialId, MemberId, OrgId, Timestamp, WorkspaceId};

crate::model::names::string_enum! {
    /// Kind of a credential: its carrier, and so what accepts it.
    CredentialKind {
        /// `Authorization: Bearer wkt_…`
        Bearer = "bearer",
        /// The cookie `service_session=wks_…`
        Session = "session",
        /// The one-time link `…/#/login/wkl_…`, which signing in exchanges for a session
        Link = "link",
    }
}

impl CredentialKind {
    /// Returns the prefix of its secrets.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Bearer => "wkt_",
            Self::Session => "wks_",
            Self::Link => "wkl_",
        }
    }
}

/// Number of random bytes in a secret.
const SECRET_RANDOM_BYTES: usize = 32;
/// Period in which uses of a credential are recorded once, in milliseconds.
pub(crate) const USE_WINDOW_MS: i64 = 60 * 60 * 1_000;

/// An access token, a session or a login link in clear text.
///
/// It consists of `wkt_`, `wks_` or `wkl_`, the organisation as a hint for routers, and 32 random
/// bytes. No decision depends on the hint.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    kind: CredentialKind,
    text: String,
    /// Kept, as each part of a request asks for it.
    hash: SecretHash,
}

/// Error of a text that is not a [`Secret`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an access token, a session or a login link of this service")]
pub struct InvalidSecret;

impl Secret {
    /// Generates a new secret.
    #[must_use]
    pub fn generate(kind: CredentialKind, org: OrgId, env: &Env) -> Self {
        Self::of_bytes(kind, org, env.random())
    }

    /// Returns the secret with these bytes, which nobody else can know.
    pub(crate) fn of_bytes(
        kind: CredentialKind,
        org: OrgId,
        bytes: [u8; SECRET_RANDOM_BYTES],
    ) -> Self {
        let random = URL_SAFE_NO_PAD.encode(bytes);
        Self::new(
            kind,
            format!("{}{}_{random}", kind.prefix(), org.0.simple()),
        )
    }

    fn new(kind: CredentialKind, text: String) -> Self {
        let hash = SecretHash(Sha256::digest(text.as_bytes()).into());
        Self { kind, text, hash }
    }

    /// Returns the kind of the credential.
    #[must_use]
    pub fn kind(&self) -> CredentialKind {
        self.kind
    }

    /// Returns the organisation named in the secret: an untrusted hint for finding the right store.
    #[must_use]
    pub fn org_hint(&self) -> Option<OrgId> {
        let (hint, _) = self.text[self.kind.prefix().len()..].split_once('_')?;
        hint.parse().ok().map(OrgId)
    }

    /// Returns the hash that is stored.
    #[must_use]
    pub fn hash(&self) -> SecretHash {
        self.hash
    }

    /// Returns the clear text, to be shown once to its holder.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}…", self.kind.prefix())
    }
}

impl FromStr for Secret {
    type Err = InvalidSecret;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let kind = CredentialKind::ALL
            .iter()
            .copied()
            .find(|kind| text.starts_with(kind.prefix()));
        let kind = kind.ok_or(InvalidSecret)?;
        let (_, random) = text[kind.prefix().len()..]
            .split_once('_')
            .ok_or(InvalidSecret)?;
        let is_whole = URL_SAFE_NO_PAD
            .decode(random)
            .is_ok_and(|bytes| bytes.len() == SECRET_RANDOM_BYTES);
        is_whole
            .then(|| Self::new(kind, text.to_owned()))
            .ok_or(InvalidSecret)
    }
}

/// The SHA-256 of a [`Secret`]. Its 256 random bits make a fast hash without salt sufficient.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SecretHash(pub [u8; 32]);

impl fmt::Display for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(self.0))
    }
}

impl FromStr for SecretHash {
    type Err = InvalidSecret;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 32];
        let digits = base16ct::lower::decode(text, &mut bytes);
        if digits.map_err(|_| InvalidSecret)?.len() != bytes.len() {
            return Err(InvalidSecret);
        }
        Ok(Self(bytes))
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A credential as the caller presents it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// The clear text of an access token or a session.
    Secret(Secret),
    /// A member that the application has authenticated by its own means.
    ///
    /// Never create it from unverified network input. It acts with the whole role of the member.
    Trusted {
        /// Organisation of the member.
        org: OrgId,
        /// Identifier of the member.
        member: MemberId,
    },
}

impl Credential {
    /// Returns the organisation that the credential belongs to if it is valid.
    ///
    /// The stored hash covers the whole secret, so that one with another organisation is unknown.
    /// A secret without an organisation is never valid; the nil identifier stands in for it.
    pub(crate) fn org(&self) -> OrgId {
        match self {
            Self::Secret(secret) => secret.org_hint().unwrap_or(OrgId(uuid::Uuid::nil())),
            Self::Trusted { org, .. } => *org,
        }
    }
}

impl From<Secret> for Credential {
    fn from(secret: Secret) -> Self {
        Self::Secret(secret)
    }
}

/// Scope of a token. An absent field does not restrict it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct TokenScope {
    /// Workspaces that it is valid in. Such a token is not valid for the organisation as a whole.
    pub workspaces: Option<Vec<WorkspaceId>>,
    /// Actions that it may be used for, of those that its member has.
    pub actions: Option<ActionSet>,
    /// Audience labels that it covers, of those that cover its member. MCP keys have them.
    pub audience: Option<Vec<AudienceLabel>>,
}

impl TokenScope {
    /// Returns true if the scope includes the workspace.
    #[must_use]
    pub fn admits(&self, workspace: WorkspaceId) -> bool {
        self.workspaces
            .as_ref()
            .is_none_or(|workspaces| workspaces.contains(&workspace))
    }

    /// Returns the intersection of two scopes.
    #[must_use]
    pub(crate) fn intersect(self, other: Self) -> Self {
        Self {
            workspaces: in_both(self.workspaces, other.workspaces),
            actions: match (self.actions, other.actions) {
                (Some(these), Some(others)) => Some(these & others),
                (these, others) => these.or(others),
            },
            audience: in_both(self.audience, other.audience),
        }
    }
}

/// Returns the items that both lists contain; an absent list contains every item.
fn in_both<T: PartialEq>(these: Option<Vec<T>>, others: Option<Vec<T>>) -> Option<Vec<T>> {
    match (these, others) {
        (Some(mut these), Some(others)) => {
            these.retain(|item| others.contains(item));
            Some(these)
        }
        (these, others) => these.or(others),
    }
}

/// Stored record of an access token, a session or a login link.
///
/// Only revocation changes it: the time of its last use is stored separately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialRecord {
    /// Identifier of the credential.
    pub id: CredentialId,
    /// Kind of the credential.
    pub kind: CredentialKind,
    /// Purpose, in the words of its creator.
    pub name: String,
    /// Organisation of the member.
    pub org_id: OrgId,
    /// Member that it authenticates.
    pub member_id: MemberId,
    /// Scope of the credential.
    pub scope: TokenScope,
    /// Credential that created an MCP key or last rotated it, the session of an access token, or
    /// the one with which a member created a login link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_with: Option<CredentialId>,
    /// Credential that created that one: the session of the API token that created an MCP key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_through: Option<CredentialId>,
    /// Member that created a login link for a person whom it added; `None` for a link that the
    /// operator issued, and for any other credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<MemberId>,
    /// True if it is invalid without `created_with`: an access token, or an MCP key that was
    /// created or last rotated with a scoped token. Any other MCP key depends on its member only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_dependent: bool,
    /// Time without a use after which a session, or the session of an access token, is invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_seconds: Option<u64>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time from which it is treated as unknown.
    pub expires_at: Timestamp,
    /// Time of revocation, from which it is rejected.
    pub revoked_at: Option<Timestamp>,
    /// True if what it created was ended with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_revoked_with_created: bool,
}

impl CredentialRecord {
    /// Returns true if it is accepted at this time.
    #[must_use]
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        now < self.expires_at && self.revoked_at.is_none()
    }

    /// Returns true if it is an access token that a session was exchanged for.
    ///
    /// MCP keys, which may depend on another credential too, are scoped to a workspace.
    pub(crate) fn is_of_session(&self) -> bool {
        let is_token = self.kind == CredentialKind::Bearer;
        is_token && self.is_dependent && self.scope == TokenScope::default()
    }

    /// Returns true if its idle time-out has ended, given the recorded time of the last use of the
    /// session.
    pub(crate) fn is_idle(&self, last_use: Option<Timestamp>, now: Timestamp) -> bool {
        let timeout = self.idle_timeout();
        timeout.is_some_and(|timeout| timeout.has_ended(last_use, now))
    }

    /// Returns the idle time-out, if there is one.
    pub(crate) fn idle_timeout(&self) -> Option<IdleTimeout> {
        Some(IdleTimeout {
            session: self.created_with.unwrap_or(self.id),
            created_at: self.created_at,
            timeout: Duration::from_secs(self.idle_timeout_seconds?),
        })
    }
}

/// Idle time-out of a session, which its access tokens have too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleTimeout {
    /// Session whose uses count.
    pub(crate) session: CredentialId,
    created_at: Timestamp,
    timeout: Duration,
}

impl IdleTimeout {
    /// Returns true if the time-out has ended, given the recorded time of the last use.
    ///
    /// Of the uses in an hour only the first is recorded, so the time-out begins when that hour
    /// ends: it never ends a session early, and it ends one at most an hour late.
    pub(crate) fn has_ended(self, last_use: Option<Timestamp>, now: Timestamp) -> bool {
        let used = last_use.map_or(self.created_at, |used| used.max(self.created_at));
        let hour = used.as_millis().div_euclid(USE_WINDOW_MS);
        let hour_end = Timestamp::from_millis(hour.saturating_add(1).saturating_mul(USE_WINDOW_MS));
        now >= hour_end.plus(self.timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Action;

    fn env() -> Env {
        Env::new(
            || Timestamp::UNIX_EPOCH,
            |buffer: &mut [u8]| buffer.fill(0xA5),
        )
    }

    #[test]
    fn secret_round_trips_and_is_redacted_in_debug_output() {
        let org = OrgId(uuid::Uuid::from_u128(7));
        for kind in CredentialKind::ALL {
            let secret = Secret::generate(*kind, org, &env());
            assert_eq!(secret.expose().parse::<Secret>().unwrap(), secret);
            assert_eq!(secret.org_hint(), Some(org));
            let shown = format!("{secret:?} {:?}", secret.hash());
            assert_eq!(shown, format!("{}… {}", kind.prefix(), secret.hash()));
        }
    }

    #[test]
    fn intersection_of_scopes_has_what_both_permit() {
        let [first, second] = [1, 2].map(|number| WorkspaceId(uuid::Uuid::from_u128(number)));
        let label = |text: &str| text.parse::<AudienceLabel>().unwrap();
        let wide = TokenScope {
            workspaces: Some(vec![first, second]),
            actions: Some(ActionSet::of(&[Action::MemoryRead, Action::ChatWrite])),
            audience: Some(vec![label("org:acme"), label("team:platform")]),
        };
        let narrow = TokenScope {
            workspaces: Some(vec![second]),
            actions: Some(ActionSet::of(&[Action::ChatWrite, Action::AuditRead])),
            audience: Some(vec![label("team:platform"), label("user:mia")]),
        };
        let both = TokenScope {
            workspaces: Some(vec![second]),
            actions: Some(ActionSet::of(&[Action::ChatWrite])),
            audience: Some(vec![label("team:platform")]),
        };
        assert_eq!(wide.clone().intersect(narrow.clone()), both);
        assert_eq!(narrow.intersect(wide.clone()), both);
        let unrestricted = TokenScope::default();
        assert_eq!(wide.clone().intersect(unrestricted.clone()), wide);
        assert_eq!(unrestricted.intersect(wide.clone()), wide);
    }

    #[test]
    fn secret_parser_rejects_malformed_text() {
        let whole = Secret::generate(CredentialKind::Bearer, OrgId(uuid::Uuid::nil()), &env());
        let short = &whole.expose()[..whole.expose().len() - 2];
        for text in ["", "wkt_", "wkt_a_b", "Bearer", short] {
            assert_eq!(text.parse::<Secret>(), Err(InvalidSecret), "{text}");
        }
    }
}
