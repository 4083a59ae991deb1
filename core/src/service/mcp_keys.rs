//! MCP keys: what programs that speak the Model Context Protocol read a workspace with.
//!
//! An MCP key is a bearer token that is narrowed to one workspace, to reading, and to the audience labels it was made for.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::KnowledgeService;
use super::audit::{Actor, AuditAction, Operation, ResourceKind};
use super::maintain::Due;
use super::provision::NewToken;
use super::validate::{Problems, take_place};
use crate::access::{
    Action, ActionSet, Credential, CredentialKind, Narrowing, Principal, Secret, needs,
};
use crate::error::{Error, ProblemCode};
use crate::model::{
    AudienceLabel, CredentialId, McpClient, McpKeySummary, MemberId, OrgId, Timestamp, WorkspaceId,
};
use crate::store::{Transaction, decode_value, keys};

/// What a key may be used for: reading and registering what was cited.
const ACTIONS: ActionSet = ActionSet::of(&[
    Action::MemoryRead,
    Action::MemoryReadConfidential,
    Action::MemoryReadRestricted,
    Action::ChatWrite,
    Action::RecallCreate,
]);
/// How long a key is taken after it should have been replaced.
const GRACE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How many audience labels a key may have.
const AUDIENCE_MAX: usize = 32;
/// The longest time until a key has to be replaced.
const ROTATION_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// A new MCP key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMcpKey {
    /// 1 to 128 characters.
    pub name: String,
    /// The kind of program that uses it.
    pub client: McpClient,
    /// The audience labels that it covers, 1 to 32; each has to cover the caller too.
    pub audience: Vec<AudienceLabel>,
    /// In what time it has to be replaced; at most a year.
    pub rotation: Duration,
}

/// An MCP key that was just made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedMcpKey {
    /// The key itself, shown this once.
    pub secret: Secret,
    /// What is shown of it from now on.
    pub summary: McpKeySummary,
}

/// What is stored of an MCP key besides its credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct McpKey {
    pub(super) id: CredentialId,
    pub(super) name: String,
    pub(super) client: McpClient,
    pub(super) audience: Vec<AudienceLabel>,
    pub(super) created_by: MemberId,
    pub(super) created_at: Timestamp,
    pub(super) rotates_at: Timestamp,
    /// From when on the key counts as absent.
    pub(super) expires_at: Timestamp,
}

impl McpKey {
    pub(super) fn summary(
        self,
        workspace_id: WorkspaceId,
        last_used_at: Option<Timestamp>,
    ) -> McpKeySummary {
        McpKeySummary {
            id: self.id,
            workspace_id,
            name: self.name,
            client: self.client,
            audience: self.audience,
            last_used_at,
            rotates_at: Some(self.rotates_at),
        }
    }
}

impl KnowledgeService {
    /// Makes an MCP key. The answer has the key itself, this once.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for bad values or a workspace with as many keys as it may have;
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace; [`Error::Forbidden`] without
    /// `mcp_key:manage` there, or for an audience that does not cover the caller.
    pub async fn create_mcp_key(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        new: &NewMcpKey,
    ) -> Result<IssuedMcpKey, Error> {
        let mut problems = Problems::default();
        problems.name("name", &new.name, self.limits());
        problems.count("audience", new.audience.len(), AUDIENCE_MAX);
        if new.rotation.is_zero() || new.rotation > ROTATION_MAX {
            problems.push(
                "rotation",
                ProblemCode::InvalidValue,
                "must be longer than nothing and at most a year",
            );
        }
        problems.into_result()?;
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let caller =
                Principal::recognise(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            let org = caller.org_id();
            let entered = caller
                .enter(&mut transaction, workspace, needs::CREATE_MCP_KEY)
                .await?;
            let workspaces = std::slice::from_ref(&entered);
            if let Some(label) = new
                .audience
                .iter()
                .find(|label| !caller.is_covered_by(label, workspaces))
            {
                return Err(Error::forbidden(format!(
                    "nobody can grant what they do not hold: the audience {label}"
                )));
            }
            free_expired_keys(&mut transaction, org, workspace, now).await?;
            let limit = self.limits().mcp_keys_per_workspace_max;
            let counter = keys::mcp_key_count(org, workspace);
            let what = ("workspace", "MCP keys");
            take_place(&mut transaction, counter, limit, "body", what).await?;
            let token = NewToken {
                member: caller.member_id(),
                kind: CredentialKind::Bearer,
                name: new.name.clone(),
                narrowing: Narrowing {
                    workspaces: Some(vec![workspace]),
                    actions: Some(caller.narrowed(ACTIONS)),
                    audience: Some(new.audience.clone()),
                },
                lifetime: new.rotation + GRACE,
            };
            let issued = self.new_credential(&mut transaction, org, &token);
            let key = McpKey {
                id: issued.record.id,
                name: new.name.clone(),
                client: new.client,
                audience: new.audience.clone(),
                created_by: caller.member_id(),
                created_at: now,
                rotates_at: now.plus(new.rotation),
                expires_at: issued.record.expires_at,
            };
            let place = keys::mcp_key(org, workspace, key.id);
            transaction.create(place.clone(), &key);
            Due::record(place)
                .and(keys::mcp_key_use(org, workspace, key.id))
                .counted_by(keys::mcp_key_count(org, workspace))
                .schedule(&mut transaction, key.expires_at, self.env());
            Operation::begin(&transaction, self.env(), now).created(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::McpKeyCreate,
                (ResourceKind::Credential, key.id.0),
                &key,
            );
            transaction.done(IssuedMcpKey {
                secret: issued.secret,
                summary: key.summary(workspace, None),
            })
        })
        .await
    }

    /// Notes that an MCP key is used now, by whoever presents it.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for a credential that is no key of the workspace.
    pub async fn note_mcp_key_use(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let caller =
                Principal::recognise(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            let missing = || Error::NotFound { what: "MCP key" };
            let id = caller.credential.ok_or_else(missing)?;
            let org = caller.org_id();
            transaction
                .read::<McpKey>(&keys::mcp_key(org, workspace, id))
                .await?
                .ok_or_else(missing)?;
            transaction.put(keys::mcp_key_use(org, workspace, id), &now);
            transaction.done(())
        })
        .await
    }
}

/// Frees the places of keys that expired and are not swept yet: they count as absent.
async fn free_expired_keys(
    transaction: &mut Transaction,
    org: OrgId,
    workspace: WorkspaceId,
    now: Timestamp,
) -> Result<(), Error> {
    let found = transaction
        .scan_unchecked(&keys::mcp_keys(org, workspace))
        .await?;
    for found in &found {
        let key: McpKey = decode_value(found)?;
        if key.expires_at <= now {
            forget_key(transaction, org, workspace, key.id).await?;
        }
    }
    Ok(())
}

/// Removes what is stored of a key besides its credential, if it is still there.
pub(super) async fn forget_key(
    transaction: &mut Transaction,
    org: OrgId,
    workspace: WorkspaceId,
    id: CredentialId,
) -> Result<(), Error> {
    let place = keys::mcp_key(org, workspace, id);
    if transaction.read::<McpKey>(&place).await?.is_some() {
        transaction.delete(place);
        transaction.delete(keys::mcp_key_use(org, workspace, id));
        transaction.add(keys::mcp_key_count(org, workspace), -1);
    }
    Ok(())
}
