//! Tests of the claim that a limited credential sees only sources of memories that exist for it.

use knowledge_core::access::{Action, ActionSet, BaseRole, TokenScope};
use knowledge_core::model::{MemoryChange, MemoryFilter, SourceId};
use knowledge_core::service::{Caller, NewSource, PageRequest};
use knowledge_core::{EntityKind, Error};

use crate::make::{VIEWER, actions, code, custom, in_workspaces};
use crate::world::World;

/// Returns the sources that a caller lists, each of which it can read.
async fn listed(world: &World, by: &Caller) -> Vec<SourceId> {
    let (mut found, mut page) = (Vec::new(), PageRequest::builder().limit(1).build());
    loop {
        let listed = world.by(by).list_sources(&page).await.unwrap();
        found.extend(listed.data.iter().map(|source| source.id));
        page.cursor = listed.next_cursor;
        if page.cursor.is_none() {
            break;
        }
    }
    let page = PageRequest::default();
    let all = world.list_sources(&page);
    for source in all.await.unwrap().data {
        match world.by(by).get_source(source.id).await {
            Ok(read) => assert_eq!((read.id, found.contains(&read.id)), (source.id, true)),
            Err(Error::NotFound { kind }) => {
                assert_eq!(
                    (kind, found.contains(&source.id)),
                    (EntityKind::Source, false)
                );
            }
            Err(error) => panic!("{error}"),
        }
    }
    found
}

fn moved(to: SourceId) -> MemoryChange {
    MemoryChange::builder().source_id(to).build()
}

#[tokio::test]
async fn limited_credential_sees_sources_of_memories_that_exist_for_it() {
    let world = World::new().await;
    let side = world.workspace("side").await;
    let new = NewSource::builder().name("Plans").kind("drive").build();
    let plans = world.create_source(&new).await;
    let (wiki, plans) = (world.source, plans.unwrap().id);
    let token = async |scope| Caller::from(world.token(world.owner_id, scope).await.secret);
    let in_side = token(in_workspaces(&[side]));
    let of_team = token(TokenScope {
        audience: Some(vec!["org:acme".parse().unwrap()]),
        ..TokenScope::default()
    });
    let for_reading = token(TokenScope {
        actions: Some(actions(&[Action::MemoryRead])),
        ..TokenScope::default()
    });
    let (in_side, of_team, for_reading) = (in_side.await, of_team.await, for_reading.await);
    let nothing: [SourceId; 0] = [];

    let here = world.memories(1).await;
    assert_eq!(listed(&world, &in_side).await, nothing);
    assert_eq!(listed(&world, &of_team).await, nothing);
    assert_eq!(listed(&world, &for_reading).await, [wiki, plans]);

    let there = world.memories_in(side, 1).await;
    assert_eq!(listed(&world, &in_side).await, [wiki]);
    assert_eq!(listed(&world, &of_team).await, nothing);

    let shared = MemoryChange::builder().audience_tag("org:acme".parse().unwrap());
    world.change(&here, shared.build()).await.unwrap();
    assert_eq!(listed(&world, &of_team).await, [wiki]);

    world.change(&here, moved(plans)).await.unwrap();
    assert_eq!(listed(&world, &in_side).await, [wiki]);
    assert_eq!(listed(&world, &of_team).await, [plans]);

    world.change(&there, moved(plans)).await.unwrap();
    assert_eq!(listed(&world, &in_side).await, [plans]);
    world.delete_memory(there[0]).await.unwrap();
    assert_eq!(listed(&world, &in_side).await, nothing);
}

#[tokio::test]
async fn search_for_a_source_continues_behind_many_memories() {
    let world = World::new().await;
    let new = NewSource::builder().name("Plans").kind("drive").build();
    let plans = world.create_source(&new).await;
    let plans = plans.unwrap().id;
    let scope = in_workspaces(&[world.workspace.id]);
    let token = Caller::from(world.token(world.owner_id, scope).await.secret);
    let memories = world.memories(1_001).await;
    let last = memories.iter().max().copied().unwrap();
    world.change(&[last], moved(plans)).await.unwrap();
    assert_eq!(listed(&world, &token).await, [world.source, plans]);
}

/// The reads of a search and a list do not grow with the square of the memories under review.
#[tokio::test]
async fn contents_under_review_are_read_once_per_page() {
    const MEMORIES: usize = 1_500;
    let world = World::new().await;
    world.memories(MEMORIES).await;
    let member = world.member(VIEWER).await;
    let scope = in_workspaces(&[world.workspace.id]);
    let token = Caller::from(world.token(member, scope).await.secret);
    let contents = || {
        let reads = world.probe.take_reads().keys;
        let contents = reads.iter().map(ToString::to_string);
        contents.filter(|key| key.starts_with("content/")).count()
    };
    let (page, filter) = (PageRequest::default(), MemoryFilter::default());
    contents();
    let found = world.by(&token).get_source(world.source).await;
    assert_eq!(code(found), "not_found");
    assert_eq!(contents(), MEMORIES);
    let listed = world.by(&token).list_sources(&page).await.unwrap();
    assert_eq!((listed.data, listed.next_cursor), (Vec::new(), None));
    assert_eq!(contents(), MEMORIES);
    let listed = world.by(&token).list_memories(&filter, &page);
    let listed = listed.await.unwrap();
    assert_eq!((listed.data, listed.next_cursor), (Vec::new(), None));
    assert_eq!(contents(), MEMORIES);
}

/// Roles in workspaces count however many there are.
#[tokio::test]
async fn role_in_the_last_of_many_workspaces_permits_reading_sources() {
    let world = World::new().await;
    let without = world.role(
        BaseRole::Viewer,
        ActionSet::EMPTY,
        actions(&[Action::MemoryRead]),
    );
    let without = custom(without.await.id);
    let member = world.member(without).await;
    let mut places = Vec::new();
    for number in 0..66 {
        places.push(world.workspace(&format!("place-{number}")).await);
    }
    places.sort();
    for place in &places {
        world
            .assign_in(member, *place, Some(without))
            .await
            .unwrap();
    }
    let token = world.token(member, TokenScope::default()).await;
    let token = Caller::from(token.secret);
    for (count, last) in [(64, places[63]), (65, places[64]), (66, places[65])] {
        for place in &places[count..] {
            world.assign_in(member, *place, None).await.unwrap();
        }
        let list = async || {
            let page = PageRequest::default();
            world.by(&token).list_sources(&page).await.map(drop)
        };
        let refused = list().await.unwrap_err();
        assert_eq!(refused.code(), "forbidden", "{count} roles");
        world.assign_in(member, last, Some(VIEWER)).await.unwrap();
        list().await.unwrap();
        world.assign_in(member, last, Some(without)).await.unwrap();
        for place in &places[count..] {
            world
                .assign_in(member, *place, Some(without))
                .await
                .unwrap();
        }
    }
}
