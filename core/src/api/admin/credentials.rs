//! Tokens and sessions.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::Operator;
use super::requests::NewCredential;
use crate::access::{CredentialKind, CredentialRecord, TokenScope};
use crate::error::{EntityKind, Error, ProblemCode};
use crate::model::{CreatedResource, CredentialId, MemberId, Organization, Timestamp, WorkspaceId};
use crate::request::Problems;
use crate::service::{NewToken, Page, PageRequest};

crate::model::names::string_enum! {
    /// State of a token or a session.
    CredentialState {
        /// Accepted.
        Valid = "valid",
        /// Expired.
        Expired = "expired",
        /// Revoked.
        Revoked = "revoked",
        /// Rejected: the member was removed, the session or scoped token that it depends on has
        /// ended, or it was ended together with the credential that created it.
        Ended = "ended",
    }
}

/// A token or a session as the operator sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "openapi", schemars(rename = "Credential"))]
pub struct CredentialView {
    /// Identifier of the credential.
    pub id: CredentialId,
    /// Kind of the credential.
    pub kind: CredentialKind,
    /// Purpose of the credential.
    pub name: String,
    /// Handle of the member that it authenticates.
    pub member: String,
    /// Current state.
    pub state: CredentialState,
    /// Scope of the credential.
    #[serde(rename = "narrowing")]
    pub scope: TokenScope,
    /// Credential that created a token or a login link, created an MCP key or last rotated it, or
    /// session of an access token; `null` if the operator issued it or the member signed in.
    pub created_with: Option<CredentialId>,
    /// Handle of the member that created a token or a login link, created an MCP key or last
    /// rotated it, or whose session was exchanged; `null` if the operator issued it or the member
    /// signed in.
    pub created_by: Option<String>,
    /// Time of the last use, to within an hour; `null` if it was not used.
    pub last_used_at: Option<Timestamp>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time from which it is treated as unknown.
    pub expires_at: Timestamp,
    /// Time of revocation.
    pub revoked_at: Option<Timestamp>,
    /// True if what it created was ended with it.
    pub is_revoked_with_created: bool,
}

/// A token, a session or a login link that was just issued.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub(super) struct IssuedCredential {
    /// Clear text of the credential, returned only in this response.
    secret: String,
    /// Base URL of the service, which a login link begins with: the configured one, otherwise that
    /// of the address that its server listens on; absent without a server, and for a token or a
    /// session.
    #[serde(skip_serializing_if = "Option::is_none")]
    base_url: Option<String>,
    credential: CredentialView,
}

impl Operator<'_> {
    pub(super) async fn list_credentials(
        self,
        org: &str,
        kind: Option<&CredentialKind>,
        page: &PageRequest,
    ) -> Result<Page<CredentialView>, Error> {
        let org = self.org(org).await?;
        let found = self
            .provisioning()
            .list_credentials(org.id, kind.copied(), page)
            .await?;
        let mut handles = HashMap::new();
        let mut data = Vec::with_capacity(found.data.len());
        for record in found.data {
            data.push(self.credential_view(record, &mut handles).await?);
        }
        let next_cursor = found.next_cursor;
        Ok(Page { data, next_cursor })
    }

    pub(super) async fn issue_credential(
        self,
        org: &str,
        new: &NewCredential,
    ) -> Result<IssuedCredential, Error> {
        self.service.checks().check(new)?;
        let org = self.org(org).await?;
        let requested = new.scope.clone().unwrap_or_default();
        let mut problems = Problems::default();
        let member = self
            .member_to_issue_for(&org, &new.member, &mut problems)
            .await?;
        let workspaces = requested.workspaces.as_deref();
        let scope = TokenScope {
            workspaces: self
                .workspaces_named(&org, workspaces, &mut problems)
                .await?,
            actions: requested.actions,
            audience: requested.audience,
        };
        problems.into_result()?;
        let new = NewToken {
            member,
            kind: new.kind,
            name: new.name.clone(),
            scope,
            lifetime: new.lifetime,
            is_long_lived: new.is_long_lived,
        };
        let issued = self.provisioning().issue(org.id, &new).await;
        let issued =
            issued.map_err(|error| under_the_names_of_the_body(error, "expires_in_seconds"))?;
        let handles = &mut HashMap::new();
        let is_link = new.kind == CredentialKind::Link;
        let base_url = self.service.base_url().filter(|_| is_link);
        Ok(IssuedCredential {
            secret: issued.secret.expose().to_owned(),
            base_url: base_url.map(str::to_owned),
            credential: self.credential_view(issued.record, handles).await?,
        })
    }

    async fn member_to_issue_for(
        self,
        org: &Organization,
        name: &str,
        problems: &mut Problems,
    ) -> Result<MemberId, Error> {
        let found = self.member_named(org.id, name).await?;
        if found.is_none() {
            let message = format!(
                "must be the handle or the identifier of a member of {}",
                org.slug
            );
            problems.push("member", ProblemCode::NotFound, message);
        }
        Ok(found.map_or(MemberId(uuid::Uuid::nil()), |found| found.id))
    }

    async fn workspaces_named(
        self,
        org: &Organization,
        names: Option<&[String]>,
        problems: &mut Problems,
    ) -> Result<Option<Vec<WorkspaceId>>, Error> {
        let Some(names) = names else {
            return Ok(None);
        };
        let mut workspaces = Vec::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            let path = format!("narrowing.workspaces[{index}]");
            let found = self.require_workspace(org, &path, name).await;
            match found {
                Ok(workspace) => workspaces.push(workspace.id),
                Err(error) => problems.note(Err(error))?,
            }
        }
        Ok(Some(workspaces))
    }

    pub(super) async fn list_created_with(
        self,
        org: &str,
        id: CredentialId,
        page: &PageRequest,
    ) -> Result<Page<CreatedResource>, Error> {
        let org = self.org(org).await?;
        self.provisioning()
            .list_created_with(org.id, id, page)
            .await
    }

    pub(super) async fn revoke_credential(
        self,
        org: &str,
        id: CredentialId,
        kind: Option<&CredentialKind>,
        with_created: bool,
    ) -> Result<CredentialView, Error> {
        let org = self.org(org).await?;
        if let Some(kind) = kind {
            // The kind of a credential never changes, so this check cannot race with the
            // revocation.
            let found = self.provisioning().credential(org.id, id).await?;
            if found.is_none_or(|found| found.kind != *kind) {
                return Err(Error::NotFound {
                    kind: match kind {
                        CredentialKind::Bearer => EntityKind::Token,
                        CredentialKind::Session => EntityKind::Session,
                        CredentialKind::Link => EntityKind::LoginLink,
                    },
                });
            }
        }
        let provisioning = self.provisioning();
        let revoked = if with_created {
            provisioning.revoke_with_created(org.id, id).await?
        } else {
            provisioning.revoke(org.id, id).await?
        };
        self.credential_view(revoked, &mut HashMap::new()).await
    }

    /// Returns true if the idle time-out of a credential has ended.
    async fn is_idle(self, record: &CredentialRecord, now: Timestamp) -> Result<bool, Error> {
        let Some(timeout) = record.idle_timeout() else {
            return Ok(false);
        };
        let used = self.provisioning();
        let used = used.last_use(record.org_id, timeout.session).await?;
        Ok(timeout.has_ended(used, now))
    }

    /// Returns true unless a credential has ended with one that created it.
    async fn is_backed(self, record: &CredentialRecord, now: Timestamp) -> Result<bool, Error> {
        let (provisioning, org) = (self.provisioning(), record.org_id);
        let creators = [record.created_with, record.created_through];
        for creator in creators.into_iter().flatten() {
            if provisioning.is_ended_with_created(org, creator).await? {
                return Ok(false);
            }
        }
        let Some(creator) = record.created_with.filter(|_| record.is_dependent) else {
            return Ok(true);
        };
        let Some(found) = provisioning.credential(org, creator).await? else {
            return Ok(false);
        };
        Ok(found.is_valid_at(now) && !self.is_idle(&found, now).await?)
    }

    /// Returns the handle of the member that created a credential, if another one created it.
    async fn creator(
        self,
        record: &CredentialRecord,
        member: &str,
    ) -> Result<Option<String>, Error> {
        let provisioning = self.provisioning();
        let creator = match (record.created_by, record.created_with) {
            (None, None) => return Ok(None),
            (None, Some(_)) => provisioning.creator_of_token(record).await?,
            (creator, _) => creator,
        };
        Ok(Some(match creator {
            Some(creator) if creator != record.member_id => {
                let found = provisioning.member_by_id(record.org_id, creator).await?;
                found.map_or_else(|| creator.to_string(), |found| found.handle)
            }
            // An MCP key acts as the member that created it or last rotated it.
            _ => member.to_owned(),
        }))
    }

    async fn credential_view(
        self,
        record: CredentialRecord,
        handles: &mut HashMap<MemberId, String>,
    ) -> Result<CredentialView, Error> {
        let now = self.service.env().now();
        let provisioning = self.provisioning();
        let last_used_at = provisioning.last_use(record.org_id, record.id).await?;
        let is_idle = self.is_idle(&record, now).await?;
        let mut is_backed = self.is_backed(&record, now).await?;
        let member = match handles.get(&record.member_id) {
            Some(handle) => handle.clone(),
            None => {
                let provisioning = self.provisioning();
                let found = provisioning
                    .member_by_id(record.org_id, record.member_id)
                    .await?;
                // The member has been removed, and its credentials are about to be deleted.
                match found {
                    Some(found) => {
                        handles.insert(record.member_id, found.handle.clone());
                        found.handle
                    }
                    None => {
                        is_backed = false;
                        record.member_id.to_string()
                    }
                }
            }
        };
        let state = match record.revoked_at {
            Some(_) => CredentialState::Revoked,
            None if is_idle || !record.is_valid_at(now) => CredentialState::Expired,
            None if !is_backed => CredentialState::Ended,
            None => CredentialState::Valid,
        };
        let created_by = self.creator(&record, &member).await?;
        Ok(CredentialView {
            id: record.id,
            kind: record.kind,
            name: record.name,
            member,
            state,
            scope: record.scope,
            created_with: record.created_with,
            created_by,
            last_used_at,
            created_at: record.created_at,
            expires_at: record.expires_at,
            revoked_at: record.revoked_at,
            is_revoked_with_created: record.is_revoked_with_created,
        })
    }
}

/// Renames the problems of a token to the field names of the body.
fn under_the_names_of_the_body(error: Error, lifetime: &str) -> Error {
    match error {
        Error::InvalidRequest { mut fields } => {
            for problem in &mut fields {
                if problem.path == "lifetime" {
                    lifetime.clone_into(&mut problem.path);
                }
            }
            Error::InvalidRequest { fields }
        }
        other => other,
    }
}
