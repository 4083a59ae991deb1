//! Deleting custom roles, however many members hold them.
//!
//! From outside, deletion and reassignment are one switch. One commit turns the role into a redirect, adds its
//! holders to the count of the target and frees its slug; whoever resolves a role follows redirects. Maintenance
//! rewrites the holders in batches, each under checks, and then removes the redirect. A crash in between changes
//! nothing that can be seen.

use super::KnowledgeService;
use super::audit::{Actor, AuditAction, Operation, ResourceKind, state};
use super::maintain::Due;
use super::roles::DeleteRole;
use crate::access::{
    BaseRole, BuiltInRole, Credential, REDIRECTS_MAX, RoleRef, follow_role, needs,
};
use crate::error::{Error, ProblemCode};
use crate::model::{CustomRole, Member, MemberId, OrgId, RoleId, WorkspaceId};
use crate::keys;
use crate::store::{Direction, Key, StoreExt, Transaction};

/// How many holders one commit rewrites.
const HOLDERS_PER_COMMIT: usize = 500;
/// How many deleted roles of an organisation may wait to be settled: far fewer than a reader follows, since deletions
/// that run at once do not see each other.
const REDIRECTS_PER_ORG_MAX: usize = REDIRECTS_MAX / 2;

impl KnowledgeService {
    /// Deletes a custom role. Its holders get the role of `reassign_to` in the same moment.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a `reassign_to` that is the role itself, unknown, inactive or of one workspace;
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an organisation that is not the caller's or an unknown
    /// role; [`Error::Forbidden`] without `role:manage` or for a target that may do what the caller may not;
    /// [`Error::RoleInUse`] where it has holders and there is no `reassign_to`; [`Error::Conflict`] where too many roles
    /// that were deleted before are still to be settled.
    pub async fn delete_custom_role(
        &self,
        credential: &Credential,
        org_slug: &str,
        role: RoleId,
        request: &DeleteRole,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            let caller = self
                .enter_org(&mut transaction, credential, org_slug, needs::DELETE_ROLE)
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
                    Due::Redirects(org).schedule(&mut transaction, now, self.env());
                    transaction.put(keys::role_redirect(org, role), &target);
                    transaction.add(keys::holder_count(org, target), holders);
                }
                _ => {}
            }
            transaction.delete(key);
            transaction.delete(counter);
            transaction.delete(keys::role_slug(org, &deleted.slug));
            transaction.add(keys::role_count(org), -1);
            Operation::begin(&transaction, self.env(), now).record(
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

    /// Refuses to delete more roles than can be followed before those deleted earlier are settled.
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

    /// Rewrites up to [`HOLDERS_PER_COMMIT`] holders of one deleted role of the organisation, or removes a redirect
    /// that nobody needs any more. Returns how many holders it rewrote, and whether there is more to do.
    pub(super) async fn settle_redirects(&self, org: OrgId) -> Result<(u64, bool), Error> {
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
                // Another redirect that still leads here keeps this one; it is settled in its own turn.
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
                // Another caller settled it meanwhile.
                return transaction.done(0);
            };
            let to = to.reference();
            let marks: Vec<Key> = holders
                .iter()
                .map(|(member, workspace)| keys::holder(org, from, *member, *workspace))
                .collect();
            let held = transaction.read_many::<()>(&marks).await?;
            // Whoever was given another role meanwhile took the mark away in the same commit.
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

/// What holders of the target may do, if holders of `role` can be given it.
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
                "must be viewer, member or the UUID of a custom role of the whole organisation",
            ));
        }
        RoleRef::Custom(target) => target,
    };
    if target == role {
        return Err(wrong("must be another role than the one that is deleted"));
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
        return Err(wrong(
            "must be a role of the whole organisation, not of one workspace",
        ));
    }
    if !found.is_active {
        return Err(wrong("must be an active role"));
    }
    Ok(found.effective_actions())
}

fn foreign(key: &Key) -> Error {
    Error::internal(format!("the key {key} is not one that this program writes"))
}
