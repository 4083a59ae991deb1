//! Tests of the claim that a recall exists for its maker and for those who may read all it cites.

use knowledge_core::Error;
use knowledge_core::model::{
    CitationFilter, MemoryChange, MemoryId, NewCitationSubscription, RecallId, ReviewStatus,
    SensitivityLabel,
};
use knowledge_core::service::{Caller, PageRequest};

use crate::make::{MEMBER, MINUTE, VIEWER, code, new_recall, review, sensitivity};
use crate::world::World;

/// Registers a recall.
async fn register(world: &World, by: &Caller, cited: &[MemoryId]) -> RecallId {
    // Recalls of one millisecond are in no particular order.
    world.time.pass(MINUTE);
    let new = new_recall(cited);
    world.by(by).create_recall(&new).await.unwrap().id
}

/// Returns the listed recalls of the workspace, on one page.
async fn listed(world: &World, by: &Caller) -> Vec<RecallId> {
    let page = PageRequest::default();
    let listed = world
        .by(by)
        .list_recalls(&CitationFilter::default(), &page)
        .await
        .unwrap();
    assert_eq!(listed.next_cursor, None);
    listed.data.iter().map(|recall| recall.id).collect()
}

/// Returns true if a recall exists for a caller, by its identifier and in the list alike.
async fn exists(world: &World, by: &Caller, recall: RecallId) -> bool {
    let found = world.by(by).get_recall(recall).await;
    let is_listed = listed(world, by).await.contains(&recall);
    assert_eq!(found.is_ok(), is_listed);
    if let Err(error) = found {
        assert_eq!(error.code(), "not_found");
    }
    is_listed
}

fn team() -> MemoryChange {
    let audience = "team:core".parse().unwrap();
    MemoryChange::builder().audience_tag(audience).build()
}

#[tokio::test]
async fn recall_exists_for_readers_of_all_it_cites() {
    let changes = [
        team(),
        sensitivity(SensitivityLabel::Restricted),
        review(ReviewStatus::Pending),
        review(ReviewStatus::Rejected),
    ];
    for change in changes {
        let world = World::new().await;
        let ids = world.approved_memories(3).await;
        let maker = world.caller(MEMBER).await;
        let viewer = world.caller(VIEWER).await;
        let recall = register(&world, &maker, &ids[..2]).await;
        let other = register(&world, &world.owner, &ids[1..]).await;
        assert_eq!(listed(&world, &viewer).await, [other, recall]);
        let changed = world.change(&ids[..1], change.clone()).await;
        assert!(changed.unwrap().results[0].ok);
        assert!(!exists(&world, &viewer, recall).await, "{change:?}");
        assert_eq!(listed(&world, &viewer).await, [other]);
        assert!(exists(&world, &maker, recall).await, "{change:?}");
        // A deleted memory is left aside.
        world.delete_memory(ids[0]).await.unwrap();
        assert!(exists(&world, &viewer, recall).await, "{change:?}");
    }
}

/// Such a member knows of the memory, and yet may not read it.
#[tokio::test]
async fn recall_is_hidden_from_those_who_see_only_labels() {
    let world = World::new().await;
    let ids = world.approved_memories(1).await;
    let maker = world.caller(MEMBER).await;
    let recall = register(&world, &maker, &ids).await;
    assert!(exists(&world, &world.owner, recall).await);
    world.change(&ids, team()).await.unwrap();
    assert!(world.get_memory(ids[0]).await.is_ok());
    assert!(!exists(&world, &world.owner, recall).await);
}

#[tokio::test]
async fn hidden_recall_is_deleted_by_those_alone_who_may_erase_it() {
    let world = World::new().await;
    let ids = world.approved_memories(1).await;
    let maker = world.caller(MEMBER).await;
    let recall = register(&world, &maker, &ids).await;
    world.change(&ids, team()).await.unwrap();
    let other = world.caller(MEMBER).await;
    let refused = world.by(&other).delete_recall(recall).await;
    assert_eq!(code(refused), "not_found");
    assert!(!exists(&world, &world.owner, recall).await);
    world.delete_recall(recall).await.unwrap();
    assert!(!exists(&world, &maker, recall).await);
}

#[tokio::test]
async fn mcp_key_knows_no_recall_of_its_member_beyond_its_audience() {
    let world = World::new().await;
    let key: Caller = world
        .mcp_key_for("workspace:research")
        .await
        .secret
        .unwrap()
        .into();
    let ids = world.approved_memories(2).await;
    let recall = register(&world, &key, &ids[..1]).await;
    let other = register(&world, &world.owner, &ids[1..]).await;
    assert_eq!(listed(&world, &key).await, [other, recall]);
    let narrowed = MemoryChange::builder().audience_tag("user:ada".parse().unwrap());
    world.change(&ids[..1], narrowed.build()).await.unwrap();
    assert!(!exists(&world, &key, recall).await);
    assert!(exists(&world, &world.owner, recall).await);
}

#[tokio::test]
async fn hidden_recalls_take_no_place_on_a_page() {
    let world = World::new().await;
    let ids = world.approved_memories(2).await;
    let viewer = world.caller(VIEWER).await;
    let mut shown = Vec::new();
    for _ in 0..3 {
        shown.insert(0, register(&world, &world.owner, &ids[..1]).await);
        register(&world, &world.owner, &ids).await;
    }
    world.change(&ids[1..], team()).await.unwrap();
    let mut page = PageRequest::builder().limit(1).build();
    let mut found = Vec::new();
    loop {
        let listed = world
            .by(&viewer)
            .list_recalls(&CitationFilter::default(), &page)
            .await
            .unwrap();
        assert_eq!(listed.data.len(), 1);
        found.extend(listed.data.iter().map(|recall| recall.id));
        page.cursor = listed.next_cursor;
        if page.cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, shown);
    assert_eq!(listed(&world, &world.owner).await.len(), 6);
}

#[tokio::test]
async fn hidden_recall_has_no_subscriptions() {
    let world = World::new().await;
    let ids = world.approved_memories(1).await;
    let subscriber = world.caller(MEMBER).await;
    let recall = register(&world, &world.owner, &ids).await;
    world.subscribe(&subscriber, recall).await;
    let subscribe = async |by: &Caller| -> Result<(), Error> {
        let url = "https://example.com/citations".parse().unwrap();
        let new = NewCitationSubscription::builder();
        let new = new.recall_id(recall).webhook_url(url).build();
        world.by(by).create_subscription(&new).await.map(drop)
    };
    let list = async |by: &Caller| -> Result<(), Error> {
        let page = PageRequest::default();
        let listed = world.by(by).list_subscriptions(recall, &page);
        listed.await.map(drop)
    };
    list(&subscriber).await.unwrap();
    world.change(&ids, team()).await.unwrap();
    assert_eq!(code(subscribe(&subscriber).await), "not_found");
    assert_eq!(code(list(&subscriber).await), "not_found");
    // Nor does the lack of a permission reveal it.
    let viewer = world.caller(VIEWER).await;
    assert_eq!(code(subscribe(&viewer).await), "not_found");
    subscribe(&world.owner).await.unwrap();
    list(&world.owner).await.unwrap();
}
