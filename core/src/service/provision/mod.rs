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
mod groups;
mod members;
mod organizations;
mod removal;

pub(in crate::service) use self::credentials::{mark_revoked, place, revoke};
pub use self::endpoints::{EndpointKind, EndpointSummary};

use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::access::{CredentialKind, CredentialRecord, RoleRef, Secret, TokenScope};
use crate::error::{EntityKind, Error};
use crate::keys;
use crate::limits::TEAMS_PER_MEMBER_MAX;
use crate::model::{AudienceLabel, MemberId, MemberKind, OrgId, Organization, WorkspaceAccess};
use crate::request::request;
use crate::request::rules::{Flag, Items, List, Name, Object, Parsed, Slug};
use crate::service::page::{Listing, Page, PageRecord, PageRequest};
use crate::service::{ClientInfo, KnowledgeService};
use crate::store::{Direction, Key, KeyRange, MaybeSend, StoreExt, Transaction, decode_value};

/// Operator's view of a service, returned by [`KnowledgeService::provisioning`].
#[derive(Clone, Copy, Debug)]
pub struct Provisioning<'s> {
    pub(in crate::service) service: &'s KnowledgeService,
    pub(in crate::service) client: ClientInfo,
}

request! {
    /// A new organisation.
    pub struct NewOrganization {
        /// Slug, unique in the store.
        slug: String as Slug,
        /// Name, 1 to 128 characters.
        name: String as Name,
        /// First member, an owner.
        owner: NewOwner as Object<NewOwner>,
    }
}

request! {
    /// The first member of a new organisation.
    pub struct NewOwner {
        /// Handle, unique in the organisation.
        handle: String as Slug,
        /// Name, 1 to 128 characters.
        name: String as Name,
        /// Teams. Their names have the form of slugs.
        teams: Vec<String> as List<Slug, Items<0, TEAMS_PER_MEMBER_MAX>> = Vec::new(),
    }
}

request! {
    /// A new workspace.
    pub struct NewWorkspace {
        /// Slug, 1 to 64 characters of `a-z 0-9 - _ .`, unique in the organisation.
        slug: String as Slug,
        /// Name, 1 to 128 characters.
        name: String as Name,
        /// Audience label; by default the members of the workspace: `workspace:<slug>`.
        audience: Option<AudienceLabel> as Option<Parsed<AudienceLabel>>,
        /// Access: its people are all members (`open`), or those with a role in it and owners
        /// (`private`).
        access: WorkspaceAccess as Parsed<WorkspaceAccess> = WorkspaceAccess::Open,
    }
}

request! {
    /// A new member.
    ///
    /// Only a person signs in, so only a person gets a login link.
    #[schemars(extend("anyOf" = [
        {
            "title": "NewPerson",
            "description": "A new member who is a person.",
            "properties": { "kind": { "const": "user" } },
        },
        {
            "title": "NewServiceAccount",
            "description": "A new member that is a service account.",
            "properties": {
                "kind": { "const": "service_account" },
                "login_link": { "const": false },
            },
            "required": ["kind"],
        },
    ]))]
    pub struct NewMember {
        /// Kind: a user or a service account.
        kind: MemberKind as Parsed<MemberKind> = MemberKind::User,
        /// Handle, 1 to 64 characters of `a-z 0-9 - _ .`, unique in the organisation.
        handle: String as Slug,
        /// Name, 1 to 128 characters.
        name: String as Name,
        /// Role in the organisation: `viewer`, `member`, `admin`, `owner`, or the UUID of a custom
        /// role.
        role: RoleRef as Parsed<RoleRef>,
        /// Teams. Their names have the form of slugs.
        teams: Vec<String> as List<Slug, Items<0, TEAMS_PER_MEMBER_MAX>> = Vec::new(),
        /// True for a login link in the response, with which a person signs in once, within a day.
        ///
        /// Only for members that add a member: the operator issues links.
        login_link: bool as Flag = false,
    }
}

/// A new token, session or login link.
#[derive(Clone, Debug, PartialEq, Eq, bon::Builder)]
#[builder(on(String, into))]
#[non_exhaustive]
pub struct NewToken {
    /// Member that it acts as.
    pub member: MemberId,
    /// Kind: a bearer token, a session or a login link.
    pub kind: CredentialKind,
    /// Name that states its purpose, 1 to 128 characters.
    pub name: String,
    /// Scope; empty for a session or a login link.
    #[builder(default)]
    pub scope: TokenScope,
    /// Lifetime, greater than 0 and at most 400 days, or ten years if it is long-lived; of a login
    /// link at most a day.
    pub lifetime: Duration,
    /// True to accept a lifetime of more than 400 days.
    #[builder(default)]
    pub is_long_lived: bool,
}

/// A new token, session or login link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The secret, returned only here.
    pub secret: Secret,
    /// Stored record.
    pub record: CredentialRecord,
}

/// # Provisioning
impl KnowledgeService {
    /// Returns the operator's interface.
    ///
    /// Its methods check no permissions: code that can call them can do everything.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../example.txt")]
    /// use std::time::Duration;
    ///
    /// use knowledge_core::access::{Action, ActionSet, CredentialKind, TokenScope};
    /// use knowledge_core::service::{Caller, NewToken};
    ///
    /// // A token for a program that reads the memories of one workspace.
    /// let scope = TokenScope {
    ///     workspaces: Some(vec![workspace]),
    ///     actions: Some(ActionSet::of(&[Action::MemoryRead])),
    ///     audience: None,
    /// };
    /// let (kind, lifetime) = (CredentialKind::Bearer, Duration::from_secs(24 * 60 * 60));
    /// let new = NewToken::builder().member(grace).kind(kind).name("Search").scope(scope);
    /// let new = new.lifetime(lifetime).build();
    /// let issued = service.provisioning().issue(org.id, &new).await?;
    /// let token = Caller::new(issued.secret);
    /// assert_eq!(service.authenticate(&token, kind).await?.member.id, grace);
    ///
    /// service.provisioning().revoke(org.id, issued.record.id).await?;
    /// assert!(service.authenticate(&token, kind).await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn provisioning(&self) -> Provisioning<'_> {
        let client = ClientInfo::default();
        Provisioning {
            service: self,
            client,
        }
    }
}

impl Provisioning<'_> {
    /// Sets the facts about the client, for the sessions that it creates and the log.
    #[must_use]
    pub fn with_client(mut self, client: ClientInfo) -> Self {
        self.client = client;
        self
    }

    async fn require_org(&self, transaction: &mut Transaction, org: OrgId) -> Result<(), Error> {
        match transaction.get::<Organization>(&keys::org(org)).await? {
            Some(_) => Ok(()),
            None => Err(Error::not_found(EntityKind::Organization)),
        }
    }

    async fn list<T: DeserializeOwned>(&self, range: &KeyRange) -> Result<Vec<T>, Error> {
        let found = self.service.store().scan_all(range).await?;
        found
            .iter()
            .map(|found| decode_value(found).map_err(Error::from))
            .collect()
    }

    /// Returns a page of all records in a range, in their order. `name` is the name of the list.
    async fn page<T: DeserializeOwned>(
        &self,
        name: &str,
        range: KeyRange,
        page: &PageRequest,
    ) -> Result<Page<T>, Error> {
        let listing = Listing::new(name, &(), range, Direction::Forward);
        let show = |_: &Key, record: T| Ok(PageRecord::Shown(record));
        listing.page(&mut self.service.reading(), page, show).await
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
