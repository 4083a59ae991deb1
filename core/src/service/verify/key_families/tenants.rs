//! Organisations with their workspaces, members, roles and credentials.

use std::collections::BTreeSet;

use serde_json::json;
use uuid::Uuid;

use crate::access::{CredentialRecord, RoleRef, SecretHash};
use crate::keys;
use crate::model::{
    CredentialId, CustomRole, ErasureStatus, Member, MemberId, MemberKind, OrgId, Organization,
    RoleId, Timestamp, Workspace, WorkspaceAccess, WorkspaceId,
};
use crate::partition::Placement;
use crate::service::access::created::CreatedRecord;
use crate::service::access::principal::Delegator;
use crate::service::tasks::ScheduledTask;
use crate::service::tokens::types::ApiToken;
use crate::service::verify::difference::DifferenceCode;
use crate::service::verify::expectation::Expectation;
use crate::service::verify::problem::{Expectations, Problem};
use crate::service::verify::verifier::Verifier;
use crate::store::{Key, KeyEntry};

/// Expects the entry of an index: the identifier, under the slug or the handle.
fn indexed(key: Key, id: impl serde::Serialize) -> Expectation {
    Expectation::Contains(key, json!(id))
}

pub(super) fn org(verifier: &mut Verifier, _: &KeyEntry, org: Organization) -> Expectations {
    verifier.orgs.insert(org.id);
    let hiding = org.erasing.keys();
    verifier.hiding.extend(hiding.map(|id| (org.id, *id)));
    let erasing = org.erasing.keys().map(|erasure| {
        let key = keys::erasure(org.id, *erasure);
        let running = json!({ "status": ErasureStatus::Running });
        Expectation::Contains(key, json!({ "receipt": running }))
    });
    let slug = indexed(keys::org_slug(&org.slug), org.id);
    // A workspace that is being removed has no record any more.
    let private = org.private.iter().filter(|id| !org.removing.contains(*id));
    let private = private.map(|id| {
        let access = json!({ "access": WorkspaceAccess::Private });
        Expectation::Contains(keys::workspace(org.id, *id), access)
    });
    Ok(erasing.chain(private).chain([slug]).collect())
}

/// Expects the organisation, or the directory's entry of one in another partition.
pub(super) fn org_slug(_: &mut Verifier, _: &KeyEntry, org: OrgId, slug: &str) -> Expectations {
    let (here, elsewhere) = (keys::org(org), keys::placement(org));
    let slug = json!({ "slug": slug });
    Ok(vec![Expectation::ContainsOrExists(here, slug, elsewhere)])
}

pub(super) fn placement(
    _: &mut Verifier,
    _: &KeyEntry,
    placement: Placement,
    org: OrgId,
) -> Expectations {
    Ok(vec![indexed(keys::org_slug(&placement.slug), org)])
}

pub(super) fn workspace(
    verifier: &mut Verifier,
    _: &KeyEntry,
    workspace: Workspace,
    org: OrgId,
) -> Expectations {
    // A private one that the organisation does not name would be open.
    let is_private = workspace.access == WorkspaceAccess::Private;
    if is_private && !verifier.is_private(org, workspace.id) {
        let expected = "an open workspace, or a private one that its organisation names";
        return Err(Problem::new(DifferenceCode::Mismatch, expected, "private"));
    }
    let slug = keys::workspace_slug(org, &workspace.slug);
    Ok(vec![indexed(slug, workspace.id)])
}

pub(super) fn workspace_slug(
    _: &mut Verifier,
    _: &KeyEntry,
    workspace: WorkspaceId,
    org: OrgId,
    slug: &str,
) -> Expectations {
    let (workspace, slug) = (keys::workspace(org, workspace), json!({ "slug": slug }));
    Ok(vec![Expectation::Contains(workspace, slug)])
}

pub(super) fn former_workspace(
    _: &mut Verifier,
    _: &KeyEntry,
    workspace: WorkspaceId,
    org: OrgId,
    slug: &str,
) -> Expectations {
    let gone = [
        keys::workspace(org, workspace),
        keys::workspace_slug(org, slug),
    ];
    Ok(gone.map(Expectation::Absent).into())
}

pub(super) fn former_org(_: &mut Verifier, _: &KeyEntry, _: Timestamp, _: OrgId) -> Expectations {
    Ok(Vec::new())
}

pub(super) fn member(
    verifier: &mut Verifier,
    _: &KeyEntry,
    member: Member,
    org: OrgId,
) -> Expectations {
    let is_user = member.kind == MemberKind::User;
    verifier.count(keys::member_count(org), i64::from(is_user));
    for team in member.teams.iter().collect::<BTreeSet<_>>() {
        verifier.count(keys::team_member_count(org, team), 1);
    }
    let mut expectations = held(verifier, org, member.role, member.id, None)?;
    let handle = keys::member_handle(org, &member.handle);
    expectations.push(indexed(handle, member.id));
    Ok(expectations)
}

pub(super) fn member_handle(
    _: &mut Verifier,
    _: &KeyEntry,
    member: MemberId,
    org: OrgId,
    handle: &str,
) -> Expectations {
    // The handle of a former member stays taken.
    let (present, former) = (keys::member(org, member), keys::former_member(org, member));
    let handle = json!({ "handle": handle });
    Ok(vec![Expectation::ContainsOrExists(present, handle, former)])
}

pub(super) fn former_member(
    _: &mut Verifier,
    _: &KeyEntry,
    _: Timestamp,
    org: OrgId,
    member: MemberId,
) -> Expectations {
    Ok(vec![Expectation::Absent(keys::member(org, member))])
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
    _: &KeyEntry,
    role: RoleRef,
    org: OrgId,
    member: MemberId,
    workspace: WorkspaceId,
) -> Expectations {
    let mut expectations = held(verifier, org, role, member, Some(workspace))?;
    expectations.push(Expectation::present_or_former(org, member));
    Ok(expectations)
}

pub(super) fn role(_: &mut Verifier, _: &KeyEntry, role: CustomRole, org: OrgId) -> Expectations {
    let slug = indexed(keys::role_slug(org, &role.slug), role.id);
    let workspace = role.workspace_id;
    let workspace = workspace.map(|id| Expectation::Exists(keys::workspace(org, id)));
    Ok([Some(slug), workspace].into_iter().flatten().collect())
}

pub(super) fn role_slug(
    _: &mut Verifier,
    _: &KeyEntry,
    role: RoleId,
    org: OrgId,
    slug: &str,
) -> Expectations {
    let (role, slug) = (keys::role(org, role), json!({ "slug": slug }));
    Ok(vec![Expectation::Contains(role, slug)])
}

pub(super) fn role_redirect(
    verifier: &mut Verifier,
    _: &KeyEntry,
    target: RoleRef,
    org: OrgId,
    role: RoleId,
) -> Expectations {
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

pub(super) fn holder(
    _: &mut Verifier,
    _: &KeyEntry,
    (): (),
    org: OrgId,
    role: RoleId,
    member: MemberId,
    workspace: Option<WorkspaceId>,
) -> Expectations {
    let held = json!(RoleRef::Custom(role));
    Ok(vec![match workspace {
        None => Expectation::Contains(keys::member(org, member), json!({ "role": held })),
        Some(workspace) => {
            Expectation::Contains(keys::workspace_role(org, member, workspace), held)
        }
    }])
}

pub(super) fn credential(
    _: &mut Verifier,
    entry: &KeyEntry,
    record: CredentialRecord,
    hash: SecretHash,
) -> Expectations {
    let by_id = keys::credential_id(record.org_id, record.id);
    let task = ScheduledTask::record(entry.key.clone()).and(by_id.clone());
    Ok(vec![
        Expectation::Contains(by_id, json!(hash.to_string())),
        Expectation::present_or_former(record.org_id, record.member_id),
        Expectation::Scheduled(record.expires_at, task),
    ])
}

pub(super) fn credential_id(
    _: &mut Verifier,
    _: &KeyEntry,
    hash: String,
    org: OrgId,
    credential: CredentialId,
) -> Expectations {
    let parsed = hash.parse();
    let parsed = parsed.map_err(|_| Problem::unreadable("a value that is not a SHA-256"))?;
    let says = json!({ "id": credential, "org_id": org });
    Ok(vec![Expectation::Contains(keys::credential(parsed), says)])
}

pub(super) fn token(
    _: &mut Verifier,
    entry: &KeyEntry,
    token: ApiToken,
    org: OrgId,
    member: MemberId,
) -> Expectations {
    let task = ScheduledTask::record(entry.key.clone());
    let task = task.counted_by(keys::token_count(org, member));
    let place = (token.id.0, CreatedRecord::Token(member));
    let indexed = indexed_by_credential(org, token.delegator(), place);
    let expectations = [
        Expectation::present_or_former(org, member),
        Expectation::Scheduled(token.expires_at, task),
    ];
    Ok(expectations.into_iter().chain(indexed).collect())
}

/// Expects that what a credential created, or a token that it created, acts for it.
pub(super) fn created_with(
    _: &mut Verifier,
    _: &KeyEntry,
    record: CreatedRecord,
    org: OrgId,
    credential: CredentialId,
    resource: Uuid,
) -> Expectations {
    let says = match record {
        CreatedRecord::McpKey(_) | CreatedRecord::Token(_) => [
            json!({ "created_with": credential }),
            json!({ "created_through": credential }),
        ],
        _ => [
            json!({ "delegator": { "credential": credential } }),
            json!({ "delegator": { "created_through": credential } }),
        ],
    };
    let [created, through] = says;
    let key = record.key(org, resource);
    Ok(vec![Expectation::ContainsEither(key, created, through)])
}

/// Expects something in the index of what the credentials of its delegator created.
pub(super) fn indexed_by_credential(
    org: OrgId,
    delegator: Delegator,
    (id, record): (Uuid, CreatedRecord),
) -> impl Iterator<Item = Expectation> {
    delegator.credentials().map(move |credential| {
        let key = keys::created_with(org, credential, id);
        Expectation::Contains(key, json!(record))
    })
}
