//! Outbound webhooks of a workspace.

use uuid::Uuid;

use crate::access::Action;
use crate::error::{EntityKind, Error};
use crate::keys;
use crate::model::{
    AuditAction, NewWebhook, OrgId, Quota, ResourceKind, Webhook, WebhookId, WebhookUpdate,
    WorkspaceId,
};
use crate::operation::Operation;
use crate::service::access::created::{CreatedRecord, Ending, endpoint_state};
use crate::service::deliveries::{EndpointParent, EndpointQueue, EndpointSwitch, UrlConfirmation};
use crate::service::endpoints::show_confirmations;
use crate::service::endpoints::shown_confirmation::{page_state_reads, state_reads};
use crate::service::operation::{Authorized, Prefetch};
use crate::service::page::{Listing, Page, PageRecord, PageRequest};
use crate::service::quota::{RecordLimit, release_unit};
use crate::service::secrets::sealing::{RotatedSecret, Sealed, SealedRecord};
use crate::service::{Caller, IfMatch, Webhooks, WithEtag};
use crate::store::{Direction, Key, Transaction};

type Stored = SealedRecord<Webhook>;

/// Action that the member of a webhook needs.
const NEEDED: Option<Action> = Some(Action::WebhookManage);

impl WebhookUpdate {
    fn applied_to(&self, webhook: &Webhook) -> Webhook {
        let mut changed = webhook.clone();
        changed.event_type = self.event_type.unwrap_or(changed.event_type);
        changed.url = self.url.clone().unwrap_or(changed.url);
        changed.is_active = self.is_active.unwrap_or(changed.is_active);
        if self.is_active.is_some() {
            // It overrides the service, and so clears its reason.
            changed.disabled_reason = None;
        }
        changed
    }
}

impl Webhooks<'_> {
    /// Registers an outbound webhook.
    ///
    /// The signing secret is returned only here, not by a repetition with the idempotency key. The
    /// webhook receives a `webhook.ping`, unless its organisation has confirmed its URL in the last
    /// 90 days. Once the URL is confirmed, it receives events while the member has `webhook:manage`
    /// in the workspace. Created with a scoped token, it has the scope of the token and ends with
    /// it; no end of another credential ends it, unless on request.
    ///
    /// # Errors
    /// Those of [`Operation::CreateWebhook`]; [`Error::InvalidRequest`] for an address that
    /// deliveries may not go to, or a workspace with the maximum number of webhooks.
    pub async fn create(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        request: &NewWebhook,
    ) -> Result<Webhook, Error> {
        self.service.checks().check(request)?;
        self.service
            .once(
                Operation::CreateWebhook,
                caller,
                &(workspace, request),
                |caller| async move {
                    let org = caller.org();
                    let counter = keys::webhook_count(org, workspace);
                    let prefetch = Prefetch::keys([
                        counter.clone(),
                        keys::endpoint_sequence(org, workspace),
                        keys::usage(org, Quota::Endpoints),
                        keys::url_confirmation(org, request.url.as_str()),
                    ]);
                    let mut op = caller.in_workspace(workspace, prefetch).await?;
                    let now = op.now;
                    op.reserve_record(RecordLimit::WEBHOOKS, counter).await?;
                    op.reserve(Quota::Endpoints, 1).await?;
                    let id = WebhookId(self.service.env().uuid());
                    let (secret, sealed) = op.sealer().await?.new_secret(id.0, self.service.env());
                    let (transaction, url) = (&mut op.transaction, &request.url);
                    let is_confirmed =
                        UrlConfirmation::is_given(transaction, org, url, now).await?;
                    let mut webhook = Webhook {
                        id,
                        org_id: org,
                        workspace_id: workspace,
                        event_type: request.event_type,
                        url: request.url.clone(),
                        is_active: true,
                        disabled_reason: None,
                        is_confirmed,
                        confirmation: None,
                        signing_secret: None,
                        created_by: op.principal.member_id(),
                        created_at: now,
                        updated_at: now,
                        status: None,
                    };
                    let resource = (ResourceKind::Webhook, id.0);
                    op.created(AuditAction::WebhookCreate, resource, &webhook);
                    store_new(&mut op, &webhook, sealed).await?;
                    webhook.signing_secret = Some(secret);
                    op.done(with_status(webhook, None))
                },
                |caller, replay| async move {
                    let id = WebhookId(replay.created);
                    let webhook = self.get(&caller, workspace, id).await?.value;
                    Ok(Webhook {
                        confirmation: None,
                        ..webhook
                    })
                },
            )
            .await
    }

    /// Lists the outbound webhooks of a workspace, in order of creation, without their secrets.
    ///
    /// # Errors
    /// Those of [`Operation::ListWebhooks`].
    pub async fn list(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        page: &PageRequest,
    ) -> Result<Page<Webhook>, Error> {
        self.service
            .perform(Operation::ListWebhooks, caller, |caller| async move {
                let org = caller.org();
                let range = keys::webhooks(org, workspace);
                let listing = Listing::new("webhooks", &(), range, Direction::Forward);
                let prefetch = Prefetch::page(&listing, page);
                let next = |transaction: &Transaction| {
                    let (place, first) = ((org, workspace), listing.first_read(page));
                    page_state_reads::<Webhook>(transaction, place, first)
                };
                let op = caller.in_workspace_then(workspace, prefetch, &next);
                let mut op = op.await?;
                let show = |_: &Key, stored: Stored| Ok(PageRecord::Shown(stored));
                let found = listing.page(&mut op.transaction, page, show).await?;
                let delegators = found.data.iter().map(|stored| stored.delegator);
                let delegators = delegators.collect();
                let endings = op.endings(workspace, NEEDED, delegators).await?;
                let Page {
                    mut data,
                    next_cursor,
                } = found;
                let (now, transaction) = (op.now, &mut op.transaction);
                let is_ended = |stored: &Stored| endings.of(&stored.delegator).is_some();
                show_confirmations(transaction, org, &mut data, is_ended, now).await?;
                let records = data.into_iter();
                let data = records
                    .map(|stored| with_status(stored.record, endings.of(&stored.delegator)))
                    .collect();
                op.done(Page { data, next_cursor })
            })
            .await
    }

    /// Returns an outbound webhook with its entity tag, without its secret.
    ///
    /// # Errors
    /// Those of [`Operation::GetWebhook`].
    pub async fn get(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        id: WebhookId,
    ) -> Result<WithEtag<Webhook>, Error> {
        self.service
            .perform(Operation::GetWebhook, caller, |caller| async move {
                let org = caller.org();
                let key = keys::webhook(org, workspace, id);
                let prefetch = Prefetch::keys([key.clone()]);
                let next = |transaction: &Transaction| reads_of(transaction, org, workspace, &key);
                let op = caller.in_workspace_then(workspace, prefetch, &next);
                let mut op = op.await?;
                let stored: Stored = op.find(&key, EntityKind::Webhook).await?;
                let ending = op.ending(workspace, NEEDED, stored.delegator).await?;
                let found = shown(&mut op, stored, ending).await?;
                op.done(found)
            })
            .await
    }

    /// Changes an outbound webhook. An update that changes nothing returns it as it is.
    ///
    /// An update of `is_active` overrides the service, if it has disabled the webhook. With a new
    /// `url`, the webhook belongs to the caller or its scoped token from then on, as a new one
    /// would. Unless its organisation has confirmed that URL in the last 90 days, it receives
    /// nothing but pings until the URL has answered one.
    ///
    /// # Errors
    /// Those of [`Operation::UpdateWebhook`].
    pub async fn update(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        id: WebhookId,
        update: &WebhookUpdate,
        if_match: Option<&IfMatch>,
    ) -> Result<WithEtag<Webhook>, Error> {
        self.service.checks().check(update)?;
        self.service
            .perform(Operation::UpdateWebhook, caller, |caller| async move {
                let org = caller.org();
                let key = keys::webhook(org, workspace, id);
                let url = update.url.as_ref();
                let url = url.map(|url| keys::url_confirmation(org, url.as_str()));
                let prefetch = Prefetch::keys([key.clone(), keys::endpoint(org, id.into())]);
                let next = |transaction: &Transaction| reads_of(transaction, org, workspace, &key);
                let op = caller.in_workspace_then(workspace, prefetch.and_keys(url), &next);
                let mut op = op.await?;
                let mut stored: Stored = op.find(&key, EntityKind::Webhook).await?;
                let mut ending = op.ending(workspace, NEEDED, stored.delegator).await?;
                let before = stored.record.clone();
                IfMatch::require(if_match, &with_status(before.clone(), ending))?;
                let mut after = update.applied_to(&before);
                let is_moved = after.url != before.url;
                if is_moved {
                    let (transaction, now) = (&mut op.transaction, op.now);
                    after.is_confirmed =
                        UrlConfirmation::is_given(transaction, org, &after.url, now).await?;
                }
                if after == before {
                    let unchanged = shown(&mut op, stored, ending).await?;
                    return op.done(unchanged);
                }
                after.updated_at = op.now;
                let switches = |webhook: &Webhook| (webhook.is_active, webhook.disabled_reason);
                let is_switched = switches(&after) != switches(&before);
                if is_switched || is_moved {
                    // Pending deliveries are dead-lettered at once, or continue; failures of the
                    // old address no longer count.
                    let switch = EndpointSwitch {
                        was_disabled: stored.disabled.take_if(|_| is_switched),
                        is_moved,
                        is_confirmed: after.is_confirmed,
                    };
                    let now = op.now;
                    self.service
                        .switch_endpoint(&mut op.transaction, org, id.into(), switch, now)
                        .await?;
                }
                if is_moved {
                    // A new URL transfers ownership: deliveries follow the caller's permissions.
                    let (by, place) = (op.principal.delegator(), place(workspace, id));
                    stored
                        .delegator
                        .replace(by, &mut op.transaction, org, place);
                    ending = None;
                }
                stored.record = after.clone();
                op.transaction.put(key, &stored);
                let resource = (ResourceKind::Webhook, id.0);
                op.changed(AuditAction::WebhookUpdate, resource, &before, &after);
                let changed = shown(&mut op, stored, ending).await?;
                op.done(changed)
            })
            .await
    }

    /// Deletes an outbound webhook.
    ///
    /// # Errors
    /// Those of [`Operation::DeleteWebhook`].
    pub async fn delete(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        id: WebhookId,
    ) -> Result<(), Error> {
        self.service
            .perform(Operation::DeleteWebhook, caller, |caller| async move {
                let org = caller.org();
                let key = keys::webhook(org, workspace, id);
                let prefetch = Prefetch::keys([key.clone(), keys::endpoint(org, id.into())]);
                let mut op = caller.in_workspace(workspace, prefetch).await?;
                let now = op.now;
                let stored: Stored = op.find(&key, EntityKind::Webhook).await?;
                op.transaction.delete(key);
                let delegator = stored.delegator;
                delegator.remove_from_index(&mut op.transaction, org, id.0);
                let counter = keys::webhook_count(org, workspace);
                op.transaction.add(counter, -1);
                release_unit(&mut op.transaction, org, Quota::Endpoints);
                self.service
                    .remove_endpoint(&mut op.transaction, org, id.into(), stored.disabled, now)
                    .await?;
                let resource = (ResourceKind::Webhook, id.0);
                op.deleted(AuditAction::WebhookDelete, resource, &stored.record);
                op.done(())
            })
            .await
    }

    /// Replaces the signing secret of an outbound webhook.
    ///
    /// From then on, the webhook belongs to the caller or its scoped token, as a new one would.
    ///
    /// The new one is returned only here. The old one remains valid for 24 hours; the one before it
    /// becomes invalid.
    ///
    /// # Errors
    /// Those of [`Operation::RotateWebhookSecret`].
    pub async fn rotate_secret(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        id: WebhookId,
    ) -> Result<RotatedSecret, Error> {
        self.service
            .perform(
                Operation::RotateWebhookSecret,
                caller,
                |caller| async move {
                    let org = caller.org();
                    let key = keys::webhook(org, workspace, id);
                    let prefetch = Prefetch::keys([key.clone()]);
                    let mut op = caller.in_workspace(workspace, prefetch).await?;
                    let mut stored: Stored = op.find(&key, EntityKind::Webhook).await?;
                    let now = op.now;
                    let rotated = stored.rotate(op.sealer().await?, id.0, now, self.service.env());
                    let (by, place) = (op.principal.delegator(), place(workspace, id));
                    stored
                        .delegator
                        .replace(by, &mut op.transaction, org, place);
                    op.transaction.put(key, &stored);
                    let resource = (ResourceKind::Webhook, id.0);
                    op.rotated(AuditAction::WebhookRotateSecret, resource, &rotated);
                    op.done(rotated)
                },
            )
            .await
    }
}

/// Stores a new webhook of the caller, whose URL is asked unless it is confirmed.
async fn store_new(
    op: &mut Authorized<'_>,
    webhook: &Webhook,
    secret: Sealed,
) -> Result<(), Error> {
    let (org, now) = (op.org(), op.now);
    let (id, workspace) = (webhook.id, webhook.workspace_id);
    let delegator = op.principal.delegator();
    let stored = SealedRecord::new(webhook, secret, delegator);
    let transaction = &mut op.transaction;
    let (resource, record) = place(workspace, id);
    delegator.add_to_index(transaction, org, resource, record);
    transaction.create(keys::webhook(org, workspace, id), &stored);
    let (parent, endpoint) = (EndpointParent::Webhook(workspace), id.into());
    let due = (!webhook.is_confirmed).then_some(now);
    EndpointQueue::create(transaction, org, workspace, endpoint, parent, due).await
}

/// Returns the reads that decide the state of a webhook that was prefetched.
fn reads_of(transaction: &Transaction, org: OrgId, workspace: WorkspaceId, key: &Key) -> Prefetch {
    let stored = transaction.prefetched().get::<Stored>(key).ok().flatten();
    state_reads((org, workspace), stored.as_slice())
}

/// Returns the place of a webhook in the index of what credentials created.
fn place(workspace: WorkspaceId, id: WebhookId) -> (Uuid, CreatedRecord) {
    (id.0, CreatedRecord::Webhook(workspace))
}

/// Returns a webhook as callers see it. Its entity tag is that of the stored record with its
/// status, which pings to other endpoints do not change.
async fn shown(
    op: &mut Authorized<'_>,
    mut stored: Stored,
    ending: Option<Ending>,
) -> Result<WithEtag<Webhook>, Error> {
    let WithEtag { etag, .. } = WithEtag::strong(with_status(stored.record.clone(), ending));
    let (org, now) = (op.org(), op.now);
    let records = std::slice::from_mut(&mut stored);
    let is_ended = |_: &Stored| ending.is_some();
    show_confirmations(&mut op.transaction, org, records, is_ended, now).await?;
    let value = with_status(stored.record, ending);
    Ok(WithEtag { value, etag })
}

/// Returns a webhook with its status. One that has ended is never active.
fn with_status(webhook: Webhook, ending: Option<Ending>) -> Webhook {
    let state = endpoint_state(webhook.is_active, webhook.is_confirmed);
    Webhook {
        is_active: webhook.is_active && ending.is_none(),
        status: Some(Ending::status(ending, state)),
        ..webhook
    }
}
