//! Tests of searches: what they find, what they register, and how their index follows the store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use knowledge_core::env::Env;
use knowledge_core::model::{
    AuditReads, Candidate, MemoryChange, MemoryId, MemoryUpdate, RecallResults, RecallSearch,
    ReviewStatus,
};
use knowledge_core::service::{AuditAction, AuditFilter, Caller, KnowledgeService, PageRequest};
use knowledge_core::store::{Commit, CommitOutcome, Found, Read, Store, StoreError};
use knowledge_store::faults::FaultPlan;
use knowledge_testing::requests::{new_member, new_memory, with};

use crate::make::{MEMBER, VIEWER, audience, code, problem, review};
use crate::world::{Time, World};

fn by_words(query: &str) -> RecallSearch {
    RecallSearch::builder().query(query).build()
}

fn by_candidates(memories: &[MemoryId]) -> RecallSearch {
    let candidate = |id: &MemoryId| Candidate::builder().memory_id(*id).build();
    let candidates: Vec<Candidate> = memories.iter().map(candidate).collect();
    RecallSearch::builder().candidates(candidates).build()
}

/// Returns the memories that were found, best first.
fn ids(found: &RecallResults) -> Vec<MemoryId> {
    let found = found.results.iter();
    found.map(|memory| memory.memory_id).collect()
}

/// Adds approved memories with these texts.
async fn add(world: &World, texts: &[&str]) -> Vec<MemoryId> {
    let new: Vec<_> = texts
        .iter()
        .map(|text| with(new_memory("Note"), |new| new.content = (*text).to_owned()))
        .collect();
    let added = world.ingest_memories(world.source, &new).await.unwrap();
    let ids: Vec<MemoryId> = added.into_iter().filter_map(|memory| memory.id).collect();
    world.approve(&ids).await;
    ids
}

/// Returns memories in the order of their identifiers, in which equal scores are.
fn sorted(memories: &[MemoryId]) -> Vec<MemoryId> {
    let mut sorted = memories.to_vec();
    sorted.sort_unstable();
    sorted
}

/// Returns what the owner finds with these words, without registering it.
async fn found(world: &World, query: &str) -> Vec<MemoryId> {
    let search = RecallSearch::builder().query(query).record(false).build();
    ids(&world.search_recalls(&search).await.unwrap())
}

#[tokio::test]
async fn search_ranks_and_registers_what_it_returns() {
    let world = World::new().await;
    let texts = [
        "keys are rotated each week",
        "who rotates keys? keys!",
        "lunch at noon",
    ];
    let memories = add(&world, &texts).await;
    let found = world
        .search_recalls(&by_words("KEYS, please"))
        .await
        .unwrap();
    assert_eq!(ids(&found), [memories[1], memories[0]]);
    assert_eq!(found.results[0].content, "who rotates keys? keys!");
    assert!(found.results[0].score > found.results[1].score);
    let recall = world.get_recall(found.recall_id.unwrap()).await.unwrap();
    assert_eq!(
        (recall.query.as_str(), recall.memory_ids),
        ("KEYS, please", ids(&found))
    );

    let quiet = RecallSearch::builder().query("keys").record(false).build();
    let found = world.search_recalls(&quiet).await.unwrap();
    assert_eq!((found.recall_id, ids(&found).len()), (None, 2));
    let nothing = world.search_recalls(&by_words("dinner")).await.unwrap();
    assert_eq!((nothing.recall_id, nothing.results.len()), (None, 0));
}

#[tokio::test]
async fn candidates_keep_their_order_and_lose_what_the_caller_may_not_read() {
    let world = World::new().await;
    let memories = add(&world, &["a", "b", "c"]).await;
    let pending = world.memories(1).await[0];
    let viewer = world.caller(VIEWER).await;
    world
        .change(&memories[1..2], audience("team:core"))
        .await
        .unwrap();
    let named = [memories[2], pending, memories[1], memories[0], memories[2]];
    let found = world
        .by(&viewer)
        .search_recalls(&by_candidates(&named))
        .await
        .unwrap();
    assert_eq!(ids(&found), [memories[2], memories[0]]);
    assert!(found.results.iter().all(|memory| memory.score.is_none()));
    let none = world
        .by(&viewer)
        .search_recalls(&by_candidates(&[pending]))
        .await
        .unwrap();
    assert_eq!((none.recall_id, none.results.len()), (None, 0));
}

#[tokio::test]
async fn rankings_are_fused_by_reciprocal_ranks() {
    let world = World::new().await;
    let memories = add(&world, &["keys keys", "keys and locks and doors", "doors"]).await;
    let search = with(by_candidates(&[memories[2], memories[1]]), |search| {
        search.query = Some("keys".to_owned());
    });
    let found = world.search_recalls(&search).await.unwrap();
    let scores: Vec<f64> = found
        .results
        .iter()
        .filter_map(|memory| memory.score)
        .collect();
    // First of the one and absent from the other, or second of both.
    assert_eq!(ids(&found)[0], memories[1]);
    assert_eq!(scores, [1.0 / 62.0 + 1.0 / 62.0, 1.0 / 61.0, 1.0 / 61.0]);
}

#[tokio::test]
async fn search_rejects_what_it_cannot_answer() {
    let world = World::with(|options| options.limits.searched_memories_max = 1).await;
    let memories = add(&world, &["one", "two"]).await;
    let nothing = RecallSearch::builder().query(" ").build();
    assert_eq!(
        problem(world.search_recalls(&nothing).await),
        "query required"
    );
    for limit in [0, 51] {
        let search = with(by_words("one"), |search| search.limit = limit);
        assert_eq!(
            problem(world.search_recalls(&search).await),
            "limit invalid_value"
        );
    }
    let unnamed = RecallSearch::builder()
        .candidates(vec![Candidate::default()])
        .build();
    let unnamed = problem(world.search_recalls(&unnamed).await);
    assert_eq!(unnamed, "candidates[0].memory_id required");
    let too_many = problem(world.search_recalls(&by_words("one")).await);
    assert_eq!(too_many, "query limit_reached");
    let candidates = world.search_recalls(&by_candidates(&memories)).await;
    assert_eq!(ids(&candidates.unwrap()), memories);
}

/// Hidden memories change neither the order nor a score.
#[tokio::test]
async fn scores_are_those_of_what_the_caller_may_read() {
    let world = World::new().await;
    let texts = ["keys of the house", "a house with a garden", "keys"];
    let memories = add(&world, &texts).await;
    let viewer = world.caller(VIEWER).await;
    let search = by_words("keys house");
    let alone = world.by(&viewer).search_recalls(&search).await.unwrap();
    let hidden = add(&world, &["keys keys keys house", "house", "other words"]).await;
    world
        .change(&hidden[..2], audience("team:core"))
        .await
        .unwrap();
    let restricted = review(ReviewStatus::Rejected);
    world.change(&hidden[2..], restricted).await.unwrap();
    let among = world.by(&viewer).search_recalls(&search).await.unwrap();
    assert_eq!(among.results, alone.results);
    assert_eq!(ids(&alone).len(), memories.len());
    let new = with(new_member("grace", MEMBER), |new| {
        new.teams = vec!["core".to_owned()];
    });
    let member = world.trusted(world.add(&new).await);
    let all = world.by(&member).search_recalls(&search).await.unwrap();
    assert_eq!(ids(&all).len(), 5);
}

#[tokio::test]
async fn index_follows_every_change() {
    let world = World::new().await;
    let memories = add(&world, &["alpha", "alpha beta", "gamma"]).await;
    assert_eq!(found(&world, "alpha").await, memories[..2]);
    let edit = MemoryUpdate::builder().content("alpha at last").build();
    world.update_memory(memories[2], &edit, None).await.unwrap();
    // A changed text awaits review again.
    assert_eq!(found(&world, "alpha").await, memories[..2]);
    world.approve(&memories[2..]).await;
    assert_eq!(found(&world, "alpha").await.len(), 3);
    assert_eq!(found(&world, "gamma").await, []);
    world
        .change(&memories[..1], review(ReviewStatus::Pending))
        .await
        .unwrap();
    assert_eq!(found(&world, "alpha").await.len(), 2);
    world.delete_memory(memories[1]).await.unwrap();
    assert_eq!(found(&world, "alpha").await, memories[2..]);
    assert_eq!(found(&world, "beta").await, []);
}

/// A second process changes the same store; its changes are found at once.
#[tokio::test]
async fn index_follows_the_changes_of_other_processes() {
    let world = World::new().await;
    let other = world.served_with(FaultPlan::none()).await;
    let memories = add(&world, &["alpha", "beta"]).await;
    assert_eq!(found(&world, "alpha").await, memories[..1]);
    assert_eq!(found(&other, "alpha").await, memories[..1]);
    let more = add(&other, &["alpha"]).await;
    let both = sorted(&[memories[0], more[0]]);
    assert_eq!(found(&world, "alpha").await, both);
    world.delete_memory(memories[0]).await.unwrap();
    assert_eq!(found(&other, "alpha").await, more);
}

/// The log of changes is kept for a day; an index that is further behind is built again.
#[tokio::test]
async fn index_is_built_again_where_the_log_has_ended() {
    let world = World::new().await;
    let other = world.served_with(FaultPlan::none()).await;
    let memories = add(&world, &["alpha"]).await;
    assert_eq!(found(&other, "alpha").await, memories);
    let more = add(&world, &["alpha"]).await;
    world.time.pass(Duration::from_secs(3 * 24 * 60 * 60));
    while world
        .service
        .maintain(world.time.now())
        .await
        .unwrap()
        .has_more
    {}
    let contents = world.contents().await;
    let logged = contents
        .keys()
        .filter(|key| key.to_string().starts_with("memory_change/"));
    assert_eq!(logged.count(), 0);
    let both = sorted(&[memories[0], more[0]]);
    assert_eq!(found(&other, "alpha").await, both);
}

/// An index that is too large alone is refused, and built again later; candidates still work.
#[tokio::test]
async fn index_has_a_maximum_size() {
    let world = World::with(|options| options.limits.search_index_bytes_max = 1).await;
    let memories = add(&world, &["alpha"]).await;
    for _ in 0..2 {
        let refused = world.search_recalls(&by_words("alpha")).await;
        assert_eq!(problem(refused), "query limit_reached");
        assert!(
            world
                .search_recalls(&by_candidates(&memories))
                .await
                .is_ok()
        );
    }
    world.time.pass(Duration::from_secs(11 * 60));
    let (reads, refused) = (world.faults.counts().reads, by_words("alpha"));
    assert_eq!(
        problem(world.search_recalls(&refused).await),
        "query limit_reached"
    );
    assert!(
        world.faults.counts().reads > reads + 3,
        "it was built again"
    );
}

/// Of the indexes of two workspaces, there is room for one: the other is dropped, and built again
/// when it is needed.
#[tokio::test]
async fn indexes_share_a_maximum_size() {
    let world = World::with(|options| options.limits.search_index_bytes_max = 200_000).await;
    let sales = world.workspace("sales").await;
    let words: String = (0..2_000).map(|number| format!("alpha{number} ")).collect();
    let here = add(&world, &[&words]).await;
    let new = with(new_memory("There"), |new| new.content = words.clone());
    let there = world.ingest(sales, world.source, &[new]).await.unwrap();
    world.approve(&there).await;
    for _ in 0..2 {
        assert_eq!(found(&world, "alpha7").await, here);
        let search = RecallSearch::builder().query("alpha7").build();
        let recalls = world.service.recalls();
        let elsewhere = recalls.search(&world.owner, sales, &search).await.unwrap();
        assert_eq!(ids(&elsewhere), there);
    }
}

/// What a confidential text was read for is audited, with a recall or without.
#[tokio::test]
async fn search_audits_what_it_shows() {
    let world = World::with(|options| options.audit_reads = AuditReads::Confidential).await;
    let memory = world.confidential().await;
    world.approve(&[memory]).await;
    let reads = async || {
        let filter = AuditFilter::builder()
            .action(AuditAction::MemoryRead)
            .build();
        let page = PageRequest::default();
        world
            .list_audit_log(&filter, &page)
            .await
            .unwrap()
            .data
            .len()
    };
    for (record, count) in [(true, 1), (false, 2)] {
        let search = with(by_candidates(&[memory]), |search| search.record = record);
        assert_eq!(ids(&world.search_recalls(&search).await.unwrap()), [memory]);
        assert_eq!(reads().await, count, "{record}");
    }
    world.assert_whole().await;
}

/// A store whose reads take their time.
struct SlowStore {
    inner: Arc<dyn Store>,
    time: Time,
}

#[async_trait]
impl Store for SlowStore {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        self.time.pass(Duration::from_millis(700));
        self.inner.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        self.inner.commit(commit).await
    }
}

/// A call waits two seconds for the index; the next one goes on where it ended.
#[tokio::test]
async fn long_way_takes_several_calls() {
    let world = World::new().await;
    let memories = world.approved_memories(1_200).await;
    let store = Arc::new(SlowStore {
        inner: Arc::clone(&world.probe) as Arc<dyn Store>,
        time: world.time.clone(),
    });
    let (served, clock) = (Arc::clone(&store) as Arc<dyn Store>, world.time.clone());
    let env = Env::new(move || clock.now(), |buffer: &mut [u8]| buffer.fill(7));
    let service = KnowledgeService::open(served, env, world.options.clone())
        .await
        .unwrap();
    let search = RecallSearch::builder()
        .query("memory")
        .record(false)
        .build();
    let call = || {
        service
            .recalls()
            .search(&world.owner, world.workspace.id, &search)
    };
    let mut waited = 0;
    let found = loop {
        match call().await {
            Ok(found) => break found,
            error => assert_eq!(code(error), "unavailable"),
        }
        waited += 1;
    };
    assert!((2..30).contains(&waited), "{waited}");
    assert_eq!(ids(&found), sorted(&memories)[..10]);
    // So does catching up with many changes.
    let change = MemoryChange::builder().audience_tag("team:core".parse().unwrap());
    world
        .change(&memories[..1_000], change.build())
        .await
        .unwrap();
    let mut waited = 0;
    while let Err(error) = call().await {
        assert_eq!(error.code(), "unavailable");
        waited += 1;
    }
    assert!((2..30).contains(&waited), "{waited}");
    let left = ids(&call().await.unwrap());
    assert!(left.iter().all(|id| memories[1_000..].contains(id)));
    let by_candidates = by_candidates(&memories[..1]);
    let (caller, place): (&Caller, _) = (&world.owner, world.workspace.id);
    assert!(
        service
            .recalls()
            .search(caller, place, &by_candidates)
            .await
            .is_ok()
    );
}
