//! Authorised operations: their permissions, their audit entries and their end.

use std::sync::Arc;

use serde::Serialize;
use uuid::Uuid;

use super::created::Created;
use super::idempotency::Creation;
use crate::access::{Action, ActionSet, PermissionScope};
use crate::error::{EntityKind, Error};
use crate::keys;
use crate::model::{
    AuditAction, MemoryId, MemoryLabels, OrgId, Quota, ResourceKind, SensitivityLabel, Timestamp,
    Workspace, WorkspaceId,
};
use crate::operation::Operation;
use crate::service::access::monitor::{Monitor, Subject, actions_held};
use crate::service::access::principal::{Delegator, Denial, Principal, Resource};
use crate::service::audit::entry::AuditOutcome;
use crate::service::audit::runs::MemoryAudit;
use crate::service::audit::write::{Actor, AuditedOperation, state};
use crate::service::quota::{AuditQuota, RecordLimit, reserve_units};
use crate::service::secrets::sealing::{RotatedSecret, Sealer};
use crate::service::{ClientInfo, KnowledgeService};
use crate::store::{Entry, Key, MaybeSend, Prepared, Transaction};

/// An operation of an authorised caller, which ends in at most one commit.
pub(crate) struct Authorized<'c> {
    pub(crate) service: &'c KnowledgeService,
    pub(super) client: ClientInfo,
    /// Request with an idempotency key that the caller makes or repeats.
    pub(super) creation: Option<Arc<Creation>>,
    pub(super) operation: Operation,
    pub(crate) transaction: Transaction,
    pub(crate) principal: Principal,
    pub(crate) now: Timestamp,
    pub(super) workspace: Option<Workspace>,
    /// Actions that the caller holds in the workspaces in which they were read.
    pub(super) held: Vec<(WorkspaceId, ActionSet)>,
    /// Operation whose entries are recorded, once there are some.
    pub(super) audited: Option<AuditedOperation>,
    pub(super) audit_quota: AuditQuota,
    /// True if the quota of the audit log limits the operation.
    pub(super) is_metered: bool,
    pub(super) created: Created,
}

impl Authorized<'_> {
    /// Returns the organisation of the caller.
    pub(crate) fn org(&self) -> OrgId {
        self.principal.org_id()
    }

    /// Returns the workspace that the caller named.
    ///
    /// # Panics
    /// If the operation has none: it was not authorised by [`Unauthenticated::in_workspace`].
    pub(crate) fn workspace(&self) -> &Workspace {
        self.workspace.as_ref().expect("authorised in a workspace")
    }

    /// Returns the actions that the caller holds in a workspace that it was authorised in.
    pub(crate) fn held_in(&self, workspace: WorkspaceId) -> ActionSet {
        actions_held(&self.held, workspace)
    }

    /// Returns the reference monitor of the caller for these memories.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn monitor(&mut self, subjects: &[Subject<'_>]) -> Result<Monitor, Error> {
        let held = self.held.clone();
        Monitor::new(&mut self.transaction, &self.principal, held, subjects).await
    }

    /// Authorises the caller in a workspace that it named, as [`Unauthenticated::in_workspace`]
    /// does.
    ///
    /// # Errors
    /// [`Error::NotFound`], also for a workspace outside the scope of the credential;
    /// [`Error::Forbidden`] without the permissions of the operation there.
    pub(crate) async fn authorize_in_named(&mut self, workspace: WorkspaceId) -> Result<(), Error> {
        let row = keys::workspace(self.org(), workspace);
        self.workspace = Some(self.find(&row, EntityKind::Workspace).await?);
        self.authorize_in(workspace, EntityKind::Workspace).await
    }

    /// Authorises the caller in the workspace of a resource, which exists as the resource does.
    ///
    /// # Errors
    /// [`Error::NotFound`] of this `kind` for a workspace outside the scope of the credential;
    /// [`Error::Forbidden`] without the permissions of the operation there.
    // Not `async`, as [`KnowledgeService::perform`] is not.
    pub(crate) fn authorize_in(
        &mut self,
        workspace: WorkspaceId,
        kind: EntityKind,
    ) -> impl Future<Output = Result<(), Error>> {
        self.authorize_also_for(workspace, kind, None)
    }

    /// Authorises the caller as [`Authorized::authorize_in`] does, also for a `further` permission of
    /// the operation's row whose condition is met.
    ///
    /// # Errors
    /// Those of [`Authorized::authorize_in`]; [`Error::Forbidden`] without the further permission.
    pub(crate) async fn authorize_also_for(
        &mut self,
        workspace: WorkspaceId,
        kind: EntityKind,
        further: Option<Action>,
    ) -> Result<(), Error> {
        let held = self.actions_in(workspace).await?;
        if !self.principal.works_in(workspace) {
            return Err(Error::NotFound { kind });
        }
        self.check_permissions(workspace, held)?;
        if let Some(action) = further {
            self.require(action, workspace)?;
        }
        self.check_idempotency_key().await
    }

    /// Reads the actions that the caller holds in a workspace, for decisions that precede
    /// [`Authorized::authorize_in`].
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn actions_in(&mut self, workspace: WorkspaceId) -> Result<ActionSet, Error> {
        if let Some((_, held)) = self.held.iter().find(|(id, _)| *id == workspace) {
            return Ok(*held);
        }
        let places = [workspace];
        let held = self
            .principal
            .actions_in(&mut self.transaction, &places)
            .await?[&workspace];
        self.held.push((workspace, held));
        Ok(held)
    }

    /// Checks that the caller holds every one of the `allowed` actions that a delegator has now in
    /// a workspace that the caller was authorised in.
    ///
    /// Taking over or ending the resource revokes these actions. Nothing is required once the
    /// delegator has ended.
    ///
    /// # Errors
    /// [`Error::Forbidden`] naming the first action that the caller lacks; those of the store.
    pub(crate) async fn require_covered(
        &mut self,
        workspace: WorkspaceId,
        delegator: Delegator,
        allowed: ActionSet,
    ) -> Result<(), Error> {
        let beyond = allowed - self.held_in(workspace);
        if beyond.is_empty() || delegator == self.principal.delegator() {
            return Ok(());
        }
        let (org, now) = (self.org(), self.now);
        let acting =
            match Principal::acting_for(&mut self.transaction, org, (delegator, None), now).await {
                Err(Error::Unauthenticated { .. }) => return Ok(()),
                acting => acting?,
            };
        let places = [workspace];
        let held = acting.actions_in(&mut self.transaction, &places).await?;
        match (beyond & held[&workspace]).iter().next() {
            None => Ok(()),
            Some(missing) => Err(Error::forbidden(format!(
                "cannot take over or end what may do more than the caller: {missing}"
            ))),
        }
    }

    /// Checks the permissions of the operation's row in a workspace.
    ///
    /// The permissions without a condition are all required. If each has one, one suffices here, and
    /// the operation checks the conditions.
    fn check_permissions(&self, id: WorkspaceId, held: ActionSet) -> Result<(), Denial> {
        let permissions = Creation::permissions_of(self.creation.as_deref(), self.operation);
        let decide = |action: Action| {
            let place = Resource::Workspace { id, held };
            self.principal.authorize(action, place)
        };
        let mut always = permissions
            .iter()
            .filter(|permission| permission.when.is_empty())
            .peekable();
        if always.peek().is_some() {
            return always.try_for_each(|permission| decide(permission.action));
        }
        let mut denial = None;
        for permission in permissions {
            match decide(permission.action) {
                Ok(()) => return Ok(()),
                Err(denied) => denial = denial.or(Some(denied)),
            }
        }
        denial.map_or(Ok(()), Err)
    }

    /// Checks a further permission of the operation's row in the workspace of the operation.
    ///
    /// # Errors
    /// [`Error::Forbidden`] without it.
    pub(crate) fn require(&self, action: Action, workspace: WorkspaceId) -> Result<(), Error> {
        let permissions = self.operation.spec().permissions;
        debug_assert!(
            permissions.iter().any(|row| row.action == action),
            "{:?} does not declare {action}",
            self.operation
        );
        let (id, held) = (workspace, self.held_in(workspace));
        let place = Resource::Workspace { id, held };
        Ok(self.principal.authorize(action, place)?)
    }

    /// Checks that the caller holds all of `needed` in one place: its organisation or a workspace.
    ///
    /// # Errors
    /// [`Error::Forbidden`] otherwise.
    pub(crate) async fn require_somewhere(&mut self, needed: ActionSet) -> Result<(), Error> {
        self.principal
            .require_somewhere(&mut self.transaction, needed)
            .await
    }

    /// Reserves units of a quota of the organisation, whose counter was prefetched.
    ///
    /// Additions of a member are refused while an erasure takes away what it made, to which they
    /// would belong.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`]; [`Error::Conflict`] for a member whose memories, recalls and chats
    /// are being erased; those of the store.
    pub(crate) async fn reserve(&mut self, quota: Quota, units: usize) -> Result<(), Error> {
        debug_assert!(
            self.operation.spec().quotas.contains(&quota),
            "{:?} does not declare that it uses {quota}",
            self.operation
        );
        let (limits, org) = (self.service.limits(), self.org());
        let is_erasable = matches!(quota, Quota::Memories | Quota::Recalls | Quota::Chats);
        if is_erasable && self.principal.org.erases_member(self.principal.member_id()) {
            return Err(Error::Conflict);
        }
        reserve_units(&mut self.transaction, limits, org, quota, units).await
    }

    /// Reserves one record of the owner whose records `counter` counts.
    ///
    /// The counter is a guard: of two callers that reserve the last record, one is rejected.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] if the owner has the maximum; those of the store.
    pub(crate) async fn reserve_record(
        &mut self,
        limit: RecordLimit,
        counter: Key,
    ) -> Result<(), Error> {
        let stored = self.transaction.get::<i64>(&counter).await?.unwrap_or(0);
        let count = stored + self.transaction.added(&counter);
        limit.check(count, self.service.limits())?;
        self.transaction.add(counter, 1);
        Ok(())
    }

    /// Reads a record that has to exist; the commit checks it.
    ///
    /// # Errors
    /// [`Error::NotFound`] of this `kind`; those of the store.
    pub(crate) async fn find<T: serde::de::DeserializeOwned + MaybeSend>(
        &mut self,
        key: &Key,
        kind: EntityKind,
    ) -> Result<T, Error> {
        let found = self.transaction.get::<T>(key).await?;
        found.ok_or(Error::NotFound { kind })
    }

    /// Returns the sealer for a secret that the operation stores. The commit checks that its key is still
    /// the one of the store.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if another process has replaced the key; those of the store.
    pub(crate) async fn sealer(&mut self) -> Result<&Sealer, Error> {
        debug_assert!(
            self.operation.seals_secret(),
            "{:?} does not prefetch what it needs to seal",
            self.operation
        );
        let inner = &self.service.inner;
        let found = self.transaction.get::<Entry>(&keys::meta()).await?;
        inner.meta.require_same(found)?;
        Ok(&inner.sealer)
    }

    /// Records the creation of a resource.
    pub(crate) fn created<T: Serialize>(
        &mut self,
        action: AuditAction,
        resource: (ResourceKind, Uuid),
        after: &T,
    ) {
        self.set_created_id(resource.1);
        self.record(action, resource, None, Some(state(after)));
    }

    /// Records the change of a resource.
    pub(crate) fn changed<T: Serialize>(
        &mut self,
        action: AuditAction,
        resource: (ResourceKind, Uuid),
        before: &T,
        after: &T,
    ) {
        self.record(action, resource, Some(state(before)), Some(state(after)));
    }

    /// Records the deletion of a resource.
    pub(crate) fn deleted<T: Serialize>(
        &mut self,
        action: AuditAction,
        resource: (ResourceKind, Uuid),
        before: &T,
    ) {
        self.record(action, resource, Some(state(before)), None);
    }

    /// Records the rotation of the signing secret of an endpoint.
    pub(crate) fn rotated(
        &mut self,
        action: AuditAction,
        resource: (ResourceKind, Uuid),
        rotated: &RotatedSecret,
    ) {
        let until = rotated.previous_secret_expires_at;
        let after = serde_json::json!({ "previous_secret_expires_at": until });
        self.record(action, resource, None, Some(after));
    }

    /// Records the states of a resource before and after; `None` if it did not exist.
    pub(crate) fn record(
        &mut self,
        action: AuditAction,
        resource: (ResourceKind, Uuid),
        before: Option<serde_json::Value>,
        after: Option<serde_json::Value>,
    ) {
        let (operation, actor) = self.audit(action);
        let transaction = &mut self.transaction;
        operation.record(transaction, actor, action, resource, before, after);
    }

    /// Begins the audit entries, for operations that write them themselves.
    pub(crate) fn audit(&mut self, action: AuditAction) -> (AuditedOperation, Actor) {
        debug_assert!(
            self.operation.spec().audit_actions.contains(&action),
            "{:?} does not declare {action}",
            self.operation
        );
        self.is_metered |= action.is_metered();
        let begin = || AuditedOperation::begin(&self.transaction, self.service.env(), self.now);
        let operation = *self.audited.get_or_insert_with(begin);
        let actor = Actor {
            workspace: self.place(),
            ..Actor::new(&self.principal, self.client)
        };
        (operation, actor)
    }

    /// Returns the workspace of the operation, if it is one of a workspace.
    fn place(&self) -> Option<WorkspaceId> {
        let named = self.workspace.as_ref().map(|workspace| workspace.id);
        let mut permissions = self.operation.spec().permissions.iter();
        let is_of_one = permissions.any(|needed| needed.scope == PermissionScope::Workspace);
        let of_resource = || self.held.first().map(|(workspace, _)| *workspace);
        named.or_else(|| is_of_one.then(of_resource).flatten())
    }

    /// Audits a read of these memories, with their labels, of which those count that are
    /// confidential or restricted.
    ///
    /// The reads of the labels have to be checks of the commit.
    pub(crate) fn audit_read(&mut self, read: Vec<(MemoryId, MemoryLabels)>) {
        self.audit_read_after(0, read);
    }

    /// Audits a read of memories as [`Self::audit_read`] does, after other entries of the operation.
    pub(crate) fn audit_read_after(
        &mut self,
        entries_before: usize,
        mut read: Vec<(MemoryId, MemoryLabels)>,
    ) {
        read.retain(|(_, labels)| labels.sensitivity >= SensitivityLabel::Confidential);
        if read.is_empty() || !self.service.audits_reads() {
            return;
        }
        let entries = read.into_iter().map(|(memory_id, labels)| MemoryAudit {
            memory_id,
            is_own: false,
            outcome: AuditOutcome::Ok,
            before: Some(labels),
            after: None,
        });
        let entries = entries.collect();
        let action = AuditAction::MemoryRead;
        let (operation, actor) = self.audit(action);
        let operation = operation.after(entries_before);
        operation.record_memories(&mut self.transaction, actor, action, None, entries);
    }

    /// Ends the operation, with its output once the commit is durable.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`] if the quota of the audit log is exhausted, unless the operation
    /// takes something away; [`Error::Internal`] for a change without the audit entry that the operation
    /// declares: it would be a defect, and nothing is committed.
    pub(crate) fn done<T>(self, output: T) -> Result<Prepared<T>, Error> {
        Ok(self.end()?.done(output))
    }

    /// Ends a dry run: nothing of what the operation wrote is committed.
    pub(crate) fn discard<T>(self, output: T) -> Prepared<T> {
        self.transaction.discard(output)
    }

    /// Returns the transaction to commit.
    fn end(mut self) -> Result<Transaction, Error> {
        let must_audit = !self.operation.spec().audit_actions.is_empty();
        if must_audit && self.audited.is_none() && self.transaction.has_changes() {
            let message = format!("{:?} changed something without auditing it", self.operation);
            return Err(Error::internal(message));
        }
        if self.is_metered {
            let (limits, org) = (self.service.limits(), self.principal.org_id());
            self.audit_quota
                .check(&self.transaction, limits, org, self.now)?;
        }
        self.write_idempotency_record()?;
        Ok(self.transaction)
    }
}
