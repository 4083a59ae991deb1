//! What each entry claims, family by family.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Claim, Verifier};
use crate::access::{CredentialRecord, RoleRef};
use crate::model::{
    AuditLogId, ChatId, CitationSubscription, ConnectorId, CredentialId, CustomRole,
    InboundWebhook, Member, MemberId, MemberKind, MemoryContent, MemoryId, MemoryLabels, OrgId,
    Organization, Recall, RecallId, ReviewStatus, RoleId, SourceId, SubscriptionId, Timestamp,
    Webhook, Workspace, WorkspaceId,
};
use crate::service::chats::Chat;
use crate::service::idempotency::IdempotencyRecord;
use crate::service::maintain::Due;
use crate::service::mcp_keys::McpKey;
use crate::service::sealing::SealedRecord;
use crate::store::{KeyEntry, decode_value, keys};

/// The parts of a key.
struct Parts<'k>(Vec<&'k str>);

impl Parts<'_> {
    fn id(&self, index: usize) -> Result<Uuid, String> {
        let part = self.0.get(index).ok_or("the key is too short")?;
        part.parse().map_err(|_| format!("{part} is no identifier"))
    }

    fn org(&self) -> Result<OrgId, String> {
        self.id(1).map(OrgId)
    }

    fn workspace(&self) -> Result<WorkspaceId, String> {
        self.id(2).map(WorkspaceId)
    }
}

fn value<T: DeserializeOwned>(entry: &KeyEntry) -> Result<T, String> {
    decode_value(entry).map_err(|error| error.to_string())
}

type Claims = Result<Vec<Claim>, String>;

/// A member, or one that was removed: what it did stands in the audit log for ever, what it had until it is cleared.
fn present_or_former(org: OrgId, member: MemberId) -> Claim {
    Claim::EitherExists(keys::member(org, member), keys::former_member(org, member))
}

impl Verifier {
    pub(super) fn claims_of(&mut self, entry: &KeyEntry) -> Claims {
        let text = std::str::from_utf8(entry.key.as_bytes()).map_err(|_| "not a key of text")?;
        let parts = Parts(text.split('/').collect());
        match parts.0[0] {
            "meta" | "source" | "last_ingest" => self.plain(entry, &parts),
            "org" | "org_slug" | "workspace" | "workspace_slug" | "member" | "member_handle"
            | "former_member" => self.organization(entry, &parts),
            "workspace_role" | "role" | "role_slug" | "role_redirect" | "holder" => {
                self.role(entry, &parts)
            }
            "credential" | "credential_id" | "mcp_key" | "mcp_key_use" => {
                self.credential(entry, &parts)
            }
            "memory" | "content" | "workspace_memory" | "source_key" | "recall" | "cited_by" => {
                self.memory(entry, &parts)
            }
            "connector" | "connector_state" | "chat" | "chat_recent" | "chat_message" => {
                self.workspace(entry, &parts)
            }
            "subscription" | "subscription_id" | "webhook" | "inbound_webhook" => {
                self.endpoint(entry, &parts)
            }
            "audit" | "audit_actor" | "idempotency" | "event" | "due" => {
                self.operation(entry, &parts)
            }
            family if family.ends_with("_count") => {
                let count = value(entry)?;
                self.counters.insert(entry.key.clone(), count);
                Ok(Vec::new())
            }
            _ => Err("of no family that this program knows".to_owned()),
        }
    }

    /// Families that at most belong to something.
    fn plain(&self, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
        Ok(match parts.0[0] {
            "meta" => Vec::new(),
            "source" => vec![Claim::Exists(keys::org(parts.org()?))],
            _ => {
                value::<Timestamp>(entry)?;
                vec![Claim::Exists(keys::workspace(
                    parts.org()?,
                    parts.workspace()?,
                ))]
            }
        })
    }

    fn organization(&mut self, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
        let slug = || parts.0.last().copied().unwrap_or_default();
        Ok(match parts.0[0] {
            "org" => {
                let org: Organization = value(entry)?;
                vec![Claim::Says(keys::org_slug(&org.slug), json!(org.id))]
            }
            "org_slug" => {
                let org: OrgId = value(entry)?;
                vec![Claim::Says(keys::org(org), json!({ "slug": slug() }))]
            }
            "workspace" => {
                let (org, workspace) = (parts.org()?, value::<Workspace>(entry)?);
                let slug = keys::workspace_slug(org, &workspace.slug);
                vec![
                    Claim::Exists(keys::org(org)),
                    Claim::Says(slug, json!(workspace.id)),
                ]
            }
            "workspace_slug" => {
                let key = keys::workspace(parts.org()?, value(entry)?);
                vec![Claim::Says(key, json!({ "slug": slug() }))]
            }
            "member" => {
                let (org, member) = (parts.org()?, value::<Member>(entry)?);
                let is_user = member.kind == MemberKind::User;
                self.count(keys::member_count(org), i64::from(is_user));
                let mut claims = self.held(org, member.role, member.id, None)?;
                let handle = keys::member_handle(org, &member.handle);
                claims.push(Claim::Says(handle, json!(member.id)));
                claims.push(Claim::Exists(keys::org(org)));
                claims
            }
            "former_member" => {
                value::<Timestamp>(entry)?;
                let (org, member) = (parts.org()?, MemberId(parts.id(2)?));
                vec![
                    Claim::Exists(keys::org(org)),
                    Claim::Absent(keys::member(org, member)),
                ]
            }
            _ => {
                let key = keys::member(parts.org()?, value(entry)?);
                vec![Claim::Says(key, json!({ "handle": slug() }))]
            }
        })
    }

    /// A role is held: it exists or leads to one that does, is counted there, and the holder is marked.
    fn held(
        &mut self,
        org: OrgId,
        role: RoleRef,
        member: MemberId,
        workspace: Option<WorkspaceId>,
    ) -> Claims {
        let resolved = self.resolve(org, role);
        let resolved = resolved.ok_or_else(|| format!("the role {role} does not exist"))?;
        self.count(keys::holder_count(org, resolved), 1);
        Ok(match role {
            RoleRef::BuiltIn(_) => Vec::new(),
            RoleRef::Custom(id) => vec![Claim::Exists(keys::holder(org, id, member, workspace))],
        })
    }

    fn role(&mut self, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
        let org = parts.org()?;
        Ok(match parts.0[0] {
            "workspace_role" => {
                let (member, workspace) = (MemberId(parts.id(2)?), WorkspaceId(parts.id(3)?));
                let mut claims = self.held(org, value(entry)?, member, Some(workspace))?;
                claims.push(present_or_former(org, member));
                claims.push(Claim::Exists(keys::workspace(org, workspace)));
                claims
            }
            "role" => {
                let role: CustomRole = value(entry)?;
                self.count(keys::role_count(org), 1);
                let slug = keys::role_slug(org, &role.slug);
                let mut claims = vec![Claim::Says(slug, json!(role.id))];
                let workspace = role.workspace_id;
                claims.extend(workspace.map(|id| Claim::Exists(keys::workspace(org, id))));
                claims
            }
            "role_slug" => {
                let slug = parts.0.last().copied().unwrap_or_default();
                let role = keys::role(org, value(entry)?);
                vec![Claim::Says(role, json!({ "slug": slug }))]
            }
            "role_redirect" => {
                let role = RoleId(parts.id(2)?);
                if self.resolve(org, RoleRef::Custom(role)).is_none() {
                    return Err("leads to no role".to_owned());
                }
                let counter = keys::holder_count(org, RoleRef::Custom(role));
                vec![Claim::Absent(keys::role(org, role)), Claim::Absent(counter)]
            }
            _ => {
                let role = RoleId(parts.id(2)?);
                let held = json!(RoleRef::Custom(role));
                let holder = keys::parse_holder(&entry.key);
                let (member, workspace) = holder.ok_or("not a holder")?;
                vec![match workspace {
                    None => Claim::Says(keys::member(org, member), json!({ "role": held })),
                    Some(workspace) => {
                        Claim::Says(keys::workspace_role(org, member, workspace), held)
                    }
                }]
            }
        })
    }

    fn credential(&mut self, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
        Ok(match parts.0[0] {
            "credential" => {
                let record: CredentialRecord = value(entry)?;
                let by_id = keys::credential_id(record.org_id, record.id);
                let due = Due::record(entry.key.clone()).and(by_id.clone());
                vec![
                    Claim::Says(by_id, json!(parts.0.last())),
                    present_or_former(record.org_id, record.member_id),
                    Claim::Due(record.expires_at, due),
                ]
            }
            "credential_id" => {
                let hash: String = value(entry)?;
                let hash = hash.parse().map_err(|_| "not a hash")?;
                let id = CredentialId(parts.id(2)?);
                vec![Claim::Says(keys::credential(hash), json!({ "id": id }))]
            }
            "mcp_key" => {
                let (org, workspace) = (parts.org()?, parts.workspace()?);
                let counter = keys::mcp_key_count(org, workspace);
                self.count(counter.clone(), 1);
                let key: McpKey = value(entry)?;
                let due = Due::record(entry.key.clone())
                    .and(keys::mcp_key_use(org, workspace, key.id))
                    .counted_by(counter);
                vec![
                    Claim::Exists(keys::workspace(org, workspace)),
                    Claim::Due(key.expires_at, due),
                ]
            }
            _ => {
                let id = CredentialId(parts.id(3)?);
                let key = keys::mcp_key(parts.org()?, parts.workspace()?, id);
                vec![Claim::Exists(key)]
            }
        })
    }

    fn memory(&mut self, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
        let org = parts.org()?;
        Ok(match parts.0[0] {
            "memory" => {
                let (id, labels) = (MemoryId(parts.id(2)?), value::<MemoryLabels>(entry)?);
                let workspace = labels.workspace_id;
                let is_pending = labels.review == ReviewStatus::Pending;
                self.count(keys::memory_count(org, workspace), 1);
                self.count(keys::pending_count(org, workspace), i64::from(is_pending));
                vec![
                    Claim::Exists(keys::workspace(org, workspace)),
                    Claim::Exists(keys::source(org, labels.source_id)),
                    Claim::Exists(keys::content(org, id)),
                    Claim::Exists(keys::workspace_memory(org, workspace, id)),
                ]
            }
            "content" => {
                let content: MemoryContent = value(entry)?;
                let has_name = content.source_key.is_some();
                *self.names.entry(org).or_default() += i64::from(has_name);
                vec![Claim::Exists(keys::memory(org, MemoryId(parts.id(2)?)))]
            }
            "workspace_memory" => {
                let key = keys::memory(org, MemoryId(parts.id(3)?));
                vec![Claim::Says(
                    key,
                    json!({ "workspace_id": parts.workspace()? }),
                )]
            }
            "source_key" => {
                *self.names.entry(org).or_default() -= 1;
                let (id, origin) = (value(entry)?, SourceId(parts.id(3)?));
                vec![
                    Claim::Says(
                        keys::memory(org, id),
                        json!({ "workspace_id": parts.workspace()? }),
                    ),
                    Claim::Says(
                        keys::content(org, id),
                        json!({ "origin_source_id": origin }),
                    ),
                ]
            }
            "recall" => {
                let recall: Recall = value(entry)?;
                let cited = recall.memory_ids.iter();
                let cited =
                    cited.map(|memory| Claim::Exists(keys::cited_by(org, *memory, recall.id)));
                cited
                    .chain([Claim::Exists(keys::workspace(org, recall.workspace_id))])
                    .collect()
            }
            _ => {
                // The memory may be deleted since: those who subscribed to the recall hear of it by this mark.
                vec![Claim::Exists(keys::recall(org, RecallId(parts.id(3)?)))]
            }
        })
    }

    fn workspace(&mut self, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
        let org = parts.org()?;
        Ok(match parts.0[0] {
            "connector" => {
                let (workspace, id) = (parts.workspace()?, ConnectorId(parts.id(3)?));
                self.count(keys::connector_count(org, workspace), 1);
                vec![
                    Claim::Exists(keys::workspace(org, workspace)),
                    Claim::Exists(keys::connector_state(org, workspace, id)),
                ]
            }
            "connector_state" => {
                let (workspace, connector) = (parts.workspace()?, ConnectorId(parts.id(3)?));
                let state: Value = value(entry)?;
                let look_at: Option<Timestamp> =
                    serde_json::from_value(state["look_at"].clone()).map_err(|_| "no time")?;
                let due = |at| {
                    let due = Due::Connector {
                        org,
                        workspace,
                        connector,
                    };
                    Claim::Due(at, due)
                };
                let mut claims = vec![Claim::Exists(keys::connector(org, workspace, connector))];
                claims.extend(look_at.map(due));
                claims
            }
            "chat" => {
                let (workspace, chat) = (parts.workspace()?, value::<Chat>(entry)?);
                let recent = keys::chat_recent(org, workspace, chat.last_message_at, chat.id);
                vec![
                    Claim::Exists(keys::workspace(org, workspace)),
                    Claim::Exists(recent),
                ]
            }
            "chat_recent" => {
                let (chat, summary) = (ChatId(parts.id(4)?), value::<Value>(entry)?);
                let at = &summary["last_message_at"];
                let key = keys::chat(org, parts.workspace()?, chat);
                vec![Claim::Says(key, json!({ "last_message_at": at }))]
            }
            _ => vec![Claim::Exists(keys::org(org))],
        })
    }

    fn endpoint(&mut self, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
        let org = parts.org()?;
        Ok(match parts.0[0] {
            "subscription" => {
                let recall = RecallId(parts.id(2)?);
                let stored: SealedRecord<CitationSubscription> = value(entry)?;
                let by_id = keys::subscription_id(org, stored.record.id);
                self.count(keys::subscription_count(org, recall), 1);
                vec![
                    Claim::Exists(keys::recall(org, recall)),
                    Claim::Says(by_id, json!(recall)),
                ]
            }
            "subscription_id" => {
                let (id, recall) = (SubscriptionId(parts.id(2)?), value(entry)?);
                vec![Claim::Exists(keys::subscription(org, recall, id))]
            }
            "webhook" => {
                value::<SealedRecord<Webhook>>(entry)?;
                self.count(keys::webhook_count(org, parts.workspace()?), 1);
                vec![Claim::Exists(keys::workspace(org, parts.workspace()?))]
            }
            _ => {
                value::<SealedRecord<InboundWebhook>>(entry)?;
                self.count(keys::inbound_webhook_count(org, parts.workspace()?), 1);
                vec![Claim::Exists(keys::workspace(org, parts.workspace()?))]
            }
        })
    }

    fn operation(&mut self, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
        Ok(match parts.0[0] {
            "audit" => vec![Claim::Exists(keys::org(parts.org()?))],
            "audit_actor" => {
                let (org, actor) = (parts.org()?, MemberId(parts.id(2)?));
                vec![
                    Claim::Exists(keys::audit(org, AuditLogId(parts.id(3)?))),
                    present_or_former(org, actor),
                ]
            }
            "idempotency" => {
                let (org, record) = (parts.org()?, value::<IdempotencyRecord>(entry)?);
                let due = Due::record(entry.key.clone());
                vec![
                    Claim::Exists(keys::audit(org, record.first_audit_id)),
                    Claim::Due(record.expires_at, due),
                ]
            }
            "event" => {
                let event: crate::service::Event = value(entry)?;
                vec![Claim::Exists(keys::workspace(
                    event.org_id,
                    event.workspace_id,
                ))]
            }
            _ => {
                if let Due::Redirects(org) = value(entry)? {
                    self.settled.insert(org);
                }
                Vec::new()
            }
        })
    }
}
