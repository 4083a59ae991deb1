//! Tests of the audit log: lists, filters and retention.

use std::collections::BTreeSet;

use knowledge_core::internals::keys;
use knowledge_core::limits::PAGE_RECORDS_MAX;
use knowledge_core::model::{AuditLogId, AuditReads, ReviewStatus};
use knowledge_core::service::{
    AuditAction, AuditEntry, AuditFilter, Caller, Cursor, Page, PageRequest, ResourceKind,
};

use crate::events::everything;
use crate::make::{
    DAY, HOUR, MEMBER, MINUTE, code, in_workspaces, new_role, page_at, problem, review,
};
use crate::world::World;
use knowledge_testing::requests::with;

async fn page(
    world: &World,
    filter: &AuditFilter,
    limit: usize,
    cursor: Option<Cursor>,
) -> Page<AuditEntry> {
    let limit = Some(limit);
    let request = page_at(limit, cursor);
    let found = world.list_audit_log(filter, &request).await;
    found.unwrap()
}

async fn list(world: &World, filter: &AuditFilter, limit: usize) -> Vec<AuditEntry> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = page(world, filter, limit, cursor).await;
        found.extend(page.data);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return found;
        }
    }
}

fn of_action(action: AuditAction) -> AuditFilter {
    AuditFilter::builder().action(action).build()
}

/// Makes a bulk call over several pages, between single changes.
async fn a_long_operation(world: &World) -> usize {
    let ids = world.memories(400).await;
    let approved = review(ReviewStatus::Approved);
    world.change(&ids, approved).await.unwrap();
    world.caller(MEMBER).await;
    ids.len()
}

#[tokio::test]
async fn audit_log_pages_of_any_size_list_all_entries_newest_first() {
    let world = World::new().await;
    a_long_operation(&world).await;
    let all = list(&world, &AuditFilter::default(), 200).await;
    let ids: Vec<AuditLogId> = all.iter().map(|entry| entry.id).collect();
    assert!(ids.is_sorted_by(|a, b| a > b), "newest first, each once");
    for entry in &all {
        assert_eq!(world.get_audit_entry(entry.id).await.unwrap(), *entry);
    }
    let entries = all.len();
    for limit in [1, 7, 160, 161] {
        let found = list(&world, &AuditFilter::default(), limit).await;
        assert_eq!(found, all, "{limit} a page");
    }
    let last = page(&world, &AuditFilter::default(), 200, None).await;
    assert!(last.next_cursor.is_some());
    let of_bulk = of_action(AuditAction::MemoryBulkUpdate);
    let exact = page(&world, &of_bulk, 200, None).await;
    let exact = page(&world, &of_bulk, 200, exact.next_cursor).await;
    assert_eq!((exact.data.len(), exact.next_cursor), (200, None));
    assert!(entries > 800);
}

#[tokio::test]
async fn audit_log_filters_by_actor_action_and_resource() {
    let world = World::with(|options| options.audit_reads = AuditReads::Confidential).await;
    let count = a_long_operation(&world).await;
    everything(&world).await;
    let secret = world.confidential().await;
    world.get_memory(secret).await.unwrap();
    let all = list(&world, &AuditFilter::default(), 200).await;
    let expect = async |filter: AuditFilter, wanted: &dyn Fn(&AuditEntry) -> bool| {
        let expected: Vec<_> = all.iter().filter(|entry| wanted(entry)).collect();
        assert!(!expected.is_empty(), "{filter:?}");
        for limit in [3, 150] {
            let found = list(&world, &filter, limit).await;
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{filter:?}");
        }
    };
    let owner = Some(world.owner_id);
    let of_owner = AuditFilter::builder().maybe_actor_id(owner).build();
    expect(of_owner.clone(), &|entry| entry.actor_id == owner).await;
    let rejected = with(of_owner, |new| {
        new.action = Some(AuditAction::MemoryBulkUpdate);
    });
    expect(rejected, &|entry| {
        entry.action == AuditAction::MemoryBulkUpdate
    })
    .await;
    for action in AuditAction::ALL {
        expect(of_action(*action), &|entry| entry.action == *action).await;
    }
    let of_kind = AuditFilter::builder()
        .resource_kind(ResourceKind::Role)
        .build();
    expect(of_kind.clone(), &|entry| {
        entry.resource.kind == ResourceKind::Role
    })
    .await;
    let memory = all
        .iter()
        .find(|entry| entry.action == AuditAction::MemoryBulkUpdate)
        .unwrap()
        .resource;
    let of_memory = AuditFilter::builder()
        .resource_kind(memory.kind)
        .resource_id(memory.id)
        .build();
    expect(of_memory.clone(), &|entry| entry.resource == memory).await;
    assert!(list(&world, &of_memory, 1).await.len() >= 2, "of {count}");

    let stranger = AuditFilter::builder()
        .actor_id(knowledge_core::model::MemberId(uuid::Uuid::nil()))
        .build();
    assert_eq!(list(&world, &stranger, 10).await, []);
    let request = PageRequest::default();
    let without_kind = with(of_memory, |new| new.resource_kind = None);
    let listed = world.list_audit_log(&without_kind, &request).await;
    assert_eq!(problem(listed), "resource_kind required");
}

#[tokio::test]
async fn audit_log_filters_by_time() {
    let world = World::new().await;
    let mut made = Vec::new();
    for number in 0..6 {
        world.time.pass(MINUTE);
        let new = new_role(&format!("role-{number}"));
        let role = world.create_role(&new).await;
        made.push((world.time.now(), role.unwrap().id));
        world.time.pass(20 * HOUR);
    }
    let between = async |since, until, actor_id| {
        let filter = AuditFilter::builder()
            .action(AuditAction::RoleCreate)
            .maybe_since(since)
            .maybe_until(until)
            .maybe_actor_id(actor_id)
            .build();
        let found = list(&world, &filter, 2).await;
        let mut ids: Vec<_> = found.iter().map(|entry| entry.resource.id).collect();
        ids.reverse();
        ids
    };
    let roles: Vec<_> = made.iter().map(|(_, role)| role.0).collect();
    let at = |index: usize| Some(made[index].0);
    for actor in [None, Some(world.owner_id)] {
        assert_eq!(between(None, None, actor).await, roles);
        assert_eq!(between(at(2), None, actor).await, roles[2..]);
        assert_eq!(between(None, at(2), actor).await, roles[..2]);
        assert_eq!(between(at(1), at(4), actor).await, roles[1..4]);
        assert_eq!(between(at(4), at(1), actor).await, roles[..0]);
    }
    // A start in the past does not read the entries before it.
    let filter = AuditFilter::builder()
        .actor_id(world.owner_id)
        .maybe_since(at(5))
        .build();
    world.probe.take_reads();
    page(&world, &filter, 50, None).await;
    let reads = world.probe.take_reads();
    assert!(reads.count() < 20, "{}", reads.count());
}

#[tokio::test]
async fn audit_log_page_is_empty_only_at_the_end() {
    let world = World::new().await;
    world.time.pass(MINUTE);
    let ids = world.memories(1_000).await;
    for status in [ReviewStatus::Approved, ReviewStatus::Rejected] {
        world.change(&ids, review(status)).await.unwrap();
    }
    let of_org = of_action(AuditAction::OrganizationCreate);
    let entries = list(&world, &AuditFilter::default(), 200).await.len();
    assert!(entries > PAGE_RECORDS_MAX);
    // The entry is the oldest of all, and on the first page nevertheless.
    let first = page(&world, &of_org, 5, None).await;
    assert_eq!(first.data.len(), 1);
    if first.next_cursor.is_some() {
        let rest = page(&world, &of_org, 5, first.next_cursor).await;
        assert_eq!((rest.data, rest.next_cursor), (Vec::new(), None));
    }
}

#[tokio::test]
async fn audit_log_rejects_scoped_credential() {
    let world = World::new().await;
    let scope = in_workspaces(&[world.workspace.id]);
    let token = world.token(world.owner_id, scope).await;
    let caller = Caller::from(token.secret.clone());
    let (filter, request) = (AuditFilter::default(), PageRequest::default());
    let listed = world.by(&caller).list_audit_log(&filter, &request).await;
    assert_eq!(code(listed), "forbidden");
}

/// Entries beyond the retention are hidden at once, and purged in their organisation's task.
#[tokio::test]
async fn audit_entries_are_purged_after_retention() {
    let world = World::with(|options| options.limits.audit_retention = 3 * DAY).await;
    a_long_operation(&world).await;
    let old = list(&world, &AuditFilter::default(), 200).await;
    world.time.pass(2 * DAY);
    world.source("Drive", "drive").await.unwrap();
    world.maintain().await;
    let all = list(&world, &AuditFilter::default(), 200).await;
    assert_eq!(all.len(), old.len() + 1);

    world.time.pass(DAY);
    let kept = list(&world, &AuditFilter::default(), 200).await;
    assert_eq!(kept, all[..1]);
    for actor_id in [Some(world.owner_id), None] {
        let filter = AuditFilter::builder().maybe_actor_id(actor_id).build();
        assert_eq!(list(&world, &filter, 200).await, all[..1]);
    }
    assert_eq!(code(world.get_audit_entry(old[0].id).await), "not_found");

    let stored = async || {
        let contents = world.contents().await;
        let of = |range: knowledge_core::store::KeyRange| {
            contents.keys().filter(|key| range.contains(key)).count()
        };
        (
            of(keys::audits(world.org.id)),
            of(keys::audits_of(world.org.id, world.owner_id)),
        )
    };
    assert!(stored().await.0 > 10);
    world.time.pass(DAY);
    world.maintain().await;
    assert_eq!(stored().await, (1, 1));
    assert_eq!(list(&world, &AuditFilter::default(), 200).await, all[..1]);
    world.assert_whole().await;
    // The task recurs for as long as the organisation exists.
    world.time.pass(9 * DAY);
    world.maintain().await;
    assert_eq!(stored().await, (0, 0));
    world.assert_whole().await;
}

/// One commit purges a part of the entries, and never a part of an operation.
#[tokio::test]
async fn audit_purge_of_many_entries_takes_several_commits() {
    let world = World::with(|options| options.limits.audit_retention = 3 * DAY).await;
    let ids = world.memories(1_000).await;
    for number in 0..60 {
        let status = if number % 2 == 0 {
            ReviewStatus::Approved
        } else {
            ReviewStatus::Rejected
        };
        world.change(&ids, review(status)).await.unwrap();
    }
    world.time.pass(4 * DAY);
    let operations = async || -> BTreeSet<_> {
        let contents = world.contents().await;
        let range = keys::audits(world.org.id);
        let pages = contents.keys().filter(|key| range.contains(key));
        pages.map(|key| keys::last_id(key).unwrap()).collect()
    };
    let mut left = operations().await.len();
    assert!(left > 400);
    let mut calls = 0;
    loop {
        let done = world.service.maintain(world.time.now()).await.unwrap();
        world.assert_whole().await;
        let now = operations().await.len();
        assert!(left - now <= 400, "{left} to {now}");
        left = now;
        calls += 1;
        if !done.has_more && left == 0 {
            break;
        }
        assert!(calls < 20);
    }
    assert!(calls > 1);
}
