//! What callers present to be recognised by: opaque secrets of which only a hash is stored.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::ActionSet;
use crate::env::Env;
use crate::model::{AudienceLabel, CredentialId, MemberId, OrgId, Timestamp, WorkspaceId};

crate::model::names::string_enum! {
    /// How a credential is carried, and so which operations take it.
    CredentialKind {
        /// `Authorization: Bearer wkt_…`
        Bearer = "bearer",
        /// The cookie `service_session=wks_…`
        Session = "session",
    }
}

impl CredentialKind {
    /// What its secrets begin with.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Bearer => "wkt_",
            Self::Session => "wks_",
        }
    }
}

/// How many random bytes a secret has.
const SECRET_RANDOM_BYTES: usize = 32;

/// An access token or a session as its holder has it: `wkt_` or `wks_`, the organisation as a hint for routers, and
/// 32 random bytes. Nothing is decided by the hint.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    kind: CredentialKind,
    text: String,
}

/// A text that cannot be a [`Secret`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an access token or a session of this service")]
pub struct InvalidSecret;

impl Secret {
    /// A new secret.
    #[must_use]
    pub fn generate(kind: CredentialKind, org: OrgId, env: &Env) -> Self {
        let random = URL_SAFE_NO_PAD.encode(env.random::<SECRET_RANDOM_BYTES>());
        Self {
            kind,
            text: format!("{}{}_{random}", kind.prefix(), org.0.simple()),
        }
    }

    /// How it is carried.
    #[must_use]
    pub fn kind(&self) -> CredentialKind {
        self.kind
    }

    /// The organisation that the secret says it belongs to: untrusted, for finding the right store.
    #[must_use]
    pub fn org_hint(&self) -> Option<OrgId> {
        let (hint, _) = self.text[self.kind.prefix().len()..].split_once('_')?;
        hint.parse().ok().map(OrgId)
    }

    /// What is stored of it.
    #[must_use]
    pub fn hash(&self) -> SecretHash {
        SecretHash(Sha256::digest(self.text.as_bytes()).into())
    }

    /// The secret itself, to be shown once to its holder.
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
            .then(|| Self {
                kind,
                text: text.to_owned(),
            })
            .ok_or(InvalidSecret)
    }
}

/// The SHA-256 of a [`Secret`]. A secret has 256 random bits, so that a fast hash without salt is enough.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SecretHash(pub [u8; 32]);

impl fmt::Display for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for SecretHash {
    type Err = InvalidSecret;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 32];
        if text.len() != 2 * bytes.len() || !text.is_ascii() {
            return Err(InvalidSecret);
        }
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16)
                .map_err(|_| InvalidSecret)?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a caller of the service presents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A secret that was sent: an access token or a session.
    Secret(Secret),
    /// A member that the application vouches for, which recognised it by means of its own. Never made of anything
    /// that came over a network unchecked. It acts with the member's whole role.
    Trusted {
        /// The organisation.
        org: OrgId,
        /// The member.
        member: MemberId,
    },
}

impl From<Secret> for Credential {
    fn from(secret: Secret) -> Self {
        Self::Secret(secret)
    }
}

/// What a token is narrowed to; what is absent narrows nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Narrowing {
    /// The workspaces that it works in. A token so narrowed does nothing for the organisation as a whole.
    pub workspaces: Option<Vec<WorkspaceId>>,
    /// The actions that it may be used for, of those that its member has.
    pub actions: Option<ActionSet>,
    /// The audience labels that it covers, instead of its member's: an MCP key has them.
    pub audience: Option<Vec<AudienceLabel>>,
}

impl Narrowing {
    /// Whether the credential works in the workspace.
    #[must_use]
    pub fn admits(&self, workspace: WorkspaceId) -> bool {
        self.workspaces
            .as_ref()
            .is_none_or(|workspaces| workspaces.contains(&workspace))
    }
}

/// What is stored of an access token or a session. It changes when it is revoked and never otherwise: when it was
/// last used stands elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialRecord {
    /// The identifier.
    pub id: CredentialId,
    /// How it is carried.
    pub kind: CredentialKind,
    /// What it is for, in its holder's words.
    pub name: String,
    /// The organisation.
    pub org_id: OrgId,
    /// Whoever presents it acts as this member.
    pub member_id: MemberId,
    /// What it is narrowed to.
    pub narrowing: Narrowing,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it counts as absent.
    pub expires_at: Timestamp,
    /// From when on it is refused.
    pub revoked_at: Option<Timestamp>,
}

impl CredentialRecord {
    /// Whether it is taken at this time.
    #[must_use]
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        now < self.expires_at && self.revoked_at.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env() -> Env {
        Env::new(
            || Timestamp::UNIX_EPOCH,
            |buffer: &mut [u8]| buffer.fill(0xA5),
        )
    }

    #[test]
    fn a_secret_reads_back_and_hides_itself() {
        let org = OrgId(uuid::Uuid::from_u128(7));
        for kind in CredentialKind::ALL {
            let secret = Secret::generate(*kind, org, &env());
            assert_eq!(secret.expose().parse::<Secret>().unwrap(), secret);
            assert_eq!(secret.org_hint(), Some(org));
            assert!(!format!("{secret:?}").contains(&secret.expose()[8..]));
        }
    }

    #[test]
    fn refuses_what_is_no_secret() {
        let whole = Secret::generate(CredentialKind::Bearer, OrgId(uuid::Uuid::nil()), &env());
        let short = &whole.expose()[..whole.expose().len() - 2];
        for text in ["", "wkt_", "wkt_a_b", "Bearer", short] {
            assert_eq!(text.parse::<Secret>(), Err(InvalidSecret), "{text}");
        }
    }
}
