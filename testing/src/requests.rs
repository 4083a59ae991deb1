//! Requests with usual contents, to be sent as they are or with changed fields.

use std::time::Duration;

use knowledge_core::access::{BaseRole, BuiltInRole, CredentialKind, RoleRef, TokenScope};
use knowledge_core::model::{
    ConnectorScope, McpClient, MemberId, MemberKind, MemoryChange, MemoryId, NewCustomRole,
    ReviewStatus, RoleActions, SensitivityLabel, SourceId, WorkspaceAccess,
};
use knowledge_core::service::{
    Attempt, CreateMemory, DeliveryResponse, NewChat, NewConnector, NewMcpKey, NewMember,
    NewMemory, NewOrganization, NewOwner, NewRecall, NewToken, NewWorkspace, NewWorkspaceAccess,
    SyncOutcome, SyncReport,
};

/// Returns a request with some fields changed.
#[must_use]
pub fn with<T>(mut request: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut request);
    request
}

/// One minute.
pub const MINUTE: Duration = Duration::from_secs(60);
/// One hour.
pub const HOUR: Duration = Duration::from_secs(60 * 60);
/// One day.
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// One millisecond.
pub const MILLISECOND: Duration = Duration::from_millis(1);

/// Built-in role of a viewer.
pub const VIEWER: RoleRef = RoleRef::BuiltIn(BuiltInRole::Viewer);
/// Built-in role of a member.
pub const MEMBER: RoleRef = RoleRef::BuiltIn(BuiltInRole::Member);
/// Built-in role of an administrator.
pub const ADMIN: RoleRef = RoleRef::BuiltIn(BuiltInRole::Admin);
/// Built-in role of an owner.
pub const OWNER: RoleRef = RoleRef::BuiltIn(BuiltInRole::Owner);

/// Returns an organisation with an owner without teams.
#[must_use]
pub fn new_organization(slug: &str, owner: &str) -> NewOrganization {
    let named = NewOwner::builder()
        .handle(owner)
        .name(format!("Member {owner}"));
    NewOrganization::builder()
        .slug(slug)
        .name(format!("Organisation {slug}"))
        .owner(named.build())
        .build()
}

/// Returns a user without teams.
#[must_use]
pub fn new_member(handle: &str, role: RoleRef) -> NewMember {
    NewMember::builder()
        .kind(MemberKind::User)
        .handle(handle.to_owned())
        .name(format!("Member {handle}"))
        .role(role)
        .teams(Vec::new())
        .build()
}

/// Returns a token or session of full scope, valid for a day.
#[must_use]
pub fn new_token(member: MemberId, kind: CredentialKind) -> NewToken {
    NewToken::builder()
        .member(member)
        .kind(kind)
        .name("for tests")
        .scope(TokenScope::default())
        .lifetime(DAY)
        .build()
}

/// Returns a workspace.
#[must_use]
pub fn new_workspace(slug: &str) -> NewWorkspace {
    NewWorkspace::builder()
        .name(format!("Workspace {slug}"))
        .slug(slug.to_owned())
        .build()
}

/// Returns a change of the access to a workspace.
#[must_use]
pub fn new_access(access: WorkspaceAccess) -> NewWorkspaceAccess {
    NewWorkspaceAccess::builder().access(access).build()
}

/// Returns a role of the organisation with the actions of a viewer.
#[must_use]
pub fn new_role(slug: &str) -> NewCustomRole {
    NewCustomRole::builder()
        .name(format!("Role {slug}"))
        .slug(slug.to_owned())
        .base_role(BaseRole::Viewer)
        .description(String::new())
        .actions(RoleActions::default())
        .build()
}

/// Returns a memory with the default labels.
#[must_use]
pub fn new_memory(title: &str) -> NewMemory {
    NewMemory::builder()
        .title(title.to_owned())
        .content(format!("What {title} says."))
        .build()
}

/// Returns a memory to be created on its own, with the default labels.
#[must_use]
pub fn create_memory(title: &str, source_id: SourceId) -> CreateMemory {
    CreateMemory::builder()
        .source_id(source_id)
        .title(title.to_owned())
        .content(format!("What {title} says."))
        .build()
}

/// Returns a change of the sensitivity.
#[must_use]
pub fn sensitivity(label: SensitivityLabel) -> MemoryChange {
    MemoryChange::builder().sensitivity_label(label).build()
}

/// Returns a change of the review status.
#[must_use]
pub fn review(status: ReviewStatus) -> MemoryChange {
    MemoryChange::builder().review_status(status).build()
}

/// Returns a delivery attempt that the receiver answered with a status after 20 ms.
#[must_use]
pub fn answered(status: u16) -> Attempt {
    Attempt {
        duration: 20 * MILLISECOND,
        outcome: Ok(DeliveryResponse {
            status,
            retry_after: None,
        }),
    }
}

/// A successful sync.
pub static SUCCESS: SyncReport = SyncReport::new(SyncOutcome::Success);

/// Returns a failed sync.
#[must_use]
pub fn failure(error: &str) -> SyncReport {
    SyncReport::new(SyncOutcome::Failure {
        error: error.to_owned(),
        is_authentication: false,
    })
}

/// Returns a personal connector.
#[must_use]
pub fn new_connector(sync_interval: Duration) -> NewConnector {
    NewConnector::builder()
        .kind("confluence")
        .account_label("wiki@acme")
        .scope(ConnectorScope::Personal)
        .sync_interval(sync_interval)
        .build()
}

/// Returns an MCP key of 90 days.
///
/// # Panics
/// If the text is not an audience label.
#[must_use]
pub fn new_mcp_key(audience: &str) -> NewMcpKey {
    NewMcpKey::builder()
        .name("Laptop")
        .client(McpClient::ClaudeCode)
        .audience(vec![audience.parse().expect("an audience label")])
        .rotation(90 * DAY)
        .build()
}

/// Returns a chat whose only participant is its creator.
#[must_use]
pub fn new_chat(title: &str) -> NewChat {
    NewChat::builder().title(title).build()
}

/// Returns a recall that cites memories.
#[must_use]
pub fn new_recall(memory_ids: &[MemoryId]) -> NewRecall {
    NewRecall::builder()
        .query("Where is it written?")
        .memory_ids(memory_ids.to_vec())
        .build()
}
