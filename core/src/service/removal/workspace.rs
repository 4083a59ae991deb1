//! Steps of the removal of a workspace.

use crate::access::RoleRef;
use crate::error::Error;
use crate::keys;
use crate::model::{
    CredentialId, CustomRole, InboundWebhook, MemberId, MemoryContent, MemoryId, MemoryLabels,
    OrgId, Organization, Quota, Recall, Webhook, WorkspaceId,
};
use crate::service::KnowledgeService;
use crate::service::connectors::health::ConnectorState;
use crate::service::connectors::types::ConnectorRef;
use crate::service::erasures::removal::Removal;
use crate::service::members::assign::{current_role, leave_role};
use crate::service::memories::read::FoundMemory;
use crate::service::quota::release_unit;
use crate::service::secrets::sealing::SealedRecord;
use crate::service::tasks::ScheduledTask;
use crate::service::workspace::chats::Chat;
use crate::service::workspace::mcp_keys::forget_keys;
use crate::service::workspace::retention::RetentionState;
use crate::store::{Direction, Key, KeyEntry, KeyRange, StoreExt, Transaction, decode_value};

/// Number of records that a step deletes, with those that go with each.
const RECORDS_PER_STEP: usize = 200;
/// Number of recalls that a step deletes.
const RECALLS_PER_STEP: usize = 20;

/// A workspace that is being removed, in a transaction of one step.
struct Step<'s> {
    service: &'s KnowledgeService,
    transaction: Transaction,
    org: OrgId,
    workspace: WorkspaceId,
}

impl KnowledgeService {
    /// Takes a step of the removal of a workspace, and returns the next.
    ///
    /// `after` is the last role in a workspace that was examined. Nothing is added meanwhile,
    /// because every addition to a workspace checks the organisation, which names it as removed.
    pub(in crate::service) async fn clear_former_workspace(
        &self,
        org: OrgId,
        workspace: WorkspaceId,
        after: Option<String>,
    ) -> Result<Option<ScheduledTask>, Error> {
        let after = &after;
        self.transact(|mut transaction| async move {
            let next = |key| {
                Some(ScheduledTask::FormerWorkspace {
                    org,
                    workspace,
                    key,
                })
            };
            let place = keys::org(org);
            let owner = transaction.get::<Organization>(&place).await?;
            let owner = owner.filter(|owner| owner.removing.contains(&workspace));
            let Some(mut owner) = owner else {
                return Ok(transaction.done(None));
            };
            let mut step = Step {
                service: self,
                transaction,
                org,
                workspace,
            };
            if step.recalls().await?
                || step.memories().await?
                || step.chats().await?
                || step.connectors().await?
                || step.mcp_keys().await?
                || step.webhooks().await?
                || step.inbound_webhooks().await?
            {
                return Ok(step.transaction.done(next(after.clone())));
            }
            if let Some(last) = step.member_roles(after.as_ref()).await? {
                return Ok(step.transaction.done(next(Some(last))));
            }
            // Once no role is left, the roles of the workspace have no holders.
            if step.roles().await? || step.rest().await? {
                return Ok(step.transaction.done(next(after.clone())));
            }
            owner.removing.retain(|id| *id != workspace);
            owner.private.remove(&workspace);
            step.transaction.put(place, &owner);
            Ok(step.transaction.done(None))
        })
        .await
    }
}

impl Step<'_> {
    /// Returns the first entries of a range, which the commit checks.
    async fn first(&mut self, range: &KeyRange, limit: usize) -> Result<Vec<KeyEntry>, Error> {
        let store = self.transaction.unchecked().store();
        let found = store.scan(range, limit, Direction::Forward).await?;
        for found in &found {
            let version = Some(found.entry.version);
            self.transaction.check(found.key.clone(), version);
        }
        Ok(found)
    }

    /// Deletes some recalls with their subscriptions. Returns true if there were any.
    async fn recalls(&mut self) -> Result<bool, Error> {
        let marks = keys::workspace_recalls(self.org, self.workspace);
        let marks = self.first(&marks, RECALLS_PER_STEP).await?;
        let place = |mark: &KeyEntry| {
            let id = keys::last_id(&mark.key).unwrap_or_default();
            keys::recall(self.org, id.into())
        };
        let places: Vec<Key> = marks.iter().map(place).collect();
        let found = self.transaction.get_many::<Recall>(&places).await?;
        let mut removal = Removal::new(self.service, self.org, self.service.env().now());
        for (mark, recall) in marks.iter().zip(found) {
            match recall {
                Some(recall) => {
                    if !removal.recall(&mut self.transaction, &recall).await? {
                        break;
                    }
                }
                None => self.transaction.delete(mark.key.clone()),
            }
        }
        Ok(!marks.is_empty())
    }

    /// Deletes some memories. Returns true if there were any.
    async fn memories(&mut self) -> Result<bool, Error> {
        let (org, now) = (self.org, self.service.env().now());
        let marks = keys::workspace_memories(org, self.workspace);
        let marks = self.first(&marks, RECORDS_PER_STEP).await?;
        let ids = marks.iter();
        let ids = ids.map(|mark| MemoryId(keys::last_id(&mark.key).unwrap_or_default()));
        let ids: Vec<MemoryId> = ids.collect();
        let labels: Vec<Key> = ids.iter().map(|id| keys::memory(org, *id)).collect();
        let labels = self.transaction.get_many::<MemoryLabels>(&labels).await?;
        let contents: Vec<Key> = ids.iter().map(|id| keys::content(org, *id)).collect();
        let contents = self
            .transaction
            .get_many::<MemoryContent>(&contents)
            .await?;
        for ((mark, id), found) in marks.iter().zip(ids).zip(labels.into_iter().zip(contents)) {
            match found {
                (Some(labels), Some(content)) => {
                    let found = FoundMemory {
                        id,
                        labels,
                        content,
                    };
                    found.remove(&mut self.transaction, (org, now));
                }
                _ => self.transaction.delete(mark.key.clone()),
            }
        }
        Ok(!marks.is_empty())
    }

    /// Deletes some chats; tasks delete their further messages. Returns true if there were any.
    async fn chats(&mut self) -> Result<bool, Error> {
        let (org, env) = (self.org, self.service.env());
        let chats = keys::chats(org, self.workspace);
        let chats = self.first(&chats, RECORDS_PER_STEP).await?;
        let now = env.now();
        let mut removal = Removal::new(self.service, org, now);
        for found in &chats {
            if !removal.has_room_for_chat() {
                break;
            }
            let chat: Chat = decode_value(found)?;
            if removal.chat(&mut self.transaction, &chat).await? {
                let chat = chat.id;
                ScheduledTask::FormerChat { org, chat }.schedule(&mut self.transaction, now, env);
            }
        }
        Ok(!chats.is_empty())
    }

    /// Deletes some connectors. Returns true if there were any.
    async fn connectors(&mut self) -> Result<bool, Error> {
        let (org, workspace) = (self.org, self.workspace);
        let found = keys::connectors(org, workspace);
        let found = self.first(&found, RECORDS_PER_STEP).await?;
        for found in &found {
            let connector = keys::last_id(&found.key).unwrap_or_default().into();
            let state = keys::connector_state(org, workspace, connector);
            let read = self.transaction.get::<ConnectorState>(&state).await?;
            if let Some(at) = read.and_then(|state| state.look_at) {
                let reference = ConnectorRef::new(org, workspace, connector);
                self.transaction.delete(reference.due(at));
            }
            self.transaction.delete(found.key.clone());
            self.transaction.delete(state);
            let counter = keys::connector_count(org, workspace);
            self.transaction.add(counter, -1);
        }
        Ok(!found.is_empty())
    }

    /// Deletes some MCP keys with their credentials. Returns true if there were any.
    async fn mcp_keys(&mut self) -> Result<bool, Error> {
        let (org, workspace) = (self.org, self.workspace);
        let found = keys::mcp_keys(org, workspace);
        let found = self.first(&found, RECORDS_PER_STEP).await?;
        let ids = found.iter().filter_map(|found| keys::last_id(&found.key));
        let ids: Vec<_> = ids.map(|id| (workspace, CredentialId(id))).collect();
        let places = ids.iter().map(|(_, id)| keys::credential_id(org, *id));
        let places: Vec<Key> = places.collect();
        let hashes = self.transaction.get_many::<String>(&places).await?;
        for (place, hash) in places.into_iter().zip(hashes) {
            if let Some(hash) = hash.and_then(|hash| hash.parse().ok()) {
                self.transaction.delete(keys::credential(hash));
                self.transaction.delete(place);
            }
        }
        for (_, id) in &ids {
            self.transaction.delete(keys::credential_use(org, *id));
        }
        forget_keys(&mut self.transaction, org, &ids).await?;
        Ok(!found.is_empty())
    }

    /// Deletes some outbound webhooks. Returns true if there were any.
    async fn webhooks(&mut self) -> Result<bool, Error> {
        let (org, workspace, service) = (self.org, self.workspace, self.service);
        let found = keys::webhooks(org, workspace);
        let found = self.first(&found, RECORDS_PER_STEP).await?;
        for found in &found {
            let stored: SealedRecord<Webhook> = decode_value(found)?;
            let (id, now) = (stored.record.id.into(), service.env().now());
            let transaction = &mut self.transaction;
            transaction.delete(found.key.clone());
            let delegator = stored.delegator;
            delegator.remove_from_index(transaction, org, stored.record.id.0);
            transaction.add(keys::webhook_count(org, workspace), -1);
            release_unit(transaction, org, Quota::Endpoints);
            service
                .remove_endpoint(transaction, org, id, stored.disabled, now)
                .await?;
        }
        Ok(!found.is_empty())
    }

    /// Deletes some inbound webhooks. Returns true if there were any.
    async fn inbound_webhooks(&mut self) -> Result<bool, Error> {
        let (org, workspace) = (self.org, self.workspace);
        let found = keys::inbound_webhooks(org, workspace);
        let found = self.first(&found, RECORDS_PER_STEP).await?;
        for found in &found {
            let stored: SealedRecord<InboundWebhook> = decode_value(found)?;
            let (delegator, id) = (stored.delegator, stored.record.id);
            // The identifier remains, so that the source stays closed to everybody else.
            self.transaction.delete(found.key.clone());
            delegator.remove_from_index(&mut self.transaction, org, id.0);
            let counter = keys::inbound_webhook_count(org, workspace);
            self.transaction.add(counter, -1);
            release_unit(&mut self.transaction, org, Quota::Endpoints);
        }
        Ok(!found.is_empty())
    }

    /// Ends the roles in the workspace among the next roles of members.
    ///
    /// Returns the last of them if there are more, or if some ended: their counters have to be
    /// stored before those of a role are deleted.
    async fn member_roles(&mut self, after: Option<&String>) -> Result<Option<String>, Error> {
        let org = self.org;
        let all = keys::org_workspace_roles(org);
        let rest = match after {
            Some(after) => {
                let after = Key::new(after);
                all.after(&after.map_err(|error| Error::internal(error.to_string()))?)
            }
            None => all,
        };
        let store = self.transaction.unchecked().store();
        let page = store
            .scan(&rest, RECORDS_PER_STEP, Direction::Forward)
            .await?;
        let mut is_last = page.len() < RECORDS_PER_STEP;
        for found in &page {
            let member = keys::second_last_id(&found.key).map(MemberId);
            let workspace = keys::last_id(&found.key).map(WorkspaceId);
            let Some(member) = member.filter(|_| workspace == Some(self.workspace)) else {
                continue;
            };
            let transaction = &mut self.transaction;
            let Some(role) = transaction.get::<RoleRef>(&found.key).await? else {
                continue;
            };
            is_last = false;
            let counted = current_role(transaction, org, role).await?;
            leave_role(transaction, org, (role, counted), member, workspace);
            transaction.delete(found.key.clone());
        }
        let last = page.last().filter(|_| !is_last);
        Ok(last.map(|last| last.key.to_string()))
    }

    /// Deletes the custom roles of the workspace. Returns true if there were any.
    ///
    /// No redirect leads to them: only a role of the whole organisation replaces a deleted one.
    async fn roles(&mut self) -> Result<bool, Error> {
        let org = self.org;
        let store = self.transaction.unchecked().store();
        let all = store.scan_all(&keys::roles(org)).await?;
        let mut is_any = false;
        for found in &all {
            let role: CustomRole = decode_value(found)?;
            if role.workspace_id != Some(self.workspace) {
                continue;
            }
            is_any = true;
            let (transaction, reference) = (&mut self.transaction, RoleRef::Custom(role.id));
            transaction.check(found.key.clone(), Some(found.entry.version));
            transaction.delete(found.key.clone());
            transaction.delete(keys::role_slug(org, &role.slug));
            transaction.delete(keys::holder_count(org, reference));
            transaction.add(keys::role_count(org), -1);
        }
        Ok(is_any)
    }

    /// Deletes the rest, its counters above all. Returns true if there is more.
    async fn rest(&mut self) -> Result<bool, Error> {
        let (org, workspace) = (self.org, self.workspace);
        let retention = RetentionState::read(&mut self.transaction, org, workspace).await?;
        if retention.sweep.next.is_some() {
            retention.schedule(&mut self.transaction, None);
            return Ok(true);
        }
        for range in keys::everything_of(self.org, Some(self.workspace)) {
            let found = self.first(&range, RECORDS_PER_STEP).await?;
            for found in &found {
                self.transaction.delete(found.key.clone());
            }
            if found.len() == RECORDS_PER_STEP {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
