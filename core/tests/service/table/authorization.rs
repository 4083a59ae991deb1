//! Tests of the callers that each operation rejects.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::StatusCode;
use knowledge_core::access::TokenScope;
use knowledge_core::api::{Authentication, OPERATIONS, Operation};
use knowledge_core::store::Key;

use super::callers::Caller;
use super::requests::Call;
use crate::make::in_workspaces;
use crate::world::World;

/// Operations that a token of another workspace may call.
///
/// They concern no workspace, or answer for those in the scope of the token.
const UNSCOPED: [Operation; 3] = [
    Operation::ListWorkspaces,
    Operation::ListSources,
    Operation::GetSource,
];

/// Sends a request and returns the status of the response.
///
/// # Panics
/// If it changes a record of the organisation, other than the record of the refusal.
async fn rejected(world: &World, call: &Call, caller: Option<&Caller>) -> StatusCode {
    let before = acme(world).await;
    let status = call.status(world, caller).await;
    let is_unchanged = unaudited(acme(world).await) == unaudited(before);
    assert!(is_unchanged, "{:?}: {status}", call.spec.operation);
    status
}

/// Drops what records refusals. `audit_refusals` tests it.
fn unaudited(mut contents: BTreeMap<Key, Bytes>) -> BTreeMap<Key, Bytes> {
    contents.retain(|key, _| {
        let text = key.to_string();
        !["audit", "audit_actor", "audit_bytes", "member_refusals"]
            .iter()
            .any(|family| text.starts_with(&format!("{family}/")))
    });
    contents
}

/// Returns the stored records of the organisation.
async fn acme(world: &World) -> BTreeMap<Key, Bytes> {
    let org = world.org.id.0.simple().to_string();
    let mut contents = world.contents().await;
    contents.retain(|key, _| key.to_string().contains(&org));
    contents
}

fn is_denial(status: StatusCode) -> bool {
    status == StatusCode::FORBIDDEN || status == StatusCode::NOT_FOUND
}

#[tokio::test]
async fn operation_rejects_caller_without_credential() {
    for spec in OPERATIONS {
        let world = World::new().await;
        let caller = Caller::admin(&world).await;
        let call = Call::new(&world, spec.operation, &caller).await;
        let status = rejected(&world, &call, None).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{:?}", spec.operation);
    }
}

#[tokio::test]
async fn operation_rejects_member_without_permissions() {
    for spec in OPERATIONS
        .iter()
        .filter(|spec| !spec.permissions.is_empty())
    {
        let world = World::new().await;
        let caller = Caller::admin(&world).await;
        let call = Call::new(&world, spec.operation, &caller).await;
        caller.disempower(&world).await;
        let before = unaudited(world.contents().await);
        let status = rejected(&world, &call, Some(&caller)).await;
        // An access check answers anybody, with what the caller may not read.
        let is_answer = spec.operation == Operation::CheckMemoryAccess;
        assert!(
            is_answer || is_denial(status),
            "{:?}: {status}",
            spec.operation
        );
        let is_unchanged = unaudited(world.contents().await) == before;
        assert!(is_unchanged, "{:?}", spec.operation);
    }
}

#[tokio::test]
async fn operation_rejects_caller_of_another_organization() {
    for spec in OPERATIONS {
        // A signature is no credential of a caller.
        if spec.authentication == Authentication::Signature {
            continue;
        }
        let world = World::new().await;
        let owner = Caller::admin(&world).await;
        let call = Call::new(&world, spec.operation, &owner).await;
        let other = world.stranger("evil").await;
        let caller = Caller::of(&other, other.founder.id, TokenScope::default()).await;
        let status = rejected(&world, &call, Some(&caller)).await;
        if spec.path.contains('{') {
            assert!(is_denial(status), "{:?}: {status}", spec.operation);
        }
    }
}

#[tokio::test]
async fn operation_rejects_token_of_another_workspace() {
    for spec in OPERATIONS {
        // A bulk update rejects each memory on its own, and audits that.
        let is_bulk = matches!(
            spec.operation,
            Operation::BulkUpdateMemories | Operation::CheckMemoryAccess
        );
        if spec.authentication != Authentication::Bearer || is_bulk {
            continue;
        }
        let world = World::new().await;
        let owner = Caller::admin(&world).await;
        let call = Call::new(&world, spec.operation, &owner).await;
        let scope = in_workspaces(&[world.workspace("elsewhere").await]);
        let caller = Caller::of(&world, owner.member, scope).await;
        let status = rejected(&world, &call, Some(&caller)).await;
        if !UNSCOPED.contains(&spec.operation) {
            assert!(is_denial(status), "{:?}: {status}", spec.operation);
        }
    }
}
