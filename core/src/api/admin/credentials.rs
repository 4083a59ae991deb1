//! Tokens and sessions.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Call;
use crate::access::{CredentialKind, CredentialRecord, Narrowing};
use crate::api::Handled;
use crate::api::body::Body;
use crate::api::query::Query;
use crate::error::{Error, ProblemCode};
use crate::model::{CredentialId, MemberId, Organization, Timestamp, WorkspaceId};
use crate::service::{NewToken, Page, Problems};

crate::model::names::string_enum! {
    /// Whether a token or a session is taken.
    CredentialState {
        /// It is.
        Valid = "valid",
        /// Its time is over.
        Expired = "expired",
        /// It was revoked.
        Revoked = "revoked",
    }
}

/// A token or a session as the operator sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialView {
    /// The identifier.
    pub id: CredentialId,
    /// How it is carried.
    pub kind: CredentialKind,
    /// What it is for.
    pub name: String,
    /// The handle of the member that whoever presents it acts as.
    pub member: String,
    /// Whether it is taken now.
    pub state: CredentialState,
    /// What it is narrowed to.
    pub narrowing: Narrowing,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it counts as absent.
    pub expires_at: Timestamp,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// A token or a session that was just made.
#[derive(Serialize)]
struct Issued {
    /// Shown this once.
    secret: String,
    credential: CredentialView,
}

/// What a request narrows a token to, its workspaces by name.
#[derive(Default)]
struct NarrowTo {
    workspaces: Option<Vec<String>>,
    narrowing: Narrowing,
}

impl Call<'_> {
    pub(super) async fn list_credentials(&self) -> Handled {
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

    pub(super) async fn issue_credential(&self) -> Handled {
        let mut body = Body::parse(self.request.body())?;
        body.require("member");
        let member = body.text("member");
        body.require("kind");
        let kind = body.parsed("kind");
        let name = body.name("name", self.service.limits());
        body.require("expires_in_seconds");
        let lifetime = body.number("expires_in_seconds").map(Duration::from_secs);
        let narrow_to = body.object("narrowing", |narrowing| NarrowTo {
            workspaces: narrowing.texts("workspaces"),
            narrowing: Narrowing {
                workspaces: None,
                actions: narrowing.actions("actions"),
                audience: narrowing.parsed_list("audience"),
            },
        });
        let whole = member.zip(kind).zip(name).zip(lifetime);
        let (((member, kind), name), lifetime) = body.finish(whole)?;
        let org = self.org().await?;
        let narrow_to = narrow_to.unwrap_or_default();
        let mut problems = Problems::default();
        let member = self
            .member_to_issue_for(&org, &member, &mut problems)
            .await?;
        let narrowing = Narrowing {
            workspaces: self
                .workspaces_named(&org, narrow_to.workspaces, &mut problems)
                .await?,
            ..narrow_to.narrowing
        };
        problems.into_result()?;
        let new = NewToken {
            member,
            kind,
            name,
            narrowing,
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

    pub(super) async fn revoke_credential(&self) -> Handled {
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
            // What is a token stays one: nothing can come between this look and the revocation.
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
                // One that was removed: what it had is about to be cleared.
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
            narrowing: record.narrowing,
            created_at: record.created_at,
            expires_at: record.expires_at,
            revoked_at: record.revoked_at,
        })
    }
}

/// The problems of a token under the names that its fields have in the body.
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
