//! Webhooks in both directions, recalls and subscriptions.

use super::{Answer, Caller, Expected, Model, Refusal, RequestErrors};
use knowledge_core::ProblemCode;
use knowledge_core::access::{Action, CredentialKind};
use knowledge_core::model::{
    CitationSubscription, InboundWebhook, InboundWebhookId, NewCitationSubscription,
    NewInboundWebhook, NewWebhook, Recall, RecallId, Source, SourceId, SubscriptionId, Timestamp,
    Webhook, WebhookId, WebhookUrl, WorkspaceId,
};
use knowledge_core::service::NewRecall;

impl RequestErrors {
    /// Checks a URL: https and a host name are required.
    ///
    /// None of the generated addresses is public.
    fn url(&mut self, path: &str, url: &WebhookUrl) {
        let has_name = url.as_url().domain().is_some();
        let is_https = url.as_str().starts_with("https://");
        self.when(!(has_name && is_https), path, ProblemCode::InvalidValue);
    }
}

fn limit_reached(path: &str) -> Vec<Refusal> {
    vec![Refusal::invalid(path, ProblemCode::LimitReached)]
}

impl Model {
    pub(super) fn create_webhook(
        &mut self,
        by: &Caller,
        workspace: WorkspaceId,
        new: &NewWebhook,
        now: Timestamp,
        learned: Option<&Answer>,
    ) -> Expected {
        let mut errors = RequestErrors::default();
        errors.url("url", &new.url);
        let who = errors.then(self.authorize_in(by, workspace, Action::WebhookManage, now))?;
        let webhooks = self.org(who.org).webhooks.values();
        let count = webhooks
            .filter(|other| other.workspace_id == workspace)
            .count();
        if count as u64 >= self.limits.webhooks_per_workspace_max {
            return Err(limit_reached("body"));
        }
        let secret = match learned {
            Some(Answer::Webhook(learned)) => learned.signing_secret.as_ref(),
            _ => None,
        };
        let webhook = Webhook {
            id: WebhookId(self.made(learned)),
            org_id: who.org,
            workspace_id: workspace,
            event_type: new.event_type,
            url: new.url.clone(),
            is_active: true,
            disabled_reason: None,
            signing_secret: self.signing_secret(secret),
            created_by: who.member,
            created_at: now,
            updated_at: now,
        };
        let org = self.org_mut(who.org);
        org.add_endpoint(workspace, webhook.id.into());
        org.webhooks.insert(webhook.id, webhook.clone());
        Ok(Answer::Webhook(webhook))
    }

    pub(super) fn create_inbound_webhook(
        &mut self,
        by: &Caller,
        workspace: WorkspaceId,
        new: &NewInboundWebhook,
        now: Timestamp,
        learned: Option<&Answer>,
    ) -> Expected {
        let mut errors = RequestErrors::default();
        errors.name("name", &new.name);
        let who =
            errors.then(self.authorize_in(by, workspace, Action::InboundWebhookManage, now))?;
        let webhooks = self.org(who.org).inbound_webhooks.values();
        let count = webhooks
            .filter(|other| other.workspace_id == workspace)
            .count();
        if count as u64 >= self.limits.inbound_webhooks_per_workspace_max {
            return Err(limit_reached("body"));
        }
        let secret = match learned {
            Some(Answer::InboundWebhook(learned)) => learned.signing_secret.as_ref(),
            _ => None,
        };
        let id = InboundWebhookId(self.made(learned));
        let source = Source {
            id: SourceId(id.0),
            name: new.name.clone(),
            kind: "inbound_webhook".to_owned(),
            created_at: now,
        };
        let webhook = InboundWebhook {
            id,
            org_id: who.org,
            workspace_id: workspace,
            name: new.name.clone(),
            url: format!("/v1/inbound/{}/{id}", who.org),
            source_id: source.id,
            acts_as: who.member,
            signing_secret: self.signing_secret(secret),
            created_by: who.member,
            created_at: now,
            updated_at: now,
        };
        let org = self.org_mut(who.org);
        org.sources.insert(source.id, source);
        org.inbound_webhooks.insert(id, webhook.clone());
        Ok(Answer::InboundWebhook(webhook))
    }

    pub(super) fn create_recall(
        &mut self,
        by: &Caller,
        workspace: WorkspaceId,
        new: &NewRecall,
        now: Timestamp,
        learned: Option<&Answer>,
    ) -> Expected {
        let ids = &new.memory_ids;
        let mut errors = RequestErrors::default();
        errors.when(
            new.query.chars().count() > 1_024,
            "query",
            ProblemCode::TooLarge,
        );
        errors.count("memory_ids", ids.len(), 500);
        for (index, id) in ids.iter().enumerate() {
            let is_second = ids[..index].contains(id);
            errors.when(
                is_second,
                &format!("memory_ids[{index}]"),
                ProblemCode::Duplicate,
            );
        }
        let who = errors.then(self.authorize_in(by, workspace, Action::RecallCreate, now))?;
        let org = self.org(who.org);
        let mut unknown = RequestErrors::default();
        for (index, id) in ids.iter().enumerate() {
            let is_known = org.memories.get(id).is_some_and(|memory| {
                memory.labels.workspace_id == workspace
                    && org.is_covered(&who, &memory.labels.audience, workspace)
            });
            unknown.when(
                !is_known,
                &format!("memory_ids[{index}]"),
                ProblemCode::NotFound,
            );
        }
        unknown.then(Ok(()))?;
        let recall = Recall {
            id: RecallId(self.made(learned)),
            workspace_id: workspace,
            query: new.query.clone(),
            memory_ids: ids.clone(),
            created_by: who.member,
            created_at: now,
        };
        let recalls = &mut self.org_mut(who.org).recalls;
        recalls.insert(recall.id, recall.clone());
        Ok(Answer::Recall(recall))
    }

    pub(super) fn subscribe(
        &mut self,
        by: &Caller,
        new: &NewCitationSubscription,
        now: Timestamp,
        learned: Option<&Answer>,
    ) -> Expected {
        let mut errors = RequestErrors::default();
        errors.url("webhook_url", &new.webhook_url);
        let authorized = self
            .authenticate(by, CredentialKind::Bearer, now)
            .and_then(|who| {
                let recall = self.org(who.org).recalls.get(&new.recall_id);
                let workspace = recall.ok_or(Refusal::NotFound)?.workspace_id;
                let who =
                    self.authorize_in(by, workspace, Action::CitationSubscriptionManage, now)?;
                Ok((who, workspace))
            });
        let (who, workspace) = errors.then(authorized)?;
        let subscriptions = self.org(who.org).subscriptions.values();
        let count = subscriptions
            .filter(|other| other.recall_id == new.recall_id)
            .count();
        if count as u64 >= self.limits.subscriptions_per_recall_max {
            return Err(limit_reached("recall_id"));
        }
        let secret = match learned {
            Some(Answer::Subscription(learned)) => learned.signing_secret.as_ref(),
            _ => None,
        };
        let subscription = CitationSubscription {
            id: SubscriptionId(self.made(learned)),
            org_id: who.org,
            workspace_id: workspace,
            recall_id: new.recall_id,
            subscriber_user_id: who.member,
            webhook_url: new.webhook_url.clone(),
            signing_secret: self.signing_secret(secret),
            created_at: now,
        };
        let org = self.org_mut(who.org);
        org.add_endpoint(workspace, subscription.id.into());
        org.subscriptions
            .insert(subscription.id, subscription.clone());
        Ok(Answer::Subscription(subscription))
    }
}
