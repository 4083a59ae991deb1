//! Signing in: sessions from one-time links, access tokens from sessions, and what members see and
//! end of their own credentials.
//!
//! - A login link is consumed by the commit that creates its session, so it takes effect once.
//! - An access token depends on its session as an MCP key does on the scoped token that created it:
//!   what ends the session ends its tokens. Nothing has to find them.
//! - A session is exchanged for the same access token throughout a [period](TOKEN_PERIOD_MS), so
//!   that a page that asks often stores and audits little.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::access::{Credential, CredentialKind, CredentialRecord, Secret, SecretHash, TokenScope};
use crate::error::{EntityKind, Error};
use crate::keys;
use crate::model::{CreatedResource, CredentialId, MemberId, OrgId, Timestamp};
use crate::request::rules::{Field, Name};
use crate::request::{Path, Problems};
use crate::service::access::principal::{Delegator, EndedCredential, Principal};
use crate::service::audit::write::Actor;
use crate::service::members::inviter::is_in_force;
use crate::service::page::{Listing, Page, PageRecord, PageRequest};
use crate::service::provision::{place, revoke};
use crate::service::tokens::require_managed;
use crate::service::{ClientInfo, Issued, KnowledgeService, NewToken, Provisioning, Sessions};
use crate::store::{Direction, Key, KeyEntry, StoreExt, Transaction, decode_value};

/// Period in which a session is exchanged for the same access token, in milliseconds.
const TOKEN_PERIOD_MS: i64 = 5 * 60 * 1_000;
/// Maximum lifetime of an access token: until the end of the period after its own.
pub const ACCESS_TOKEN_LIFETIME_MAX: Duration = Duration::from_secs(10 * 60);

const INVALID_LINK: Error = Error::Unauthenticated {
    reason: "the login link is unknown, used, expired or revoked; ask for a new one",
};

/// A session with the member that it authenticates.
#[derive(Clone, Debug)]
pub struct SignedIn {
    /// The member, with its organisation and its actions there.
    pub principal: Principal,
    /// Stored record of the session.
    pub session: CredentialRecord,
}

/// A token or session of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnCredential {
    /// Stored record.
    pub record: CredentialRecord,
    /// Time of the last use, to within an hour.
    pub last_used_at: Option<Timestamp>,
    /// True for the session of the call.
    pub is_current: bool,
}

impl Provisioning<'_> {
    /// Creates a session for a member whom the application has authenticated by its own means, such
    /// as OpenID Connect.
    ///
    /// The session has the [time-outs](crate::service::Options::session_timeouts) of a sign-in, and
    /// the audit log names the member as the actor. `name` states how the member signed in.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid name; [`Error::Unauthenticated`] for a member that
    /// does not exist.
    pub async fn create_session(
        &self,
        org: OrgId,
        member: MemberId,
        name: &str,
    ) -> Result<Issued, Error> {
        let mut problems = Problems::default();
        let checks = &self.service.checks();
        Name::check(&name.to_owned(), "name", Path::ROOT, checks, &mut problems);
        problems.into_result()?;
        let service = self.service;
        service
            .transact(|mut transaction| async move {
                let new = NewSession {
                    of: (org, member),
                    link: None,
                    name,
                    client: self.client,
                };
                let issued = service.begin_session(&mut transaction, new).await?;
                Ok(transaction.done(issued))
            })
            .await
    }
}

/// A session that begins.
struct NewSession<'n> {
    /// Organisation and identifier of the member.
    of: (OrgId, MemberId),
    /// Login link that is exchanged for it.
    link: Option<CredentialId>,
    name: &'n str,
    client: ClientInfo,
}

impl Sessions<'_> {
    /// Exchanges the secret of a login link for a session.
    ///
    /// The audit log records the facts about the `client`, here as for the other functions of this
    /// group.
    ///
    /// The commit that creates the session consumes the link: of any number of concurrent calls with
    /// one link, exactly one succeeds. The audit log names the link as the credential of the
    /// creation.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`], always the same, for a link that is unknown, used, expired or
    /// revoked, or whose member has been removed; also for one that a member created who could not
    /// create it now, or whose person has got a session or a token in the meantime.
    pub async fn sign_in(self, link: &str, client: ClientInfo) -> Result<Issued, Error> {
        let link = link.parse::<Secret>().ok();
        let link = link.filter(|link| link.kind() == CredentialKind::Link);
        let link = &link.ok_or(INVALID_LINK)?;
        self.service
            .transact(|mut transaction| async move {
                let now = self.service.env().now();
                let key = keys::credential(link.hash());
                let found = transaction.get::<CredentialRecord>(&key).await?;
                let found = found.filter(|found| found.is_valid_at(now));
                let found = found.ok_or(INVALID_LINK)?;
                if !is_in_force(&mut transaction, (&found, link.hash()), now).await? {
                    return Err(INVALID_LINK);
                }
                let consumed = CredentialRecord {
                    revoked_at: Some(now),
                    ..found.clone()
                };
                transaction.put(key, &consumed);
                let new = NewSession {
                    of: (found.org_id, found.member_id),
                    link: Some(found.id),
                    name: "signed in with a link",
                    client,
                };
                let issued = self
                    .service
                    .begin_session(&mut transaction, new)
                    .await
                    .map_err(|error| match error {
                        Error::Unauthenticated { .. } => INVALID_LINK,
                        error => error,
                    })?;
                Ok(transaction.done(issued))
            })
            .await
    }

    /// Returns who a session authenticates, and the session.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`].
    pub async fn get(self, session: &Secret) -> Result<SignedIn, Error> {
        self.service
            .transact(|mut transaction| async move {
                let found = self.service.signed_in(&mut transaction, session).await?;
                Ok(transaction.done(found))
            })
            .await
    }

    /// Exchanges a session for an access token, for operations that require one.
    ///
    /// The token may do what the member may. It is valid for at most
    /// [`ACCESS_TOKEN_LIFETIME_MAX`], never longer than the session, and ends with it. What is done
    /// with it is done by the session: the audit log names the session, and what it creates counts
    /// as created with the session. A use of it is a use of the session.
    ///
    /// A session gets the same token again for some minutes, each time valid for at least five more
    /// unless the session ends.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::Forbidden`] if the token has been revoked by itself, until
    /// the session gets another one.
    pub async fn access_token(self, session: &Secret, client: ClientInfo) -> Result<Issued, Error> {
        self.service.transact(|mut transaction| async move {
            let now = self.service.env().now();
            let SignedIn {
                principal,
                session: record,
            } = self.service.signed_in(&mut transaction, session).await?;
            let period = now.as_millis().div_euclid(TOKEN_PERIOD_MS);
            let secret = token_of(session, record.org_id, period);
            let key = keys::credential(secret.hash());
            if let Some(found) = transaction.get::<CredentialRecord>(&key).await? {
                if !found.is_valid_at(now) {
                    return Err(Error::forbidden(
                        "the access token of this session was revoked; try again in five minutes",
                    ));
                }
                return Ok(transaction.done(Issued {
                    secret,
                    record: found,
                }));
            }
            let begin = Timestamp::from_millis(period.saturating_mul(TOKEN_PERIOD_MS));
            let token = CredentialRecord {
                id: CredentialId(self.service.env().uuid_at(now)),
                kind: CredentialKind::Bearer,
                name: "access token of a session".to_owned(),
                created_with: Some(record.id),
                is_dependent: true,
                created_at: now,
                expires_at: begin.plus(ACCESS_TOKEN_LIFETIME_MAX).min(record.expires_at),
                ..record.clone()
            };
            // The exchange is a use of the session, whose idle time-out the token has too.
            let used = keys::credential_use(token.org_id, record.id);
            transaction.put(used, &now);
            let actor = Actor::new(&principal, client);
            self.service.create_credential(&mut transaction, actor, &token, &secret);
            Ok(transaction.done(Issued {
                secret,
                record: token,
            }))
        })
        .await
    }

    /// Ends a session, and with it its access tokens.
    ///
    /// The MCP keys, webhooks and subscriptions that it created remain, unless they are to be ended
    /// `with_created`, see [`Self::created_with`].
    ///
    /// # Errors
    /// [`Error::Unauthenticated`].
    pub async fn sign_out(
        self,
        session: &Secret,
        with_created: bool,
        client: ClientInfo,
    ) -> Result<(), Error> {
        self.service
            .transact(|mut transaction| async move {
                let found = self.service.signed_in(&mut transaction, session).await?;
                let actor = Actor::new(&found.principal, client);
                let ended = (keys::credential(session.hash()), found.session);
                let env = self.service.env();
                revoke(env, &mut transaction, actor, ended, with_created).await?;
                Ok(transaction.done(()))
            })
            .await
    }

    /// Lists the valid tokens and sessions of the caller, in order of creation.
    ///
    /// The access tokens of sessions, which end with them, and login links are left out. An MCP key
    /// that was created or last rotated with a scoped token is valid only as long as the token.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page; [`Error::Unauthenticated`].
    pub async fn own_credentials(
        self,
        session: &Secret,
        page: &PageRequest,
    ) -> Result<Page<OwnCredential>, Error> {
        let SignedIn { principal, session } = self.get(session).await?;
        let (org, member) = (principal.org_id(), principal.member_id());
        let (now, store) = (self.service.env().now(), self.service.store());
        let show = |found: Arc<[KeyEntry]>| async move {
            let hashes = found.iter().map(decode_value::<String>);
            let hashes = hashes.collect::<Result<Vec<_>, _>>()?;
            let places = hashes.iter();
            let places = places.map(|hash| place(hash).unwrap_or_else(nowhere));
            let places: Vec<_> = places.collect();
            let records = store.get_many_as::<CredentialRecord>(&places).await?;
            let records = records.into_iter().map(|found| {
                let record = found.map(|found| found.value);
                record.filter(|record| record.member_id == member && is_listed(record, now))
            });
            let records: Vec<_> = records.collect();
            let creators: Vec<_> = records.iter().flatten().filter_map(dependency).collect();
            let creators = self.service.valid_credentials(org, creators, now).await?;
            let ended = self.service.ended_with_creator(org, &records).await?;
            let uses = records.iter().flatten();
            let uses = uses.map(|record| keys::credential_use(org, record.id));
            let uses: Vec<_> = uses.collect();
            let mut uses = store.get_many_as::<Timestamp>(&uses).await?.into_iter();
            let shown = records.into_iter().map(|record| {
                let own = record.map(|record| OwnCredential {
                    last_used_at: uses.next().flatten().map(|found| found.value),
                    is_current: record.id == session.id,
                    record,
                });
                PageRecord::visible(own.filter(|own| {
                    let is_idle = own.record.is_idle(own.last_used_at, now);
                    let creator = dependency(&own.record);
                    let is_backed = creator.is_none_or(|creator| creators.contains(&creator));
                    !is_idle && is_backed && !ended.contains(&own.record.id)
                }))
            });
            Ok(shown.collect())
        };
        let range = keys::credential_ids(org);
        Listing::new("own_credentials", &member, range, Direction::Forward)
            .page_of(&mut self.service.reading(), page, self.service.env(), show)
            .await
    }

    /// Lists the MCP keys, webhooks and subscriptions that a credential of the caller, or a token
    /// of a service account that it manages, created or last took over.
    ///
    /// What was created with the access token of a session counts as created with the session, and
    /// so does what an API token created that the session created. What is in a private workspace
    /// that does not exist for the caller is left out.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page; [`Error::Unauthenticated`];
    /// [`Error::NotFound`] for a credential that is not a valid one that the caller may end.
    pub async fn created_with(
        self,
        session: &Secret,
        id: CredentialId,
        page: &PageRequest,
    ) -> Result<Page<CreatedResource>, Error> {
        let caller = self
            .service
            .transact(|mut transaction| async move {
                let found = self.service.signed_in(&mut transaction, session).await?;
                let principal = &found.principal;
                self.service
                    .require_endable(&mut transaction, principal, id)
                    .await?;
                Ok(transaction.done(found.principal))
            })
            .await?;
        let (org, hidden) = (caller.org_id(), &caller.closed);
        self.service.created_with(org, id, hidden, page).await
    }

    /// Ends a token or a session of the caller, such as the one of a lost device.
    ///
    /// The MCP keys, webhooks and subscriptions that it created remain unless it was scoped, or
    /// they are to be ended `with_created`, see [`Self::created_with`].
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for a credential that is not a valid one of
    /// the caller, or is the access token of a session, which ends with the session.
    pub async fn end_own_credential(
        self,
        session: &Secret,
        id: CredentialId,
        with_created: bool,
        client: ClientInfo,
    ) -> Result<(), Error> {
        self.service
            .transact(|mut transaction| async move {
                let found = self.service.signed_in(&mut transaction, session).await?;
                let principal = &found.principal;
                let ended = self
                    .service
                    .own_credential(&mut transaction, principal, id)
                    .await?;
                let (actor, env) = (Actor::new(principal, client), self.service.env());
                revoke(env, &mut transaction, actor, ended, with_created).await?;
                Ok(transaction.done(()))
            })
            .await
    }
}

/// # Address of the service
impl KnowledgeService {
    /// Sets the base URL at which a front end serves this service, without a trailing slash.
    ///
    /// Login links begin with it if there is no [public URL](crate::service::Options::public_url).
    /// Only the first call has an effect.
    pub fn set_base_url(&self, url: String) {
        let _ = self.inner.base_url.set(url);
    }

    /// Returns the [public base URL](crate::service::Options::public_url), if there is one.
    #[must_use]
    pub fn public_url(&self) -> Option<&str> {
        Some(self.inner.public_url.as_str()).filter(|url| !url.is_empty())
    }

    /// Returns the base URL of login links and of the pages of a front end, if it is known.
    #[must_use]
    pub fn base_url(&self) -> Option<&str> {
        let bound = || self.inner.base_url.get().map(String::as_str);
        self.public_url().or_else(bound)
    }

    /// Creates a session of a member, who is its actor.
    async fn begin_session(
        &self,
        transaction: &mut Transaction,
        new: NewSession<'_>,
    ) -> Result<Issued, Error> {
        let (org, member) = new.of;
        let delegator = (Delegator::member(member), None);
        let now = self.env().now();
        let member = Principal::acting_for(transaction, org, delegator, now).await?;
        let actor = Actor {
            credential: new.link,
            ..Actor::new(&member, new.client)
        };
        let timeouts = self.inner.session_timeouts;
        let token = NewToken {
            member: member.member_id(),
            kind: CredentialKind::Session,
            name: new.name.to_owned(),
            scope: TokenScope::default(),
            lifetime: timeouts.absolute,
            is_long_lived: false,
        };
        Ok(self.new_credential(transaction, actor, &token, Some(timeouts.idle)))
    }

    async fn signed_in(
        &self,
        transaction: &mut Transaction,
        session: &Secret,
    ) -> Result<SignedIn, Error> {
        let (kind, now) = (CredentialKind::Session, self.env().now());
        let credential = Credential::Secret(session.clone());
        let principal = Principal::authenticate(transaction, &credential, kind, now).await?;
        let key = keys::credential(session.hash());
        let session = transaction.get(&key).await?;
        let session = session.ok_or(Error::Conflict)?;
        Ok(SignedIn { principal, session })
    }

    /// Finds a valid credential of a member, with its storage key.
    async fn own_credential(
        &self,
        transaction: &mut Transaction,
        principal: &Principal,
        id: CredentialId,
    ) -> Result<(Key, CredentialRecord), Error> {
        let missing = || Error::not_found(EntityKind::Credential);
        let now = self.env().now();
        let id_key = keys::credential_id(principal.org_id(), id);
        let hash = transaction.get::<String>(&id_key).await?;
        let key = hash.and_then(|hash| place(&hash)).ok_or_else(missing)?;
        let record = transaction.get::<CredentialRecord>(&key).await?;
        let is_own = |record: &CredentialRecord| record.member_id == principal.member_id();
        let own = record.filter(|record| is_own(record) && is_listed(record, now));
        let own = own.ok_or_else(missing)?;
        let (org, needed) = (own.org_id, dependency(&own).unwrap_or(own.id));
        let valid = self.valid_credentials(org, vec![needed], now).await?;
        if valid.contains(&needed) {
            Ok((key, own))
        } else {
            Err(missing())
        }
    }

    /// Checks that a member may end a credential: a valid one of its own, or a valid token of a
    /// service account that it manages.
    ///
    /// # Errors
    /// [`Error::NotFound`] otherwise, so that others learn nothing; those of the store.
    async fn require_endable(
        &self,
        transaction: &mut Transaction,
        principal: &Principal,
        id: CredentialId,
    ) -> Result<(), Error> {
        match self.own_credential(transaction, principal, id).await {
            Ok(_) => return Ok(()),
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let managed = require_managed(transaction, principal, id, self.env().now());
        managed.await.map_err(|error| match error {
            Error::Forbidden { .. } | Error::NotFound { .. } => {
                Error::not_found(EntityKind::Credential)
            }
            error => error,
        })
    }

    /// Returns those of these credentials that were ended with one that created them.
    async fn ended_with_creator(
        &self,
        org: OrgId,
        records: &[Option<CredentialRecord>],
    ) -> Result<HashSet<CredentialId>, Error> {
        let created = records.iter().flatten();
        let created = created.flat_map(|record| {
            let creators = [record.created_with, record.created_through];
            let creators = creators.into_iter().flatten();
            creators.map(move |creator| (record.id, creator))
        });
        let created: Vec<(CredentialId, CredentialId)> = created.collect();
        let ends = created.iter();
        let ends = ends.map(|(_, creator)| keys::ended_credential(org, *creator));
        let ends: Vec<Key> = ends.collect();
        let ends = self.store().get_many_as::<EndedCredential>(&ends).await?;
        let ended = created.into_iter().zip(ends).filter_map(|((id, _), end)| {
            let is_ended = end.is_some_and(|end| end.value.is_with_created);
            is_ended.then_some(id)
        });
        Ok(ended.collect())
    }

    /// Returns those of these credentials that have not ended: by expiry, revocation, an idle
    /// time-out, or with the one that created them.
    async fn valid_credentials(
        &self,
        org: OrgId,
        ids: Vec<CredentialId>,
        now: Timestamp,
    ) -> Result<HashSet<CredentialId>, Error> {
        if ids.is_empty() {
            return Ok(HashSet::new());
        }
        let store = self.store();
        let id_keys: Vec<_> = ids.iter().map(|id| keys::credential_id(org, *id)).collect();
        let hashes = store.get_many_as::<String>(&id_keys).await?;
        let places = hashes.into_iter().map(|hash| {
            let place = hash.and_then(|hash| place(&hash.value));
            place.unwrap_or_else(nowhere)
        });
        let places: Vec<_> = places.collect();
        let records = store.get_many_as::<CredentialRecord>(&places).await?;
        let records = records.into_iter().map(|found| Some(found?.value));
        let records: Vec<Option<CredentialRecord>> = records.collect();
        let ended = self.ended_with_creator(org, &records).await?;
        let uses: Vec<_> = ids
            .iter()
            .map(|id| keys::credential_use(org, *id))
            .collect();
        let uses = store.get_many_as::<Timestamp>(&uses).await?;
        let valid = records.into_iter().zip(uses).filter_map(|(record, used)| {
            let (record, used) = (record?, used.map(|used| used.value));
            let is_valid = record.is_valid_at(now) && !record.is_idle(used, now);
            (is_valid && !ended.contains(&record.id)).then_some(record.id)
        });
        Ok(valid.collect())
    }
}

/// Returns a key without a record, for a hash that is none.
fn nowhere() -> Key {
    keys::credential(SecretHash([0; 32]))
}

/// Returns the credential without which this one is invalid.
fn dependency(record: &CredentialRecord) -> Option<CredentialId> {
    record.created_with.filter(|_| record.is_dependent)
}

/// Returns true for a token or session that its member sees.
fn is_listed(record: &CredentialRecord, now: Timestamp) -> bool {
    let is_link = record.kind == CredentialKind::Link;
    record.is_valid_at(now) && !is_link && !record.is_of_session()
}

/// Returns the access token of a session in a period, which only the holder of the session can know.
fn token_of(session: &Secret, org: OrgId, period: i64) -> Secret {
    let key = session.expose().as_bytes();
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(b"access token");
    mac.update(&period.to_be_bytes());
    Secret::of_bytes(
        CredentialKind::Bearer,
        org,
        mac.finalize().into_bytes().into(),
    )
}
