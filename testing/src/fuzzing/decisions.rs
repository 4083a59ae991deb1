//! Roles and scopes of credentials: what the service decides, and what the documentation states.

use std::sync::LazyLock;

use crate::authorization::{
    AUDIENCES, Acting, Case, Extent, HeldRole, Names, Place, Reference, Role, Scope, Site,
};

/// Number of memories, whose labels depend on the input.
const MEMORIES: usize = 24;
/// Number of random uses and operations of an input.
const USES: usize = 8;
const BUILT_IN: [&str; 4] = ["viewer", "member", "admin", "owner"];
/// Built-in roles that a custom one may be based on.
const BASES: [&str; 2] = ["viewer", "member"];
const WORKSPACES: [&str; 2] = ["main", "side"];

static ACTIONS: LazyLock<Names> = LazyLock::new(|| Reference::read().actions());

/// Compares the decisions about a member and its token with the rules that the documentation states.
///
/// Each line sets one property: `role NAME` or `role custom BASE`, of which `allow ACTION…`, `deny
/// ACTION…` and `inactive` say more; `inside NAME` if it is held in the workspace `main` only,
/// where it replaces this role; `redirected` if another role was deleted in its favour; the scope,
/// `workspaces SLUG…`, `actions ACTION…` and `audience LABEL…`; `private SLUG…`, the workspaces
/// that are private; `via BASE ACTION…`, the role of a service account that acts for the member; and
/// `random NUMBER`, on which the memories and the uses depend. Unknown lines
/// and names are ignored.
///
/// # Panics
/// If the service decides otherwise.
pub async fn check_decisions(text: &[u8]) {
    let (case, random) = parse(text);
    if !case.is_possible() {
        return;
    }
    let mut site = Site::new(random, Some(MEMORIES)).await;
    if let Err(difference) = site.compare(&case, Extent::Sample(USES)).await {
        panic!("{difference}");
    }
}

fn parse(text: &[u8]) -> (Case, u64) {
    let mut case = Case {
        role: HeldRole::BuiltIn(BUILT_IN[0]),
        place: Place::Organization,
        is_redirected: false,
        scope: Scope::default(),
        is_mcp_key: false,
        private: Names::new(),
        via: None,
    };
    let mut custom = None;
    let mut of_role = Role {
        is_active: true,
        ..Role::default()
    };
    let mut random = 0;
    for line in text.split(|byte| *byte == b'\n') {
        let line = std::str::from_utf8(line).unwrap_or_default();
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words.as_slice() {
            ["role", "custom", base] => custom = known(&BASES, base),
            ["role", name] => {
                if let Some(name) = known(&BUILT_IN, name) {
                    (custom, case.role) = (None, HeldRole::BuiltIn(name));
                }
            }
            ["allow", names @ ..] => of_role.allow = actions(names),
            ["deny", names @ ..] => of_role.deny = actions(names),
            ["inactive"] => of_role.is_active = false,
            ["inside", name] => {
                case.place = known(&BUILT_IN, name).map_or(case.place, Place::Workspace);
            }
            ["redirected"] => case.is_redirected = true,
            ["workspaces", names @ ..] => case.scope.workspaces = some_of(&WORKSPACES, names),
            ["private", names @ ..] => {
                case.private = some_of(&WORKSPACES, names).unwrap_or_default();
            }
            ["actions", names @ ..] => case.scope.actions = Some(actions(names)),
            ["audience", names @ ..] => case.scope.audience = some_of(&AUDIENCES, names),
            ["via", base, names @ ..] => {
                let base = known(&BASES, base);
                case.via = base.map(|base| {
                    let role = Role {
                        base: base.to_owned(),
                        allow: actions(names),
                        ..Role::default()
                    };
                    Acting::new(role, None)
                });
            }
            ["random", number] => random = number.parse().unwrap_or(random),
            _ => {}
        }
    }
    if let Some(base) = custom {
        of_role.base = base.to_owned();
        // An action in both lists is rejected.
        of_role
            .deny
            .retain(|action| !of_role.allow.contains(action));
        case.role = HeldRole::Custom(of_role);
    }
    (case, random)
}

fn known(names: &[&'static str], name: &str) -> Option<&'static str> {
    names.iter().copied().find(|known| *known == name)
}

fn actions(names: &[&str]) -> Names {
    let known = names.iter().filter(|name| ACTIONS.contains(**name));
    known.map(|name| (*name).to_owned()).collect()
}

/// Returns the known names, or `None` if there are none: an empty list is rejected.
fn some_of(all: &[&'static str], names: &[&str]) -> Option<Names> {
    let found = names.iter().filter_map(|name| known(all, name));
    let found: Names = found.map(str::to_owned).collect();
    (!found.is_empty()).then_some(found)
}
