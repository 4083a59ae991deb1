//! Deletion of custom roles with any number of holders.
//!
//! Deletion and reassignment take effect together. One commit turns the role into a redirect, adds
//! its holders to the count of the target and frees its slug; resolving a role follows redirects.
//! Maintenance rewrites the holders in batches, each with checks, and then deletes the redirect. A
//! crash in between has no visible effect.

use crate::access::{BaseRole, BuiltInRole, Credential, RoleRef, permissions};
use crate::error::{Error, ProblemCode};
use crate::keys;
use crate::model::{CustomRole, Member, MemberId, OrgId, RoleId, WorkspaceId};
use crate::service::KnowledgeService;
use crate::service::kit::audit::{Actor, AuditedOperation, state};
use crate::service::kit::audit_entry::{AuditAction, ResourceKind};
use crate::service::kit::principal::{REDIRECTS_MAX, follow_role};
use crate::service::maintain::ScheduledTask;
use crate::service::members::roles::DeleteRole;
use crate::store::{Direction, Key, StoreExt, Transaction};

/// Maximum number of holders that one commit rewrites.
const HOLDERS_PER_COMMIT: usize = 500;
/// Maximum number of deleted roles of an organisation that are not settled.
///
/// It is far below the number of redirects that a reader follows, because concurrent deletions do
/// not see each other.
const REDIRECTS_PER_ORG_MAX: usize = REDIRECTS_MAX / 2;

impl KnowledgeService {
    /// Deletes a custom role and reassigns its holders to `reassign_to` at the same moment.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a `reassign_to` that is the role itself, unknown, inactive or
    /// a role of one workspace; [`Error::Unauthenticated`]; [`Error::NotFound`] for an organisation
    /// that is not the caller's or an unknown role; [`Error::Forbidden`] without `role:manage` or
    /// for a target that has actions the caller lacks; [`Error::RoleInUse`] if it has holders and
    /// there is no `reassign_to`; [`Error::Conflict`] if too many roles deleted earlier are not
    /// settled.
    pub async fn delete_custom_role(
        &self,
        credential: &Credential,
        org_slug: &str,
        role: RoleId,
        request: &DeleteRole,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            let caller = self
                .authorize_in_org(
                    &mut transaction,
                    credential,
                    org_slug,
                    permissions::DELETE_ROLE,
                )
                .await?;
            let (org, now) = (caller.org_id(), self.env().now());
            let key = keys::role(org, role);
            let deleted = transaction
                .read::<CustomRole>(&key)
                .await?
                .ok_or(Error::NotFound {
                    what: "custom role",
                })?;
            if let Some(target) = request.reassign_to {
                let granted = check_target(&mut transaction, org, role, target).await?;
                caller.require_covers(granted)?;
            }
            let counter = keys::holder_count(org, RoleRef::Custom(role));
            let holders = transaction.guard(&counter).await?;
            match request.reassign_to {
                None if holders > 0 => {
                    return Err(Error::RoleInUse {
                        holder_count: holders.unsigned_abs(),
                    });
                }
                Some(target) if holders > 0 => {
                    self.refuse_long_chains(org).await?;
                    ScheduledTask::Redirects(org).schedule(&mut transaction, now, self.env());
                    transaction.put(keys::role_redirect(org, role), &target);
                    transaction.add(keys::holder_count(org, target), holders);
                }
                _ => {}
            }
            transaction.delete(key);
            transaction.delete(counter);
            transaction.delete(keys::role_slug(org, &deleted.slug));
            transaction.add(keys::role_count(org), -1);
            AuditedOperation::begin(&transaction, self.env(), now).record(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::RoleDelete,
                (ResourceKind::Role, role.0),
                Some(state(&deleted)),
                request
                    .reassign_to
                    .map(|target| serde_json::json!({ "reassign_to": target })),
            );
            transaction.done(())
        })
        .await
    }

    /// Checks that the redirects of deleted roles are few enough for readers to follow.
    ///
    /// # Errors
    /// [`Error::Conflict`] otherwise.
    async fn refuse_long_chains(&self, org: OrgId) -> Result<(), Error> {
        let range = keys::role_redirects(org);
        let redirects = self
            .store()
            .scan(&range, REDIRECTS_PER_ORG_MAX, Direction::Forward)
            .await?;
        if redirects.len() < REDIRECTS_PER_ORG_MAX {
            Ok(())
        } else {
            Err(Error::Conflict)
        }
    }

    /// Takes one step of settling the deleted roles of an organisation.
    ///
    /// It rewrites up to [`HOLDERS_PER_COMMIT`] holders of one role, or deletes a redirect that is
    /// no longer needed. Returns the number of rewritten holders, and true if there is more to do.
    pub(crate) async fn settle_redirects(&self, org: OrgId) -> Result<(u64, bool), Error> {
        let redirects = self
            .reading()
            .scan_unchecked(&keys::role_redirects(org))
            .await?;
        let targets: Vec<Option<RoleRef>> = redirects
            .iter()
            .map(|found| serde_json::from_slice(&found.entry.value).ok())
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
            if transaction.read::<RoleRef>(key).await?.is_some() {
                transaction.delete(key.clone());
            }
            transaction.done(())
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
                return transaction.done(0);
            };
            let to = to.reference();
            let marks: Vec<Key> = holders
                .iter()
                .map(|(member, workspace)| keys::holder(org, from, *member, *workspace))
                .collect();
            let held = transaction.read_many::<()>(&marks).await?;
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
            let found = transaction.read_many::<Member>(&members).await?;
            for (key, member) in members.into_iter().zip(found) {
                if let Some(member) = member {
                    transaction.put(key, &Member { role: to, ..member });
                }
            }
            let overrides = held.iter().filter_map(|(_, (member, workspace))| {
                workspace.map(|workspace| keys::workspace_role(org, *member, workspace))
            });
            let overrides: Vec<Key> = overrides.collect();
            let found = transaction.read_many::<RoleRef>(&overrides).await?;
            for (key, role) in overrides.into_iter().zip(found) {
                if role.is_some() {
                    transaction.put(key, &to);
                }
            }
            let rewritten = held.len() as u64;
            transaction.done(rewritten)
        })
        .await
    }
}

/// Checks that `target` can replace `role`. Returns its actions.
///
/// # Errors
/// [`Error::InvalidRequest`] if it cannot.
async fn check_target(
    transaction: &mut Transaction,
    org: OrgId,
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
        .read::<CustomRole>(&keys::role(org, target))
        .await?;
    let Some(found) = found else {
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
