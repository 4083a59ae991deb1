//! Tokens and sessions.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Call;
use crate::access::{CredentialKind, CredentialRecord, TokenScope};
use crate::api::HandlerResult;
use crate::api::body::Body;
use crate::api::query::Query;
use crate::error::{Error, ProblemCode};
use crate::model::{CredentialId, MemberId, Organization, Timestamp, WorkspaceId};
use crate::service::{NewToken, Page, Problems};

crate::model::names::string_enum! {
    /// State of a token or a session.
    CredentialState {
        /// Accepted.
        Valid = "valid",
        /// Expired.
        Expired = "expired",
        /// Revoked.
        Revoked = "revoked",
    }
}

/// A token or a session as the operator sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time from which it is treated as unknown.
    pub expires_at: Timestamp,
    /// Time of revocation.
    pub revoked_at: Option<Timestamp>,
}

/// A token or a session that was just issued.
#[derive(Serialize)]
struct Issued {
    /// Clear text of the credential, returned only in this response.
    secret: String,
    credential: CredentialView,
}

/// Requested scope of a token, its workspaces by name.
#[derive(Default)]
struct ScopeRequest {
    workspaces: Option<Vec<String>>,
    scope: TokenScope,
}

impl Call<'_> {
    pub(super) async fn list_credentials(&self) -> HandlerResult {
        let mut query = Query::parse(self.request.uri());
        let kind = query.parsed("kind");
        let page = query.page();
        let (kind, page) = query.finish((kind, page))?;
        let org = self.org().await?;
        let found = self
            .provisioning()
            .list_credentials(org.id, kind, &page)
            .await?;
        let mut handles = HashMap::new();
        let mut data = Vec::with_capacity(found.data.len());
        for record in found.data {
            data.push(self.credential_view(record, &mut handles).await?);
        }
        let next_cursor = found.next_cursor;
        Ok(self.ok(&Page { data, next_cursor }))
    }

    pub(super) async fn issue_credential(&self) -> HandlerResult {
        let mut body = Body::parse(self.request.body())?;
        body.require("member");
        let member = body.text("member");
        body.require("kind");
        let kind = body.parsed("kind");
        let name = body.name("name", self.service.limits());
        body.require("expires_in_seconds");
        let lifetime = body.number("expires_in_seconds").map(Duration::from_secs);
        let token_scope = body.object("narrowing", |scope| ScopeRequest {
            workspaces: scope.texts("workspaces"),
            scope: TokenScope {
                workspaces: None,
                actions: scope.actions("actions"),
                audience: scope.parsed_list("audience"),
            },
        });
        let whole = member.zip(kind).zip(name).zip(lifetime);
        let (((member, kind), name), lifetime) = body.finish(whole)?;
        let org = self.org().await?;
        let token_scope = token_scope.unwrap_or_default();
        let mut problems = Problems::default();
        let member = self
            .member_to_issue_for(&org, &member, &mut problems)
            .await?;
        let scope = TokenScope {
            workspaces: self
                .workspaces_named(&org, token_scope.workspaces, &mut problems)
                .await?,
            ..token_scope.scope
        };
        problems.into_result()?;
        let new = NewToken {
            member,
            kind,
            name,
            scope,
            lifetime,
        };
        let issued = self.provisioning().issue(org.id, &new).await;
        let issued =
            issued.map_err(|error| under_the_names_of_the_body(error, "expires_in_seconds"))?;
        let handles = &mut HashMap::new();
        Ok(self.created(&Issued {
            secret: issued.secret.expose().to_owned(),
            credential: self.credential_view(issued.record, handles).await?,
        }))
    }

    async fn member_to_issue_for(
        &self,
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
        &self,
        org: &Organization,
        names: Option<Vec<String>>,
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

    pub(super) async fn revoke_credential(&self) -> HandlerResult {
        let mut query = Query::parse(self.request.uri());
        let kind = query.parsed::<CredentialKind>("kind");
        let kind = query.finish(kind)?;
        let org = self.org().await?;
        let missing = || Error::NotFound {
            what: match kind {
                Some(CredentialKind::Bearer) => "token",
                Some(CredentialKind::Session) => "session",
                None => "token or session",
            },
        };
        let id: CredentialId = self
            .parameter("credential")
            .parse()
            .map_err(|_| missing())?;
        if let Some(kind) = kind {
            // The kind of a credential never changes, so this check cannot race with the
            // revocation.
            let found = self.provisioning().credential(org.id, id).await?;
            if found.is_none_or(|found| found.kind != kind) {
                return Err(missing());
            }
        }
        let revoked = self.provisioning().revoke(org.id, id).await?;
        let view = self.credential_view(revoked, &mut HashMap::new()).await?;
        Ok(self.ok(&view))
    }

    async fn credential_view(
        &self,
        record: CredentialRecord,
        handles: &mut HashMap<MemberId, String>,
    ) -> Result<CredentialView, Error> {
        let member = match handles.get(&record.member_id) {
            Some(handle) => handle.clone(),
            None => {
                let provisioning = self.provisioning();
                let found = provisioning
                    .member_by_id(record.org_id, record.member_id)
                    .await?;
                // The member has been removed, and its credentials are about to be deleted.
                let handle =
                    found.map_or_else(|| record.member_id.to_string(), |found| found.handle);
                handles.insert(record.member_id, handle.clone());
                handle
            }
        };
        let state = match record.revoked_at {
            Some(_) => CredentialState::Revoked,
            None if record.is_valid_at(self.service.env().now()) => CredentialState::Valid,
            None => CredentialState::Expired,
        };
        Ok(CredentialView {
            id: record.id,
            kind: record.kind,
            name: record.name,
            member,
            state,
            scope: record.scope,
            created_at: record.created_at,
            expires_at: record.expires_at,
            revoked_at: record.revoked_at,
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
