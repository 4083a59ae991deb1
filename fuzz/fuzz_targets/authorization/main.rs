//! Roles and scopes of credentials.
//!
//! Whatever a member holds and however its credential is narrowed, the service decides as the
//! documentation states.

#![no_main]

use std::sync::LazyLock;

use arbitrary::{Arbitrary, Result, Unstructured};
use futures::executor::block_on;
use knowledge_testing::authorization::{
    AUDIENCES, Case, Extent, HeldRole, Names, Place, Reference, Role, Scope, Site,
};
use libfuzzer_sys::fuzz_target;

/// Number of memories, whose labels depend on the input.
const MEMORIES: usize = 24;
const BUILT_IN: [&str; 4] = ["viewer", "member", "admin", "owner"];

static ACTIONS: LazyLock<Vec<String>> =
    LazyLock::new(|| Reference::read().actions().into_iter().collect());

fuzz_target!(|data: &[u8]| {
    let mut input = Unstructured::new(data);
    let seed = u64::arbitrary(&mut input).unwrap_or_default();
    let Some(case) = case(&mut input).ok().filter(Case::is_possible) else {
        return;
    };
    block_on(async {
        let mut site = Site::new(seed, Some(MEMORIES)).await;
        if let Err(difference) = site.compare(&case, Extent::Sample(8)).await {
            panic!("{difference}");
        }
    });
});

fn case(input: &mut Unstructured<'_>) -> Result<Case> {
    let role = match input.ratio(1, 5)? {
        true => HeldRole::BuiltIn(input.choose(&BUILT_IN)?),
        false => HeldRole::Custom(role(input)?),
    };
    let place = match input.arbitrary()? {
        true => Place::Organization,
        false => Place::Workspace(input.choose(&BUILT_IN)?),
    };
    Ok(Case {
        is_redirected: input.ratio(1, 4)?,
        role,
        place,
        scope: scope(input)?,
        is_mcp_key: false,
    })
}

fn role(input: &mut Unstructured<'_>) -> Result<Role> {
    let allow = actions(input)?;
    let mut deny = actions(input)?;
    deny.retain(|action| !allow.contains(action));
    Ok(Role {
        base: (*input.choose(&BUILT_IN[..2])?).to_owned(),
        allow,
        deny,
        is_active: input.arbitrary()?,
    })
}

fn scope(input: &mut Unstructured<'_>) -> Result<Scope> {
    let workspaces = some_of(input, &["main", "side"])?;
    let audience = some_of(input, &AUDIENCES)?;
    Ok(Scope {
        workspaces: workspaces.filter(|slugs| !slugs.is_empty()),
        actions: match input.arbitrary()? {
            true => Some(actions(input)?),
            false => None,
        },
        audience: audience.filter(|labels| !labels.is_empty()),
    })
}

fn actions(input: &mut Unstructured<'_>) -> Result<Names> {
    let bits: u32 = input.arbitrary()?;
    let actions = ACTIONS.iter().enumerate();
    let chosen = actions.filter(|(index, _)| bits >> index & 1 == 1);
    Ok(chosen.map(|(_, action)| action.clone()).collect())
}

fn some_of(input: &mut Unstructured<'_>, names: &[&str]) -> Result<Option<Names>> {
    if input.arbitrary()? {
        return Ok(None);
    }
    let bits: u16 = input.arbitrary()?;
    let names = names.iter().enumerate();
    let chosen = names.filter(|(index, _)| bits >> index & 1 == 1);
    Ok(Some(chosen.map(|(_, name)| (*name).to_owned()).collect()))
}
