//! Refused changes over HTTP, and their entries of the audit log.

use uuid::Uuid;

use super::call::Call;
use super::indeterminate::{Changes, Contents};
use super::run::{Divergence, Simulation};
use crate::call::ApiCall;
use crate::model::{AuditFacts, Caller, ErrorResponse};
use knowledge_core::access::Secret;
use knowledge_core::internals::keys;
use knowledge_core::model::{OrgId, Timestamp};
use knowledge_core::service::{AuditAction, ResourceKind};
use knowledge_core::store::{Key, StoreExt};

/// Returns the resources that a path names, innermost first, with their keys.
fn named(call: &ApiCall, org: OrgId) -> Vec<(ResourceKind, Uuid, Key)> {
    let (mut collection, mut workspace, mut named) = ("", Uuid::nil(), Vec::new());
    for (name, value) in call
        .operation
        .spec()
        .path
        .split('/')
        .zip(call.path.split('/'))
    {
        if !name.starts_with('{') {
            collection = name;
            continue;
        }
        let Ok(id) = value.parse::<Uuid>() else {
            continue;
        };
        let place = workspace.into();
        let (kind, key) = match collection {
            "workspaces" => {
                workspace = id;
                (ResourceKind::Workspace, keys::workspace(org, id.into()))
            }
            "memories" => (ResourceKind::Memory, keys::memory(org, id.into())),
            "recalls" => (ResourceKind::Recall, keys::recall(org, id.into())),
            "members" => (ResourceKind::Member, keys::member(org, id.into())),
            "custom-roles" => (ResourceKind::Role, keys::role(org, id.into())),
            "citation-subscriptions" => {
                let key = keys::subscription_id(org, id.into());
                (ResourceKind::Subscription, key)
            }
            "chats" => (ResourceKind::Chat, keys::chat(org, place, id.into())),
            "connectors" => (
                ResourceKind::Connector,
                keys::connector(org, place, id.into()),
            ),
            "mcp-keys" => (
                ResourceKind::Credential,
                keys::mcp_key(org, place, id.into()),
            ),
            "tokens" => {
                // Without the token, the entry is about the organisation.
                named.clear();
                let key = keys::credential_id(org, id.into());
                (ResourceKind::Credential, key)
            }
            "webhooks" => (ResourceKind::Webhook, keys::webhook(org, place, id.into())),
            "inbound-webhooks" => {
                let key = keys::inbound_webhook(org, place, id.into());
                (ResourceKind::InboundWebhook, key)
            }
            _ => continue,
        };
        named.insert(0, (kind, id, key));
    }
    named
}

impl Simulation {
    /// Adds the entry about a refused call to the model, if it leaves one.
    ///
    /// A failing store may prevent it: `before` are the contents of such a store before the call.
    pub(super) async fn note_refusal(
        &mut self,
        before: Option<&Contents>,
        call: &Call,
        now: Timestamp,
    ) -> Result<(), Divergence> {
        let (Some(by), Some(api_call)) = (call.caller(), call.api_call(now)) else {
            return Ok(());
        };
        let spec = api_call.operation.spec();
        let Some(kind) = spec.authentication.credential() else {
            return Ok(());
        };
        let who = match self.model.authenticate(by, kind, now) {
            // That it may not act for the member is refused to the service account.
            Err(ErrorResponse::Forbidden) => {
                let account = Caller {
                    acting_for: None,
                    ..by.clone()
                };
                self.model.authenticate(&account, kind, now)
            }
            who => who,
        };
        let Ok(who) = who else {
            return Ok(());
        };
        let action = match spec.audit_actions {
            [] | [AuditAction::MemoryRead] => return Ok(()),
            [action, ..] => *action,
        };
        let secret = api_call.credential.as_ref().map(Secret::expose);
        let named = named(&api_call, who.org);
        let member = &by.acting_for;
        let what = format!("{secret:?} {member:?} {:?} {named:?}", spec.audit_actions);
        let sender = who.via.unwrap_or(who.member);
        let earlier = self.model.org(who.org).refusals.get(&sender);
        let mut refusals = earlier.cloned().unwrap_or_default();
        if !refusals.record(what, now) {
            return Ok(());
        }
        if let Some(before) = before {
            self.settle().await?;
            let after = &self.contents().await?;
            if (Changes { before, after }).added("audit").is_empty() {
                return Ok(());
            }
        }
        // The entry is about the innermost resource that exists, also where the caller may not know
        // of it, except in a private workspace.
        let mut resource = (ResourceKind::Organization, who.org.0);
        for (kind, id, key) in named {
            let found = self.store.inner().get(&[key]).await;
            if found.map_err(|error| self.broken(&error))?[0].is_some() {
                resource = (kind, id);
                break;
            }
        }
        let org = self.model.org_mut(who.org);
        org.refusals.insert(sender, refusals);
        let refused = |resource: (ResourceKind, Uuid)| AuditFacts {
            outcome: "forbidden",
            ..AuditFacts::ok(resource, (), ())
        };
        let mut entry = refused(resource);
        if !org.knows(&who, org.place_of(action, &entry)) {
            entry = refused((ResourceKind::Organization, who.org.0));
        }
        org.audit_all(Some(&who), action, None, vec![entry], now);
        Ok(())
    }
}
