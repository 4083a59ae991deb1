//! API tokens that members create for themselves and for service accounts.
//!
//! A token acts as its member. Its record lists it among the tokens of the member, beside the
//! credential that authenticates it; those of the operator have one too. Whoever manages the tokens
//! of a service account covers what that may do, as whoever changes its roles does: otherwise its
//! token would be a way to do more.

pub(crate) mod deletion;
pub(crate) mod types;

use std::time::Duration;

use crate::access::{Action, CredentialKind, CredentialRecord, TokenScope};
use crate::error::{EntityKind, Error, ProblemCode};
use crate::keys;
use crate::limits::TOKEN_LIFETIME_DEFAULT;
use crate::model::{
    AudienceLabel, AudienceScope, AuditAction, CredentialId, Member, MemberId, MemberKind, OrgId,
    ResourceKind, Timestamp, Workspace, WorkspaceId,
};
use crate::operation::Operation;
use crate::request::{Path, Problems, Request as _};
use crate::service::access::coverage::HeldRoles;
use crate::service::access::created::CreatedRecord;
use crate::service::access::principal::{Principal, Resource, workspace_roles_read};
use crate::service::members::change::require_covered;
use crate::service::members::with_roles;
use crate::service::operation::{Authenticated, Authorized, Prefetch};
use crate::service::page::{Listing, Page, PageRecord, PageRequest};
use crate::service::provision::{mark_revoked, place};
use crate::service::quota::RecordLimit;
use crate::service::tasks::ScheduledTask;
use crate::service::tokens::deletion::forget_tokens;
use crate::service::tokens::types::{ApiToken, IssuedApiToken, NewApiToken};
use crate::service::{Caller, KnowledgeService, NewToken, Tokens};
use crate::store::{Direction, Key, RangeRead, Transaction, decode_value};

const NO_SUCH_TOKEN: Error = Error::not_found(EntityKind::Token);

impl Tokens<'_> {
    /// Creates an API token of a member: of the caller itself, or of a service account.
    ///
    /// Only this response contains the token itself; that of a repetition with the idempotency key
    /// does not. It depends on the member alone, unless it is ended with the session that created
    /// it.
    ///
    /// # Errors
    /// Those of [`Operation::CreateToken`]; [`Error::InvalidRequest`] for a longer lifetime than
    /// the service allows, an unknown workspace, or a member that has the maximum number of tokens;
    /// [`Error::Forbidden`] for another person, or a service account that the caller does not
    /// cover.
    pub async fn create(
        self,
        caller: &Caller,
        org_slug: &str,
        member: MemberId,
        new: &NewApiToken,
    ) -> Result<IssuedApiToken, Error> {
        let lifetime = self.check(new)?;
        self.service
            .once(
                Operation::CreateToken,
                caller,
                &(org_slug, member, new),
                |caller| async move {
                    let org = caller.org();
                    let counter = keys::token_count(org, member);
                    let stored = RangeRead::all(keys::tokens(org, member));
                    let scope = new.scope.clone().unwrap_or_default();
                    let named = scope.workspaces.clone().unwrap_or_default();
                    let places = named.iter().map(|id| keys::workspace(org, *id));
                    let prefetch = Prefetch::keys(places).and_keys([counter.clone()]);
                    let prefetch = with_member(prefetch.and_range(stored), org, member);
                    let caller = caller.authenticate(prefetch).await?;
                    let mut op = authorize(caller, org_slug, member).await?;
                    let now = op.now;
                    require_workspaces(&mut op, &named).await?;
                    free_expired_tokens(&mut op.transaction, org, member, now).await?;
                    op.reserve_record(RecordLimit::TOKENS, counter).await?;
                    let new = NewToken {
                        member,
                        kind: CredentialKind::Bearer,
                        name: new.name.clone(),
                        scope: scope.into(),
                        lifetime,
                        is_long_lived: false,
                    };
                    let mut issued = self.service.generate_credential(org, &new, None);
                    issued.record.created_with = op.principal.credential;
                    let (record, secret) = (&issued.record, &issued.secret);
                    let token = ApiToken::of(record, Some(op.principal.member_id()));
                    self.service
                        .put_credential(&mut op.transaction, record, secret);
                    self.service.put_token(&mut op.transaction, org, &token);
                    let place = CreatedRecord::Token(member);
                    let delegator = token.delegator();
                    delegator.add_to_index(&mut op.transaction, org, token.id.0, place);
                    let resource = (ResourceKind::Credential, token.id.0);
                    op.created(AuditAction::CredentialCreate, resource, record);
                    let (token, secret) = (token.shown(None), Some(issued.secret));
                    op.done(IssuedApiToken { token, secret })
                },
                |caller, replay| async move {
                    let token = CredentialId(replay.created);
                    let token = self.get(&caller, org_slug, member, token).await?;
                    let secret = None;
                    Ok(IssuedApiToken { token, secret })
                },
            )
            .await
    }

    /// Lists the valid API tokens of the caller or of a service account, in order of creation.
    ///
    /// Private workspaces that do not exist for the caller are left out of their scopes, and so are
    /// labels of workspaces that name none that does.
    ///
    /// # Errors
    /// Those of [`Operation::ListTokens`]; [`Error::Forbidden`] as for [`Tokens::create`].
    pub async fn list(
        self,
        caller: &Caller,
        org_slug: &str,
        member: MemberId,
        page: &PageRequest,
    ) -> Result<Page<ApiToken>, Error> {
        self.service
            .perform(Operation::ListTokens, caller, |caller| async move {
                let org = caller.org();
                let range = keys::tokens(org, member);
                let listing = Listing::new("tokens", &(), range, Direction::Forward);
                let prefetch = with_member(Prefetch::page(&listing, page), org, member);
                let mut caller = caller.authenticate(prefetch).await?;
                let stored = first_tokens(caller.transaction(), listing.first_read(page))?;
                let facts = facts_about(org, &stored);
                caller.prefetch(Prefetch::keys(facts)).await?;
                let mut op = authorize(caller, org_slug, member).await?;
                let now = op.now;
                let show = |_: &Key, token: ApiToken| {
                    let valid = Some(token).filter(|token| now < token.expires_at);
                    Ok(PageRecord::visible(valid))
                };
                let mut found = listing.page(&mut op.transaction, page, show).await?;
                found.data = shown(&mut op.transaction, &op.principal, found.data).await?;
                op.done(found)
            })
            .await
    }

    /// Reads an API token of the caller or of a service account, without the token itself.
    ///
    /// # Errors
    /// Those of [`Operation::GetToken`]; [`Error::Forbidden`] as for [`Tokens::create`].
    pub async fn get(
        self,
        caller: &Caller,
        org_slug: &str,
        member: MemberId,
        token: CredentialId,
    ) -> Result<ApiToken, Error> {
        self.service
            .perform(Operation::GetToken, caller, |caller| async move {
                let org = caller.org();
                let record = keys::token(org, member, token);
                let prefetch = with_member(Prefetch::keys([record.clone()]), org, member);
                let mut caller = caller.authenticate(prefetch).await?;
                let stored: Vec<ApiToken> = caller.prefetched(&record)?.into_iter().collect();
                let facts = facts_about(org, &stored);
                caller.prefetch(Prefetch::keys(facts)).await?;
                let mut op = authorize(caller, org_slug, member).await?;
                let found = vec![find_token(&mut op, &record).await?];
                let found = shown(&mut op.transaction, &op.principal, found).await?;
                let found = found.into_iter().next();
                op.done(found.ok_or(NO_SUCH_TOKEN)?)
            })
            .await
    }

    /// Ends an API token of the caller or of a service account. It stops working immediately.
    ///
    /// What a scoped token created ends with it. Everything else that was created with it remains,
    /// unless it is to be ended `with_created`.
    ///
    /// # Errors
    /// Those of [`Operation::EndToken`]; [`Error::Forbidden`] as for [`Tokens::create`].
    pub async fn end(
        self,
        caller: &Caller,
        org_slug: &str,
        member: MemberId,
        token: CredentialId,
        with_created: bool,
    ) -> Result<(), Error> {
        self.service
            .perform(Operation::EndToken, caller, |caller| async move {
                let org = caller.org();
                let record = keys::token(org, member, token);
                let id_key = keys::credential_id(org, token);
                let prefetch = Prefetch::keys([record.clone(), id_key.clone()]);
                let prefetch = with_member(prefetch, org, member);
                let mut caller = caller.authenticate(prefetch).await?;
                let hash = caller.prefetched::<String>(&id_key)?;
                let credential = hash.and_then(|hash| place(&hash));
                caller.prefetch(Prefetch::keys(credential)).await?;
                let mut op = authorize(caller, org_slug, member).await?;
                let now = op.now;
                find_token(&mut op, &record).await?;
                let hash: String = op.find(&id_key, EntityKind::Token).await?;
                let credential = place(&hash).ok_or(NO_SUCH_TOKEN)?;
                let before: CredentialRecord = op.find(&credential, EntityKind::Token).await?;
                let ended = (credential, &before);
                let after = mark_revoked(&mut op.transaction, ended, with_created, now).await?;
                let resource = (ResourceKind::Credential, token.0);
                op.changed(AuditAction::CredentialRevoke, resource, &before, &after);
                op.done(())
            })
            .await
    }

    /// Checks the request for a token, and returns the lifetime that the token will have.
    fn check(self, new: &NewApiToken) -> Result<Duration, Error> {
        let mut problems = Problems::default();
        new.check(Path::ROOT, &self.service.checks(), &mut problems);
        let lifetime_max = self.service.limits().token_lifetime_max;
        let lifetime = new.lifetime;
        let lifetime = lifetime.unwrap_or_else(|| TOKEN_LIFETIME_DEFAULT.min(lifetime_max));
        if lifetime.is_zero() || lifetime > lifetime_max {
            let seconds = lifetime_max.as_secs();
            let message = format!("must be greater than 0 and at most {seconds} seconds");
            let (path, code) = ("expires_in_seconds", ProblemCode::InvalidValue);
            problems.push(path, code, message);
        }
        problems.into_result()?;
        Ok(lifetime)
    }
}

impl KnowledgeService {
    /// Adds a token, which was counted, to those of its member until it expires.
    pub(in crate::service) fn put_token(
        &self,
        transaction: &mut Transaction,
        org: OrgId,
        token: &ApiToken,
    ) {
        let record = keys::token(org, token.member_id, token.id);
        transaction.create(record.clone(), token);
        ScheduledTask::record(record)
            .counted_by(keys::token_count(org, token.member_id))
            .schedule(transaction, token.expires_at, self.env());
    }
}

/// Adds the reads that decide whether the caller may manage the tokens of a member.
fn with_member(prefetch: Prefetch, org: OrgId, member: MemberId) -> Prefetch {
    let prefetch = prefetch.and_keys([keys::member(org, member)]);
    with_roles(prefetch.and_range(workspace_roles_read(org, member)), org)
}

/// Authorises the caller to manage the tokens of a member of its organisation.
///
/// # Errors
/// [`Error::NotFound`] for the slug of another organisation; those of [`require_authority`];
/// [`Error::Forbidden`] for a service account that the caller does not cover.
async fn authorize<'c>(
    caller: Authenticated<'c>,
    org_slug: &str,
    member: MemberId,
) -> Result<Authorized<'c>, Error> {
    let mut op = caller.authorize_per_resource().await?;
    if org_slug != op.principal.org.slug {
        return Err(Error::not_found(EntityKind::Organization));
    }
    let account = require_authority(&mut op, member).await?;
    op.check_idempotency_key().await?;
    if let Some(account) = account
        && !op.is_replay()
    {
        let roles = HeldRoles::of(&mut op.transaction, op.principal.org_id(), &account).await?;
        require_covered(&mut op.transaction, &op.principal, &account, &roles).await?;
    }
    Ok(op)
}

/// Checks that the caller may manage the tokens of a member: its own, or those of a service
/// account, which is returned. The caller has to cover it, except for a replay.
///
/// # Errors
/// [`Error::Forbidden`] otherwise; [`Error::NotFound`] for an unknown member.
async fn require_authority(
    op: &mut Authorized<'_>,
    member: MemberId,
) -> Result<Option<Member>, Error> {
    if member == op.principal.member_id() {
        return Ok(None);
    }
    let account = find_account(&mut op.transaction, &op.principal, member).await?;
    Ok(Some(account))
}

/// Reads a service account for a caller that may manage the tokens of those that it covers.
///
/// # Errors
/// [`Error::Forbidden`] for any other caller, or for a person; [`Error::NotFound`] for an unknown
/// member.
async fn find_account(
    transaction: &mut Transaction,
    caller: &Principal,
    member: MemberId,
) -> Result<Member, Error> {
    caller.authorize(Action::TokenManage, Resource::Organization)?;
    let key = keys::member(caller.org_id(), member);
    let found = transaction.get::<Member>(&key).await?;
    let found = found.ok_or(Error::not_found(EntityKind::Member))?;
    if found.kind != MemberKind::ServiceAccount {
        return Err(Error::forbidden(
            "people create, list and end their own tokens; only those of service accounts are \
             managed by others",
        ));
    }
    Ok(found)
}

/// Checks that a token is a valid one of a service account, and that the caller manages it.
///
/// # Errors
/// [`Error::NotFound`] for any other credential; [`Error::Forbidden`] as for [`Tokens::create`].
pub(in crate::service) async fn require_managed(
    transaction: &mut Transaction,
    caller: &Principal,
    token: CredentialId,
    now: Timestamp,
) -> Result<(), Error> {
    let org = caller.org_id();
    let hash = transaction
        .get::<String>(&keys::credential_id(org, token))
        .await?;
    let credential = hash.and_then(|hash| place(&hash)).ok_or(NO_SUCH_TOKEN)?;
    let credential = transaction.get::<CredentialRecord>(&credential).await?;
    let member = credential.ok_or(NO_SUCH_TOKEN)?.member_id;
    let record = keys::token(org, member, token);
    let found = transaction.get::<ApiToken>(&record).await?;
    if found.is_none_or(|found| found.expires_at <= now) {
        return Err(NO_SUCH_TOKEN);
    }
    let account = find_account(transaction, caller, member).await?;
    let roles = HeldRoles::of(transaction, org, &account).await?;
    require_covered(transaction, caller, &account, &roles).await
}

/// Checks that the workspaces of a scope exist for the caller.
///
/// # Errors
/// [`Error::InvalidRequest`] naming those that do not.
async fn require_workspaces(op: &mut Authorized<'_>, named: &[WorkspaceId]) -> Result<(), Error> {
    let org = op.org();
    let places = named.iter().map(|id| keys::workspace(org, *id));
    let places: Vec<Key> = places.collect();
    let found = op.transaction.get_many::<Workspace>(&places).await?;
    let mut problems = Problems::default();
    for (index, (id, found)) in named.iter().zip(found).enumerate() {
        if found.is_none() || !op.principal.works_in(*id) {
            let path = format!("narrowing.workspaces[{index}]");
            let message = "must be a workspace of the organisation";
            problems.push(path, ProblemCode::NotFound, message);
        }
    }
    problems.into_result()
}

/// Returns the first tokens of a page, if they were prefetched.
fn first_tokens(
    transaction: &Transaction,
    first: Option<RangeRead>,
) -> Result<Vec<ApiToken>, Error> {
    let found = first.and_then(|read| transaction.prefetched().scan(&read));
    let mut tokens = Vec::new();
    for found in found.unwrap_or_default() {
        tokens.push(decode_value(found)?);
    }
    Ok(tokens)
}

/// Returns the keys of what responses show of tokens besides their records: their last uses, the
/// ends of the sessions that created them, and the workspaces that their labels name.
fn facts_about(org: OrgId, tokens: &[ApiToken]) -> Vec<Key> {
    let uses = tokens.iter();
    let uses = uses.map(|token| keys::credential_use(org, token.id));
    let creators = tokens.iter().filter_map(|token| token.created_with);
    let ends = creators.map(|creator| keys::ended_credential(org, creator));
    let labels = tokens.iter();
    let labels = labels.flat_map(|token| token.scope.audience.iter().flatten());
    let places = labels.filter(|label| label.scope() == AudienceScope::Workspace);
    let places = places.map(|label| keys::workspace_slug(org, label.name()));
    uses.chain(ends).chain(places).collect()
}

/// Returns tokens as responses show them.
async fn shown(
    transaction: &mut Transaction,
    caller: &Principal,
    tokens: Vec<ApiToken>,
) -> Result<Vec<ApiToken>, Error> {
    let org = caller.org_id();
    transaction
        .prefetch(facts_about(org, &tokens), Vec::new())
        .await?;
    let mut shown = Vec::with_capacity(tokens.len());
    for mut token in tokens {
        let used = keys::credential_use(org, token.id);
        token.last_used_at = transaction.unchecked().get(&used).await?;
        let ended = match token.created_with {
            Some(creator) => {
                let ended = keys::ended_credential(org, creator);
                transaction.unchecked().get(&ended).await?
            }
            None => None,
        };
        keep_known(transaction, caller, &mut token.scope).await?;
        shown.push(token.shown(ended));
    }
    Ok(shown)
}

/// Removes from a scope the workspaces that do not exist for the caller, and the labels of unknown
/// ones, which look the same. A list that becomes empty stays one: it admits nothing.
async fn keep_known(
    transaction: &mut Transaction,
    caller: &Principal,
    scope: &mut TokenScope,
) -> Result<(), Error> {
    if let Some(workspaces) = &mut scope.workspaces {
        workspaces.retain(|id| caller.knows(*id));
    }
    let Some(labels) = &mut scope.audience else {
        return Ok(());
    };
    let mut known: Vec<AudienceLabel> = Vec::with_capacity(labels.len());
    for label in std::mem::take(labels) {
        if label.scope() == AudienceScope::Workspace {
            let slug = keys::workspace_slug(caller.org_id(), label.name());
            let named: Option<WorkspaceId> = transaction.unchecked().get(&slug).await?;
            if named.is_none_or(|id| !caller.knows(id)) {
                continue;
            }
        }
        known.push(label);
    }
    *labels = known;
    Ok(())
}

/// Reads a token that has not expired.
async fn find_token(op: &mut Authorized<'_>, record: &Key) -> Result<ApiToken, Error> {
    let found: ApiToken = op.find(record, EntityKind::Token).await?;
    Some(found)
        .filter(|token| op.now < token.expires_at)
        .ok_or(NO_SUCH_TOKEN)
}

/// Frees the places of expired tokens that are not purged yet.
async fn free_expired_tokens(
    transaction: &mut Transaction,
    org: OrgId,
    member: MemberId,
    now: Timestamp,
) -> Result<(), Error> {
    let read = RangeRead::all(keys::tokens(org, member));
    let mut expired = Vec::new();
    // They stay prefetched, because the next call reads the expired ones.
    for found in transaction.prefetched().scan(&read).unwrap_or_default() {
        let token: ApiToken = decode_value(found)?;
        if token.expires_at <= now {
            expired.push(token.id);
        }
    }
    forget_tokens(transaction, org, member, &expired).await
}
