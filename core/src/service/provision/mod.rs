//! Provisioning: the interface of the service's operator.
//!
//! The operator creates organisations, workspaces, members, tokens and sessions, and inspects and
//! redelivers deliveries.
//!
//! Nothing here authenticates the caller. It is meant for the command line, for the application
//! that links this crate, and for an empty deployment that needs its first token; never for
//! requests from a network.

mod credentials;
mod deliveries;
mod endpoints;
mod members;
mod organizations;

pub use self::endpoints::{EndpointKind, EndpointSummary};
pub(crate) use self::members::{check_member, check_teams};

use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::access::{CredentialKind, CredentialRecord, RoleRef, Secret, TokenScope};
use crate::error::Error;
use crate::keys;
use crate::model::{AudienceLabel, MemberId, MemberKind, OrgId, Organization};
use crate::service::KnowledgeService;
use crate::store::{Key, KeyRange, MaybeSend, StoreExt, Transaction, decode_value};

/// Operator's view of a service, returned by [`KnowledgeService::provisioning`].
#[derive(Clone, Copy, Debug)]
pub struct Provisioning<'s> {
    service: &'s KnowledgeService,
}

/// A new workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWorkspace {
    /// Name, 1 to 128 characters.
    pub name: String,
    /// Slug, 1 to 64 characters of `a-z 0-9 - _ .`, unique in the organisation.
    pub slug: String,
    /// Audience label; by default the members of the workspace: `workspace:<slug>`.
    pub audience: Option<AudienceLabel>,
}

/// A new member.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NewMember {
    /// Kind: a user or a service account.
    #[cfg_attr(feature = "openapi", schemars(with = "Option<MemberKind>"))]
    pub kind: MemberKind,
    /// Handle, 1 to 64 characters of `a-z 0-9 - _ .`, unique in the organisation.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Slug"))]
    pub handle: String,
    /// Name, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// Role in the organisation.
    pub role: RoleRef,
    /// Teams. Their names have the form of slugs.
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<Vec<crate::schema::Slug>>")
    )]
    pub teams: Vec<String>,
}

/// A new token or session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// Member that it acts as.
    pub member: MemberId,
    /// Kind: a bearer token or a session.
    pub kind: CredentialKind,
    /// Name that states its purpose, 1 to 128 characters.
    pub name: String,
    /// Scope; empty for a session.
    pub scope: TokenScope,
    /// Lifetime, greater than 0 and at most ten years.
    pub lifetime: Duration,
}

/// A new token or session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The secret, returned only here.
    pub secret: Secret,
    /// Stored record.
    pub record: CredentialRecord,
}

impl KnowledgeService {
    /// Returns the operator's interface.
    ///
    /// Its methods check no permissions: code that can call them can do everything.
    #[must_use]
    pub fn provisioning(&self) -> Provisioning<'_> {
        Provisioning { service: self }
    }
}

impl Provisioning<'_> {
    async fn require_org(&self, transaction: &mut Transaction, org: OrgId) -> Result<(), Error> {
        match transaction
            .read_unchecked::<Organization>(&keys::org(org))
            .await?
        {
            Some(_) => Ok(()),
            None => Err(Error::NotFound {
                what: "organisation",
            }),
        }
    }

    async fn list<T: DeserializeOwned>(&self, range: &KeyRange) -> Result<Vec<T>, Error> {
        let found = self.service.store().scan_all(range).await?;
        found
            .iter()
            .map(|found| decode_value(found).map_err(Error::from))
            .collect()
    }

    /// Reads the record that a name refers to.
    async fn named<I, T>(&self, name: &Key, place: impl Fn(I) -> Key) -> Result<Option<T>, Error>
    where
        I: DeserializeOwned + MaybeSend,
        T: DeserializeOwned + MaybeSend,
    {
        let store = self.service.store();
        let Some(id) = store.get_as::<I>(name).await? else {
            return Ok(None);
        };
        let found = store.get_as::<T>(&place(id.value)).await?;
        Ok(found.map(|found| found.value))
    }
}
