//! Views of the service, each with the operations of one subject.
//!
//! Their functions are in the folder of the subject.

use crate::service::KnowledgeService;

/// # Views
impl KnowledgeService {
    /// Returns the view of memories.
    #[must_use]
    pub const fn memories(&self) -> Memories<'_> {
        Memories { service: self }
    }

    /// Returns the view of sources.
    #[must_use]
    pub const fn sources(&self) -> Sources<'_> {
        Sources { service: self }
    }

    /// Returns the view of recalls.
    #[must_use]
    pub const fn recalls(&self) -> Recalls<'_> {
        Recalls { service: self }
    }

    /// Returns the view of workspaces, with their retention and dashboards.
    #[must_use]
    pub const fn workspaces(&self) -> Workspaces<'_> {
        Workspaces { service: self }
    }

    /// Returns the view of connectors.
    #[must_use]
    pub const fn connectors(&self) -> Connectors<'_> {
        Connectors { service: self }
    }

    /// Returns the view of MCP keys.
    #[must_use]
    pub const fn mcp_keys(&self) -> McpKeys<'_> {
        McpKeys { service: self }
    }

    /// Returns the view of chats.
    #[must_use]
    pub const fn chats(&self) -> Chats<'_> {
        Chats { service: self }
    }

    /// Returns the view of custom roles.
    #[must_use]
    pub const fn roles(&self) -> Roles<'_> {
        Roles { service: self }
    }

    /// Returns the view of members and their roles.
    #[must_use]
    pub const fn members(&self) -> Members<'_> {
        Members { service: self }
    }

    /// Returns the view of the API tokens of members.
    #[must_use]
    pub const fn tokens(&self) -> Tokens<'_> {
        Tokens { service: self }
    }

    /// Returns the view of the audit log.
    #[must_use]
    pub const fn audit_log(&self) -> AuditLog<'_> {
        AuditLog { service: self }
    }

    /// Returns the view of erasures.
    #[must_use]
    pub const fn erasures(&self) -> Erasures<'_> {
        Erasures { service: self }
    }

    /// Returns the view of outbound webhooks.
    #[must_use]
    pub const fn webhooks(&self) -> Webhooks<'_> {
        Webhooks { service: self }
    }

    /// Returns the view of citation subscriptions.
    #[must_use]
    pub const fn citation_subscriptions(&self) -> CitationSubscriptions<'_> {
        CitationSubscriptions { service: self }
    }

    /// Returns the view of deliveries to outbound webhooks and citation subscriptions.
    #[must_use]
    pub const fn deliveries(&self) -> Deliveries<'_> {
        Deliveries { service: self }
    }

    /// Returns the view of inbound webhooks and the messages to them.
    #[must_use]
    pub const fn inbound_webhooks(&self) -> InboundWebhooks<'_> {
        InboundWebhooks { service: self }
    }

    /// Returns the view of what a host that sends deliveries calls.
    #[must_use]
    pub const fn dispatcher(&self) -> Dispatcher<'_> {
        Dispatcher { service: self }
    }

    /// Returns the view of sessions: signing in and out.
    #[must_use]
    pub const fn sessions(&self) -> Sessions<'_> {
        Sessions { service: self }
    }
}

/// Memories: their text, labels and review.
///
/// A memory exists for a caller whom its labels permit to know of it; for others it is absent.
/// Memories are added one by one, or ingested in batches from a source.
///
/// [`KnowledgeService::memories`] returns it.
///
/// # Examples
///
/// ```
#[doc = include_str!("example.txt")]
/// use knowledge_core::model::{MemoryChange, MemoryUpdate, ReviewStatus};
/// use knowledge_core::service::CreateMemory;
///
/// let new = CreateMemory::builder().source_id(source).title("On call").content("Ask Ada.");
/// let memory = service.memories().create(&owner, workspace, &new.build()).await?.value.summary;
/// assert_eq!(memory.review_status, ReviewStatus::Pending);
///
/// let approve = MemoryChange::builder().review_status(ReviewStatus::Approved).build();
/// let update = MemoryUpdate::builder().change(approve).build();
/// let memory = service.memories().update(&owner, memory.id, &update, None).await?.value.summary;
/// assert_eq!(memory.review_status, ReviewStatus::Approved);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Memories<'s> {
    pub(in crate::service) service: &'s KnowledgeService,
}

/// Sources of an organisation, which the memories of batches and connectors belong to.
///
/// [`KnowledgeService::sources`] returns it.
///
/// # Examples
///
/// ```
#[doc = include_str!("example.txt")]
/// use knowledge_core::service::{NewSource, PageRequest};
///
/// let new = NewSource::builder().name("Tickets").kind("help_desk").build();
/// let tickets = service.sources().create(&owner, &new).await?;
///
/// // A later run of an import finds its source by name.
/// let sources = service.sources().list(&owner, &PageRequest::default()).await?.data;
/// assert_eq!(sources.iter().find(|source| source.name == "Tickets"), Some(&tickets));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Sources<'s> {
    pub(in crate::service) service: &'s KnowledgeService,
}

/// Recalls: answers, with the memories that they cite.
///
/// [`KnowledgeService::recalls`] returns it.
///
/// # Examples
///
/// ```
#[doc = include_str!("example.txt")]
/// use knowledge_core::service::NewRecall;
///
/// // An assistant answers a question from two memories.
/// let query = "How is the service restarted?";
/// let new = NewRecall::builder().query(query).memory_ids(memories).build();
/// let recall = service.recalls().create(&owner, workspace, &new).await?;
///
/// // One of them is deleted afterwards, and reading the recall omits it.
/// service.memories().delete(&owner, recall.memory_ids[0]).await?;
/// let found = service.recalls().get(&owner, recall.id).await?;
/// assert_eq!(found.memory_ids, recall.memory_ids[1..]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Recalls<'s> {
    pub(in crate::service) service: &'s KnowledgeService,
}

/// Workspaces, their retention and their dashboards.
///
/// The operator creates and removes them and their organisations, see
/// [`Provisioning`](crate::service::Provisioning); [`Members::add`] adds members.
///
/// [`KnowledgeService::workspaces`] returns it.
///
/// # Examples
///
/// ```
#[doc = include_str!("example.txt")]
/// use knowledge_core::service::PageRequest;
///
/// let found = service.workspaces().list(&viewer, &PageRequest::default()).await?.data;
/// let slugs: Vec<&str> = found.iter().map(|workspace| workspace.slug.as_str()).collect();
/// assert_eq!(slugs, ["support"]);
/// // By default, new memories are for the members of their workspace.
/// let support = service.workspaces().get(&viewer, found[0].id).await?;
/// assert_eq!(support.audience.to_string(), "workspace:support");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Workspaces<'s> {
    pub(in crate::service) service: &'s KnowledgeService,
}

/// Connectors of workspaces, and the results of their syncs.
///
/// [`KnowledgeService::connectors`] returns it.
///
/// # Examples
///
/// ```
#[doc = include_str!("example.txt")]
/// use std::time::Duration;
///
/// use knowledge_core::model::{ConnectorScope, ConnectorStatus};
/// use knowledge_core::service::{NewConnector, SyncOutcome, SyncReport};
///
/// let new = NewConnector::builder()
///     .kind("confluence")
///     .account_label("wiki.example.com")
///     .scope(ConnectorScope::Workspace)
///     .sync_interval(Duration::from_secs(60 * 60))
///     .build();
/// let connector = service.connectors().create(&owner, workspace, &new).await?.connector.id;
///
/// // The program that syncs reports each result.
/// let outcome = SyncOutcome::Failure { error: "401".to_owned(), is_authentication: true };
/// let report = SyncReport::new(outcome);
/// service.connectors().report_sync(&owner, workspace, connector, &report).await?;
/// let health = service.connectors().get(&owner, workspace, connector).await?;
/// assert_eq!(health.status, ConnectorStatus::AuthRequired);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Connectors<'s> {
    pub(in crate::service) service: &'s KnowledgeService,
}

/// MCP keys: access tokens of MCP clients, each for one workspace.
///
/// [`KnowledgeService::mcp_keys`] returns it.
///
/// # Examples
///
/// ```
#[doc = include_str!("example.txt")]
/// use knowledge_core::model::McpClient;
/// use knowledge_core::service::{Caller, NewMcpKey};
///
/// let new = NewMcpKey::builder()
///     .name("Claude on Ada's laptop")
///     .client(McpClient::ClaudeDesktop)
///     .audience(vec!["workspace:support".parse()?])
///     .build();
/// let issued = service.mcp_keys().create(&owner, workspace, &new).await?;
/// // The client sends the secret with each request.
/// let client = Caller::new(issued.secret.ok_or("no secret")?);
/// assert!(service.memories().get(&client, memories[0]).await?.value.content.is_some());
///
/// service.mcp_keys().revoke(&owner, workspace, issued.summary.id).await?;
/// assert!(service.memories().get(&client, memories[0]).await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct McpKeys<'s> {
    pub(in crate::service) service: &'s KnowledgeService,
}

/// Chats of workspaces, and their messages.
///
/// A chat exists for its participants only.
///
/// [`KnowledgeService::chats`] returns it.
///
/// # Examples
///
/// ```
#[doc = include_str!("example.txt")]
/// use knowledge_core::service::{NewChat, PageRequest};
///
/// let new = NewChat::builder().title("Restart of the service").participants(vec![grace]);
/// let chat = service.chats().create(&owner, workspace, &new.build()).await?.id;
/// let question = "How is the service restarted?";
/// let message = service.chats().post_message(&owner, workspace, chat, question).await?;
///
/// let page = PageRequest::default();
/// let chats = service.chats().list(&viewer, workspace, &page).await?.data;
/// assert_eq!(chats[0].last_message_at, message.created_at);
/// let messages = service.chats().list_messages(&viewer, workspace, chat, &page).await?.data;
/// assert_eq!(messages, [message]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Chats<'s> {
    pub(in crate::service) service: &'s KnowledgeService,
}

/// Custom roles of an organisation.
///
/// [`KnowledgeService::roles`] returns it.
///
/// # Examples
///
/// ```
#[doc = include_str!("example.txt")]
/// use knowledge_core::access::{Action, ActionSet, BaseRole, BuiltInRole, RoleRef};
/// use knowledge_core::model::{NewCustomRole, RoleActions};
/// use knowledge_core::service::{DeleteRole, MemberAssignment};
///
/// let (allow, deny) = (ActionSet::of(&[Action::AuditRead]), ActionSet::EMPTY);
/// let auditor = NewCustomRole::builder()
///     .name("Auditor")
///     .slug("auditor")
///     .description("Reads the audit log")
///     .base_role(BaseRole::Viewer)
///     .actions(RoleActions { allow, deny })
///     .build();
/// let role = service.roles().create(&owner, "acme", &auditor).await?.id;
/// let auditor = MemberAssignment::Organization(RoleRef::Custom(role));
/// service.members().assign_role(&owner, "acme", grace, auditor).await?;
/// // Deletion and reassignment of the holders are one commit.
/// let viewer = RoleRef::BuiltIn(BuiltInRole::Viewer);
/// let delete = DeleteRole::builder().reassign_to(viewer).build();
/// service.roles().delete(&owner, "acme", role, &delete).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Roles<'s> {
    pub(in crate::service) service: &'s KnowledgeService,
}

/// Members of an organisation, and their roles.
///
/// [`KnowledgeService::members`] returns it.
///
/// # Examples
///
/// ```
#[doc = include_str!("example.txt")]
/// use knowledge_core::access::{BuiltInRole, RoleRef};
/// use knowledge_core::service::{MemberAssignment, NewMember};
///
/// let member = RoleRef::BuiltIn(BuiltInRole::Member);
/// let new = NewMember::builder().handle("alan").name("Alan").role(member).build();
/// let alan = service.members().add(&owner, "acme", &new).await?.value.details.member.id;
///
/// // In one workspace, another role replaces it.
/// let admin = Some(RoleRef::BuiltIn(BuiltInRole::Admin));
/// let assignment = MemberAssignment::Workspace(workspace, admin);
/// service.members().assign_role(&owner, "acme", alan, assignment).await?;
/// let alan = service.members().get(&owner, "acme", alan).await?.value;
/// assert_eq!((alan.member.role, alan.workspace_roles.len()), (member, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Members<'s> {
    pub(in crate::service) service: &'s KnowledgeService,
}

/// API tokens of members: one's own, and those of service accounts.
///
/// [`KnowledgeService::tokens`] returns it.
///
/// # Examples
///
/// ```
#[doc = include_str!("example.txt")]
/// use knowledge_core::access::{Action, ActionSet};
/// use knowledge_core::service::{Caller, NewApiToken, NewTokenScope};
///
/// // A token with which a script of Ada reads the memories of one workspace.
/// let read = ActionSet::of(&[Action::MemoryRead]);
/// let scope = NewTokenScope::builder().workspaces(vec![workspace]).actions(read).build();
/// let new = NewApiToken::builder().name("Search").scope(scope).build();
/// let issued = service.tokens().create(&owner, "acme", ada.id, &new).await?;
/// let token = Caller::new(issued.secret.expect("the first response has it"));
/// assert!(service.memories().get(&token, memories[0]).await.is_ok());
///
/// service.tokens().end(&owner, "acme", ada.id, issued.token.id, false).await?;
/// assert!(service.memories().get(&token, memories[0]).await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'s> {
    pub(in crate::service) service: &'s KnowledgeService,
}

/// Audit log of an organisation.
///
/// [`KnowledgeService::audit_log`] returns it.
///
/// # Examples
///
/// ```
#[doc = include_str!("example.txt")]
/// use knowledge_core::model::AuditAction;
/// use knowledge_core::service::{AuditFilter, PageRequest};
///
/// service.memories().delete(&owner, memories[0]).await?;
/// // The memories that Ada has deleted.
/// let filter = AuditFilter::builder().actor_id(ada.id).action(AuditAction::MemoryDelete);
/// let page = PageRequest::default();
/// let entries = service.audit_log().list(&owner, &filter.build(), &page).await?.data;
/// assert_eq!(entries.len(), 1);
/// assert_eq!(entries[0].resource.id, memories[0].0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AuditLog<'s> {
    pub(in crate::service) service: &'s KnowledgeService,
}

/// Erasures of memories and of what was made from them, and their receipts.
///
/// [`KnowledgeService::erasures`] returns it.
///
/// # Examples
///
/// ```
#[doc = include_str!("example.txt")]
/// use knowledge_core::model::{ErasureStatus, NewErasure};
///
/// let request = NewErasure::builder().memory_ids(memories.clone()).build();
/// let key = "erase-runbooks-1".parse()?;
/// let receipt = service.erasures().create(&owner, &key, &request).await?.erasure;
/// assert_eq!(receipt.counts.memories, 2);
/// assert_eq!(receipt.status, ErasureStatus::Completed);
/// assert!(service.memories().get(&owner, memories[0]).await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Erasures<'s> {
    pub(in crate::service) service: &'s KnowledgeService,
}

/// Outbound webhooks of workspaces.
///
/// [`deliveries`](crate::service::KnowledgeService::deliveries) has their deliveries and pings.
///
/// [`KnowledgeService::webhooks`] returns it.
///
/// # Examples
///
/// ```
#[doc = include_str!("example.txt")]
/// use knowledge_core::model::{EventType, NewWebhook};
/// use knowledge_core::service::DispatchLimits;
///
/// let url = "https://example.com/hooks".parse()?;
/// let new = NewWebhook::builder().event_type(EventType::ChunkDeleted).url(url).build();
/// let webhook = service.webhooks().create(&owner, workspace, &new).await?;
/// assert!(webhook.signing_secret.is_some());
///
/// service.memories().delete(&owner, memories[0]).await?;
/// // `sender` implements `DeliverySender` by an HTTP client of the application.
/// let (now, limits) = (service.env().now(), DispatchLimits::default());
/// let report = service.dispatcher().dispatch(&sender, now, limits).await?;
/// assert_eq!(report.delivered, 2); // The ping and the event.
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Webhooks<'s> {
    pub(in crate::service) service: &'s KnowledgeService,
}

/// Subscriptions to the citations of recalls.
///
/// [`deliveries`](crate::service::KnowledgeService::deliveries) has their deliveries and pings.
///
/// [`KnowledgeService::citation_subscriptions`] returns it.
///
/// # Examples
///
/// ```
#[doc = include_str!("example.txt")]
/// use knowledge_core::model::NewCitationSubscription;
/// use knowledge_core::service::{DispatchLimits, NewRecall};
///
/// let new = NewRecall::builder().query("Who is on call?").memory_ids(memories).build();
/// let recall = service.recalls().create(&owner, workspace, &new).await?;
/// let url = "https://example.com/citations".parse()?;
/// let new = NewCitationSubscription::builder().recall_id(recall.id).webhook_url(url).build();
/// let subscription = service.citation_subscriptions().create(&owner, &new).await?;
/// assert!(subscription.signing_secret.is_some());
///
/// // A ping, and a change of a memory that the recall cites, are sent to the URL.
/// service.memories().delete(&owner, recall.memory_ids[0]).await?;
/// let (now, limits) = (service.env().now(), DispatchLimits::default());
/// assert_eq!(service.dispatcher().dispatch(&sender, now, limits).await?.delivered, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CitationSubscriptions<'s> {
    pub(in crate::service) service: &'s KnowledgeService,
}

/// Deliveries to outbound webhooks and citation subscriptions.
///
/// [`KnowledgeService::deliveries`] returns it.
///
/// # Examples
///
/// ```
#[doc = include_str!("example.txt")]
/// use knowledge_core::model::{DeliveryStatus, WebhookUpdate};
/// use knowledge_core::service::{DispatchLimits, Endpoint, PageRequest};
/// # let webhook = service.webhooks().create(&owner, workspace, &new_webhook).await?.id;
/// # let (now, limits) = (service.env().now(), DispatchLimits::default());
/// # service.dispatcher().dispatch(&Sender(204), now, limits).await?; // Confirms the webhook.
/// # let sender = Sender(410);
///
/// // The endpoint responds with 410, so the service disables it and dead-letters the delivery.
/// service.memories().delete(&owner, memories[0]).await?;
/// let (now, limits) = (service.env().now(), DispatchLimits::default());
/// service.dispatcher().dispatch(&sender, now, limits).await?;
/// let (endpoint, dead) = (Endpoint::Webhook(workspace, webhook), Some(DeliveryStatus::Dead));
/// let page = PageRequest::default();
/// let found = service.deliveries().list(&owner, endpoint, dead, &page).await?;
/// assert_eq!(found.data[0].attempts[0].status, Some(410));
///
/// // Once the receiver is repaired, its owner activates the webhook and redelivers.
/// let activate = WebhookUpdate::builder().is_active(true).build();
/// service.webhooks().update(&owner, workspace, webhook, &activate, None).await?;
/// assert_eq!(service.deliveries().redeliver_dead(&owner, endpoint).await?.redelivered, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Deliveries<'s> {
    pub(in crate::service) service: &'s KnowledgeService,
}

/// Inbound webhooks of workspaces, and the messages to them.
///
/// [`KnowledgeService::inbound_webhooks`] returns it.
///
/// # Examples
///
/// ```
#[doc = include_str!("example.txt")]
/// use knowledge_core::model::NewInboundWebhook;
///
/// let new = NewInboundWebhook::builder().name("Help desk").build();
/// let webhook = service.inbound_webhooks().create(&owner, workspace, &new).await?;
/// // The sender needs the URL and the secret.
/// assert!(webhook.url.ends_with(&webhook.id.to_string()));
/// assert!(webhook.signing_secret.is_some());
///
/// // After a rotation, the sender has time to change over to the new secret.
/// let rotated = service.inbound_webhooks().rotate_secret(&owner, workspace, webhook.id).await?;
/// assert!(rotated.previous_secret_expires_at > service.env().now());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct InboundWebhooks<'s> {
    pub(in crate::service) service: &'s KnowledgeService,
}

/// Functions for the host that sends deliveries.
///
/// [`dispatch`](Self::dispatch) does everything in one call, for hosts without a process of their
/// own. A host with one does the steps continuously: [`fan_out`](Self::fan_out),
/// [`claim`](Self::claim), and [`finish`](Self::finish) for each attempt.
///
/// [`KnowledgeService::dispatcher`] returns it.
///
/// # Examples
///
/// ```
#[doc = include_str!("example.txt")]
/// use knowledge_core::service::DispatchLimits;
/// # service.webhooks().create(&owner, workspace, &new_webhook).await?;
///
/// // A webhook receives the deletions of memories.
/// service.memories().delete(&owner, memories[0]).await?;
/// assert_eq!(service.dispatcher().outbox_status().await?.pending_events, 1);
///
/// // A scheduled job; `sender` implements `DeliverySender` by an HTTP client.
/// let limits = DispatchLimits { at_once_max: 8, ..DispatchLimits::default() };
/// while service.dispatcher().dispatch(&sender, service.env().now(), limits).await?.has_more {}
/// let backlog = service.dispatcher().outbox_status().await?;
/// assert_eq!((backlog.pending_events, backlog.undelivered), (0, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Dispatcher<'s> {
    pub(in crate::service) service: &'s KnowledgeService,
}

/// Sessions of people: signing in and out, and the credentials of the person signed in.
///
/// [`KnowledgeService::sessions`] returns it.
///
/// # Examples
///
/// ```
#[doc = include_str!("example.txt")]
/// use std::time::Duration;
///
/// use knowledge_core::access::CredentialKind;
/// use knowledge_core::service::{Caller, ClientInfo, NewToken};
///
/// let (kind, lifetime) = (CredentialKind::Link, Duration::from_secs(15 * 60));
/// let new = NewToken::builder().member(grace).kind(kind).name("Login link");
/// let new = new.lifetime(lifetime).build();
/// let link = service.provisioning().issue(org.id, &new).await?.secret;
///
/// let client = ClientInfo::default();
/// let session = service.sessions().sign_in(link.expose(), client).await?.secret;
/// assert!(service.sessions().sign_in(link.expose(), client).await.is_err());
/// let token = Caller::new(service.sessions().access_token(&session, client).await?.secret);
/// assert!(service.authenticate(&token, CredentialKind::Bearer).await.is_ok());
///
/// service.sessions().sign_out(&session, false, client).await?;
/// assert!(service.authenticate(&token, CredentialKind::Bearer).await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Sessions<'s> {
    pub(in crate::service) service: &'s KnowledgeService,
}
