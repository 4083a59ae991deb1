//! Test of the required permissions: each operation is denied without them and allowed with them.

use knowledge_core::Error;
use knowledge_core::access::{Action, ActionSet, Credential};
use knowledge_core::api::{OPERATIONS, Operation};
use knowledge_core::model::{
    AccessCheck, AuditLogId, ChatId, ConnectorId, CustomRoleUpdate, ErasureId, EventType,
    MemoryChange, MemoryFilter, MemoryId, MemoryUpdate, NewCitationSubscription, NewErasure,
    NewInboundWebhook, NewWebhook, ReviewStatus, RoleId, SensitivityLabel, SourceId,
};
use knowledge_core::service::{
    AuditFilter, Caller, DeleteRole, MemberAssignment, NewRetention, NewSource, PageRequest,
    SyncOutcome, SyncReport,
};
use uuid::Uuid;

use crate::make::{
    ACME, HOUR, VIEWER, create_memory, new_chat, new_connector, new_mcp_key, new_memory,
    new_recall, new_role, review, sensitivity,
};
use crate::permission_calls::{
    Case, chats, connectors, deliveries, inbound, ingest_message, mcp_keys, members, webhooks,
};
use crate::world::World;
use knowledge_testing::requests::with;

/// Returns true if the caller is authorised; other errors of the request only follow then.
async fn may(world: &World, caller: &Caller, case: &Case) -> bool {
    let (service, workspace) = (&world.service, world.workspace.id);
    let nothing = Uuid::nil();
    let done: Result<(), Error> = match case.operation {
        Operation::BulkUpdateMemories => return bulk_may(world, caller, case).await,
        Operation::GetDashboardSummary => service
            .get_dashboard_summary(caller, workspace)
            .await
            .map(drop),
        Operation::ListCustomRoles => service.list_custom_roles(caller, ACME).await.map(drop),
        Operation::GetCustomRole => service
            .get_custom_role(caller, ACME, RoleId(nothing))
            .await
            .map(drop),
        Operation::CreateCustomRole => {
            let new = with(new_role(&world.name("role")), |new| {
                new.actions = knowledge_core::model::RoleActions {
                    allow: ActionSet::EMPTY,
                    deny: ActionSet::ALL,
                }
            });
            service
                .create_custom_role(caller, ACME, &new)
                .await
                .map(drop)
        }
        Operation::UpdateCustomRole => {
            let update = CustomRoleUpdate::default();
            let role = RoleId(nothing);
            service
                .update_custom_role(caller, ACME, role, &update, None)
                .await
                .map(drop)
        }
        Operation::DeleteCustomRole => {
            let request = DeleteRole::default();
            service
                .delete_custom_role(caller, ACME, RoleId(nothing), &request)
                .await
        }
        Operation::RemoveMember => {
            let nobody = knowledge_core::model::MemberId(nothing);
            service.remove_member(caller, ACME, nobody).await
        }
        Operation::AssignWorkspaceRole => {
            let nobody = knowledge_core::model::MemberId(nothing);
            let role = MemberAssignment::Organization(VIEWER);
            service.assign_role(caller, ACME, nobody, role).await
        }
        Operation::CreateCitationSubscription => {
            let ids = world.approved_memories(1).await;
            let recall = service
                .create_recall(&world.owner, workspace, &new_recall(&ids))
                .await;
            let request = NewCitationSubscription::builder()
                .recall_id(recall.unwrap().id)
                .webhook_url("https://example.com/".parse().unwrap())
                .build();
            service
                .create_citation_subscription(caller, &request)
                .await
                .map(drop)
        }
        Operation::CreateMemory => {
            let new = create_memory("Note", world.source);
            service
                .create_memory(caller, workspace, &new)
                .await
                .map(drop)
        }
        Operation::UpdateMemory => {
            let memory = world.approved_memories(1).await[0];
            let mut update = MemoryUpdate::default();
            match case.when {
                "to set the review status" => {
                    update.change = review(ReviewStatus::Approved);
                }
                "to lower the sensitivity" => {
                    update.change = sensitivity(SensitivityLabel::Public);
                }
                "to set anything except the review status" => {
                    update.change = sensitivity(SensitivityLabel::Confidential);
                }
                _ if case.action == Action::MemoryShare => update.change = for_nobody(),
                _ => update.title = Some("Renamed".to_owned()),
            }
            let updated = service.update_memory(caller, memory, &update, None);
            updated.await.map(drop)
        }
        Operation::DeleteMemory => {
            let memory = world.approved_memories(1).await[0];
            service.delete_memory(caller, memory).await
        }
        Operation::ListMemories | Operation::GetMemory | Operation::CheckMemoryAccess => {
            return sees(world, caller, case).await;
        }
        Operation::ListCitationSubscriptions => {
            let recall = world.recall().await;
            let page = PageRequest::default();
            let listed = service.list_citation_subscriptions(caller, recall, &page);
            listed.await.map(drop)
        }
        Operation::GetCitationSubscription => {
            let id = world.subscription().await;
            service
                .get_citation_subscription(caller, id)
                .await
                .map(drop)
        }
        Operation::DeleteCitationSubscription => {
            let id = world.subscription().await;
            service.delete_citation_subscription(caller, id).await
        }
        Operation::RotateCitationSubscriptionSecret => {
            let id = world.subscription().await;
            let rotated = service.rotate_citation_subscription_secret(caller, id);
            rotated.await.map(drop)
        }
        Operation::CreateWebhook => {
            let request = NewWebhook::builder()
                .event_type(EventType::ChunkCreated)
                .url("https://example.com/".parse().unwrap())
                .build();
            service
                .create_webhook(caller, workspace, &request)
                .await
                .map(drop)
        }
        Operation::CreateInboundWebhook => {
            let request = NewInboundWebhook::builder().name("Forms").build();
            service
                .create_inbound_webhook(caller, workspace, &request)
                .await
                .map(drop)
        }
        Operation::CreateSource => {
            let new = NewSource::builder().name("Files").kind("drive").build();
            service.create_source(caller, &new).await.map(drop)
        }
        Operation::ListSources => {
            let page = PageRequest::default();
            service.list_sources(caller, &page).await.map(drop)
        }
        Operation::GetSource => service
            .get_source(caller, SourceId(nothing))
            .await
            .map(drop),
        Operation::IngestMemories => {
            let key = world.name("page");
            let named = |content: &str| {
                with(new_memory("Page"), |new| {
                    new.source_key = Some(key.clone());
                    new.content = content.to_owned();
                })
            };
            let ingest = async |caller: &Caller, content: &str| {
                let batch = [named(content)];
                service
                    .ingest_memories(caller, workspace, world.source, &batch)
                    .await
                    .map(drop)
            };
            if case.action == Action::MemoryUpdate {
                ingest(caller, "old").await.unwrap();
            }
            ingest(caller, "new").await
        }
        Operation::CreateConnector => service
            .create_connector(caller, workspace, &new_connector(HOUR))
            .await
            .map(drop),
        Operation::ReportSync => {
            let connector = ConnectorId(nothing);
            let report = SyncReport::new(SyncOutcome::Success);
            service
                .report_sync(caller, workspace, connector, &report)
                .await
        }
        Operation::ListMembers
        | Operation::GetMember
        | Operation::AddMember
        | Operation::UpdateMember
        | Operation::EndWorkspaceRole => members(world, caller, case.operation).await,
        Operation::ListWebhooks
        | Operation::GetWebhook
        | Operation::UpdateWebhook
        | Operation::DeleteWebhook
        | Operation::RotateWebhookSecret => webhooks(world, caller, case.operation).await,
        Operation::PostToInboundWebhook => ingest_message(world, caller, case).await,
        Operation::ListInboundWebhooks
        | Operation::GetInboundWebhook
        | Operation::UpdateInboundWebhook
        | Operation::DeleteInboundWebhook
        | Operation::RotateInboundWebhookSecret => inbound(world, caller, case.operation).await,
        Operation::ListConnectors
        | Operation::GetConnector
        | Operation::UpdateConnector
        | Operation::DeleteConnector => connectors(world, caller, case.operation).await,
        Operation::ListMcpKeys
        | Operation::GetMcpKey
        | Operation::RotateMcpKey
        | Operation::RevokeMcpKey => mcp_keys(world, caller, case.operation).await,
        Operation::ListChats | Operation::GetChat | Operation::ListChatMessages => {
            chats(world, caller, case.operation).await
        }
        Operation::CreateMcpKey => {
            let new = new_mcp_key("org:acme");
            service
                .create_mcp_key(caller, workspace, &new)
                .await
                .map(drop)
        }
        Operation::CreateChat => service
            .create_chat(caller, workspace, &new_chat("Hi"))
            .await
            .map(drop),
        Operation::PostChatMessage => {
            let chat = ChatId(nothing);
            service
                .post_chat_message(caller, workspace, chat, "Hi")
                .await
                .map(drop)
        }
        Operation::CreateRecall => {
            let ids = world.approved_memories(1).await;
            service
                .create_recall(caller, workspace, &new_recall(&ids))
                .await
                .map(drop)
        }
        Operation::ListRecalls => {
            let page = PageRequest::default();
            let listed = service.list_recalls(caller, workspace, &page);
            listed.await.map(drop)
        }
        Operation::GetRecall => {
            // Those who may not read what it cites know of no recall but their own.
            let ids = world.approved_memories(1).await;
            let new = new_recall(&ids);
            let own = service.create_recall(caller, workspace, &new).await;
            let recall = match own {
                Ok(own) => own.id,
                Err(_) => world.recall().await,
            };
            service.get_recall(caller, recall).await.map(drop)
        }
        Operation::DeleteRecall => {
            let ids = world.approved_memories(1).await;
            let new = new_recall(&ids);
            let creator = match case.action {
                Action::RecallCreate => caller,
                _ => &world.owner,
            };
            let recall = service.create_recall(creator, workspace, &new).await;
            match recall {
                Ok(recall) => service.delete_recall(caller, recall.id).await,
                Err(refused) => Err(refused),
            }
        }
        Operation::DeleteChat => {
            let Credential::Trusted { member, .. } = caller.credential() else {
                panic!("callers are trusted here");
            };
            let shared = with(new_chat("Hi"), |new| new.participants = vec![*member]);
            let creator = match case.action {
                Action::ChatWrite => caller,
                _ => &world.owner,
            };
            let chat = service.create_chat(creator, workspace, &shared).await;
            match chat {
                Ok(chat) => service.delete_chat(caller, workspace, chat.id).await,
                Err(refused) => Err(refused),
            }
        }
        Operation::GetRetention => {
            let read = service.get_retention(caller, workspace);
            read.await.map(drop)
        }
        Operation::SetRetention => {
            let new = NewRetention::builder().chat_days(90).build();
            let set = service.set_retention(caller, workspace, &new);
            set.await.map(drop)
        }
        Operation::CreateErasure => {
            let request = NewErasure::builder().memory_ids(world.approved_memories(1).await);
            let key = world.name("key").parse().unwrap();
            let request = request.build();
            let erased = service.create_erasure(caller, &key, &request);
            erased.await.map(drop)
        }
        Operation::ListErasures => {
            let page = PageRequest::default();
            let listed = service.list_erasures(caller, &page);
            listed.await.map(drop)
        }
        Operation::GetErasure => service
            .get_erasure(caller, ErasureId(nothing))
            .await
            .map(drop),
        Operation::ListAuditEntries => {
            let (filter, page) = (AuditFilter::default(), PageRequest::default());
            let listed = service.list_audit_entries(caller, &filter, &page);
            listed.await.map(drop)
        }
        Operation::GetAuditEntry => service
            .get_audit_entry(caller, AuditLogId(nothing))
            .await
            .map(drop),
        Operation::ListWebhookDeliveries
        | Operation::ListCitationSubscriptionDeliveries
        | Operation::GetWebhookDelivery
        | Operation::GetCitationSubscriptionDelivery
        | Operation::RedeliverToWebhook
        | Operation::RedeliverToCitationSubscription
        | Operation::RedeliverDeadToWebhook
        | Operation::RedeliverDeadToCitationSubscription
        | Operation::PingWebhook
        | Operation::PingCitationSubscription => deliveries(world, caller, case).await,
        other => panic!("the operation {other:?} has no example here"),
    };
    match done {
        Err(Error::Forbidden { reason }) => {
            assert_eq!(reason, format!("missing permission {}", case.action));
            false
        }
        Ok(()) | Err(Error::NotFound { .. }) => true,
        Err(error) => panic!("{:?}: {error:?}", case.operation),
    }
}

/// Returns true if the caller sees content, or the labels of a memory for others.
async fn sees(world: &World, caller: &Caller, case: &Case) -> bool {
    let memory = world.approved_memories(1).await[0];
    let approved = review(ReviewStatus::Approved);
    world.bulk(&world.owner, &[memory], approved).await.unwrap();
    if case.action == Action::MemoryShare {
        give_away(world, memory).await;
    }
    if case.operation == Operation::CheckMemoryAccess {
        let check = AccessCheck::builder()
            .memory_ids(vec![memory])
            .include_content(false)
            .build();
        let checked = world.service.check_memory_access(caller, &check).await;
        let item = checked.unwrap().results.remove(0);
        return match case.action {
            Action::MemoryRead => item.readable,
            _ => item.labels.is_some(),
        };
    }
    let found = if case.operation == Operation::GetMemory {
        let found = world.service.get_memory(caller, memory).await;
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
    match case.action {
        Action::MemoryRead => found.is_some_and(|found| found.title.is_some()),
        _ => found.is_some(),
    }
}

/// Returns the change that makes nobody the audience of a memory.
fn for_nobody() -> MemoryChange {
    MemoryChange::builder()
        .audience_tag("user:nobody".parse().unwrap())
        .build()
}

/// Makes nobody the audience of a memory.
async fn give_away(world: &World, memory: MemoryId) {
    let owner = &world.owner;
    world.bulk(owner, &[memory], for_nobody()).await.unwrap();
}

async fn bulk_may(world: &World, caller: &Caller, case: &Case) -> bool {
    let ids = world.approved_memories(1).await;
    let change = match case.when {
        "to set the review status" => review(ReviewStatus::Approved),
        "to lower the sensitivity" => sensitivity(SensitivityLabel::Public),
        _ => sensitivity(SensitivityLabel::Confidential),
    };
    if case.action == Action::MemoryShare {
        give_away(world, ids[0]).await;
    }
    match world.bulk(caller, &ids, change).await {
        Ok(result) => result.results[0].ok,
        Err(Error::Forbidden { .. }) => false,
        Err(error) => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn required_permissions_are_necessary_and_sufficient() {
    for spec in OPERATIONS {
        let needed = spec
            .permissions
            .iter()
            .map(|permission| permission.action)
            .collect();
        for permission in spec.permissions {
            let case = Case {
                operation: spec.operation,
                action: permission.action,
                when: permission.when,
            };
            let world = World::new().await;
            let lacking = ActionSet::ALL - permission.actions();
            let lacking = world.caller_who_may(lacking).await;
            assert!(!may(&world, &lacking, &case).await, "{case:?}");
            let holder = world.caller_who_may(needed).await;
            assert!(may(&world, &holder, &case).await, "{case:?}");
        }
    }
}
