//! The organisation of the demo: workspaces, members, sources and roles.

use knowledge_core::access::{Action, ActionSet, BaseRole, BuiltInRole};
use knowledge_core::model::MemberKind;

pub(super) const ORG_NAME: &str = "Lumen Freight";
pub(super) const ORG_SLUG: &str = "lumen-freight";

/// A workspace.
pub(super) struct WorkspaceSpec {
    pub(super) name: &'static str,
    pub(super) slug: &'static str,
}

/// Main workspace, with most of the memories.
pub(super) const OPERATIONS: WorkspaceSpec = WorkspaceSpec {
    name: "Operations",
    slug: "operations",
};
pub(super) const CUSTOMERS: WorkspaceSpec = WorkspaceSpec {
    name: "Customer Success",
    slug: "customer-success",
};

/// A member.
pub(super) struct Person {
    pub(super) handle: &'static str,
    pub(super) name: &'static str,
    pub(super) kind: MemberKind,
    pub(super) role: BuiltInRole,
    pub(super) teams: &'static [&'static str],
}

const fn person(
    handle: &'static str,
    name: &'static str,
    role: BuiltInRole,
    teams: &'static [&'static str],
) -> Person {
    Person {
        handle,
        name,
        kind: MemberKind::User,
        role,
        teams,
    }
}

/// Owner of the organisation, whose session the demo prints.
pub(super) const OWNER: Person = person(
    "maya.okafor",
    "Maya Okafor",
    BuiltInRole::Owner,
    &["platform", "finance"],
);
/// Administrator, whose token the demo prints.
pub(super) const ADMIN: Person = person(
    "jonas.weber",
    "Jonas Weber",
    BuiltInRole::Admin,
    &["platform", "support"],
);

/// All other members.
pub(super) const PEOPLE: &[Person] = &[
    person(
        "priya.raman",
        "Priya Raman",
        BuiltInRole::Member,
        &["support"],
    ),
    person(
        "tomas.lindqvist",
        "Tomas Lindqvist",
        BuiltInRole::Member,
        &["platform"],
    ),
    person(
        "aisha.benali",
        "Aisha Benali",
        BuiltInRole::Member,
        &["sales"],
    ),
    person(
        "diego.fuentes",
        "Diego Fuentes",
        BuiltInRole::Member,
        &["finance"],
    ),
    person(
        "yuki.tanaka",
        "Yuki Tanaka",
        BuiltInRole::Member,
        &["platform", "support"],
    ),
    person(
        "erik.sandberg",
        "Erik Sandberg",
        BuiltInRole::Member,
        &["finance"],
    ),
    person(
        "lena.fischer",
        "Lena Fischer",
        BuiltInRole::Member,
        &["finance"],
    ),
    person("hannah.cole", "Hannah Cole", BuiltInRole::Viewer, &[]),
    Person {
        handle: SYNC_BOT,
        name: "Sync bot",
        kind: MemberKind::ServiceAccount,
        role: BuiltInRole::Member,
        teams: &["platform", "support", "sales", "finance"],
    },
];

/// Handle of the connectors' service account.
pub(super) const SYNC_BOT: &str = "sync-bot";
/// Handle of the member who reviews memories.
pub(super) const CURATOR: &str = "priya.raman";

/// A custom role. The list is ordered by name.
pub(super) struct Role {
    pub(super) name: &'static str,
    pub(super) slug: &'static str,
    pub(super) description: &'static str,
    pub(super) base: BaseRole,
    pub(super) allow: ActionSet,
    pub(super) deny: ActionSet,
    /// True if the role is limited to the first workspace.
    pub(super) is_of_workspace: bool,
    pub(super) is_active: bool,
    /// Handles of the members with the role.
    pub(super) holders: &'static [&'static str],
}

pub(super) const ROLES: &[Role] = &[
    Role {
        name: "Auditor",
        slug: "auditor",
        description: "Reads the audit log and confidential memories for the yearly audit; changes nothing.",
        base: BaseRole::Viewer,
        allow: ActionSet::of(&[Action::AuditRead, Action::MemoryReadConfidential]),
        deny: ActionSet::EMPTY,
        is_of_workspace: false,
        is_active: true,
        holders: &["erik.sandberg", "lena.fischer"],
    },
    Role {
        name: "Incident commander",
        slug: "incident-commander",
        description: "On call in Operations: pauses connectors and reads what is confidential during an incident.",
        base: BaseRole::Member,
        allow: ActionSet::of(&[Action::ConnectorManage, Action::MemoryReadConfidential]),
        deny: ActionSet::EMPTY,
        is_of_workspace: true,
        is_active: true,
        holders: &["tomas.lindqvist"],
    },
    Role {
        name: "Knowledge curator",
        slug: "knowledge-curator",
        description: "Keeps the knowledge in order: reviews, lowers labels that are too strict, deletes what is wrong.",
        base: BaseRole::Member,
        allow: ActionSet::of(&[Action::MemoryDeclassify, Action::MemoryDelete]),
        deny: ActionSet::EMPTY,
        is_of_workspace: false,
        is_active: true,
        holders: &["priya.raman", "yuki.tanaka"],
    },
    Role {
        name: "Peak season helper",
        slug: "peak-season-helper",
        description: "For temporary colleagues from October to January. Switched off until the next season.",
        base: BaseRole::Viewer,
        allow: ActionSet::of(&[Action::ChatWrite]),
        deny: ActionSet::of(&[Action::RoleRead]),
        is_of_workspace: false,
        is_active: false,
        holders: &[],
    },
    Role {
        name: "Webhook integrator",
        slug: "webhook-integrator",
        description: "Connects other systems: outbound and inbound webhooks, and nothing that members read.",
        base: BaseRole::Viewer,
        allow: ActionSet::of(&[Action::WebhookManage, Action::InboundWebhookManage]),
        deny: ActionSet::of(&[Action::MemoryRead]),
        is_of_workspace: false,
        is_active: true,
        holders: &[],
    },
];

/// Sources: name and kind.
pub(super) const SOURCES: &[(&str, &str)] = &[
    ("Engineering wiki", "confluence"),
    ("Support desk", "zendesk"),
    ("Shared drive", "google_drive"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demo_roles_are_sorted_and_first_has_two_holders() {
        assert!(ROLES[0].holders.len() >= 2);
        assert!(ROLES.is_sorted_by_key(|role| role.name));
    }
}
