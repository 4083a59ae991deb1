//! Choices of entities and callers, which refer to what exists when an operation runs.

use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;

use knowledge_core::access::BuiltInRole;

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
    /// Token of a service account that acts for the member.
    ServiceAccount,
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

/// Choice of an entity tag of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtagRef {
    /// `*`
    Any,
    /// Tag that the resource was read with, newest first.
    Known(u8),
    /// Tag that no resource ever had.
    Unknown,
}

/// Choice of a page of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRef {
    /// Maximum number of items.
    pub limit: Option<usize>,
    /// Cursor; `None` for the first page.
    pub cursor: Option<CursorRef>,
}

/// Choice of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorRef {
    /// Cursor of the same list, newest first.
    Own(u8),
    /// Cursor of any list.
    Any(u8),
}

pub(crate) fn entity() -> impl Strategy<Value = EntityRef> {
    prop_oneof![
        30 => (0_u8..12).prop_map(EntityRef::Own),
        1 => (0_u8..12).prop_map(EntityRef::Foreign),
        1 => (0_u8..3).prop_map(EntityRef::Unknown),
    ]
}

/// Choices of memories, more of them invalid, since one does not fail the others.
pub(crate) fn memory_entity() -> impl Strategy<Value = EntityRef> {
    prop_oneof![
        20 => (0_u8..24).prop_map(EntityRef::Own),
        1 => (0_u8..12).prop_map(EntityRef::Foreign),
        1 => (0_u8..3).prop_map(EntityRef::Unknown),
    ]
}

/// Choices of roles, more of them deleted.
pub(crate) fn some_role() -> impl Strategy<Value = EntityRef> {
    prop_oneof![6 => entity(), 1 => (0_u8..3).prop_map(EntityRef::Unknown)]
}

pub(crate) fn elsewhere() -> impl Strategy<Value = Option<EntityRef>> {
    weighted(0.1, entity())
}

pub(crate) fn actor() -> impl Strategy<Value = Actor> {
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
        3 => Just(CredentialUse::ServiceAccount),
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
pub(crate) fn governor() -> impl Strategy<Value = Actor> {
    (actor(), prop::bool::weighted(0.45)).prop_map(|(by, is_owner)| {
        let member = if is_owner {
            CastMember::Olga
        } else {
            by.member
        };
        Actor { member, ..by }
    })
}

pub(crate) fn role_pick() -> impl Strategy<Value = RoleEntityRef> {
    prop_oneof![
        4 => some_role().prop_map(RoleEntityRef::Custom),
        1 => select(BuiltInRole::ALL).prop_map(RoleEntityRef::BuiltIn),
    ]
}

/// Choices of entity tags, most of them current.
pub(crate) fn etag() -> impl Strategy<Value = Option<EtagRef>> {
    let tag = prop_oneof![
        1 => Just(EtagRef::Any),
        4 => (0_u8..3).prop_map(EtagRef::Known),
        1 => Just(EtagRef::Unknown),
    ];
    weighted(0.3, tag)
}

/// Choices of pages, most of them small.
pub(crate) fn page() -> impl Strategy<Value = PageRef> {
    let limit = prop_oneof![
        5 => Just(None),
        14 => (1_usize..5).prop_map(Some),
        1 => select(&[0, 200, 201][..]).prop_map(Some),
    ];
    let cursor = prop_oneof![
        6 => (0_u8..3).prop_map(CursorRef::Own),
        1 => any::<u8>().prop_map(CursorRef::Any),
    ];
    (limit, weighted(0.6, cursor)).prop_map(|(limit, cursor)| PageRef { limit, cursor })
}
