//! MCP keys: requests, responses and the stored record.

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

use crate::access::Secret;
use crate::limits::ROTATION_DEFAULT;
use crate::model::{
    AudienceLabel, CredentialId, McpClient, McpKeySummary, MemberId, ResourceState, SourceId,
    Timestamp, WorkspaceId,
};
use crate::request::request;
use crate::request::rules::{ClientName, Id, Items, List, Name, Parsed, RotationSeconds};
use crate::service::access::created::Ending;
use crate::service::access::principal::Delegator;

/// Maximum number of audience labels of a key.
pub(crate) const AUDIENCE_MAX: usize = 32;

request! {
    /// A new MCP key.
    pub struct NewMcpKey {
        /// Name, 1 to 128 characters.
        name: String as Name,
        /// Kind of client that uses the key.
        ///
        /// A request may name any client; an unknown one is stored as `other`.
        client: McpClient as ClientName,
        /// Audience labels that the key covers, 1 to 32; each must cover the caller too.
        audience: Vec<AudienceLabel> as List<Parsed<AudienceLabel>, Items<1, AUDIENCE_MAX>>,
        /// Rotation period, at most 366 days; 90 days by default.
        rotation ("rotationSeconds"): Duration as RotationSeconds = ROTATION_DEFAULT,
        /// Source of the memories that the key may propose; it may propose none without one.
        proposal_source_id ("proposalSourceId"): Option<SourceId> as Option<Id<SourceId>>,
    }
}

/// A new or rotated MCP key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct IssuedMcpKey {
    /// Fields that later responses show too.
    #[serde(flatten)]
    pub summary: McpKeySummary,
    /// The key itself, returned only in this response; `null` if that is repeated for an
    /// `Idempotency-Key`.
    #[serde(serialize_with = "expose")]
    #[cfg_attr(feature = "openapi", schemars(with = "Option<String>"))]
    pub secret: Option<Secret>,
}

/// Serialises the clear text of a secret.
pub(crate) fn expose<S: Serializer>(
    secret: &Option<Secret>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    secret.as_ref().map(Secret::expose).serialize(serializer)
}

/// Stored record of an MCP key, apart from its credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct McpKey {
    pub(crate) id: CredentialId,
    pub(crate) name: String,
    pub(crate) client: McpClient,
    pub(crate) audience: Vec<AudienceLabel>,
    pub(crate) created_by: MemberId,
    pub(crate) created_at: Timestamp,
    /// Member that the key acts as: the one that created it or last rotated it.
    pub(crate) acts_as: MemberId,
    /// Credential that created the key or last rotated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) created_with: Option<CredentialId>,
    /// Credential that created that one: the session of an API token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) created_through: Option<CredentialId>,
    /// Expiry of that credential, if it is scoped: the key then ends with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bound_until: Option<Timestamp>,
    /// Source of the memories that the key may propose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) proposal_source_id: Option<SourceId>,
    /// Rotation period, in seconds.
    pub(crate) rotation_seconds: u64,
    pub(crate) rotates_at: Timestamp,
    /// Time from which the key is treated as absent.
    pub(crate) expires_at: Timestamp,
}

impl McpKey {
    /// Returns on whose behalf the key acts.
    pub(crate) fn delegator(&self) -> Delegator {
        Delegator {
            member: self.acts_as,
            credential: self.created_with,
            created_through: self.created_through,
            bound_until: self.bound_until,
        }
    }

    pub(crate) fn summary(
        self,
        workspace_id: WorkspaceId,
        last_used_at: Option<Timestamp>,
        ending: Option<Ending>,
    ) -> McpKeySummary {
        let status = Ending::status(ending, ResourceState::Active);
        McpKeySummary {
            id: self.id,
            workspace_id,
            name: self.name,
            client: self.client,
            audience: self.audience,
            proposal_source_id: self.proposal_source_id,
            last_used_at,
            rotates_at: Some(self.rotates_at),
            state: status.state,
            ended_reason: status.ended_reason,
            ended_at: status.ended_at,
        }
    }
}
