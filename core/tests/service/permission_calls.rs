//! Calls of operations for the test of the required permissions, by capability.

use knowledge_core::Error;
use knowledge_core::access::{Action, ActionSet, BaseRole, Credential, RoleRef};
use knowledge_core::api::Operation;
use knowledge_core::model::{
    ChatId, ConnectorId, CredentialId, DeliveryId, InboundWebhookId, InboundWebhookUpdate,
    WebhookId, WebhookUpdate,
};
use knowledge_core::service::{Caller, ConnectorUpdate, Endpoint, MemberUpdate, PageRequest};
use uuid::Uuid;

use crate::inbound_sender::Sender;
use crate::make::{ACME, ADMIN, new_member, new_memory};
use crate::world::World;
use knowledge_testing::requests::with;

/// A permission that an operation requires.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) operation: Operation,
    pub(crate) action: Action,
    pub(crate) when: &'static str,
}

pub(crate) async fn members(
    world: &World,
    caller: &Caller,
    operation: Operation,
) -> Result<(), Error> {
    let (service, page) = (&world.service, PageRequest::default());
    let nobody = knowledge_core::model::MemberId(Uuid::nil());
    match operation {
        Operation::ListMembers => service.list_members(caller, ACME, &page).await.map(drop),
        Operation::GetMember => service.get_member(caller, ACME, nobody).await.map(drop),
        Operation::AddMember => {
            // A role without actions exceeds no caller.
            let idle = world.role(BaseRole::Viewer, ActionSet::EMPTY, ActionSet::ALL);
            let new = new_member(&world.name("member"), RoleRef::Custom(idle.await.id));
            service.add_member(caller, ACME, &new).await.map(drop)
        }
        Operation::UpdateMember => {
            let update = MemberUpdate::default();
            let updated = service.update_member(caller, ACME, nobody, &update, None);
            updated.await.map(drop)
        }
        _ => {
            let workspace = world.workspace.id;
            service
                .end_workspace_role(caller, ACME, nobody, workspace)
                .await
        }
    }
}

pub(crate) async fn webhooks(
    world: &World,
    caller: &Caller,
    operation: Operation,
) -> Result<(), Error> {
    let (service, workspace) = (&world.service, world.workspace.id);
    let (page, none) = (PageRequest::default(), WebhookId(Uuid::nil()));
    match operation {
        Operation::ListWebhooks => service
            .list_webhooks(caller, workspace, &page)
            .await
            .map(drop),
        Operation::GetWebhook => service.get_webhook(caller, workspace, none).await.map(drop),
        Operation::UpdateWebhook => {
            let update = WebhookUpdate::default();
            let updated = service.update_webhook(caller, workspace, none, &update, None);
            updated.await.map(drop)
        }
        Operation::DeleteWebhook => service.delete_webhook(caller, workspace, none).await,
        _ => {
            let rotated = service.rotate_webhook_secret(caller, workspace, none);
            rotated.await.map(drop)
        }
    }
}

pub(crate) async fn deliveries(world: &World, caller: &Caller, case: &Case) -> Result<(), Error> {
    let (service, none) = (&world.service, DeliveryId(Uuid::nil()));
    let endpoint = if case.operation.spec().path.contains("{webhookId}") {
        Endpoint::Webhook(world.workspace.id, WebhookId(Uuid::nil()))
    } else {
        Endpoint::Subscription(world.subscription().await)
    };
    match case.operation {
        Operation::ListWebhookDeliveries | Operation::ListCitationSubscriptionDeliveries => {
            let page = PageRequest::default();
            let listed = service.list_deliveries(caller, endpoint, None, &page);
            listed.await.map(drop)
        }
        Operation::GetWebhookDelivery | Operation::GetCitationSubscriptionDelivery => {
            service.get_delivery(caller, endpoint, none).await.map(drop)
        }
        Operation::RedeliverToWebhook | Operation::RedeliverToCitationSubscription => {
            service.redeliver(caller, endpoint, none).await.map(drop)
        }
        Operation::RedeliverDeadToWebhook | Operation::RedeliverDeadToCitationSubscription => {
            service.redeliver_dead(caller, endpoint).await.map(drop)
        }
        _ => service.ping(caller, endpoint).await.map(drop),
    }
}

/// Ingests a message as the caller, who was an administrator when the webhook was registered.
pub(crate) async fn ingest_message(
    world: &World,
    caller: &Caller,
    case: &Case,
) -> Result<(), Error> {
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
    let memory = match case.action {
        Action::MemoryUpdate => known("Two"),
        _ => new_memory("Two"),
    };
    sender.post(world, "second", &[memory]).await
}

pub(crate) async fn inbound(
    world: &World,
    caller: &Caller,
    operation: Operation,
) -> Result<(), Error> {
    let (service, workspace) = (&world.service, world.workspace.id);
    let (page, none) = (PageRequest::default(), InboundWebhookId(Uuid::nil()));
    match operation {
        Operation::ListInboundWebhooks => {
            let listed = service.list_inbound_webhooks(caller, workspace, &page);
            listed.await.map(drop)
        }
        Operation::GetInboundWebhook => {
            let read = service.get_inbound_webhook(caller, workspace, none);
            read.await.map(drop)
        }
        Operation::UpdateInboundWebhook => {
            let update = InboundWebhookUpdate::default();
            let updated = service.update_inbound_webhook(caller, workspace, none, &update, None);
            updated.await.map(drop)
        }
        Operation::DeleteInboundWebhook => {
            service
                .delete_inbound_webhook(caller, workspace, none)
                .await
        }
        _ => {
            let rotated = service.rotate_inbound_webhook_secret(caller, workspace, none);
            rotated.await.map(drop)
        }
    }
}

pub(crate) async fn connectors(
    world: &World,
    caller: &Caller,
    operation: Operation,
) -> Result<(), Error> {
    let (service, workspace) = (&world.service, world.workspace.id);
    let (page, none) = (PageRequest::default(), ConnectorId(Uuid::nil()));
    match operation {
        Operation::ListConnectors => service
            .list_connectors(caller, workspace, &page)
            .await
            .map(drop),
        Operation::GetConnector => service
            .get_connector(caller, workspace, none)
            .await
            .map(drop),
        Operation::UpdateConnector => {
            let update = ConnectorUpdate::default();
            let updated = service.update_connector(caller, workspace, none, &update);
            updated.await.map(drop)
        }
        _ => service.delete_connector(caller, workspace, none).await,
    }
}

pub(crate) async fn mcp_keys(
    world: &World,
    caller: &Caller,
    operation: Operation,
) -> Result<(), Error> {
    let (service, workspace) = (&world.service, world.workspace.id);
    let (page, none) = (PageRequest::default(), CredentialId(Uuid::nil()));
    match operation {
        Operation::ListMcpKeys => service
            .list_mcp_keys(caller, workspace, &page)
            .await
            .map(drop),
        Operation::GetMcpKey => service.get_mcp_key(caller, workspace, none).await.map(drop),
        Operation::RotateMcpKey => {
            let rotated = service.rotate_mcp_key(caller, workspace, none, None);
            rotated.await.map(drop)
        }
        _ => service.revoke_mcp_key(caller, workspace, none).await,
    }
}

pub(crate) async fn chats(
    world: &World,
    caller: &Caller,
    operation: Operation,
) -> Result<(), Error> {
    let (service, workspace) = (&world.service, world.workspace.id);
    let (page, none) = (PageRequest::default(), ChatId(Uuid::nil()));
    match operation {
        Operation::ListChats => service.list_chats(caller, workspace, &page).await.map(drop),
        Operation::GetChat => service.get_chat(caller, workspace, none).await.map(drop),
        _ => {
            let listed = service.list_chat_messages(caller, workspace, none, &page);
            listed.await.map(drop)
        }
    }
}
