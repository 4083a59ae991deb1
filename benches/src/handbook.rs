//! Memories like those of a real workspace: long texts, source keys, some of them restricted.

use knowledge_core::limits::{BULK_MEMORIES_MAX, INGEST_MEMORIES_MAX};
use knowledge_core::model::{BulkUpdate, MemoryChange, MemoryId, ReviewStatus, SensitivityLabel};
use knowledge_core::service::{NewMemory, NewSource};

use crate::Tenant;

/// Size of a memory's content, in bytes.
pub const CONTENT_BYTES: usize = 300;
/// Words of the contents.
const WORDS: &str = "account answer budget change client contract customer decision delivery error \
    export feature handbook incident invoice key launch limit market meeting metric office owner \
    payment plan policy price process project queue refund release report request review role \
    security server support team ticket token update vendor version week";

/// Ingests memories in batches and approves them by bulk updates.
///
/// One in ten is confidential, one in five has a team as its audience.
///
/// # Panics
/// If the store fails.
pub async fn add_handbook(tenant: &Tenant, count: usize) {
    let ids = ingest(tenant, count).await;
    approve(tenant, &ids).await;
}

async fn ingest(tenant: &Tenant, count: usize) -> Vec<MemoryId> {
    let source = NewSource {
        name: "Wiki".to_owned(),
        kind: "wiki".to_owned(),
    };
    let source = tenant.service.create_source(&tenant.owner, &source).await;
    let source = source.expect("a source is created").id;
    let mut random = fastrand::Rng::with_seed(1);
    let mut ids = Vec::with_capacity(count);
    while ids.len() < count {
        let end = count.min(ids.len() + INGEST_MEMORIES_MAX);
        let batch: Vec<_> = (ids.len()..end)
            .map(|number| memory(number, &mut random))
            .collect();
        let ingested = tenant
            .service
            .ingest(&tenant.owner, tenant.workspace, source, &batch)
            .await
            .expect("a batch is ingested");
        ids.extend(ingested.iter().map(|memory| memory.id));
    }
    ids
}

fn memory(number: usize, random: &mut fastrand::Rng) -> NewMemory {
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut content = String::with_capacity(2 * CONTENT_BYTES);
    while content.len() < CONTENT_BYTES {
        content.push_str(words[random.usize(..words.len())]);
        content.push(' ');
    }
    content.truncate(CONTENT_BYTES);
    NewMemory {
        title: format!("Handbook page {number:06}"),
        content,
        source_key: Some(format!("handbook/page-{number:06}.md")),
        audience_tag: (random.u8(..5) == 0).then(|| "team:support".parse().expect("a label")),
        sensitivity_label: (random.u8(..10) == 0).then_some(SensitivityLabel::Confidential),
    }
}

async fn approve(tenant: &Tenant, ids: &[MemoryId]) {
    for (number, part) in ids.chunks(BULK_MEMORIES_MAX).enumerate() {
        let key = format!("approve-{number}").parse().expect("a key");
        let update = BulkUpdate {
            memory_ids: part.to_vec(),
            change: MemoryChange {
                review_status: Some(ReviewStatus::Approved),
                ..MemoryChange::default()
            },
        };
        let result = tenant
            .service
            .bulk_update(&tenant.owner, &key, &update)
            .await;
        let result = result.expect("the update is processed");
        assert_eq!(result.summary.succeeded as usize, part.len());
    }
}
