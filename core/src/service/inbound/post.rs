//! Posts to an inbound webhook: messages signed according to Standard Webhooks 1.0.0.
//!
//! A signature is verified over the bytes that were sent, before they are parsed. The memories are
//! ingested as the member that the webhook acts as, with the permissions that it has at that time.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::access::{Credential, CredentialKind, permissions};
use crate::error::{Error, ProblemCode};
use crate::keys;
use crate::limits::INBOUND_MESSAGE_RETENTION;
#[cfg(feature = "openapi")]
use crate::limits::INGEST_MEMORIES_MAX;
use crate::model::{EventType, InboundWebhookId, OrgId, Timestamp, WorkspaceId};
use crate::service::KnowledgeService;
use crate::service::inbound::manage::Stored;
use crate::service::kit::outbox::Outbox;
use crate::service::kit::principal::Principal;
use crate::service::kit::sealing::Sealed;
use crate::service::kit::signing::SignedMessage;
use crate::service::maintain::ScheduledTask;
use crate::service::memories::ingest::{IngestContext, NewMemory, check_batch};
use crate::store::{Key, Transaction};

/// Maximum length of the identifier of a message, in characters.
const MESSAGE_ID_CHARS_MAX: usize = 255;

/// A message to an inbound webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct InboundBatch {
    /// Memories, 1 to 100, with distinct keys.
    #[cfg_attr(feature = "openapi", schemars(length(min = 1, max = INGEST_MEMORIES_MAX)))]
    pub memories: Vec<NewMemory>,
}

/// A message with a valid signature. Only [`KnowledgeService::verify_message`] creates one.
#[derive(Clone, Debug)]
pub struct VerifiedMessage {
    org: OrgId,
    workspace: WorkspaceId,
    webhook: InboundWebhookId,
    id: String,
    /// Secret that signed it, which must still be valid when the message takes effect.
    secret: Sealed,
}

/// Deduplication record of an inbound message.
///
/// The message was ingested, or its rejection was published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessedMessage {
    pub(crate) expires_at: Timestamp,
    /// True if the message was rejected: it may still be ingested.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_refused: bool,
}

const NO_SUCH_WEBHOOK: Error = Error::NotFound {
    what: "inbound webhook",
};

fn unauthenticated(reason: &'static str) -> Error {
    Error::Unauthenticated { reason }
}

impl KnowledgeService {
    /// Verifies the signature of a message to an inbound webhook, sent within five minutes of now.
    ///
    /// A valid signature grants nothing else: [`KnowledgeService::ingest_message`] ingests the
    /// message.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] if the time is out of range or no signature is valid;
    /// [`Error::NotFound`] for an unknown inbound webhook or organisation;
    /// [`Error::InvalidRequest`] if the identifier of a signed message does not have 1 to 255
    /// visible ASCII characters.
    pub async fn verify_message(
        &self,
        org: OrgId,
        webhook: InboundWebhookId,
        message: &SignedMessage<'_>,
    ) -> Result<VerifiedMessage, Error> {
        let now = self.env().now();
        message.check_time(now)?;
        let mut reading = self.reading();
        let (workspace, stored) = read_webhook(&mut reading, org, webhook).await?;
        let sealed: Vec<_> = stored.secrets_at(now).collect();
        let opened = sealed.iter();
        let opened = opened.map(|sealed| self.inner.sealer.signing_secret(sealed, webhook.0));
        let opened: Vec<_> = opened.collect::<Result<_, _>>()?;
        let secret = sealed[message.verify(&opened, now)?].clone();
        let is_identifier = (1..=MESSAGE_ID_CHARS_MAX).contains(&message.id.len())
            && message.id.iter().all(u8::is_ascii_graphic);
        let id = std::str::from_utf8(message.id).ok();
        let id = id.filter(|_| is_identifier).ok_or_else(|| {
            let rule = format!("must have 1 to {MESSAGE_ID_CHARS_MAX} visible ASCII characters");
            Error::invalid("webhook-id", ProblemCode::InvalidValue, rule)
        })?;
        Ok(VerifiedMessage {
            org,
            workspace,
            webhook,
            id: id.to_owned(),
            secret,
        })
    }

    /// Ingests the memories of a message, all or none, as [`KnowledgeService::ingest`] does.
    ///
    /// They belong to the source of the inbound webhook and are ingested as the member that it acts
    /// as. A message that was ingested within the last seven days has no further effect, whatever
    /// its content; that is not an error. The rejection of a message for its content is published,
    /// see [`KnowledgeService::reject_message`].
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for invalid values; [`Error::NotFound`] or
    /// [`Error::Unauthenticated`] if the webhook was deleted or its secret replaced meanwhile;
    /// [`Error::Forbidden`] if the member was removed, or lacks `memory:create` there, or
    /// `memory:update` if a memory changes.
    pub async fn ingest_message(
        &self,
        message: &VerifiedMessage,
        memories: &[NewMemory],
    ) -> Result<(), Error> {
        let result = self.ingest_once(message, memories).await;
        if let Err(refusal) = &result {
            self.reject_message(message, refusal).await?;
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
        &self,
        message: &VerifiedMessage,
        refusal: &Error,
    ) -> Result<(), Error> {
        if !matches!(refusal, Error::InvalidRequest { .. }) {
            return Ok(());
        }
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let found = read_webhook(&mut transaction, message.org, message.webhook).await;
            let (workspace, webhook) = match found {
                Ok((workspace, stored)) => (workspace, stored.record),
                Err(Error::NotFound { .. }) => return transaction.done(()),
                Err(error) => return Err(error),
            };
            let key = keys::inbound_message(message.org, message.webhook, &message.id);
            let before = transaction.read::<ProcessedMessage>(&key).await?;
            let outbox = Outbox::begin(&mut transaction, message.org, workspace, now).await?;
            if before.is_some_and(|before| now < before.expires_at) || !outbox.has_endpoints() {
                return transaction.done(());
            }
            let data = json!({
                "workspace_id": workspace,
                "source_id": webhook.source_id,
                "inbound_webhook_id": webhook.id,
                "message_id": message.id,
                "error": refusal.code(),
            });
            outbox.emit(&mut transaction, self.env(), EventType::IngestFailed, data);
            self.remember_message(&mut transaction, key, true, now);
            transaction.done(())
        })
        .await
    }

    /// Writes the deduplication record of a message, for as long as its sender may repeat it.
    fn remember_message(
        &self,
        transaction: &mut Transaction,
        key: Key,
        is_refused: bool,
        now: Timestamp,
    ) {
        let expires_at = now.plus(INBOUND_MESSAGE_RETENTION);
        ScheduledTask::record(key.clone()).schedule(transaction, expires_at, self.env());
        let processed = ProcessedMessage {
            expires_at,
            is_refused,
        };
        transaction.put(key, &processed);
    }

    async fn ingest_once(
        &self,
        message: &VerifiedMessage,
        memories: &[NewMemory],
    ) -> Result<(), Error> {
        check_batch(memories, self.limits())?;
        self.transact(|mut transaction| async move {
            let now = self.env().now();
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
            let before = transaction.read::<ProcessedMessage>(&key).await?;
            if before.is_some_and(|before| !before.is_refused && now < before.expires_at) {
                return transaction.done(());
            }
            let webhook = &stored.record;
            let caller = acting(&mut transaction, message.org, &stored, now).await?;
            let workspace = caller
                .authorize_in(&mut transaction, workspace, permissions::INGEST_MESSAGE)
                .await?;
            let context = IngestContext {
                caller: &caller,
                workspace: &workspace,
                source: webhook.source_id,
            };
            self.ingest_memories(&mut transaction, context, memories, now)
                .await?;
            self.remember_message(&mut transaction, key, false, now);
            transaction.done(())
        })
        .await
    }
}

async fn read_webhook(
    transaction: &mut Transaction,
    org: OrgId,
    id: InboundWebhookId,
) -> Result<(WorkspaceId, Stored), Error> {
    let place = transaction
        .read::<WorkspaceId>(&keys::inbound_webhook_id(org, id))
        .await?;
    let Some(workspace) = place else {
        return Err(NO_SUCH_WEBHOOK);
    };
    let key = keys::inbound_webhook(org, workspace, id);
    let stored = transaction.read::<Stored>(&key).await?;
    Ok((workspace, stored.ok_or(NO_SUCH_WEBHOOK)?))
}

/// Authenticates the member that a webhook acts as, with its current permissions.
async fn acting(
    transaction: &mut Transaction,
    org: OrgId,
    stored: &Stored,
    now: Timestamp,
) -> Result<Principal, Error> {
    let member = stored.record.acts_as;
    let trusted = Credential::Trusted { org, member };
    let authenticated =
        Principal::authenticate(transaction, &trusted, CredentialKind::Bearer, now).await;
    authenticated.map_err(|error| match error {
        Error::Unauthenticated { .. } => Error::forbidden(
            "the member this webhook acts as was removed; rotate the secret to act in its place",
        ),
        other => other,
    })
}
