//! API tokens: requests, responses and the stored record.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::access::{ActionSet, CredentialRecord, Secret, TokenScope};
use crate::limits::SCOPE_ITEMS_MAX;
use crate::model::{
    AudienceLabel, CredentialId, EndedReason, MemberId, ResourceState, ResourceStatus, Timestamp,
    WorkspaceId,
};
use crate::request::request;
use crate::request::rules::{Actions, Id, Items, List, Name, Object, Parsed, Seconds};
use crate::service::access::principal::{Delegator, EndedCredential};
use crate::service::workspace::mcp_key_types::expose;

request! {
    /// A new API token.
    pub struct NewApiToken {
        /// Purpose, 1 to 128 characters.
        name: String as Name,
        /// Scope; unrestricted if omitted.
        scope ("narrowing"): Option<NewTokenScope> as Option<Object<NewTokenScope>>,
        /// Lifetime in seconds, at most that of the service; 90 days if omitted, or fewer where
        /// the service allows fewer.
        #[schemars(extend("x-limit" = "token_lifetime_max"))]
        lifetime ("expires_in_seconds"): Option<Duration> as Option<Seconds>,
    }
}

request! {
    /// Scope of a new API token. An omitted field does not restrict it.
    #[derive(Default)]
    pub struct NewTokenScope {
        /// Workspaces that it is valid in. Such a token is not valid for the organisation as a
        /// whole.
        workspaces: Option<Vec<WorkspaceId>>
            as Option<List<Id<WorkspaceId>, Items<0, SCOPE_ITEMS_MAX>>>,
        /// Actions that it may be used for, of those that its member has.
        actions: Option<ActionSet> as Option<Actions>,
        /// Audience labels that it covers, of those that cover its member.
        audience: Option<Vec<AudienceLabel>>
            as Option<List<Parsed<AudienceLabel>, Items<0, SCOPE_ITEMS_MAX>>>,
    }
}

impl From<NewTokenScope> for TokenScope {
    fn from(new: NewTokenScope) -> Self {
        Self {
            workspaces: new.workspaces,
            actions: new.actions,
            audience: new.audience,
        }
    }
}

/// An API token of a member, without the token itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ApiToken {
    /// Identifier of the token.
    pub id: CredentialId,
    /// Member that it authenticates.
    pub member_id: MemberId,
    /// Purpose of the token.
    pub name: String,
    /// Scope of the token.
    #[serde(rename = "narrowing")]
    pub scope: TokenScope,
    /// Member that created it; `null` if the operator issued it.
    pub created_by: Option<MemberId>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time from which it is treated as unknown.
    pub expires_at: Timestamp,
    /// Session that created it; `null` if the operator issued it.
    pub created_with: Option<CredentialId>,
    /// Time of the last use, to within an hour; `null` if it was not used. Records of the store
    /// have none.
    pub last_used_at: Option<Timestamp>,
    /// State of the token, `active` or `ended`, in every response; records of the store have none.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schemars(with = "ResourceStatus"))]
    pub status: Option<ResourceStatus>,
}

impl ApiToken {
    /// Returns the token with this credential.
    pub(crate) fn of(record: &CredentialRecord, created_by: Option<MemberId>) -> Self {
        Self {
            id: record.id,
            member_id: record.member_id,
            name: record.name.clone(),
            scope: record.scope.clone(),
            created_by,
            created_at: record.created_at,
            expires_at: record.expires_at,
            created_with: record.created_with,
            last_used_at: None,
            status: None,
        }
    }

    /// Returns on whose behalf the token acts.
    pub(crate) fn delegator(&self) -> Delegator {
        Delegator {
            credential: self.created_with,
            ..Delegator::member(self.member_id)
        }
    }

    /// Returns the token with its state: it has ended if everything that its creator created was
    /// ended with that.
    pub(crate) fn shown(self, creator: Option<EndedCredential>) -> Self {
        let ended = creator.filter(|creator| creator.is_with_created);
        let state = match ended {
            Some(_) => ResourceState::Ended,
            None => ResourceState::Active,
        };
        let status = ResourceStatus {
            state,
            ended_reason: ended.map(|_| EndedReason::EndedWithCredential),
            ended_at: ended.map(|ended| ended.ended_at),
        };
        Self {
            status: Some(status),
            ..self
        }
    }
}

/// A new API token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct IssuedApiToken {
    /// Fields that later responses show too.
    #[serde(flatten)]
    pub token: ApiToken,
    /// The token itself, returned only in this response; `null` if that is repeated for an
    /// `Idempotency-Key`.
    #[serde(serialize_with = "expose")]
    #[cfg_attr(feature = "openapi", schemars(with = "Option<String>"))]
    pub secret: Option<Secret>,
}
