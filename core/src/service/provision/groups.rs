//! Teams and roles that an identity provider decides about, by the groups of a member there.

use super::Provisioning;
use crate::access::RoleRef;
use crate::error::{EntityKind, Error, ProblemCode};
use crate::keys;
use crate::limits::TEAMS_PER_MEMBER_MAX;
use crate::model::{
    AuditAction, Member, MemberId, OrgId, ResourceKind, WorkspaceId, is_label_name,
};
use crate::service::MemberAssignment;
use crate::service::audit::write::{Actor, AuditedOperation};
use crate::service::members::assign::current_role;
use crate::service::members::invitation::withdraw_link;
use crate::service::memories::label_counts::count_teams;

impl Provisioning<'_> {
    /// Sets the managed teams of a member to the granted ones.
    ///
    /// Teams that are neither managed nor granted are unchanged. The audit log has the change, if
    /// there is one, as the operator's. Returns true if there is one.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a granted name that no team can have, or too many teams;
    /// [`Error::NotFound`] for an unknown member.
    pub async fn align_teams(
        &self,
        org: OrgId,
        member: MemberId,
        managed: &[String],
        granted: &[String],
    ) -> Result<bool, Error> {
        let service = self.service;
        service
            .transact(|mut transaction| async move {
                let key = keys::member(org, member);
                let found = transaction.get::<Member>(&key).await?;
                let before = found.ok_or(Error::not_found(EntityKind::Member))?;
                let mut after = before.clone();
                let stays = |team: &String| !managed.contains(team) || granted.contains(team);
                after.teams.retain(stays);
                for team in granted {
                    if !after.teams.contains(team) {
                        after.teams.push(team.clone());
                    }
                }
                if after == before {
                    return Ok(transaction.done(false));
                }
                let invalid = |code, message: &str| Err(Error::invalid("teams", code, message));
                if after.teams.len() > TEAMS_PER_MEMBER_MAX {
                    let message = format!("must be at most {TEAMS_PER_MEMBER_MAX}");
                    return invalid(ProblemCode::TooLarge, &message);
                }
                if !granted.iter().all(|team| is_label_name(team)) {
                    return invalid(ProblemCode::InvalidValue, "must have the form of slugs");
                }
                transaction.put(key, &after);
                count_teams(&mut transaction, org, &before.teams, &after.teams);
                let (env, now) = (service.env(), service.env().now());
                withdraw_link(&mut transaction, org, member, now).await?;
                let (actor, action) = (Actor::operator(org), AuditAction::MemberUpdate);
                let resource = (ResourceKind::Member, member.0);
                let operation = AuditedOperation::begin(&transaction, env, now);
                operation.changed(&mut transaction, actor, action, resource, &before, &after);
                Ok(transaction.done(true))
            })
            .await
    }

    /// Sets the role of a member in the organisation, or in a workspace, to the granted one, if the
    /// member holds none or a managed one there.
    ///
    /// A role that is not managed was assigned by other means and is unchanged. Without a granted
    /// role, a managed one in a workspace ends, and one in the organisation is unchanged, as a
    /// member always holds one. The audit log has the change, if there is one, as the operator's.
    /// Returns true if there is one.
    ///
    /// # Errors
    /// Those of [`assign_role`](Self::assign_role).
    pub async fn align_role(
        &self,
        org: OrgId,
        member: MemberId,
        workspace: Option<WorkspaceId>,
        managed: &[RoleRef],
        granted: Option<RoleRef>,
    ) -> Result<bool, Error> {
        let service = self.service;
        let assignment = match (workspace, granted) {
            (Some(workspace), granted) => MemberAssignment::Workspace(workspace, granted),
            (None, Some(granted)) => MemberAssignment::Organization(granted),
            (None, None) => return Ok(false),
        };
        service
            .transact(|mut transaction| async move {
                let held = match workspace {
                    Some(workspace) => {
                        let key = keys::workspace_role(org, member, workspace);
                        transaction.get::<RoleRef>(&key).await?
                    }
                    None => {
                        let key = keys::member(org, member);
                        let found = transaction.get::<Member>(&key).await?;
                        found.map(|found| found.role)
                    }
                };
                if let Some(held) = held {
                    let held = current_role(&mut transaction, org, held).await?;
                    if !managed.contains(&held) {
                        return Ok(transaction.done(false));
                    }
                }
                service
                    .assign_in(&mut transaction, org, member, assignment)
                    .await?;
                let is_changed = transaction.has_changes();
                Ok(transaction.done(is_changed))
            })
            .await
    }
}
