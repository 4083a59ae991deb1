//! Inbound webhooks of a workspace.

use crate::access::{Action, ActionSet};
use crate::error::{EntityKind, Error};
use crate::keys;
use crate::model::{
    AuditAction, InboundWebhook, InboundWebhookId, InboundWebhookUpdate, NewInboundWebhook, Quota,
    ResourceKind, ResourceState, Source, SourceId, WorkspaceId,
};
use crate::operation::Operation;
use crate::service::access::created::{CreatedRecord, Ending, Endings, inbound_state};
use crate::service::operation::{Authorized, Prefetch, Unauthenticated};
use crate::service::page::{Listing, Page, PageRecord, PageRequest};
use crate::service::quota::{RecordLimit, release_unit};
use crate::service::secrets::sealing::{RotatedSecret, SealedRecord};
use crate::service::{Caller, IfMatch, InboundWebhooks, WithEtag};
use crate::store::{Direction, Key, Transaction};

pub(crate) type Stored = SealedRecord<InboundWebhook>;

/// Actions of an inbound webhook.
const ACTIONS: ActionSet = ActionSet::of(&[Action::MemoryCreate, Action::MemoryUpdate]);
/// Action that the member of an inbound webhook needs for every message.
const NEEDED: Option<Action> = Some(Action::MemoryCreate);
/// Kind of the sources of inbound webhooks.
const SOURCE_KIND: &str = "inbound_webhook";

impl InboundWebhooks<'_> {
    /// Registers an inbound webhook, with a source for the memories that arrive through it.
    ///
    /// Senders post to its URL and sign with its secret, which is returned only here, not by a
    /// repetition with the idempotency key. Messages are processed with the permissions that the
    /// member has at that time. Registered with a scoped token, the webhook has the scope of the
    /// token and ends with it; no end of another credential ends it, unless on request.
    ///
    /// # Errors
    /// Those of [`Operation::CreateInboundWebhook`]; [`Error::InvalidRequest`] for a workspace with
    /// the maximum number of inbound webhooks.
    pub async fn create(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        request: &NewInboundWebhook,
    ) -> Result<InboundWebhook, Error> {
        self.service.checks().check(request)?;
        self.service
            .once(
                Operation::CreateInboundWebhook,
                caller,
                &(workspace, request),
                |caller| async move {
                    let org = caller.org();
                    let counter = keys::inbound_webhook_count(org, workspace);
                    let quotas = [Quota::Endpoints, Quota::Sources];
                    let prefetch = Prefetch::keys([counter.clone()])
                        .and_keys(quotas.map(|quota| keys::usage(org, quota)));
                    let mut op = caller.in_workspace(workspace, prefetch).await?;
                    let (now, member) = (op.now, op.principal.member_id());
                    op.reserve_record(RecordLimit::INBOUND_WEBHOOKS, counter)
                        .await?;
                    op.reserve(Quota::Endpoints, 1).await?;
                    op.reserve(Quota::Sources, 1).await?;
                    let id = InboundWebhookId(self.service.env().uuid());
                    let (secret, sealed) = op.sealer().await?.new_secret(id.0, self.service.env());
                    let mut webhook = InboundWebhook {
                        id,
                        org_id: org,
                        workspace_id: workspace,
                        name: request.name.clone(),
                        url: format!("{}/v1/inbound/{org}/{id}", self.service.inner.public_url),
                        signing_secret: None,
                        source_id: SourceId(id.0),
                        acts_as: member,
                        created_by: member,
                        created_at: now,
                        updated_at: now,
                        status: None,
                    };
                    let source = Source {
                        id: webhook.source_id,
                        name: webhook.name.clone(),
                        kind: SOURCE_KIND.to_owned(),
                        created_at: now,
                    };
                    let key = keys::source(org, source.id);
                    op.transaction.create(key, &source);
                    let resource = (ResourceKind::InboundWebhook, id.0);
                    op.created(AuditAction::InboundWebhookCreate, resource, &webhook);
                    let delegator = op.principal.delegator();
                    let stored = SealedRecord::new(&webhook, sealed, delegator);
                    let is_permitted = op.held_in(workspace).contains(Action::MemoryCreate);
                    let transaction = &mut op.transaction;
                    transaction.create(keys::inbound_webhook(org, workspace, id), &stored);
                    transaction.create(keys::inbound_webhook_id(org, id), &workspace);
                    let record = CreatedRecord::InboundWebhook(workspace);
                    delegator.add_to_index(transaction, org, id.0, record);
                    webhook.signing_secret = Some(secret);
                    let ending = (!is_permitted).then_some(Ending::SUSPENSION);
                    op.done(shown(webhook, ResourceState::Active, ending))
                },
                |caller, replay| async move {
                    let id = InboundWebhookId(replay.created);
                    let webhook = self.get(&caller, workspace, id).await?;
                    Ok(webhook.value)
                },
            )
            .await
    }

    /// Lists the inbound webhooks of a workspace, in order of creation, without their secrets.
    ///
    /// # Errors
    /// Those of [`Operation::ListInboundWebhooks`].
    pub async fn list(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        page: &PageRequest,
    ) -> Result<Page<InboundWebhook>, Error> {
        self.service
            .perform(
                Operation::ListInboundWebhooks,
                caller,
                |caller| async move {
                    let org = caller.org();
                    let range = keys::inbound_webhooks(org, workspace);
                    let listing = Listing::new("inbound_webhooks", &(), range, Direction::Forward);
                    let prefetch = Prefetch::page(&listing, page);
                    let next = |transaction: &Transaction| {
                        let (place, first) = ((org, workspace), listing.first_read(page));
                        let delegator = |stored: &Stored| stored.delegator;
                        Endings::prefetch_page(transaction, place, first, delegator)
                    };
                    let op = caller.in_workspace_then(workspace, prefetch, &next);
                    let mut op = op.await?;
                    let show = |_: &Key, stored: Stored| Ok(PageRecord::Shown(stored));
                    let found = listing.page(&mut op.transaction, page, show).await?;
                    let delegators = found.data.iter().map(|stored| stored.delegator);
                    let delegators = delegators.collect();
                    let endings = op.endings(workspace, NEEDED, delegators).await?;
                    let records = found.data.into_iter();
                    let data = records
                        .map(|stored| {
                            let (state, ending) =
                                (inbound_state(&stored), endings.of(&stored.delegator));
                            shown(stored.record, state, ending)
                        })
                        .collect();
                    let next_cursor = found.next_cursor;
                    op.done(Page { data, next_cursor })
                },
            )
            .await
    }

    /// Returns an inbound webhook with its entity tag, without its secret.
    ///
    /// # Errors
    /// Those of [`Operation::GetInboundWebhook`].
    pub async fn get(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        id: InboundWebhookId,
    ) -> Result<WithEtag<InboundWebhook>, Error> {
        self.service
            .perform(Operation::GetInboundWebhook, caller, |caller| async move {
                let (mut op, _, stored) = find(caller, workspace, id).await?;
                let ending = op.ending(workspace, NEEDED, stored.delegator).await?;
                let state = inbound_state(&stored);
                op.done(WithEtag::strong(shown(stored.record, state, ending)))
            })
            .await
    }

    /// Changes an inbound webhook. An update that changes nothing returns it as it is.
    ///
    /// # Errors
    /// Those of [`Operation::UpdateInboundWebhook`].
    pub async fn update(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        id: InboundWebhookId,
        update: &InboundWebhookUpdate,
        if_match: Option<&IfMatch>,
    ) -> Result<WithEtag<InboundWebhook>, Error> {
        self.service.checks().check(update)?;
        self.service
            .perform(
                Operation::UpdateInboundWebhook,
                caller,
                |caller| async move {
                    let (mut op, key, mut stored) = find(caller, workspace, id).await?;
                    let ending = op.ending(workspace, NEEDED, stored.delegator).await?;
                    let state = inbound_state(&stored);
                    let before = stored.record;
                    IfMatch::require(if_match, &shown(before.clone(), state, ending))?;
                    let mut after = before.clone();
                    after.name = update.name.clone().unwrap_or(after.name);
                    if after == before {
                        return op.done(WithEtag::strong(shown(before, state, ending)));
                    }
                    after.updated_at = op.now;
                    stored.record = after.clone();
                    op.transaction.put(key, &stored);
                    let resource = (ResourceKind::InboundWebhook, id.0);
                    op.changed(AuditAction::InboundWebhookUpdate, resource, &before, &after);
                    op.done(WithEtag::strong(shown(after, state, ending)))
                },
            )
            .await
    }

    /// Deletes an inbound webhook. Its source and the memories that arrived through it remain, and
    /// no others are added to it.
    ///
    /// # Errors
    /// Those of [`Operation::DeleteInboundWebhook`]; [`Error::Forbidden`] for a webhook that may do
    /// more in the workspace than the caller.
    pub async fn delete(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        id: InboundWebhookId,
    ) -> Result<(), Error> {
        self.service
            .perform(
                Operation::DeleteInboundWebhook,
                caller,
                |caller| async move {
                    let (mut op, key, stored) = find(caller, workspace, id).await?;
                    op.require_covered(workspace, stored.delegator, ACTIONS)
                        .await?;
                    let org = op.org();
                    let transaction = &mut op.transaction;
                    // Its identifier remains, so that its source stays closed to everybody else.
                    transaction.delete(key);
                    stored.delegator.remove_from_index(transaction, org, id.0);
                    transaction.add(keys::inbound_webhook_count(org, workspace), -1);
                    release_unit(transaction, org, Quota::Endpoints);
                    let resource = (ResourceKind::InboundWebhook, id.0);
                    op.deleted(AuditAction::InboundWebhookDelete, resource, &stored.record);
                    op.done(())
                },
            )
            .await
    }

    /// Replaces the signing secret of an inbound webhook, which then belongs to the caller or its
    /// scoped token, as a new one would.
    ///
    /// The new one is returned only here. The old one remains valid for 24 hours, unless a restore
    /// revoked it; the one before it becomes invalid.
    ///
    /// # Errors
    /// Those of [`Operation::RotateInboundWebhookSecret`]; [`Error::Forbidden`] for a webhook that
    /// may do more in the workspace than the caller.
    pub async fn rotate_secret(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        id: InboundWebhookId,
    ) -> Result<RotatedSecret, Error> {
        self.service
            .perform(
                Operation::RotateInboundWebhookSecret,
                caller,
                |caller| async move {
                    let (mut op, key, mut stored) = find(caller, workspace, id).await?;
                    op.require_covered(workspace, stored.delegator, ACTIONS)
                        .await?;
                    let (now, member) = (op.now, op.principal.member_id());
                    let rotated = stored.rotate(op.sealer().await?, id.0, now, self.service.env());
                    if stored.record.acts_as != member {
                        stored.record.acts_as = member;
                        stored.record.updated_at = now;
                    }
                    let (by, org) = (op.principal.delegator(), op.org());
                    let place = (id.0, CreatedRecord::InboundWebhook(workspace));
                    stored
                        .delegator
                        .replace(by, &mut op.transaction, org, place);
                    op.transaction.put(key, &stored);
                    let resource = (ResourceKind::InboundWebhook, id.0);
                    op.rotated(AuditAction::InboundWebhookRotateSecret, resource, &rotated);
                    op.done(rotated)
                },
            )
            .await
    }
}

/// Authorises the caller in the workspace, and reads an inbound webhook with its key.
async fn find(
    caller: Unauthenticated<'_>,
    workspace: WorkspaceId,
    id: InboundWebhookId,
) -> Result<(Authorized<'_>, Key, Stored), Error> {
    let org = caller.org();
    let key = keys::inbound_webhook(org, workspace, id);
    let prefetch = Prefetch::keys([key.clone()]);
    let next = |transaction: &Transaction| {
        let stored = transaction.prefetched().get::<Stored>(&key).ok().flatten();
        Endings::prefetch((org, workspace), stored.map(|stored| stored.delegator))
    };
    let op = caller.in_workspace_then(workspace, prefetch, &next);
    let mut op = op.await?;
    let stored = op.find(&key, EntityKind::InboundWebhook).await?;
    Ok((op, key, stored))
}

/// Returns an inbound webhook with its status: this state unless it has ended.
fn shown(webhook: InboundWebhook, state: ResourceState, ending: Option<Ending>) -> InboundWebhook {
    InboundWebhook {
        status: Some(Ending::status(ending, state)),
        ..webhook
    }
}
