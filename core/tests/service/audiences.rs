//! Tests of the people behind audience labels: dry runs, labels without members, and the labels of
//! a workspace.

use knowledge_core::access::{Action, TokenScope};
use knowledge_core::internals::keys;
use knowledge_core::model::{
    AudienceLabel, BulkResult, BulkUpdate, MemberId, MemoryChange, MemoryId, ReviewStatus,
    SensitivityLabel, WorkspaceAccess, WorkspaceLabels,
};
use knowledge_core::service::{Caller, MemberUpdate, NewMemory};
use knowledge_core::store::Key;

use crate::make::{
    ADMIN, DAY, MEMBER, VIEWER, actions, audience, code, new_member, new_memory, new_workspace,
    review, sensitivity,
};
use crate::world::World;
use knowledge_testing::requests::with;

async fn dry_run(
    world: &World,
    by: &Caller,
    memories: &[MemoryId],
    change: MemoryChange,
) -> BulkResult {
    let update = BulkUpdate::builder()
        .memory_ids(memories.to_vec())
        .change(change)
        .dry_run(true)
        .build();
    let key = "dry".parse().unwrap();
    let result = world.by(by).bulk_update_memories(&key, &update).await;
    result.unwrap()
}

/// Returns the numbers of memories that would change, and of members that gain or lose sight.
fn impact(result: &BulkResult) -> [u32; 3] {
    let impact = result.impact.as_ref().unwrap();
    [
        impact.would_change,
        impact.members_gaining,
        impact.members_losing,
    ]
}

/// Returns the labels with their numbers of memories, without those of no memory.
fn used(labels: &WorkspaceLabels) -> Vec<(String, u64)> {
    let used = labels.data.iter().filter(|label| label.memories > 0);
    used.map(|label| (label.label.to_string(), label.memories))
        .collect()
}

fn shown(labels: &[(&str, u64)]) -> Vec<(String, u64)> {
    let shown = labels.iter();
    shown
        .map(|(label, memories)| ((*label).to_owned(), *memories))
        .collect()
}

async fn set_teams(world: &World, member: MemberId, teams: &[&str]) {
    let teams: Vec<String> = teams.iter().map(ToString::to_string).collect();
    let update = with(MemberUpdate::default(), |update| update.teams = Some(teams));
    world.update_member(member, &update, None).await.unwrap();
}

#[tokio::test]
async fn dry_run_changes_nothing_and_returns_items() {
    let world = World::with_endpoint().await;
    let ids = world.memories(2).await;
    let unknown = MemoryId(uuid::Uuid::nil());
    let all = [ids[0], unknown, ids[1]];
    let before = world.contents().await;
    let change = with(audience("team:core"), |change| {
        change.review_status = Some(ReviewStatus::Approved);
    });
    let result = dry_run(&world, &world.owner, &all, change.clone()).await;
    assert_eq!(world.contents().await, before);
    assert_eq!(result.summary.succeeded, 2);
    assert!(!result.replayed);
    assert_eq!(result.operation_id.0, uuid::Uuid::nil());
    assert!(
        result
            .results
            .iter()
            .all(|item| item.audit_log_id.0.is_nil())
    );
    // The update itself has the same items, apart from the identifiers of what it records.
    let made = world.change(&all, change).await.unwrap();
    assert_eq!(made.impact, None);
    for (made, dry) in made.results.iter().zip(&result.results) {
        assert_eq!((made.memory_id, made.ok), (dry.memory_id, dry.ok));
        assert_eq!((&made.memory, &made.error), (&dry.memory, &dry.error));
    }
}

#[tokio::test]
async fn dry_run_tells_nothing_of_a_hidden_private_workspace() {
    let world = World::new().await;
    let ids = world.approved_memories(1).await;
    let admin = world.caller(ADMIN).await;
    let insider = world.member(VIEWER).await;
    world.member(VIEWER).await;
    let private = with(new_workspace("vault"), |new| {
        new.access = WorkspaceAccess::Private;
    });
    let operator = world.service.provisioning();
    let vault = operator.create_workspace(world.org.id, &private).await;
    let assigned = world.assign_in(insider, vault.unwrap().id, Some(VIEWER));
    assigned.await.unwrap();
    // The administrator and the other viewer lose sight.
    let by_owner = dry_run(&world, &world.owner, &ids, audience("workspace:vault")).await;
    assert_eq!(impact(&by_owner), [1, 0, 2]);
    assert!(by_owner.labels_without_members.is_empty());
    let by_admin = dry_run(&world, &admin, &ids, audience("workspace:vault")).await;
    let unknown = dry_run(&world, &admin, &ids, audience("workspace:nowhere")).await;
    assert_eq!(impact(&by_admin), [1, 0, 4]);
    assert_eq!(impact(&by_admin), impact(&unknown));
    let label: AudienceLabel = "workspace:vault".parse().unwrap();
    assert_eq!(by_admin.labels_without_members, [label]);
}

#[tokio::test]
async fn dry_run_is_rejected_as_the_update_would_be() {
    let world = World::new().await;
    let ids = world.approved_memories(1).await;
    let viewer = world.caller(VIEWER).await;
    let update = BulkUpdate::builder()
        .memory_ids(ids)
        .change(audience("org:acme"))
        .dry_run(true)
        .build();
    let key = "dry".parse().unwrap();
    let refused = world.by(&viewer).bulk_update_memories(&key, &update).await;
    assert_eq!(code(refused), "forbidden");
}

#[tokio::test]
async fn impact_counts_members_that_gain_or_lose_sight() {
    let world = World::new().await;
    let ids = world.memories(3).await;
    let viewers = [world.member(VIEWER).await, world.member(VIEWER).await];
    world.member(MEMBER).await;
    set_teams(&world, viewers[0], &["core"]).await;
    let dry =
        async |ids: &[MemoryId], change| impact(&dry_run(&world, &world.owner, ids, change).await);
    // The owner and the member review, so they see what is pending.
    let approved = review(ReviewStatus::Approved);
    assert_eq!(dry(&ids[..], approved.clone()).await, [3, 2, 0]);
    world.change(&ids, approved).await.unwrap();
    // Owner, member and the viewer outside the team lose it.
    assert_eq!(dry(&ids[..], audience("team:core")).await, [3, 0, 3]);
    let confidential = sensitivity(SensitivityLabel::Confidential);
    assert_eq!(dry(&ids[..1], confidential).await, [1, 0, 3]);
    assert_eq!(
        dry(&ids[..], sensitivity(SensitivityLabel::Internal)).await,
        [0; 3]
    );
    world
        .change(&ids[..1], audience("team:core"))
        .await
        .unwrap();
    assert_eq!(dry(&ids[..], audience("org:acme")).await, [3, 3, 0]);
}

/// Many different labels mean fewer members: a dry run takes a bounded number of decisions.
#[tokio::test]
async fn impact_says_if_it_does_not_consider_all_members() {
    const CHANGES: usize = 1_000;
    const CONSIDERED: usize = 200;
    let world = World::new().await;
    let labelled = |number: usize| {
        with(new_memory("Note"), |new| {
            new.audience_tag = Some(format!("team:team-{number}").parse().unwrap());
        })
    };
    let new: Vec<NewMemory> = (0..CHANGES).map(labelled).collect();
    let ids = world.ingest(world.workspace.id, world.source, &new).await;
    let ids = ids.unwrap();
    for _ in 0..CONSIDERED {
        world.member(MEMBER).await;
    }
    let dry = async |ids: &[MemoryId]| {
        let result = dry_run(&world, &world.owner, ids, audience("org:acme")).await;
        let is_complete = result.impact.as_ref().unwrap().is_complete;
        (impact(&result)[1] as usize, is_complete)
    };
    // They and the owner review, so they see what is pending.
    assert_eq!(dry(&ids[..]).await, (CONSIDERED, false));
    assert_eq!(dry(&ids[..CHANGES / 2]).await, (CONSIDERED + 1, true));
    // What is alike before is decided on once.
    world.change(&ids, audience("team:core")).await.unwrap();
    assert_eq!(dry(&ids[..]).await, (CONSIDERED + 1, true));
}

/// The author of a memory that awaits review sees it already.
#[tokio::test]
async fn impact_knows_authors() {
    let world = World::new().await;
    let new = new_memory("Note");
    let adds = actions(&[Action::MemoryCreate, Action::MemoryRead]);
    let author = world.caller_who_may(adds).await;
    let added = world
        .by(&author)
        .ingest_memories(world.source, &[new])
        .await;
    let memory = added.unwrap()[0].id.unwrap();
    let viewer = world.member(VIEWER).await;
    assert!(
        world
            .by(&world.trusted(viewer))
            .get_memory(memory)
            .await
            .is_err()
    );
    let approved = dry_run(
        &world,
        &world.owner,
        &[memory],
        review(ReviewStatus::Approved),
    )
    .await;
    assert_eq!(impact(&approved), [1, 1, 0], "only the viewer gains sight");
}

#[tokio::test]
async fn label_without_members_is_named_until_somebody_has_it() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let named = async |label: &str| {
        let made = world.change(&ids, audience(label)).await.unwrap();
        let names = made.labels_without_members.iter();
        names.map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(named("team:core").await, ["team:core"]);
    let member = world.add(&new_member("grace", MEMBER)).await;
    set_teams(&world, member, &["core", "core"]).await;
    assert!(named("team:core").await.is_empty());
    assert!(named("user:grace").await.is_empty());
    set_teams(&world, member, &[]).await;
    assert_eq!(named("team:core").await, ["team:core"]);
    set_teams(&world, member, &["core"]).await;
    world.remove_member(member).await.unwrap();
    assert_eq!(named("team:core").await, ["team:core"]);
    assert_eq!(
        named("user:grace").await,
        ["user:grace"],
        "the handle stays taken"
    );
    assert_eq!(named("org:globex").await, ["org:globex"]);
    assert!(named("workspace:research").await.is_empty());
    assert_eq!(named("workspace:sales").await, ["workspace:sales"]);
    world.assert_whole().await;
}

#[tokio::test]
async fn replay_names_label_without_members_as_first_response() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let member = world.member(MEMBER).await;
    let change = || world.bulk_with_key(&world.owner, "k", &ids, audience("team:core"));
    let first = change().await.unwrap();
    set_teams(&world, member, &["core"]).await;
    let again = change().await.unwrap();
    assert!(again.replayed);
    assert_eq!(again.labels_without_members, first.labels_without_members);
}

#[tokio::test]
async fn labels_count_memories_by_what_the_caller_knows() {
    let world = World::new().await;
    let ids = world.approved_memories(4).await;
    world.memories(2).await;
    world
        .change(&ids[..1], audience("user:grace"))
        .await
        .unwrap();
    world
        .change(&ids[1..2], audience("team:core"))
        .await
        .unwrap();
    let (viewer, member) = (world.caller(VIEWER).await, world.caller(MEMBER).await);
    let of = async |by: &Caller| used(&world.by(by).list_labels().await.unwrap());
    let all = [
        ("team:core", 1),
        ("user:grace", 1),
        ("workspace:research", 4),
    ];
    assert_eq!(of(&world.owner).await, shown(&all));
    assert_eq!(of(&member).await, shown(&[("workspace:research", 4)]));
    assert_eq!(of(&viewer).await, shown(&[("workspace:research", 2)]));
    let scope = TokenScope {
        audience: Some(vec!["team:core".parse().unwrap()]),
        ..TokenScope::default()
    };
    let listed = Caller::from(world.token(world.owner_id, scope).await.secret);
    assert!(of(&listed).await.is_empty());
    let elsewhere = world.workspace("sales").await;
    let there = world.within(elsewhere).list_labels().await.unwrap();
    assert!(used(&there).is_empty());
    world.delete_memory(ids[0]).await.unwrap();
    assert_eq!(of(&world.owner).await.len(), 2);
    world.assert_whole().await;
}

#[tokio::test]
async fn labels_include_those_that_cover_somebody() {
    let world = World::new().await;
    let member = world.add(&new_member("grace", MEMBER)).await;
    set_teams(&world, member, &["core"]).await;
    let ids = world.memories(1).await;
    world.change(&ids, audience("team:typo")).await.unwrap();
    let labels = world.list_labels().await.unwrap();
    assert!(labels.is_complete);
    let of = |label: &str| {
        let mut labels = labels.data.iter();
        let found = labels.find(|found| found.label.to_string() == label);
        found.map(|found| (found.memories, found.has_members))
    };
    assert_eq!(of("team:typo"), Some((1, false)));
    assert_eq!(of("team:core"), Some((0, true)));
    assert_eq!(of("org:acme"), Some((0, true)));
    assert_eq!(of("workspace:research"), Some((0, true)));
    assert_eq!(of("user:grace"), None, "members have a list of their own");
    let texts = labels.data.iter().map(|label| label.label.to_string());
    assert!(texts.is_sorted());
}

/// A label or a team that is no longer used leaves nothing behind for good.
#[tokio::test]
async fn unused_label_counters_are_purged() {
    let world = World::new().await;
    let ids = world.approved_memories(1).await;
    let member = world.member(ADMIN).await;
    set_teams(&world, member, &["core"]).await;
    set_teams(&world, member, &[]).await;
    for label in ["team:core", "org:acme"] {
        world.change(&ids, audience(label)).await.unwrap();
    }
    let (org, workspace) = (world.org.id, world.workspace.id);
    let unused = [
        keys::label_count(org, workspace, "team:core"),
        keys::approved_label_count(org, workspace, "team:core"),
        keys::team_member_count(org, "core"),
    ];
    let used = keys::label_count(org, workspace, "org:acme");
    let stored = async |key: &Key| world.contents().await.contains_key(key);
    for key in &unused {
        assert!(stored(key).await, "{key}");
    }
    world.time.pass(2 * DAY);
    world.maintain().await;
    for key in &unused {
        assert!(!stored(key).await, "{key}");
    }
    assert!(stored(&used).await);
    world.assert_whole().await;
}
