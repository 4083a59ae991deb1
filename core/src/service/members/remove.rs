//! Removal of members, with everything that they hold.
//!
//! A removal takes effect with one commit, which deletes the member: a credential is invalid
//! without its member. The number of records that it leaves (credentials, MCP keys, roles in
//! workspaces) is not limited. They are deleted in steps: the first one immediately, the others by
//! maintenance.

use crate::access::{CredentialRecord, RoleRef, SecretHash};
use crate::error::{EntityKind, Error, ProblemCode};
use crate::keys;
use crate::model::{
    AuditAction, CredentialId, Member, MemberId, MemberKind, OrgId, Quota, ResourceKind, Timestamp,
    WorkspaceId,
};
use crate::operation::Operation;
use crate::service::access::coverage::{Coverage, HeldRoles};
use crate::service::access::principal::workspace_roles_read;
use crate::service::access::roles::OWNER;
use crate::service::audit::write::{Actor, AuditedOperation, state};
use crate::service::members::assign::{Authority, current_role, is_last_owner, leave_role};
use crate::service::members::with_roles;
use crate::service::memories::label_counts::count_teams;
use crate::service::operation::Prefetch;
use crate::service::quota::release_unit;
use crate::service::tasks::ScheduledTask;
use crate::service::tokens::deletion::delete_tokens;
use crate::service::workspace::mcp_keys::{forget_keys, key_workspace};
use crate::service::{Caller, KnowledgeService, Members};
use crate::store::{Direction, Key, RangeRead, StoreExt, Transaction, decode_value};

/// Maximum number of roles and tokens that one step deletes, and of credentials that it examines.
const LEFTOVERS_PER_COMMIT: usize = 200;

/// # Removal of members
impl Members<'_> {
    /// Removes a member. Its tokens, sessions and MCP keys stop working immediately.
    ///
    /// Its roles lose this holder. Its handle stays taken, as labels `user:HANDLE` may remain. The
    /// audit log keeps what it did.
    ///
    /// # Errors
    /// Those of [`Operation::RemoveMember`]; [`Error::InvalidRequest`] for the last owner;
    /// [`Error::Forbidden`] for a member with actions that the caller lacks in the organisation or
    /// in a workspace, or if anyone but an owner removes an owner.
    pub async fn remove(
        self,
        caller: &Caller,
        org_slug: &str,
        member: MemberId,
    ) -> Result<(), Error> {
        let org = self
            .service
            .perform(Operation::RemoveMember, caller, |caller| async move {
                let org = caller.org();
                let keys = [keys::member(org, member), keys::holder_count(org, OWNER)];
                let roles = workspace_roles_read(org, member);
                let prefetch = with_roles(Prefetch::keys(keys).and_range(roles), org);
                let caller = caller.authenticate(prefetch).await?;
                let mut op = caller.in_organization(Some(org_slug)).await?;
                let now = op.now;
                let coverage = Coverage::of(&mut op.transaction, &op.principal).await?;
                let authority = Authority::Caller(&coverage);
                let removed = self
                    .service
                    .take_away(&mut op.transaction, authority, member, now)
                    .await?;
                let resource = (ResourceKind::Member, member.0);
                op.deleted(AuditAction::MemberRemove, resource, &removed);
                op.done(org)
            })
            .await?;
        self.service.clear_now(org, member).await;
        Ok(())
    }
}

impl KnowledgeService {
    /// Removes a member on behalf of the operator.
    pub(crate) async fn remove_member_as_operator(
        &self,
        org: OrgId,
        member: MemberId,
    ) -> Result<Member, Error> {
        let removed = self
            .transact(|mut transaction| async move {
                let now = self.env().now();
                let authority = Authority::Operator(org);
                let removed = self
                    .take_away(&mut transaction, authority, member, now)
                    .await?;
                let (actor, action) = (Actor::operator(org), AuditAction::MemberRemove);
                let resource = (ResourceKind::Member, member.0);
                let operation = AuditedOperation::begin(&transaction, self.env(), now);
                let before = Some(state(&removed));
                operation.record(&mut transaction, actor, action, resource, before, None);
                Ok(transaction.done(removed))
            })
            .await?;
        self.clear_now(org, member).await;
        Ok(removed)
    }

    /// Deletes a member and schedules the deletion of what it leaves.
    async fn take_away(
        &self,
        transaction: &mut Transaction,
        authority: Authority<'_>,
        member: MemberId,
        now: Timestamp,
    ) -> Result<Member, Error> {
        let org = authority.org();
        let key = keys::member(org, member);
        let found = transaction
            .get::<Member>(&key)
            .await?
            .ok_or(Error::not_found(EntityKind::Member))?;
        let roles = HeldRoles::of(transaction, org, &found).await?;
        authority.require_member(&roles)?;
        let held = roles.organization.reference();
        if held == OWNER && is_last_owner(transaction, org).await? {
            return Err(Error::invalid(
                "member",
                ProblemCode::InvalidValue,
                "must remain: this is the last owner",
            ));
        }
        transaction.delete(key);
        transaction.delete(keys::member_refusals(org, member));
        transaction.delete(keys::invitation(org, member));
        count_teams(transaction, org, &found.teams, &[]);
        leave_role(transaction, org, (found.role, held), member, None);
        if found.kind == MemberKind::User {
            transaction.add(keys::member_count(org), -1);
        }
        release_unit(transaction, org, Quota::Members);
        transaction.put(keys::former_member(org, member), &now);
        let after = None;
        ScheduledTask::FormerMember { org, member, after }.schedule(transaction, now, self.env());
        Ok(Member {
            role: held,
            ..found
        })
    }

    /// Takes the first step of deleting what a removed member left.
    ///
    /// Maintenance does the rest, also after a failure, which does not affect the removal.
    async fn clear_now(&self, org: OrgId, member: MemberId) {
        if let Err(error) = self.clear_former_member(org, member, None).await {
            tracing::warn!(%error, %member, "clean-up of a removed member failed; will retry");
        }
    }

    /// Takes one step of deleting what a removed member left, among the credentials after `after`.
    ///
    /// Returns the next step, or `None` once nothing is left. Nothing is added for the member
    /// meanwhile, because every creation for a member checks that it exists.
    pub(crate) async fn clear_former_member(
        &self,
        org: OrgId,
        member: MemberId,
        after: Option<CredentialId>,
    ) -> Result<Option<ScheduledTask>, Error> {
        let next = |after| ScheduledTask::FormerMember { org, member, after };
        let roles = keys::workspace_roles(org, member);
        let held = self
            .store()
            .scan(&roles, LEFTOVERS_PER_COMMIT, Direction::Forward)
            .await?;
        let held: Vec<Key> = held.into_iter().map(|found| found.key).collect();
        if !held.is_empty() {
            self.end_workspace_roles(org, member, &held).await?;
        }
        if held.len() == LEFTOVERS_PER_COMMIT {
            return Ok(Some(next(after)));
        }
        let all = keys::credential_ids(org);
        let rest = match after {
            Some(after) => all.after(&keys::credential_id(org, after)),
            None => all,
        };
        let rest = RangeRead::first(rest, LEFTOVERS_PER_COMMIT);
        let tokens = keys::token_count(org, member);
        let mut reading = self.reading();
        reading
            .prefetch(vec![tokens.clone()], vec![rest.clone()])
            .await?;
        let has_tokens = reading.get::<i64>(&tokens).await?.is_some();
        if has_tokens && !self.delete_tokens_of(org, member).await? {
            return Ok(Some(next(after)));
        }
        let page = reading.scan(&rest).await?;
        let hashes = page
            .iter()
            .map(decode_value)
            .collect::<Result<Vec<String>, _>>()?;
        let hashes = hashes.iter().filter_map(|hash| hash.parse().ok());
        let hashes: Vec<SecretHash> = hashes.collect();
        self.delete_credentials_of(org, member, &hashes).await?;
        let last = page.last().filter(|_| page.len() == LEFTOVERS_PER_COMMIT);
        let last = last.and_then(|last| keys::last_id(&last.key));
        Ok(last.map(|last| next(Some(CredentialId(last)))))
    }

    async fn end_workspace_roles(
        &self,
        org: OrgId,
        member: MemberId,
        held: &[Key],
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            let roles = transaction.get_many::<RoleRef>(held).await?;
            for (key, role) in held.iter().zip(roles) {
                let Some(role) = role else {
                    continue; // A concurrent caller has deleted it.
                };
                let counted = current_role(&mut transaction, org, role).await?;
                let workspace = keys::last_id(key).map(WorkspaceId);
                leave_role(&mut transaction, org, (role, counted), member, workspace);
                transaction.delete(key.clone());
            }
            Ok(transaction.done(()))
        })
        .await
    }

    /// Deletes some of the API tokens of a removed member; with the last ones also their counter,
    /// which exists as long as there are any. Returns true once none is left.
    ///
    /// They are not found by their credentials: that of an expired one may be gone before it.
    async fn delete_tokens_of(&self, org: OrgId, member: MemberId) -> Result<bool, Error> {
        let first = &RangeRead::first(keys::tokens(org, member), LEFTOVERS_PER_COMMIT);
        let counter = &keys::token_count(org, member);
        self.transact(|mut transaction| async move {
            let found = transaction.scan(first).await?;
            let ids = found.iter().filter_map(|found| keys::last_id(&found.key));
            let ids: Vec<CredentialId> = ids.map(CredentialId).collect();
            let deleted = delete_tokens(&mut transaction, org, member, &ids).await?;
            let is_last = found.len() < LEFTOVERS_PER_COMMIT;
            if !is_last {
                transaction.add(counter.clone(), -deleted);
            } else if transaction.get::<i64>(counter).await?.is_some() {
                transaction.delete(counter.clone());
            }
            Ok(transaction.done(is_last))
        })
        .await
    }

    async fn delete_credentials_of(
        &self,
        org: OrgId,
        member: MemberId,
        hashes: &[SecretHash],
    ) -> Result<(), Error> {
        let places: Vec<Key> = hashes.iter().copied().map(keys::credential).collect();
        let found = self
            .store()
            .get_many_as::<CredentialRecord>(&places)
            .await?;
        let theirs = places.into_iter().zip(found);
        let theirs = theirs.filter(|(_, found)| {
            let owner = found.as_ref().map(|found| found.value.member_id);
            owner == Some(member)
        });
        let theirs: Vec<Key> = theirs.map(|(key, _)| key).collect();
        let theirs = &theirs;
        self.transact(|mut transaction| async move {
            let found = transaction.get_many::<CredentialRecord>(theirs).await?;
            let mut mcp_keys = Vec::new();
            for (key, record) in theirs.iter().zip(found) {
                let Some(record) = record else {
                    continue;
                };
                transaction.delete(key.clone());
                transaction.delete(keys::credential_id(org, record.id));
                transaction.delete(keys::credential_use(org, record.id));
                mcp_keys.extend(key_workspace(&record).map(|workspace| (workspace, record.id)));
            }
            forget_keys(&mut transaction, org, &mcp_keys).await?;
            Ok(transaction.done(()))
        })
        .await
    }
}
