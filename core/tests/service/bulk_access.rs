//! Tests of the permissions that a bulk update requires.

use knowledge_core::access::{Action, BaseRole, TokenScope};
use knowledge_core::model::{
    BulkItemErrorCode, BulkResult, MemoryChange, ReviewStatus, SensitivityLabel,
};
use knowledge_core::service::Denial;
use knowledge_core::service::{AuditOutcome, Caller};

use crate::make::{
    ADMIN, MEMBER, VIEWER, actions, audience, code, custom, in_workspaces, review, sensitivity,
};
use crate::world::World;
use knowledge_testing::requests::with;

/// Reason of an item whose memory does not exist for the caller.
const UNKNOWN: &str = "there is no such memory";

/// Returns the reason of each rejected item, and an empty string for the others.
fn reasons(result: &BulkResult) -> Vec<&str> {
    result
        .results
        .iter()
        .map(|item| match &item.error {
            Some(error) => {
                let is_unknown = error.code == BulkItemErrorCode::NotFound;
                assert_eq!(is_unknown, error.message == UNKNOWN);
                error.message.as_str()
            }
            None => "",
        })
        .collect()
}

fn relabel() -> MemoryChange {
    audience("org:acme")
}

#[tokio::test]
async fn bulk_update_without_any_permission_is_rejected_as_a_whole() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let viewer = world.caller(VIEWER).await;
    let contents = world.contents().await;
    for change in [relabel(), review(ReviewStatus::Approved)] {
        assert_eq!(code(world.bulk(&viewer, &ids, change).await), "forbidden");
    }
    assert_eq!(world.contents().await, contents);
}

#[tokio::test]
async fn bulk_update_requires_action_of_each_attribute() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let updates = actions(&[Action::MemoryUpdate]);
    let reviews = actions(&[Action::MemoryReview]);
    let updater = world.caller_who_may(updates).await;
    let reviewer = world.caller_who_may(reviews).await;
    let both = world.caller_who_may(updates | reviews).await;
    let change = with(relabel(), |new| {
        new.review_status = Some(ReviewStatus::Approved);
    });
    for (caller, change, expected) in [
        (&updater, relabel(), true),
        (&updater, review(ReviewStatus::Rejected), false),
        (&reviewer, relabel(), false),
        (&reviewer, review(ReviewStatus::Rejected), true),
        (&updater, change.clone(), false),
        (&reviewer, change.clone(), false),
        (&both, change, true),
    ] {
        let result = world.bulk(caller, &ids, change.clone()).await;
        assert_eq!(result.is_ok(), expected, "{change:?}");
    }
}

#[tokio::test]
async fn bulk_update_of_any_label_requires_the_action_to_update() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let reviewer = world.caller_who_may(actions(&[Action::MemoryReview])).await;
    let moved = MemoryChange::builder().source_id(world.source).build();
    let raised = sensitivity(SensitivityLabel::Restricted);
    for change in [relabel(), raised, moved] {
        let result = world.bulk(&reviewer, &ids, change.clone()).await;
        assert_eq!(code(result), "forbidden", "{change:?}");
    }
}

#[tokio::test]
async fn bulk_update_requires_declassify_only_to_lower_sensitivity() {
    let world = World::new().await;
    let ids = world.memories(3).await;
    let set = async |index: usize, label| {
        let one = &ids[index..=index];
        world.change(one, sensitivity(label)).await.unwrap()
    };
    set(0, SensitivityLabel::Public).await;
    set(2, SensitivityLabel::Restricted).await;
    let member = world.caller(MEMBER).await;
    let wanted = sensitivity(SensitivityLabel::Confidential);
    let result = world.bulk(&member, &ids, wanted.clone()).await.unwrap();
    let lacks = "missing permission memory:declassify";
    assert_eq!(
        reasons(&result),
        ["", "", lacks],
        "raising is relabelling alone"
    );
    let entry = world.get_audit_entry(result.results[2].audit_log_id);
    let entry = entry.await.unwrap();
    let denied = AuditOutcome::Denied(Denial::MissingPermission(Action::MemoryDeclassify));
    assert_eq!(entry.outcome, denied, "a refused attempt is audited too");
    assert_eq!(entry.before.unwrap()["sensitivity"], "restricted");
    assert_eq!(entry.after, None);
    let untouched = world.labels(ids[2]).await;
    assert_eq!(untouched.sensitivity, SensitivityLabel::Restricted);

    let extra = actions(&[Action::MemoryDeclassify]);
    let declassifier = world.role(BaseRole::Member, extra, actions(&[])).await;
    let declassifier = world.caller(custom(declassifier.id)).await;
    let result = world.bulk(&declassifier, &ids, wanted).await.unwrap();
    assert_eq!(reasons(&result), ["", "", ""]);
}

#[tokio::test]
async fn bulk_update_to_the_same_sensitivity_lowers_nothing() {
    let world = World::new().await;
    let memories = [world.confidential().await];
    let member = world.caller(MEMBER).await;
    let same = sensitivity(SensitivityLabel::Confidential);
    let result = world.bulk(&member, &memories, same).await.unwrap();
    assert_eq!(reasons(&result), [""]);
}

/// Relabelling is governance, so it requires no right to read.
#[tokio::test]
async fn bulk_update_beyond_audience_requires_right_to_share() {
    let world = World::new().await;
    let ids = world.approved_memories(1).await;
    let hidden = with(sensitivity(SensitivityLabel::Restricted), |new| {
        new.audience_tag = Some("user:nobody".parse().unwrap());
    });
    world.change(&ids, hidden).await.unwrap();
    let member = world.caller(MEMBER).await;
    let result = world.bulk(&member, &ids, relabel()).await.unwrap();
    assert_eq!(reasons(&result), [UNKNOWN]);
    let sharing = actions(&[Action::MemoryUpdate, Action::MemoryShare]);
    let sharing = world.caller_who_may(sharing).await;
    let result = world.bulk(&sharing, &ids, relabel()).await.unwrap();
    assert_eq!(reasons(&result), [""]);
}

#[tokio::test]
async fn bulk_update_applies_workspace_role_instead_of_org_role() {
    let world = World::new().await;
    let sales = world.workspace("sales").await;
    let mut ids = world.memories(1).await;
    ids.extend(world.memories_in(sales, 1).await);
    world.approve(&ids).await;
    let lacks = "missing permission memory:update";

    let demoted = world.member(MEMBER).await;
    world.assign_in(demoted, sales, Some(VIEWER)).await.unwrap();
    let result = world
        .bulk(&world.trusted(demoted), &ids, relabel())
        .await
        .unwrap();
    assert_eq!(reasons(&result), ["", lacks]);

    let promoted = world.member(VIEWER).await;
    world
        .assign_in(promoted, sales, Some(MEMBER))
        .await
        .unwrap();
    let result = world
        .bulk(&world.trusted(promoted), &ids, relabel())
        .await
        .unwrap();
    assert_eq!(reasons(&result), [lacks, ""]);

    world.assign_in(demoted, sales, None).await.unwrap();
    world.assign_in(promoted, sales, None).await.unwrap();
    let result = world
        .bulk(&world.trusted(demoted), &ids, relabel())
        .await
        .unwrap();
    assert_eq!(reasons(&result), ["", ""]);
    let refused = world.bulk(&world.trusted(promoted), &ids, relabel()).await;
    assert_eq!(code(refused), "forbidden");
}

#[tokio::test]
async fn bulk_update_is_limited_to_token_scope() {
    let world = World::new().await;
    let sales = world.workspace("sales").await;
    let mut ids = world.memories(1).await;
    ids.extend(world.memories_in(sales, 1).await);
    world.approve(&ids).await;
    let admin = world.member(ADMIN).await;
    let scoped = async |scope| {
        let issued = world.token(admin, scope).await;
        Caller::from(issued.secret)
    };
    let in_sales = in_workspaces(&[sales]);
    let caller = scoped(in_sales).await;
    let result = world.bulk(&caller, &ids, relabel()).await.unwrap();
    assert_eq!(reasons(&result), [UNKNOWN, ""]);

    let updating = TokenScope {
        actions: Some(actions(&[Action::MemoryUpdate])),
        ..TokenScope::default()
    };
    let caller = scoped(updating).await;
    let lowered = sensitivity(SensitivityLabel::Public);
    let result = world.bulk(&caller, &ids, lowered).await.unwrap();
    let lacks = "missing permission memory:declassify";
    assert_eq!(reasons(&result), [lacks, lacks], "although its member may");
    let refused = world
        .bulk(&caller, &ids, review(ReviewStatus::Approved))
        .await;
    assert_eq!(code(refused), "forbidden");
}

/// Through a scoped token, the role in the organisation counts where no other replaces it.
#[tokio::test]
async fn scoped_token_requires_the_action_in_its_workspaces() {
    let world = World::new().await;
    let memories = world.approved_memories(1).await;
    let place = world.workspace.id;
    let restricted = world.member(MEMBER).await;
    let assigned = world.assign_in(restricted, place, Some(VIEWER)).await;
    assigned.unwrap();
    for (member, expected) in [
        (world.member(MEMBER).await, None),
        (world.member(VIEWER).await, Some("forbidden")),
        (restricted, Some("forbidden")),
    ] {
        let scope = in_workspaces(&[place]);
        let caller = world.token(member, scope).await.secret.into();
        let updated = world.bulk(&caller, &memories, relabel()).await;
        assert_eq!(updated.err().map(|error| error.code()), expected);
    }
}

/// All roles in workspaces count, however many a member has.
#[tokio::test]
async fn role_in_the_last_of_many_workspaces_suffices() {
    let world = World::new().await;
    let member = world.member(VIEWER).await;
    let mut places = Vec::new();
    for _ in 0..80 {
        places.push(world.workspace(&world.name("place")).await);
    }
    places.sort();
    let last = *places.last().unwrap();
    for place in places {
        let role = if place == last { MEMBER } else { VIEWER };
        world.assign_in(member, place, Some(role)).await.unwrap();
    }
    let memories = world.memories_in(last, 1).await;
    let caller = world.trusted(member);
    let result = world.bulk(&caller, &memories, relabel()).await.unwrap();
    assert_eq!(reasons(&result), [""]);
}

#[tokio::test]
async fn bulk_update_reports_memory_of_another_org_as_not_found() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let eve = world.stranger("evil").await.owner;
    let result = world.bulk(&eve, &ids, relabel()).await.unwrap();
    let error = result.results[0].error.as_ref().unwrap();
    assert_eq!(error.code, BulkItemErrorCode::NotFound);
    let entry = world
        .by(&eve)
        .get_audit_entry(result.results[0].audit_log_id);
    assert_eq!(entry.await.unwrap().outcome, AuditOutcome::NotFound);
    let theirs = world.get_audit_entry(result.results[0].audit_log_id);
    assert_eq!(code(theirs.await), "not_found");
}
