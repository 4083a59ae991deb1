//! Bearer tokens, sessions and login links.

use std::sync::Arc;
use std::time::Duration;

use super::{Issued, NewToken, Provisioning};
use crate::access::{CredentialKind, CredentialRecord, Secret, SecretHash, TokenScope};
use crate::env::Env;
use crate::error::{EntityKind, Error, ProblemCode};
use crate::keys;
use crate::limits::{SCOPE_ITEMS_MAX, TOKEN_LIFETIME_CEILING};
use crate::model::{
    AudienceLabel, AuditAction, CreatedResource, CredentialId, Member, MemberId, OrgId,
    ResourceKind, Timestamp, WorkspaceId,
};
use crate::request::rules::{Field, Id, Items, List, Name, Parsed};
use crate::request::{Path, Problems};
use crate::service::KnowledgeService;
use crate::service::access::principal::EndedCredential;
use crate::service::audit::write::{Actor, AuditedOperation};
use crate::service::page::{Listing, Page, PageRecord, PageRequest};
use crate::service::tasks::ScheduledTask;
use crate::service::tokens::deletion::forget_tokens;
use crate::service::tokens::types::ApiToken;
use crate::service::workspace::mcp_keys::{forget_keys, key_workspace};
use crate::store::{Direction, Key, KeyEntry, RangeRead, StoreExt, Transaction, decode_value};

/// A list in the scope of a token.
type ScopeList<R> = Option<List<R, Items<0, SCOPE_ITEMS_MAX>>>;

/// Maximum lifetime of a login link.
const LINK_LIFETIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum lifetime of one that is long-lived by request.
const LONG_LIFETIME_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);

impl Provisioning<'_> {
    /// Issues a bearer token, a session or a login link.
    ///
    /// A [login link](crate::service::Sessions::sign_in) is the way in for a member without a
    /// credential. Like a session, it has no scope.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`]; [`Error::NotFound`] for an unknown member.
    pub async fn issue(&self, org: OrgId, new: &NewToken) -> Result<Issued, Error> {
        let checks = &self.service.checks();
        let mut problems = Problems::default();
        Name::check(&new.name, "name", Path::ROOT, checks, &mut problems);
        let lifetime_max = match (new.kind, new.is_long_lived) {
            (CredentialKind::Link, _) => LINK_LIFETIME_MAX,
            (_, true) => LONG_LIFETIME_MAX,
            (_, false) => TOKEN_LIFETIME_CEILING,
        };
        if new.lifetime.is_zero() || new.lifetime > lifetime_max {
            let requirement = match new.kind {
                CredentialKind::Link => "must be greater than 0 and at most a day",
                _ => {
                    "must be greater than 0 and at most 400 days, or ten years if it is long-lived"
                }
            };
            problems.push("lifetime", ProblemCode::InvalidValue, requirement);
        }
        if new.kind != CredentialKind::Bearer && new.scope != TokenScope::default() {
            problems.push(
                "narrowing",
                ProblemCode::InvalidValue,
                "must be empty for a session or a login link",
            );
        }
        let scope = &Path::Field(Path::ROOT, "narrowing");
        let (workspaces, labels) = (&new.scope.workspaces, &new.scope.audience);
        ScopeList::<Id<WorkspaceId>>::check(workspaces, "workspaces", scope, checks, &mut problems);
        ScopeList::<Parsed<AudienceLabel>>::check(labels, "audience", scope, checks, &mut problems);
        problems.into_result()?;
        let service = self.service;
        service
            .transact(|mut transaction| async move {
                if transaction
                    .get::<Member>(&keys::member(org, new.member))
                    .await?
                    .is_none()
                {
                    return Err(Error::not_found(EntityKind::Member));
                }
                let actor = Actor::operator(org);
                let issued = service.new_credential(&mut transaction, actor, new, None);
                Ok(transaction.done(issued))
            })
            .await
    }

    /// Returns the tokens and sessions of an organisation, in order of creation.
    ///
    /// Expired ones may be included until they are purged.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn credentials(&self, org: OrgId) -> Result<Vec<CredentialRecord>, Error> {
        let hashes: Vec<String> = self.list(&keys::credential_ids(org)).await?;
        let places: Vec<_> = hashes.iter().filter_map(|hash| place(hash)).collect();
        let store = self.service.store();
        let found = store.get_many_as::<CredentialRecord>(&places).await?;
        let found = found.into_iter().flatten().map(|found| found.value);
        Ok(found.collect())
    }

    /// Lists an organisation's tokens and sessions, or those of one kind, in order of creation.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page.
    pub async fn list_credentials(
        &self,
        org: OrgId,
        kind: Option<CredentialKind>,
        page: &PageRequest,
    ) -> Result<Page<CredentialRecord>, Error> {
        let range = keys::credential_ids(org);
        let store = self.service.store();
        let show = |found: Arc<[KeyEntry]>| async move {
            let hashes = found.iter().map(decode_value);
            let hashes = hashes.collect::<Result<Vec<String>, _>>()?;
            // A value that is not a hash refers to no record: its item is omitted from the page.
            let nowhere = || keys::credential(SecretHash([0; 32]));
            let places = hashes
                .iter()
                .map(|hash| place(hash).unwrap_or_else(nowhere));
            let places: Vec<_> = places.collect();
            let records = store.get_many_as::<CredentialRecord>(&places).await?;
            let show = |record: CredentialRecord| {
                let is_wanted = kind.is_none_or(|kind| record.kind == kind);
                PageRecord::matching(record, is_wanted)
            };
            let records = records.into_iter();
            let shown =
                records.map(|found| found.map_or(PageRecord::Hidden, |found| show(found.value)));
            Ok(shown.collect())
        };
        Listing::new("credentials", &kind, range, Direction::Forward)
            .page_of(&mut self.service.reading(), page, self.service.env(), show)
            .await
    }

    /// Finds the token or session with this identifier.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn credential(
        &self,
        org: OrgId,
        id: CredentialId,
    ) -> Result<Option<CredentialRecord>, Error> {
        let store = self.service.store();
        let hash = store
            .get_as::<String>(&keys::credential_id(org, id))
            .await?;
        let Some(place) = hash.and_then(|hash| place(&hash.value)) else {
            return Ok(None);
        };
        let found = store.get_as::<CredentialRecord>(&place).await?;
        Ok(found.map(|found| found.value))
    }

    /// Returns the time of the last use of a token or session, to within an hour.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn last_use(&self, org: OrgId, id: CredentialId) -> Result<Option<Timestamp>, Error> {
        let used = keys::credential_use(org, id);
        let found = self.service.store().get_as(&used).await?;
        Ok(found.map(|found| found.value))
    }

    /// Returns the member that created a token; `None` for one that the operator issued, and for
    /// any other credential.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn creator_of_token(
        &self,
        record: &CredentialRecord,
    ) -> Result<Option<MemberId>, Error> {
        let token = keys::token(record.org_id, record.member_id, record.id);
        let found = self.service.store().get_as::<ApiToken>(&token).await?;
        Ok(found.and_then(|found| found.value.created_by))
    }

    /// Lists the API tokens, MCP keys, webhooks and subscriptions that a token or session created
    /// or last took over, also after its end.
    ///
    /// What was created with the access token of a session counts as created with the session, and
    /// so does what an API token created that the session created.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page; those of the store.
    pub async fn list_created_with(
        &self,
        org: OrgId,
        id: CredentialId,
        page: &PageRequest,
    ) -> Result<Page<CreatedResource>, Error> {
        self.service.created_with(org, id, &[], page).await
    }

    /// Returns true if everything that a credential created was ended with it.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn is_ended_with_created(
        &self,
        org: OrgId,
        id: CredentialId,
    ) -> Result<bool, Error> {
        let key = keys::ended_credential(org, id);
        let ended = self.service.store().get_as::<EndedCredential>(&key).await?;
        Ok(ended.is_some_and(|ended| ended.value.is_with_created))
    }

    /// Revokes a token or session. Revoking it again changes nothing.
    ///
    /// What a scoped token created ends with it. Everything else that was created with it remains.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn revoke(&self, org: OrgId, id: CredentialId) -> Result<CredentialRecord, Error> {
        self.end(org, id, false).await
    }

    /// Revokes a token or session, and ends at once everything that it
    /// [created](Self::list_created_with) or last took over, for one that has leaked.
    ///
    /// Also for a credential that was revoked before, as long as it is stored.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn revoke_with_created(
        &self,
        org: OrgId,
        id: CredentialId,
    ) -> Result<CredentialRecord, Error> {
        self.end(org, id, true).await
    }

    async fn end(
        &self,
        org: OrgId,
        id: CredentialId,
        with_created: bool,
    ) -> Result<CredentialRecord, Error> {
        let env = self.service.env();
        self.service
            .transact(|mut transaction| async move {
                let missing = || Error::not_found(EntityKind::Credential);
                let hash = transaction
                    .get::<String>(&keys::credential_id(org, id))
                    .await?
                    .ok_or_else(missing)?;
                let key = keys::credential(hash.parse().map_err(|_| missing())?);
                let before = transaction
                    .get::<CredentialRecord>(&key)
                    .await?
                    .ok_or_else(missing)?;
                let is_done = before.is_revoked_with_created || !with_created;
                if before.revoked_at.is_some() && is_done {
                    return Ok(transaction.done(before));
                }
                let actor = Actor::operator(org);
                let ended = (key, before);
                let after = revoke(env, &mut transaction, actor, ended, with_created).await?;
                Ok(transaction.done(after))
            })
            .await
    }
}

/// Returns the key of the credential with this hash.
pub(in crate::service) fn place(hash: &str) -> Option<Key> {
    Some(keys::credential(hash.parse::<SecretHash>().ok()?))
}

/// Revokes a credential, with its audit entry.
pub(in crate::service) async fn revoke(
    env: &Env,
    transaction: &mut Transaction,
    actor: Actor,
    (key, before): (Key, CredentialRecord),
    with_created: bool,
) -> Result<CredentialRecord, Error> {
    let now = env.now();
    let after = mark_revoked(transaction, (key, &before), with_created, now).await?;
    let resource = (ResourceKind::Credential, after.id.0);
    let action = AuditAction::CredentialRevoke;
    let operation = AuditedOperation::begin(transaction, env, now);
    operation.changed(transaction, actor, action, resource, &before, &after);
    Ok(after)
}

/// Revokes a credential, which its caller audits.
pub(in crate::service) async fn mark_revoked(
    transaction: &mut Transaction,
    (key, before): (Key, &CredentialRecord),
    with_created: bool,
    now: Timestamp,
) -> Result<CredentialRecord, Error> {
    let (org, id) = (before.org_id, before.id);
    let after = CredentialRecord {
        revoked_at: before.revoked_at.or(Some(now)),
        is_revoked_with_created: with_created,
        ..before.clone()
    };
    transaction.put(key, &after);
    note_end(transaction, &after, now).await?;
    // An MCP key or a token no longer counts towards its limit.
    if let Some(workspace) = key_workspace(&after) {
        forget_keys(transaction, org, &[(workspace, id)]).await?;
    }
    if after.kind == CredentialKind::Bearer {
        forget_tokens(transaction, org, after.member_id, &[id]).await?;
    }
    Ok(after)
}

/// Writes the end of a credential on which something that it created depends.
///
/// If that is only something that is bound to its scope, the entry serves to show when it ended
/// once the record of the credential is purged.
///
/// Nothing purges the entry before the organisation is removed: it has some 200 bytes, and what
/// ended with the credential has no end of its own.
async fn note_end(
    transaction: &mut Transaction,
    record: &CredentialRecord,
    now: Timestamp,
) -> Result<(), Error> {
    let (org, id) = (record.org_id, record.id);
    let is_with_created = record.is_revoked_with_created;
    if !is_with_created {
        let created = RangeRead::first(keys::all_created_with(org, id), 1);
        let is_bound = record.scope != TokenScope::default();
        if !is_bound || transaction.scan(&created).await?.is_empty() {
            return Ok(());
        }
    }
    let ended = EndedCredential {
        ended_at: now,
        is_with_created,
    };
    transaction.put(keys::ended_credential(org, id), &ended);
    Ok(())
}

impl KnowledgeService {
    /// Creates a credential in the organisation of the actor, with its audit entry, and schedules
    /// its purge.
    pub(in crate::service) fn new_credential(
        &self,
        transaction: &mut Transaction,
        actor: Actor,
        new: &NewToken,
        idle_timeout: Option<Duration>,
    ) -> Issued {
        let issued = self.generate_credential(actor.org, new, idle_timeout);
        let record = &issued.record;
        self.create_credential(transaction, actor, record, &issued.secret);
        if record.kind == CredentialKind::Bearer {
            let token = ApiToken::of(record, actor.member);
            transaction.add(keys::token_count(record.org_id, record.member_id), 1);
            self.put_token(transaction, record.org_id, &token);
        }
        issued
    }

    /// Generates a credential, without writing it.
    pub(in crate::service) fn generate_credential(
        &self,
        org: OrgId,
        new: &NewToken,
        idle_timeout: Option<Duration>,
    ) -> Issued {
        let env = self.env();
        let now = env.now();
        let secret = Secret::generate(new.kind, org, env);
        let record = CredentialRecord {
            id: CredentialId(env.uuid_at(now)),
            kind: new.kind,
            name: new.name.clone(),
            org_id: org,
            member_id: new.member,
            scope: new.scope.clone(),
            created_with: None,
            created_through: None,
            created_by: None,
            is_dependent: false,
            idle_timeout_seconds: idle_timeout.map(|timeout| timeout.as_secs()),
            created_at: now,
            expires_at: now.plus(new.lifetime),
            revoked_at: None,
            is_revoked_with_created: false,
        };
        Issued { secret, record }
    }

    /// Writes a credential with its audit entry, and schedules its purge.
    pub(in crate::service) fn create_credential(
        &self,
        transaction: &mut Transaction,
        actor: Actor,
        record: &CredentialRecord,
        secret: &Secret,
    ) {
        self.put_credential(transaction, record, secret);
        let resource = (ResourceKind::Credential, record.id.0);
        let action = AuditAction::CredentialCreate;
        let operation = AuditedOperation::begin(transaction, self.env(), record.created_at);
        operation.created(transaction, actor, action, resource, record);
    }

    /// Writes a credential and schedules its purge.
    pub(in crate::service) fn put_credential(
        &self,
        transaction: &mut Transaction,
        record: &CredentialRecord,
        secret: &Secret,
    ) {
        let key = keys::credential(secret.hash());
        let id_key = keys::credential_id(record.org_id, record.id);
        transaction.create(key.clone(), record);
        transaction.put(id_key.clone(), &secret.hash().to_string());
        if record.kind != CredentialKind::Link {
            // From now on, a link would be a way into what belongs to the member.
            transaction.delete(keys::invitation(record.org_id, record.member_id));
        }
        ScheduledTask::record(key)
            .and(id_key)
            .and(keys::credential_use(record.org_id, record.id))
            .schedule(transaction, record.expires_at, self.env());
    }
}
