//! Cases that are generated: any actions, at any place, through any credential.

use knowledge_testing::authorization::{
    AUDIENCES, Acting, Case, Extent, HeldRole, Names, Reference, Role, Scope, Site,
};
use knowledge_testing::simulation::{Config, Divergence, check_cases};
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::{BASES, BUILT_IN, PLACES};

/// Number of memories in each case.
const MEMORIES: usize = 40;

/// Returns the number of cases: `usual`, unless the environment sets another.
#[expect(
    clippy::disallowed_methods,
    reason = "the environment sets the number of cases"
)]
fn cases(usual: u32) -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}

fn some_of(names: Vec<String>) -> impl Strategy<Value = Names> {
    let all = names.len();
    subsequence(names, 1..=all).prop_map(Names::from_iter)
}

fn actions() -> impl Strategy<Value = Names> {
    let all = Reference::read().actions();
    let few = subsequence(Vec::from_iter(all.clone()), 0..4).prop_map(Names::from_iter);
    prop_oneof![few, some_of(Vec::from_iter(all))]
}

fn role() -> impl Strategy<Value = HeldRole> {
    let custom = (select(&BASES[..]), actions(), actions(), any::<bool>());
    let custom = custom.prop_map(|(base, allow, deny, is_active)| {
        HeldRole::Custom(Role {
            base: base.to_owned(),
            deny: deny.difference(&allow).cloned().collect(),
            allow,
            is_active,
        })
    });
    prop_oneof![1 => select(&BUILT_IN[..]).prop_map(HeldRole::BuiltIn), 4 => custom]
}

fn scope() -> impl Strategy<Value = Scope> {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    (
        weighted(0.3, some_of(owned(&["main", "side"]))),
        weighted(0.4, actions()),
        weighted(0.3, some_of(owned(&AUDIENCES))),
    )
        .prop_map(|(workspaces, actions, audience)| Scope {
            workspaces,
            actions,
            audience,
        })
}

fn case() -> impl Strategy<Value = Case> {
    let private = prop_oneof![
        2 => Just(Names::new()),
        1 => some_of(vec!["main".to_owned(), "side".to_owned()]),
    ];
    let held = (role(), select(&PLACES[..]), any::<bool>());
    let account = (role(), weighted(0.3, select(&BUILT_IN[..3])));
    let via = weighted(0.3, account).prop_map(|account| match account {
        Some((HeldRole::Custom(role), in_main)) => Some(Acting::new(role, in_main)),
        _ => None,
    });
    let parts = (held, scope(), private, via);
    parts.prop_map(|((role, place, is_redirected), scope, private, via)| Case {
        is_redirected,
        role,
        place,
        scope,
        is_mcp_key: false,
        private,
        via,
    })
}

#[tokio::test]
async fn generated_case_is_decided_as_reference_states() {
    check_cases(&Config::new(cases(150)), case(), |seed, case| async move {
        if !case.is_possible() {
            return Ok(());
        }
        let mut site = Site::new(seed, Some(MEMORIES)).await;
        let compared = site.compare(&case, Extent::Sample(12)).await;
        compared.map_err(|problem| Divergence {
            trace: Vec::new(),
            problem,
        })
    })
    .await;
}
