//! Organisations with their workspaces, members, roles and credentials.

use serde_json::json;

use super::{Expectations, Parts, Problem, present_or_former, value};
use crate::access::{CredentialRecord, RoleRef};
use crate::keys;
use crate::model::{
    CredentialId, CustomRole, Member, MemberId, MemberKind, OrgId, Organization, RoleId, Timestamp,
    Workspace, WorkspaceId,
};
use crate::service::maintain::ScheduledTask;
use crate::service::verify::expectation::Expectation;
use crate::service::verify::{DifferenceCode, Verifier};
use crate::store::KeyEntry;

pub(super) fn org(verifier: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    let org: Organization = value(entry)?;
    verifier.orgs.insert(org.id);
    parts.agree(&[(1, org.id.0)])?;
    Ok(vec![Expectation::Contains(
        keys::org_slug(&org.slug),
        json!(org.id),
    )])
}

pub(super) fn org_slug(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    let org: OrgId = value(entry)?;
    let slug = json!({ "slug": parts.last() });
    Ok(vec![Expectation::Contains(keys::org(org), slug)])
}

pub(super) fn workspace(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    let (org, workspace) = (parts.org()?, value::<Workspace>(entry)?);
    parts.agree(&[(2, workspace.id.0)])?;
    let slug = keys::workspace_slug(org, &workspace.slug);
    Ok(vec![
        Expectation::Exists(keys::org(org)),
        Expectation::Contains(slug, json!(workspace.id)),
    ])
}

pub(super) fn workspace_slug(
    _: &mut Verifier,
    entry: &KeyEntry,
    parts: &Parts<'_>,
) -> Expectations {
    let workspace = keys::workspace(parts.org()?, value(entry)?);
    let slug = json!({ "slug": parts.last() });
    Ok(vec![Expectation::Contains(workspace, slug)])
}

pub(super) fn member(verifier: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    let (org, member) = (parts.org()?, value::<Member>(entry)?);
    parts.agree(&[(2, member.id.0)])?;
    let is_user = member.kind == MemberKind::User;
    verifier.count(keys::member_count(org), i64::from(is_user));
    let mut expectations = held(verifier, org, member.role, member.id, None)?;
    let handle = keys::member_handle(org, &member.handle);
    expectations.push(Expectation::Contains(handle, json!(member.id)));
    expectations.push(Expectation::Exists(keys::org(org)));
    Ok(expectations)
}

pub(super) fn member_handle(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    let member = keys::member(parts.org()?, value(entry)?);
    let handle = json!({ "handle": parts.last() });
    Ok(vec![Expectation::Contains(member, handle)])
}

pub(super) fn former_member(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    value::<Timestamp>(entry)?;
    let (org, member) = (parts.org()?, MemberId(parts.id(2)?));
    Ok(vec![
        Expectation::Exists(keys::org(org)),
        Expectation::Absent(keys::member(org, member)),
    ])
}

/// Counts an assigned role and expects an index entry for its holder.
///
/// The role must exist or be redirected to one that does.
fn held(
    verifier: &mut Verifier,
    org: OrgId,
    role: RoleRef,
    member: MemberId,
    workspace: Option<WorkspaceId>,
) -> Expectations {
    let Some(resolved) = verifier.resolve(org, role) else {
        let (code, expected) = (DifferenceCode::UnknownRole, "a role that exists");
        return Err(Problem::new(code, expected, role.to_string()));
    };
    verifier.count(keys::holder_count(org, resolved), 1);
    Ok(match role {
        RoleRef::BuiltIn(_) => Vec::new(),
        RoleRef::Custom(id) => vec![Expectation::Exists(keys::holder(
            org, id, member, workspace,
        ))],
    })
}

pub(super) fn workspace_role(
    verifier: &mut Verifier,
    entry: &KeyEntry,
    parts: &Parts<'_>,
) -> Expectations {
    let org = parts.org()?;
    let (member, workspace) = (MemberId(parts.id(2)?), WorkspaceId(parts.id(3)?));
    let mut expectations = held(verifier, org, value(entry)?, member, Some(workspace))?;
    expectations.push(present_or_former(org, member));
    expectations.push(Expectation::Exists(keys::workspace(org, workspace)));
    Ok(expectations)
}

pub(super) fn role(verifier: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    let (org, role) = (parts.org()?, value::<CustomRole>(entry)?);
    parts.agree(&[(1, role.org_id.0), (2, role.id.0)])?;
    verifier.count(keys::role_count(org), 1);
    let slug = keys::role_slug(org, &role.slug);
    let mut expectations = vec![
        Expectation::Exists(keys::org(org)),
        Expectation::Contains(slug, json!(role.id)),
    ];
    let workspace = role.workspace_id;
    expectations.extend(workspace.map(|id| Expectation::Exists(keys::workspace(org, id))));
    Ok(expectations)
}

pub(super) fn role_slug(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    let role = keys::role(parts.org()?, value(entry)?);
    let slug = json!({ "slug": parts.last() });
    Ok(vec![Expectation::Contains(role, slug)])
}

pub(super) fn role_redirect(
    verifier: &mut Verifier,
    entry: &KeyEntry,
    parts: &Parts<'_>,
) -> Expectations {
    let (org, role) = (parts.org()?, RoleId(parts.id(2)?));
    let target: RoleRef = value(entry)?;
    if verifier.resolve(org, target).is_none() {
        let (code, expected) = (
            DifferenceCode::UnknownRole,
            "a redirect to a role that exists",
        );
        return Err(Problem::new(code, expected, target.to_string()));
    }
    let counter = keys::holder_count(org, RoleRef::Custom(role));
    Ok(vec![
        Expectation::Absent(keys::role(org, role)),
        Expectation::Absent(counter),
    ])
}

pub(super) fn holder(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    value::<()>(entry)?;
    let (org, role) = (parts.org()?, RoleId(parts.id(2)?));
    let held = json!(RoleRef::Custom(role));
    let holder = keys::parse_holder(&entry.key);
    let (member, workspace) =
        holder.ok_or_else(|| Problem::unreadable("a key that is not a role holder"))?;
    Ok(vec![match workspace {
        None => Expectation::Contains(keys::member(org, member), json!({ "role": held })),
        Some(workspace) => {
            Expectation::Contains(keys::workspace_role(org, member, workspace), held)
        }
    }])
}

pub(super) fn credential(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    let record: CredentialRecord = value(entry)?;
    let by_id = keys::credential_id(record.org_id, record.id);
    let task = ScheduledTask::record(entry.key.clone()).and(by_id.clone());
    Ok(vec![
        Expectation::Contains(by_id, json!(parts.last())),
        present_or_former(record.org_id, record.member_id),
        Expectation::Scheduled(record.expires_at, task),
    ])
}

pub(super) fn credential_id(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    let hash: String = value(entry)?;
    let parsed = hash.parse();
    let parsed = parsed.map_err(|_| Problem::unreadable("a value that is not a SHA-256"))?;
    let says = json!({ "id": CredentialId(parts.id(2)?), "org_id": parts.org()? });
    Ok(vec![Expectation::Contains(keys::credential(parsed), says)])
}
