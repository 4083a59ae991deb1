//! Tests of what erasures hide before everything is removed.

use knowledge_core::internals::keys;
use knowledge_core::model::{
    AccessCheck, ChatId, CitationFilter, Erasure, ErasureStatus, MemoryChange, MemoryFilter,
    MemoryId, MemoryUpdate, NewErasure, Organization, RecallId, RecallSearch, ReviewStatus,
    SensitivityLabel, SourceId, SubscriptionId,
};
use knowledge_core::service::{Caller, IngestOutcome, NewSource, PageRequest};
use knowledge_store::faults::{CommitFault, FaultPlan};

use crate::make::{ADMIN, MEMBER, code, create_memory, new_chat, new_memory, new_recall, review};
use crate::world::World;
use knowledge_testing::requests::with;

/// Number of memories that need a second step.
const MEMORIES: usize = 201;

/// A world with memories of two sources and two members, and what was made from them.
struct Scene {
    world: World,
    source: SourceId,
    callers: Vec<Caller>,
    /// Member to erase, one of the callers.
    member: Caller,
    memories: Vec<MemoryId>,
    recalls: Vec<RecallId>,
    /// Subscriptions of the owner to the recalls.
    subscriptions: Vec<SubscriptionId>,
    chats: Vec<ChatId>,
    /// Requests of the scopes.
    requests: Vec<NewErasure>,
}

impl Scene {
    async fn new() -> Self {
        let world = World::with_endpoint().await;
        let id = world.member(MEMBER).await;
        let member = world.trusted(id);
        let new = NewSource::builder()
            .name("Tickets")
            .kind("help_desk")
            .build();
        let source = world.create_source(&new).await.unwrap().id;
        let keyed = |name: &str| {
            let mut new = new_memory(name);
            new.source_key = Some(name.to_owned());
            new
        };
        let mut memories = world.approved_memories(2).await;
        let ingest = async |by: &Caller, new: &[_]| {
            let ingested = world.by(by).ingest_memories(source, new);
            let ids = ingested.await.unwrap().into_iter();
            ids.filter_map(|memory| memory.id).collect::<Vec<_>>()
        };
        let news: Vec<_> = (0..MEMORIES)
            .map(|number| keyed(&format!("page/{number}")))
            .collect();
        for batch in news.chunks(100) {
            memories.extend(ingest(&member, batch).await);
        }
        memories.extend(ingest(&world.owner, &[keyed("note/1"), keyed("page/a")]).await);
        let own = ingest(&member, &[keyed("note/2")]).await;
        memories.extend(&own);
        // One memory still awaits its review, another one was filed elsewhere.
        world.approve(&memories[..MEMORIES]).await;
        world.approve(&memories[MEMORIES + 1..]).await;
        let moved = MemoryUpdate::builder()
            .change(MemoryChange::builder().source_id(world.source).build())
            .build();
        world.update_memory(own[0], &moved, None).await.unwrap();
        let mut scene = Self {
            callers: vec![
                world.owner.clone(),
                member.clone(),
                world.caller(ADMIN).await,
                world
                    .mcp_key_for("workspace:research")
                    .await
                    .secret
                    .unwrap()
                    .into(),
            ],
            requests: vec![
                NewErasure::builder().source_id(source).build(),
                NewErasure::builder()
                    .source_id(source)
                    .source_key_prefix("page/")
                    .build(),
                NewErasure::builder().member_id(id).build(),
                NewErasure::builder()
                    .memory_ids(memories[2..400.min(MEMORIES)].to_vec())
                    .build(),
            ],
            world,
            source,
            member,
            memories,
            recalls: Vec::new(),
            subscriptions: Vec::new(),
            chats: Vec::new(),
        };
        scene.make().await;
        scene
    }

    /// Registers recalls and writes chats.
    async fn make(&mut self) {
        let (world, memories) = (&self.world, &self.memories);
        let (first, last) = (memories[2], memories[MEMORIES + 1]);
        for cited in [
            vec![first],
            vec![last],
            vec![first, memories[0]],
            vec![memories[0]],
            vec![memories[MEMORIES + 2]],
        ] {
            for by in [&world.owner, &self.member] {
                let new = new_recall(&cited);
                let made = world.by(by).create_recall(&new).await.unwrap();
                self.recalls.push(made.id);
                let subscription = world.subscribe(&world.owner, made.id).await;
                self.subscriptions.push(subscription.id);
            }
        }
        let page = &PageRequest::default();
        let others: Vec<_> = world.list_members(page).await.unwrap().data;
        let others: Vec<_> = others.iter().map(|member| member.id).collect();
        for by in [&world.owner, &self.member] {
            let new = with(new_chat("Plans"), |new| {
                new.participants.clone_from(&others);
            });
            let chat = world.by(by).create_chat(&new).await.unwrap().id;
            world.by(by).post_message(chat, "Which?").await.unwrap();
            self.chats.push(chat);
        }
        let change = MemoryChange::builder().sensitivity_label(SensitivityLabel::Public);
        let bulk = world.bulk_with_key(&world.owner, "before", memories, change.build());
        bulk.await.unwrap();
    }

    /// Returns everything that the callers are told in a copy of the world, which changes nothing.
    async fn answers(&self, world: &World) -> String {
        let mut told = Vec::new();
        for by in &self.callers {
            let mut page = PageRequest::default();
            loop {
                let filter = MemoryFilter::default();
                let listed = world.by(by).list_memories(&filter, &page).await;
                told.push(format!("{listed:?}"));
                page.cursor = listed.ok().and_then(|listed| listed.next_cursor);
                if page.cursor.is_none() {
                    break;
                }
            }
            let page = &page;
            for id in &self.memories {
                told.push(format!("{:?}", world.by(by).get_memory(*id).await));
            }
            let check = AccessCheck::builder().memory_ids(self.memories.clone());
            let check = check.include_content(true).build();
            let checked = world.by(by).check_access(&check).await;
            told.push(format!("{checked:?}"));
            // Scores would tell of what is being erased.
            let search = RecallSearch::builder()
                .query("page")
                .limit(50)
                .record(false);
            let found = world.by(by).search_recalls(&search.build()).await;
            told.push(format!("{found:?}"));
            let listed = world
                .by(by)
                .list_recalls(&CitationFilter::default(), page)
                .await;
            told.push(format!("{listed:?}"));
            for id in &self.recalls {
                told.push(format!("{:?}", world.by(by).get_recall(*id).await));
                let listed = world.by(by).list_subscriptions(*id, page).await;
                told.push(format!("{listed:?}"));
            }
            for id in &self.subscriptions {
                let found = world.by(by).get_subscription(*id).await;
                told.push(format!("{found:?}"));
            }
            let listed = world.by(by).list_chats(page).await;
            told.push(format!("{listed:?}"));
            for id in &self.chats {
                told.push(format!("{:?}", world.by(by).get_chat(*id).await));
                let listed = world.by(by).list_messages(*id, page).await;
                told.push(format!("{listed:?}"));
            }
            let listed = world.by(by).list_sources(page).await;
            told.push(format!("{listed:?}"));
            let found = world.by(by).get_source(self.source).await;
            told.push(format!("{found:?}"));
            let dashboard = world.by(by).get_dashboard().await;
            let dashboard = dashboard.map(|dashboard| dashboard.value.recent_chats);
            told.push(format!("{dashboard:?}"));
        }
        let change = MemoryChange::builder().sensitivity_label(SensitivityLabel::Public);
        let replayed = world.bulk_with_key(&world.owner, "before", &self.memories, change.build());
        told.push(format!("{:?}", replayed.await));
        told.join("\n")
    }
}

async fn erase(world: &World, request: &NewErasure) -> Erasure {
    let key = "erasure".parse().unwrap();
    world.create_erasure(&key, request).await.unwrap().erasure
}

/// Returns a copy of the world in which an erasure stopped before this commit, after a restart.
async fn interrupted(world: &World, request: &NewErasure, commit: u64) -> (World, Erasure) {
    let plan = FaultPlan::none().at_commit(commit, CommitFault::Unavailable);
    let failing = world.copy(plan).await;
    let receipt = erase(&failing, request).await;
    (failing.served_with(FaultPlan::none()).await, receipt)
}

/// Wherever an erasure stops, every answer is the one after its end.
#[tokio::test]
async fn erasure_takes_everything_away_at_once() {
    let scene = Scene::new().await;
    let before = scene.answers(&scene.world).await;
    for request in &scene.requests {
        let mut stops = 0;
        for commit in 2.. {
            let (world, receipt) = interrupted(&scene.world, request, commit).await;
            if receipt.status == ErasureStatus::Completed {
                break;
            }
            stops += 1;
            world.assert_whole().await;
            let running = scene.answers(&world).await;
            world.maintain().await;
            let receipt = world.get_erasure(receipt.id).await;
            assert_eq!(receipt.unwrap().status, ErasureStatus::Completed);
            let completed = scene.answers(&world).await;
            let differ = running.lines().zip(completed.lines());
            let differ: Vec<_> = differ.filter(|(one, other)| one != other).collect();
            assert!(running == completed, "{request:?} {commit}: {differ:?}");
            assert_ne!(running, before);
            world.assert_whole().await;
        }
        assert!(stops >= 1, "{request:?}");
    }
}

/// Nothing can be added to what is being erased, and nothing of it can be changed.
#[tokio::test]
async fn nothing_is_added_to_what_is_being_erased() {
    let scene = Scene::new().await;
    let erased = scene.memories[2];
    for request in &scene.requests[..3] {
        let (world, _) = interrupted(&scene.world, request, 2).await;
        let owner = &world.owner;
        let contents = world.contents().await;
        let of_member = request.member_id.is_some();
        let by = if of_member { &scene.member } else { owner };
        let source = if of_member {
            world.source
        } else {
            scene.source
        };
        let mut new = create_memory("New", source);
        assert_eq!(code(world.by(by).create_memory(&new).await), "conflict");
        let keyed = with(new_memory("New"), |new| {
            new.source_key = Some("page/0".to_owned());
        });
        for by in [owner, &scene.member] {
            let ingested = world
                .by(by)
                .ingest_memories(scene.source, std::slice::from_ref(&keyed))
                .await;
            assert_eq!(code(ingested), "conflict", "{request:?}");
            new.source_id = scene.source;
            new.source_key = Some("page/0".to_owned());
            let created = world.by(by).create_memory(&new).await;
            assert_eq!(code(created), "conflict", "{request:?}");
        }
        if of_member {
            let recall = new_recall(&scene.memories[..1]);
            assert_eq!(code(world.by(by).create_recall(&recall).await), "conflict");
            let chat = world.by(by).create_chat(&new_chat("New")).await;
            assert_eq!(code(chat), "conflict");
        } else {
            let kept = scene.memories[0];
            let moved = MemoryChange::builder().source_id(source).build();
            let update = MemoryUpdate::builder().change(moved.clone()).build();
            let update = world.by(by).update_memory(kept, &update, None).await;
            assert_eq!(code(update), "conflict");
            assert_eq!(code(world.bulk(by, &[kept], moved).await), "conflict");
        }
        let update = MemoryUpdate::builder().title("Old").build();
        let update = world.update_memory(erased, &update, None).await;
        assert_eq!(code(update), "not_found");
        assert_eq!(code(world.delete_memory(erased).await), "not_found");
        let deleted = world.delete_recall(scene.recalls[1]).await;
        assert_eq!(code(deleted), "not_found");
        if of_member {
            assert_eq!(code(world.delete_chat(scene.chats[1]).await), "not_found");
        }
        let recall = new_recall(&[erased]);
        assert_eq!(code(world.create_recall(&recall).await), "invalid_request");
        assert_eq!(world.contents().await, contents);
        let rejected = review(ReviewStatus::Rejected);
        let bulk = world.bulk(owner, &[erased], rejected).await;
        let item = bulk.unwrap().results.remove(0);
        assert!(!item.ok && item.memory.is_none());

        world.maintain().await;
        new.revive = true;
        let created = world.create_memory(&new).await.unwrap();
        world.maintain().await;
        let found = world.get_memory(created.value.summary.id).await;
        assert!(found.is_ok());
        world.assert_whole().await;
    }
}

/// Additions by a member could be taken for what is being erased, updates could not.
#[tokio::test]
async fn erased_member_may_still_update_memory_of_another() {
    let scene = Scene::new().await;
    let (world, _) = interrupted(&scene.world, &scene.requests[2], 2).await;
    let ingest = async |name: &str| {
        let keyed = with(new_memory("New"), |new| {
            new.source_key = Some(name.to_owned());
        });
        let by = &scene.member;
        world.by(by).ingest_memories(scene.source, &[keyed]).await
    };
    let updated = ingest("page/a").await.unwrap();
    assert_eq!(updated[0].outcome, IngestOutcome::Updated);
    assert_eq!(code(ingest("page/b").await), "conflict");
}

/// An addition that has read the organisation before the erasure does not cross it.
#[tokio::test]
async fn addition_does_not_cross_the_beginning_of_an_erasure() {
    let scene = Scene::new().await;
    let world = scene.world.copy(FaultPlan::none()).await;
    let request = scene.requests[0].clone();
    let plan = FaultPlan::none().at_commit(2, CommitFault::Unavailable);
    let eraser = world.served_with(plan).await;
    world.probe.before_commit(async move {
        let receipt = erase(&eraser, &request).await;
        assert_eq!(receipt.status, ErasureStatus::Running);
    });
    let new = create_memory("New", scene.source);
    assert_eq!(code(world.create_memory(&new).await), "conflict");
    assert!(world.probe.has_happened());
    world.maintain().await;
    world.assert_whole().await;
}

#[tokio::test]
async fn number_of_running_erasures_is_limited() {
    let scene = Scene::new().await;
    let world = scene.world.copy(FaultPlan::none()).await;
    let begin = async |name: String| {
        let plan = FaultPlan::none().at_commit(2, CommitFault::Unavailable);
        let failing = world.served_with(plan).await;
        let key = name.parse().unwrap();
        let request = &scene.requests[0];
        let begun = failing.create_erasure(&key, request);
        begun.await.map(|begun| begun.erasure.status)
    };
    for number in 0..16 {
        let status = begin(format!("key-{number}")).await;
        assert_eq!(status.unwrap(), ErasureStatus::Running);
    }
    assert_eq!(code(begin("one-more".to_owned()).await), "rate_limited");
    world.maintain().await;
    let status = begin("one-more".to_owned()).await;
    assert_eq!(status.unwrap(), ErasureStatus::Running);
    world.maintain().await;
    let org = world.contents().await[&keys::org(world.org.id)].clone();
    let org: Organization = serde_json::from_slice(&org).unwrap();
    assert!(org.erasing.is_empty());
    world.assert_whole().await;
}

/// A step goes on past the memories of other sources.
#[tokio::test]
async fn source_of_a_large_organization_is_erased_before_the_response() {
    let world = World::new().await;
    world.memories(4_200).await;
    let new = NewSource::builder().name("Notes").kind("notes").build();
    let source = world.create_source(&new).await.unwrap().id;
    let new = [new_memory("Of it")];
    let ids = world.ingest_memories(source, &new).await.unwrap();
    let request = NewErasure::builder().source_id(source).build();
    let key = "large".parse().unwrap();
    let erasure = world.create_erasure(&key, &request).await.unwrap().erasure;
    assert_eq!(erasure.status, ErasureStatus::Completed);
    assert_eq!(erasure.counts.memories, ids.len() as u64);
    world.assert_whole().await;
}
