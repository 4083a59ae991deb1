//! Deletion of custom roles with any number of holders.
//!
//! Deletion and reassignment take effect together. One commit turns the role into a redirect, adds
//! its holders to the count of the target and frees its slug; resolving a role follows redirects.
//! Maintenance rewrites the holders in batches, each with checks, and then deletes the redirect. A
//! crash in between has no visible effect.

use crate::access::{BaseRole, BuiltInRole, RoleRef};
use crate::error::{Error, ProblemCode};
use crate::keys;
use crate::model::{
    AuditAction, CustomRole, Member, MemberId, OrgId, ResourceKind, RoleId, WorkspaceId,
};
use crate::operation::Operation;
use crate::service::access::coverage::Coverage;
use crate::service::access::principal::Principal;
use crate::service::access::roles::{REDIRECTS_MAX, follow_role};
use crate::service::audit::write::state;
use crate::service::members::roles::DeleteRole;
use crate::service::members::with_roles;
use crate::service::operation::Prefetch;
use crate::service::tasks::ScheduledTask;
use crate::service::{Caller, KnowledgeService, Roles};
use crate::store::{Direction, Key, RangeRead, StoreExt, Transaction, decode_value, read_json};

/// Maximum number of holders that one commit rewrites.
const HOLDERS_PER_COMMIT: usize = 500;
/// Maximum number of deleted roles of an organisation that are not settled.
///
/// It is far below the number of redirects that a reader follows, because concurrent deletions do
/// not see each other.
const REDIRECTS_PER_ORG_MAX: usize = REDIRECTS_MAX / 2;

/// # Deletion of custom roles
impl Roles<'_> {
    /// Deletes a custom role and reassigns its holders to `reassign_to` at the same moment.
    ///
    /// # Errors
    /// Those of [`Operation::DeleteCustomRole`]; [`Error::InvalidRequest`] for a `reassign_to` that
    /// is the role itself, unknown, inactive or a role of one workspace; [`Error::Forbidden`] for a
    /// role or a target with actions that the caller lacks where the role can be held, for a role
    /// that the caller holds, unless it is an owner, and for an organisation-wide role while a
    /// private workspace does not exist for the caller; [`Error::RoleInUse`] if it has holders and
    /// there is no `reassign_to`; [`Error::Conflict`] if too many roles deleted earlier are not
    /// settled.
    pub async fn delete(
        self,
        caller: &Caller,
        org_slug: &str,
        role: RoleId,
        request: &DeleteRole,
    ) -> Result<(), Error> {
        self.service
            .perform(Operation::DeleteCustomRole, caller, |caller| async move {
                let org = caller.org();
                let key = keys::role(org, role);
                let counter = keys::holder_count(org, RoleRef::Custom(role));
                let target = match request.reassign_to {
                    Some(RoleRef::Custom(target)) => Some(keys::role(org, target)),
                    _ => None,
                };
                let keys = [key.clone(), counter.clone()];
                let prefetch = with_roles(Prefetch::keys(keys).and_keys(target), org);
                let caller = caller.authenticate(prefetch).await?;
                let mut op = caller.in_organization(Some(org_slug)).await?;
                let now = op.now;
                let deleted = op.find_role(&key).await?;
                let mut actions = deleted.actions_if_active();
                if let Some(target) = request.reassign_to {
                    let (transaction, caller) = (&mut op.transaction, &op.principal);
                    actions = actions | check_target(transaction, caller, role, target).await?;
                }
                let coverage = Coverage::of(&mut op.transaction, &op.principal).await?;
                coverage.require_change(&deleted, actions)?;
                let holders = op.transaction.get::<i64>(&counter).await?.unwrap_or(0);
                match request.reassign_to {
                    None if holders > 0 => {
                        return Err(Error::RoleInUse {
                            holder_count: holders.unsigned_abs(),
                        });
                    }
                    Some(target) if holders > 0 => {
                        reject_long_chains(&mut op.transaction, org).await?;
                        let settle = ScheduledTask::Redirects(org);
                        settle.schedule(&mut op.transaction, now, self.service.env());
                        let redirect = keys::role_redirect(org, role);
                        op.transaction.put(redirect, &target);
                        let counter = keys::holder_count(org, target);
                        op.transaction.add(counter, holders);
                    }
                    // Nobody follows the redirects to a role without holders any more.
                    _ => drop_redirects(&mut op.transaction, org, role).await?,
                }
                op.transaction.delete(key);
                op.transaction.delete(counter);
                op.transaction.delete(keys::role_slug(org, &deleted.slug));
                op.transaction.add(keys::role_count(org), -1);
                op.record(
                    AuditAction::RoleDelete,
                    (ResourceKind::Role, role.0),
                    Some(state(&deleted)),
                    request
                        .reassign_to
                        .map(|target| serde_json::json!({ "reassign_to": target })),
                );
                op.done(())
            })
            .await
    }
}

impl KnowledgeService {
    /// Takes one step of settling the deleted roles of an organisation.
    ///
    /// It rewrites up to [`HOLDERS_PER_COMMIT`] holders of one role, or deletes a redirect that is
    /// no longer needed. Returns the number of rewritten holders, and true if there is more to do.
    pub(crate) async fn settle_redirects(&self, org: OrgId) -> Result<(u64, bool), Error> {
        let redirects = self.store().scan_all(&keys::role_redirects(org)).await?;
        let targets: Vec<Option<RoleRef>> = redirects
            .iter()
            .map(|found| read_json(&found.entry.value).ok())
            .collect();
        for redirect in &redirects {
            let role = RoleId(keys::last_id(&redirect.key).ok_or_else(|| foreign(&redirect.key))?);
            let range = keys::holders(org, role);
            let holders = self
                .store()
                .scan(&range, HOLDERS_PER_COMMIT, Direction::Forward)
                .await?;
            if holders.is_empty() {
                // The target of another redirect is kept until that one has been settled.
                if !targets.contains(&Some(RoleRef::Custom(role))) {
                    self.remove_redirect(&redirect.key).await?;
                    return Ok((0, true));
                }
                continue;
            }
            let holders: Vec<_> = holders
                .iter()
                .map(|found| keys::parse_holder(&found.key).ok_or_else(|| foreign(&found.key)))
                .collect::<Result<_, _>>()?;
            let rewritten = self.rewrite_holders(org, role, &holders).await?;
            return Ok((rewritten, true));
        }
        Ok((0, false))
    }

    async fn remove_redirect(&self, key: &Key) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            if transaction.get::<RoleRef>(key).await?.is_some() {
                transaction.delete(key.clone());
            }
            Ok(transaction.done(()))
        })
        .await
    }

    async fn rewrite_holders(
        &self,
        org: OrgId,
        from: RoleId,
        holders: &[(MemberId, Option<WorkspaceId>)],
    ) -> Result<u64, Error> {
        self.transact(|mut transaction| async move {
            let Some(to) = follow_role(&mut transaction, org, RoleRef::Custom(from)).await? else {
                // A concurrent caller has settled it.
                return Ok(transaction.done(0));
            };
            let to = to.reference();
            let marks: Vec<Key> = holders
                .iter()
                .map(|(member, workspace)| keys::holder(org, from, *member, *workspace))
                .collect();
            let held = transaction.get_many::<()>(&marks).await?;
            // A change of the role in the meantime has deleted the mark in the same commit.
            let held = marks.into_iter().zip(holders).zip(held);
            let held: Vec<_> = held
                .filter_map(|(holder, mark)| mark.map(|()| holder))
                .collect();
            for (mark, (member, workspace)) in &held {
                transaction.delete(mark.clone());
                if let RoleRef::Custom(to) = to {
                    transaction.put(keys::holder(org, to, *member, *workspace), &());
                }
            }
            let members = held
                .iter()
                .filter(|(_, (_, workspace))| workspace.is_none());
            let members: Vec<Key> = members.map(|(_, (id, _))| keys::member(org, *id)).collect();
            let found = transaction.get_many::<Member>(&members).await?;
            for (key, member) in members.into_iter().zip(found) {
                if let Some(member) = member {
                    transaction.put(key, &Member { role: to, ..member });
                }
            }
            let overrides = held.iter().filter_map(|(_, (member, workspace))| {
                workspace.map(|workspace| keys::workspace_role(org, *member, workspace))
            });
            let overrides: Vec<Key> = overrides.collect();
            let found = transaction.get_many::<RoleRef>(&overrides).await?;
            for (key, role) in overrides.into_iter().zip(found) {
                if role.is_some() {
                    transaction.put(key, &to);
                }
            }
            let rewritten = held.len() as u64;
            Ok(transaction.done(rewritten))
        })
        .await
    }
}

/// Checks that the redirects of deleted roles are few enough for readers to follow.
///
/// # Errors
/// [`Error::Conflict`] otherwise.
async fn reject_long_chains(transaction: &mut Transaction, org: OrgId) -> Result<(), Error> {
    let redirects = transaction
        .scan(&RangeRead::all(keys::role_redirects(org)))
        .await?;
    if redirects.len() < REDIRECTS_PER_ORG_MAX {
        Ok(())
    } else {
        Err(Error::Conflict)
    }
}

/// Deletes the redirects that lead to a role: all of them, however many concurrent deletions left.
async fn drop_redirects(
    transaction: &mut Transaction,
    org: OrgId,
    role: RoleId,
) -> Result<(), Error> {
    let mut rest = transaction
        .scan(&RangeRead::all(keys::role_redirects(org)))
        .await?;
    let mut gone = vec![role];
    while let Some(target) = gone.pop() {
        let mut kept = Vec::with_capacity(rest.len());
        for found in rest {
            if decode_value::<RoleRef>(&found)? == RoleRef::Custom(target) {
                gone.extend(keys::last_id(&found.key).map(RoleId));
                transaction.check(found.key.clone(), Some(found.entry.version));
                transaction.delete(found.key);
            } else {
                kept.push(found);
            }
        }
        rest = kept;
    }
    Ok(())
}

/// Checks that `target` can replace `role`. Returns its actions.
///
/// # Errors
/// [`Error::InvalidRequest`] if it cannot.
async fn check_target(
    transaction: &mut Transaction,
    caller: &Principal,
    role: RoleId,
    target: RoleRef,
) -> Result<crate::access::ActionSet, Error> {
    let wrong = |message: &str| Error::invalid("reassign_to", ProblemCode::InvalidValue, message);
    let target = match target {
        RoleRef::BuiltIn(BuiltInRole::Viewer) => return Ok(BaseRole::Viewer.actions()),
        RoleRef::BuiltIn(BuiltInRole::Member) => return Ok(BaseRole::Member.actions()),
        RoleRef::BuiltIn(_) => {
            return Err(wrong(
                "must be viewer, member or the UUID of an organisation-wide custom role",
            ));
        }
        RoleRef::Custom(target) => target,
    };
    if target == role {
        return Err(wrong("must differ from the deleted role"));
    }
    let found = transaction
        .get::<CustomRole>(&keys::role(caller.org_id(), target))
        .await?;
    let Some(found) = found.filter(|found| caller.knows_role(found)) else {
        return Err(Error::invalid(
            "reassign_to",
            ProblemCode::NotFound,
            "must be viewer, member or the UUID of a custom role of the organisation",
        ));
    };
    if found.workspace_id.is_some() {
        return Err(wrong("must be an organisation-wide role"));
    }
    if !found.is_active {
        return Err(wrong("must be an active role"));
    }
    Ok(found.effective_actions())
}

fn foreign(key: &Key) -> Error {
    Error::internal(format!("the key {key} is malformed"))
}
