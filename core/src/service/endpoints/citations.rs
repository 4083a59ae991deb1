//! Citation subscriptions.
//!
//! The endpoint of a subscription is notified if a memory that its recall cites is changed or
//! deleted.

use crate::access::Action;
use crate::error::Error;
use crate::keys;
use crate::model::{
    AuditAction, CitationSubscription, NewCitationSubscription, Quota, Recall, RecallId,
    ResourceKind, SubscriptionId, WorkspaceId,
};
use crate::operation::Operation;
use crate::service::access::created::{CreatedRecord, Ending, endpoint_state};
use crate::service::access::monitor::slugs_read;
use crate::service::deliveries::{EndpointParent, EndpointQueue, UrlConfirmation};
use crate::service::endpoints::shown_confirmation::page_state_reads;
use crate::service::endpoints::{find_subscription, show_confirmations};
use crate::service::memories::recalls::find_recall;
use crate::service::operation::{Authenticated, Authorized, Prefetch, Unauthenticated};
use crate::service::outbox::sequences_read;
use crate::service::page::{Listing, Page, PageRecord, PageRequest};
use crate::service::quota::{RecordLimit, release_unit};
use crate::service::secrets::sealing::{RotatedSecret, Sealed, SealedRecord};
use crate::service::{Caller, CitationSubscriptions};
use crate::store::{Direction, Key, RangeRead};

type Stored = SealedRecord<CitationSubscription>;

/// Action that a subscriber needs.
const NEEDED: Option<Action> = Some(Action::CitationSubscriptionManage);

impl CitationSubscriptions<'_> {
    /// Subscribes the caller to the citations of a recall.
    ///
    /// The signing secret is returned only here, not by a repetition with the idempotency key. The
    /// URL receives a `webhook.ping`, unless the organisation has confirmed it in the last 90 days.
    /// Once it is confirmed, it receives changes while the subscriber has
    /// `citation_subscription:manage` in the workspace. Created with a scoped token, the
    /// subscription has the scope of the token and ends with it; no end of another credential ends
    /// it, unless on request.
    ///
    /// # Errors
    /// Those of [`Operation::CreateCitationSubscription`]; [`Error::InvalidRequest`] for an address
    /// that deliveries may not go to, or a recall with the maximum number of subscriptions;
    /// [`Error::NotFound`] for an unknown recall, or one that does not exist for the caller.
    pub async fn create(
        self,
        caller: &Caller,
        request: &NewCitationSubscription,
    ) -> Result<CitationSubscription, Error> {
        self.service.checks().check(request)?;
        self.service
            .once(
                Operation::CreateCitationSubscription,
                caller,
                request,
                |caller| async move {
                    let recall = request.recall_id;
                    let org = caller.org();
                    let counter = keys::subscription_count(org, recall);
                    let quota = keys::usage(org, Quota::Endpoints);
                    let url = keys::url_confirmation(org, request.webhook_url.as_str());
                    let prefetch =
                        Prefetch::keys([keys::recall(org, recall), counter.clone(), quota, url])
                            .and_ranges([sequences_read(org), slugs_read(org)]);
                    let caller = caller.authenticate(prefetch).await?;
                    let (mut op, recall) = find_recall(caller, recall, Prefetch::none()).await?;
                    let now = op.now;
                    op.reserve_record(RecordLimit::SUBSCRIPTIONS, counter)
                        .await?;
                    op.reserve(Quota::Endpoints, 1).await?;
                    let id = SubscriptionId(self.service.env().uuid());
                    let (secret, sealed) = op.sealer().await?.new_secret(id.0, self.service.env());
                    let (transaction, url) = (&mut op.transaction, &request.webhook_url);
                    let is_confirmed =
                        UrlConfirmation::is_given(transaction, org, url, now).await?;
                    let mut subscription = CitationSubscription {
                        id,
                        org_id: org,
                        workspace_id: recall.workspace_id,
                        recall_id: recall.id,
                        subscriber_user_id: op.principal.member_id(),
                        webhook_url: request.webhook_url.clone(),
                        is_confirmed,
                        confirmation: None,
                        signing_secret: None,
                        created_at: now,
                        status: None,
                    };
                    let resource = (ResourceKind::Subscription, id.0);
                    op.created(AuditAction::SubscriptionCreate, resource, &subscription);
                    store_new(&mut op, &subscription, sealed).await?;
                    subscription.signing_secret = Some(secret);
                    let state = endpoint_state(true, is_confirmed);
                    subscription.status = Some(Ending::status(None, state));
                    op.done(subscription)
                },
                |caller, replay| async move {
                    let id = SubscriptionId(replay.created);
                    let subscription = self.get(&caller, id).await?;
                    Ok(CitationSubscription {
                        confirmation: None,
                        ..subscription
                    })
                },
            )
            .await
    }

    /// Lists the subscriptions to a recall, in no particular order, without their secrets.
    ///
    /// As for [`Self::get`], URLs may be reduced to their origins.
    ///
    /// # Errors
    /// Those of [`Operation::ListCitationSubscriptions`]; [`Error::NotFound`] for an unknown
    /// recall, or one that does not exist for the caller.
    pub async fn list(
        self,
        caller: &Caller,
        recall: RecallId,
        page: &PageRequest,
    ) -> Result<Page<CitationSubscription>, Error> {
        self.service
            .perform(
                Operation::ListCitationSubscriptions,
                caller,
                |caller| async move {
                    let org = caller.org();
                    let range = keys::subscriptions(org, recall);
                    let listing =
                        Listing::new("citation_subscriptions", &(), range, Direction::Forward);
                    let prefetch = Prefetch::page(&listing, page)
                        .and_keys([keys::recall(org, recall)])
                        .and_range(slugs_read(org));
                    let mut caller = caller.authenticate(prefetch).await?;
                    let state = states_read(&mut caller, recall, listing.first_read(page))?;
                    let (mut op, recall) = find_recall(caller, recall, state).await?;
                    let show = |_: &Key, stored: Stored| Ok(PageRecord::Shown(stored));
                    let found = listing.page(&mut op.transaction, page, show).await?;
                    let next_cursor = found.next_cursor;
                    let data = shown(&mut op, recall.workspace_id, found.data).await?;
                    op.done(Page { data, next_cursor })
                },
            )
            .await
    }

    /// Returns a citation subscription, without its secret.
    ///
    /// It exists for its subscriber, and for those for whom its recall exists. With a credential
    /// that has a list of audience labels, the subscriber is one of the others. Of the URL, others
    /// than the subscriber see only the origin without `webhook:manage` in its workspace.
    ///
    /// # Errors
    /// Those of [`Operation::GetCitationSubscription`].
    pub async fn get(
        self,
        caller: &Caller,
        id: SubscriptionId,
    ) -> Result<CitationSubscription, Error> {
        self.service
            .perform(
                Operation::GetCitationSubscription,
                caller,
                |caller| async move {
                    let (mut op, found) = find(caller, id, None).await?;
                    let workspace = found.record.workspace_id;
                    let mut shown = shown(&mut op, workspace, vec![found]).await?;
                    op.done(shown.remove(0))
                },
            )
            .await
    }

    /// Deletes a citation subscription.
    ///
    /// # Errors
    /// Those of [`Operation::DeleteCitationSubscription`].
    pub async fn delete(self, caller: &Caller, id: SubscriptionId) -> Result<(), Error> {
        self.service
            .perform(
                Operation::DeleteCitationSubscription,
                caller,
                |caller| async move {
                    let (mut op, found) = find_to_change(caller, id).await?;
                    let (org, now) = (op.org(), op.now);
                    let subscription = found.record;
                    let transaction = &mut op.transaction;
                    self.service
                        .remove_endpoint(transaction, org, id.into(), found.disabled, now)
                        .await?;
                    transaction.delete(keys::subscription(org, subscription.recall_id, id));
                    transaction.delete(keys::subscription_id(org, id));
                    found.delegator.remove_from_index(transaction, org, id.0);
                    let counter = keys::subscription_count(org, subscription.recall_id);
                    transaction.add(counter, -1);
                    release_unit(transaction, org, Quota::Endpoints);
                    let resource = (ResourceKind::Subscription, id.0);
                    op.deleted(AuditAction::SubscriptionDelete, resource, &subscription);
                    op.done(())
                },
            )
            .await
    }

    /// Replaces the signing secret of a citation subscription.
    ///
    /// The new one is returned only here. For 24 hours, deliveries are signed with the old one too;
    /// the one before it becomes invalid. If the caller is the subscriber, the subscription belongs
    /// to it or its scoped token from then on, as a new one would.
    ///
    /// # Errors
    /// Those of [`Operation::RotateCitationSubscriptionSecret`].
    pub async fn rotate_secret(
        self,
        caller: &Caller,
        id: SubscriptionId,
    ) -> Result<RotatedSecret, Error> {
        self.service
            .perform(
                Operation::RotateCitationSubscriptionSecret,
                caller,
                |caller| async move {
                    let (mut op, mut stored) = find_to_change(caller, id).await?;
                    let now = op.now;
                    let rotated = stored.rotate(op.sealer().await?, id.0, now, self.service.env());
                    let (org, recall) = (op.org(), stored.record.recall_id);
                    if stored.record.subscriber_user_id == op.principal.member_id() {
                        let by = op.principal.delegator();
                        let place = (id.0, CreatedRecord::CitationSubscription(recall));
                        stored
                            .delegator
                            .replace(by, &mut op.transaction, org, place);
                    }
                    let key = keys::subscription(org, recall, id);
                    op.transaction.put(key, &stored);
                    let resource = (ResourceKind::Subscription, id.0);
                    op.rotated(AuditAction::SubscriptionRotateSecret, resource, &rotated);
                    op.done(rotated)
                },
            )
            .await
    }
}

/// Returns a subscription for an operation that changes it.
///
/// A subscription of another member requires a further permission.
async fn find_to_change(
    caller: Unauthenticated<'_>,
    id: SubscriptionId,
) -> Result<(Authorized<'_>, Stored), Error> {
    find(caller, id, Some(Action::WebhookManage)).await
}

/// Returns a subscription, if the caller has the permission of the operation in its workspace, and
/// for one of another member also the one `of_another`.
async fn find(
    caller: Unauthenticated<'_>,
    id: SubscriptionId,
    of_another: Option<Action>,
) -> Result<(Authorized<'_>, Stored), Error> {
    let org = caller.org();
    let id_key = keys::subscription_id(org, id);
    // Its state is deleted with the endpoint.
    let prefetch = Prefetch::keys([id_key.clone(), keys::endpoint(org, id.into())]);
    let mut caller = caller.authenticate(prefetch).await?;
    let recall: Option<RecallId> = caller.prefetched(&id_key)?;
    let key = recall.map(|recall| keys::subscription(org, recall, id));
    caller.prefetch(Prefetch::keys(key)).await?;
    let mut op = caller.authorize_per_resource().await?;
    let found = find_subscription(&mut op, id, of_another).await?;
    Ok((op, found))
}

/// Stores a new subscription of the caller, whose URL is asked unless it is confirmed.
async fn store_new(
    op: &mut Authorized<'_>,
    subscription: &CitationSubscription,
    secret: Sealed,
) -> Result<(), Error> {
    let (org, now) = (op.org(), op.now);
    let (id, recall) = (subscription.id, subscription.recall_id);
    let delegator = op.principal.delegator();
    let stored = SealedRecord::new(subscription, secret, delegator);
    let transaction = &mut op.transaction;
    let record = CreatedRecord::CitationSubscription(recall);
    delegator.add_to_index(transaction, org, id.0, record);
    transaction.create(keys::subscription(org, recall, id), &stored);
    transaction.create(keys::subscription_id(org, id), &recall);
    let parent = EndpointParent::Subscription(recall);
    let (workspace, endpoint) = (subscription.workspace_id, id.into());
    let due = (!subscription.is_confirmed).then_some(now);
    EndpointQueue::create(transaction, org, workspace, endpoint, parent, due).await
}

/// Returns the reads that decide the states of the subscriptions of a page, if their recall and the
/// first ones were prefetched.
fn states_read(
    caller: &mut Authenticated<'_>,
    recall: RecallId,
    first: Option<RangeRead>,
) -> Result<Prefetch, Error> {
    let org = caller.org();
    let recall = caller.prefetched::<Recall>(&keys::recall(org, recall))?;
    let Some(recall) = recall else {
        return Ok(Prefetch::none());
    };
    let (transaction, place) = (caller.transaction(), (org, recall.workspace_id));
    let reads = page_state_reads::<CitationSubscription>(transaction, place, first);
    Ok(reads)
}

/// Returns subscriptions of a workspace as the caller may see them.
///
/// # Errors
/// Those of the store.
async fn shown(
    op: &mut Authorized<'_>,
    workspace: WorkspaceId,
    mut found: Vec<Stored>,
) -> Result<Vec<CitationSubscription>, Error> {
    let delegators = found.iter().map(|stored| stored.delegator).collect();
    let endings = op.endings(workspace, NEEDED, delegators).await?;
    let (org, now) = (op.org(), op.now);
    let is_ended = |stored: &Stored| endings.of(&stored.delegator).is_some();
    show_confirmations(&mut op.transaction, org, &mut found, is_ended, now).await?;
    let shown = found.into_iter().map(|stored| {
        let ending = endings.of(&stored.delegator);
        with_status(op, stored, ending)
    });
    Ok(shown.collect())
}

/// Returns the record of a subscription as the caller may see it, with its status.
///
/// Others than the subscriber need `webhook:manage` to see more of the URL than its origin.
fn with_status(
    op: &Authorized<'_>,
    stored: Stored,
    ending: Option<Ending>,
) -> CitationSubscription {
    let mut record = stored.record;
    let state = endpoint_state(stored.disabled.is_none(), record.is_confirmed);
    record.status = Some(Ending::status(ending, state));
    let held = op.held_in(record.workspace_id);
    let is_subscriber = record.subscriber_user_id == op.principal.member_id();
    if !is_subscriber && !held.contains(Action::WebhookManage) {
        record.webhook_url = record.webhook_url.origin();
    }
    record
}
