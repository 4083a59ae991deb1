//! Senders of messages to inbound webhooks. A library of the Standard Webhooks project signs them.

use knowledge_core::Error;
use knowledge_core::internals::keys;
use knowledge_core::model::{
    InboundWebhookId, MemoryContent, MemoryId, MemoryLabels, NewInboundWebhook, OrgId, SourceId,
    Timestamp,
};
use knowledge_core::service::{Caller, NewMemory, SignedMessage, VerifiedMessage};
use standardwebhooks::Webhook as Signer;

use crate::make::new_memory;
use crate::world::World;
use knowledge_testing::requests::with;

/// A client with the URL and the secret of an inbound webhook.
pub(crate) struct Sender {
    pub(crate) org: OrgId,
    pub(crate) webhook: InboundWebhookId,
    pub(crate) source: SourceId,
    pub(crate) secret: String,
}

/// A signed message.
#[derive(Clone)]
pub(crate) struct Sent {
    pub(crate) id: String,
    pub(crate) timestamp: String,
    pub(crate) signature: String,
    pub(crate) body: &'static [u8],
}

const BODY: &[u8] = br#"{"memories": []}"#;

impl Sent {
    pub(crate) async fn verify(
        &self,
        world: &World,
        to: &Sender,
    ) -> Result<VerifiedMessage, Error> {
        let message = SignedMessage {
            id: self.id.as_bytes(),
            timestamp: self.timestamp.as_bytes(),
            signature: self.signature.as_bytes(),
            body: self.body,
        };
        world
            .service
            .inbound_webhooks()
            .verify_message(to.org, to.webhook, &message)
            .await
    }
}

impl Sender {
    pub(crate) async fn registered_by(world: &World, caller: &Caller) -> Self {
        let new = NewInboundWebhook::builder().name("Forms").build();
        let made = world.by(caller).create_inbound(&new).await.unwrap();
        Self {
            org: made.org_id,
            webhook: made.id,
            source: made.source_id,
            secret: made.signing_secret.unwrap(),
        }
    }

    pub(crate) async fn new(world: &World) -> Self {
        Self::registered_by(world, &world.owner).await
    }

    fn sign_at(&self, id: &str, at: Timestamp) -> Sent {
        let seconds = at.as_millis() / 1_000;
        let signer = Signer::new(&self.secret).unwrap();
        Sent {
            id: id.to_owned(),
            timestamp: seconds.to_string(),
            signature: signer.sign(id, seconds, BODY).unwrap(),
            body: BODY,
        }
    }

    pub(crate) fn sign(&self, world: &World, id: &str) -> Sent {
        self.sign_at(id, world.time.now())
    }

    pub(crate) async fn verified(&self, world: &World, id: &str) -> VerifiedMessage {
        self.sign(world, id).verify(world, self).await.unwrap()
    }

    /// Posts a message with these memories.
    pub(crate) async fn post(
        &self,
        world: &World,
        id: &str,
        memories: &[NewMemory],
    ) -> Result<(), Error> {
        let verified = self.sign(world, id).verify(world, self).await?;
        world
            .service
            .inbound_webhooks()
            .ingest_message(&verified, memories)
            .await
    }

    /// Posts a message with one memory of this title.
    pub(crate) async fn post_one(&self, world: &World, id: &str, title: &str) -> Result<(), Error> {
        self.post(world, id, &[new_memory(title)]).await
    }

    /// Rotates the secret; the previous one is valid for another day.
    pub(crate) async fn rotate(&mut self, world: &World, caller: &Caller) -> String {
        let rotated = world.by(caller).rotate_inbound(self.webhook).await.unwrap();
        std::mem::replace(&mut self.secret, rotated.signing_secret)
    }
}

/// Returns the memories that the webhook ingested, by title.
pub(crate) async fn memories(world: &World, from: &Sender) -> Vec<(MemoryLabels, MemoryContent)> {
    let mut found = Vec::new();
    for (key, value) in world.contents().await {
        if !keys::memories(world.org.id).contains(&key) {
            continue;
        }
        let labels: MemoryLabels = serde_json::from_slice(&value).unwrap();
        if labels.source_id == from.source {
            let id = MemoryId(keys::last_id(&key).unwrap());
            let content: Option<MemoryContent> = world.read(&keys::content(world.org.id, id)).await;
            let content = content.unwrap();
            found.push((labels, content));
        }
    }
    found.sort_by(|(_, a), (_, b)| a.title.cmp(&b.title));
    found
}

pub(crate) async fn titles(world: &World, from: &Sender) -> Vec<String> {
    let found = memories(world, from).await;
    found.into_iter().map(|(_, memory)| memory.title).collect()
}

pub(crate) fn keyed(title: &str) -> NewMemory {
    with(new_memory(title), |new| {
        new.source_key = Some("ticket-7".to_owned());
    })
}
