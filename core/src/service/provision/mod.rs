//! Provisioning: organisations, workspaces, members, tokens and sessions, made by the operator of the service; and what
//! becomes of deliveries.
//!
//! Nothing here asks who calls. It is for the command line, for the application that links this crate, for an empty
//! deployment that needs its first token; never for what comes in over a network.

mod credentials;
mod deliveries;
mod endpoints;
mod members;
mod organizations;

pub use self::endpoints::{EndpointKind, EndpointSummary};
pub(crate) use self::members::{check_member, check_teams};

use std::time::Duration;

use serde::de::DeserializeOwned;

use super::KnowledgeService;
use crate::access::{CredentialKind, CredentialRecord, Narrowing, RoleRef, Secret};
use crate::error::Error;
use crate::model::{AudienceLabel, MemberId, MemberKind, OrgId, Organization};
use crate::keys;
use crate::store::{Key, KeyRange, MaybeSend, StoreExt, Transaction, decode_value};

/// What the operator may do, by [`KnowledgeService::provisioning`].
#[derive(Clone, Copy, Debug)]
pub struct Provisioning<'s> {
    service: &'s KnowledgeService,
}

/// A new workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWorkspace {
    /// 1 to 128 characters.
    pub name: String,
    /// 1 to 64 characters of `a-z 0-9 - _ .`; unique in the organisation.
    pub slug: String,
    /// Whom it is for; without one, the members of the workspace: `workspace:<slug>`.
    pub audience: Option<AudienceLabel>,
}

/// A new member.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NewMember {
    /// A person or a program.
    #[cfg_attr(feature = "openapi", schemars(with = "Option<MemberKind>"))]
    pub kind: MemberKind,
    /// 1 to 64 characters of `a-z 0-9 - _ .`; unique in the organisation.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Slug"))]
    pub handle: String,
    /// 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// The role in the organisation.
    pub role: RoleRef,
    /// The teams, each named as a slug is.
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<Vec<crate::schema::Slug>>")
    )]
    pub teams: Vec<String>,
}

/// A new token or session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// Whoever presents it acts as this member.
    pub member: MemberId,
    /// A bearer token or a session.
    pub kind: CredentialKind,
    /// What it is for: 1 to 128 characters.
    pub name: String,
    /// What it is narrowed to. A session cannot be narrowed.
    pub narrowing: Narrowing,
    /// How long it is taken; at most ten years.
    pub lifetime: Duration,
}

/// A token or a session that was just made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The secret, shown this once.
    pub secret: Secret,
    /// What is stored.
    pub record: CredentialRecord,
}

impl KnowledgeService {
    /// The operator's side of the service. Whoever can call this can do everything.
    #[must_use]
    pub fn provisioning(&self) -> Provisioning<'_> {
        Provisioning { service: self }
    }
}

impl Provisioning<'_> {
    async fn require_org(&self, transaction: &mut Transaction, org: OrgId) -> Result<(), Error> {
        match transaction.peek::<Organization>(&keys::org(org)).await? {
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

    /// The record that a name leads to.
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
