//! Organisations and who is in them: workspaces, members, roles, credentials.

use serde_json::json;

use super::{Claims, Parts, Problem, present_or_former, value};
use crate::access::{CredentialRecord, RoleRef};
use crate::model::{
    CredentialId, CustomRole, Member, MemberId, MemberKind, OrgId, Organization, RoleId, Timestamp,
    Workspace, WorkspaceId,
};
use crate::service::maintain::Due;
use crate::service::verify::claim::Claim;
use crate::service::verify::{DifferenceCode, Verifier};
use crate::keys;
use crate::store::KeyEntry;

pub(super) fn org(verifier: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let org: Organization = value(entry)?;
    verifier.orgs.insert(org.id);
    parts.agree(&[(1, org.id.0)])?;
    Ok(vec![Claim::Says(keys::org_slug(&org.slug), json!(org.id))])
}

pub(super) fn org_slug(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let org: OrgId = value(entry)?;
    let slug = json!({ "slug": parts.last() });
    Ok(vec![Claim::Says(keys::org(org), slug)])
}

pub(super) fn workspace(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let (org, workspace) = (parts.org()?, value::<Workspace>(entry)?);
    parts.agree(&[(2, workspace.id.0)])?;
    let slug = keys::workspace_slug(org, &workspace.slug);
    Ok(vec![
        Claim::Exists(keys::org(org)),
        Claim::Says(slug, json!(workspace.id)),
    ])
}

pub(super) fn workspace_slug(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let workspace = keys::workspace(parts.org()?, value(entry)?);
    let slug = json!({ "slug": parts.last() });
    Ok(vec![Claim::Says(workspace, slug)])
}

pub(super) fn member(verifier: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let (org, member) = (parts.org()?, value::<Member>(entry)?);
    parts.agree(&[(2, member.id.0)])?;
    let is_user = member.kind == MemberKind::User;
    verifier.count(keys::member_count(org), i64::from(is_user));
    let mut claims = held(verifier, org, member.role, member.id, None)?;
    let handle = keys::member_handle(org, &member.handle);
    claims.push(Claim::Says(handle, json!(member.id)));
    claims.push(Claim::Exists(keys::org(org)));
    Ok(claims)
}

pub(super) fn member_handle(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let member = keys::member(parts.org()?, value(entry)?);
    let handle = json!({ "handle": parts.last() });
    Ok(vec![Claim::Says(member, handle)])
}

pub(super) fn former_member(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    value::<Timestamp>(entry)?;
    let (org, member) = (parts.org()?, MemberId(parts.id(2)?));
    Ok(vec![
        Claim::Exists(keys::org(org)),
        Claim::Absent(keys::member(org, member)),
    ])
}

/// A role is held: it exists or leads to one that does, is counted there, and the holder is marked.
fn held(
    verifier: &mut Verifier,
    org: OrgId,
    role: RoleRef,
    member: MemberId,
    workspace: Option<WorkspaceId>,
) -> Claims {
    let Some(resolved) = verifier.resolve(org, role) else {
        let (code, expected) = (DifferenceCode::UnknownRole, "a role that exists");
        return Err(Problem::new(code, expected, role.to_string()));
    };
    verifier.count(keys::holder_count(org, resolved), 1);
    Ok(match role {
        RoleRef::BuiltIn(_) => Vec::new(),
        RoleRef::Custom(id) => vec![Claim::Exists(keys::holder(org, id, member, workspace))],
    })
}

pub(super) fn workspace_role(
    verifier: &mut Verifier,
    entry: &KeyEntry,
    parts: &Parts<'_>,
) -> Claims {
    let org = parts.org()?;
    let (member, workspace) = (MemberId(parts.id(2)?), WorkspaceId(parts.id(3)?));
    let mut claims = held(verifier, org, value(entry)?, member, Some(workspace))?;
    claims.push(present_or_former(org, member));
    claims.push(Claim::Exists(keys::workspace(org, workspace)));
    Ok(claims)
}

pub(super) fn role(verifier: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let (org, role) = (parts.org()?, value::<CustomRole>(entry)?);
    parts.agree(&[(1, role.org_id.0), (2, role.id.0)])?;
    verifier.count(keys::role_count(org), 1);
    let slug = keys::role_slug(org, &role.slug);
    let mut claims = vec![
        Claim::Exists(keys::org(org)),
        Claim::Says(slug, json!(role.id)),
    ];
    let workspace = role.workspace_id;
    claims.extend(workspace.map(|id| Claim::Exists(keys::workspace(org, id))));
    Ok(claims)
}

pub(super) fn role_slug(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let role = keys::role(parts.org()?, value(entry)?);
    let slug = json!({ "slug": parts.last() });
    Ok(vec![Claim::Says(role, slug)])
}

pub(super) fn role_redirect(
    verifier: &mut Verifier,
    entry: &KeyEntry,
    parts: &Parts<'_>,
) -> Claims {
    let (org, role) = (parts.org()?, RoleId(parts.id(2)?));
    let target: RoleRef = value(entry)?;
    if verifier.resolve(org, target).is_none() {
        let (code, expected) = (DifferenceCode::UnknownRole, "a way to a role that exists");
        return Err(Problem::new(code, expected, target.to_string()));
    }
    let counter = keys::holder_count(org, RoleRef::Custom(role));
    Ok(vec![
        Claim::Absent(keys::role(org, role)),
        Claim::Absent(counter),
    ])
}

pub(super) fn holder(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    value::<()>(entry)?;
    let (org, role) = (parts.org()?, RoleId(parts.id(2)?));
    let held = json!(RoleRef::Custom(role));
    let holder = keys::parse_holder(&entry.key);
    let (member, workspace) = holder.ok_or_else(|| Problem::unreadable("no holder"))?;
    Ok(vec![match workspace {
        None => Claim::Says(keys::member(org, member), json!({ "role": held })),
        Some(workspace) => Claim::Says(keys::workspace_role(org, member, workspace), held),
    }])
}

pub(super) fn credential(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let record: CredentialRecord = value(entry)?;
    let by_id = keys::credential_id(record.org_id, record.id);
    let due = Due::record(entry.key.clone()).and(by_id.clone());
    Ok(vec![
        Claim::Says(by_id, json!(parts.last())),
        present_or_former(record.org_id, record.member_id),
        Claim::Due(record.expires_at, due),
    ])
}

pub(super) fn credential_id(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let hash: String = value(entry)?;
    let parsed = hash.parse();
    let parsed = parsed.map_err(|_| Problem::unreadable("something that is no SHA-256"))?;
    let says = json!({ "id": CredentialId(parts.id(2)?), "org_id": parts.org()? });
    Ok(vec![Claim::Says(keys::credential(parsed), says)])
}
