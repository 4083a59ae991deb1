//! Tests of the audit entries about refused changes.

use bytes::Bytes;
use http::{Request, StatusCode};
use knowledge_core::access::{ActionSet, RoleRef, TokenScope};
use knowledge_core::api::{Api, Authentication, ClientInfo, OPERATIONS, Operation};
use knowledge_core::internals::keys;
use knowledge_core::model::{MemberId, OutcomeKind};
use knowledge_core::service::{
    AuditAction, AuditEntry, AuditFilter, AuditOutcome, PageRequest, Refusal, ResourceKind,
};
use knowledge_store::faults::{CommitFault, FaultPlan};

use crate::audit::entries;
use crate::make::{HOUR, MEMBER, VIEWER};
use crate::table::callers::Caller;
use crate::table::requests::Call;
use crate::world::World;

/// Returns the entries with the outcome `forbidden`, newest first.
async fn refusals(world: &World) -> Vec<AuditEntry> {
    let filter = AuditFilter::builder()
        .outcome(OutcomeKind::Forbidden)
        .build();
    let page = PageRequest::default();
    world.list_audit_log(&filter, &page).await.unwrap().data
}

/// Returns a member with this role and its credentials.
async fn caller(world: &World, role: RoleRef) -> Caller {
    let member = world.member(role).await;
    Caller::of(world, member, TokenScope::default()).await
}

fn create_source(caller: &Caller) -> Request<Bytes> {
    let body = r#"{"name":"Wiki","kind":"wiki"}"#;
    Request::post("/v1/sources")
        .header("authorization", format!("Bearer {}", caller.token))
        .header("content-type", "application/json")
        .body(Bytes::from(body))
        .unwrap()
}

fn delete(caller: &Caller, path: &str) -> Request<Bytes> {
    Request::delete(path)
        .header("authorization", format!("Bearer {}", caller.token))
        .body(Bytes::new())
        .unwrap()
}

/// Sends a request and returns the status and the body of the response.
async fn send(world: &World, request: Request<Bytes>) -> (StatusCode, Bytes) {
    let response = Api::new(world.service.clone()).handle(request).await;
    (response.status(), response.into_body())
}

#[tokio::test]
async fn refused_change_is_audited_with_actor_reason_and_client() {
    let world = World::new().await;
    let viewer = caller(&world, VIEWER).await;
    let mut request = create_source(&viewer);
    let client = ClientInfo {
        address: Some("192.0.2.7".parse().unwrap()),
        request_id: Some(uuid::Uuid::from_u128(7)),
    };
    request.extensions_mut().insert(client);
    assert_eq!(send(&world, request).await.0, StatusCode::FORBIDDEN);
    let [entry] = &refusals(&world).await[..] else {
        panic!("one entry");
    };
    assert_eq!(entry.action, AuditAction::SourceCreate);
    assert_eq!(entry.outcome, AuditOutcome::Rejected);
    let reason = entry.reason.as_deref();
    assert_eq!(reason, Some("missing permission connector:manage"));
    assert_eq!(entry.actor_id, Some(viewer.member));
    assert!(entry.credential_id.is_some());
    assert_eq!((&entry.before, &entry.after), (&None, &None));
    assert_eq!(entry.resource.kind, ResourceKind::Organization);
    assert_eq!(entry.resource.id, world.org.id.0);
    assert_eq!(entry.client_address, client.address);
    assert_eq!(entry.request_id, client.request_id);
    assert_eq!(entry.at, world.time.now());
    let by_actor = AuditFilter::builder()
        .actor_id(viewer.member)
        .outcome(OutcomeKind::Forbidden)
        .build();
    let page = PageRequest::default();
    let listed = world.list_audit_log(&by_actor, &page);
    assert_eq!(listed.await.unwrap().data, std::slice::from_ref(entry));
    world.assert_whole().await;
}

#[tokio::test]
async fn every_refused_change_of_the_table_is_audited_once() {
    for spec in OPERATIONS {
        if spec.permissions.is_empty() || spec.authentication == Authentication::Signature {
            continue;
        }
        let world = World::new().await;
        let caller = Caller::admin(&world).await;
        let call = Call::new(&world, spec.operation, &caller).await;
        caller.disempower(&world).await;
        let known = entries(&world).await.len();
        let mut statuses = Vec::new();
        for _ in 0..3 {
            statuses.push(call.status(&world, Some(&caller)).await);
        }
        let changes = !matches!(spec.audit_actions, [] | [AuditAction::MemoryRead]);
        let is_refused = statuses[0] == StatusCode::FORBIDDEN && changes;
        let expected = usize::from(is_refused);
        let operation = spec.operation;
        if operation != Operation::BulkUpdateMemories {
            assert_eq!(
                entries(&world).await.len(),
                known + expected,
                "{operation:?}"
            );
        }
        if is_refused {
            let [entry] = &refusals(&world).await[..] else {
                panic!("{operation:?}: one entry");
            };
            assert_eq!(entry.action, spec.audit_actions[0], "{operation:?}");
            // A path names the resource itself, the workspace that it would be in, or neither.
            let expected = match spec.path.split('/').rfind(|part| part.starts_with('{')) {
                Some("{id}") if spec.path.starts_with("/v1/workspaces/") => ResourceKind::Workspace,
                Some("{orgSlug}") | None => ResourceKind::Organization,
                Some(_) => entry.resource.kind,
            };
            assert_eq!(entry.resource.kind, expected, "{operation:?}");
            if let Some(named) = call.uri.split('/').rfind(|part| part.len() == 36) {
                let is_named = call.uri.contains(&entry.resource.id.to_string());
                assert!(is_named, "{operation:?}: {named}");
            }
        }
        world.assert_whole().await;
    }
}

#[tokio::test]
async fn refusal_names_a_resource_only_if_it_exists() {
    let world = World::new().await;
    let viewer = caller(&world, VIEWER).await;
    let connector = world.connector(HOUR).await;
    let path = |id| format!("/v1/workspaces/{}/connectors/{id}", world.workspace.id);
    for id in [connector.0, uuid::Uuid::from_u128(7)] {
        let (status, _) = send(&world, delete(&viewer, &path(id))).await;
        assert_eq!(status, StatusCode::FORBIDDEN);
    }
    let found = refusals(&world).await;
    let mut resources: Vec<_> = found.iter().map(|entry| entry.resource).collect();
    resources.sort_by_key(|resource| resource.kind.as_str());
    let resources = resources
        .iter()
        .map(|resource| (resource.kind, resource.id));
    assert!(resources.eq([
        (ResourceKind::Connector, connector.0),
        (ResourceKind::Workspace, world.workspace.id.0),
    ]));
}

#[tokio::test]
async fn unknown_things_and_unknown_callers_leave_no_entry() {
    let world = World::new().await;
    let admin = Caller::admin(&world).await;
    let before = world.contents().await;
    let unknown = format!("/v1/memories/{}", uuid::Uuid::from_u128(7));
    let (status, _) = send(&world, delete(&admin, &unknown)).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let forged = admin.forged(&world);
    assert_eq!(
        send(&world, create_source(&forged)).await.0,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(world.contents().await, before);
}

#[tokio::test]
async fn equal_refusals_within_an_hour_leave_one_entry() {
    let world = World::new().await;
    let viewer = caller(&world, VIEWER).await;
    let other = caller(&world, VIEWER).await;
    let refused = async |caller: &Caller| {
        let (status, _) = send(&world, create_source(caller)).await;
        assert_eq!(status, StatusCode::FORBIDDEN);
    };
    refused(&viewer).await;
    let after_first = world.contents().await;
    for _ in 0..50 {
        refused(&viewer).await;
    }
    assert_eq!(world.contents().await, after_first);
    // A restart forgets what the process knew, and the store does not.
    let restarted = world.served_with(FaultPlan::none()).await;
    let (status, _) = send(&restarted, create_source(&viewer)).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(world.contents().await, after_first);
    refused(&other).await;
    assert_eq!(refusals(&world).await.len(), 2);
    world.time.pass(HOUR);
    refused(&viewer).await;
    assert_eq!(refusals(&world).await.len(), 3);
}

#[tokio::test]
async fn flood_of_different_refusals_is_bounded() {
    let world = World::new().await;
    let viewer = caller(&world, VIEWER).await;
    let memories = world.approved_memories(40).await;
    let stored = async || {
        let contents = world.contents().await;
        contents.values().map(Bytes::len).sum::<usize>()
    };
    let before = stored().await;
    for memory in &memories {
        let path = format!("/v1/memories/{memory}");
        let (status, _) = send(&world, delete(&viewer, &path)).await;
        assert_eq!(status, StatusCode::FORBIDDEN);
    }
    let page = PageRequest::default();
    let filter = AuditFilter::builder()
        .outcome(OutcomeKind::Forbidden)
        .build();
    let listed = world.list_audit_log(&filter, &page);
    assert_eq!(listed.await.unwrap().data.len(), 32);
    assert!(stored().await - before < 32 * 512);
    let full = world.contents().await;
    let (status, _) = send(&world, create_source(&viewer)).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(world.contents().await, full);
}

#[tokio::test]
async fn refusal_is_answered_alike_if_its_entry_cannot_be_written() {
    let world = World::new().await;
    let member = caller(&world, MEMBER).await;
    let (status, body) = send(&world, create_source(&member)).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let other = caller(&world, MEMBER).await;
    let before = world.contents().await;
    // A conflict is tried once more, and nothing else is.
    for (fault, attempts) in [
        (CommitFault::Conflict, 2),
        (CommitFault::Unavailable, 1),
        (CommitFault::Full, 1),
    ] {
        let plan = FaultPlan::none().at_commit(1, fault).at_commit(2, fault);
        let served = world.served_with(plan).await;
        let answer = send(&served, create_source(&other)).await;
        assert_eq!(answer, (status, body.clone()), "{fault:?}");
        assert_eq!(served.faults.counts().commits, attempts, "{fault:?}");
        assert_eq!(world.contents().await, before, "{fault:?}");
    }
    // Nothing has been forgotten: the next refusal is recorded.
    let served = world
        .served_with(FaultPlan::none().at_commit(1, CommitFault::Conflict))
        .await;
    assert_eq!(send(&served, create_source(&other)).await, (status, body));
    assert_eq!(refusals(&world).await.len(), 2);
}

#[tokio::test]
async fn refusals_end_with_their_member() {
    let world = World::new().await;
    let viewer = caller(&world, VIEWER).await;
    send(&world, create_source(&viewer)).await;
    let key = |member: MemberId| keys::member_refusals(world.org.id, member);
    assert!(world.contents().await.contains_key(&key(viewer.member)));
    world.remove_member(viewer.member).await.unwrap();
    assert!(!world.contents().await.contains_key(&key(viewer.member)));
    assert_eq!(refusals(&world).await.len(), 1);
    world.assert_whole().await;
}

#[tokio::test]
async fn direct_callers_record_refusals_themselves() {
    let world = World::new().await;
    let nothing = world.caller_who_may(ActionSet::EMPTY).await;
    let refusal = Refusal {
        operation: Operation::CreateSource,
        workspace: None,
        resource: None,
        reason: "missing permission connector:manage".to_owned(),
    };
    world
        .service
        .audit_log()
        .record_refusal(&nothing, &refusal)
        .await;
    assert_eq!(refusals(&world).await.len(), 1);
}
