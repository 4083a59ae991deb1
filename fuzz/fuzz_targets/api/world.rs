//! A small organisation, identical for every input.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use knowledge_core::access::CredentialKind;
use knowledge_core::api::Api;
use knowledge_core::env::Env;
use knowledge_core::model::{ReviewStatus, Timestamp};
use knowledge_core::service::{KnowledgeService, Options, SealingKey};
use knowledge_core::store::MemoryStore;
use knowledge_testing::requests::{
    new_memory, new_organization, new_recall, new_role, new_token, new_workspace, review,
};
use knowledge_testing::seed::Seed;
use uuid::Uuid;

/// A service, with the credentials and ids of its organisation.
pub(crate) struct World {
    pub(crate) api: Api,
    pub(crate) token: String,
    pub(crate) session: String,
    pub(crate) org_slug: &'static str,
    /// Ids of a workspace, a role, a source, a recall and some memories.
    pub(crate) ids: Vec<Uuid>,
}

impl World {
    pub(crate) async fn new() -> Result<Self, Box<dyn std::error::Error>> {
        // Pseudorandom bytes: distinct, and the same in every run.
        let state = AtomicU64::new(0x9E37_79B9_7F4A_7C15);
        let fill = move |buffer: &mut [u8]| {
            for byte in buffer {
                let next = state.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
                *byte = ((next ^ (next >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 56) as u8;
            }
        };
        let env = Env::new(|| Timestamp::from_millis(1_700_000_000_000), fill);
        let options = Options::new(SealingKey::new([7; 32]));
        let service = KnowledgeService::open(Arc::new(MemoryStore::new()), env, options).await?;
        let seed = Seed::new(&service, &new_organization("acme", "owner")).await?;
        let workspace = seed.workspace(&new_workspace("w")).await?.id;
        let secret = async |kind| -> Result<String, knowledge_core::Error> {
            let issued = seed.issue(&new_token(seed.founder.id, kind)).await?;
            Ok(issued.secret.expose().to_owned())
        };
        let token = secret(CredentialKind::Bearer).await?;
        let session = secret(CredentialKind::Session).await?;
        let source = seed.source("Wiki", "wiki").await?;
        let memories = [new_memory("Title"), new_memory("Title")];
        let memories = seed.ingest(workspace, source, &memories).await?;
        let approved = review(ReviewStatus::Approved);
        seed.bulk_update("approve", &memories, approved).await?;
        let recall = seed.recall(workspace, &new_recall(&memories)).await?;
        let role = seed.role(&new_role("role")).await?.id;
        let mut ids = vec![workspace.0, role.0, source.0, recall.0];
        ids.extend(memories.iter().map(|id| id.0));
        Ok(Self {
            api: Api::new(service),
            token,
            session,
            org_slug: "acme",
            ids,
        })
    }
}
