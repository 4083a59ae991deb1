//! Tests of paginated lists.

use knowledge_core::Error;
use knowledge_core::limits::PAGE_ITEMS_MAX;
use knowledge_core::model::{Source, SourceId};
use knowledge_core::service::{Caller, Cursor, Page, PageRequest};

use crate::make::{MILLISECOND, in_workspaces, page_at, problem};
use crate::world::World;

async fn add_sources(world: &World, count: usize) -> Vec<SourceId> {
    let mut made = vec![world.source];
    for number in 0..count {
        let source = world.source(&format!("Source {number}"), "drive").await;
        made.push(source.unwrap());
    }
    made.sort();
    made
}

async fn page(
    world: &World,
    caller: &Caller,
    limit: usize,
    cursor: Option<Cursor>,
) -> Result<Page<Source>, Error> {
    let limit = Some(limit);
    let request = page_at(limit, cursor);
    world.by(caller).list_sources(&request).await
}

#[tokio::test]
async fn pages_of_any_size_show_each_item_once() {
    let world = World::new().await;
    let made = add_sources(&world, 6).await;
    for limit in 1..=made.len() + 1 {
        let (mut found, mut cursor, mut pages) = (Vec::new(), None, 0);
        loop {
            let page = page(&world, &world.owner, limit, cursor).await.unwrap();
            assert!(page.data.len() <= limit);
            found.extend(page.data.iter().map(|source| source.id));
            pages += 1;
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(found, made, "{limit} a page");
        assert_eq!(pages, made.len().div_ceil(limit), "{limit} a page");
    }
}

/// Workspaces outside the scope of a token leave no trace in its pages.
#[tokio::test]
async fn workspaces_out_of_scope_lead_to_no_page() {
    let world = World::new().await;
    let mut made = vec![world.workspace.id];
    for slug in ["legal", "sales", "support"] {
        world.time.pass(MILLISECOND);
        made.push(world.workspace(slug).await);
    }
    let scope = in_workspaces(&[made[0], made[2]]);
    let token = world.token(world.owner_id, scope).await;
    let caller = Caller::from(token.secret.clone());
    let page = async |cursor| {
        let request = PageRequest::builder().limit(1).maybe_cursor(cursor).build();
        let found = world.by(&caller).list_workspaces(&request).await;
        found.unwrap()
    };
    let first = page(None).await;
    let second = page(first.next_cursor).await;
    let found = [first.data[0].id, second.data[0].id];
    assert_eq!((found, second.next_cursor), ([made[0], made[2]], None));
}

#[tokio::test]
async fn page_starts_after_last_item_despite_new_items() {
    let world = World::new().await;
    let made = add_sources(&world, 2).await;
    let first = page(&world, &world.owner, 1, None).await.unwrap();
    world.time.pass(MILLISECOND);
    let more = add_sources(&world, 1).await;
    let rest = page(&world, &world.owner, 50, first.next_cursor)
        .await
        .unwrap();
    let rest: Vec<_> = rest.data.iter().map(|source| source.id).collect();
    assert_eq!(rest, [&made[1..], &more[1..]].concat());
}

#[tokio::test]
async fn cursor_round_trips_and_is_valid_only_for_its_list() {
    let world = World::new().await;
    add_sources(&world, 2).await;
    let first = page(&world, &world.owner, 1, None).await.unwrap();
    let cursor = first.next_cursor.unwrap();
    assert_eq!(cursor.to_string().parse(), Ok(cursor.clone()));

    let eve = world.stranger("evil").await.owner;
    assert_eq!(
        problem(page(&world, &eve, 1, Some(cursor)).await),
        "cursor invalid_value"
    );
}

#[tokio::test]
async fn page_size_has_a_minimum_and_a_maximum() {
    let world = World::new().await;
    for limit in [0, PAGE_ITEMS_MAX + 1] {
        assert_eq!(
            problem(page(&world, &world.owner, limit, None).await),
            "limit invalid_value"
        );
    }
    assert!(
        page(&world, &world.owner, PAGE_ITEMS_MAX, None)
            .await
            .is_ok()
    );
}
