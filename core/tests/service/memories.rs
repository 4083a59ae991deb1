//! Tests of reading and listing memories.

use std::collections::BTreeSet;

use knowledge_core::access::Action;
use knowledge_core::internals::keys;
use knowledge_core::limits::PAGE_RECORDS_MAX;
use knowledge_core::model::{
    MemoryChange, MemoryFilter, MemoryId, MemorySummary, MemoryUpdate, ReviewStatus,
    SensitivityLabel, WorkspaceId,
};
use knowledge_core::service::{Caller, Cursor, PageRequest};
use knowledge_store::faults::FaultPlan;
use serde_json::json;
use uuid::Uuid;

use crate::make::{
    MEMBER, VIEWER, actions, audience, code, in_workspaces, new_memory, page_at, review,
    sensitivity,
};
use crate::world::World;
use knowledge_testing::requests::with;

async fn list(world: &World, caller: &Caller, filter: &MemoryFilter) -> Vec<MemorySummary> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = PageRequest::builder().limit(7).maybe_cursor(cursor).build();
        let page = world.by(caller).list_memories(filter, &page).await.unwrap();
        found.extend(page.data);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return found;
        }
    }
}

fn ids(found: &[MemorySummary]) -> BTreeSet<MemoryId> {
    found.iter().map(|memory| memory.id).collect()
}

/// Returns the memories whose titles are shown.
fn titled(found: &[MemorySummary]) -> BTreeSet<MemoryId> {
    let titled = found.iter().filter(|memory| memory.title.is_some());
    titled.map(|memory| memory.id).collect()
}

async fn relabel(world: &World, ids: &[MemoryId], change: MemoryChange) {
    let result = world.change(ids, change).await.unwrap();
    assert_eq!(result.summary.failed, 0);
}

#[tokio::test]
async fn memories_are_filtered_by_each_label_and_all_labels() {
    let world = World::new().await;
    let memories = world.memories(20).await;
    let everything: BTreeSet<_> = memories.iter().copied().collect();
    let drive = world.source("Drive", "drive").await.unwrap();
    relabel(&world, &memories[..10], audience("org:acme")).await;
    let secret = sensitivity(SensitivityLabel::Confidential);
    relabel(&world, &memories[5..12], secret).await;
    relabel(&world, &memories[8..14], review(ReviewStatus::Rejected)).await;
    let moved = MemoryChange::builder().source_id(drive).build();
    relabel(&world, &memories[9..15], moved).await;

    let by_audience = MemoryFilter::builder()
        .audience_tag("org:acme".parse().unwrap())
        .build();
    let by_sensitivity = MemoryFilter::builder()
        .sensitivity_label(SensitivityLabel::Confidential)
        .build();
    let by_review = MemoryFilter::builder()
        .review_status(ReviewStatus::Rejected)
        .build();
    let by_source = MemoryFilter::builder().source_id(drive).build();
    let by_all = MemoryFilter::builder()
        .maybe_audience_tag(by_audience.audience_tag.clone())
        .maybe_sensitivity_label(by_sensitivity.sensitivity_label)
        .maybe_review_status(by_review.review_status)
        .maybe_source_id(by_source.source_id)
        .build();
    for (filter, expected) in [
        (MemoryFilter::default(), 0..20),
        (by_audience, 0..10),
        (by_sensitivity, 5..12),
        (by_review, 8..14),
        (by_source, 9..15),
        (by_all, 9..10),
    ] {
        let expected: BTreeSet<_> = memories[expected].iter().copied().collect();
        let found = list(&world, &world.owner, &filter).await;
        assert_eq!(ids(&found), expected, "{filter:?}");
        assert_eq!(found.len(), expected.len(), "each once: {filter:?}");
    }
    let elsewhere = world.workspace("sales").await;
    world.memories_in(elsewhere, 1).await;
    let here = list(&world, &world.owner, &MemoryFilter::default()).await;
    assert_eq!(ids(&here), everything);
}

#[tokio::test]
async fn memory_shows_its_content_and_labels() {
    let world = World::new().await;
    let new = with(new_memory("Note"), |new| {
        new.source_key = Some("page/1".to_owned());
        new.sensitivity_label = Some(SensitivityLabel::Confidential);
    });
    let batch = [new];
    let workspace = world.workspace.id;
    let ingested = world.ingest_memories(world.source, &batch).await;
    let id = ingested.unwrap()[0].id.unwrap();
    let found = world.get_memory(id).await.unwrap();
    let (memory, shown) = (&found.value.summary, &found.value);
    assert_eq!((memory.id, memory.workspace_id), (id, workspace));
    assert_eq!(memory.source_id, world.source);
    assert_eq!(memory.origin_source_id, world.source);
    assert_eq!(memory.source_key.as_deref(), Some("page/1"));
    assert_eq!(memory.audience_tag, world.workspace.audience);
    assert_eq!(memory.sensitivity_label, SensitivityLabel::Confidential);
    assert_eq!(memory.review_status, ReviewStatus::Pending);
    assert_eq!(memory.title.as_deref(), Some("Note"));
    assert_eq!(shown.content.as_deref(), Some("What Note says."));
    assert_eq!(memory.created_by, world.owner_id);
    let now = world.time.now();
    assert_eq!((memory.created_at, memory.updated_at), (now, now));
    let listed = list(&world, &world.owner, &MemoryFilter::default()).await;
    assert_eq!(listed, std::slice::from_ref(memory));

    // The tag depends on the response, so it changes with a label and with the caller.
    relabel(&world, &[id], review(ReviewStatus::Approved)).await;
    let relabelled = world.get_memory(id).await.unwrap();
    assert_ne!(relabelled.etag, found.etag);
    let member = world.caller(MEMBER).await;
    let theirs = world.by(&member).get_memory(id).await.unwrap();
    assert_ne!(theirs.etag, relabelled.etag);
}

/// One memory of each kind, and the parts of it that each caller sees.
#[tokio::test]
async fn labels_decide_which_memories_exist_and_are_readable() {
    let world = World::new().await;
    let memories = world.approved_memories(5).await;
    let [plain, confidential, restricted, team, elsewhere] = memories[..] else {
        panic!("five");
    };
    let sales = world.workspace("sales").await;
    relabel(
        &world,
        &[confidential],
        sensitivity(SensitivityLabel::Confidential),
    )
    .await;
    relabel(
        &world,
        &[restricted],
        sensitivity(SensitivityLabel::Restricted),
    )
    .await;
    relabel(&world, &[team], audience("team:core")).await;
    // A label for another workspace, in which each unscoped member works.
    relabel(&world, &[elsewhere], audience("workspace:sales")).await;

    let (read, update, share) = (
        Action::MemoryRead,
        Action::MemoryUpdate,
        Action::MemoryShare,
    );
    let confidentially = Action::MemoryReadConfidential;
    let restrictedly = Action::MemoryReadRestricted;
    let all = [plain, confidential, restricted, team, elsewhere];
    let covered = [plain, confidential, restricted, elsewhere];
    let cases: [(&[Action], &[MemoryId], &[MemoryId]); 6] = [
        (&[read], &covered, &[plain, elsewhere]),
        (
            &[read, confidentially],
            &covered,
            &[plain, confidential, elsewhere],
        ),
        (&[read, confidentially, restrictedly], &covered, &covered),
        (&[read, update], &covered, &[plain, elsewhere]),
        (&[share], &all, &[]),
        (&[read, share], &all, &[plain, elsewhere]),
    ];
    for (held, seen, whole) in cases {
        let caller = world.caller_who_may(actions(held)).await;
        let found = list(&world, &caller, &MemoryFilter::default()).await;
        let expected: BTreeSet<_> = seen.iter().copied().collect();
        assert_eq!(ids(&found), expected, "{held:?}");
        let expected: BTreeSet<_> = whole.iter().copied().collect();
        assert_eq!(titled(&found), expected, "{held:?}");
        for id in all {
            let found = world.by(&caller).get_memory(id).await;
            if seen.contains(&id) {
                let memory = found.unwrap().value;
                assert_eq!(memory.content.is_some(), whole.contains(&id), "{held:?}");
                assert_eq!(memory.summary.title.is_some(), memory.content.is_some());
            } else {
                assert_eq!(code(found), "not_found", "{held:?}");
            }
        }
    }
    // The label of the other workspace does not cover a credential that excludes this workspace.
    let scope = in_workspaces(&[world.workspace.id]);
    let member = world.member(VIEWER).await;
    let token = world.token(member, scope).await;
    let scoped = Caller::from(token.secret.clone());
    let found = list(&world, &scoped, &MemoryFilter::default()).await;
    assert!(!ids(&found).contains(&elsewhere));
    let elsewhere = world.memories_in(sales, 1).await;
    world.approve(&elsewhere).await;
    let found = world.by(&scoped).get_memory(elsewhere[0]).await;
    assert_eq!(code(found), "not_found");
}

/// The current labels decide what is shown, not those of a moment before.
#[tokio::test]
async fn memory_list_hides_memory_relabelled_between_two_reads() {
    let world = World::new().await;
    let id = world.memories(1).await[0];
    let reader = world.caller(MEMBER).await;
    let meanwhile = async |change: MemoryChange, filter: &MemoryFilter| {
        let (service, owner) = (world.service.clone(), world.owner.clone());
        let update = MemoryUpdate::builder()
            .title("Layoffs")
            .change(change)
            .build();
        let content = keys::content(world.org.id, id);
        world.probe.before_read(content, async move {
            let updated = service.memories().update(&owner, id, &update, None).await;
            updated.unwrap();
        });
        let found = list(&world, &reader, filter).await;
        assert!(world.probe.has_happened());
        found
    };
    let everything = MemoryFilter::default();
    let found = meanwhile(sensitivity(SensitivityLabel::Restricted), &everything).await;
    assert_eq!(ids(&found), BTreeSet::from([id]));
    assert_eq!(titled(&found), BTreeSet::new());
    let restricted = MemoryFilter::builder()
        .sensitivity_label(SensitivityLabel::Restricted)
        .build();
    let found = meanwhile(sensitivity(SensitivityLabel::Confidential), &restricted).await;
    assert_eq!(found, [], "the filter holds too");
    let found = meanwhile(audience("team:core"), &everything).await;
    assert_eq!(found, [], "and so does the audience");
}

#[tokio::test]
async fn mcp_key_reads_memories_of_its_audience() {
    let world = World::new().await;
    let memories = world.approved_memories(2).await;
    relabel(&world, &memories[..1], audience("org:acme")).await;
    let key = world.mcp_key_for("org:acme").await;
    let key = Caller::from(key.secret.clone().unwrap());
    let found = list(&world, &key, &MemoryFilter::default()).await;
    assert_eq!(ids(&found), memories[..1].iter().copied().collect());
    assert!(world.by(&key).get_memory(memories[0]).await.is_ok());
    let other = world.by(&key).get_memory(memories[1]).await;
    assert_eq!(code(other), "not_found");
}

#[tokio::test]
async fn memory_read_requires_right_to_read_or_share() {
    let world = World::new().await;
    let memory = world.approved_memories(1).await[0];
    let caller = world.caller_who_may(actions(&[Action::MemoryUpdate])).await;
    let page = PageRequest::default();
    let filter = MemoryFilter::default();
    let listed = world.by(&caller).list_memories(&filter, &page).await;
    assert_eq!(code(listed), "forbidden");
    assert_eq!(
        code(world.by(&caller).get_memory(memory).await),
        "forbidden"
    );
    // A memory that they may not know of is not found.
    relabel(&world, &[memory], audience("team:core")).await;
    assert_eq!(
        code(world.by(&caller).get_memory(memory).await),
        "not_found"
    );
    let unknown = MemoryId(Uuid::nil());
    assert_eq!(code(world.get_memory(unknown).await), "not_found");
    let nowhere = WorkspaceId(Uuid::nil());
    let listed = world.within(nowhere).list_memories(&filter, &page).await;
    assert_eq!(code(listed), "not_found");
}

/// A page of a filter that matches little goes on to the first match, however far it is.
#[tokio::test]
async fn memory_page_is_empty_only_at_the_end() {
    let world = World::new().await;
    let count = PAGE_RECORDS_MAX + 600;
    let last = world.memories(count).await.into_iter().max().unwrap();
    relabel(&world, &[last], sensitivity(SensitivityLabel::Confidential)).await;
    let filter = |sensitivity| {
        MemoryFilter::builder()
            .sensitivity_label(sensitivity)
            .build()
    };
    let page = page_at(Some(100), None);
    let wanted = filter(SensitivityLabel::Confidential);
    let found = world.list_memories(&wanted, &page).await.unwrap();
    let ids: Vec<MemoryId> = found.data.iter().map(|memory| memory.id).collect();
    assert_eq!(ids, [last]);
    world.probe.take_reads();
    let none = filter(SensitivityLabel::Restricted);
    let found = world.list_memories(&none, &page).await.unwrap();
    assert_eq!((found.data, found.next_cursor), (Vec::new(), None));
    assert!(
        !world.probe.take_reads().touch("content"),
        "nothing is shown"
    );
}

/// Filters by review status and by source cost what they find.
#[tokio::test]
async fn filters_by_review_and_source_read_only_what_they_find() {
    let world = World::new().await;
    let mut ids = world.memories(600).await;
    ids.sort();
    let other = world.source("Drive", "drive").await.unwrap();
    let (moved, rejected, approved) = (&ids[..3], &ids[3..5], &ids[5..6]);
    let source = MemoryChange::builder().source_id(other).build();
    relabel(&world, moved, source).await;
    relabel(&world, rejected, review(ReviewStatus::Rejected)).await;
    relabel(&world, approved, review(ReviewStatus::Approved)).await;
    // What is deleted or changed again leaves no mark.
    relabel(&world, &ids[6..8], review(ReviewStatus::Rejected)).await;
    relabel(&world, &ids[6..7], review(ReviewStatus::Pending)).await;
    world.delete_memory(ids[7]).await.unwrap();
    let of_status = |status| MemoryFilter::builder().review_status(status).build();
    let of_both = MemoryFilter::builder().source_id(other);
    let of_both = of_both.review_status(ReviewStatus::Pending).build();
    for (filter, expected) in [
        (of_status(ReviewStatus::Rejected), rejected),
        (of_status(ReviewStatus::Approved), approved),
        (MemoryFilter::builder().source_id(other).build(), moved),
    ] {
        world.probe.take_reads();
        let page = page_at(Some(100), None);
        let found = world.list_memories(&filter, &page).await.unwrap();
        let reads = world.probe.take_reads().count();
        let found: Vec<MemoryId> = found.data.iter().map(|memory| memory.id).collect();
        assert_eq!(found, expected, "{filter:?}");
        assert!(reads < 60, "{filter:?}: {reads}");
    }
    let found = list(&world, &world.owner, &of_both).await;
    assert_eq!(found.len(), moved.len());
    let pending = list(&world, &world.owner, &of_status(ReviewStatus::Pending)).await;
    assert_eq!(pending.len(), 600 - 2 - 1 - 1);
    world.assert_whole().await;
}

/// A cursor is bound to the filter of its list.
#[tokio::test]
async fn memory_cursor_is_rejected_with_another_filter() {
    let world = World::new().await;
    world.memories(3).await;
    let page = async |filter: &MemoryFilter, cursor: Option<Cursor>| {
        let request = PageRequest::builder().limit(1).maybe_cursor(cursor).build();
        world.list_memories(filter, &request).await
    };
    let pending = MemoryFilter::builder()
        .review_status(ReviewStatus::Pending)
        .build();
    let first = page(&pending, None).await.unwrap();
    let other = page(&MemoryFilter::default(), first.next_cursor).await;
    assert_eq!(crate::make::problem(other), "cursor invalid_value");
}

/// Memories that the caller may not know of change neither a page nor a cursor.
#[tokio::test]
async fn hidden_memories_change_no_page_and_no_cursor() {
    let world = World::new().await;
    let mut memories = world.memories(40).await;
    memories.sort();
    // They are at the beginning, at the end, and alone and in runs in between.
    let is_hidden = |place: usize| !(3..30).contains(&place) || place.is_multiple_of(4);
    let places = || memories.iter().copied().enumerate();
    let hidden = places().filter(|(place, _)| is_hidden(*place));
    let hidden: Vec<_> = hidden.map(|(_, id)| id).collect();
    let approved = places().filter(|(place, _)| place % 5 != 0);
    let approved: Vec<_> = approved.map(|(_, id)| id).collect();
    relabel(&world, &approved, review(ReviewStatus::Approved)).await;
    relabel(&world, &hidden, audience("team:core")).await;
    let viewer = world.caller(VIEWER).await;
    let without = world.copy(FaultPlan::none()).await;
    for id in &hidden {
        without.delete_memory(*id).await.unwrap();
    }
    let approved = MemoryFilter::builder()
        .review_status(ReviewStatus::Approved)
        .build();
    for filter in [MemoryFilter::default(), approved] {
        let all = list(&world, &viewer, &filter).await.len();
        for limit in 1..=all + 1 {
            let (mut cursor, mut pages) = (None, 0);
            loop {
                let request = page_at(Some(limit), cursor);
                let page = async |of: &World| {
                    let workspace = of.workspace.id;
                    let page = of
                        .service
                        .memories()
                        .list(&viewer, workspace, &filter, &request);
                    page.await.unwrap()
                };
                let found = page(&world).await;
                let other = page(&without).await;
                assert_eq!(json!(found).to_string(), json!(other).to_string());
                pages += 1;
                cursor = found.next_cursor;
                if cursor.is_none() {
                    break;
                }
                assert_eq!(found.data.len(), limit, "the page is full");
            }
            assert_eq!(pages, all.div_ceil(limit), "{limit} a page");
        }
    }
}

/// Hidden memories are skipped in growing batches, without reading their contents.
#[tokio::test]
async fn memory_page_skips_hidden_memories_in_batches() {
    let world = World::new().await;
    let mut memories = world.approved_memories(900).await;
    memories.sort();
    let (hidden, shown) = memories.split_at(895);
    relabel(&world, hidden, audience("team:core")).await;
    let viewer = world.caller(VIEWER).await;
    let calls = world.faults.counts().reads;
    world.probe.take_reads();
    let request = PageRequest::builder().limit(7).build();
    let filter = MemoryFilter::default();
    let page = world.by(&viewer).list_memories(&filter, &request);
    let page = page.await.unwrap();
    let found: Vec<_> = page.data.iter().map(|memory| memory.id).collect();
    assert_eq!((found.as_slice(), page.next_cursor), (shown, None));
    // Eight records at first, then twice as many each time, each in two reads.
    assert!(world.faults.counts().reads - calls < 20);
    let reads = world.probe.take_reads();
    let contents = reads
        .keys
        .iter()
        .filter(|key| key.as_bytes().starts_with(b"content/"));
    assert_eq!(contents.count(), 8 + shown.len());
}
