//! Builders of requests, and readers of error codes.

use std::time::Duration;

use knowledge_core::Error;
use knowledge_core::access::{Action, ActionSet, BaseRole, BuiltInRole, RoleRef};
use knowledge_core::model::{
    ConnectorScope, McpClient, MemberKind, MemoryChange, MemoryId, NewCustomRole, ReviewStatus,
    RoleActions, RoleId, SensitivityLabel, SourceId,
};
use knowledge_core::service::{
    CreateMemory, NewConnector, NewMcpKey, NewMember, NewMemory, NewRecall, NewWorkspace,
    SyncOutcome, SyncReport,
};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(60 * 60);
pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);
pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);

pub(crate) const VIEWER: RoleRef = RoleRef::BuiltIn(BuiltInRole::Viewer);
pub(crate) const MEMBER: RoleRef = RoleRef::BuiltIn(BuiltInRole::Member);
pub(crate) const ADMIN: RoleRef = RoleRef::BuiltIn(BuiltInRole::Admin);
pub(crate) const OWNER: RoleRef = RoleRef::BuiltIn(BuiltInRole::Owner);

/// The slug of the organisation.
pub(crate) const ACME: &str = "acme";
/// The key that seals stored secrets.
pub(crate) const SEALING_KEY: [u8; 32] = [42; 32];
pub(crate) fn new_member(handle: &str, role: RoleRef) -> NewMember {
    NewMember {
        kind: MemberKind::User,
        handle: handle.to_owned(),
        name: format!("Member {handle}"),
        role,
        teams: Vec::new(),
    }
}

pub(crate) fn new_workspace(slug: &str) -> NewWorkspace {
    NewWorkspace {
        name: format!("Workspace {slug}"),
        slug: slug.to_owned(),
        audience: None,
    }
}

pub(crate) fn new_role(slug: &str) -> NewCustomRole {
    NewCustomRole {
        name: format!("Role {slug}"),
        slug: slug.to_owned(),
        base_role: BaseRole::Viewer,
        description: String::new(),
        workspace_id: None,
        actions: RoleActions::default(),
    }
}

pub(crate) fn new_memory(title: &str) -> NewMemory {
    NewMemory {
        title: title.to_owned(),
        content: format!("What {title} says."),
        source_key: None,
        audience_tag: None,
        sensitivity_label: None,
    }
}

pub(crate) fn create_memory(title: &str, source_id: SourceId) -> CreateMemory {
    CreateMemory {
        source_id,
        title: title.to_owned(),
        content: format!("What {title} says."),
        source_key: None,
        audience_tag: None,
        sensitivity_label: None,
    }
}

/// Returns a change of the sensitivity.
pub(crate) fn sensitivity(label: SensitivityLabel) -> MemoryChange {
    MemoryChange {
        sensitivity_label: Some(label),
        ..MemoryChange::default()
    }
}

/// Returns a change of the review status.
pub(crate) fn review(status: ReviewStatus) -> MemoryChange {
    MemoryChange {
        review_status: Some(status),
        ..MemoryChange::default()
    }
}

pub(crate) fn actions(actions: &[Action]) -> ActionSet {
    ActionSet::of(actions)
}

pub(crate) fn custom(role: RoleId) -> RoleRef {
    RoleRef::Custom(role)
}

/// Returns the only problem of an invalid request: its path and its code.
#[track_caller]
pub(crate) fn problem<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::InvalidRequest { fields }) => {
            let problems: Vec<_> = fields
                .iter()
                .map(|field| format!("{} {}", field.path, field.code))
                .collect();
            problems.join(", ")
        }
        other => panic!("not an invalid request: {other:?}"),
    }
}

/// Returns the code of an error.
#[track_caller]
pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> &'static str {
    result.expect_err("it is refused").code()
}

/// A successful sync.
pub(crate) const SUCCESS: SyncReport = SyncReport {
    outcome: SyncOutcome::Success,
    next_sync_at: None,
};

/// Returns a failed sync.
pub(crate) fn failure(error: &str) -> SyncReport {
    SyncReport {
        outcome: SyncOutcome::Failure {
            error: error.to_owned(),
            is_authentication: false,
        },
        next_sync_at: None,
    }
}

pub(crate) fn new_connector(sync_interval: Duration) -> NewConnector {
    NewConnector {
        kind: "confluence".to_owned(),
        account_label: "wiki@acme".to_owned(),
        scope: ConnectorScope::Personal,
        sync_interval,
    }
}

pub(crate) fn new_mcp_key(audience: &str) -> NewMcpKey {
    NewMcpKey {
        name: "Laptop".to_owned(),
        client: McpClient::ClaudeCode,
        audience: vec![audience.parse().unwrap()],
        rotation: 90 * DAY,
    }
}

pub(crate) fn new_recall(memory_ids: &[MemoryId]) -> NewRecall {
    NewRecall {
        query: "Where is it written?".to_owned(),
        memory_ids: memory_ids.to_vec(),
    }
}
