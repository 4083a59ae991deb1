//! Start of an operation: from [`Unauthenticated`] to [`Authorized`].
//!
//! An operation whose workspace is known is authorised in one step. Otherwise it is
//! [`Authenticated`] first, and authorised when it has read its resource. `login` checks the
//! credential.

use std::sync::Arc;

use super::Authorized;
use super::created::Created;
use super::idempotency::Creation;
use super::login::{KnownLogin, Login, RolesRead, credential_key};
use super::prefetch::{Next, Prefetch};
use crate::access::PermissionScope;
use crate::error::{EntityKind, Error};
use crate::keys;
use crate::model::{Member, MemberId, OrgId, Timestamp, WorkspaceId};
use crate::operation::Operation;
use crate::service::access::principal::Resource;
use crate::service::quota::{AuditQuota, audit_counter};
use crate::service::{Caller, KnowledgeService};
use crate::store::{FromEntry, Key, MaybeSend, Prepared, Transaction};

/// An operation before its caller is authenticated.
pub(crate) struct Unauthenticated<'c> {
    service: &'c KnowledgeService,
    operation: Operation,
    caller: &'c Caller,
    /// Request with an idempotency key that the caller makes or repeats.
    creation: Option<Arc<Creation>>,
    transaction: Transaction,
    org: OrgId,
    pub(crate) now: Timestamp,
    /// Earlier login of the credential.
    known: Option<Arc<KnownLogin>>,
}

impl KnowledgeService {
    /// Performs an operation: `decide` has the caller authorised, and ends the operation.
    // Not `async`: that would wrap one future in another for each of a hundred operations. This
    // function and four others save 23 kB of the WebAssembly module in gzip together.
    pub(crate) fn perform<'c, T, F, D>(
        &'c self,
        operation: Operation,
        caller: &'c Caller,
        decide: F,
    ) -> impl Future<Output = Result<T, Error>>
    where
        T: MaybeSend,
        F: FnMut(Unauthenticated<'c>) -> D + MaybeSend,
        D: Future<Output = Result<Prepared<T>, Error>> + MaybeSend,
    {
        let creation = caller.creation().cloned();
        self.perform_as(operation, caller, creation, decide)
    }

    /// Performs an operation of a caller that makes or repeats a request with an idempotency key.
    // Not `async`, as [`KnowledgeService::perform`] is not.
    pub(super) fn perform_as<'c, T, F, D>(
        &'c self,
        operation: Operation,
        caller: &'c Caller,
        creation: Option<Arc<Creation>>,
        mut decide: F,
    ) -> impl Future<Output = Result<T, Error>>
    where
        T: MaybeSend,
        F: FnMut(Unauthenticated<'c>) -> D + MaybeSend,
        D: Future<Output = Result<Prepared<T>, Error>> + MaybeSend,
    {
        let org = caller.credential().org();
        self.transact(move |transaction| {
            decide(Unauthenticated {
                service: self,
                operation,
                caller,
                creation: creation.clone(),
                transaction,
                org,
                now: self.env().now(),
                known: None,
            })
        })
    }
}

impl<'c> Unauthenticated<'c> {
    /// Returns the organisation of the credential, which is not authenticated yet.
    ///
    /// It names what to prefetch and decides nothing: authentication rejects a credential that is
    /// stored for another organisation.
    pub(crate) fn org(&self) -> OrgId {
        self.org
    }

    /// Authenticates the caller and authorises it in a workspace.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for a workspace that is not of the caller's
    /// organisation; [`Error::Forbidden`] without the permissions of the operation there.
    // Not `async`, as [`KnowledgeService::perform`] is not.
    pub(crate) fn in_workspace(
        self,
        workspace: WorkspaceId,
        prefetch: Prefetch,
    ) -> impl Future<Output = Result<Authorized<'c>, Error>> {
        self.in_workspace_then(workspace, prefetch, &|_| Prefetch::none())
    }

    /// Authenticates the caller and authorises it in a workspace, as
    /// [`Unauthenticated::in_workspace`] does.
    ///
    /// The keys that `next` names, from what was prefetched, are read with the custom roles.
    ///
    /// # Errors
    /// As [`Unauthenticated::in_workspace`].
    pub(crate) async fn in_workspace_then(
        mut self,
        workspace: WorkspaceId,
        prefetch: Prefetch,
        next: Next<'_>,
    ) -> Result<Authorized<'c>, Error> {
        let login = self
            .check_credential(RolesRead::In(workspace), prefetch)
            .await?;
        let transaction = &mut self.transaction;
        let (member, referenced) = login.prefetch_next(transaction, workspace, next).await?;
        self.remember(&login, referenced);
        let mut op = self.into_authorized(login, member, Some(workspace)).await?;
        op.authorize_in_named(workspace).await?;
        Ok(op)
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
        prefetch: Prefetch,
    ) -> Result<Authorized<'c>, Error> {
        let login = self.check_credential(RolesRead::OfMember, prefetch).await?;
        self.into_authenticated(login)
            .await?
            .in_organization(slug)
            .await
    }

    /// Authenticates the caller, for an operation whose resource tells the workspace.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`].
    pub(crate) async fn authenticate(
        mut self,
        prefetch: Prefetch,
    ) -> Result<Authenticated<'c>, Error> {
        let login = self
            .check_credential(RolesRead::Everywhere, prefetch)
            .await?;
        self.into_authenticated(login).await
    }

    /// Takes the member from what was prefetched.
    async fn into_authenticated(mut self, login: Login) -> Result<Authenticated<'c>, Error> {
        let (member, referenced) = login.holder(&mut self.transaction, None).await?;
        let is_missing = |key: &&Key| !self.transaction.prefetched().contains(key);
        let missing = referenced.iter().filter(is_missing).cloned().collect();
        self.remember(&login, referenced);
        Ok(Authenticated {
            start: self,
            login,
            member,
            missing,
        })
    }

    /// Checks the credential, and prefetches what the authorisation and the operation read.
    ///
    /// Both take one read if the credential is known, otherwise two.
    async fn check_credential(
        &mut self,
        roles: RolesRead,
        mut prefetch: Prefetch,
    ) -> Result<Login, Error> {
        let credential = self.caller.credential();
        let wanted = self.operation.spec().authentication.credential();
        let wanted = wanted.ok_or_else(|| Error::internal("a signature identifies no caller"))?;
        let idempotency = prefetch.idempotency.take();
        let reads = |caller: &Self, login: &Login| {
            let record = idempotency
                .as_ref()
                .filter(|_| caller.caller.acting_for().is_none())
                .map(|(operation, key)| keys::idempotency(login.org, login.member, operation, key));
            caller.reads(login, roles).and_keys(record)
        };
        self.known = self.service.known_login(credential);
        if let Some(known) = &self.known {
            let places = known
                .has_private_places
                .then(|| known.login.workspace_roles());
            let first = std::mem::take(&mut prefetch)
                .and_ranges(places)
                .and(reads(self, &known.login))
                .and_keys(credential_key(credential))
                .and_keys(known.referenced.iter().cloned());
            self.transaction.prefetch(first.keys, first.ranges).await?;
        }
        let login = Login::check(&mut self.transaction, credential, wanted, self.now).await;
        self.service.end_rejected(credential, login.as_ref().err());
        let (login, known) = (login?, self.known.as_ref());
        if !known.is_some_and(|known| known.login.has_same_reads_as(&login)) {
            let missing = prefetch.and(reads(self, &login));
            self.transaction
                .prefetch(missing.keys, missing.ranges)
                .await?;
        }
        Ok(login)
    }

    /// Remembers what authenticated the credential, unless the process already knows it.
    fn remember(&self, login: &Login, referenced: Vec<Key>) {
        let known = self.known.as_ref();
        let has_private_places = login.has_private_places(&self.transaction);
        if !known.is_some_and(|known| {
            known.login.has_same_reads_as(login)
                && known.referenced == referenced
                && known.has_private_places == has_private_places
        }) {
            let login = login.clone();
            let known = KnownLogin {
                login,
                referenced,
                has_private_places,
            };
            self.service.keep_login(self.caller.credential(), known);
        }
    }

    /// Returns the reads of the authorisation, and those of every operation of this kind.
    fn reads(&self, login: &Login, roles: RolesRead) -> Prefetch {
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
    ///
    /// The key of a caller that acts for another member is known once it is authorised.
    fn record_key(&self, login: &Login) -> Option<Key> {
        let request = self.creation.as_ref()?.request(self.operation)?;
        let is_known = self.caller.acting_for().is_none();
        is_known.then(|| request.record_key(login.org, (login.member, None)))
    }

    /// Returns the key of the record about the store, which [`Authorized::sealer`] reads.
    fn meta_key(&self) -> Option<Key> {
        self.operation.seals_secret().then(keys::meta)
    }

    async fn into_authorized(
        mut self,
        login: Login,
        member: Option<Member>,
        workspace: Option<WorkspaceId>,
    ) -> Result<Authorized<'c>, Error> {
        let (org, transaction) = (login.org, &mut self.transaction);
        let principal = login.principal(transaction, member).await?;
        let caller = (self.caller, workspace);
        let principal = self.service.principal_of(transaction, principal, caller);
        let principal = principal.await?;
        let mut audit_quota = AuditQuota::default();
        if self.quota_key(org).is_some() {
            let (transaction, limits) = (&mut self.transaction, self.service.limits());
            audit_quota = AuditQuota::read(transaction, limits, org, self.now).await?;
        }
        Ok(Authorized {
            service: self.service,
            client: self.caller.client(),
            creation: self.creation,
            operation: self.operation,
            transaction: self.transaction,
            principal,
            now: self.now,
            workspace: None,
            held: Vec::new(),
            audited: None,
            audit_quota,
            is_metered: false,
            created: Created::default(),
        })
    }
}

/// An authenticated caller whose permissions are not decided yet.
pub(crate) struct Authenticated<'c> {
    start: Unauthenticated<'c>,
    login: Login,
    /// The member; `None` if it has been removed.
    member: Option<Member>,
    /// Keys that the authorisation reads and that are not prefetched yet.
    missing: Vec<Key>,
}

impl<'c> Authenticated<'c> {
    /// Returns the organisation of the caller.
    pub(crate) fn org(&self) -> OrgId {
        self.login.org
    }

    /// Returns the member of the caller.
    pub(crate) fn member(&self) -> MemberId {
        self.login.member
    }

    /// Returns true if the authorisation has more to read, so that other reads can join it.
    pub(crate) fn has_missing(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Returns the JSON value under a prefetched key, which the commit does not check.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn prefetched<T: FromEntry>(&self, key: &Key) -> Result<Option<T>, Error> {
        Ok(self.start.transaction.prefetched().get(key)?)
    }

    /// Returns the transaction, to read the resource.
    pub(crate) fn transaction(&mut self) -> &mut Transaction {
        &mut self.start.transaction
    }

    /// Prefetches more of the resource, together with what the authorisation reads.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn prefetch(&mut self, prefetch: Prefetch) -> Result<(), Error> {
        let prefetch = prefetch.and_keys(std::mem::take(&mut self.missing));
        let transaction = &mut self.start.transaction;
        Ok(transaction.prefetch(prefetch.keys, prefetch.ranges).await?)
    }

    /// Authorises the caller in its organisation, as [`Unauthenticated::in_organization`] does.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for a removed member; [`Error::NotFound`] for the slug of another
    /// organisation; [`Error::Forbidden`] without the permissions of the operation.
    pub(crate) async fn in_organization(self, slug: Option<&str>) -> Result<Authorized<'c>, Error> {
        let mut op = self.authorize_per_resource().await?;
        if slug.is_some_and(|slug| slug != op.principal.org.slug) {
            return Err(Error::not_found(EntityKind::Organization));
        }
        let permissions = Creation::permissions_of(op.creation.as_deref(), op.operation);
        for permission in permissions {
            debug_assert_eq!(permission.scope, PermissionScope::Organization);
            op.principal
                .authorize(permission.action, Resource::Organization)?;
        }
        op.check_idempotency_key().await?;
        Ok(op)
    }

    /// Authorises the caller if it holds the permissions of the operation in one place: its
    /// organisation or a workspace.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for a removed member; [`Error::Forbidden`].
    pub(crate) async fn anywhere(self) -> Result<Authorized<'c>, Error> {
        let creation = self.start.creation.as_deref();
        let permissions = Creation::permissions_of(creation, self.start.operation);
        let needed = permissions
            .iter()
            .map(|permission| permission.action)
            .collect();
        let mut op = self.authorize_per_resource().await?;
        op.require_somewhere(needed).await?;
        Ok(op)
    }

    /// Leaves it to the operation to authorise the caller, resource by resource.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for a removed member.
    pub(crate) async fn authorize_per_resource(mut self) -> Result<Authorized<'c>, Error> {
        self.prefetch(Prefetch::none()).await?;
        self.start
            .into_authorized(self.login, self.member, None)
            .await
    }
}
