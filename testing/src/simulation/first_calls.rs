//! Calls that create the initial data of a simulation, and those that end it.

use super::call::Call;
use super::operations::{
    AssignRole, CreateChat, CreateCitationSubscription, CreateConnector, CreateCustomRole,
    CreateErasure, CreateInboundWebhook, CreateMcpKey, CreateRecall, CreateSource, CreateWebhook,
    IngestMemories, ListAuditEntries, Ping, UpdateMemory,
};
use super::world::{FIRST_SLUG, OrgState, World, YEAR, unknown};
use crate::model::Response;
use crate::requests::{
    HOUR, new_chat, new_connector, new_mcp_key, new_memory, new_role, review, with,
};
use crate::strategies::{CastMember, CredentialUse};
use knowledge_core::access::{Action, ActionSet, BuiltInRole, CredentialKind, RoleRef};
use knowledge_core::limits::PAGE_ITEMS_MAX;
use knowledge_core::model::{
    ConnectorScope, EventType, McpClient, MemoryId, MemoryUpdate, NewCitationSubscription,
    NewErasure, NewInboundWebhook, NewWebhook, ReviewStatus, RoleActions, WebhookUrl,
};
use knowledge_core::service::{
    AuditFilter, Endpoint, IngestBatch, NewRecall, NewSource, PageRequest,
};

impl World {
    /// Returns the calls of a stage of the initial data; empty after the last stage.
    ///
    /// Run and learn the calls of one stage before requesting the next, which builds on it.
    #[must_use]
    pub fn first_calls(&self, stage: usize) -> Vec<Call> {
        let calls = self.orgs.iter().map(|org_state| match stage {
            0 => org_state.first_source(),
            1 => org_state.first_memories(),
            2 => org_state.first_things(),
            3 => org_state.first_endpoints(),
            4 => org_state.first_pings(),
            _ => Vec::new(),
        });
        calls.flatten().collect()
    }

    /// Returns calls that read the newest entries of both audit logs.
    pub(super) fn last_calls(&self) -> Vec<Call> {
        let read = |org_state: &OrgState| {
            let olga = (CastMember::Olga, CredentialUse::Trusted);
            let request = ListAuditEntries {
                by: org_state.caller_with(olga.0, olga.1, CredentialKind::Bearer),
                filter: AuditFilter::default(),
                page: PageRequest::builder().limit(PAGE_ITEMS_MAX).build(),
            };
            request.into()
        };
        self.orgs.iter().map(read).collect()
    }

    /// Records the entities that a call has created, and the tag or cursor that it returned.
    pub fn learn(&mut self, call: &Call, response: &Response) {
        let Some(org) = call.org() else { return };
        let Some(org_state) = self.orgs.iter_mut().find(|org_state| org_state.id == org) else {
            return;
        };
        let request = call.request();
        if let Some((id, tag)) = response.id().zip(response.etag.clone()) {
            org_state.tags.push((id, tag));
        }
        let cursor = response.get::<String>("/next_cursor");
        let cursor = cursor.and_then(|cursor| cursor.parse().ok());
        org_state.cursors.extend(request.list().zip(cursor));
        request.learn(org_state, response);
    }
}

impl OrgState {
    fn first_source(&self) -> Vec<Call> {
        let new = NewSource::builder().name("Handbook").kind("wiki").build();
        let by = self.caller(CastMember::Olga, CredentialKind::Bearer);
        vec![CreateSource { by, new }.into()]
    }

    fn first_memories(&self) -> Vec<Call> {
        let memory = |number: usize| {
            with(new_memory(&format!("Page {number}")), |new| {
                new.content = "What everybody should know.".to_owned();
                new.source_key = Some(format!("page-{number}"));
            })
        };
        let by = || self.caller(CastMember::Olga, CredentialKind::Bearer);
        let counts = self.workspaces.iter().zip([5, 3]);
        counts
            .map(|(workspace, count)| {
                let request = IngestMemories {
                    by: by(),
                    workspace: *workspace,
                    batch: IngestBatch::builder()
                        .source_id(self.sources[0])
                        .memories((1..=count).map(memory).collect())
                        .build(),
                };
                request.into()
            })
            .collect()
    }

    fn first_things(&self) -> Vec<Call> {
        let by = || self.caller(CastMember::Olga, CredentialKind::Bearer);
        let workspace = self.workspaces[0];
        let connector = with(new_connector(HOUR), |new| {
            new.kind = "wiki".to_owned();
            new.account_label = "handbook".to_owned();
            new.scope = ConnectorScope::Workspace;
        });
        let recall = NewRecall::builder()
            .query("Where is the handbook?")
            .memory_ids(vec![self.memories[0].0])
            .build();
        let mcp_key = with(new_mcp_key("workspace:alpha"), |new| {
            new.client = McpClient::Other;
            new.rotation = YEAR;
        });
        let role = with(new_role("editors"), |new| {
            new.name = "Editors".to_owned();
            new.actions = RoleActions {
                allow: ActionSet::of(&[Action::MemoryUpdate]),
                deny: ActionSet::of(&[Action::RoleRead]),
            };
        });
        let approved = MemoryUpdate::builder()
            .change(review(ReviewStatus::Approved))
            .build();
        let approvals = self.memories.iter().step_by(2).map(|(memory, _)| {
            let request = UpdateMemory {
                by: by(),
                memory: *memory,
                update: approved.clone(),
                if_match: None,
            };
            request.into()
        });
        let mut calls: Vec<Call> = approvals.collect();
        calls.extend([
            CreateConnector::new(by(), workspace, connector).into(),
            CreateRecall::new(by(), workspace, recall).into(),
            CreateChat::new(by(), workspace, new_chat("First questions")).into(),
            CreateMcpKey::new(by(), workspace, mcp_key).into(),
            CreateCustomRole::new(
                self.caller(CastMember::Olga, CredentialKind::Session),
                self.slug.clone(),
                role,
            )
            .into(),
            AssignRole {
                by: self.caller(CastMember::Olga, CredentialKind::Session),
                org: self.slug.clone(),
                member: self.members[CastMember::Vic as usize],
                role: RoleRef::BuiltIn(BuiltInRole::Member),
                workspace: Some(self.workspaces[1]),
            }
            .into(),
            // A receipt that others can read.
            CreateErasure {
                by: by(),
                key: "first".parse().expect("a key"),
                request: NewErasure::builder()
                    .memory_ids(vec![unknown::<MemoryId>(0)])
                    .build(),
            }
            .into(),
        ]);
        calls
    }

    /// Returns endpoints; one workspace of the second organisation has none.
    fn first_endpoints(&self) -> Vec<Call> {
        let by = || self.caller(CastMember::Olga, CredentialKind::Bearer);
        let url: WebhookUrl = "https://example.com/first".parse().expect("a URL");
        let workspace = self.workspaces[1];
        let webhook = NewWebhook::builder()
            .event_type(EventType::MemoryUpdated)
            .url(url.clone())
            .build();
        let inbound_webhook = NewInboundWebhook::builder().name("Tickets").build();
        let subscription = NewCitationSubscription::builder()
            .recall_id(self.recalls[0])
            .webhook_url(url)
            .build();
        let mut calls: Vec<Call> = vec![
            CreateWebhook::new(by(), workspace, webhook).into(),
            CreateInboundWebhook::new(by(), workspace, inbound_webhook).into(),
        ];
        if self.slug == FIRST_SLUG {
            let subscribe = CreateCitationSubscription {
                by: by(),
                new: subscription,
            };
            calls.push(subscribe.into());
        }
        calls
    }

    fn first_pings(&self) -> Vec<Call> {
        let webhooks = self.webhooks.iter();
        let webhooks = webhooks.map(|(id, workspace)| Endpoint::Webhook(*workspace, *id));
        let subscriptions = self.subscriptions.iter();
        let endpoints = webhooks.chain(subscriptions.map(|id| Endpoint::Subscription(*id)));
        let ping = |endpoint| {
            let by = self.caller(CastMember::Olga, CredentialKind::Bearer);
            Ping { by, endpoint }.into()
        };
        endpoints.map(ping).collect()
    }
}
