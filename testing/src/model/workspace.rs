//! Connectors, chats, MCP keys and the audit log.

use std::time::Duration;

use super::access::{Token, Who};
use super::dashboard::{ConnectorFacts, MCP_KEY_GRACE, is_live};
use super::{Answer, Caller, Expected, Model, Refusal, RequestErrors, none_of};
use knowledge_core::ProblemCode;
use knowledge_core::access::{Action, ActionSet, CredentialKind, TokenScope};
use knowledge_core::model::{
    AuditLogId, ChatId, ChatMessageId, ConnectorId, ConnectorStatus, CredentialId, McpKeySummary,
    Timestamp, WorkspaceId,
};
use knowledge_core::service::{Chat, ChatMessage, Connector, NewConnector, NewMcpKey, SyncReport};

/// Actions that an MCP key allows.
const MCP_KEY_ACTIONS: [&str; 5] = [
    "memory:read",
    "memory:read_confidential",
    "memory:read_restricted",
    "chat:write",
    "recall:create",
];

impl Model {
    pub(super) fn create_connector(
        &mut self,
        by: &Caller,
        workspace: WorkspaceId,
        new: &NewConnector,
        now: Timestamp,
        learned: Option<&Answer>,
    ) -> Expected {
        let mut errors = RequestErrors::default();
        errors.name("kind", &new.kind);
        errors.name("account_label", &new.account_label);
        let is_interval = (60..=31 * 24 * 60 * 60).contains(&new.sync_interval.as_secs());
        errors.when(
            !is_interval,
            "sync_interval_seconds",
            ProblemCode::InvalidValue,
        );
        let who = errors.then(self.authorize_in(by, workspace, Action::ConnectorManage, now))?;
        let connectors = self.org(who.org).connectors.values();
        let count = connectors
            .filter(|facts| facts.connector.workspace_id == workspace)
            .count();
        if count as u64 >= self.limits.connectors_per_workspace_max {
            return Err(vec![Refusal::invalid("body", ProblemCode::LimitReached)]);
        }
        let connector = Connector {
            id: ConnectorId(self.made(learned)),
            workspace_id: workspace,
            kind: new.kind.clone(),
            account_label: new.account_label.clone(),
            scope: new.scope,
            sync_interval_seconds: new.sync_interval.as_secs(),
            is_paused: false,
            created_at: now,
        };
        let facts = ConnectorFacts {
            connector: connector.clone(),
            reports: Vec::new(),
            announced: ConnectorStatus::Pending,
        };
        self.org_mut(who.org).connectors.insert(connector.id, facts);
        Ok(Answer::Connector(connector))
    }

    pub(super) fn report_sync(
        &mut self,
        by: &Caller,
        (workspace, connector): (WorkspaceId, ConnectorId),
        report: &SyncReport,
        now: Timestamp,
    ) -> Expected {
        self.with_connector(
            by,
            workspace,
            connector,
            Action::ConnectorReport,
            now,
            |facts| {
                facts.reports.push((now, report.clone()));
                true
            },
        )?;
        Ok(Answer::Done)
    }

    pub(super) fn pause_connector(
        &mut self,
        by: &Caller,
        (workspace, connector): (WorkspaceId, ConnectorId),
        is_paused: bool,
        now: Timestamp,
    ) -> Expected {
        let action = Action::ConnectorManage;
        let after = self.with_connector(by, workspace, connector, action, now, |facts| {
            let changes = facts.connector.is_paused != is_paused;
            facts.connector.is_paused = is_paused;
            changes
        })?;
        Ok(Answer::Connector(after))
    }

    /// Changes a connector, and announces its new status if `change` reports a change.
    fn with_connector(
        &mut self,
        by: &Caller,
        workspace: WorkspaceId,
        connector: ConnectorId,
        action: Action,
        now: Timestamp,
        change: impl FnOnce(&mut ConnectorFacts) -> bool,
    ) -> Result<Connector, Vec<Refusal>> {
        let who = self.authorize_in(by, workspace, action, now);
        let who = who.map_err(|refusal| vec![refusal])?;
        let org = self.org_mut(who.org);
        let found = org.connectors.get(&connector);
        let found = found.filter(|facts| facts.connector.workspace_id == workspace);
        let mut facts = found.ok_or(vec![Refusal::NotFound])?.clone();
        if change(&mut facts) {
            org.announce_status(&mut facts, now);
        }
        let after = facts.connector.clone();
        org.connectors.insert(connector, facts);
        Ok(after)
    }

    pub(super) fn create_chat(
        &mut self,
        by: &Caller,
        workspace: WorkspaceId,
        title: &str,
        now: Timestamp,
        learned: Option<&Answer>,
    ) -> Expected {
        let mut errors = RequestErrors::default();
        errors.name("title", title);
        let who = errors.then(self.authorize_in(by, workspace, Action::ChatWrite, now))?;
        let chat = Chat {
            id: ChatId(self.made(learned)),
            workspace_id: workspace,
            title: title.to_owned(),
            created_by: who.member,
            created_at: now,
            last_message_at: now,
        };
        let chats = &mut self.org_mut(who.org).chats;
        chats.insert(chat.id, (chat.clone(), String::new()));
        Ok(Answer::Chat(chat))
    }

    pub(super) fn post_message(
        &mut self,
        by: &Caller,
        (workspace, chat): (WorkspaceId, ChatId),
        content: &str,
        now: Timestamp,
        learned: Option<&Answer>,
    ) -> Expected {
        let mut errors = RequestErrors::default();
        errors.text("content", content, self.limits.content_bytes_max);
        let who = errors.then(self.authorize_in(by, workspace, Action::ChatWrite, now))?;
        let id = self.made(learned);
        let found = self.org_mut(who.org).chats.get_mut(&chat);
        let found = found.filter(|(chat, _)| chat.workspace_id == workspace);
        let (found, newest) = found.ok_or(vec![Refusal::NotFound])?;
        found.last_message_at = now;
        *newest = content.to_owned();
        Ok(Answer::Message(ChatMessage {
            id: ChatMessageId(id),
            chat_id: chat,
            author_id: who.member,
            content: content.to_owned(),
            created_at: now,
        }))
    }

    pub(super) fn create_mcp_key(
        &mut self,
        by: &Caller,
        workspace: WorkspaceId,
        new: &NewMcpKey,
        now: Timestamp,
        learned: Option<&Answer>,
    ) -> Expected {
        let mut errors = RequestErrors::default();
        errors.name("name", &new.name);
        errors.count("audience", new.audience.len(), 32);
        let year = Duration::from_secs(366 * 24 * 60 * 60);
        let is_rotation = !new.rotation.is_zero() && new.rotation <= year;
        errors.when(!is_rotation, "rotationSeconds", ProblemCode::InvalidValue);
        let who = errors.then(self.authorize_in(by, workspace, Action::McpKeyManage, now))?;
        let org = self.org(who.org);
        let mut refusals = Vec::new();
        if !new
            .audience
            .iter()
            .all(|label| org.is_covered(&who, label, workspace))
        {
            refusals.push(Refusal::Forbidden);
        }
        let keys = org.mcp_keys.values();
        let live = keys.filter(|key| key.workspace_id == workspace && is_live(key, now));
        let count = live.count();
        if count as u64 >= self.limits.mcp_keys_per_workspace_max {
            refusals.push(Refusal::invalid("body", ProblemCode::LimitReached));
        }
        none_of(refusals)?;
        let summary = McpKeySummary {
            id: CredentialId(self.made(learned)),
            workspace_id: workspace,
            name: new.name.clone(),
            client: new.client,
            audience: new.audience.clone(),
            last_used_at: None,
            rotates_at: Some(now.plus(new.rotation)),
        };
        let keys = &mut self.org_mut(who.org).mcp_keys;
        keys.insert(summary.id, summary.clone());
        let secret = match learned {
            Some(Answer::McpKey(_, secret)) => secret.clone(),
            _ => None,
        };
        let secret = secret.filter(|secret| self.shown.insert(secret.expose().to_owned()));
        if let Some(secret) = &secret {
            let token = mcp_token(&who, &summary, now.plus(new.rotation + MCP_KEY_GRACE));
            self.add_token(secret, token);
        }
        let must_show = !self.is_recovering && secret.is_none();
        let summary = if must_show {
            without_key(summary)
        } else {
            summary
        };
        Ok(Answer::McpKey(summary, secret))
    }

    pub(super) fn note_mcp_key_use(
        &mut self,
        by: &Caller,
        workspace: WorkspaceId,
        now: Timestamp,
    ) -> Expected {
        let who = self.authenticate(by, CredentialKind::Bearer, now);
        let who = who.map_err(|refusal| vec![refusal])?;
        let keys = &mut self.org_mut(who.org).mcp_keys;
        let key = who.credential.and_then(|id| keys.get_mut(&id));
        let key = key.filter(|key| key.workspace_id == workspace);
        key.ok_or(vec![Refusal::NotFound])?.last_used_at = Some(now);
        Ok(Answer::Done)
    }

    pub(super) fn read_audit(&mut self, by: &Caller, id: AuditLogId, now: Timestamp) -> Expected {
        let who = self.bearer(by, Action::AuditRead, now);
        let who = who.map_err(|refusal| vec![refusal])?;
        let found = self.org(who.org).audit.get(&id);
        let (actor, memory, is_ok) = found.ok_or(vec![Refusal::NotFound])?;
        Ok(Answer::Audit(Some(*actor), *memory, *is_ok))
    }
}

/// Returns the token of a key, whose scope is never wider than that of its creator.
fn mcp_token(who: &Who, key: &McpKeySummary, expires_at: Timestamp) -> Token {
    let actions = MCP_KEY_ACTIONS.map(|name| name.parse().expect("the action exists"));
    let scoped_to = who.scope.actions.unwrap_or(ActionSet::ALL);
    Token {
        id: key.id,
        kind: CredentialKind::Bearer,
        org: who.org,
        member: who.member,
        scope: TokenScope {
            workspaces: Some(vec![key.workspace_id]),
            actions: Some(ActionSet::from_iter(actions) & scoped_to),
            audience: Some(key.audience.clone()),
        },
        expires_at,
        is_revoked: false,
    }
}

/// Replaces the name by one that no response has: a response without the key is wrong.
fn without_key(summary: McpKeySummary) -> McpKeySummary {
    McpKeySummary {
        name: "a new MCP key".to_owned(),
        ..summary
    }
}
