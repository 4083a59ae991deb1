//! Comparison of the service with the rules of access that the documentation states.
//!
//! The rules are those of [`knowledge_testing::authorization`], a second implementation that is
//! read from the tables of the reference. Every built-in role, every custom role of one allowed and
//! one denied action, and generated cases of all that a role and a credential can be.
//!
//! `PROPTEST_CASES` sets the number of generated cases, `PROPTEST_RNG_SEED` the seed.

mod generated;

use knowledge_testing::authorization::{
    Acting, Case, Extent, HeldRole, Names, Place, Reference, Role, Scope, Site, names,
    operations_left_out,
};

const BUILT_IN: [&str; 4] = ["viewer", "member", "admin", "owner"];
const BASES: [&str; 2] = ["viewer", "member"];
const PLACES: [Place; 5] = [
    Place::Organization,
    Place::Workspace("viewer"),
    Place::Workspace("member"),
    Place::Workspace("admin"),
    Place::Workspace("owner"),
];

/// Returns scopes: none, each single action, all but each, workspaces and audience labels.
fn scopes() -> Vec<Scope> {
    let all = Reference::read().actions();
    let mut scopes = vec![Scope::default()];
    let of = |actions: Names| Scope {
        actions: Some(actions),
        ..Scope::default()
    };
    for action in &all {
        scopes.push(of(names([action.as_str()])));
        let mut others = all.clone();
        others.remove(action);
        scopes.push(of(others));
    }
    for workspaces in [&["main"][..], &["side"], &["main", "side"]] {
        scopes.push(Scope {
            workspaces: Some(names(workspaces.iter().copied())),
            ..Scope::default()
        });
    }
    for audience in [
        &["org:acme"][..],
        &["workspace:main", "team:legal"],
        &["user:tina"],
        &["workspace:side"],
        &["team:sales", "user:olga", "org:globex"],
    ] {
        scopes.push(Scope {
            audience: Some(names(audience.iter().copied())),
            ..Scope::default()
        });
    }
    scopes.push(Scope {
        workspaces: Some(names(["main"])),
        actions: Some(names(["memory:read", "memory:share", "memory:update"])),
        audience: Some(names(["workspace:main", "workspace:side"])),
    });
    scopes
}

/// Returns custom roles: both bases, each action allowed and each other one denied, on and off.
fn custom_roles() -> Vec<Role> {
    let all = Reference::read().actions();
    let one: Vec<Names> = all.iter().map(|action| names([action.as_str()])).collect();
    let mut lists = vec![Names::new()];
    lists.extend(one);
    let mut roles = Vec::new();
    for base in BASES {
        for allow in &lists {
            for deny in &lists {
                if allow == deny && !allow.is_empty() {
                    continue;
                }
                for is_active in [true, false] {
                    roles.push(Role {
                        base: base.to_owned(),
                        allow: allow.clone(),
                        deny: deny.clone(),
                        is_active,
                    });
                }
            }
        }
    }
    roles
}

/// Returns each scope with the MCP keys of a site.
fn credentials(site: &Site) -> Vec<(Scope, bool)> {
    let tokens = scopes().into_iter().map(|scope| (scope, false));
    let keys = site.mcp_key_scopes().map(|scope| (scope.clone(), true));
    tokens.chain(keys).collect()
}

/// Returns the private workspaces of a case: none of most.
fn private(index: usize) -> Names {
    match index % 6 {
        0 => names(["main"]),
        1 => names(["side"]),
        2 => names(["main", "side"]),
        _ => Names::new(),
    }
}

#[track_caller]
fn assert_same(compared: Result<(), String>) {
    if let Err(difference) = compared {
        panic!("{difference}");
    }
}

#[tokio::test]
async fn built_in_roles_do_what_reference_states() {
    let mut site = Site::new(1, None).await;
    for (index, (scope, is_mcp_key)) in credentials(&site).into_iter().enumerate() {
        for (number, role) in BUILT_IN.into_iter().enumerate() {
            let place = PLACES[(index + number) % PLACES.len()];
            let case = |place, is_redirected| Case {
                role: HeldRole::BuiltIn(role),
                place,
                is_redirected,
                scope: scope.clone(),
                is_mcp_key,
                private: private(index),
                via: None,
            };
            for (place, is_redirected) in [(Place::Organization, false), (place, index % 2 == 0)] {
                let case = case(place, is_redirected);
                if case.is_possible() {
                    assert_same(site.compare(&case, FEW).await);
                }
            }
        }
    }
}

/// Extent of most comparisons.
const FEW: Extent = Extent::Sample(6);

#[tokio::test]
async fn each_change_and_operation_is_decided_as_reference_states() {
    let mut site = Site::new(2, None).await;
    let cases = credentials(&site).into_iter().enumerate();
    for (index, (scope, is_mcp_key)) in cases.filter(|(index, _)| index % 4 == 0) {
        let case = Case {
            role: HeldRole::BuiltIn(BUILT_IN[index / 4 % BUILT_IN.len()]),
            place: PLACES[index % PLACES.len()],
            is_redirected: false,
            scope,
            is_mcp_key,
            private: private(index / 4),
            via: None,
        };
        if case.is_possible() {
            assert_same(site.compare(&case, Extent::Full).await);
        }
    }
}

/// Through the scopes of all actions but one and of one alone, an administrator shows that what each
/// operation requires is necessary, and that it suffices.
#[tokio::test]
async fn each_operation_requires_what_reference_states() {
    let mut site = Site::new(4, Some(20)).await;
    for (index, (scope, is_mcp_key)) in credentials(&site).into_iter().enumerate() {
        let case = |role, place| Case {
            role: HeldRole::BuiltIn(role),
            place,
            is_redirected: false,
            scope: scope.clone(),
            is_mcp_key,
            private: Names::new(),
            via: None,
        };
        let all = case("admin", Place::Organization);
        assert_same(site.compare(&all, Extent::Operations).await);
        let (role, place) = (BUILT_IN[index % 4], PLACES[index / 4 % PLACES.len()]);
        let other = case(role, place);
        if other.is_possible() {
            assert_same(site.compare(&other, Extent::Operations).await);
        }
    }
}

/// A private workspace exists for those with a role in it and for owners, through each credential.
#[tokio::test]
async fn private_workspaces_exist_for_their_people() {
    let mut site = Site::new(5, Some(60)).await;
    for (index, (scope, is_mcp_key)) in credentials(&site).into_iter().enumerate() {
        for place in [Place::Organization, PLACES[1 + index % 4]] {
            for role in BUILT_IN {
                let case = Case {
                    role: HeldRole::BuiltIn(role),
                    place,
                    is_redirected: false,
                    scope: scope.clone(),
                    is_mcp_key,
                    private: private(index % 3),
                    via: None,
                };
                if case.is_possible() {
                    assert_same(site.compare(&case, FEW).await);
                }
            }
        }
    }
}

/// A service account that acts for a member does what both may, and manages nothing.
#[tokio::test]
async fn service_account_acts_for_members_as_reference_states() {
    let mut site = Site::new(6, Some(60)).await;
    let scopes = scopes();
    for (index, role) in custom_roles().into_iter().enumerate().step_by(9) {
        let number = index / 9;
        let case = Case {
            role: HeldRole::BuiltIn(BUILT_IN[number % 3]),
            place: PLACES[number % 4],
            is_redirected: false,
            scope: scopes[if number % 3 == 0 {
                number % scopes.len()
            } else {
                0
            }]
            .clone(),
            is_mcp_key: false,
            private: private(number),
            via: Some(Acting::new(
                role,
                [None, Some("admin"), Some("viewer")][number % 3],
            )),
        };
        assert!(case.is_possible());
        assert_same(site.compare(&case, FEW).await);
    }
    for role in ["viewer", "member", "admin"] {
        // An account with every action does what the member may, apart from managing.
        let all = Role {
            base: "member".to_owned(),
            allow: Reference::read().actions(),
            deny: Names::new(),
            is_active: true,
        };
        let case = Case {
            role: HeldRole::BuiltIn(role),
            place: Place::Organization,
            is_redirected: false,
            scope: Scope::default(),
            is_mcp_key: false,
            private: Names::new(),
            via: Some(Acting::new(all, None)),
        };
        assert_same(site.compare(&case, Extent::Full).await);
    }
}

#[test]
fn each_operation_is_compared() {
    // Its message has no credential; the tests of the service cover it.
    assert_eq!(operations_left_out(), names(["postToInboundWebhook"]));
}

#[tokio::test]
async fn custom_roles_do_what_reference_states() {
    let mut site = Site::new(3, Some(60)).await;
    let credentials = credentials(&site);
    for (index, role) in custom_roles().into_iter().enumerate() {
        let (scope, is_mcp_key) = match index % 3 {
            0 => &credentials[index % credentials.len()],
            _ => &credentials[0],
        };
        let case = Case {
            role: HeldRole::Custom(role),
            place: PLACES[index % PLACES.len()],
            is_redirected: index % 7 == 0,
            scope: scope.clone(),
            is_mcp_key: *is_mcp_key,
            private: private(index / 7),
            via: None,
        };
        assert_same(site.compare(&case, FEW).await);
    }
}
