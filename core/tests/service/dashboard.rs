//! Tests of the dashboard: content, cost and entity tag.

use knowledge_core::internals::keys;
use knowledge_core::model::{
    BulkUpdate, ChecklistTier, ConnectorStatus, DashboardSummary, MemberKind, ReviewStatus,
};
use knowledge_core::service::{ConnectorUpdate, SNIPPET_CHARS_MAX, SyncReport};
use knowledge_core::store::StoreExt;

use crate::make::{
    DAY, HOUR, MEMBER, MILLISECOND, MINUTE, SUCCESS, code, failure, new_chat, new_member, review,
};
use crate::probe::Reads;
use crate::world::World;
use knowledge_testing::requests::with;

fn completed(dashboard: &DashboardSummary) -> Vec<&str> {
    let checklist = &dashboard.first_value_checklist;
    let steps = checklist.required.iter().chain(&checklist.suggested);
    steps
        .filter(|step| step.completed)
        .map(|step| step.step_id.as_str())
        .collect()
}

#[tokio::test]
async fn dashboard_of_new_workspace_shows_checklist() {
    let world = World::new().await;
    let dashboard = world.dashboard().await;
    assert_eq!(dashboard.workspace.id, world.workspace.id);
    assert_eq!(dashboard.workspace.slug, "research");
    assert_eq!(dashboard.workspace.name, world.workspace.name);
    assert_eq!(
        dashboard.workspace.audience.to_string(),
        "workspace:research"
    );
    assert_eq!(dashboard.workspace.last_ingest_at, None);
    assert_eq!(dashboard.review_backlog_count, 0);
    assert!(dashboard.connector_health.is_empty());
    assert!(dashboard.mcp_keys.is_empty() && dashboard.recent_chats.is_empty());
    assert_eq!(completed(&dashboard), [""; 0]);

    let checklist = dashboard.first_value_checklist;
    for (steps, tier, ids) in [
        (
            checklist.required,
            ChecklistTier::Required,
            &["connect_source", "ingest_first_memory", "create_mcp_key"][..],
        ),
        (
            checklist.suggested,
            ChecklistTier::Suggested,
            &[
                "invite_teammate",
                "ask_first_question",
                "add_webhook",
                "clear_review_backlog",
            ],
        ),
    ] {
        assert_eq!(
            steps.iter().map(|step| &*step.step_id).collect::<Vec<_>>(),
            ids
        );
        for step in steps {
            assert_eq!(step.tier, tier);
            assert_eq!(step.required, tier == ChecklistTier::Required);
            assert_eq!(step.workspace_slug, "research");
            assert!(!step.label.is_empty() && !step.cta_label.is_empty());
        }
    }
}

#[tokio::test]
async fn dashboard_steps_are_completed_by_state() {
    let world = World::new().await;
    let owner = &world.owner;
    // A service account is not a teammate.
    let bot = with(new_member("bot", MEMBER), |new| {
        new.kind = MemberKind::ServiceAccount;
    });
    world.add(&bot).await;
    assert_eq!(completed(&world.dashboard().await), [""; 0]);

    world.connector(HOUR).await;
    assert_eq!(completed(&world.dashboard().await), ["connect_source"]);
    let ids = world.memories(2).await;
    let mut expected = vec!["connect_source", "ingest_first_memory"];
    assert_eq!(completed(&world.dashboard().await), expected);
    world.mcp_key_for("org:acme").await;
    expected.push("create_mcp_key");
    assert_eq!(completed(&world.dashboard().await), expected);
    world.member(MEMBER).await;
    expected.push("invite_teammate");
    assert_eq!(completed(&world.dashboard().await), expected);
    world.add_chat("Where?").await;
    expected.push("ask_first_question");
    assert_eq!(completed(&world.dashboard().await), expected);
    world
        .webhook(knowledge_core::model::EventType::ChunkCreated)
        .await;
    expected.push("add_webhook");
    assert_eq!(completed(&world.dashboard().await), expected);
    world
        .bulk(owner, &ids, review(ReviewStatus::Approved))
        .await
        .unwrap();
    expected.push("clear_review_backlog");
    assert_eq!(completed(&world.dashboard().await), expected);
    // An undone step is open again.
    world
        .bulk(owner, &ids[..1], review(ReviewStatus::Pending))
        .await
        .unwrap();
    expected.pop();
    assert_eq!(completed(&world.dashboard().await), expected);

    // Another workspace has its own steps; the teammates are the same.
    let sales = world.workspace("sales").await;
    let other = world.within(sales).get_dashboard().await.unwrap().value;
    assert_eq!(completed(&other), ["invite_teammate"]);
}

#[tokio::test]
async fn dashboard_last_ingest_is_last_non_empty_one() {
    let world = World::new().await;
    let named = with(crate::make::new_memory("Page"), |new| {
        new.source_key = Some("page/1".to_owned());
    });
    let ingest = || {
        let batch = std::slice::from_ref(&named);
        world.ingest_memories(world.source, batch)
    };
    let at = world.time.now();
    ingest().await.unwrap();
    world.time.pass(HOUR);
    ingest().await.unwrap();
    assert_eq!(world.dashboard().await.workspace.last_ingest_at, Some(at));
}

#[tokio::test]
async fn dashboard_shows_ten_chats_with_newest_messages() {
    let world = World::new().await;
    let mut chats = Vec::new();
    for number in 0..12 {
        world.time.pass(MINUTE);
        let title = format!("Chat {number}");
        chats.push(world.add_chat(&title).await);
    }
    let titles = |dashboard: &DashboardSummary| -> Vec<String> {
        dashboard
            .recent_chats
            .iter()
            .map(|chat| chat.title.clone())
            .collect()
    };
    let newest: Vec<_> = (2..12)
        .rev()
        .map(|number| format!("Chat {number}"))
        .collect();
    assert_eq!(titles(&world.dashboard().await), newest);

    world.time.pass(MINUTE);
    let text = "ü".repeat(SNIPPET_CHARS_MAX + 40);
    world.post_message(chats[0], &text).await.unwrap();
    let dashboard = world.dashboard().await;
    let mut moved = newest;
    moved.pop();
    moved.insert(0, "Chat 0".to_owned());
    assert_eq!(titles(&dashboard), moved);
    let first = &dashboard.recent_chats[0];
    assert_eq!(first.session_id, chats[0]);
    assert_eq!(first.last_message_at, world.time.now());
    assert_eq!(first.snippet, "ü".repeat(160), "cut between two characters");
    assert_eq!(dashboard.recent_chats[1].snippet, "");
}

async fn fill(world: &World, count: usize) {
    for _ in 0..count / 100 {
        world.memories(100).await;
    }
    let counted = keys::memory_count(world.org.id, world.workspace.id);
    let stored = world.faults.inner().counter(&counted).await.unwrap();
    assert_eq!(usize::try_from(stored).unwrap(), count);
}

/// Number of store reads of one dashboard, for a caller without a stored credential.
const READS: u64 = 1;

async fn reads_of_a_dashboard(memories: usize) -> (Reads, knowledge_store::faults::CallCounts) {
    let world = World::new().await;
    world.connector(HOUR).await;
    world.mcp_key_for("org:acme").await;
    for _ in 0..20 {
        world.add_chat("Where?").await;
    }
    fill(&world, memories).await;
    let served = world
        .served_with(knowledge_store::faults::FaultPlan::none())
        .await;
    let before = served.faults.counts();
    served.probe.take_reads();
    assert_eq!(
        served.dashboard().await.review_backlog_count,
        memories as u64
    );
    let mut counts = served.faults.counts();
    counts.reads -= before.reads;
    counts.keys_read -= before.keys_read;
    (served.probe.take_reads(), counts)
}

#[tokio::test]
async fn dashboard_cost_is_independent_of_memory_count() {
    let (few, few_counts) = reads_of_a_dashboard(1_000).await;
    let (many, many_counts) = reads_of_a_dashboard(100_000).await;
    assert_eq!(few.count(), many.count());
    assert_eq!(few_counts, many_counts);
    assert!(many.count() < 40, "{} keys", many.count());
    // The caller and the dashboard in one read.
    assert_eq!(many_counts.reads, READS);
    for family in ["memory", "content", "workspace_memory", "source_key"] {
        assert!(!many.touch(family), "{family}");
    }
    assert!(many.touch("memory_count"), "the probe sees what is read");
}

/// A commit during the read is in both the counts and the lists, or in neither.
#[tokio::test]
async fn dashboard_is_consistent_snapshot() {
    let world = World::new().await;
    let memories = world.memories(2).await;
    let (service, owner) = (world.service.clone(), world.owner.clone());
    let workspace = world.workspace.id;
    let chats = keys::recent_chats(world.org.id, workspace);
    world.probe.before_scan(chats, async move {
        let key = "between".parse().unwrap();
        let update = BulkUpdate::builder()
            .memory_ids(memories)
            .change(review(ReviewStatus::Approved))
            .build();
        service
            .memories()
            .bulk_update(&owner, &key, &update)
            .await
            .unwrap();
        service
            .chats()
            .create(&owner, workspace, &new_chat("Where?"))
            .await
            .unwrap();
    });
    let summary = world.dashboard().await;
    assert!(world.probe.has_happened());
    assert_eq!(summary.recent_chats.len(), 1);
    assert_eq!(summary.review_backlog_count, 0);
}

/// Returns the dashboard and its entity tag.
async fn tagged(world: &World) -> (DashboardSummary, String) {
    let summary = world.get_dashboard().await.unwrap();
    assert!(summary.etag.starts_with("W/\"") && summary.etag.ends_with('"'));
    (summary.value, summary.etag)
}

#[tokio::test]
async fn dashboard_etag_changes_exactly_with_its_content() {
    let world = World::new().await;
    let owner = &world.owner;
    let before = std::cell::RefCell::new(tagged(&world).await);
    let expect_change = async |what: &str| {
        let after = tagged(&world).await;
        assert_ne!(after.0, before.borrow().0, "{what}");
        assert_ne!(after.1, before.borrow().1, "{what}");
        assert_eq!(tagged(&world).await, after, "asked again");
        *before.borrow_mut() = after;
    };
    let connector = world.connector(HOUR).await;
    expect_change("a connector").await;
    world.report_sync(connector, &SUCCESS).await.unwrap();
    expect_change("a report").await;
    world
        .update_connector(connector, &ConnectorUpdate::paused(true))
        .await
        .unwrap();
    expect_change("a pause").await;
    let ids = world.memories(1).await;
    expect_change("a memory").await;
    world
        .bulk(owner, &ids, review(ReviewStatus::Approved))
        .await
        .unwrap();
    expect_change("a review").await;
    let key = world.mcp_key_for("org:acme").await;
    expect_change("an MCP key").await;
    world.service.note_use(&key.secret.unwrap().into()).await;
    expect_change("a use of a key").await;
    let chat = world.add_chat("Where?").await;
    expect_change("a chat").await;
    world.post_message(chat, "There.").await.unwrap();
    expect_change("a message").await;
    world.member(MEMBER).await;
    expect_change("a teammate").await;

    // Data outside the dashboard does not change its tag.
    let sales = world.workspace("sales").await;
    world.memories_in(sales, 1).await;
    assert_eq!(tagged(&world).await, *before.borrow());
}

#[tokio::test]
async fn dashboard_etag_changes_with_passing_time_as_content_does() {
    let world = World::new().await;
    let connector = world.connector(DAY).await;
    let report = async |report: SyncReport| {
        world.report_sync(connector, &report).await.unwrap();
    };
    report(failure("no answer")).await;
    world.time.pass(30 * MINUTE);
    report(SUCCESS.clone()).await;
    let begin = world.time.now();
    let status = |dashboard: &DashboardSummary| {
        let health = &dashboard.connector_health[0];
        (health.status, health.error_count_24h)
    };
    let degraded = tagged(&world).await;
    assert_eq!(status(&degraded.0), (ConnectorStatus::Degraded, 1));

    // The error leaves the window with its hour; then the connector becomes stale.
    let leaves = begin.minus(30 * MINUTE).plus(DAY + HOUR);
    let stale_at = begin.plus(2 * DAY);
    let healthy = {
        world.time.set(leaves.minus(MILLISECOND));
        assert_eq!(tagged(&world).await, degraded, "nothing changed until then");
        world.time.set(leaves);
        tagged(&world).await
    };
    assert_eq!(status(&healthy.0), (ConnectorStatus::Healthy, 0));
    assert_ne!(healthy.1, degraded.1);
    world.time.set(stale_at.minus(MILLISECOND));
    assert_eq!(tagged(&world).await, healthy);
    world.time.set(stale_at);
    let stale = tagged(&world).await;
    assert_eq!(status(&stale.0), (ConnectorStatus::Stale, 0));
    assert_ne!(stale.1, healthy.1);
    world.time.pass(365 * DAY);
    assert_eq!(tagged(&world).await, stale);
}

#[tokio::test]
async fn dashboard_of_another_org_is_not_found() {
    let world = World::new().await;
    let eve = world.stranger("evil").await.owner;
    assert_eq!(code(world.by(&eve).get_dashboard().await), "not_found");
}
