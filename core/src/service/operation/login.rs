//! Authentication: the credential, the member that it belongs to, and the roles of the member.
//!
//! `unauthenticated` authenticates the callers of operations with it. `recognition` tells a stranger
//! by one read. [`Principal`] has the functions for what acts outside an operation, or as another
//! member.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;

use super::prefetch::{Next, Prefetch};
use crate::access::{
    Credential, CredentialKind, CredentialRecord, IdleTimeout, RoleRef, SecretHash, TokenScope,
};
use crate::error::Error;
use crate::keys;
use crate::model::{CredentialId, Member, MemberId, OrgId, Organization, Timestamp, WorkspaceId};
use crate::service::access::principal::{
    Delegator, EndedCredential, Principal, workspace_roles_read,
};
use crate::service::access::roles::{OWNER, held_role};
use crate::service::generations::GenerationCache;
use crate::store::{Key, RangeRead, Transaction, decode_value};

const INVALID: Error = Error::Unauthenticated {
    reason: "the credential is unknown, expired or revoked",
};

/// Maximum number of logins that a process knows. One takes half a kilobyte.
const KNOWN_MAX: usize = 16_384;

/// Logins of a process by the secret and its kind.
pub(crate) type KnownLogins =
    GenerationCache<(SecretHash, CredentialKind), Arc<KnownLogin>, KNOWN_MAX>;

/// Earlier login of a credential.
///
/// A credential always belongs to the same member, so that an operation can read what authenticates
/// its caller in one read. It authenticates nobody: the operation checks what that read found.
///
/// Without it, an operation takes two reads, or three with a custom role or a credential that depends
/// on another one (`docs/scaling.md`); on a store behind a network, each is a round trip.
#[derive(Debug)]
pub(crate) struct KnownLogin {
    pub(super) login: Login,
    /// Keys that the records of the login refer to.
    pub(super) referenced: Vec<Key>,
    /// True if the roles of the member in workspaces decide which workspaces exist for it.
    pub(super) has_private_places: bool,
}

/// A credential with the organisation and the member that it belongs to.
#[derive(Clone, Debug)]
pub(super) struct Login {
    pub(super) org: OrgId,
    pub(super) member: MemberId,
    pub(super) credential: Option<CredentialId>,
    scope: TokenScope,
    pub(super) expires_at: Option<Timestamp>,
    /// Credential that has to be valid too, and whose scope applies too.
    depends_on: Option<CredentialId>,
    /// Credential that created the one of this login: the session of an API token.
    created_with: Option<CredentialId>,
    /// Credentials that must not have been ended with what they created: the one that created
    /// this, and the one that created that.
    ended_by: [Option<CredentialId>; 2],
    /// True for an access token of a session.
    is_of_session: bool,
    idle_timeout: Option<IdleTimeout>,
    now: Timestamp,
}

/// Part of the record of an organisation that decides whether to prefetch roles in workspaces.
#[derive(Deserialize)]
struct PrivatePlaces {
    #[serde(default)]
    private: BTreeSet<WorkspaceId>,
}

/// Roles that an authorisation reads besides the one in the organisation.
#[derive(Clone, Copy)]
pub(super) enum RolesRead {
    /// None.
    OfMember,
    /// The role in one workspace.
    In(WorkspaceId),
    /// The roles in all workspaces.
    Everywhere,
}

impl Login {
    /// Returns what acts on behalf of a member, within the scope of a credential if it is bound to
    /// one.
    fn delegated(org: OrgId, delegator: Delegator, now: Timestamp) -> Self {
        Self {
            org,
            member: delegator.member,
            credential: delegator.credential,
            scope: TokenScope::default(),
            expires_at: None,
            depends_on: delegator.dependency(),
            created_with: delegator.created_through,
            ended_by: [delegator.credential, delegator.created_through],
            is_of_session: false,
            idle_timeout: None,
            now,
        }
    }

    pub(super) async fn check(
        transaction: &mut Transaction,
        credential: &Credential,
        wanted: CredentialKind,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let secret = match credential {
            Credential::Trusted { org, member } => {
                return Ok(Self::delegated(*org, Delegator::member(*member), now));
            }
            Credential::Secret(secret) => secret,
        };
        if secret.kind() != wanted {
            return Err(wrong_kind(wanted));
        }
        let key = keys::credential(secret.hash());
        let record: Option<CredentialRecord> = transaction.get(&key).await?;
        // What was prefetched is of the organisation that the secret names.
        let is_of_org = |record: &CredentialRecord| record.org_id == credential.org();
        let record = record.filter(|record| is_of_org(record) && record.is_valid_at(now));
        let record = record.ok_or(INVALID)?;
        let is_of_session = record.is_of_session();
        let created_with = record.created_with.filter(|_| !is_of_session);
        Ok(Self {
            is_of_session,
            idle_timeout: record.idle_timeout(),
            org: record.org_id,
            member: record.member_id,
            credential: Some(record.id),
            scope: record.scope,
            expires_at: Some(record.expires_at),
            depends_on: record.created_with.filter(|_| record.is_dependent),
            created_with,
            ended_by: [created_with, record.created_through],
            now,
        })
    }

    /// Returns true if the same records authenticate both.
    pub(super) fn has_same_reads_as(&self, other: &Self) -> bool {
        let credentials = |login: &Self| (login.depends_on, login.ended_by);
        let names = |login: &Self| (login.org, login.member, credentials(login), login.use_key());
        names(self) == names(other)
    }

    pub(super) fn org_key(&self) -> Key {
        keys::org(self.org)
    }

    pub(super) fn member_key(&self) -> Key {
        keys::member(self.org, self.member)
    }

    fn end_keys(&self) -> impl Iterator<Item = Key> {
        let ended_by = self.ended_by.iter().flatten();
        ended_by.map(|id| keys::ended_credential(self.org, *id))
    }

    fn use_key(&self) -> Option<Key> {
        let session = self.idle_timeout?.session;
        Some(keys::credential_use(self.org, session))
    }

    /// Returns the keys of the first reads: of the organisation, the member, the credential that
    /// this one depends on, the ends of those that created it, and the last use, on which the idle
    /// time-out depends.
    fn keys(&self) -> impl Iterator<Item = Key> {
        let depends_on = self.depends_on.iter();
        let depends_on = depends_on.map(|id| keys::credential_id(self.org, *id));
        [self.org_key(), self.member_key()]
            .into_iter()
            .chain(depends_on)
            .chain(self.end_keys())
            .chain(self.use_key())
    }

    /// Returns the first reads of an authorisation.
    pub(super) fn reads(&self, roles: RolesRead) -> Prefetch {
        let prefetch = Prefetch::keys(self.keys());
        match roles {
            RolesRead::OfMember => prefetch,
            RolesRead::In(workspace) => prefetch.and_keys([
                keys::workspace(self.org, workspace),
                keys::workspace_role(self.org, self.member, workspace),
            ]),
            RolesRead::Everywhere => prefetch.and_range(self.workspace_roles()),
        }
    }

    /// Checks that an idle time-out has not ended.
    ///
    /// The commit does not check the use, which a later one only replaces by a later time.
    async fn check_use(
        &self,
        transaction: &mut Transaction,
        timeout: Option<IdleTimeout>,
    ) -> Result<(), Error> {
        let Some(timeout) = timeout else {
            return Ok(());
        };
        let key = keys::credential_use(self.org, timeout.session);
        let last_use = transaction.unchecked().get(&key).await?;
        if timeout.has_ended(last_use, self.now) {
            Err(INVALID)
        } else {
            Ok(())
        }
    }

    pub(super) fn workspace_roles(&self) -> RangeRead {
        workspace_roles_read(self.org, self.member)
    }

    /// Reads the member, and returns the keys that prefetched records refer to: of the custom roles
    /// that the member holds, and of the credential that this one depends on.
    pub(super) async fn holder(
        &self,
        transaction: &mut Transaction,
        workspace: Option<WorkspaceId>,
    ) -> Result<(Option<Member>, Vec<Key>), Error> {
        let member: Option<Member> = transaction.get(&self.member_key()).await?;
        let mut roles: Vec<RoleRef> = member.iter().map(|member| member.role).collect();
        if let Some(workspace) = workspace {
            let key = keys::workspace_role(self.org, self.member, workspace);
            roles.extend(transaction.prefetched().get::<RoleRef>(&key)?);
        }
        let held = transaction.prefetched().scan(&self.workspace_roles());
        for found in held.unwrap_or_default() {
            roles.push(decode_value(found)?);
        }
        let custom = roles.into_iter().filter_map(|role| match role {
            RoleRef::BuiltIn(_) => None,
            RoleRef::Custom(role) => Some(keys::role(self.org, role)),
        });
        let mut next: Vec<Key> = custom.collect();
        if let Some(id) = self.depends_on {
            let hash = transaction
                .prefetched()
                .get::<String>(&keys::credential_id(self.org, id))?;
            next.extend(hash.and_then(|hash| key_of_hash(&hash)));
        }
        Ok((member, next))
    }

    /// Returns true if the prefetched record of the organisation names private workspaces, so that
    /// the roles of the member in workspaces decide which of them exist for it.
    pub(super) fn has_private_places(&self, transaction: &Transaction) -> bool {
        let org = transaction
            .prefetched()
            .get::<PrivatePlaces>(&self.org_key());
        org.is_ok_and(|org| org.is_some_and(|org| !org.private.is_empty()))
    }

    /// Prefetches what follows from the first reads in a workspace, if it was not read with them.
    ///
    /// Returns the member, and the keys that the records of the login refer to.
    pub(super) async fn prefetch_next(
        &self,
        transaction: &mut Transaction,
        workspace: WorkspaceId,
        next: Next<'_>,
    ) -> Result<(Option<Member>, Vec<Key>), Error> {
        let (member, referenced) = self.holder(transaction, Some(workspace)).await?;
        let has_private_places = self.has_private_places(transaction);
        let prefetch = next(transaction)
            .and_keys(referenced.iter().cloned())
            .and_ranges(has_private_places.then(|| self.workspace_roles()));
        transaction.prefetch(prefetch.keys, prefetch.ranges).await?;
        Ok((member, referenced))
    }

    /// Checks that no credential that created this one was ended with everything that it created.
    async fn check_ends(&self, transaction: &mut Transaction) -> Result<(), Error> {
        let ends: Vec<Key> = self.end_keys().collect();
        for key in ends {
            let ended = transaction.get::<EndedCredential>(&key).await?;
            if ended.is_some_and(|ended| ended.is_with_created) {
                return Err(INVALID);
            }
        }
        Ok(())
    }

    /// Reads the credential that this one depends on, which ends by its idle time-out too.
    async fn dependency(
        &self,
        transaction: &mut Transaction,
        id: CredentialId,
    ) -> Result<CredentialRecord, Error> {
        let id_key = keys::credential_id(self.org, id);
        let hash = transaction.get::<String>(&id_key).await?;
        let key = hash.and_then(|hash| key_of_hash(&hash)).ok_or(INVALID)?;
        let record = transaction.get::<CredentialRecord>(&key).await?;
        let is_theirs = |record: &CredentialRecord| record.member_id == self.member;
        let record = record.filter(|record| is_theirs(record) && record.is_valid_at(self.now));
        let record = record.ok_or(INVALID)?;
        // Not prefetched: few depend on a session that has one, except access tokens, which have
        // read its use already.
        self.check_use(transaction, record.idle_timeout()).await?;
        Ok(record)
    }

    /// Reads the organisation, the role of the member, and the credential that this one depends on.
    pub(super) async fn principal(
        mut self,
        transaction: &mut Transaction,
        member: Option<Member>,
    ) -> Result<Principal, Error> {
        let gone = Error::Unauthenticated {
            reason: "the member of the credential has been removed",
        };
        let Some(member) = member else {
            return Err(gone);
        };
        let key = self.member_key();
        let role = |member: &Member| member.role;
        let held = held_role(transaction, self.org, &key, member, role).await?;
        let Some((member, role)) = held else {
            return Err(gone);
        };
        self.check_use(transaction, self.idle_timeout).await?;
        self.check_ends(transaction).await?;
        if let Some(id) = self.depends_on {
            let dependency = self.dependency(transaction, id).await?;
            if self.is_of_session {
                // An access token is its session in another form: what it does and creates is the
                // session's, and outlives the token.
                self.credential = Some(id);
                self.expires_at = Some(dependency.expires_at);
            }
            self.scope = self.scope.intersect(dependency.scope);
        }
        let key = self.org_key();
        let org = transaction.get::<Organization>(&key).await?;
        let org = org.ok_or(gone)?;
        let closed = closed_places(transaction, &member, &org).await?;
        Ok(Principal {
            org,
            member,
            closed,
            credential: self.credential,
            created_with: self.created_with,
            expires_at: self.expires_at,
            is_dependent: self.depends_on.is_some(),
            scope: self.scope,
            role_actions: role.actions(),
            via: None,
        })
    }
}

impl Principal {
    /// Authenticates a caller outside an operation.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for a credential that is unknown, expired, revoked or not of the
    /// kind `wanted`.
    pub(crate) async fn authenticate(
        transaction: &mut Transaction,
        credential: &Credential,
        wanted: CredentialKind,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let login = Login::check(transaction, credential, wanted, now).await?;
        let keys = login.keys().collect();
        transaction.prefetch(keys, Vec::new()).await?;
        let member = transaction.get(&login.member_key()).await?;
        login.principal(transaction, member).await
    }

    /// Prefetches what acting on behalf of another in a workspace reads, with the reads of an
    /// operation.
    ///
    /// Returns the member.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn prefetch_for(
        transaction: &mut Transaction,
        (org, delegator, now): (OrgId, Delegator, Timestamp),
        workspace: WorkspaceId,
        prefetch: Prefetch,
        next: Next<'_>,
    ) -> Result<Option<Member>, Error> {
        let login = Login::delegated(org, delegator, now);
        let prefetch = prefetch.and(login.reads(RolesRead::In(workspace)));
        transaction.prefetch(prefetch.keys, prefetch.ranges).await?;
        let (member, _) = login.prefetch_next(transaction, workspace, next).await?;
        Ok(member)
    }

    /// Prefetches at once what the records of several delegators refer to that act in a workspace:
    /// their custom roles and the credentials that they depend on, and with private workspaces
    /// their roles in workspaces.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn prefetch_referenced(
        transaction: &mut Transaction,
        (org, workspace): (OrgId, WorkspaceId),
        delegators: &[Delegator],
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut prefetch = Prefetch::none();
        for delegator in delegators {
            let login = Login::delegated(org, *delegator, now);
            let (_, referenced) = login.holder(transaction, Some(workspace)).await?;
            let has_private_places = login.has_private_places(transaction);
            let places = has_private_places.then(|| login.workspace_roles());
            prefetch = prefetch.and_keys(referenced).and_ranges(places);
        }
        transaction.prefetch(prefetch.keys, prefetch.ranges).await?;
        Ok(())
    }

    /// Returns the principal on whose behalf an endpoint or an inbound webhook acts, as it is now.
    ///
    /// `member` is the record that [`Principal::prefetch_for`] returned, if it did.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for a removed member, for a scoped credential that has expired or
    /// was revoked, or for a credential that was ended with what it created.
    pub(crate) async fn acting_for(
        transaction: &mut Transaction,
        org: OrgId,
        (delegator, member): (Delegator, Option<Member>),
        now: Timestamp,
    ) -> Result<Self, Error> {
        let login = Login::delegated(org, delegator, now);
        let member = match member.filter(|member| member.id == delegator.member) {
            Some(member) => Some(member),
            None => transaction.get(&login.member_key()).await?,
        };
        login.principal(transaction, member).await
    }
}

/// Returns the private workspaces that do not exist for a member: it holds no role in them, or
/// they are being removed, and it is not an owner.
///
/// The record of the member, which the commit checks, guards the range of these roles.
pub(crate) async fn closed_places(
    transaction: &mut Transaction,
    member: &Member,
    org: &Organization,
) -> Result<Vec<WorkspaceId>, Error> {
    if org.private.is_empty() || member.role == OWNER {
        return Ok(Vec::new());
    }
    let roles = RangeRead::all(workspace_roles_read(org.id, member.id).range);
    let roles = transaction.scan(&roles).await?;
    let places = roles.iter().filter_map(|found| keys::last_id(&found.key));
    let places = places.map(WorkspaceId);
    let places = places.filter(|place| !org.removing.contains(place));
    let places: BTreeSet<WorkspaceId> = places.collect();
    Ok(org.private.difference(&places).copied().collect())
}

/// Returns the key of a credential, if it is stored.
pub(super) fn credential_key(credential: &Credential) -> Option<Key> {
    match credential {
        Credential::Secret(secret) => Some(keys::credential(secret.hash())),
        Credential::Trusted { .. } => None,
    }
}

/// Returns the key of the credential with this hash.
fn key_of_hash(hash: &str) -> Option<Key> {
    hash.parse().ok().map(keys::credential)
}

fn wrong_kind(wanted: CredentialKind) -> Error {
    Error::Unauthenticated {
        reason: match wanted {
            CredentialKind::Bearer => {
                "this operation requires an access token; send Authorization: Bearer wkt_..."
            }
            CredentialKind::Session => {
                "this operation requires a session; send Cookie: service_session=wks_..."
            }
            CredentialKind::Link => "this operation requires a login link",
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt as _;
    use uuid::Uuid;

    use super::*;
    use crate::access::Secret;
    use crate::store::{Commit, MemoryStore, Store as _, encode};

    /// A stored credential, and what the check of its secret finds.
    fn check(secret: &Secret, stored_for: OrgId) -> Result<Login, Error> {
        let now = Timestamp::UNIX_EPOCH;
        let record = CredentialRecord {
            id: CredentialId(Uuid::from_u128(1)),
            kind: secret.kind(),
            name: String::new(),
            org_id: stored_for,
            member_id: MemberId(Uuid::from_u128(2)),
            scope: TokenScope::default(),
            created_with: None,
            created_through: None,
            created_by: None,
            is_dependent: false,
            idle_timeout_seconds: None,
            created_at: now,
            expires_at: Timestamp::MAX,
            revoked_at: None,
            is_revoked_with_created: false,
        };
        let store = Arc::new(MemoryStore::new());
        let put = Commit::builder().put(keys::credential(secret.hash()), encode(&record));
        let committed = store.commit(put.build().unwrap()).now_or_never();
        committed.expect("the store answers at once").unwrap();
        let credential = Credential::from(secret.clone());
        let mut transaction = Transaction::begin(store);
        let checked = Login::check(&mut transaction, &credential, secret.kind(), now);
        checked.now_or_never().expect("the store answers at once")
    }

    #[test]
    fn credential_of_another_organization_is_unknown() {
        let [own, other] = [3, 4].map(|number| OrgId(Uuid::from_u128(number)));
        let secret = Secret::of_bytes(CredentialKind::Bearer, own, [7; 32]);
        assert_eq!(check(&secret, own).unwrap().org, own);
        let rejected = check(&secret, other).unwrap_err();
        assert_eq!(rejected.to_string(), INVALID.to_string());
        let text = secret.expose().replace(&own.0.simple().to_string(), "");
        let unnamed: Secret = text.parse().unwrap();
        assert!(check(&unnamed, own).is_err());
    }
}
