//! Generated operations, which refer to entities by choice.
//!
//! An [`Op`] contains no identifiers, which the service creates: it chooses among the entities that
//! exist when it runs. A sequence therefore remains meaningful without some of its operations, and
//! can be shrunk.

use std::time::Duration;

use proptest::collection::vec;
use proptest::option::{of, weighted};
use proptest::prelude::*;
use proptest::sample::select;

use super::{
    audience_label, custom_role_update, idempotency_key, name, new_connector, new_custom_role,
    new_inbound_webhook, new_mcp_key, new_memory, new_source, new_webhook, review_status,
    sensitivity_label, sync_report, text, webhook_url,
};
use knowledge_core::access::BuiltInRole;
use knowledge_core::model::{
    CustomRoleUpdate, MemoryChange, NewCustomRole, NewInboundWebhook, NewWebhook, WebhookUrl,
};
use knowledge_core::service::{
    IdempotencyKey, NewConnector, NewMcpKey, NewMemory, NewSource, SyncReport,
};

/// Choice of an existing entity of some kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntityRef {
    /// Entity of the caller's organisation, by index modulo their number.
    Own(u8),
    /// Entity of another organisation.
    Foreign(u8),
    /// Deleted entity, or one that never existed.
    Unknown(u8),
}

/// Members of each organisation of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CastMember {
    /// Owner.
    Olga,
    /// Administrator.
    Adam,
    /// Member in the team `platform`.
    Mia,
    /// Viewer.
    Vic,
    /// Member at first, to whom most roles are assigned.
    Clara,
}

impl CastMember {
    /// All members.
    pub const ALL: &'static [Self] = &[Self::Olga, Self::Adam, Self::Mia, Self::Vic, Self::Clara];
}

/// Credential that a caller uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialUse {
    /// Token or session, as the operation requires.
    Usual,
    /// Session or token, contrary to the operation.
    WrongKind,
    /// Token for the first workspace only.
    OneWorkspace,
    /// Token for relabelling, reviewing and the dashboard only.
    FewActions,
    /// Token with a lifetime of an hour and a half.
    ShortLived,
    /// Trusted credential of the application.
    Trusted,
    /// MCP key of any creator.
    McpKey(u8),
}

/// Caller of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actor {
    /// True if the caller belongs to the second organisation.
    pub is_second_org: bool,
    /// Member.
    pub member: CastMember,
    /// Credential.
    pub credential: CredentialUse,
}

/// Choice of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleEntityRef {
    /// Built-in role.
    BuiltIn(BuiltInRole),
    /// Custom role.
    Custom(EntityRef),
}

/// Choice of an entity tag of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtagRef {
    /// `*`
    Any,
    /// Tag that the role was read with, newest first.
    Known(u8),
    /// Tag that no role ever had.
    Unknown,
}

/// Operation of a sequence.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the variants are the calls of the service, their fields its arguments"
)]
pub enum Op {
    /// Advance of the clock.
    Advance(Duration),
    BulkUpdate {
        by: Actor,
        key: IdempotencyKey,
        /// Memories, each named once.
        memories: Vec<EntityRef>,
        /// True if the request names the first memory twice.
        has_duplicate: bool,
        change: MemoryChange,
        source: Option<EntityRef>,
    },
    /// Repetition of an earlier bulk update, possibly with another change or by another caller.
    Repeat {
        of: u8,
        change: Option<MemoryChange>,
        by: Option<Actor>,
    },
    Ingest {
        by: Actor,
        workspace: EntityRef,
        source: EntityRef,
        memories: Vec<NewMemory>,
    },
    CreateSource(Actor, NewSource),
    ListRoles(Actor, EntityRef),
    ReadRole(Actor, EntityRef),
    CreateRole(Actor, NewCustomRole, Option<EntityRef>),
    UpdateRole(Actor, EntityRef, CustomRoleUpdate, Option<EtagRef>),
    DeleteRole(Actor, EntityRef, Option<RoleEntityRef>),
    /// Assignment of a role in the organisation, or in a workspace.
    AssignRole(Actor, EntityRef, RoleEntityRef, Option<EntityRef>),
    /// Removal of a role in a workspace.
    UnassignRole(Actor, EntityRef, EntityRef),
    /// Revocation of a token or a session of the first or the second organisation.
    Revoke(bool, EntityRef),
    CreateWebhook(Actor, EntityRef, NewWebhook),
    CreateInboundWebhook(Actor, EntityRef, NewInboundWebhook),
    /// Recall; memories of the own organisation are from the workspace.
    CreateRecall(Actor, EntityRef, Vec<EntityRef>),
    Subscribe(Actor, EntityRef, WebhookUrl),
    CreateConnector(Actor, EntityRef, NewConnector),
    /// Sync report; the workspace is that of the connector by default, as in the next variants.
    ReportSync(Actor, EntityRef, Option<EntityRef>, SyncReport),
    PauseConnector(Actor, EntityRef, Option<EntityRef>, bool),
    CreateChat(Actor, EntityRef, String),
    PostMessage(Actor, EntityRef, Option<EntityRef>, String),
    CreateMcpKey(Actor, EntityRef, NewMcpKey),
    NoteMcpKeyUse(Actor, Option<EntityRef>),
    Dashboard(Actor, EntityRef),
    ReadAudit(Actor, EntityRef),
    Maintain,
}

fn entity() -> impl Strategy<Value = EntityRef> {
    prop_oneof![
        30 => (0_u8..12).prop_map(EntityRef::Own),
        1 => (0_u8..12).prop_map(EntityRef::Foreign),
        1 => (0_u8..3).prop_map(EntityRef::Unknown),
    ]
}

/// Choices of memories, more of them invalid, since one does not fail the others.
fn memory_entity() -> impl Strategy<Value = EntityRef> {
    prop_oneof![
        20 => (0_u8..24).prop_map(EntityRef::Own),
        1 => (0_u8..12).prop_map(EntityRef::Foreign),
        1 => (0_u8..3).prop_map(EntityRef::Unknown),
    ]
}

/// Choices of roles, more of them deleted.
fn some_role() -> impl Strategy<Value = EntityRef> {
    prop_oneof![6 => entity(), 1 => (0_u8..3).prop_map(EntityRef::Unknown)]
}

fn elsewhere() -> impl Strategy<Value = Option<EntityRef>> {
    weighted(0.1, entity())
}

fn actor() -> impl Strategy<Value = Actor> {
    let member = prop_oneof![
        5 => Just(CastMember::Olga),
        4 => Just(CastMember::Adam),
        3 => Just(CastMember::Mia),
        1 => Just(CastMember::Vic),
        6 => Just(CastMember::Clara),
    ];
    let credential = prop_oneof![
        24 => Just(CredentialUse::Usual),
        1 => Just(CredentialUse::WrongKind),
        2 => Just(CredentialUse::OneWorkspace),
        2 => Just(CredentialUse::FewActions),
        2 => Just(CredentialUse::ShortLived),
        1 => Just(CredentialUse::Trusted),
        2 => (0_u8..4).prop_map(CredentialUse::McpKey),
    ];
    (prop::bool::weighted(0.25), member, credential).prop_map(
        |(is_second_org, member, credential)| Actor {
            is_second_org,
            member,
            credential,
        },
    )
}

/// Callers, most of whom may manage roles and members.
fn governor() -> impl Strategy<Value = Actor> {
    (actor(), prop::bool::weighted(0.45)).prop_map(|(by, is_owner)| {
        let member = if is_owner {
            CastMember::Olga
        } else {
            by.member
        };
        Actor { member, ..by }
    })
}

fn change() -> impl Strategy<Value = MemoryChange> {
    (
        weighted(0.4, audience_label()),
        weighted(0.5, sensitivity_label()),
        weighted(0.6, review_status()),
    )
        .prop_map(
            |(audience_tag, sensitivity_label, review_status)| MemoryChange {
                audience_tag,
                sensitivity_label,
                source_id: None,
                review_status,
            },
        )
}

fn role_pick() -> impl Strategy<Value = RoleEntityRef> {
    prop_oneof![
        4 => some_role().prop_map(RoleEntityRef::Custom),
        1 => select(BuiltInRole::ALL).prop_map(RoleEntityRef::BuiltIn),
    ]
}

fn advance() -> impl Strategy<Value = Op> {
    const MINUTE: u64 = 60 * 1_000;
    const HOUR: u64 = 60 * MINUTE;
    const MILLIS: &[u64] = &[
        1,
        1_000,
        MINUTE,
        31 * MINUTE,
        HOUR,
        2 * HOUR,
        24 * HOUR - 1,
        24 * HOUR,
        25 * HOUR,
        8 * 24 * HOUR,
    ];
    prop_oneof![
        2 => select(&MILLIS[..3]).prop_map(Duration::from_millis),
        1 => select(MILLIS).prop_map(Duration::from_millis),
    ]
    .prop_map(Op::Advance)
}

fn memory_operation() -> BoxedStrategy<Op> {
    let memory_picks = prop_oneof![30 => vec(memory_entity(), 1..7), 1 => Just(Vec::new())];
    let update = (
        actor(),
        idempotency_key(),
        (memory_picks, prop::bool::weighted(0.03)),
        change(),
        weighted(0.15, entity()),
    )
        .prop_map(
            |(by, key, (memories, has_duplicate), change, source)| Op::BulkUpdate {
                by,
                key,
                memories,
                has_duplicate,
                change,
                source,
            },
        );
    let repeat = (any::<u8>(), weighted(0.2, change()), weighted(0.2, actor()))
        .prop_map(|(of, change, by)| Op::Repeat { of, change, by });
    let ingest = (actor(), entity(), entity(), vec(new_memory(), 1..4)).prop_map(
        |(by, workspace, source, memories)| Op::Ingest {
            by,
            workspace,
            source,
            memories,
        },
    );
    prop_oneof![
        8 => update,
        4 => repeat,
        5 => ingest,
        1 => (actor(), new_source()).prop_map(|(by, new)| Op::CreateSource(by, new)),
        1 => (actor(), entity()).prop_map(|(by, id)| Op::ReadAudit(by, id)),
    ]
    .boxed()
}

fn role_operation() -> BoxedStrategy<Op> {
    let tag = prop_oneof![
        1 => Just(EtagRef::Any),
        4 => (0_u8..3).prop_map(EtagRef::Known),
        1 => Just(EtagRef::Unknown),
    ];
    prop_oneof![
        1 => (actor(), entity()).prop_map(|(by, org)| Op::ListRoles(by, org)),
        1 => (actor(), entity()).prop_map(|(by, role)| Op::ReadRole(by, role)),
        4 => (governor(), new_custom_role(), weighted(0.25, entity()))
            .prop_map(|(by, new, workspace)| Op::CreateRole(by, new, workspace)),
        5 => (governor(), entity(), custom_role_update(), weighted(0.3, tag))
            .prop_map(|(by, role, update, tag)| Op::UpdateRole(by, role, update, tag)),
        4 => (governor(), entity(), of(role_pick()))
            .prop_map(|(by, role, target)| Op::DeleteRole(by, role, target)),
        6 => (governor(), entity(), role_pick(), weighted(0.4, entity()))
            .prop_map(|(by, member, role, place)| Op::AssignRole(by, member, role, place)),
        1 => (governor(), entity(), entity())
            .prop_map(|(by, member, place)| Op::UnassignRole(by, member, place)),
        1 => (any::<bool>(), entity())
            .prop_map(|(is_second_org, id)| Op::Revoke(is_second_org, id)),
    ]
    .boxed()
}

fn workspace_operation() -> BoxedStrategy<Op> {
    let key_holder = (actor(), weighted(0.8, 0_u8..4)).prop_map(|(by, key)| Actor {
        credential: key.map_or(by.credential, CredentialUse::McpKey),
        ..by
    });
    prop_oneof![
        1 => (actor(), entity(), new_webhook()).prop_map(|(by, place, new)| Op::CreateWebhook(by, place, new)),
        1 => (actor(), entity(), new_inbound_webhook())
            .prop_map(|(by, place, new)| Op::CreateInboundWebhook(by, place, new)),
        2 => (actor(), entity(), vec(memory_entity(), 0..4))
            .prop_map(|(by, place, memories)| Op::CreateRecall(by, place, memories)),
        2 => (actor(), entity(), webhook_url()).prop_map(|(by, recall, url)| Op::Subscribe(by, recall, url)),
        1 => (actor(), entity(), new_connector()).prop_map(|(by, place, new)| Op::CreateConnector(by, place, new)),
        4 => (actor(), entity(), elsewhere(), sync_report())
            .prop_map(|(by, connector, place, report)| Op::ReportSync(by, connector, place, report)),
        1 => (actor(), entity(), elsewhere(), any::<bool>())
            .prop_map(|(by, connector, place, paused)| Op::PauseConnector(by, connector, place, paused)),
        1 => (actor(), entity(), name()).prop_map(|(by, place, title)| Op::CreateChat(by, place, title)),
        2 => (actor(), entity(), elsewhere(), text())
            .prop_map(|(by, chat, place, text)| Op::PostMessage(by, chat, place, text)),
        1 => (actor(), entity(), new_mcp_key()).prop_map(|(by, place, new)| Op::CreateMcpKey(by, place, new)),
        1 => (key_holder, elsewhere()).prop_map(|(by, place)| Op::NoteMcpKeyUse(by, place)),
        5 => (actor(), entity()).prop_map(|(by, place)| Op::Dashboard(by, place)),
    ]
    .boxed()
}

/// Operations of any kind.
pub fn operation() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => advance(),
        2 => Just(Op::Maintain),
        9 => memory_operation(),
        9 => role_operation(),
        9 => workspace_operation(),
    ]
}

/// Sequences of 1 to `longest` operations.
pub fn operations(longest: usize) -> impl Strategy<Value = Vec<Op>> {
    vec(operation(), 1..=longest.max(1))
}

/// Sequences of 1 to `longest` operations, one for each of several concurrent callers.
///
/// They contend for the same memories, idempotency keys and roles.
pub fn concurrent_operations(
    callers: usize,
    longest: usize,
) -> impl Strategy<Value = Vec<Vec<Op>>> {
    let operation = prop_oneof![
        2 => Just(Op::Maintain),
        8 => memory_operation(),
        6 => role_operation(),
        3 => workspace_operation(),
    ];
    vec(vec(operation, 1..=longest.max(1)), callers..=callers)
}
