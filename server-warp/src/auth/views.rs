//! Bodies of the responses.

use knowledge_core::access::{ActionSet, CredentialKind, RoleRef};
use knowledge_core::model::{CredentialId, MemberId, MemberKind, OrgId, Timestamp};
use knowledge_core::service::{Cursor, Issued, OwnCredential, Page, SignedIn};
use serde::Serialize;

/// Member that a session authenticates, with what the member may do.
#[derive(Serialize)]
pub(super) struct SessionView<'s> {
    organization: OrganizationView<'s>,
    member: MemberView<'s>,
    /// Role in the organisation.
    role: RoleRef,
    /// Actions that the role grants, where no role in a workspace replaces it.
    actions: ActionSet,
    session: SessionTimes,
}

#[derive(Serialize)]
struct OrganizationView<'s> {
    id: OrgId,
    slug: &'s str,
    name: &'s str,
}

#[derive(Serialize)]
struct MemberView<'s> {
    id: MemberId,
    handle: &'s str,
    name: &'s str,
    kind: MemberKind,
    teams: &'s [String],
}

#[derive(Serialize)]
struct SessionTimes {
    id: CredentialId,
    created_at: Timestamp,
    expires_at: Timestamp,
}

impl<'s> SessionView<'s> {
    pub(super) fn of(signed_in: &'s SignedIn) -> Self {
        let (org, member) = (&signed_in.principal.org, &signed_in.principal.member);
        let session = &signed_in.session;
        Self {
            organization: OrganizationView {
                id: org.id,
                slug: &org.slug,
                name: &org.name,
            },
            member: MemberView {
                id: member.id,
                handle: &member.handle,
                name: &member.name,
                kind: member.kind,
                teams: &member.teams,
            },
            role: member.role,
            actions: signed_in.principal.org_actions(),
            session: SessionTimes {
                id: session.id,
                created_at: session.created_at,
                expires_at: session.expires_at,
            },
        }
    }
}

/// An access token.
#[derive(Serialize)]
pub(super) struct TokenView<'i> {
    token: &'i str,
    expires_at: Timestamp,
}

impl<'i> TokenView<'i> {
    pub(super) fn of(issued: &'i Issued) -> Self {
        Self {
            token: issued.secret.expose(),
            expires_at: issued.record.expires_at,
        }
    }
}

/// A page of the caller's own tokens and sessions.
#[derive(Serialize)]
pub(super) struct CredentialList {
    data: Vec<CredentialView>,
    next_cursor: Option<Cursor>,
}

#[derive(Serialize)]
struct CredentialView {
    id: CredentialId,
    kind: &'static str,
    name: String,
    created_at: Timestamp,
    last_used_at: Option<Timestamp>,
    expires_at: Timestamp,
    current: bool,
}

impl CredentialList {
    pub(super) fn of(page: Page<OwnCredential>) -> Self {
        let data = page.data.into_iter().map(|own| CredentialView {
            id: own.record.id,
            kind: match own.record.kind {
                CredentialKind::Session => "session",
                CredentialKind::Bearer | CredentialKind::Link => "token",
            },
            name: own.record.name,
            created_at: own.record.created_at,
            last_used_at: own.last_used_at,
            expires_at: own.record.expires_at,
            current: own.is_current,
        });
        Self {
            data: data.collect(),
            next_cursor: page.next_cursor,
        }
    }
}
