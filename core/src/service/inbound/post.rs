//! Posts to an inbound webhook: messages signed according to Standard Webhooks 1.0.0.
//!
//! A signature is verified over the bytes that were sent, before they are parsed. The memories are
//! ingested as the member that the webhook acts as, with the permissions that it has at that time,
//! within the scope of the credential that the webhook depends on.

use serde::{Deserialize, Serialize};

use crate::access::Action;
use crate::error::{EntityKind, Error, ProblemCode};
use crate::keys;
use crate::limits::INBOUND_MESSAGE_RETENTION;
use crate::model::{
    EventData, InboundWebhookId, IngestFailure, Member, OrgId, Organization, Quota, SourceId,
    Timestamp, Workspace, WorkspaceId,
};
use crate::request::request;
use crate::service::access::monitor::slugs_read;
use crate::service::access::principal::{Delegator, Principal, Resource};
use crate::service::audit::write::{Actor, AuditedOperation};
use crate::service::inbound::manage::Stored;
use crate::service::memories::ingest::{
    IngestContext, NewMemories, NewMemory, Origin, by_source_key, check_batch, known_memories,
};
use crate::service::operation::Prefetch;
use crate::service::outbox::Outbox;
use crate::service::quota::{AuditQuota, audit_counter};
use crate::service::secrets::sealing::Sealed;
use crate::service::secrets::signing::SignedMessage;
use crate::service::tasks::ScheduledTask;
use crate::service::{ClientInfo, InboundWebhooks, KnowledgeService};
use crate::store::{Key, Transaction};

/// Maximum length of the identifier of a message, in characters.
const MESSAGE_ID_CHARS_MAX: usize = 255;

request! {
    /// A message to an inbound webhook.
    pub struct InboundBatch {
        /// Memories, 1 to 100, with distinct keys.
        memories: Vec<NewMemory> as NewMemories,
    }
}

/// A message with a valid signature. Only [`InboundWebhooks::verify_message`] creates one.
#[derive(Clone, Debug)]
pub struct VerifiedMessage {
    org: OrgId,
    workspace: WorkspaceId,
    webhook: InboundWebhookId,
    id: String,
    /// On whose behalf the webhook acted when the message was verified, and its source.
    delegator: Delegator,
    source: SourceId,
    /// Secret that signed it, which must still be valid when the message takes effect.
    secret: Sealed,
    client: ClientInfo,
}

impl VerifiedMessage {
    /// Sets the facts about the sender's client, which the audit log records.
    #[must_use]
    pub fn with_client(mut self, client: ClientInfo) -> Self {
        self.client = client;
        self
    }

    /// Returns the organisation of the inbound webhook.
    #[must_use]
    pub fn organization(&self) -> OrgId {
        self.org
    }

    /// Returns the inbound webhook that the message was sent to.
    #[must_use]
    pub fn webhook(&self) -> InboundWebhookId {
        self.webhook
    }
}

/// Deduplication record of an inbound message.
///
/// The message was ingested, or its rejection was published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessedMessage {
    pub(crate) expires_at: Timestamp,
    /// True if the message was rejected: it may still be ingested.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_rejected: bool,
}

const NO_SUCH_WEBHOOK: Error = Error::not_found(EntityKind::InboundWebhook);

fn unauthenticated(reason: &'static str) -> Error {
    Error::Unauthenticated { reason }
}

/// # Messages to inbound webhooks
impl InboundWebhooks<'_> {
    /// Verifies the signature of a message to an inbound webhook, sent within five minutes of now.
    ///
    /// A valid signature grants nothing else: [`Self::ingest_message`] ingests the message.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] if the time is out of range or no signature is valid;
    /// [`Error::NotFound`] for an unknown inbound webhook or organisation;
    /// [`Error::InvalidRequest`] if the identifier of a signed message does not have 1 to 255
    /// visible ASCII characters, or contains a full stop.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../example.txt")]
    /// use knowledge_core::model::MemoryFilter;
    /// use knowledge_core::service::{InboundBatch, PageRequest, SignedMessage};
    /// # let new = NewInboundWebhook::builder().name("Help desk").build();
    /// # let webhook = service.inbound_webhooks().create(&owner, workspace, &new).await?;
    /// # let secret: SigningSecret = webhook.signing_secret.unwrap_or_default().parse()?;
    /// # let body = br#"{"memories": [{"title": "On call", "content": "Ask Ada."}]}"#.as_slice();
    /// # let (id, sent_at) = ("msg_1", service.env().now());
    /// # let (signature, timestamp) = (secret.sign(id, sent_at, body), sent_at.as_seconds());
    /// # let timestamp = timestamp.to_string();
    /// # let (id, signature) = (id.as_bytes(), signature.as_bytes());
    /// # let timestamp = timestamp.as_bytes();
    ///
    /// // The headers `webhook-id`, `webhook-timestamp` and `webhook-signature`, and the body.
    /// let message = SignedMessage { id, timestamp, signature, body };
    /// let verified =
    ///     service.inbound_webhooks().verify_message(org.id, webhook.id, &message).await?;
    /// let batch: InboundBatch = serde_json::from_slice(body)?;
    /// service.inbound_webhooks().ingest_message(&verified, &batch.memories).await?;
    /// let filter = MemoryFilter::builder().source_id(webhook.source_id).build();
    /// let page = PageRequest::default();
    /// let ingested = service.memories().list(&owner, workspace, &filter, &page).await?.data;
    /// assert_eq!(ingested[0].title.as_deref(), Some("On call"));
    ///
    /// let forged = SignedMessage { body: b"{}", ..message };
    /// assert!(
    ///     service.inbound_webhooks().verify_message(org.id, webhook.id, &forged).await.is_err()
    /// );
    /// # Ok(())
    /// # }
    /// ```
    pub async fn verify_message(
        self,
        org: OrgId,
        webhook: InboundWebhookId,
        message: &SignedMessage<'_>,
    ) -> Result<VerifiedMessage, Error> {
        let now = self.service.env().now();
        message.check_time(now)?;
        let mut reading = self.service.reading();
        let first = vec![keys::inbound_webhook_id(org, webhook), keys::org(org)];
        reading.prefetch(first, Vec::new()).await?;
        let (workspace, stored) = read_webhook(&mut reading, org, webhook).await?;
        let sealed: Vec<_> = stored.secrets_at(now).collect();
        let opened = sealed.iter();
        let opened =
            opened.map(|sealed| self.service.inner.sealer.signing_secret(sealed, webhook.0));
        let opened: Vec<_> = opened.collect::<Result<_, _>>()?;
        let secret = sealed[message.verify(&opened, now)?].clone();
        // Full stops separate what is signed: otherwise one signature would be valid for `a.1` sent
        // at 2, and for `a` sent at 1 with a body that begins with `2.`.
        let is_identifier = (1..=MESSAGE_ID_CHARS_MAX).contains(&message.id.len())
            && message
                .id
                .iter()
                .all(|byte| byte.is_ascii_graphic() && *byte != b'.');
        let id = std::str::from_utf8(message.id).ok();
        let id = id.filter(|_| is_identifier).ok_or_else(|| {
            let rule = format!(
                "must have 1 to {MESSAGE_ID_CHARS_MAX} visible ASCII characters without a full stop"
            );
            Error::invalid("webhook-id", ProblemCode::InvalidValue, rule)
        })?;
        Ok(VerifiedMessage {
            org,
            workspace,
            webhook,
            id: id.to_owned(),
            delegator: stored.delegator,
            source: stored.record.source_id,
            secret,
            client: ClientInfo::default(),
        })
    }

    /// Ingests the memories of a message, all or none.
    ///
    /// The rules are those of [`Memories::ingest`](crate::service::Memories::ingest). The memories
    /// belong to the source of the inbound webhook and are ingested as the member that it acts as.
    /// Those whose keys were erased are not stored.
    /// A message that was ingested within the last seven days has no further effect, whatever its
    /// content; that is not an error. The rejection of a message for its content is published, see
    /// [`Self::reject_message`].
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for invalid values; [`Error::NotFound`] or
    /// [`Error::Unauthenticated`] if the webhook was deleted or its secret replaced meanwhile;
    /// [`Error::Forbidden`] if the member was removed, if the webhook has ended with the credential
    /// that registered it, or if they do not permit `memory:create` there,
    /// `memory:update` if a memory changes, or to move one to the audience that it declares; [`Error::QuotaExceeded`], after which the same message
    /// is ingested as soon as there is room.
    pub async fn ingest_message(
        self,
        message: &VerifiedMessage,
        memories: &[NewMemory],
    ) -> Result<(), Error> {
        let result = self.service.ingest_once(message, memories).await;
        if let Err(rejection) = &result {
            self.reject_message(message, rejection).await?;
        }
        result
    }

    /// Publishes (`ingest.failed`) that a message was rejected for its content.
    ///
    /// The event has the identifier of the message and the code of the error; the content is not
    /// stored. Repetitions of the message within seven days are not published again, and one with
    /// valid content is ingested. An error other than [`Error::InvalidRequest`] is not published.
    ///
    /// # Errors
    /// Those of the store. It is not an error if the webhook was deleted meanwhile.
    pub async fn reject_message(
        self,
        message: &VerifiedMessage,
        rejection: &Error,
    ) -> Result<(), Error> {
        if !matches!(rejection, Error::InvalidRequest { .. }) {
            return Ok(());
        }
        self.service
            .transact(|mut transaction| async move {
                let now = self.service.env().now();
                let found = read_webhook(&mut transaction, message.org, message.webhook).await;
                let (workspace, webhook) = match found {
                    Ok((workspace, stored)) => (workspace, stored.record),
                    Err(Error::NotFound { .. }) => return Ok(transaction.done(())),
                    Err(error) => return Err(error),
                };
                let key = keys::inbound_message(message.org, message.webhook, &message.id);
                let before = transaction.get::<ProcessedMessage>(&key).await?;
                let outbox = Outbox::begin(&mut transaction, message.org, workspace, now).await?;
                if before.is_some_and(|before| now < before.expires_at) || !outbox.has_endpoints() {
                    return Ok(transaction.done(()));
                }
                let data = EventData::IngestFailed(IngestFailure {
                    error: rejection.code().to_owned(),
                    inbound_webhook_id: webhook.id,
                    message_id: message.id.clone(),
                    source_id: webhook.source_id,
                    workspace_id: workspace,
                });
                outbox.emit(&mut transaction, self.service.env(), data, None);
                self.service
                    .remember_message(&mut transaction, key, true, now);
                Ok(transaction.done(()))
            })
            .await
    }
}

impl KnowledgeService {
    /// Writes the deduplication record of a message, for as long as its sender may repeat it.
    fn remember_message(
        &self,
        transaction: &mut Transaction,
        key: Key,
        is_rejected: bool,
        now: Timestamp,
    ) {
        let expires_at = now.plus(INBOUND_MESSAGE_RETENTION);
        ScheduledTask::record(key.clone()).schedule(transaction, expires_at, self.env());
        let processed = ProcessedMessage {
            expires_at,
            is_rejected,
        };
        transaction.put(key, &processed);
    }

    async fn ingest_once(
        &self,
        message: &VerifiedMessage,
        memories: &[NewMemory],
    ) -> Result<(), Error> {
        check_batch(memories, &self.checks())?;
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let member = self
                .prefetch_message(&mut transaction, message, (memories, now))
                .await?;
            let (workspace, stored) =
                read_webhook(&mut transaction, message.org, message.webhook).await?;
            if workspace != message.workspace
                || !stored
                    .secrets_at(now)
                    .any(|secret| *secret == message.secret)
            {
                return Err(unauthenticated(
                    "the signing secret was replaced; use the new one",
                ));
            }
            let key = keys::inbound_message(message.org, message.webhook, &message.id);
            let before = transaction.get::<ProcessedMessage>(&key).await?;
            if before.is_some_and(|before| !before.is_rejected && now < before.expires_at) {
                return Ok(transaction.done(()));
            }
            let webhook = &stored.record;
            let caller = acting(&mut transaction, message.org, (&stored, member), now).await?;
            let row = keys::workspace(message.org, workspace);
            let found = transaction.get::<Workspace>(&row).await?;
            let found = found.ok_or(Error::not_found(EntityKind::Workspace))?;
            let held = caller.actions_in(&mut transaction, &[workspace]).await?[&workspace];
            let place = Resource::Workspace {
                id: workspace,
                held,
            };
            caller.authorize(Action::MemoryCreate, place)?;
            if caller.org.erases_source(webhook.source_id) {
                return Err(Error::Conflict);
            }
            let context = IngestContext {
                caller: &caller,
                workspace: &found,
                held,
                source: webhook.source_id,
                is_signed: true,
                revives: false,
                origin: Origin::default(),
            };
            let (limits, org) = (self.limits(), message.org);
            let quota = AuditQuota::read(&mut transaction, limits, org, now).await?;
            let operation = AuditedOperation::begin(&transaction, self.env(), now);
            let actor = Actor {
                webhook: Some(message.webhook),
                workspace: Some(workspace),
                ..Actor::new(&caller, message.client)
            };
            let audit = (operation, actor);
            self.ingest_batch(&mut transaction, context, audit, memories)
                .await?;
            quota.check(&transaction, limits, org, now)?;
            self.remember_message(&mut transaction, key, false, now);
            Ok(transaction.done(()))
        })
        .await
    }
}

impl KnowledgeService {
    /// Prefetches what ingesting the message reads.
    ///
    /// If the webhook has changed since the verification, more is read afterwards. Returns the
    /// member that the webhook acted as.
    async fn prefetch_message(
        &self,
        transaction: &mut Transaction,
        message: &VerifiedMessage,
        (memories, now): (&[NewMemory], Timestamp),
    ) -> Result<Option<Member>, Error> {
        let (org, workspace, source) = (message.org, message.workspace, message.source);
        let by_name = || by_source_key(org, workspace, source, memories);
        let prefetch = Prefetch::keys(by_name()).and_keys([
            keys::inbound_webhook_id(org, message.webhook),
            keys::inbound_webhook(org, workspace, message.webhook),
            keys::inbound_message(org, message.webhook, &message.id),
            keys::endpoint_sequence(org, workspace),
            keys::erasure_key(org),
            keys::usage(org, Quota::Memories),
            audit_counter(org, now),
        ]);
        let prefetch = prefetch.and_range(slugs_read(org));
        let known = |transaction: &Transaction| {
            let erased = self.erased_marks(transaction, org, (workspace, source), memories);
            known_memories(transaction, org, by_name()).and_keys(erased)
        };
        let login = (org, message.delegator, now);
        Principal::prefetch_for(transaction, login, workspace, prefetch, &known).await
    }
}

async fn read_webhook(
    transaction: &mut Transaction,
    org: OrgId,
    id: InboundWebhookId,
) -> Result<(WorkspaceId, Stored), Error> {
    let place = transaction
        .get::<WorkspaceId>(&keys::inbound_webhook_id(org, id))
        .await?;
    let Some(workspace) = place else {
        return Err(NO_SUCH_WEBHOOK);
    };
    let owner = keys::org(org);
    let owner = transaction.get::<Organization>(&owner).await?;
    if owner.is_none_or(|owner| owner.removing.contains(&workspace)) {
        return Err(NO_SUCH_WEBHOOK);
    }
    let key = keys::inbound_webhook(org, workspace, id);
    let stored = transaction.get::<Stored>(&key).await?;
    Ok((workspace, stored.ok_or(NO_SUCH_WEBHOOK)?))
}

/// Returns the principal on whose behalf a webhook acts, with its current permissions.
async fn acting(
    transaction: &mut Transaction,
    org: OrgId,
    (stored, member): (&Stored, Option<Member>),
    now: Timestamp,
) -> Result<Principal, Error> {
    let delegator = (stored.delegator, member);
    let found = Principal::acting_for(transaction, org, delegator, now).await;
    found.map_err(|error| match error {
        Error::Unauthenticated { .. } => Error::forbidden(
            "the member this webhook acts as was removed, or the credential it depends on has \
             ended; rotate the secret to act in its place",
        ),
        other => other,
    })
}
