//! Tests of private workspaces: they exist for their people, and for nobody else.

use std::collections::BTreeSet;

use knowledge_core::Error;
use knowledge_core::access::{Action, ActionSet, BaseRole, RoleRef, TokenScope};
use knowledge_core::api::Operation;
use knowledge_core::limits::PRIVATE_WORKSPACES_MAX;
use knowledge_core::model::{
    AccessCheck, AudienceLabel, BulkImpact, BulkUpdate, CitationFilter, CredentialId,
    CustomRoleUpdate, EventType, MemoryChange, MemoryFilter, MemoryId, NewErasure,
    NewInboundWebhook, RecallId, ResourceState, SensitivityLabel, SourceId, WorkspaceAccess,
    WorkspaceId,
};
use knowledge_core::service::{
    ActivityDays, AuditAction, AuditEntry, AuditFilter, AuditOutcome, AuditResource, Caller,
    ClientInfo, DeleteRole, Denial, Endpoint, MemberUpdate, NewWorkspace, PageRequest, Refusal,
    ResourceKind,
};
use uuid::Uuid;

use crate::audit::entries;
use crate::endpoint_confirmation::send;
use crate::event_receivers::{reviewer, webhook};
use crate::make::{
    ADMIN, MEMBER, MILLISECOND, VIEWER, actions, audience, code, create_memory, custom, new_access,
    new_chat, new_mcp_key, new_recall, new_role, new_subscription, new_workspace, problem,
    sensitivity,
};
use crate::sign_in::{sign_in, token};
use crate::world::World;
use knowledge_testing::requests::with;

/// An organisation whose workspace `research` is private, with members of all kinds.
struct Place {
    world: World,
    /// Approved memory for `workspace:research`, in that workspace.
    memory: MemoryId,
    /// Callers for whom the workspace does not exist.
    outside: [Caller; 3],
    /// Viewer of the organisation with the role `member` in the workspace.
    insider: Caller,
}

async fn set(world: &World, access: WorkspaceAccess) {
    world.set_access(&new_access(access)).await.unwrap();
}

impl Place {
    async fn new() -> Self {
        let world = World::new().await;
        let memory = world.approved_memories(1).await[0];
        let outside = [
            world.caller(VIEWER).await,
            world.caller(ADMIN).await,
            world.caller_who_may(ActionSet::ALL).await,
        ];
        let insider = world.member(VIEWER).await;
        let workspace = world.workspace.id;
        let assigned = world.assign_in(insider, workspace, Some(MEMBER));
        assigned.await.unwrap();
        set(&world, WorkspaceAccess::Private).await;
        let insider = world.trusted(insider);
        Self {
            world,
            memory,
            outside,
            insider,
        }
    }

    /// Returns the administrator for whom the workspace does not exist.
    fn admin(&self) -> &Caller {
        &self.outside[1]
    }
}

fn citing(memory: MemoryId) -> CitationFilter {
    CitationFilter::builder().memory_id(memory).build()
}

fn names(labels: &[AudienceLabel]) -> Vec<String> {
    labels.iter().map(ToString::to_string).collect()
}

/// Returns whom a change of the audience of a memory would concern, as a caller is told.
async fn impact(world: &World, caller: &Caller, memory: MemoryId, label: &str) -> BulkImpact {
    let update = BulkUpdate::builder()
        .memory_ids(vec![memory])
        .change(audience(label))
        .dry_run(true)
        .build();
    let key = "dry".parse().unwrap();
    let result = world.by(caller).bulk_update_memories(&key, &update).await;
    result.unwrap().impact.unwrap()
}

/// Returns the numbers of members that gain or lose sight.
fn people(impact: &BulkImpact) -> [u32; 2] {
    [impact.members_gaining, impact.members_losing]
}

/// Returns what a caller is told of a label in a workspace: its number of memories, and whether it
/// covers somebody.
async fn told(
    world: &World,
    caller: &Caller,
    place: WorkspaceId,
    label: &str,
) -> Option<(u64, bool)> {
    let labels = world.by(caller).within(place).list_labels().await.unwrap();
    let mut labels = labels.data.into_iter();
    let found = labels.find(|found| found.label.to_string() == label);
    found.map(|found| (found.memories, found.has_members))
}

/// Returns the slugs of the workspaces that a caller lists.
async fn listed(world: &World, caller: &Caller) -> Vec<String> {
    let page = PageRequest::default();
    let found = world.by(caller).list_workspaces(&page).await.unwrap();
    found.data.into_iter().map(|place| place.slug).collect()
}

async fn log(world: &World, caller: &Caller) -> Vec<AuditEntry> {
    let page = PageRequest::builder().limit(200).build();
    let found = world.by(caller);
    let found = found.list_audit_log(&AuditFilter::default(), &page).await;
    found.unwrap().data
}

#[tokio::test]
async fn private_workspace_exists_for_its_people_only() {
    let place = Place::new().await;
    let (world, memory) = (&place.world, place.memory);
    let recall = world.recall_of(&[memory]).await;
    let chat = world.add_chat("Plans").await;
    let page = PageRequest::default();
    for caller in &place.outside {
        let by = world.by(caller);
        assert_eq!(listed(world, caller).await, [""; 0]);
        for refused in [
            code(by.get_workspace().await),
            code(by.get_dashboard().await),
            code(by.get_retention().await),
            code(by.list_memories(&MemoryFilter::default(), &page).await),
            code(by.create_memory(&create_memory("New", world.source)).await),
            code(by.get_memory(memory).await),
            code(by.delete_memory(memory).await),
            code(by.list_labels().await),
            code(by.get_activity(&ActivityDays::default()).await),
            code(by.list_recalls(&CitationFilter::default(), &page).await),
            code(by.list_recalls(&citing(memory), &page).await),
            code(by.get_recall(recall).await),
            code(by.list_chats(&page).await),
            code(by.get_chat(chat).await),
            code(by.create_chat(&new_chat("Hi")).await),
            code(by.list_connectors(&page).await),
            code(by.list_mcp_keys(&page).await),
            code(by.set_access(&new_access(WorkspaceAccess::Open)).await),
        ] {
            assert_eq!(refused, "not_found");
        }
        let check = AccessCheck::builder().memory_ids(vec![memory]).build();
        let checked = by.check_access(&check).await.unwrap();
        assert!(checked.results[0].labels.is_none(), "{checked:?}");
        let changed = world.bulk(caller, &[memory], audience("org:acme")).await;
        assert_eq!(changed.map_or(0, |changed| changed.summary.succeeded), 0);
    }
    for caller in [&place.insider, &world.owner] {
        let by = world.by(caller);
        assert_eq!(listed(world, caller).await, ["research"]);
        assert_eq!(
            by.get_workspace().await.unwrap().access,
            WorkspaceAccess::Private
        );
        assert!(by.get_memory(memory).await.unwrap().value.content.is_some());
        by.get_dashboard().await.unwrap();
        by.get_recall(recall).await.unwrap();
    }
    set(world, WorkspaceAccess::Open).await;
    for caller in &place.outside {
        assert_eq!(listed(world, caller).await, ["research"]);
        world.by(caller).get_memory(memory).await.unwrap();
    }
    world.assert_whole().await;
}

/// The people of a workspace are those that hold a role in it now.
#[tokio::test]
async fn role_in_a_private_workspace_opens_it_to_its_holder() {
    let place = Place::new().await;
    let world = &place.world;
    let (member, workspace) = (world.member(VIEWER).await, world.workspace.id);
    let caller = Caller::from(world.token(member, TokenScope::default()).await.secret);
    for role in [Some(VIEWER), None, Some(ADMIN), None] {
        world.assign_in(member, workspace, role).await.unwrap();
        // The second call knows the login of the first.
        for _ in 0..2 {
            let found = world.by(&caller).get_memory(place.memory).await;
            assert_eq!(found.is_ok(), role.is_some(), "{found:?}");
        }
    }
    for access in [WorkspaceAccess::Open, WorkspaceAccess::Private] {
        set(world, access).await;
        for _ in 0..2 {
            let found = world.by(&caller).get_memory(place.memory).await;
            assert_eq!(found.is_ok(), access == WorkspaceAccess::Open);
        }
    }
}

#[tokio::test]
async fn label_of_a_private_workspace_covers_its_people_everywhere() {
    let place = Place::new().await;
    let world = &place.world;
    let sales = world.workspace("sales").await;
    let memory = world.memories_in(sales, 1).await;
    world.approve(&memory).await;
    world
        .change(&memory, audience("workspace:research"))
        .await
        .unwrap();
    let [viewer, admin, _] = &place.outside;
    assert_eq!(
        code(world.by(viewer).get_memory(memory[0]).await),
        "not_found"
    );
    // An administrator sees the labels of every memory, and the content of no such one.
    let seen = world.by(admin).get_memory(memory[0]).await.unwrap().value;
    assert_eq!((seen.summary.title, seen.content), (None, None));
    for caller in [&place.insider, &world.owner] {
        let seen = world.by(caller).get_memory(memory[0]).await.unwrap();
        assert!(seen.value.content.is_some());
    }
    set(world, WorkspaceAccess::Open).await;
    assert!(world.by(viewer).get_memory(memory[0]).await.is_ok());
}

/// Members count with the private workspaces that exist for them. Nothing is told of one that does
/// not exist for the caller.
#[tokio::test]
async fn impact_counts_the_people_of_a_private_workspace() {
    const LABEL: &str = "workspace:research";
    let place = Place::new().await;
    let world = &place.world;
    let insider = world.member(ADMIN).await;
    let assigned = world.assign_in(insider, world.workspace.id, Some(ADMIN));
    assigned.await.unwrap();
    let insider = world.trusted(insider);
    let sales = world.workspace("sales").await;
    let memory = world.memories_in(sales, 1).await[0];
    world.approve(&[memory]).await;
    // The owner, two insiders and three others read it.
    for caller in [&world.owner, &insider] {
        let counted = impact(world, caller, memory, LABEL).await;
        assert_eq!(people(&counted), [0, 3]);
        assert!(counted.labels_without_members.is_empty());
        // What is in the private workspace is read by its people only.
        let inside = impact(world, caller, place.memory, "team:nobody").await;
        assert_eq!(people(&inside), [0, 3]);
    }
    for caller in &place.outside[1..] {
        let counted = impact(world, caller, memory, LABEL).await;
        assert_eq!(names(&counted.labels_without_members), [LABEL]);
        let unknown = impact(world, caller, memory, "workspace:nowhere").await;
        assert_eq!((people(&counted), people(&unknown)), ([0, 6], [0, 6]));
    }
    let named = async |caller: &Caller| {
        let changed = world.bulk(caller, &[memory], audience(LABEL)).await;
        names(&changed.unwrap().labels_without_members)
    };
    assert_eq!(named(place.admin()).await, [LABEL]);
    assert_eq!(named(&insider).await, [""; 0]);
    let opened = impact(world, &insider, memory, "org:acme").await;
    assert_eq!(people(&opened), [3, 0]);
    let opened = impact(world, place.admin(), memory, "org:acme").await;
    assert_eq!(people(&opened), [6, 0]);
    world.assert_whole().await;
}

#[tokio::test]
async fn labels_of_an_open_workspace_tell_nothing_of_a_private_one() {
    const LABEL: &str = "workspace:research";
    let place = Place::new().await;
    let world = &place.world;
    let sales = world.workspace("sales").await;
    let memories = world.memories_in(sales, 3).await;
    world.approve(&memories).await;
    let labelled = world.change(&memories[..2], audience(LABEL)).await;
    assert!(labelled.unwrap().labels_without_members.is_empty());
    let unknown = world.change(&memories[2..], audience("workspace:nowhere"));
    unknown.await.unwrap();
    for caller in &place.outside[1..] {
        assert_eq!(told(world, caller, sales, LABEL).await, Some((2, false)));
        let unknown = told(world, caller, sales, "workspace:nowhere").await;
        assert_eq!(unknown, Some((1, false)));
    }
    assert_eq!(told(world, &place.outside[0], sales, LABEL).await, None);
    for caller in [&place.insider, &world.owner] {
        assert_eq!(told(world, caller, sales, LABEL).await, Some((2, true)));
    }
    set(world, WorkspaceAccess::Open).await;
    for caller in &place.outside {
        assert_eq!(told(world, caller, sales, LABEL).await, Some((2, true)));
    }
}

#[tokio::test]
async fn recalls_are_not_found_by_a_memory_for_others() {
    let place = Place::new().await;
    let world = &place.world;
    world.recall_of(&[place.memory]).await;
    let sales = world.workspace("sales").await;
    let memories = world.memories_in(sales, 2).await;
    world.approve(&memories).await;
    let maker = &world.caller(MEMBER).await;
    let new = new_recall(&memories);
    let made = world.by(maker).within(sales).create_recall(&new).await;
    let made = made.unwrap().id;
    let labelled = world.change(&memories[1..], audience("workspace:research"));
    labelled.await.unwrap();
    let found = async |caller: &Caller, memory: MemoryId| {
        let (calls, page) = (world.by(caller).within(sales), PageRequest::default());
        let listed = calls.list_recalls(&citing(memory), &page).await.unwrap();
        let recalls = listed.data.into_iter();
        recalls.map(|recall| recall.id).collect::<Vec<RecallId>>()
    };
    for caller in &place.outside {
        assert_eq!(found(caller, place.memory).await, []);
    }
    assert_eq!(found(maker, memories[0]).await, [made]);
    assert_eq!(found(maker, memories[1]).await, []);
    for caller in [&place.insider, &world.owner] {
        assert_eq!(found(caller, memories[1]).await, [made]);
    }
}

#[tokio::test]
async fn roles_in_a_private_workspace_are_hidden_with_it() {
    let place = Place::new().await;
    let (world, admin) = (&place.world, place.world.by(place.admin()));
    let workspace = world.workspace.id;
    let of_place = with(new_role("inner"), |new| new.workspace_id = Some(workspace));
    let role = world.create_role(&of_place).await.unwrap().id;
    let member = world.member(VIEWER).await;
    let assigned = world.assign_in(member, workspace, Some(custom(role)));
    assigned.await.unwrap();
    let listed = admin.list_roles().await.unwrap();
    assert!(listed.iter().all(|listed| listed.id != role));
    assert_eq!(code(admin.get_role(role).await), "not_found");
    let another = with(new_role("another"), |new| {
        new.workspace_id = Some(workspace);
    });
    assert_eq!(
        problem(admin.create_role(&another).await),
        "workspace_id not_found"
    );
    assert_eq!(
        admin
            .get_member(member)
            .await
            .unwrap()
            .value
            .workspace_roles,
        []
    );
    let seen = world.get_member(member).await.unwrap().value;
    assert_eq!(seen.workspace_roles.len(), 1);
    let ended = admin.end_workspace_role(member, workspace).await;
    assert_eq!(code(ended), "not_found");
    let inner = MemberUpdate::builder().role(custom(role)).build();
    let changed = admin.update_member(member, &inner, None).await;
    assert_eq!(problem(changed), "role not_found");
    // What the member holds there decides nothing for those who do not know of it.
    let all = world.role(BaseRole::Viewer, ActionSet::ALL, ActionSet::EMPTY);
    let all = RoleRef::Custom(all.await.id);
    world.assign_in(member, workspace, Some(all)).await.unwrap();
    let viewer = BaseRole::Viewer.actions() | actions(&[Action::MemberManage]);
    let manager = world.caller_who_may(viewer).await;
    world.by(&manager).remove_member(member).await.unwrap();
    world.maintain().await;
    world.assert_whole().await;
}

/// Checks the refusal of what reaches workspaces that do not exist for the caller.
fn assert_out_of_reach(refused: Result<(), Error>) {
    match refused {
        Err(Error::Forbidden { reason, permission }) => {
            assert!(reason.starts_with("reaches every workspace"), "{reason}");
            assert_eq!(permission, None);
        }
        other => panic!("{other:?}"),
    }
}

/// An organisation-wide role may be held in every workspace. Whether it is decides nothing, so that
/// the refusal tells nothing of it.
#[tokio::test]
async fn role_of_the_organization_needs_every_private_workspace() {
    let place = Place::new().await;
    let world = &place.world;
    let none = ActionSet::EMPTY;
    let held = world.role(BaseRole::Viewer, none, none).await.id;
    let free = world.role(BaseRole::Viewer, none, none).await.id;
    let (member, workspace) = (world.member(VIEWER).await, world.workspace.id);
    let assigned = world.assign_in(member, workspace, Some(custom(held)));
    assigned.await.unwrap();
    let rename = CustomRoleUpdate::builder().name("New").build();
    let delete = DeleteRole::default();
    let reassign = DeleteRole::builder().reassign_to(MEMBER).build();
    let by = world.by(place.admin());
    let mut refusals = Vec::new();
    for role in [held, free] {
        refusals.push(by.update_role(role, &rename, None).await.map(|_| ()));
        refusals.push(by.delete_role(role, &delete).await);
        refusals.push(by.delete_role(role, &reassign).await);
    }
    for refused in refusals {
        assert_out_of_reach(refused);
    }
    let seen = world.get_member(member).await.unwrap().value;
    assert_eq!(seen.workspace_roles[0].role, custom(held));
    // One of the people of every private workspace can do it.
    let insider = world.member(ADMIN).await;
    let assigned = world.assign_in(insider, workspace, Some(ADMIN));
    assigned.await.unwrap();
    let insider = world.trusted(insider);
    let changed = world.by(&insider).update_role(held, &rename, None).await;
    changed.unwrap();
    world
        .by(&insider)
        .delete_role(held, &reassign)
        .await
        .unwrap();
    set(world, WorkspaceAccess::Open).await;
    by.delete_role(free, &delete).await.unwrap();
    world.maintain().await;
    world.assert_whole().await;
}

#[tokio::test]
async fn audit_log_omits_private_workspaces_for_others() {
    let place = Place::new().await;
    let (world, admin) = (&place.world, place.admin());
    let workspace = world.workspace.id;
    let hook = world.webhook(EventType::ChunkCreated).await;
    world.rotate_webhook(hook.id).await.unwrap();
    let insider = world.by(&place.insider);
    insider.create_chat(&new_chat("Inside")).await.unwrap();
    let member = world.member(VIEWER).await;
    world
        .assign_in(member, workspace, Some(VIEWER))
        .await
        .unwrap();
    let all = entries(world).await;
    let shown = log(world, admin).await;
    let is_inside = |entry: &&AuditEntry| {
        let text = serde_json::to_string(entry).unwrap();
        text.contains(&workspace.to_string())
            || entry.resource.kind == ResourceKind::Webhook
            || entry.resource.kind == ResourceKind::Chat
            || entry.resource.kind == ResourceKind::Memory
    };
    assert!(all.iter().filter(is_inside).count() > 5);
    assert_eq!(shown.iter().find(is_inside), None);
    assert_eq!(
        shown.len(),
        all.iter().filter(|entry| !is_inside(entry)).count()
    );
    for entry in all.iter().filter(is_inside) {
        assert_eq!(
            code(world.by(admin).get_audit_entry(entry.id).await),
            "not_found"
        );
    }
    set(world, WorkspaceAccess::Open).await;
    assert_eq!(log(world, admin).await.len(), entries(world).await.len());
}

#[tokio::test]
async fn audit_log_omits_what_the_service_did_in_private_workspaces_for_others() {
    let place = Place::new().await;
    let (world, admin) = (&place.world, place.admin());
    let recall = world.recall_of(&[place.memory]).await;
    let new = new_subscription(recall, "https://example.com/citations");
    let made = world.create_subscription(&new).await.unwrap().id;
    send(world, 410).await;
    let pinged = world.ping_endpoint(Endpoint::Subscription(made)).await;
    pinged.unwrap();
    send(world, 200).await;
    let is_by_service = |entry: &AuditEntry| {
        let is_enabling = entry.action == AuditAction::SubscriptionEnable;
        let is_disabling = entry.action == AuditAction::SubscriptionDisable;
        is_enabling || is_disabling
    };
    let mut written = log(world, &world.owner).await;
    written.retain(is_by_service);
    assert_eq!(written.len(), 2, "{written:?}");
    let shown = log(world, admin).await;
    assert!(!shown.iter().any(is_by_service), "{shown:?}");
    for entry in written {
        assert_eq!((entry.actor_id, entry.resource.id), (None, made.0));
        let found = world.by(admin).get_audit_entry(entry.id).await;
        assert_eq!(code(found), "not_found");
    }
    set(world, WorkspaceAccess::Open).await;
    assert!(log(world, admin).await.iter().any(is_by_service));
    world.assert_whole().await;
}

/// Returns how the log tells, to a reader, of a bulk update of these memories.
async fn recorded(
    world: &World,
    reader: &Caller,
    caller: &Caller,
    memories: &[MemoryId],
) -> Vec<AuditEntry> {
    let change = sensitivity(SensitivityLabel::Public);
    let result = world.bulk(caller, memories, change).await.unwrap();
    assert_eq!(result.summary.succeeded, 0);
    let mut entries = Vec::new();
    for item in result.results {
        let entry = world.by(reader).get_audit_entry(item.audit_log_id).await;
        entries.push(entry.unwrap());
    }
    entries
}

/// Nobody who reads the log learns which of the named memories exists there.
#[tokio::test]
async fn memory_of_a_private_workspace_is_recorded_like_an_unknown_one() {
    let place = Place::new().await;
    let (world, admin) = (&place.world, place.admin());
    let memories = [place.memory, MemoryId(Uuid::from_u128(7))];
    let is_unknown = |entry: &AuditEntry| {
        let tells = entry.reason.is_some() || entry.before.is_some() || entry.after.is_some();
        entry.outcome == AuditOutcome::NotFound && !tells
    };
    let updated = recorded(world, admin, admin, &memories).await;
    assert!(updated.iter().all(is_unknown), "{updated:?}");
    let key = world.name("key").parse().unwrap();
    let named = NewErasure::builder().memory_ids(memories.to_vec()).build();
    let erased = world.by(admin).create_erasure(&key, &named).await.unwrap();
    let erased = erased.erasure;
    assert_eq!((erased.not_found, erased.forbidden), (2, 0));
    for reader in [admin, &world.owner] {
        let mut refused = log(world, reader).await;
        refused.retain(|entry| entry.outcome != AuditOutcome::Ok);
        assert_eq!(refused.len(), 4);
        assert!(refused.iter().all(is_unknown), "{refused:?}");
    }
    // Also for those of its people for whom the memory does not exist: others read the log.
    let hidden = world.change(&memories[..1], audience("user:nobody")).await;
    assert_eq!(hidden.unwrap().summary.succeeded, 1);
    let updated = recorded(world, admin, &place.insider, &memories).await;
    assert!(updated.iter().all(is_unknown), "{updated:?}");
    world.assert_whole().await;
}

#[tokio::test]
async fn hidden_memory_of_an_open_workspace_is_recorded_as_forbidden() {
    let place = Place::new().await;
    let (world, admin) = (&place.world, place.admin());
    let sales = world.workspace("sales").await;
    let memories = world.memories_in(sales, 1).await;
    world.approve(&memories).await;
    let hidden = world.change(&memories, audience("user:nobody")).await;
    assert_eq!(hidden.unwrap().summary.succeeded, 1);
    let member = world.caller(MEMBER).await;
    let updated = recorded(world, admin, &member, &memories).await;
    let denied = AuditOutcome::Denied(Denial::Invisible);
    assert_eq!((updated[0].outcome, &updated[0].before), (denied, &None));
}

/// Otherwise, whoever misses the entry about its own attempt knows that the identifier is used.
#[tokio::test]
async fn refusal_naming_something_in_a_private_workspace_is_shown_like_any_other() {
    let place = Place::new().await;
    let world = &place.world;
    let workspace = world.workspace.id;
    let inner = with(new_role("inner"), |new| new.workspace_id = Some(workspace));
    let role = world.create_role(&inner).await.unwrap().id;
    let reader = world.caller_who_may(actions(&[Action::AuditRead])).await;
    for id in [role.0, Uuid::from_u128(7)] {
        let kind = ResourceKind::Role;
        let refusal = Refusal {
            operation: Operation::DeleteCustomRole,
            workspace: None,
            resource: Some(AuditResource { kind, id }),
            reason: "missing permission role:manage".to_owned(),
        };
        let audit_log = world.service.audit_log();
        audit_log.record_refusal(&reader, &refusal).await;
    }
    let mut shown = log(world, &reader).await;
    shown.retain(|entry| entry.outcome == AuditOutcome::Rejected);
    let named: Vec<(ResourceKind, Uuid)> = shown
        .iter()
        .map(|entry| (entry.resource.kind, entry.resource.id))
        .collect();
    assert_eq!(named, [(ResourceKind::Organization, world.org.id.0); 2]);
    world.assert_whole().await;
}

#[tokio::test]
async fn closing_a_workspace_ends_the_deliveries_of_others() {
    let world = World::new().await;
    let outsider = reviewer(&world).await;
    let endpoint = webhook(&world, &outsider, EventType::ChunkCreated).await;
    let own = world.webhook(EventType::ChunkCreated).await.id;
    world.memories(1).await;
    world.fan_out().await;
    assert_eq!(world.queued_events(endpoint).await.len(), 1);
    set(&world, WorkspaceAccess::Private).await;
    world.memories(1).await;
    world.fan_out().await;
    assert_eq!(world.queued_events(endpoint).await.len(), 1);
    assert_eq!(world.queued_events(own).await.len(), 2);
    // Closing is no change of a memory, so that nothing is published about it.
    assert!(world.events_of(EventType::MemoryUpdated).await.is_empty());
}

#[tokio::test]
async fn what_others_created_is_suspended_while_a_workspace_is_private() {
    let world = World::new().await;
    let admin = world.caller(ADMIN).await;
    let new = new_mcp_key("org:acme");
    let key = world.by(&admin).create_mcp_key(&new).await.unwrap();
    for (access, state) in [
        (WorkspaceAccess::Private, ResourceState::Suspended),
        (WorkspaceAccess::Open, ResourceState::Active),
    ] {
        set(&world, access).await;
        let found = world.get_mcp_key(key.summary.id).await.unwrap();
        assert_eq!(found.state, state);
        let shown = world.get_dashboard().await.unwrap().value;
        assert_eq!(shown.mcp_keys, [found]);
    }
}

/// It is ended with the session, like everything else that the session created.
#[tokio::test]
async fn what_a_session_created_in_a_private_workspace_is_hidden_from_others() {
    let world = World::new().await;
    let admin = world.member(ADMIN).await;
    let session = sign_in(&world, admin).await;
    let access = token(&world, &session.secret).await;
    let sales = world.workspace("sales").await;
    let mut keys: Vec<CredentialId> = Vec::new();
    for workspace in [world.workspace.id, sales] {
        let calls = world.by(&access).within(workspace);
        let made = calls.create_mcp_key(&new_mcp_key("org:acme")).await;
        keys.push(made.unwrap().summary.id);
    }
    let (id, page) = (session.record.id, PageRequest::default());
    let (sessions, operator) = (world.service.sessions(), world.service.provisioning());
    let shown = async || {
        let listed = sessions.created_with(&session.secret, id, &page).await;
        let listed = listed.unwrap().data.into_iter();
        listed.map(|made| made.id).collect::<BTreeSet<_>>()
    };
    assert_eq!(shown().await, BTreeSet::from([keys[0].0, keys[1].0]));
    set(&world, WorkspaceAccess::Private).await;
    assert_eq!(shown().await, BTreeSet::from([keys[1].0]));
    let all = operator.list_created_with(world.org.id, id, &page).await;
    let all = all.unwrap().data;
    let state_of = |key: CredentialId| {
        let found = all.iter().find(|made| made.id == key.0);
        found.map(|made| made.status.state)
    };
    assert_eq!(state_of(keys[0]), Some(ResourceState::Suspended));
    assert_eq!(state_of(keys[1]), Some(ResourceState::Active));
    let client = ClientInfo::default();
    let ended = sessions.end_own_credential(&session.secret, id, true, client);
    ended.await.unwrap();
    set(&world, WorkspaceAccess::Open).await;
    let found = world.get_mcp_key(keys[0]).await.unwrap();
    assert_eq!(found.state, ResourceState::Ended);
    world.assert_whole().await;
}

#[tokio::test]
async fn access_is_changed_by_its_people_with_permission() {
    let world = World::new().await;
    let workspace = world.workspace.id;
    let (admin, private) = (
        world.member(ADMIN).await,
        new_access(WorkspaceAccess::Private),
    );
    let viewer = world.caller(VIEWER).await;
    for (caller, access) in [
        (&viewer, WorkspaceAccess::Private),
        (&viewer, WorkspaceAccess::Open),
        // It would no longer see the workspace.
        (&world.trusted(admin), WorkspaceAccess::Private),
    ] {
        let changed = world.by(caller).set_access(&new_access(access)).await;
        assert_eq!(code(changed), "forbidden");
    }
    world
        .assign_in(admin, workspace, Some(ADMIN))
        .await
        .unwrap();
    let admin = world.trusted(admin);
    for _ in 0..2 {
        let changed = world.by(&admin).set_access(&private).await.unwrap();
        assert_eq!(changed.access, WorkspaceAccess::Private);
    }
    let changes = entries(&world).await;
    let changes = changes.iter();
    let changes = changes.filter(|entry| entry.action == AuditAction::WorkspaceUpdate);
    let states: Vec<_> = changes.map(|entry| (&entry.before, &entry.after)).collect();
    let [(Some(before), Some(after))] = states[..] else {
        panic!("{states:?}");
    };
    assert_eq!(before["access"], "open");
    assert_eq!(after["access"], "private");
    world
        .by(&admin)
        .set_access(&new_access(WorkspaceAccess::Open))
        .await
        .unwrap();
    assert!(world.by(&viewer).get_workspace().await.is_ok());
    world.assert_whole().await;
}

/// It grants no action by itself: the roles in the organisation count there again, which others
/// granted.
#[tokio::test]
async fn workspace_is_opened_by_one_of_its_people_who_manages_members_there() {
    let place = Place::new().await;
    let (world, open) = (&place.world, new_access(WorkspaceAccess::Open));
    let refused = world.by(&place.insider).set_access(&open).await;
    assert_eq!(code(refused), "forbidden");
    for outside in &place.outside {
        let refused = world.by(outside).set_access(&open).await;
        assert_eq!(code(refused), "not_found");
    }
    let manage = actions(&[Action::MemberManage]);
    let role = world.role(BaseRole::Viewer, manage, ActionSet::EMPTY).await;
    let keeper = world.member(VIEWER).await;
    let assigned = world.assign_in(keeper, world.workspace.id, Some(custom(role.id)));
    assigned.await.unwrap();
    let by_keeper = world.trusted(keeper);
    let opened = world.by(&by_keeper).set_access(&open).await.unwrap();
    assert_eq!(opened.access, WorkspaceAccess::Open);
    let entries = entries(world).await;
    let is_opening = |entry: &&AuditEntry| {
        entry.action == AuditAction::WorkspaceUpdate && entry.actor_id == Some(keeper)
    };
    assert_eq!(entries.iter().filter(is_opening).count(), 1);
    for outside in &place.outside {
        world.by(outside).get_workspace().await.unwrap();
    }
    world.assert_whole().await;
}

#[tokio::test]
async fn operator_creates_private_workspaces_up_to_a_limit() {
    let world = World::new().await;
    let (org, provisioning) = (world.org.id, world.service.provisioning());
    let new = |number: usize| -> NewWorkspace {
        with(new_workspace(&format!("place-{number}")), |new| {
            new.access = WorkspaceAccess::Private;
        })
    };
    let viewer = world.caller(VIEWER).await;
    for number in 0..PRIVATE_WORKSPACES_MAX {
        let made = provisioning
            .create_workspace(org, &new(number))
            .await
            .unwrap();
        assert_eq!(made.access, WorkspaceAccess::Private);
    }
    assert_eq!(listed(&world, &viewer).await, ["research"]);
    let further = new(PRIVATE_WORKSPACES_MAX);
    let further = provisioning.create_workspace(org, &further);
    assert_eq!(problem(further.await), "access too_large");
    let private = new_access(WorkspaceAccess::Private);
    let workspace = world.workspace.id;
    let further = provisioning.set_workspace_access(org, workspace, &private);
    assert_eq!(problem(further.await), "access too_large");
    // The removal of one makes room for another.
    let first = provisioning
        .workspace(org, "place-0")
        .await
        .unwrap()
        .unwrap();
    provisioning.delete_workspace(org, first.id).await.unwrap();
    world.assert_whole().await;
    world.maintain().await;
    let further = provisioning.set_workspace_access(org, workspace, &private);
    further.await.unwrap();
    assert_eq!(listed(&world, &viewer).await, [""; 0]);
    world.assert_whole().await;
}

/// An erasure by source or member reaches every workspace.
#[tokio::test]
async fn erasure_of_a_source_needs_every_private_workspace() {
    let place = Place::new().await;
    let world = &place.world;
    let by_source = NewErasure::builder().source_id(world.source).build();
    let erase = async |caller: &Caller| -> Result<(), Error> {
        let key = world.name("key").parse().unwrap();
        let erased = world.by(caller).create_erasure(&key, &by_source).await;
        erased.map(|_| ())
    };
    assert_out_of_reach(erase(place.admin()).await);
    erase(&world.owner).await.unwrap();
}

#[tokio::test]
async fn receipt_of_a_hidden_source_is_hidden_with_it() {
    let place = Place::new().await;
    let world = &place.world;
    let new = NewInboundWebhook::builder().name("Forms").build();
    let hidden = world.create_inbound(&new).await.unwrap().source_id;
    let erase = async |source: SourceId| {
        world.time.pass(MILLISECOND);
        let key = world.name("key").parse().unwrap();
        let request = NewErasure::builder().source_id(source).build();
        let erased = world.create_erasure(&key, &request).await.unwrap();
        erased.erasure.id
    };
    let [inside, other] = [erase(hidden).await, erase(world.source).await];
    let receipts = async |caller: &Caller| {
        let (mut ids, mut cursor) = (Vec::new(), None);
        loop {
            let page = PageRequest::builder().limit(1).maybe_cursor(cursor).build();
            let listed = world.by(caller).list_erasures(&page).await.unwrap();
            ids.extend(listed.data.iter().map(|receipt| receipt.id));
            cursor = listed.next_cursor;
            if cursor.is_none() {
                return ids;
            }
        }
    };
    let admin = place.admin();
    assert_eq!(receipts(admin).await, [other]);
    assert_eq!(code(world.by(admin).get_erasure(inside).await), "not_found");
    world.by(admin).get_erasure(other).await.unwrap();
    assert_eq!(receipts(&world.owner).await, [other, inside]);
    world.get_erasure(inside).await.unwrap();
    set(world, WorkspaceAccess::Open).await;
    assert_eq!(receipts(admin).await, [other, inside]);
    world.by(admin).get_erasure(inside).await.unwrap();
}

#[tokio::test]
async fn source_of_an_inbound_webhook_is_hidden_with_its_workspace() {
    let place = Place::new().await;
    let (world, admin) = (&place.world, place.admin());
    let new = NewInboundWebhook::builder().name("Forms").build();
    let source = world.create_inbound(&new).await.unwrap().source_id;
    let moved = || MemoryChange::builder().source_id(source).build();
    let page = PageRequest::default();
    for caller in &place.outside {
        let by = world.by(caller);
        let listed = by.list_sources(&page).await.unwrap().data;
        assert!(listed.iter().all(|listed| listed.id != source));
        assert!(listed.iter().any(|listed| listed.id == world.source));
        assert_eq!(code(by.get_source(source).await), "not_found");
    }
    let refused = world.bulk(admin, &[place.memory], moved()).await;
    assert_eq!(problem(refused), "sourceId not_found");
    for caller in [&place.insider, &world.owner] {
        world.by(caller).get_source(source).await.unwrap();
    }
    let refused = world.bulk(&world.owner, &[place.memory], moved()).await;
    assert_eq!(code(refused), "forbidden");
    set(world, WorkspaceAccess::Open).await;
    world.by(admin).get_source(source).await.unwrap();
}

/// Its roles and its entries of the audit log are hidden until nothing is left of it.
#[tokio::test]
async fn removed_private_workspace_stays_hidden_until_maintenance() {
    let place = Place::new().await;
    let (world, admin) = (&place.world, place.admin());
    let workspace = world.workspace.id;
    let inner = with(new_role("inner"), |new| new.workspace_id = Some(workspace));
    let role = world.create_role(&inner).await.unwrap().id;
    let provisioning = world.service.provisioning();
    let removed = provisioning.delete_workspace(world.org.id, workspace);
    removed.await.unwrap();
    let is_removal = |entry: &AuditEntry| entry.action == AuditAction::WorkspaceDelete;
    for caller in [admin, &place.insider] {
        assert_eq!(code(world.by(caller).get_role(role).await), "not_found");
        assert_eq!(listed(world, caller).await, [""; 0]);
    }
    assert!(!log(world, admin).await.iter().any(is_removal));
    assert!(log(world, &world.owner).await.iter().any(is_removal));
    world.assert_whole().await;
    world.maintain().await;
    assert_eq!(code(world.get_role(role).await), "not_found");
    assert!(log(world, admin).await.iter().any(is_removal));
    world.assert_whole().await;
}
