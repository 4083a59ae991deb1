//! MCP keys: credentials with which clients of the Model Context Protocol read a workspace.
//!
//! An MCP key is a bearer token with a narrow scope: one workspace, few actions, and the audience
//! labels that it was created for.

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

use crate::access::{
    Action, ActionSet, Credential, CredentialKind, CredentialRecord, Secret, TokenScope,
    permissions,
};
use crate::error::{Error, ProblemCode};
use crate::keys;
use crate::limits::ROTATION_MAX;
use crate::model::{
    AudienceLabel, CredentialId, McpClient, McpKeySummary, MemberId, OrgId, Timestamp, Workspace,
    WorkspaceId,
};
use crate::service::KnowledgeService;
use crate::service::kit::audit::{Actor, AuditedOperation, state};
use crate::service::kit::audit_entry::{AuditAction, ResourceKind};
use crate::service::kit::page::{Listing, Page, PageRequest};
use crate::service::kit::principal::Principal;
use crate::service::kit::validate::{Problems, reserve_quota};
use crate::service::maintain::ScheduledTask;
use crate::service::provision::NewToken;
use crate::store::{Direction, Key, KeyEntry, StoreExt, Transaction, decode_value};

/// Actions of a key: reading memories, writing chats and registering recalls.
const ACTIONS: ActionSet = ActionSet::of(&[
    Action::MemoryRead,
    Action::MemoryReadConfidential,
    Action::MemoryReadRestricted,
    Action::ChatWrite,
    Action::RecallCreate,
]);
/// Time for which a key remains valid after it should have been rotated.
const GRACE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Maximum number of audience labels of a key.
pub(crate) const AUDIENCE_MAX: usize = 32;

/// A new MCP key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NewMcpKey {
    /// Name, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// Kind of client that uses the key.
    ///
    /// A request may name any client; an unknown one is stored as `other`.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::ClientName"))]
    pub client: McpClient,
    /// Audience labels that the key covers, 1 to 32; each must cover the caller too.
    #[cfg_attr(feature = "openapi", schemars(length(min = 1, max = AUDIENCE_MAX)))]
    pub audience: Vec<AudienceLabel>,
    /// Rotation period, at most 366 days; 90 days by default.
    #[cfg_attr(
        feature = "openapi",
        schemars(
            rename = "rotationSeconds",
            with = "Option<crate::schema::RotationSeconds>"
        )
    )]
    pub rotation: Duration,
}

/// A new or rotated MCP key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct IssuedMcpKey {
    /// Fields that later responses show too.
    #[serde(flatten)]
    pub summary: McpKeySummary,
    /// The key itself, returned only in this response.
    #[serde(serialize_with = "expose")]
    #[cfg_attr(feature = "openapi", schemars(with = "String"))]
    pub secret: Secret,
}

fn expose<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose())
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
    /// Rotation period, in seconds.
    pub(crate) rotation_seconds: u64,
    pub(crate) rotates_at: Timestamp,
    /// Time from which the key is treated as absent.
    pub(crate) expires_at: Timestamp,
}

impl McpKey {
    pub(crate) fn summary(
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
    /// Creates an MCP key. Only this response contains the key itself.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for invalid values or a workspace that has the maximum number of
    /// keys; [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace;
    /// [`Error::Forbidden`] without `mcp_key:manage` there, or for an audience that does not cover
    /// the caller.
    pub async fn create_mcp_key(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        new: &NewMcpKey,
    ) -> Result<IssuedMcpKey, Error> {
        let mut problems = Problems::default();
        problems.name("name", &new.name, self.limits());
        problems.count("audience", new.audience.len(), AUDIENCE_MAX);
        check_rotation(&mut problems, new.rotation);
        problems.into_result()?;
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let (caller, found) = self
                .authorize_in(
                    &mut transaction,
                    credential,
                    workspace,
                    permissions::CREATE_MCP_KEY,
                )
                .await?;
            let org = caller.org_id();
            require_audience(&caller, &found, &new.audience)?;
            free_expired_keys(&mut transaction, org, workspace, now).await?;
            let limit = self.limits().mcp_keys_per_workspace_max;
            let counter = keys::mcp_key_count(org, workspace);
            let what = ("workspace", "MCP keys");
            reserve_quota(&mut transaction, counter, limit, "body", what).await?;
            let token = NewToken {
                member: caller.member_id(),
                kind: CredentialKind::Bearer,
                name: new.name.clone(),
                scope: key_scope(&caller, workspace, &new.audience),
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
                acts_as: caller.member_id(),
                rotation_seconds: new.rotation.as_secs(),
                rotates_at: now.plus(new.rotation),
                expires_at: issued.record.expires_at,
            };
            transaction.create(keys::mcp_key(org, workspace, key.id), &key);
            self.plan_expiry(&mut transaction, org, workspace, &key);
            AuditedOperation::begin(&transaction, self.env(), now).created(
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

    /// Lists the MCP keys of a workspace, in order of creation.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page; [`Error::Unauthenticated`];
    /// [`Error::NotFound`] for an unknown workspace; [`Error::Forbidden`] without `dashboard:read`
    /// there.
    pub async fn list_mcp_keys(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        page: &PageRequest,
    ) -> Result<Page<McpKeySummary>, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let (caller, _) = self
                .authorize_in(
                    &mut reading,
                    credential,
                    workspace,
                    permissions::LIST_MCP_KEYS,
                )
                .await?;
            let org = caller.org_id();
            let range = keys::mcp_keys(org, workspace);
            let listing = Listing::new("mcp_keys", &(), range, Direction::Forward);
            let found = listing.page_of(self.store(), page, |found| async move {
                self.mcp_keys_with_uses(org, workspace, &found, now).await
            });
            reading.done(found.await?)
        })
        .await
    }

    async fn mcp_keys_with_uses(
        &self,
        org: OrgId,
        workspace: WorkspaceId,
        found: &[KeyEntry],
        now: Timestamp,
    ) -> Result<Vec<Option<McpKeySummary>>, Error> {
        let found = found
            .iter()
            .map(decode_value)
            .collect::<Result<Vec<McpKey>, _>>()?;
        let uses: Vec<Key> = found
            .iter()
            .map(|key| keys::mcp_key_use(org, workspace, key.id))
            .collect();
        let uses = self.store().get_many_as::<Timestamp>(&uses).await?;
        let shown = found.into_iter().zip(uses).map(|(key, used)| {
            let used = used.map(|used| used.value);
            (now < key.expires_at).then(|| key.summary(workspace, used))
        });
        Ok(shown.collect())
    }

    /// Reads one MCP key, without the key itself.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace or key;
    /// [`Error::Forbidden`] without `dashboard:read` there.
    pub async fn mcp_key(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        key: CredentialId,
    ) -> Result<McpKeySummary, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let (caller, _) = self
                .authorize_in(
                    &mut reading,
                    credential,
                    workspace,
                    permissions::READ_MCP_KEY,
                )
                .await?;
            let org = caller.org_id();
            let found = read_key(&mut reading, org, workspace, key, now).await?;
            let used = reading
                .read(&keys::mcp_key_use(org, workspace, key))
                .await?;
            reading.done(found.summary(workspace, used))
        })
        .await
    }

    /// Replaces the secret of an MCP key. Only this response contains the new one.
    ///
    /// The old secret stops working immediately. From now on the key acts as the member that
    /// rotated it.
    ///
    /// `rotation` is the new rotation period; without it, the period stays the same.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid `rotation`; [`Error::Unauthenticated`];
    /// [`Error::NotFound`] for an unknown workspace or key; [`Error::Forbidden`] without
    /// `mcp_key:manage` there, or for an audience that does not cover the caller.
    pub async fn rotate_mcp_key(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        key: CredentialId,
        rotation: Option<Duration>,
    ) -> Result<IssuedMcpKey, Error> {
        let mut problems = Problems::default();
        rotation
            .into_iter()
            .for_each(|rotation| check_rotation(&mut problems, rotation));
        problems.into_result()?;
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let (caller, found) = self
                .authorize_in(
                    &mut transaction,
                    credential,
                    workspace,
                    permissions::ROTATE_MCP_KEY,
                )
                .await?;
            let org = caller.org_id();
            let before = read_key(&mut transaction, org, workspace, key, now).await?;
            require_audience(&caller, &found, &before.audience)?;
            let rotation = rotation.unwrap_or_else(|| Duration::from_secs(before.rotation_seconds));
            let after = McpKey {
                acts_as: caller.member_id(),
                rotation_seconds: rotation.as_secs(),
                rotates_at: now.plus(rotation),
                expires_at: now.plus(rotation + GRACE),
                ..before.clone()
            };
            let record = CredentialRecord {
                id: key,
                kind: CredentialKind::Bearer,
                name: after.name.clone(),
                org_id: org,
                member_id: caller.member_id(),
                scope: key_scope(&caller, workspace, &after.audience),
                created_at: now,
                expires_at: after.expires_at,
                revoked_at: None,
            };
            let secret = self.replace_credential(&mut transaction, &record).await?;
            transaction.put(keys::mcp_key(org, workspace, key), &after);
            self.plan_expiry(&mut transaction, org, workspace, &after);
            let used = transaction
                .read(&keys::mcp_key_use(org, workspace, key))
                .await?;
            AuditedOperation::begin(&transaction, self.env(), now).changed(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::McpKeyRotate,
                (ResourceKind::Credential, key.0),
                &before,
                &after,
            );
            let summary = after.summary(workspace, used);
            transaction.done(IssuedMcpKey { secret, summary })
        })
        .await
    }

    /// Replaces the stored credential that has the same identifier, with a new secret.
    async fn replace_credential(
        &self,
        transaction: &mut Transaction,
        record: &CredentialRecord,
    ) -> Result<Secret, Error> {
        let id_key = keys::credential_id(record.org_id, record.id);
        let (old, _) = read_credential(transaction, record.org_id, record.id).await?;
        let secret = Secret::generate(record.kind, record.org_id, self.env());
        let key = keys::credential(secret.hash());
        transaction.delete(old);
        transaction.create(key.clone(), record);
        transaction.put(id_key.clone(), &secret.hash().to_string());
        ScheduledTask::record(key)
            .and(id_key)
            .schedule(transaction, record.expires_at, self.env());
        Ok(secret)
    }

    /// Revokes an MCP key. It stops working immediately.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace or key;
    /// [`Error::Forbidden`] without `mcp_key:manage` there.
    pub async fn revoke_mcp_key(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        key: CredentialId,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let (caller, _) = self
                .authorize_in(
                    &mut transaction,
                    credential,
                    workspace,
                    permissions::REVOKE_MCP_KEY,
                )
                .await?;
            let org = caller.org_id();
            let before = read_key(&mut transaction, org, workspace, key, now).await?;
            let (place, record) = read_credential(&mut transaction, org, key).await?;
            let revoked = CredentialRecord {
                revoked_at: Some(now),
                ..record
            };
            transaction.put(place, &revoked);
            forget_keys(&mut transaction, org, &[(workspace, key)]).await?;
            AuditedOperation::begin(&transaction, self.env(), now).record(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::McpKeyRevoke,
                (ResourceKind::Credential, key.0),
                Some(state(&before)),
                None,
            );
            transaction.done(())
        })
        .await
    }

    fn plan_expiry(
        &self,
        transaction: &mut Transaction,
        org: OrgId,
        workspace: WorkspaceId,
        key: &McpKey,
    ) {
        ScheduledTask::record(keys::mcp_key(org, workspace, key.id))
            .and(keys::mcp_key_use(org, workspace, key.id))
            .counted_by(keys::mcp_key_count(org, workspace))
            .schedule(transaction, key.expires_at, self.env());
    }

    /// Records a use of the MCP key that authenticates the request.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for a credential that is not a key of the
    /// workspace.
    pub async fn note_mcp_key_use(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let caller =
                Principal::authenticate(&mut transaction, credential, CredentialKind::Bearer, now)
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

pub(crate) fn check_rotation(problems: &mut Problems, rotation: Duration) {
    if rotation.is_zero() || rotation > ROTATION_MAX {
        problems.push(
            "rotationSeconds",
            ProblemCode::InvalidValue,
            "must be greater than 0 and at most 366 days",
        );
    }
}

/// Rejects an audience that does not cover the caller.
fn require_audience(
    caller: &Principal,
    workspace: &Workspace,
    audience: &[AudienceLabel],
) -> Result<(), Error> {
    let workspaces = std::slice::from_ref(workspace);
    match audience
        .iter()
        .find(|label| !caller.is_covered_by(label, workspaces))
    {
        None => Ok(()),
        Some(label) => Err(Error::forbidden(format!(
            "cannot grant an audience that does not cover the caller: {label}"
        ))),
    }
}

/// Returns the scope of an MCP key: never wider than that of the credential that creates it.
fn key_scope(caller: &Principal, workspace: WorkspaceId, audience: &[AudienceLabel]) -> TokenScope {
    TokenScope {
        workspaces: Some(vec![workspace]),
        actions: Some(caller.scoped(ACTIONS)),
        audience: Some(audience.to_vec()),
    }
}

/// Reads a key that has not expired.
async fn read_key(
    transaction: &mut Transaction,
    org: OrgId,
    workspace: WorkspaceId,
    id: CredentialId,
    now: Timestamp,
) -> Result<McpKey, Error> {
    let found = transaction
        .read::<McpKey>(&keys::mcp_key(org, workspace, id))
        .await?;
    let found = found.filter(|key| now < key.expires_at);
    found.ok_or(Error::NotFound { what: "MCP key" })
}

/// Reads the credential of a key, with its storage key.
async fn read_credential(
    transaction: &mut Transaction,
    org: OrgId,
    id: CredentialId,
) -> Result<(Key, CredentialRecord), Error> {
    let missing = || Error::NotFound { what: "MCP key" };
    let hash = transaction
        .read::<String>(&keys::credential_id(org, id))
        .await?;
    let hash = hash.ok_or_else(missing)?.parse().map_err(|_| missing())?;
    let place = keys::credential(hash);
    let record = transaction.read::<CredentialRecord>(&place).await?;
    Ok((place, record.ok_or_else(missing)?))
}

/// Frees the quota of expired keys that are not purged yet.
async fn free_expired_keys(
    transaction: &mut Transaction,
    org: OrgId,
    workspace: WorkspaceId,
    now: Timestamp,
) -> Result<(), Error> {
    let found = transaction
        .scan_unchecked(&keys::mcp_keys(org, workspace))
        .await?;
    let mut expired = Vec::new();
    for found in &found {
        let key: McpKey = decode_value(found)?;
        if key.expires_at <= now {
            expired.push((workspace, key.id));
        }
    }
    forget_keys(transaction, org, &expired).await
}

/// Returns the workspace of a credential that is scoped to exactly one, as MCP keys are.
pub(crate) fn key_workspace(record: &CredentialRecord) -> Option<WorkspaceId> {
    match record.scope.workspaces.as_deref() {
        Some([workspace]) => Some(*workspace),
        _ => None,
    }
}

/// Removes the records of those keys that are still stored, but not their credentials.
pub(crate) async fn forget_keys(
    transaction: &mut Transaction,
    org: OrgId,
    forgotten: &[(WorkspaceId, CredentialId)],
) -> Result<(), Error> {
    let place = |(workspace, id): &(WorkspaceId, CredentialId)| keys::mcp_key(org, *workspace, *id);
    let places: Vec<Key> = forgotten.iter().map(place).collect();
    let found = transaction.read_many::<McpKey>(&places).await?;
    for ((place, found), (workspace, id)) in places.into_iter().zip(found).zip(forgotten) {
        if found.is_some() {
            transaction.delete(place);
            transaction.delete(keys::mcp_key_use(org, *workspace, *id));
            transaction.add(keys::mcp_key_count(org, *workspace), -1);
        }
    }
    Ok(())
}
