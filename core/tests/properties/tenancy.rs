//! Properties of two organisations with the same slugs, handles and labels.
//!
//! A reference to a resource of the other gets the response for a non-existent one, and changes
//! nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use knowledge_core::api::Api;
use knowledge_core::model::OrgId;
use knowledge_core::service::KnowledgeService;
use knowledge_core::store::{Key, Store};
use knowledge_store::faults::FaultRates;
use knowledge_testing::simulation::{
    Call, Config, Divergence, Simulation, Step, World, check_cases, contents, execute,
    simulated_options,
};
use knowledge_testing::strategies::{Op, operation, operations};
use proptest::collection::vec;
use proptest::prelude::any;
use uuid::Uuid;

use crate::{cases, copy, memory};

/// Returns an identifier that does not exist, distinct for each argument.
fn nobodys(id: Uuid) -> Uuid {
    Uuid::from_u128(!id.as_u128())
}

/// Returns true if the call is made in the second organisation, and `None` for maintenance.
fn caller(call: &Call, world: &World) -> Option<bool> {
    Some(call.org()?.0 == world.identifiers(true)[0])
}

/// Returns all entries that concern an organisation.
async fn belongings(store: &dyn Store, org: OrgId) -> BTreeMap<Key, Bytes> {
    let names = [org.0.simple().to_string(), org.0.to_string()];
    let mut all = contents(store).await.unwrap();
    all.retain(|key, value| {
        let value = String::from_utf8_lossy(value);
        let key = key.to_string();
        names
            .iter()
            .any(|name| key.contains(name) || value.contains(name))
    });
    all
}

/// Executes a call on a copy of the store; returns the response and the copy.
async fn answer(simulation: &Simulation, call: &Call) -> (String, Arc<dyn Store>) {
    let store = copy(&**simulation.store().inner()).await;
    let env = simulation.time().env(99);
    let service = KnowledgeService::open(Arc::clone(&store), env, simulated_options()).await;
    let outcome = execute(&Api::new(service.unwrap()), call).await;
    (format!("{outcome:?}"), store)
}

async fn compare(
    simulation: &Simulation,
    is_second_org: bool,
    kinds: u16,
    op: &Op,
) -> Result<(), Divergence> {
    let world = simulation.world();
    let step = world
        .cross_tenant(is_second_org, kinds, |id| id)
        .resolve(op);
    let twin = world
        .cross_tenant(is_second_org, kinds, nobodys)
        .resolve(op);
    let (Step::Call(call), Step::Call(twin)) = (step, twin) else {
        return Ok(());
    };
    if caller(&call, world) != Some(is_second_org) {
        return Ok(());
    }
    let differs = |problem: String| {
        Err(Divergence {
            trace: vec![format!("{call:?}"), format!("{twin:?}, the twin")],
            problem,
        })
    };
    let others = world.identifiers(!is_second_org);
    let other_org = OrgId(others[0]);
    let before = belongings(&**simulation.store().inner(), other_org).await;

    let (heard, store) = answer(simulation, &call).await;
    if before != belongings(&*store, other_org).await {
        return differs("something of the other organisation changed".to_owned());
    }
    let (mut of_nobodys, _) = answer(simulation, &twin).await;
    for id in others {
        of_nobodys = of_nobodys.replace(&nobodys(id).to_string(), &id.to_string());
    }
    if heard == of_nobodys {
        Ok(())
    } else {
        differs(format!("answered {heard}\nbut the twin {of_nobodys}"))
    }
}

#[tokio::test]
async fn resources_of_another_org_appear_nonexistent() {
    let strategy = (operations(60), vec((any::<u16>(), operation()), 80));
    let config = Config::new(cases(25));
    check_cases(&config, strategy, |seed, (ops, probes)| async move {
        let store = memory().await;
        let mut simulation = Simulation::begin(store, seed, FaultRates::default()).await?;
        for op in &ops {
            simulation.step(op).await?;
        }
        for (kinds, op) in &probes {
            for is_second_org in [false, true] {
                compare(&simulation, is_second_org, *kinds, op).await?;
            }
        }
        Ok(())
    })
    .await;
}
