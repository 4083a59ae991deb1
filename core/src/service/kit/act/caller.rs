//! Start of an operation: [`Caller`], and its way to an [`Act`].
//!
//! A caller whose workspace is known becomes an act in one step. Otherwise it is [`Identified`]
//! first, and authorised when the operation has read its resource. `login` authenticates it.

use std::sync::Arc;

use super::Act;
use super::created::Created;
use super::login::{KnownLogin, Login, RolesRead, credential_key};
use super::wants::{Following, Wants};
use crate::access::{Credential, PermissionScope};
use crate::error::{EntityKind, Error};
use crate::keys;
use crate::model::{CredentialId, Member, MemberId, OrgId, Timestamp, WorkspaceId};
use crate::operation::Operation;
use crate::service::KnowledgeService;
use crate::service::kit::principal::Resource;
use crate::service::kit::quota::{AuditQuota, audit_counter};
use crate::store::{Key, MaybeSend, Prepared, Transaction};

/// The caller of an operation, before it is authenticated.
pub(crate) struct Caller<'c> {
    service: &'c KnowledgeService,
    operation: Operation,
    credential: &'c Credential,
    transaction: Transaction,
    org: OrgId,
    pub(crate) now: Timestamp,
    /// Earlier login of the credential.
    known: Option<Arc<KnownLogin>>,
}

impl KnowledgeService {
    /// Performs an operation: `decide` makes an [`Act`] of the caller and ends it.
    // Not `async`: that would wrap one future in another for each of a hundred operations.
    pub(crate) fn act<'c, T, F, D>(
        &'c self,
        operation: Operation,
        credential: &'c Credential,
        mut decide: F,
    ) -> impl Future<Output = Result<T, Error>>
    where
        T: MaybeSend,
        F: FnMut(Caller<'c>) -> D + MaybeSend,
        D: Future<Output = Result<Prepared<T>, Error>> + MaybeSend,
    {
        let org = credential.org();
        self.transact(move |transaction| {
            decide(Caller {
                service: self,
                operation,
                credential,
                transaction,
                org,
                now: self.env().now(),
                known: None,
            })
        })
    }
}

impl<'c> Caller<'c> {
    /// Returns the organisation of the credential, which is not authenticated yet.
    ///
    /// It names what to read ahead and decides nothing: authentication rejects a credential that is
    /// stored for another organisation.
    pub(crate) fn org(&self) -> OrgId {
        self.org
    }

    /// Authenticates the caller and authorises it in a workspace.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for a workspace that is not of the caller's
    /// organisation; [`Error::Forbidden`] without the permissions of the operation there.
    // Not `async`: that would wrap one future in another.
    pub(crate) fn in_workspace(
        self,
        workspace: WorkspaceId,
        wants: Wants,
    ) -> impl Future<Output = Result<Act<'c>, Error>> {
        self.in_workspace_then(workspace, wants, &|_| Wants::nothing())
    }

    /// Authenticates the caller and authorises it in a workspace, as [`Caller::in_workspace`] does.
    ///
    /// Reads that follow from those of the operation are made with those of the custom roles.
    ///
    /// # Errors
    /// As [`Caller::in_workspace`].
    pub(crate) async fn in_workspace_then(
        mut self,
        workspace: WorkspaceId,
        wants: Wants,
        following: Following<'_>,
    ) -> Result<Act<'c>, Error> {
        let login = self.log_in(RolesRead::In(workspace), wants).await?;
        let transaction = &mut self.transaction;
        let (member, named) = login.follow(transaction, workspace, following).await?;
        self.keep(&login, named);
        let mut act = self.into_act(login, member).await?;
        act.authorize_in_named(workspace).await?;
        Ok(act)
    }

    /// Authenticates the caller and authorises it in its organisation.
    ///
    /// With a `slug`, it has to be that of the organisation.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for the slug of another organisation;
    /// [`Error::Forbidden`] without the permissions of the operation.
    pub(crate) async fn in_organization(
        mut self,
        slug: Option<&str>,
        wants: Wants,
    ) -> Result<Act<'c>, Error> {
        let login = self.log_in(RolesRead::OfMember, wants).await?;
        self.identified(login).await?.in_organization(slug).await
    }

    /// Authenticates the caller, for an operation whose resource tells the workspace.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`].
    pub(crate) async fn identify(mut self, wants: Wants) -> Result<Identified<'c>, Error> {
        let login = self.log_in(RolesRead::Everywhere, wants).await?;
        self.identified(login).await
    }

    /// Takes the member from what was read ahead.
    async fn identified(mut self, login: Login) -> Result<Identified<'c>, Error> {
        let (member, named) = login.holder(&mut self.transaction, None).await?;
        let is_unread = |key: &&Key| !self.transaction.has_ahead(key);
        let unread = named.iter().filter(is_unread).cloned().collect();
        self.keep(&login, named);
        Ok(Identified {
            caller: self,
            login,
            member,
            unread,
        })
    }

    /// Checks the credential, and reads ahead what the authorisation and the operation read.
    ///
    /// Both take one read if the credential is known, otherwise two.
    async fn log_in(&mut self, roles: RolesRead, mut wants: Wants) -> Result<Login, Error> {
        let wanted = self.operation.spec().authentication.credential();
        let wanted = wanted.ok_or_else(|| Error::internal("a signature identifies no caller"))?;
        let idempotency = wants.idempotency.take();
        let reads = |caller: &Self, login: &Login| {
            let record = idempotency
                .as_ref()
                .map(|(operation, key)| keys::idempotency(login.org, login.member, operation, key));
            caller.reads(login, roles).and_keys(record)
        };
        self.known = self.service.known_login(self.credential);
        if let Some(known) = &self.known {
            let first = std::mem::take(&mut wants)
                .and(reads(self, &known.login))
                .and_keys(credential_key(self.credential))
                .and_keys(known.named.iter().cloned());
            self.transaction
                .read_ahead(first.keys, first.ranges)
                .await?;
        }
        let login = Login::check(&mut self.transaction, self.credential, wanted, self.now).await;
        self.service
            .end_rejected(self.credential, login.as_ref().err());
        let (login, known) = (login?, self.known.as_ref());
        if !known.is_some_and(|known| known.login.is_read_as(&login)) {
            let missing = wants.and(reads(self, &login));
            self.transaction
                .read_ahead(missing.keys, missing.ranges)
                .await?;
        }
        Ok(login)
    }

    /// Keeps what authenticated the credential, if the next operation would not know it otherwise.
    fn keep(&self, login: &Login, named: Vec<Key>) {
        let known = self.known.as_ref();
        if !known.is_some_and(|known| known.login.is_read_as(login) && known.named == named) {
            let login = login.clone();
            let known = KnownLogin { login, named };
            self.service.keep_login(self.credential, known);
        }
    }

    /// Returns the reads of the authorisation, and those of every operation of this kind.
    fn reads(&self, login: &Login, roles: RolesRead) -> Wants {
        login
            .reads(roles)
            .and_keys(self.quota_key(login.org))
            .and_keys(self.record_key(login))
            .and_keys(self.meta_key())
    }

    /// Returns the counter of the audit log, if it limits the operation.
    fn quota_key(&self, org: OrgId) -> Option<Key> {
        let is_audited = !self.operation.spec().audit_actions.is_empty();
        is_audited.then(|| audit_counter(org, self.now))
    }

    /// Returns the key of the idempotency record, for a request that creates with an idempotency key.
    fn record_key(&self, login: &Login) -> Option<Key> {
        let request = self.service.keyed(self.operation)?;
        Some(request.record_key(login.org, login.member))
    }

    /// Returns the key of the record about the store, which [`Act::sealer`] reads.
    fn meta_key(&self) -> Option<Key> {
        self.operation.seals_secret().then(keys::meta)
    }

    async fn into_act(mut self, login: Login, member: Option<Member>) -> Result<Act<'c>, Error> {
        let (org, transaction) = (login.org, &mut self.transaction);
        let caller = login.principal(transaction, member).await?;
        let mut audit_quota = AuditQuota::default();
        if self.quota_key(org).is_some() {
            let (transaction, limits) = (&mut self.transaction, self.service.limits());
            audit_quota = AuditQuota::read(transaction, limits, org, self.now).await?;
        }
        Ok(Act {
            service: self.service,
            operation: self.operation,
            transaction: self.transaction,
            caller,
            now: self.now,
            workspace: None,
            held: Vec::new(),
            is_audited: false,
            audit_quota,
            is_metered: false,
            created: Created::default(),
        })
    }
}

/// An authenticated caller whose permissions are not decided yet.
pub(crate) struct Identified<'c> {
    caller: Caller<'c>,
    login: Login,
    /// The member; `None` if it has been removed.
    member: Option<Member>,
    /// Keys that the authorisation reads and that have not been read.
    unread: Vec<Key>,
}

impl<'c> Identified<'c> {
    /// Returns the organisation of the caller.
    pub(crate) fn org(&self) -> OrgId {
        self.login.org
    }

    /// Returns the member of the caller.
    pub(crate) fn member(&self) -> MemberId {
        self.login.member
    }

    /// Returns the token of the caller, if it has one.
    pub(crate) fn credential(&self) -> Option<CredentialId> {
        self.login.credential
    }

    /// Returns true if the authorisation has more to read, so that other reads can join it.
    pub(crate) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Returns the JSON value under a key that was read ahead, without using it.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn peek<T: serde::de::DeserializeOwned>(
        &self,
        key: &Key,
    ) -> Result<Option<T>, Error> {
        Ok(self.caller.transaction.peek(key)?)
    }

    /// Returns the transaction, to read the resource.
    pub(crate) fn transaction(&mut self) -> &mut Transaction {
        &mut self.caller.transaction
    }

    /// Reads more of the resource, together with what the authorisation reads.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn read_ahead(&mut self, wants: Wants) -> Result<(), Error> {
        let wants = wants.and_keys(std::mem::take(&mut self.unread));
        let transaction = &mut self.caller.transaction;
        Ok(transaction.read_ahead(wants.keys, wants.ranges).await?)
    }

    /// Authorises the caller in its organisation, as [`Caller::in_organization`] does.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for a removed member; [`Error::NotFound`] for the slug of another
    /// organisation; [`Error::Forbidden`] without the permissions of the operation.
    pub(crate) async fn in_organization(self, slug: Option<&str>) -> Result<Act<'c>, Error> {
        let mut act = self.unauthorized().await?;
        if slug.is_some_and(|slug| slug != act.caller.org.slug) {
            return Err(Error::NotFound {
                kind: EntityKind::Organization,
            });
        }
        for permission in act.service.permissions_of(act.operation) {
            debug_assert_eq!(permission.scope, PermissionScope::Organization);
            act.caller
                .authorize(permission.action, Resource::Organization)?;
        }
        act.require_first().await?;
        Ok(act)
    }

    /// Authorises the caller if it holds the permissions of the operation in one place: its
    /// organisation or a workspace.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for a removed member; [`Error::Forbidden`].
    pub(crate) async fn anywhere(self) -> Result<Act<'c>, Error> {
        let permissions = self.caller.service.permissions_of(self.caller.operation);
        let needed = permissions
            .iter()
            .map(|permission| permission.action)
            .collect();
        let mut act = self.unauthorized().await?;
        act.require_somewhere(needed).await?;
        Ok(act)
    }

    /// Returns an act whose permissions the operation decides itself, resource by resource.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for a removed member.
    pub(crate) async fn unauthorized(mut self) -> Result<Act<'c>, Error> {
        self.read_ahead(Wants::nothing()).await?;
        self.caller.into_act(self.login, self.member).await
    }
}
