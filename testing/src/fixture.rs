//! Test data: organisations of one shape, created through the service's own operations.
//!
//! A black-box test learns identifiers, tokens and sessions from a [`Fixture`]. It can be written
//! as JSON, so that a suite runs against any front end over any store: seed a store, serve it, set
//! the address, and pass the file to the suite.
//!
//! Organisations are independent: a test that changes something uses one of its own and affects no
//! other.

mod complete;
mod seed;

use serde::{Deserialize, Serialize};

pub use self::complete::complete;
pub use self::seed::{seed, seed_orgs};
use knowledge_core::access::Credential;
use knowledge_core::model::{
    ChatId, ConnectorId, CredentialId, MemberId, MemoryId, OrgId, RecallId, RoleId, SourceId,
    WorkspaceId,
};
use knowledge_core::service::Caller;

/// Number of organisations in a fixture.
pub const ORGS: usize = 160;

/// Seeded store from the perspective of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fixture {
    /// Base URL of the service, without a trailing slash; set by the program that serves it.
    pub base_url: Option<String>,
    /// Organisations, [`ORGS`] of them by default.
    ///
    /// They differ in their identifiers, secrets and slugs, `org-00` and so on; the slugs and
    /// handles inside are the same in each.
    pub orgs: Vec<OrgFixture>,
}

/// Organisation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OrgFixture {
    /// Identifier.
    pub id: OrgId,
    /// Slug.
    pub slug: String,
    /// Workspace with all kinds of entities: `handbook`.
    pub main: WorkspaceFixture,
    /// Workspace with twenty internal memories: `support`.
    pub side: WorkspaceFixture,
    /// Workspace without entities: `empty`.
    pub empty: WorkspaceFixture,
    /// Members.
    pub members: MembersFixture,
    /// Bearer tokens other than those of the members.
    pub tokens: TokensFixture,
    /// Sessions that are no longer valid.
    pub dead_sessions: DeadFixture,
    /// Custom roles.
    pub roles: RolesFixture,
    /// Source of all memories, and two without any.
    pub sources: Vec<SourceId>,
    /// Recall in `main` that cites its first three internal memories.
    pub recall: RecallId,
    /// Connectors of `main`: pending, healthy, degraded, failing, awaiting authentication, paused.
    pub connectors: Vec<ConnectorId>,
    /// Chats of `main`, oldest first: of the owner, the administrator, the member and the viewer.
    pub chats: Vec<ChatId>,
    /// MCP key of `main`.
    pub mcp_key_id: CredentialId,
}

impl OrgFixture {
    /// Returns a credential of the owner that the host vouches for.
    #[must_use]
    pub fn trusted_owner(&self) -> Caller {
        Caller::new(Credential::Trusted {
            org: self.id,
            member: self.members.owner.id,
        })
    }
}

/// Workspace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkspaceFixture {
    /// Identifier.
    pub id: WorkspaceId,
    /// Slug.
    pub slug: String,
    /// Memories.
    ///
    /// All await review, except the last twenty internal ones of `main`, which are approved.
    pub memories: MemoriesFixture,
}

/// Memories of a workspace, by their labels.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MemoriesFixture {
    /// Memories for the workspace, `internal`: eighty in `main`.
    pub internal: Vec<MemoryId>,
    /// Memories for the workspace, `confidential`: eight in `main`.
    pub confidential: Vec<MemoryId>,
    /// Memories for the workspace, `restricted`: eight in `main`.
    pub restricted: Vec<MemoryId>,
    /// Memories for the owner only, `internal`: four in `main`.
    pub private: Vec<MemoryId>,
}

/// Members of an organisation, with the name of the field as handle.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MembersFixture {
    /// Owner.
    pub owner: MemberFixture,
    /// Administrator.
    pub admin: MemberFixture,
    /// Member.
    pub member: MemberFixture,
    /// Viewer.
    pub viewer: MemberFixture,
    /// Service account with the built-in role of a member.
    pub robot: MemberFixture,
    /// Member with the role [`RolesFixture::reviewer`].
    pub reviewer: MemberFixture,
    /// Another member with that role.
    pub second_reviewer: MemberFixture,
    /// Member with the role [`RolesFixture::inactive`].
    pub deputy: MemberFixture,
    /// Member with the role [`RolesFixture::restrained`].
    pub restrained: MemberFixture,
    /// Member with the role [`RolesFixture::keeper`].
    pub keeper: MemberFixture,
    /// Viewer in the organisation with the role [`RolesFixture::guest`] in `main`.
    pub guest: MemberFixture,
}

/// Member with its credentials.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemberFixture {
    /// Identifier.
    pub id: MemberId,
    /// Bearer token of full scope.
    pub token: String,
    /// Second token, as after a rotation.
    pub second_token: String,
    /// Session.
    pub session: String,
}

/// Bearer tokens of the administrator that are restricted or invalid.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TokensFixture {
    /// Token valid in `side` only.
    pub side_only: String,
    /// Token for reading memories and dashboards only.
    pub reading_only: String,
    /// MCP key of `main`.
    pub mcp_key: String,
    /// Tokens that are no longer valid.
    pub dead: DeadFixture,
}

/// Credentials that are no longer valid.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeadFixture {
    /// Expired credential.
    pub expired: String,
    /// Revoked credential.
    pub revoked: String,
}

/// Custom roles of an organisation, with the name of the field as slug.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RolesFixture {
    /// Viewer that also relabels and reviews memories; assigned to two members.
    pub reviewer: RoleId,
    /// Viewer that also reads the audit log; assigned to nobody.
    pub unheld: RoleId,
    /// Viewer that also relabels memories; deactivated after its assignment to the deputy.
    pub inactive: RoleId,
    /// Member that may neither relabel memories nor list roles.
    pub restrained: RoleId,
    /// Member that also manages roles and members.
    pub keeper: RoleId,
    /// Member of `main` only, assigned there to the guest.
    pub guest: RoleId,
}
