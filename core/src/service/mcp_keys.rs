//! MCP keys: what programs that speak the Model Context Protocol read a workspace with.
//!
//! An MCP key is a bearer token that is narrowed to one workspace, to reading, and to the audience labels it was made for.

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

use super::KnowledgeService;
use super::audit::{Actor, AuditAction, Operation, ResourceKind, state};
use super::maintain::Due;
use super::page::{Listing, Page, PageRequest};
use super::provision::NewToken;
use super::validate::{Problems, take_place};
use crate::access::{
    Action, ActionSet, Credential, CredentialKind, CredentialRecord, Narrowing, Principal, Secret,
    needs,
};
use crate::error::{Error, ProblemCode};
use crate::model::{
    AudienceLabel, CredentialId, McpClient, McpKeySummary, MemberId, OrgId, Timestamp, Workspace,
    WorkspaceId,
};
use crate::keys;
use crate::store::{Direction, Key, KeyEntry, StoreExt, Transaction, decode_value};

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
pub(crate) const AUDIENCE_MAX: usize = 32;
/// In what time a key has to be replaced where its maker does not say.
pub const ROTATION_DEFAULT: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// The longest time until a key has to be replaced.
pub(crate) const ROTATION_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// A new MCP key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NewMcpKey {
    /// 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// The kind of program that uses it. A request may name any: one that is not known counts as `other`.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::ClientName"))]
    pub client: McpClient,
    /// The audience labels that it covers, 1 to 32; each has to cover the caller too.
    #[cfg_attr(feature = "openapi", schemars(length(min = 1, max = AUDIENCE_MAX)))]
    pub audience: Vec<AudienceLabel>,
    /// In what time it has to be replaced: at most a year. A request may leave it out: 90 days.
    #[cfg_attr(
        feature = "openapi",
        schemars(
            rename = "rotationSeconds",
            with = "Option<crate::schema::RotationSeconds>"
        )
    )]
    pub rotation: Duration,
}

/// An MCP key that was just made or rotated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct IssuedMcpKey {
    /// What is shown of it from now on.
    #[serde(flatten)]
    pub summary: McpKeySummary,
    /// The key itself, shown this once.
    #[serde(serialize_with = "expose")]
    #[cfg_attr(feature = "openapi", schemars(with = "String"))]
    pub secret: Secret,
}

fn expose<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose())
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
    /// Whoever presents it acts as this member: the one who made it or rotated it last.
    pub(super) acts_as: MemberId,
    /// In what time it has to be replaced.
    pub(super) rotation_seconds: u64,
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
        check_rotation(&mut problems, new.rotation);
        problems.into_result()?;
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let (caller, entered) = self
                .enter_workspace(
                    &mut transaction,
                    credential,
                    workspace,
                    needs::CREATE_MCP_KEY,
                )
                .await?;
            let org = caller.org_id();
            require_audience(&caller, &entered, &new.audience)?;
            free_expired_keys(&mut transaction, org, workspace, now).await?;
            let limit = self.limits().mcp_keys_per_workspace_max;
            let counter = keys::mcp_key_count(org, workspace);
            let what = ("workspace", "MCP keys");
            take_place(&mut transaction, counter, limit, "body", what).await?;
            let token = NewToken {
                member: caller.member_id(),
                kind: CredentialKind::Bearer,
                name: new.name.clone(),
                narrowing: narrowing(&caller, workspace, &new.audience),
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

    /// The MCP keys of a workspace, in the order they were made.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a wrong page; [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown
    /// workspace; [`Error::Forbidden`] without `dashboard:read` there.
    pub async fn list_mcp_keys(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        page: &PageRequest,
    ) -> Result<Page<McpKeySummary>, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let (caller, _) = self
                .enter_workspace(&mut reading, credential, workspace, needs::LIST_MCP_KEYS)
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

    /// One MCP key, without the key itself.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace or key; [`Error::Forbidden`] without
    /// `dashboard:read` there.
    pub async fn mcp_key(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        key: CredentialId,
    ) -> Result<McpKeySummary, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let (caller, _) = self
                .enter_workspace(&mut reading, credential, workspace, needs::READ_MCP_KEY)
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

    /// Replaces the secret of an MCP key by a new one, shown this once. The old one is taken no more from that moment on.
    /// Whoever rotates a key answers for it: it acts as that member from now on.
    ///
    /// `rotation` is the time in which it has to be replaced again; without it, as long as before.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a bad `rotation`; [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown
    /// workspace or key; [`Error::Forbidden`] without `mcp_key:manage` there, or for an audience that does not cover
    /// the caller.
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
            let (caller, entered) = self
                .enter_workspace(
                    &mut transaction,
                    credential,
                    workspace,
                    needs::ROTATE_MCP_KEY,
                )
                .await?;
            let org = caller.org_id();
            let before = read_key(&mut transaction, org, workspace, key, now).await?;
            require_audience(&caller, &entered, &before.audience)?;
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
                narrowing: narrowing(&caller, workspace, &after.audience),
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
            Operation::begin(&transaction, self.env(), now).changed(
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

    /// Writes a credential in place of the one that has its identifier now.
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
        Due::record(key)
            .and(id_key)
            .schedule(transaction, record.expires_at, self.env());
        Ok(secret)
    }

    /// Revokes an MCP key: it is taken no more from that moment on.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace or key; [`Error::Forbidden`] without
    /// `mcp_key:manage` there.
    pub async fn revoke_mcp_key(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        key: CredentialId,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let (caller, _) = self
                .enter_workspace(
                    &mut transaction,
                    credential,
                    workspace,
                    needs::REVOKE_MCP_KEY,
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
            Operation::begin(&transaction, self.env(), now).record(
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
        Due::record(keys::mcp_key(org, workspace, key.id))
            .and(keys::mcp_key_use(org, workspace, key.id))
            .counted_by(keys::mcp_key_count(org, workspace))
            .schedule(transaction, key.expires_at, self.env());
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

pub(crate) fn check_rotation(problems: &mut Problems, rotation: Duration) {
    if rotation.is_zero() || rotation > ROTATION_MAX {
        problems.push(
            "rotationSeconds",
            ProblemCode::InvalidValue,
            "must be longer than nothing and at most a year",
        );
    }
}

/// Refuses to hand out an audience that does not cover the caller.
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
            "nobody can grant what they do not hold: the audience {label}"
        ))),
    }
}

/// What an MCP key of a workspace is narrowed to: never wider than the credential that makes it.
fn narrowing(caller: &Principal, workspace: WorkspaceId, audience: &[AudienceLabel]) -> Narrowing {
    Narrowing {
        workspaces: Some(vec![workspace]),
        actions: Some(caller.narrowed(ACTIONS)),
        audience: Some(audience.to_vec()),
    }
}

/// A key that is not expired.
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

/// The credential of a key, and where it stands.
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
    let mut expired = Vec::new();
    for found in &found {
        let key: McpKey = decode_value(found)?;
        if key.expires_at <= now {
            expired.push((workspace, key.id));
        }
    }
    forget_keys(transaction, org, &expired).await
}

/// The workspace whose MCP key a credential may be: it is narrowed to that one.
pub(super) fn key_workspace(record: &CredentialRecord) -> Option<WorkspaceId> {
    match record.narrowing.workspaces.as_deref() {
        Some([workspace]) => Some(*workspace),
        _ => None,
    }
}

/// Removes what is stored of these keys besides their credentials, where it is still there.
pub(super) async fn forget_keys(
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
