//! MCP keys: credentials with which clients of the Model Context Protocol read a workspace.
//!
//! An MCP key is a bearer token with a narrow scope: one workspace, few actions, and the audience
//! labels that it was created for.

use std::time::Duration;

use crate::access::{Action, ActionSet, CredentialKind, CredentialRecord, Secret, TokenScope};
use crate::error::{EntityKind, Error};
use crate::keys;
use crate::model::{
    AudienceLabel, AuditAction, CredentialId, McpKeySummary, OrgId, ResourceKind, SourceId,
    Timestamp, Workspace, WorkspaceId,
};
use crate::operation::Operation;
use crate::request::rules::RotationSeconds;
use crate::service::access::created::{CreatedRecord, Endings};
use crate::service::access::principal::{Delegator, Principal};
use crate::service::memories::sources::{check_source, require_open_source, source_keys};
use crate::service::operation::{Authorized, Prefetch, Unauthenticated};
use crate::service::page::{Listing, Page, PageRecord, PageRequest};
use crate::service::quota::RecordLimit;
use crate::service::tasks::ScheduledTask;
use crate::service::workspace::dashboard::same_id;
use crate::service::workspace::mcp_key_types::{IssuedMcpKey, McpKey, NewMcpKey};
use crate::service::{Caller, KnowledgeService, McpKeys};
use crate::store::{Direction, Key, RangeRead, Transaction, decode_value};

/// Actions of a key: reading memories, writing chats and registering recalls. One with a source for
/// them proposes memories too.
const ACTIONS: ActionSet = ActionSet::of(&[
    Action::MemoryRead,
    Action::MemoryReadConfidential,
    Action::MemoryReadRestricted,
    Action::ChatWrite,
    Action::RecallCreate,
]);
/// Time for which a key remains valid after it should have been rotated.
const GRACE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const NO_SUCH_KEY: Error = Error::not_found(EntityKind::McpKey);

impl McpKeys<'_> {
    /// Creates an MCP key. Only this response contains the key itself; that of a repetition with the
    /// idempotency key does not.
    ///
    /// The key belongs to the member: no end of the credential of the caller ends it, unless that
    /// is scoped or [ended with what it
    /// created](crate::service::Provisioning::revoke_with_created). Created with a scoped token, it
    /// has the scope of the token, expires no later, and ends with it.
    ///
    /// # Errors
    /// Those of [`Operation::CreateMcpKey`]; [`Error::InvalidRequest`] for a workspace that has the
    /// maximum number of keys, or an unknown source of proposals; [`Error::Forbidden`] for an
    /// audience that does not cover the caller, or the source of an inbound webhook.
    pub async fn create(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        new: &NewMcpKey,
    ) -> Result<IssuedMcpKey, Error> {
        self.service.checks().check(new)?;
        self.service
            .once(
                Operation::CreateMcpKey,
                caller,
                &(workspace, new),
                |caller| async move {
                    let org = caller.org();
                    let counter = keys::mcp_key_count(org, workspace);
                    let stored = RangeRead::all(keys::mcp_keys(org, workspace));
                    let source = new.proposal_source_id.into_iter();
                    let source = source.flat_map(|source| source_keys(org, source));
                    let prefetch = Prefetch::keys([counter.clone()]);
                    let prefetch = prefetch.and_keys(source).and_range(stored);
                    let mut op = caller.in_workspace(workspace, prefetch).await?;
                    let (now, member) = (op.now, op.principal.member_id());
                    require_audience(&op.principal, op.workspace(), &new.audience)?;
                    if let Some(source) = new.proposal_source_id {
                        op.require(Action::MemoryPropose, workspace)?;
                        let (transaction, principal) = (&mut op.transaction, &op.principal);
                        let named = ("proposalSourceId", Some(source));
                        check_source(transaction, principal, named).await?;
                        require_open_source(transaction, &principal.org, source).await?;
                    }
                    free_expired_keys(&mut op.transaction, org, workspace, now).await?;
                    op.reserve_record(RecordLimit::MCP_KEYS, counter).await?;
                    let delegator = op.principal.delegator();
                    let (rotates_at, expires_at) = validity(delegator, new.rotation, now);
                    let secret = Secret::generate(CredentialKind::Bearer, org, self.service.env());
                    let key = McpKey {
                        id: CredentialId(self.service.env().uuid_at(now)),
                        name: new.name.clone(),
                        client: new.client,
                        audience: new.audience.clone(),
                        created_by: member,
                        created_at: now,
                        acts_as: member,
                        created_with: delegator.credential,
                        created_through: delegator.created_through,
                        bound_until: delegator.bound_until,
                        proposal_source_id: new.proposal_source_id,
                        rotation_seconds: new.rotation.as_secs(),
                        rotates_at,
                        expires_at,
                    };
                    let record = credential_of(&key, &op.principal, workspace, now);
                    self.service
                        .put_credential(&mut op.transaction, &record, &secret);
                    let place = keys::mcp_key(org, workspace, key.id);
                    let transaction = &mut op.transaction;
                    transaction.create(place, &key);
                    let record = CreatedRecord::McpKey(workspace);
                    delegator.add_to_index(transaction, org, key.id.0, record);
                    self.service.plan_expiry(transaction, org, workspace, &key);
                    let resource = (ResourceKind::Credential, key.id.0);
                    op.created(AuditAction::McpKeyCreate, resource, &key);
                    op.done(IssuedMcpKey {
                        secret: Some(secret),
                        summary: key.summary(workspace, None, None),
                    })
                },
                |caller, replay| async move {
                    let key = CredentialId(replay.created);
                    let (summary, secret) = (self.get(&caller, workspace, key).await?, None);
                    Ok(IssuedMcpKey { summary, secret })
                },
            )
            .await
    }

    /// Lists the MCP keys of a workspace, in order of creation.
    ///
    /// # Errors
    /// Those of [`Operation::ListMcpKeys`].
    pub async fn list(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        page: &PageRequest,
    ) -> Result<Page<McpKeySummary>, Error> {
        self.service
            .perform(Operation::ListMcpKeys, caller, |caller| async move {
                let org = caller.org();
                let range = keys::mcp_keys(org, workspace);
                let listing = Listing::new("mcp_keys", &(), range, Direction::Forward);
                let uses = RangeRead::all(keys::mcp_key_uses(org, workspace));
                let prefetch = Prefetch::page(&listing, page).and_range(uses.clone());
                let next = |transaction: &Transaction| {
                    let (place, first) = ((org, workspace), listing.first_read(page));
                    Endings::prefetch_page(transaction, place, first, McpKey::delegator)
                };
                let op = caller.in_workspace_then(workspace, prefetch, &next);
                let mut op = op.await?;
                let now = op.now;
                let uses = op.transaction.scan(&uses).await?;
                let show = |found: &Key, key: McpKey| {
                    let last_used_at: Option<Timestamp> = same_id(found, &uses)?;
                    let valid = Some(key).filter(|key| now < key.expires_at);
                    Ok(PageRecord::visible(valid.map(|key| (key, last_used_at))))
                };
                let found = listing.page(&mut op.transaction, page, show).await?;
                let delegators = found.data.iter().map(|(key, _)| key.delegator());
                let delegators = delegators.collect();
                let endings = op.endings(workspace, None, delegators).await?;
                let shown = found.data.into_iter().map(|(key, last_used_at)| {
                    let ending = endings.of(&key.delegator());
                    key.summary(workspace, last_used_at, ending)
                });
                let data = shown.collect();
                let next_cursor = found.next_cursor;
                op.done(Page { data, next_cursor })
            })
            .await
    }

    /// Reads one MCP key, without the key itself.
    ///
    /// # Errors
    /// Those of [`Operation::GetMcpKey`].
    pub async fn get(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        key: CredentialId,
    ) -> Result<McpKeySummary, Error> {
        self.service
            .perform(Operation::GetMcpKey, caller, |caller| async move {
                let org = caller.org();
                let [record, used] = records(org, workspace, key);
                let prefetch = Prefetch::keys([record.clone(), used.clone()]);
                let next = |transaction: &Transaction| {
                    let key = transaction.prefetched().get::<McpKey>(&record);
                    let key = key.ok().flatten();
                    Endings::prefetch((org, workspace), key.map(|key| key.delegator()))
                };
                let op = caller.in_workspace_then(workspace, prefetch, &next);
                let mut op = op.await?;
                let found = find_key(&mut op, &record).await?;
                let used = op.transaction.get(&used).await?;
                let ending = op.ending(workspace, None, found.delegator()).await?;
                op.done(found.summary(workspace, used, ending))
            })
            .await
    }

    /// Replaces the secret of an MCP key. Only this response contains the new one.
    ///
    /// The old secret stops working immediately. From now on the key acts as the member that
    /// rotated it, and belongs to it or to its scoped token as a new key would.
    ///
    /// `rotation` is the new rotation period; without it, the period stays the same.
    ///
    /// # Errors
    /// Those of [`Operation::RotateMcpKey`]; [`Error::Forbidden`] for a key that may do more there
    /// than the caller, or for an audience that does not cover the caller.
    pub async fn rotate(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        key: CredentialId,
        rotation: Option<Duration>,
    ) -> Result<IssuedMcpKey, Error> {
        self.service
            .checks()
            .value::<Option<RotationSeconds>>("rotationSeconds", &rotation)?;
        self.service
            .perform(Operation::RotateMcpKey, caller, |caller| async move {
                let mut op = in_workspace_of_key(caller, workspace, key).await?;
                let (org, now, member) = (op.org(), op.now, op.principal.member_id());
                let [place, used] = records(org, workspace, key);
                let before = find_key(&mut op, &place).await?;
                let (old, record) = find_credential(&mut op, key).await?;
                require_covered(&mut op, workspace, &before, &record).await?;
                require_audience(&op.principal, op.workspace(), &before.audience)?;
                let rotation =
                    rotation.unwrap_or_else(|| Duration::from_secs(before.rotation_seconds));
                let (mut delegator, by) = (before.delegator(), op.principal.delegator());
                let (rotates_at, expires_at) = validity(by, rotation, now);
                let after = McpKey {
                    acts_as: member,
                    created_with: by.credential,
                    created_through: by.created_through,
                    bound_until: by.bound_until,
                    rotation_seconds: rotation.as_secs(),
                    rotates_at,
                    expires_at,
                    ..before.clone()
                };
                let record = credential_of(&after, &op.principal, workspace, now);
                op.transaction.delete(old);
                let secret = Secret::generate(CredentialKind::Bearer, org, self.service.env());
                self.service
                    .put_credential(&mut op.transaction, &record, &secret);
                op.transaction.put(place, &after);
                let place = (key.0, CreatedRecord::McpKey(workspace));
                delegator.replace(by, &mut op.transaction, org, place);
                self.service
                    .plan_expiry(&mut op.transaction, org, workspace, &after);
                let used = op.transaction.get(&used).await?;
                let resource = (ResourceKind::Credential, key.0);
                op.changed(AuditAction::McpKeyRotate, resource, &before, &after);
                let summary = after.summary(workspace, used, None);
                let secret = Some(secret);
                op.done(IssuedMcpKey { secret, summary })
            })
            .await
    }

    /// Revokes an MCP key. It stops working immediately.
    ///
    /// # Errors
    /// Those of [`Operation::RevokeMcpKey`]; [`Error::Forbidden`] for a key that may do more there
    /// than the caller.
    pub async fn revoke(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        key: CredentialId,
    ) -> Result<(), Error> {
        self.service
            .perform(Operation::RevokeMcpKey, caller, |caller| async move {
                let mut op = in_workspace_of_key(caller, workspace, key).await?;
                let (org, now) = (op.org(), op.now);
                let [place, _] = records(org, workspace, key);
                let before = find_key(&mut op, &place).await?;
                let (place, record) = find_credential(&mut op, key).await?;
                require_covered(&mut op, workspace, &before, &record).await?;
                let revoked = CredentialRecord {
                    revoked_at: Some(now),
                    ..record
                };
                op.transaction.put(place, &revoked);
                forget_key(&mut op.transaction, org, workspace, &before);
                let resource = (ResourceKind::Credential, key.0);
                op.deleted(AuditAction::McpKeyRevoke, resource, &before);
                op.done(())
            })
            .await
    }
}

/// Returns the key of the last use of an MCP key, if the credential is that of one.
pub(crate) async fn use_of(
    transaction: &mut Transaction,
    credential: &CredentialRecord,
) -> Result<Option<Key>, Error> {
    let Some(workspace) = key_workspace(credential) else {
        return Ok(None);
    };
    let [key, used] = records(credential.org_id, workspace, credential.id);
    let exists = transaction.get::<McpKey>(&key).await?.is_some();
    Ok(exists.then_some(used))
}

impl McpKey {
    /// Returns the actions of the key, of those that its member has.
    fn actions(&self) -> ActionSet {
        match self.proposal_source_id {
            Some(_) => ACTIONS | ActionSet::of(&[Action::MemoryPropose]),
            None => ACTIONS,
        }
    }
}

impl KnowledgeService {
    /// Returns the source of the memories that a caller may propose with its MCP key, if its member
    /// may. Only for keys that may have one is anything read.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn proposal_source(
        &self,
        caller: &Principal,
        workspace: WorkspaceId,
    ) -> Result<Option<SourceId>, Error> {
        let propose = ActionSet::of(&[Action::MemoryPropose]);
        let may_propose = caller.has_audience_list() && caller.scoped(propose) == propose;
        let Some(id) = caller.credential.filter(|_| may_propose) else {
            return Ok(None);
        };
        let key = keys::mcp_key(caller.org_id(), workspace, id);
        let key = self.reading().get::<McpKey>(&key).await?;
        Ok(key.and_then(|key| key.proposal_source_id))
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
}

/// Rejects an audience that does not cover the caller.
fn require_audience(
    caller: &Principal,
    workspace: &Workspace,
    audience: &[AudienceLabel],
) -> Result<(), Error> {
    let named = |slug: &str| (slug == workspace.slug).then_some(workspace.id);
    match audience
        .iter()
        .find(|label| !caller.is_covered_by(label, named))
    {
        None => Ok(()),
        Some(label) => Err(Error::forbidden(format!(
            "cannot grant an audience that does not cover the caller: {label}"
        ))),
    }
}

/// Returns the times from which a key should be rotated and is invalid.
///
/// Neither is later than the expiry of a scoped credential that creates or rotates it.
fn validity(by: Delegator, rotation: Duration, now: Timestamp) -> (Timestamp, Timestamp) {
    let last = by.bound_until.unwrap_or(Timestamp::MAX);
    let (rotates_at, expires_at) = (now.plus(rotation), now.plus(rotation + GRACE));
    (rotates_at.min(last), expires_at.min(last))
}

/// Returns the credential of an MCP key: never wider than the one that creates or rotates it.
fn credential_of(
    key: &McpKey,
    caller: &Principal,
    workspace: WorkspaceId,
    now: Timestamp,
) -> CredentialRecord {
    CredentialRecord {
        id: key.id,
        kind: CredentialKind::Bearer,
        name: key.name.clone(),
        org_id: caller.org_id(),
        member_id: key.acts_as,
        scope: TokenScope {
            workspaces: Some(vec![workspace]),
            actions: Some(caller.scoped(key.actions())),
            audience: Some(key.audience.clone()),
        },
        created_with: key.created_with,
        created_through: key.created_through,
        created_by: None,
        is_dependent: key.bound_until.is_some(),
        idle_timeout_seconds: None,
        created_at: now,
        expires_at: key.expires_at,
        revoked_at: None,
        is_revoked_with_created: false,
    }
}

/// Returns the keys of the record of an MCP key and of its last use.
fn records(org: OrgId, workspace: WorkspaceId, key: CredentialId) -> [Key; 2] {
    [
        keys::mcp_key(org, workspace, key),
        keys::mcp_key_use(org, workspace, key),
    ]
}

/// Authorises the caller in the workspace, and prefetches an MCP key with its credential.
async fn in_workspace_of_key<'c>(
    caller: Unauthenticated<'c>,
    workspace: WorkspaceId,
    key: CredentialId,
) -> Result<Authorized<'c>, Error> {
    let org = caller.org();
    let id_key = keys::credential_id(org, key);
    let prefetch = Prefetch::keys(records(org, workspace, key))
        .and_keys([keys::workspace(org, workspace), id_key.clone()]);
    let mut caller = caller.authenticate(prefetch).await?;
    let hash = caller.prefetched::<String>(&id_key)?;
    let place = hash
        .and_then(|hash| hash.parse().ok())
        .map(keys::credential);
    caller.prefetch(Prefetch::keys(place)).await?;
    let mut op = caller.authorize_per_resource().await?;
    op.authorize_in_named(workspace).await?;
    Ok(op)
}

/// Reads a key that has not expired.
async fn find_key(op: &mut Authorized<'_>, place: &Key) -> Result<McpKey, Error> {
    let found: McpKey = op.find(place, EntityKind::McpKey).await?;
    Some(found)
        .filter(|key| op.now < key.expires_at)
        .ok_or(NO_SUCH_KEY)
}

/// Reads the credential of a key, with its storage key.
async fn find_credential(
    op: &mut Authorized<'_>,
    id: CredentialId,
) -> Result<(Key, CredentialRecord), Error> {
    let id_key = keys::credential_id(op.org(), id);
    let hash: String = op.find(&id_key, EntityKind::McpKey).await?;
    let place = keys::credential(hash.parse().map_err(|_| NO_SUCH_KEY)?);
    let record = op.find(&place, EntityKind::McpKey).await?;
    Ok((place, record))
}

/// Checks that the caller holds what a key may do now, to take it over or to end it.
async fn require_covered(
    op: &mut Authorized<'_>,
    workspace: WorkspaceId,
    key: &McpKey,
    record: &CredentialRecord,
) -> Result<(), Error> {
    let allowed = record.scope.actions.unwrap_or(key.actions());
    let delegator = key.delegator();
    op.require_covered(workspace, delegator, allowed).await
}

/// Frees the quota of expired keys that are not purged yet.
async fn free_expired_keys(
    transaction: &mut Transaction,
    org: OrgId,
    workspace: WorkspaceId,
    now: Timestamp,
) -> Result<(), Error> {
    let read = RangeRead::all(keys::mcp_keys(org, workspace));
    let mut expired = Vec::new();
    // They stay prefetched, because the next call reads the expired ones.
    for found in transaction.prefetched().scan(&read).unwrap_or_default() {
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
    let found = transaction.get_many::<McpKey>(&places).await?;
    for (found, (workspace, _)) in found.into_iter().zip(forgotten) {
        if let Some(key) = found {
            forget_key(transaction, org, *workspace, &key);
        }
    }
    Ok(())
}

/// Removes the records of a key that is stored, but not its credential.
fn forget_key(transaction: &mut Transaction, org: OrgId, workspace: WorkspaceId, key: &McpKey) {
    for place in records(org, workspace, key.id) {
        transaction.delete(place);
    }
    let delegator = key.delegator();
    delegator.remove_from_index(transaction, org, key.id.0);
    transaction.add(keys::mcp_key_count(org, workspace), -1);
}
