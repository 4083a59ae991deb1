//! Test of the permissions that a message to an inbound webhook requires of the member that it acts
//! as. Those of all other operations are compared with the reference in `core/tests/authorization`.

use knowledge_core::Error;
use knowledge_core::access::{Action, ActionSet, Credential};
use knowledge_core::api::Operation;
use knowledge_core::service::Caller;

use crate::inbound_sender::Sender;
use crate::make::{ADMIN, new_memory};
use crate::world::World;
use knowledge_testing::requests::with;

/// Ingests a message as the caller, who was an administrator when the webhook was registered.
///
/// Returns true if the caller is authorised for it, of whom this action is asked.
async fn may(world: &World, caller: &Caller, action: Action) -> bool {
    let Credential::Trusted { member, .. } = caller.credential() else {
        panic!("callers are trusted here");
    };
    let assign = async |role| world.assign_in(*member, world.workspace.id, role).await;
    assign(Some(ADMIN)).await.unwrap();
    let sender = Sender::registered_by(world, caller).await;
    let known = |title: &str| {
        with(new_memory(title), |new| {
            new.source_key = Some("known".to_owned());
        })
    };
    sender.post(world, "first", &[known("One")]).await.unwrap();
    assign(None).await.unwrap();
    let memory = match action {
        Action::MemoryUpdate => known("Two"),
        _ => new_memory("Two"),
    };
    match sender.post(world, "second", &[memory]).await {
        Err(Error::Forbidden { reason, permission }) => {
            assert_eq!(reason, format!("missing permission {action}"));
            assert_eq!(permission, Some(action));
            false
        }
        Ok(()) => true,
        Err(error) => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn required_permissions_of_a_message_are_necessary_and_sufficient() {
    let permissions = Operation::PostToInboundWebhook.spec().permissions;
    let needed = permissions.iter().map(|permission| permission.action);
    let needed: ActionSet = needed.collect();
    for permission in permissions {
        let world = World::new().await;
        let lacking = ActionSet::ALL - permission.actions();
        let lacking = world.caller_who_may(lacking).await;
        assert!(!may(&world, &lacking, permission.action).await);
        let holder = world.caller_who_may(needed).await;
        assert!(may(&world, &holder, permission.action).await);
    }
}
