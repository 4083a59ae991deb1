//! Tokens and sessions.

use std::sync::Arc;
use std::time::Duration;

use super::{Issued, NewToken, Provisioning};
use crate::access::{CredentialKind, CredentialRecord, Narrowing, Secret, SecretHash};
use crate::error::{Error, ProblemCode};
use crate::limits::NARROWING_MAX;
use crate::model::{CredentialId, Member, OrgId};
use crate::service::KnowledgeService;
use crate::service::audit::{Actor, AuditAction, Operation, ResourceKind};
use crate::service::maintain::Due;
use crate::service::mcp_keys::{forget_keys, key_workspace};
use crate::service::page::{Listing, Page, PageRequest};
use crate::service::validate::Problems;
use crate::keys;
use crate::store::{Direction, Key, KeyEntry, StoreExt, Transaction, decode_value};

/// The longest life of a token or a session.
const LIFETIME_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);

impl Provisioning<'_> {
    /// Makes a bearer token or a session.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`]; [`Error::NotFound`] for an unknown member.
    pub async fn issue(&self, org: OrgId, new: &NewToken) -> Result<Issued, Error> {
        let mut problems = Problems::default();
        problems.name("name", &new.name, self.service.limits());
        if new.lifetime.is_zero() || new.lifetime > LIFETIME_MAX {
            problems.push(
                "lifetime",
                ProblemCode::InvalidValue,
                "must be longer than nothing and at most ten years",
            );
        }
        if new.kind == CredentialKind::Session && new.narrowing != Narrowing::default() {
            problems.push(
                "narrowing",
                ProblemCode::InvalidValue,
                "must be empty for a session",
            );
        }
        let (workspaces, labels) = (&new.narrowing.workspaces, &new.narrowing.audience);
        let workspaces = workspaces.as_ref().map_or(0, Vec::len);
        let labels = labels.as_ref().map_or(0, Vec::len);
        problems.at_most("narrowing.workspaces", workspaces, NARROWING_MAX);
        problems.at_most("narrowing.audience", labels, NARROWING_MAX);
        problems.into_result()?;
        let service = self.service;
        service
            .transact(|mut transaction| async move {
                if transaction
                    .read::<Member>(&keys::member(org, new.member))
                    .await?
                    .is_none()
                {
                    return Err(Error::NotFound { what: "member" });
                }
                let issued = service.new_credential(&mut transaction, org, new);
                let (actor, action) = (Actor::operator(org), AuditAction::CredentialCreate);
                let resource = (ResourceKind::Credential, issued.record.id.0);
                let at = issued.record.created_at;
                Operation::begin(&transaction, service.env(), at).created(
                    &mut transaction,
                    actor,
                    action,
                    resource,
                    &issued.record,
                );
                transaction.done(issued)
            })
            .await
    }

    /// The tokens and sessions of an organisation, in the order they were made; those that expired may be among them
    /// until they are swept.
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

    /// A page of the tokens and sessions of an organisation, or of those of one kind, in the order they were made.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a wrong page.
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
            // Something else than a hash leads nowhere: its place in the page stays empty.
            let nowhere = || keys::credential(SecretHash([0; 32]));
            let places = hashes
                .iter()
                .map(|hash| place(hash).unwrap_or_else(nowhere));
            let places: Vec<_> = places.collect();
            let records = store.get_many_as::<CredentialRecord>(&places).await?;
            let records = records
                .into_iter()
                .map(|found| found.map(|found| found.value));
            let is_wanted = |record: &CredentialRecord| kind.is_none_or(|kind| record.kind == kind);
            Ok(records.map(|found| found.filter(is_wanted)).collect())
        };
        Listing::new("credentials", &kind, range, Direction::Forward)
            .page_of(store, page, show)
            .await
    }

    /// The token or session with this identifier.
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

    /// Revokes a token or a session. Revoking it again changes nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn revoke(&self, org: OrgId, id: CredentialId) -> Result<CredentialRecord, Error> {
        let env = self.service.env();
        self.service
            .transact(|mut transaction| async move {
                let missing = || Error::NotFound {
                    what: "token or session",
                };
                let hash = transaction
                    .read::<String>(&keys::credential_id(org, id))
                    .await?
                    .ok_or_else(missing)?;
                let key = keys::credential(hash.parse().map_err(|_| missing())?);
                let before = transaction
                    .read::<CredentialRecord>(&key)
                    .await?
                    .ok_or_else(missing)?;
                if before.revoked_at.is_some() {
                    return transaction.done(before);
                }
                let now = env.now();
                let after = CredentialRecord {
                    revoked_at: Some(now),
                    ..before.clone()
                };
                transaction.put(key, &after);
                if let Some(workspace) = key_workspace(&after) {
                    // The place of an MCP key is free again.
                    forget_keys(&mut transaction, org, &[(workspace, id)]).await?;
                }
                let (actor, action) = (Actor::operator(org), AuditAction::CredentialRevoke);
                let resource = (ResourceKind::Credential, id.0);
                Operation::begin(&transaction, env, now).changed(
                    &mut transaction,
                    actor,
                    action,
                    resource,
                    &before,
                    &after,
                );
                transaction.done(after)
            })
            .await
    }
}

/// Where the credential with this hash stands.
fn place(hash: &str) -> Option<Key> {
    Some(keys::credential(hash.parse::<SecretHash>().ok()?))
}

impl KnowledgeService {
    /// Writes a new credential. It is swept some time after it expired.
    pub(in crate::service) fn new_credential(
        &self,
        transaction: &mut Transaction,
        org: OrgId,
        new: &NewToken,
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
            narrowing: new.narrowing.clone(),
            created_at: now,
            expires_at: now.plus(new.lifetime),
            revoked_at: None,
        };
        let (key, id_key) = (
            keys::credential(secret.hash()),
            keys::credential_id(org, record.id),
        );
        transaction.create(key.clone(), &record);
        transaction.create(id_key.clone(), &secret.hash().to_string());
        Due::record(key)
            .and(id_key)
            .schedule(transaction, record.expires_at, env);
        Issued { secret, record }
    }
}
