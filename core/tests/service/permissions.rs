//! Test of the required permissions: each operation is denied without them and allowed with them.

use knowledge_core::Error;
use knowledge_core::access::{
    Action, ActionSet, BaseRole, Credential, REQUIRED_PERMISSIONS, RequiredPermission, RoleRef,
};
use knowledge_core::model::{
    AuditLogId, ChatId, ConnectorId, CredentialId, CustomRoleUpdate, DeliveryId, EventType,
    InboundWebhookId, InboundWebhookUpdate, MemoryFilter, MemoryUpdate, NewCitationSubscription,
    NewInboundWebhook, NewWebhook, ReviewStatus, RoleId, SensitivityLabel, SourceId, WebhookId,
    WebhookUpdate,
};
use knowledge_core::service::{
    AuditFilter, ConnectorUpdate, DeleteRole, Endpoint, MemberAssignment, MemberUpdate, NewMemory,
    NewSource, PageRequest, SyncOutcome, SyncReport,
};
use uuid::Uuid;

use crate::inbound_posts::Sender;
use crate::make::{
    ACME, ADMIN, HOUR, VIEWER, create_memory, new_connector, new_mcp_key, new_member, new_memory,
    new_recall, new_role, review, sensitivity,
};
use crate::world::World;

/// Returns true if the caller is authorised; other errors of the request only follow then.
async fn may(world: &World, caller: &Credential, permission: &RequiredPermission) -> bool {
    let (service, workspace) = (&world.service, world.workspace.id);
    let nothing = Uuid::nil();
    let done: Result<(), Error> = match permission.operation {
        "bulk_update" => return bulk_may(world, caller, permission).await,
        "dashboard_summary" => service.dashboard_summary(caller, workspace).await.map(drop),
        "list_custom_roles" => service.list_custom_roles(caller, ACME).await.map(drop),
        "custom_role" => service
            .custom_role(caller, ACME, RoleId(nothing))
            .await
            .map(drop),
        "create_custom_role" => {
            let new = knowledge_core::model::NewCustomRole {
                actions: knowledge_core::model::RoleActions {
                    allow: ActionSet::EMPTY,
                    deny: ActionSet::ALL,
                },
                ..new_role(&world.name("role"))
            };
            service
                .create_custom_role(caller, ACME, &new)
                .await
                .map(drop)
        }
        "update_custom_role" => {
            let update = CustomRoleUpdate::default();
            let role = RoleId(nothing);
            service
                .update_custom_role(caller, ACME, role, &update, None)
                .await
                .map(drop)
        }
        "delete_custom_role" => {
            let request = DeleteRole::default();
            service
                .delete_custom_role(caller, ACME, RoleId(nothing), &request)
                .await
        }
        "remove_member" => {
            let nobody = knowledge_core::model::MemberId(nothing);
            service.remove_member(caller, ACME, nobody).await
        }
        "assign_role" => {
            let nobody = knowledge_core::model::MemberId(nothing);
            let role = MemberAssignment::Organization(VIEWER);
            service.assign_role(caller, ACME, nobody, role).await
        }
        "create_citation_subscription" => {
            let ids = world.memories(1).await;
            let recall = service
                .create_recall(&world.owner, workspace, &new_recall(&ids))
                .await;
            let request = NewCitationSubscription {
                recall_id: recall.unwrap().id,
                webhook_url: "https://example.com/".parse().unwrap(),
            };
            service
                .create_citation_subscription(caller, &request)
                .await
                .map(drop)
        }
        "create_memory" => {
            let new = create_memory("Note", world.source);
            service
                .create_memory(caller, workspace, &new)
                .await
                .map(drop)
        }
        "update_memory" => {
            let memory = world.memories(1).await[0];
            let mut update = MemoryUpdate::default();
            match permission.when {
                "to set the review status" => {
                    update.change = review(ReviewStatus::Approved);
                }
                "to lower the sensitivity" => {
                    update.change = sensitivity(SensitivityLabel::Public);
                }
                "to set anything except the review status" => {
                    update.change = sensitivity(SensitivityLabel::Confidential);
                }
                _ => update.title = Some("Renamed".to_owned()),
            }
            let updated = service.update_memory(caller, memory, &update, None);
            updated.await.map(drop)
        }
        "delete_memory" => {
            let memory = world.memories(1).await[0];
            service.delete_memory(caller, memory).await
        }
        "list_memories" | "memory" => return sees(world, caller, permission).await,
        "list_citation_subscriptions" => {
            let recall = world.recall().await;
            let page = PageRequest::default();
            let listed = service.list_citation_subscriptions(caller, recall, &page);
            listed.await.map(drop)
        }
        "citation_subscription" => {
            let id = world.subscription().await;
            service.citation_subscription(caller, id).await.map(drop)
        }
        "delete_citation_subscription" => {
            let id = world.subscription().await;
            service.delete_citation_subscription(caller, id).await
        }
        "rotate_citation_subscription_secret" => {
            let id = world.subscription().await;
            let rotated = service.rotate_citation_subscription_secret(caller, id);
            rotated.await.map(drop)
        }
        "create_webhook" => {
            let request = NewWebhook {
                event_type: EventType::ChunkCreated,
                url: "https://example.com/".parse().unwrap(),
            };
            service
                .create_webhook(caller, workspace, &request)
                .await
                .map(drop)
        }
        "create_inbound_webhook" => {
            let request = NewInboundWebhook {
                name: "Forms".to_owned(),
            };
            service
                .create_inbound_webhook(caller, workspace, &request)
                .await
                .map(drop)
        }
        "create_source" => {
            let new = NewSource {
                name: "Files".to_owned(),
                kind: "drive".to_owned(),
            };
            service.create_source(caller, &new).await.map(drop)
        }
        "list_sources" => {
            let page = PageRequest::default();
            service.list_sources(caller, &page).await.map(drop)
        }
        "source" => service.source(caller, SourceId(nothing)).await.map(drop),
        "ingest" => {
            let named = |content: &str| NewMemory {
                source_key: Some("page/1".to_owned()),
                content: content.to_owned(),
                ..new_memory("Page")
            };
            let ingest = async |caller: &Credential, content: &str| {
                let batch = [named(content)];
                service
                    .ingest(caller, workspace, world.source, &batch)
                    .await
                    .map(drop)
            };
            if permission.when.is_empty() {
                ingest(&world.owner, "same").await.unwrap();
                ingest(caller, "same").await
            } else {
                ingest(&world.owner, "old").await.unwrap();
                ingest(caller, "new").await
            }
        }
        "create_connector" => service
            .create_connector(caller, workspace, &new_connector(HOUR))
            .await
            .map(drop),
        "report_sync" => {
            let connector = ConnectorId(nothing);
            let report = SyncReport {
                outcome: SyncOutcome::Success,
                next_sync_at: None,
            };
            service
                .report_sync(caller, workspace, connector, &report)
                .await
        }
        "pause_connector" => {
            let connector = ConnectorId(nothing);
            service
                .pause_connector(caller, workspace, connector, true)
                .await
                .map(drop)
        }
        "list_members" | "member" | "add_member" | "update_member" | "end_workspace_role" => {
            members(world, caller, permission.operation).await
        }
        "list_webhooks"
        | "webhook"
        | "update_webhook"
        | "delete_webhook"
        | "rotate_webhook_secret" => webhooks(world, caller, permission.operation).await,
        "ingest_message" => ingest_message(world, caller, permission).await,
        "list_inbound_webhooks"
        | "inbound_webhook"
        | "update_inbound_webhook"
        | "delete_inbound_webhook"
        | "rotate_inbound_webhook_secret" => inbound(world, caller, permission.operation).await,
        "list_connectors" | "connector" | "update_connector" | "delete_connector" => {
            connectors(world, caller, permission.operation).await
        }
        "list_mcp_keys" | "mcp_key" | "rotate_mcp_key" | "revoke_mcp_key" => {
            mcp_keys(world, caller, permission.operation).await
        }
        "list_chats" | "chat" | "list_chat_messages" => {
            chats(world, caller, permission.operation).await
        }
        "create_mcp_key" => {
            let new = new_mcp_key("org:acme");
            service
                .create_mcp_key(caller, workspace, &new)
                .await
                .map(drop)
        }
        "create_chat" => service.create_chat(caller, workspace, "Hi").await.map(drop),
        "post_chat_message" => {
            let chat = ChatId(nothing);
            service
                .post_chat_message(caller, workspace, chat, "Hi")
                .await
                .map(drop)
        }
        "create_recall" => {
            let ids = world.memories(1).await;
            service
                .create_recall(caller, workspace, &new_recall(&ids))
                .await
                .map(drop)
        }
        "list_recalls" => {
            let page = PageRequest::default();
            let listed = service.list_recalls(caller, workspace, &page);
            listed.await.map(drop)
        }
        "recall" => {
            let recall = world.recall().await;
            service.recall(caller, recall).await.map(drop)
        }
        "list_audit_entries" => {
            let (filter, page) = (AuditFilter::default(), PageRequest::default());
            let listed = service.list_audit_entries(caller, &filter, &page);
            listed.await.map(drop)
        }
        "audit_entry" => service
            .audit_entry(caller, AuditLogId(nothing))
            .await
            .map(drop),
        "list_deliveries" | "delivery" | "redeliver" | "redeliver_dead" | "ping" => {
            deliveries(world, caller, permission).await
        }
        other => panic!("the operation {other} has no example here"),
    };
    match done {
        Err(Error::Forbidden { reason }) => {
            assert_eq!(reason, format!("missing permission {}", permission.action));
            false
        }
        Ok(()) | Err(Error::NotFound { .. }) => true,
        Err(error) => panic!("{}: {error:?}", permission.operation),
    }
}

async fn members(world: &World, caller: &Credential, operation: &str) -> Result<(), Error> {
    let (service, page) = (&world.service, PageRequest::default());
    let nobody = knowledge_core::model::MemberId(Uuid::nil());
    match operation {
        "list_members" => service.list_members(caller, ACME, &page).await.map(drop),
        "member" => service.member(caller, ACME, nobody).await.map(drop),
        "add_member" => {
            // A role without actions exceeds no caller.
            let idle = world.role(BaseRole::Viewer, ActionSet::EMPTY, ActionSet::ALL);
            let new = new_member(&world.name("member"), RoleRef::Custom(idle.await.id));
            service.add_member(caller, ACME, &new).await.map(drop)
        }
        "update_member" => {
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

async fn webhooks(world: &World, caller: &Credential, operation: &str) -> Result<(), Error> {
    let (service, workspace) = (&world.service, world.workspace.id);
    let (page, none) = (PageRequest::default(), WebhookId(Uuid::nil()));
    match operation {
        "list_webhooks" => service
            .list_webhooks(caller, workspace, &page)
            .await
            .map(drop),
        "webhook" => service.webhook(caller, workspace, none).await.map(drop),
        "update_webhook" => {
            let update = WebhookUpdate::default();
            let updated = service.update_webhook(caller, workspace, none, &update, None);
            updated.await.map(drop)
        }
        "delete_webhook" => service.delete_webhook(caller, workspace, none).await,
        _ => {
            let rotated = service.rotate_webhook_secret(caller, workspace, none);
            rotated.await.map(drop)
        }
    }
}

async fn deliveries(
    world: &World,
    caller: &Credential,
    permission: &RequiredPermission,
) -> Result<(), Error> {
    let (service, none) = (&world.service, DeliveryId(Uuid::nil()));
    let endpoint = match permission.when {
        "for a webhook" => Endpoint::Webhook(world.workspace.id, WebhookId(Uuid::nil())),
        _ => Endpoint::Subscription(world.subscription().await),
    };
    match permission.operation {
        "list_deliveries" => {
            let page = PageRequest::default();
            let listed = service.list_deliveries(caller, endpoint, None, &page);
            listed.await.map(drop)
        }
        "delivery" => service.delivery(caller, endpoint, none).await.map(drop),
        "redeliver" => service.redeliver(caller, endpoint, none).await.map(drop),
        "redeliver_dead" => service.redeliver_dead(caller, endpoint).await.map(drop),
        _ => service.ping(caller, endpoint).await.map(drop),
    }
}

/// Ingests a message as the caller, who was an administrator when the webhook was registered.
async fn ingest_message(
    world: &World,
    caller: &Credential,
    permission: &RequiredPermission,
) -> Result<(), Error> {
    let Credential::Trusted { member, .. } = caller else {
        panic!("callers are trusted here");
    };
    let assign = async |role| world.assign_in(*member, world.workspace.id, role).await;
    assign(Some(ADMIN)).await.unwrap();
    let sender = Sender::registered_by(world, caller).await;
    let known = |title: &str| NewMemory {
        source_key: Some("known".to_owned()),
        ..new_memory(title)
    };
    sender.post(world, "first", &[known("One")]).await.unwrap();
    assign(None).await.unwrap();
    let memory = match permission.action {
        Action::MemoryUpdate => known("Two"),
        _ => new_memory("Two"),
    };
    sender.post(world, "second", &[memory]).await
}

async fn inbound(world: &World, caller: &Credential, operation: &str) -> Result<(), Error> {
    let (service, workspace) = (&world.service, world.workspace.id);
    let (page, none) = (PageRequest::default(), InboundWebhookId(Uuid::nil()));
    match operation {
        "list_inbound_webhooks" => {
            let listed = service.list_inbound_webhooks(caller, workspace, &page);
            listed.await.map(drop)
        }
        "inbound_webhook" => {
            let read = service.inbound_webhook(caller, workspace, none);
            read.await.map(drop)
        }
        "update_inbound_webhook" => {
            let update = InboundWebhookUpdate::default();
            let updated = service.update_inbound_webhook(caller, workspace, none, &update, None);
            updated.await.map(drop)
        }
        "delete_inbound_webhook" => {
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

async fn connectors(world: &World, caller: &Credential, operation: &str) -> Result<(), Error> {
    let (service, workspace) = (&world.service, world.workspace.id);
    let (page, none) = (PageRequest::default(), ConnectorId(Uuid::nil()));
    match operation {
        "list_connectors" => service
            .list_connectors(caller, workspace, &page)
            .await
            .map(drop),
        "connector" => service.connector(caller, workspace, none).await.map(drop),
        "update_connector" => {
            let update = ConnectorUpdate::default();
            let updated = service.update_connector(caller, workspace, none, &update);
            updated.await.map(drop)
        }
        _ => service.delete_connector(caller, workspace, none).await,
    }
}

async fn mcp_keys(world: &World, caller: &Credential, operation: &str) -> Result<(), Error> {
    let (service, workspace) = (&world.service, world.workspace.id);
    let (page, none) = (PageRequest::default(), CredentialId(Uuid::nil()));
    match operation {
        "list_mcp_keys" => service
            .list_mcp_keys(caller, workspace, &page)
            .await
            .map(drop),
        "mcp_key" => service.mcp_key(caller, workspace, none).await.map(drop),
        "rotate_mcp_key" => {
            let rotated = service.rotate_mcp_key(caller, workspace, none, None);
            rotated.await.map(drop)
        }
        _ => service.revoke_mcp_key(caller, workspace, none).await,
    }
}

async fn chats(world: &World, caller: &Credential, operation: &str) -> Result<(), Error> {
    let (service, workspace) = (&world.service, world.workspace.id);
    let (page, none) = (PageRequest::default(), ChatId(Uuid::nil()));
    match operation {
        "list_chats" => service.list_chats(caller, workspace, &page).await.map(drop),
        "chat" => service.chat(caller, workspace, none).await.map(drop),
        _ => {
            let listed = service.list_chat_messages(caller, workspace, none, &page);
            listed.await.map(drop)
        }
    }
}

/// Returns true if the caller sees content, or the labels of a memory for others.
async fn sees(world: &World, caller: &Credential, permission: &RequiredPermission) -> bool {
    let memory = world.memories(1).await[0];
    if permission.action == Action::MemoryUpdate {
        let change = knowledge_core::model::MemoryChange {
            audience_tag: Some("user:nobody".parse().unwrap()),
            ..Default::default()
        };
        world.bulk(&world.owner, &[memory], change).await.unwrap();
    }
    let found = if permission.operation == "memory" {
        let found = world.service.memory(caller, memory).await;
        found.ok().map(|found| found.value.summary)
    } else {
        let (filter, page) = (MemoryFilter::default(), PageRequest::default());
        let workspace = world.workspace.id;
        let listed = world
            .service
            .list_memories(caller, workspace, &filter, &page);
        let listed = listed.await.unwrap().data;
        listed.into_iter().find(|found| found.id == memory)
    };
    match permission.action {
        Action::MemoryRead => found.is_some_and(|found| found.title.is_some()),
        _ => found.is_some(),
    }
}

async fn bulk_may(world: &World, caller: &Credential, permission: &RequiredPermission) -> bool {
    let ids = world.memories(1).await;
    let change = match permission.when {
        "to set the review status" => review(ReviewStatus::Approved),
        "to lower the sensitivity" => sensitivity(SensitivityLabel::Public),
        _ => sensitivity(SensitivityLabel::Confidential),
    };
    match world.bulk(caller, &ids, change).await {
        Ok(result) => result.results[0].ok,
        Err(Error::Forbidden { .. }) => false,
        Err(error) => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn required_permissions_are_necessary_and_sufficient() {
    for permission in REQUIRED_PERMISSIONS {
        let world = World::new().await;
        let lacking = world
            .caller_who_may(ActionSet::ALL - permission.actions())
            .await;
        assert!(
            !may(&world, &lacking, permission).await,
            "{} without {}",
            permission.operation,
            permission.action
        );
        let needed = REQUIRED_PERMISSIONS
            .iter()
            .filter(|other| other.operation == permission.operation)
            .fold(ActionSet::EMPTY, |needed, other| needed | other.actions());
        let holder = world.caller_who_may(needed).await;
        assert!(
            may(&world, &holder, permission).await,
            "{} with {needed:?}",
            permission.operation
        );
    }
}
