//! Posting to an inbound webhook: messages that are signed as Standard Webhooks 1.0.0 says.
//!
//! A signature is verified over the bytes that were sent, before anything is read from them. What comes in is taken in by
//! the member that the webhook acts as, with the actions that it has at that moment.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::KnowledgeService;
use super::events::Occasion;
use super::inbound::Stored;
use super::ingest::{Maker, NewMemory, check_batch};
use super::maintain::Due;
use super::sealing::Sealed;
use super::signing::SignedMessage;
use crate::access::{Credential, CredentialKind, Principal, needs};
use crate::error::{Error, ProblemCode};
use crate::limits::INBOUND_MESSAGE_RETENTION;
#[cfg(feature = "openapi")]
use crate::limits::INGEST_MEMORIES_MAX;
use crate::model::{EventType, InboundWebhookId, OrgId, Timestamp, WorkspaceId};
use crate::keys;
use crate::store::{Key, Transaction};

/// The longest identifier of a message, in characters.
const MESSAGE_ID_CHARS_MAX: usize = 255;

/// What senders post to an inbound webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct InboundBatch {
    /// 1 to 100 memories, no two with the same key.
    #[cfg_attr(feature = "openapi", schemars(length(min = 1, max = INGEST_MEMORIES_MAX)))]
    pub memories: Vec<NewMemory>,
}

/// A message whose signature is right: [`KnowledgeService::verify_message`] makes it, nothing else can.
#[derive(Clone, Debug)]
pub struct VerifiedMessage {
    org: OrgId,
    workspace: WorkspaceId,
    webhook: InboundWebhookId,
    id: String,
    /// The secret that it is signed with, which still has to count when the message takes effect.
    secret: Sealed,
}

/// That a message was taken in, or that its refusal was announced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TakenMessage {
    pub(super) expires_at: Timestamp,
    /// Whether it was refused: then it may still be taken in.
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
    /// Verifies that a message was sent by who knows the secret of an inbound webhook, within the last five minutes. It
    /// grants nothing else: [`KnowledgeService::take_message`] takes it in.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] where the time or every signature is wrong; [`Error::NotFound`] for an unknown inbound
    /// webhook or organisation; [`Error::InvalidRequest`] for the identifier of a signed message that has not 1 to 255
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

    /// Takes in the memories of a message, all or none, as [`KnowledgeService::ingest`] does: from the source of the
    /// inbound webhook, by the member that it acts as. A message that was taken in within the last seven days has no
    /// effect any more, whatever it says now; that is no error. What is refused for what it says is announced, see
    /// [`KnowledgeService::refuse_message`].
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for bad values; [`Error::NotFound`] and [`Error::Unauthenticated`] where the webhook or
    /// its secret went meanwhile; [`Error::Forbidden`] where the member is gone, or lacks `memory:create` there, or
    /// `memory:update` where a memory changes.
    pub async fn take_message(
        &self,
        message: &VerifiedMessage,
        memories: &[NewMemory],
    ) -> Result<(), Error> {
        let taken = self.take_once(message, memories).await;
        if let Err(refusal) = &taken {
            self.refuse_message(message, refusal).await?;
        }
        taken
    }

    /// Announces (`ingest.failed`) that a message was refused for what it says, to those who were there: which message, and
    /// the code of the refusal. What it says is kept nowhere. Its repetitions within seven days are not announced again, and
    /// one that says something better is taken in. What is refused for another reason than [`Error::InvalidRequest`] is not
    /// announced.
    ///
    /// # Errors
    /// Those of the store. That the webhook is gone meanwhile is none.
    pub async fn refuse_message(
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
            let before = transaction.read::<TakenMessage>(&key).await?;
            let occasion = Occasion::begin(&mut transaction, message.org, workspace, now).await?;
            if before.is_some_and(|before| now < before.expires_at) || !occasion.is_heard() {
                return transaction.done(());
            }
            let data = json!({
                "workspace_id": workspace,
                "source_id": webhook.source_id,
                "inbound_webhook_id": webhook.id,
                "message_id": message.id,
                "error": refusal.code(),
            });
            occasion.emit(&mut transaction, self.env(), EventType::IngestFailed, data);
            self.mark_message(&mut transaction, key, true, now);
            transaction.done(())
        })
        .await
    }

    /// Remembers a message for as long as its sender may repeat it.
    fn mark_message(
        &self,
        transaction: &mut Transaction,
        key: Key,
        is_refused: bool,
        now: Timestamp,
    ) {
        let expires_at = now.plus(INBOUND_MESSAGE_RETENTION);
        Due::record(key.clone()).schedule(transaction, expires_at, self.env());
        let taken = TakenMessage {
            expires_at,
            is_refused,
        };
        transaction.put(key, &taken);
    }

    async fn take_once(
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
                return Err(unauthenticated("the secret was replaced meanwhile"));
            }
            let taken = keys::inbound_message(message.org, message.webhook, &message.id);
            let before = transaction.read::<TakenMessage>(&taken).await?;
            if before.is_some_and(|before| !before.is_refused && now < before.expires_at) {
                return transaction.done(());
            }
            let webhook = &stored.record;
            let caller = acting(&mut transaction, message.org, &stored, now).await?;
            let place = caller
                .enter(&mut transaction, workspace, needs::TAKE_MESSAGE)
                .await?;
            let maker = Maker {
                caller: &caller,
                workspace: &place,
                source: webhook.source_id,
            };
            self.take_in(&mut transaction, maker, memories, now).await?;
            self.mark_message(&mut transaction, taken, false, now);
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

/// The member that a webhook acts as, as it is now.
async fn acting(
    transaction: &mut Transaction,
    org: OrgId,
    stored: &Stored,
    now: Timestamp,
) -> Result<Principal, Error> {
    let member = stored.record.acts_as;
    let trusted = Credential::Trusted { org, member };
    let recognised = Principal::recognise(transaction, &trusted, CredentialKind::Bearer, now).await;
    recognised.map_err(|error| match error {
        Error::Unauthenticated { .. } => Error::forbidden(
            "the member that this webhook acts as is gone: replace the secret to take its place",
        ),
        other => other,
    })
}
