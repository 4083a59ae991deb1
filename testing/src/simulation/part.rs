//! Parts of requests: where HTTP carries them, and how a function of the service takes them.

use std::time::Duration;

use serde_json::json;

use crate::call::{ApiCall, IDEMPOTENCY_KEY};
use knowledge_core::model::{
    AccessCheck, AccessFilterOptions, AuditLogId, BulkUpdate, ChatId, CitationFilter, ConnectorId,
    CredentialId, CustomRoleUpdate, DeliveryId, DeliveryStatus, ErasureId, InboundWebhookId,
    InboundWebhookUpdate, MemberId, MemoryFilter, MemoryId, MemoryUpdate, NewCitationSubscription,
    NewCustomRole, NewErasure, NewInboundWebhook, NewWebhook, OrgId, RecallId, RecallSearch,
    RoleId, SourceId, SubscriptionId, WebhookId, WebhookUpdate, WorkspaceId,
};
use knowledge_core::service::{
    ActivityDays, AuditFilter, ConnectorUpdate, CreateMemory, DeleteRole, Endpoint, IdempotencyKey,
    IfMatch, InboundBatch, IngestBatch, MemberUpdate, NewApiToken, NewChat, NewConnector,
    NewMcpKey, NewMember, NewRecall, NewRetention, NewSource, NewWorkspaceAccess, PageRequest,
    RecallUpdate, SyncOutcome, SyncReport,
};

/// Part of a request.
///
/// Parameters of a path are in the order of its template.
pub(super) trait Part {
    /// Form in which a function of the service takes it.
    type Arg<'a>
    where
        Self: 'a;

    /// Returns it as an argument.
    fn arg(&self) -> Self::Arg<'_>;

    /// Adds it to a call over HTTP.
    fn add_to(&self, call: &mut ApiCall);

    /// True if cursors of a list with this part are valid for no list with another one.
    const IDENTIFIES_LIST: bool = true;
}

/// Implements [`Part`] for identifiers of the path.
macro_rules! identifiers {
    ($($id:ident),+ $(,)?) => {$(
        impl Part for $id {
            type Arg<'a> = Self;

            fn arg(&self) -> Self {
                *self
            }

            fn add_to(&self, call: &mut ApiCall) {
                call.add_parameter(self);
            }
        }
    )+};
}

identifiers! {
    AuditLogId, ChatId, ConnectorId, CredentialId, DeliveryId, ErasureId, InboundWebhookId,
    MemberId, MemoryId, OrgId, RecallId, RoleId, SourceId, SubscriptionId, WebhookId, WorkspaceId,
}

/// Implements [`Part`] for types that a function takes by reference.
///
/// `false` follows those that do not identify a list.
macro_rules! references {
    ($(
        $type:ty as $arg:ty: |$part:ident, $call:ident| $add:expr $(, $identifies:literal)?;
    )+) => {$(
        impl Part for $type {
            type Arg<'a> = &'a $arg;

            fn arg(&self) -> &$arg {
                self
            }

            fn add_to(&self, $call: &mut ApiCall) {
                let $part = self;
                $add;
            }

            $(const IDENTIFIES_LIST: bool = $identifies;)?
        }
    )+};
}

/// Implements [`Part`] for bodies.
macro_rules! bodies {
    ($($body:ident),+ $(,)?) => {
        references! { $($body as $body: |body, call| call.set_body(body);)+ }
    };
}

bodies! {
    AccessCheck, BulkUpdate, ConnectorUpdate, CreateMemory, CustomRoleUpdate, DeleteRole,
    InboundBatch, InboundWebhookUpdate, IngestBatch, MemberUpdate, MemoryUpdate, NewApiToken,
    NewChat, NewCitationSubscription, NewConnector, NewCustomRole, NewErasure, NewInboundWebhook,
    NewMcpKey, NewMember, NewRecall, NewRetention, NewSource, NewWebhook, NewWorkspaceAccess,
    RecallSearch, RecallUpdate, WebhookUpdate,
}

references! {
    // Slug of the organisation; a list is of that of the caller.
    String as str: |slug, call| call.add_parameter(slug), false;
    AuditFilter as AuditFilter: |filter, call| call.add_filter(filter);
    MemoryFilter as MemoryFilter: |filter, call| call.add_filter(filter);
    CitationFilter as CitationFilter: |filter, call| call.add_filter(filter);
    ActivityDays as ActivityDays: |days, call| {
        days.days.iter().for_each(|days| call.add_query("days", days));
    };
    AccessFilterOptions as AccessFilterOptions: |options, call| {
        let approved_only = options.approved_only.iter();
        approved_only.for_each(|flag| call.add_query("approved_only", flag));
    };
    IdempotencyKey as IdempotencyKey: |key, call| call.add_header(IDEMPOTENCY_KEY, key.as_str());
    PageRequest as PageRequest: |page, call| {
        page.limit.iter().for_each(|limit| call.add_query("limit", limit));
        page.cursor.iter().for_each(|cursor| call.add_query("cursor", cursor));
    }, false;
    SyncReport as SyncReport: |report, call| {
        let mut body = match &report.outcome {
            SyncOutcome::Success => json!({ "outcome": "success" }),
            SyncOutcome::Failure { error, is_authentication } => json!({
                "outcome": "failure", "error": error, "is_authentication": is_authentication,
            }),
        };
        if let Some(next) = report.next_sync_at {
            body["next_sync_at"] = json!(next);
        }
        call.set_body(&body);
    };
}

impl Part for Option<IfMatch> {
    type Arg<'a> = Option<&'a IfMatch>;

    fn arg(&self) -> Option<&IfMatch> {
        self.as_ref()
    }

    fn add_to(&self, call: &mut ApiCall) {
        match self {
            None => {}
            Some(IfMatch::Any) => call.add_tag("*".to_owned()),
            Some(IfMatch::Tags(tags)) => call.add_tag(tags.join(", ")),
        }
    }
}

/// Implements [`Part`] for optional values that a function takes as they are.
macro_rules! options {
    ($($type:ty: |$part:ident, $call:ident| $add:expr;)+) => {$(
        impl Part for Option<$type> {
            type Arg<'a> = Self;

            fn arg(&self) -> Self {
                *self
            }

            fn add_to(&self, $call: &mut ApiCall) {
                if let Some($part) = self {
                    $add;
                }
            }
        }
    )+};
}

options! {
    DeliveryStatus: |status, call| call.add_query("status", status);
    // Rotation period of an MCP key.
    Duration: |rotation, call| call.set_body(&json!({ "rotationSeconds": rotation.as_secs() }));
}

/// Treatment of what a credential created.
impl Part for bool {
    type Arg<'a> = Self;

    fn arg(&self) -> Self {
        *self
    }

    fn add_to(&self, call: &mut ApiCall) {
        if *self {
            call.add_query("with_created", self);
        }
    }
}

impl Part for Endpoint {
    type Arg<'a> = Self;

    fn arg(&self) -> Self {
        *self
    }

    fn add_to(&self, call: &mut ApiCall) {
        match self {
            Self::Webhook(workspace, webhook) => {
                workspace.add_to(call);
                webhook.add_to(call);
            }
            Self::Subscription(subscription) => subscription.add_to(call),
        }
    }
}
