//! A world to test against: organisations of one shape, made through the service's own operations.
//!
//! What a black-box test needs to know of it (identifiers, tokens, sessions) is a [`Fixture`], which can be written as
//! JSON, so that a suite can be put under any front end over any store: seed a store, serve it, add the address, and
//! hand the file to the suite.
//!
//! Nothing reaches from one organisation to another. So a test that changes something takes an organisation of its
//! own and disturbs no other.

mod complete;
mod seed;

use serde::{Deserialize, Serialize};

pub use self::complete::complete;
pub use self::seed::{seed, seed_orgs};
use knowledge_core::model::{
    ChatId, ConnectorId, CredentialId, MemberId, MemoryId, OrgId, RecallId, RoleId, SourceId,
    WorkspaceId,
};

/// How many organisations a fixture has.
pub const ORGS: usize = 96;

/// A seeded store, as those who call the service over it see it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fixture {
    /// Where the service is reached, without a slash at the end. Added by whoever serves it.
    pub base_url: Option<String>,
    /// The organisations, [`ORGS`] of them unless told otherwise. They differ in their identifiers, secrets and slugs, `org-00` and so on;
    /// the slugs and handles inside are the same everywhere.
    pub orgs: Vec<OrgFixture>,
}

/// One organisation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OrgFixture {
    /// The identifier.
    pub id: OrgId,
    /// The slug.
    pub slug: String,
    /// The workspace that has everything: `handbook`.
    pub main: WorkspaceFixture,
    /// Another one: `support`, with twenty internal memories.
    pub side: WorkspaceFixture,
    /// A workspace without anything in it: `empty`.
    pub empty: WorkspaceFixture,
    /// The members.
    pub members: MembersFixture,
    /// Bearer tokens that are not as those of the members.
    pub tokens: TokensFixture,
    /// Sessions that are taken no more.
    pub dead_sessions: DeadFixture,
    /// The custom roles.
    pub roles: RolesFixture,
    /// The source of all memories, and two without any.
    pub sources: Vec<SourceId>,
    /// A recall in `main` that cites its first three internal memories.
    pub recall: RecallId,
    /// The connectors of `main`: pending, healthy, degraded, failing, in want of authentication, paused.
    pub connectors: Vec<ConnectorId>,
    /// The chats of `main`, oldest first.
    pub chats: Vec<ChatId>,
    /// The MCP key of `main`.
    pub mcp_key_id: CredentialId,
}

/// One workspace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkspaceFixture {
    /// The identifier.
    pub id: WorkspaceId,
    /// The slug.
    pub slug: String,
    /// Its memories. All but the last twenty internal ones of `main`, which are approved, wait for review.
    pub memories: MemoriesFixture,
}

/// The memories of a workspace, by their labels.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MemoriesFixture {
    /// For the workspace, `internal`: eighty in `main`.
    pub internal: Vec<MemoryId>,
    /// For the workspace, `confidential`: eight in `main`.
    pub confidential: Vec<MemoryId>,
    /// For the workspace, `restricted`: eight in `main`.
    pub restricted: Vec<MemoryId>,
    /// For the owner alone, `internal`: four in `main`.
    pub private: Vec<MemoryId>,
}

/// The members of an organisation. The handle of each is the name of its field.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MembersFixture {
    /// Owns the organisation.
    pub owner: MemberFixture,
    /// An administrator.
    pub admin: MemberFixture,
    /// A member.
    pub member: MemberFixture,
    /// A viewer.
    pub viewer: MemberFixture,
    /// A service account that may do what a member may.
    pub robot: MemberFixture,
    /// Holds [`RolesFixture::reviewer`].
    pub reviewer: MemberFixture,
    /// Holds it too.
    pub second_reviewer: MemberFixture,
    /// Holds [`RolesFixture::inactive`].
    pub deputy: MemberFixture,
    /// Holds [`RolesFixture::restrained`].
    pub restrained: MemberFixture,
    /// Holds [`RolesFixture::keeper`].
    pub keeper: MemberFixture,
    /// A viewer in the organisation that holds [`RolesFixture::guest`] in `main`.
    pub guest: MemberFixture,
}

/// One member, with what it is recognised by.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemberFixture {
    /// The identifier.
    pub id: MemberId,
    /// A bearer token that is not narrowed.
    pub token: String,
    /// Another one, as after a rotation.
    pub second_token: String,
    /// A session.
    pub session: String,
}

/// Bearer tokens of the administrator that are narrowed or dead.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TokensFixture {
    /// Works in `side` alone.
    pub side_only: String,
    /// Only for reading memories and dashboards.
    pub reading_only: String,
    /// An MCP key of `main`.
    pub mcp_key: String,
    /// Those that are taken no more.
    pub dead: DeadFixture,
}

/// Credentials that were taken once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeadFixture {
    /// One whose time is over.
    pub expired: String,
    /// One that was revoked.
    pub revoked: String,
}

/// The custom roles of an organisation. The slug of each is the name of its field.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RolesFixture {
    /// A viewer that also relabels and reviews memories; held by two members.
    pub reviewer: RoleId,
    /// A viewer that also reads the audit log; held by nobody.
    pub unheld: RoleId,
    /// A viewer that also relabels memories, switched off after the deputy was given it.
    pub inactive: RoleId,
    /// A member that may neither relabel memories nor see the roles.
    pub restrained: RoleId,
    /// A member that also manages roles and members.
    pub keeper: RoleId,
    /// A member of `main` alone; held there by the guest.
    pub guest: RoleId,
}
