//! Memories like those of a real workspace: long texts, source keys, some of them restricted.

use knowledge_core::limits::BULK_MEMORIES_MAX;
use knowledge_core::model::{MemoryChange, MemoryId, ReviewStatus, SensitivityLabel};
use knowledge_core::service::NewMemory;
use knowledge_testing::requests::{new_memory, review, with};

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
    let mut random = fastrand::Rng::with_seed(1);
    let memories = (0..count).map(|number| memory(number, &mut random));
    let mut memories: Vec<NewMemory> = memories.collect();
    // The owner, who is in no team, reviews what it may read; then the teams get their memories.
    let of_team: Vec<bool> = memories
        .iter_mut()
        .map(|memory| memory.audience_tag.take().is_some())
        .collect();
    let ids = tenant.ingest(memories).await;
    for (number, part) in ids.chunks(BULK_MEMORIES_MAX).enumerate() {
        let (key, approved) = (format!("approve-{number}"), review(ReviewStatus::Approved));
        let result = tenant.seed.bulk_update(&key, part, approved).await;
        let result = result.expect("the update is processed");
        assert_eq!(result.summary.succeeded as usize, part.len());
    }
    let of_team = ids.iter().zip(of_team).filter(|(_, of_team)| *of_team);
    let of_team: Vec<MemoryId> = of_team.map(|(id, _)| *id).collect();
    for (number, part) in of_team.chunks(BULK_MEMORIES_MAX).enumerate() {
        let team = "team:support".parse().expect("a label");
        let shared = MemoryChange::builder().audience_tag(team).build();
        let key = format!("team-{number}");
        let result = tenant.seed.bulk_update(&key, part, shared).await;
        let result = result.expect("the update is processed");
        assert_eq!(result.summary.succeeded as usize, part.len());
    }
}

fn memory(number: usize, random: &mut fastrand::Rng) -> NewMemory {
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut content = String::with_capacity(2 * CONTENT_BYTES);
    while content.len() < CONTENT_BYTES {
        content.push_str(words[random.usize(..words.len())]);
        content.push(' ');
    }
    content.truncate(CONTENT_BYTES);
    with(new_memory(&format!("Handbook page {number:06}")), |new| {
        new.content = content;
        new.source_key = Some(format!("handbook/page-{number:06}.md"));
        new.audience_tag = (random.u8(..5) == 0).then(|| "team:support".parse().expect("a label"));
        new.sensitivity_label = (random.u8(..10) == 0).then_some(SensitivityLabel::Confidential);
    })
}
