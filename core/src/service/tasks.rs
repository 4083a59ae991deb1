//! Scheduled tasks of maintenance, in an index ordered by due time.

use serde::{Deserialize, Serialize};

use crate::env::Env;
use crate::keys;
use crate::model::{
    ChatId, ConnectorId, CredentialId, EndpointId, ErasureId, EventId, MemberId, OrgId, Timestamp,
    WorkspaceId,
};
use crate::store::{Key, Transaction};

/// A task that is due at some time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ScheduledTask {
    /// Deletes records, if the `expires_at` of the first one has passed.
    Expire {
        /// Keys of the records.
        records: Vec<String>,
        /// Key of a counter that includes the first record.
        counter: Option<String>,
    },
    /// Publishes a status of a connector that results only from the passage of time.
    Connector {
        org: OrgId,
        workspace: WorkspaceId,
        connector: ConnectorId,
    },
    /// Settles the deleted roles of an organisation: rewrites their holders.
    Redirects(OrgId),
    /// Purges the audit log of an organisation. Each organisation always has one such task.
    Audit(OrgId),
    /// Purges an event and its deliveries at the end of their retention.
    Event { org: OrgId, event: EventId },
    /// Deletes some of the deliveries of a deleted endpoint.
    FormerEndpoint { org: OrgId, endpoint: EndpointId },
    /// Deletes some of the records that a removed member left.
    FormerMember {
        org: OrgId,
        member: MemberId,
        /// Last credential of the organisation that was examined.
        #[serde(skip_serializing_if = "Option::is_none")]
        after: Option<CredentialId>,
    },
    /// Deletes some of the messages of a deleted chat.
    FormerChat { org: OrgId, chat: ChatId },
    /// Takes a step of an erasure.
    Erasure { org: OrgId, erasure: ErasureId },
    /// Takes a step of the removal of a workspace.
    FormerWorkspace {
        org: OrgId,
        workspace: WorkspaceId,
        /// Key of the last role in a workspace that was examined.
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// Takes a step of the removal of an organisation.
    FormerOrg {
        org: OrgId,
        /// Key of the last scheduled task that was examined.
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// Erases some of what has expired in a workspace.
    Retention { org: OrgId, workspace: WorkspaceId },
}

impl ScheduledTask {
    /// Creates the expiry of the record under `key`.
    pub(super) fn record(key: Key) -> Self {
        Self::Expire {
            records: vec![key.to_string()],
            counter: None,
        }
    }

    /// Adds a record that is deleted together with the first.
    pub(super) fn and(mut self, key: Key) -> Self {
        if let Self::Expire { records, .. } = &mut self {
            records.push(key.to_string());
        }
        self
    }

    /// Adds a counter that is decremented with the deletion.
    pub(super) fn counted_by(mut self, key: Key) -> Self {
        if let Self::Expire { counter, .. } = &mut self {
            *counter = Some(key.to_string());
        }
        self
    }

    /// Returns the organisation that the task belongs to.
    pub(crate) fn org(&self) -> Option<OrgId> {
        match self {
            Self::Expire { records, .. } => {
                let keys = records.iter().map(Key::new);
                keys.flatten().find_map(|key| keys::org_of(&key))
            }
            Self::Redirects(org)
            | Self::Audit(org)
            | Self::Connector { org, .. }
            | Self::Event { org, .. }
            | Self::FormerEndpoint { org, .. }
            | Self::FormerMember { org, .. }
            | Self::FormerChat { org, .. }
            | Self::Erasure { org, .. }
            | Self::FormerWorkspace { org, .. }
            | Self::FormerOrg { org, .. }
            | Self::Retention { org, .. } => Some(*org),
        }
    }

    /// Adds the task to the index.
    pub(super) fn schedule(&self, transaction: &mut Transaction, at: Timestamp, env: &Env) {
        transaction.put(keys::due(at, env.uuid()), self);
    }
}
