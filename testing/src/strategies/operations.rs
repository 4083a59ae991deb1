//! Operations as they are generated: who does what, with choices among what there is when they are carried out.
//!
//! An [`Op`] names nothing by its identifier, which the service makes: it picks. So a sequence keeps its meaning when
//! operations before are taken out, and can be shrunk.

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
use knowledge_core::service::{IdempotencyKey, NewConnector, NewMcpKey, NewMemory, NewSource, SyncReport};

/// Chooses one of the things of a kind that there are then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// One of the caller's organisation: counted round.
    Own(u8),
    /// One of another organisation.
    Foreign(u8),
    /// One that is gone, or never was.
    Unknown(u8),
}

/// The members of each organisation of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CastMember {
    /// Its owner.
    Olga,
    /// An administrator.
    Adam,
    /// A member, of the team `platform`.
    Mia,
    /// A viewer.
    Vic,
    /// A member at first: whom roles are assigned to most.
    Clara,
}

impl CastMember {
    /// Everybody.
    pub const ALL: &'static [Self] = &[Self::Olga, Self::Adam, Self::Mia, Self::Vic, Self::Clara];
}

/// With what a caller is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// A token or a session, whichever the operation takes.
    Usual,
    /// A session or a token, whichever it does not take.
    WrongKind,
    /// A token for the first workspace alone.
    OneWorkspace,
    /// A token for relabelling, reviewing and the dashboard alone.
    FewActions,
    /// A token that is taken for an hour and a half.
    ShortLived,
    /// The application vouches for the member.
    Trusted,
    /// An MCP key, whoever made it.
    McpKey(u8),
}

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct By {
    /// Of the second organisation, not the first.
    pub is_second_org: bool,
    /// The member.
    pub member: CastMember,
    /// The credential.
    pub through: Through,
}

/// Chooses a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolePick {
    /// One that every organisation has.
    BuiltIn(BuiltInRole),
    /// A custom one.
    Custom(Pick),
}

/// Chooses an entity tag of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagPick {
    /// `*`
    Any,
    /// One that the role was read with, the newest first.
    Known(u8),
    /// One that no role ever had.
    Unknown,
}

/// One operation of a sequence.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the variants are the calls of the service, their fields its arguments"
)]
pub enum Op {
    /// Time goes by.
    Advance(Duration),
    BulkUpdate {
        by: By,
        key: IdempotencyKey,
        /// One that is picked twice counts once,
        memories: Vec<Pick>,
        /// but the first one is named twice here.
        has_duplicate: bool,
        change: MemoryChange,
        source: Option<Pick>,
    },
    /// A bulk update that was sent before is sent again: with another change, by somebody else.
    Repeat {
        of: u8,
        change: Option<MemoryChange>,
        by: Option<By>,
    },
    Ingest {
        by: By,
        workspace: Pick,
        source: Pick,
        memories: Vec<NewMemory>,
    },
    CreateSource(By, NewSource),
    ListRoles(By, Pick),
    ReadRole(By, Pick),
    CreateRole(By, NewCustomRole, Option<Pick>),
    UpdateRole(By, Pick, CustomRoleUpdate, Option<TagPick>),
    DeleteRole(By, Pick, Option<RolePick>),
    /// Assigns a role in the organisation, or in a workspace.
    AssignRole(By, Pick, RolePick, Option<Pick>),
    /// Ends a role in a workspace.
    UnassignRole(By, Pick, Pick),
    /// Revokes a token or a session of the first or the second organisation.
    Revoke(bool, Pick),
    CreateWebhook(By, Pick, NewWebhook),
    CreateInboundWebhook(By, Pick, NewInboundWebhook),
    /// Memories of one's own organisation are picked from the workspace.
    CreateRecall(By, Pick, Vec<Pick>),
    Subscribe(By, Pick, WebhookUrl),
    CreateConnector(By, Pick, NewConnector),
    /// The workspace is the connector's own where none is picked; so with the next ones.
    ReportSync(By, Pick, Option<Pick>, SyncReport),
    PauseConnector(By, Pick, Option<Pick>, bool),
    CreateChat(By, Pick, String),
    PostMessage(By, Pick, Option<Pick>, String),
    CreateMcpKey(By, Pick, NewMcpKey),
    NoteMcpKeyUse(By, Option<Pick>),
    Dashboard(By, Pick),
    ReadAudit(By, Pick),
    Maintain,
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![
        30 => (0_u8..12).prop_map(Pick::Own),
        1 => (0_u8..12).prop_map(Pick::Foreign),
        1 => (0_u8..3).prop_map(Pick::Unknown),
    ]
}

/// Picks of memories: more of them wrong, since one does not fail the others.
fn memory_pick() -> impl Strategy<Value = Pick> {
    prop_oneof![
        20 => (0_u8..24).prop_map(Pick::Own),
        1 => (0_u8..12).prop_map(Pick::Foreign),
        1 => (0_u8..3).prop_map(Pick::Unknown),
    ]
}

/// Picks of roles: more of deleted ones.
fn some_role() -> impl Strategy<Value = Pick> {
    prop_oneof![6 => pick(), 1 => (0_u8..3).prop_map(Pick::Unknown)]
}

fn elsewhere() -> impl Strategy<Value = Option<Pick>> {
    weighted(0.1, pick())
}

fn by() -> impl Strategy<Value = By> {
    let member = prop_oneof![
        5 => Just(CastMember::Olga),
        4 => Just(CastMember::Adam),
        3 => Just(CastMember::Mia),
        1 => Just(CastMember::Vic),
        6 => Just(CastMember::Clara),
    ];
    let through = prop_oneof![
        24 => Just(Through::Usual),
        1 => Just(Through::WrongKind),
        2 => Just(Through::OneWorkspace),
        2 => Just(Through::FewActions),
        2 => Just(Through::ShortLived),
        1 => Just(Through::Trusted),
        2 => (0_u8..4).prop_map(Through::McpKey),
    ];
    (prop::bool::weighted(0.25), member, through).prop_map(|(is_second_org, member, through)| By {
        is_second_org,
        member,
        through,
    })
}

/// Callers that may govern, mostly.
fn governor() -> impl Strategy<Value = By> {
    (by(), prop::bool::weighted(0.45)).prop_map(|(by, is_owner)| {
        let member = if is_owner {
            CastMember::Olga
        } else {
            by.member
        };
        By { member, ..by }
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

fn role_pick() -> impl Strategy<Value = RolePick> {
    prop_oneof![
        4 => some_role().prop_map(RolePick::Custom),
        1 => select(BuiltInRole::ALL).prop_map(RolePick::BuiltIn),
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
    let memory_picks = prop_oneof![30 => vec(memory_pick(), 1..7), 1 => Just(Vec::new())];
    let update = (
        by(),
        idempotency_key(),
        (memory_picks, prop::bool::weighted(0.03)),
        change(),
        weighted(0.15, pick()),
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
    let repeat = (any::<u8>(), weighted(0.2, change()), weighted(0.2, by()))
        .prop_map(|(of, change, by)| Op::Repeat { of, change, by });
    let ingest = (by(), pick(), pick(), vec(new_memory(), 1..4)).prop_map(
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
        1 => (by(), new_source()).prop_map(|(by, new)| Op::CreateSource(by, new)),
        1 => (by(), pick()).prop_map(|(by, id)| Op::ReadAudit(by, id)),
    ]
    .boxed()
}

fn role_operation() -> BoxedStrategy<Op> {
    let tag = prop_oneof![
        1 => Just(TagPick::Any),
        4 => (0_u8..3).prop_map(TagPick::Known),
        1 => Just(TagPick::Unknown),
    ];
    prop_oneof![
        1 => (by(), pick()).prop_map(|(by, org)| Op::ListRoles(by, org)),
        1 => (by(), pick()).prop_map(|(by, role)| Op::ReadRole(by, role)),
        4 => (governor(), new_custom_role(), weighted(0.25, pick()))
            .prop_map(|(by, new, workspace)| Op::CreateRole(by, new, workspace)),
        5 => (governor(), pick(), custom_role_update(), weighted(0.3, tag))
            .prop_map(|(by, role, update, tag)| Op::UpdateRole(by, role, update, tag)),
        4 => (governor(), pick(), of(role_pick()))
            .prop_map(|(by, role, target)| Op::DeleteRole(by, role, target)),
        6 => (governor(), pick(), role_pick(), weighted(0.4, pick()))
            .prop_map(|(by, member, role, place)| Op::AssignRole(by, member, role, place)),
        1 => (governor(), pick(), pick())
            .prop_map(|(by, member, place)| Op::UnassignRole(by, member, place)),
        1 => (any::<bool>(), pick())
            .prop_map(|(is_second_org, id)| Op::Revoke(is_second_org, id)),
    ]
    .boxed()
}

fn workspace_operation() -> BoxedStrategy<Op> {
    let key_holder = (by(), weighted(0.8, 0_u8..4)).prop_map(|(by, key)| By {
        through: key.map_or(by.through, Through::McpKey),
        ..by
    });
    prop_oneof![
        1 => (by(), pick(), new_webhook()).prop_map(|(by, place, new)| Op::CreateWebhook(by, place, new)),
        1 => (by(), pick(), new_inbound_webhook())
            .prop_map(|(by, place, new)| Op::CreateInboundWebhook(by, place, new)),
        2 => (by(), pick(), vec(memory_pick(), 0..4))
            .prop_map(|(by, place, memories)| Op::CreateRecall(by, place, memories)),
        2 => (by(), pick(), webhook_url()).prop_map(|(by, recall, url)| Op::Subscribe(by, recall, url)),
        1 => (by(), pick(), new_connector()).prop_map(|(by, place, new)| Op::CreateConnector(by, place, new)),
        4 => (by(), pick(), elsewhere(), sync_report())
            .prop_map(|(by, connector, place, report)| Op::ReportSync(by, connector, place, report)),
        1 => (by(), pick(), elsewhere(), any::<bool>())
            .prop_map(|(by, connector, place, paused)| Op::PauseConnector(by, connector, place, paused)),
        1 => (by(), pick(), name()).prop_map(|(by, place, title)| Op::CreateChat(by, place, title)),
        2 => (by(), pick(), elsewhere(), text())
            .prop_map(|(by, chat, place, text)| Op::PostMessage(by, chat, place, text)),
        1 => (by(), pick(), new_mcp_key()).prop_map(|(by, place, new)| Op::CreateMcpKey(by, place, new)),
        1 => (key_holder, elsewhere()).prop_map(|(by, place)| Op::NoteMcpKeyUse(by, place)),
        5 => (by(), pick()).prop_map(|(by, place)| Op::Dashboard(by, place)),
    ]
    .boxed()
}

/// One operation of any kind.
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

/// For each of several callers at once, a sequence of 1 to `longest` operations. They meet: in the same memories,
/// under the same keys, over the same roles.
pub fn crowds(callers: usize, longest: usize) -> impl Strategy<Value = Vec<Vec<Op>>> {
    let operation = prop_oneof![
        2 => Just(Op::Maintain),
        8 => memory_operation(),
        6 => role_operation(),
        3 => workspace_operation(),
    ];
    vec(vec(operation, 1..=longest.max(1)), callers..=callers)
}
