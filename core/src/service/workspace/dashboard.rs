//! Dashboard summary of a workspace.
//!
//! It never scans memories: each count is a counter that the commits maintain, so its cost does not
//! grow with the number of memories. While nothing has changed, it is not made again.

use std::collections::HashSet;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::digest::{etag, hex};
use crate::error::Error;
use crate::keys;
use crate::model::{
    Checklist, ChecklistStep, ChecklistTier, ConnectorHealth, DashboardSummary, EndedReason,
    McpKeySummary, OrgId, Timestamp, Workspace, WorkspaceId, WorkspaceSummary,
};
use crate::operation::Operation;
use crate::service::access::created::Endings;
use crate::service::access::principal::Delegator;
use crate::service::connectors::health::ConnectorState;
use crate::service::connectors::types::Connector;
use crate::service::generations::Generations;
use crate::service::operation::Prefetch;
use crate::service::workspace::dashboard_cache::{Asking, Dashboard};
use crate::service::workspace::dashboard_chats::{RecentChats, chats_read};
use crate::service::workspace::mcp_key_types::McpKey;
use crate::service::{Caller, WithEtag, Workspaces};
use crate::store::{
    Entry, Key, KeyEntry, RangeRead, StoreError, Transaction, decode_value, read_json,
};

/// # Dashboard
impl Workspaces<'_> {
    /// Returns the dashboard summary of a workspace, with a weak entity tag.
    ///
    /// Its chats are those that the caller takes part in, among the newest 2,000 of the workspace.
    ///
    /// The tag changes when the summary does. It is derived from the values that were read, and
    /// from the next time at which the summary changes without a write.
    ///
    /// # Errors
    /// Those of [`Operation::GetDashboardSummary`].
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../example.txt")]
    /// let dashboard = service.workspaces().get_dashboard_summary(&owner, workspace).await?;
    /// assert_eq!(dashboard.value.review_backlog_count, 0);
    /// let steps = dashboard.value.first_value_checklist.required;
    /// let next = steps.iter().find(|step| !step.completed);
    /// println!("Next step: {}", next.map_or("none", |step| &step.label));
    ///
    /// // A client that polls compares the tags.
    /// let new = CreateMemory::builder().source_id(source).title("On call").content("Ask Ada.");
    /// service.memories().create(&owner, workspace, &new.build()).await?;
    /// assert_ne!(
    ///     service.workspaces().get_dashboard_summary(&owner, workspace).await?.etag,
    ///     dashboard.etag,
    /// );
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get_dashboard_summary(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
    ) -> Result<WithEtag<DashboardSummary>, Error> {
        let dashboard = self.dashboard(caller, workspace).await?;
        Ok(WithEtag {
            value: dashboard.summary.clone(),
            etag: dashboard.etag.clone(),
        })
    }

    /// Returns the dashboard of a workspace, as [`get_dashboard_summary`](Self::get_dashboard_summary)
    /// does.
    pub(crate) async fn dashboard(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
    ) -> Result<Arc<Dashboard>, Error> {
        let cache = &self.service.inner.dashboards;
        let store = &**self.service.store();
        let member = caller.acting_for().cloned();
        let asked = (Asking::by(caller.credential()), member, workspace);
        if let Some(dashboard) = cache.get(store, &asked, self.service.env().now()) {
            return Ok(dashboard);
        }
        let asked = &asked;
        self.service
            .perform(
                Operation::GetDashboardSummary,
                caller,
                |caller| async move {
                    let org = caller.org();
                    let areas = asked.0.key().into_iter().chain([keys::org(org)]);
                    let marks = Generations::take(store, areas);
                    let place = (org, workspace);
                    let last = cache.last(asked);
                    let ends = last.iter().flat_map(|last| last.owners.iter().copied());
                    let prefetch =
                        Facts::prefetch(org, workspace).and(Endings::prefetch(place, ends));
                    let next = |transaction: &Transaction| {
                        let read = RangeRead::all(keys::mcp_keys(org, workspace));
                        Endings::prefetch_page(transaction, place, Some(read), McpKey::delegator)
                    };
                    let op = caller.in_workspace_then(workspace, prefetch, &next);
                    let mut op = op.await?;
                    let retention = op.retention(workspace).await?;
                    let facts = Facts::take(&mut op.transaction, place).await?;
                    let of = (&op.principal, &retention, op.now);
                    let chats =
                        RecentChats::take(&mut op.transaction, place, &facts.chats, of).await?;
                    let owners = facts.owners()?;
                    let endings = op.endings(workspace, None, owners.clone()).await?;
                    let (dashboard, changes_at) =
                        facts.dashboard(&chats, op.workspace(), op.now, (&endings, owners))?;
                    let dashboard = Arc::new(dashboard);
                    // A running erasure takes away chats that are still stored. A dependent
                    // credential also ends with another one, whose mark is not among these.
                    let is_kept = op.principal.org.erasing.is_empty()
                        && !op.principal.is_dependent
                        && chats.is_prefetched;
                    let (marks, until) = match marks.filter(|_| is_kept) {
                        Some(marks) => {
                            let ends = [chats.expires_at, changes_at, op.principal.expires_at];
                            let until = ends.into_iter().flatten().min();
                            (marks, until.unwrap_or(Timestamp::MAX))
                        }
                        // At no time is it served again.
                        None => (Generations::none(), op.now),
                    };
                    let during = op.now..until;
                    cache.keep(asked.clone(), Arc::clone(&dashboard), marks, during);
                    op.done(dashboard)
                },
            )
            .await
    }
}

/// Records behind the dashboard, all of one point in time.
struct Facts {
    counts: Vec<Option<Entry>>,
    connectors: Vec<KeyEntry>,
    connector_states: Vec<KeyEntry>,
    mcp_keys: Vec<KeyEntry>,
    mcp_key_uses: Vec<KeyEntry>,
    /// Newest chats of the workspace, whoever takes part in them.
    chats: Vec<KeyEntry>,
}

/// Indices of the single keys in [`Facts::counts`].
#[derive(Clone, Copy)]
enum Count {
    Pending,
    Memories,
    LastIngest,
    Webhooks,
    Users,
}

impl Facts {
    /// Returns the single keys, in the order of [`Count`].
    fn keys(org: OrgId, workspace: WorkspaceId) -> [Key; 5] {
        [
            keys::pending_count(org, workspace),
            keys::memory_count(org, workspace),
            keys::last_ingest(org, workspace),
            keys::webhook_count(org, workspace),
            keys::member_count(org),
        ]
    }

    /// Returns the reads of the ranges, in the order of the fields.
    fn reads(org: OrgId, workspace: WorkspaceId) -> [RangeRead; 5] {
        [
            RangeRead::all(keys::connectors(org, workspace)),
            RangeRead::all(keys::connector_states(org, workspace)),
            RangeRead::all(keys::mcp_keys(org, workspace)),
            RangeRead::all(keys::mcp_key_uses(org, workspace)),
            chats_read(org, workspace),
        ]
    }

    /// Returns the reads of everything.
    fn prefetch(org: OrgId, workspace: WorkspaceId) -> Prefetch {
        let ranges = Self::reads(org, workspace);
        let retention = keys::retention(org, workspace);
        Prefetch::keys(Self::keys(org, workspace))
            .and_keys([retention])
            .and_ranges(ranges)
    }

    /// Takes everything that was prefetched in one call, so that it is consistent.
    async fn take(
        transaction: &mut Transaction,
        (org, workspace): (OrgId, WorkspaceId),
    ) -> Result<Self, StoreError> {
        let counts = Self::keys(org, workspace);
        let counts = transaction.unchecked().get_many::<Entry>(&counts).await?;
        let [connectors, states, mcp_keys, uses, chats] = Self::reads(org, workspace);
        Ok(Self {
            counts,
            connectors: transaction.scan(&connectors).await?,
            connector_states: transaction.scan(&states).await?,
            mcp_keys: transaction.scan(&mcp_keys).await?,
            mcp_key_uses: transaction.scan(&uses).await?,
            chats: transaction.scan(&chats).await?,
        })
    }

    /// Returns on whose behalf the MCP keys act, each once.
    fn owners(&self) -> Result<Vec<Delegator>, Error> {
        let (mut owners, mut seen) = (Vec::new(), HashSet::new());
        for found in &self.mcp_keys {
            let owner = decode_value::<McpKey>(found)?.delegator();
            if seen.insert(owner) {
                owners.push(owner);
            }
        }
        Ok(owners)
    }

    /// Returns the dashboard, and the earliest time at which a connector status or the expiry of a key
    /// changes it without a write.
    fn dashboard(
        &self,
        chats: &RecentChats,
        workspace: &Workspace,
        now: Timestamp,
        (endings, owners): (&Endings, Vec<Delegator>),
    ) -> Result<(Dashboard, Option<Timestamp>), Error> {
        let (connector_health, changes_at) = self.connector_health(&workspace.slug, now)?;
        let (mcp_keys, expires_at) = self.mcp_keys(workspace.id, now, endings)?;
        let changes_at = changes_at.into_iter().chain(expires_at).min();
        let etag = self.etag(chats, &mcp_keys, workspace, changes_at);
        let (has_mcp_key, has_chat) = (!mcp_keys.is_empty(), chats.has_any);
        let summary = DashboardSummary {
            review_backlog_count: self.count(Count::Pending)?,
            first_value_checklist: self.checklist(&workspace.slug, has_mcp_key, has_chat)?,
            connector_health,
            mcp_keys,
            recent_chats: chats.shown.clone(),
            workspace: WorkspaceSummary {
                id: workspace.id,
                name: workspace.name.clone(),
                slug: workspace.slug.clone(),
                audience: workspace.audience.clone(),
                last_ingest_at: self.last_ingest_at()?,
            },
        };
        Ok((Dashboard::new(summary, etag, owners), changes_at))
    }

    fn count(&self, count: Count) -> Result<u64, Error> {
        let Some(entry) = &self.counts[count as usize] else {
            return Ok(0);
        };
        let number: i64 =
            read_json(&entry.value).map_err(|_| Error::internal("a counter is not a number"))?;
        Ok(u64::try_from(number).unwrap_or(0))
    }

    fn last_ingest_at(&self) -> Result<Option<Timestamp>, Error> {
        let entry = self.counts[Count::LastIngest as usize].as_ref();
        entry
            .map(|entry| read_json(&entry.value))
            .transpose()
            .map_err(|_| Error::internal("the time of the last ingest is not a timestamp"))
    }

    /// Returns the health of each connector, and the next time at which one changes by itself.
    fn connector_health(
        &self,
        workspace_slug: &str,
        now: Timestamp,
    ) -> Result<(Vec<ConnectorHealth>, Option<Timestamp>), Error> {
        let mut shown = Vec::with_capacity(self.connectors.len());
        let mut changes_at: Option<Timestamp> = None;
        for found in &self.connectors {
            let connector: Connector = decode_value(found)?;
            let state: ConnectorState =
                same_id(&found.key, &self.connector_states)?.unwrap_or_default();
            let health = state.health(&connector, now);
            changes_at = changes_at.into_iter().chain(health.changes_at).min();
            shown.push(state.summary(&connector, workspace_slug, health));
        }
        Ok((shown, changes_at))
    }

    /// Returns the keys that have not expired, and the next time at which one expires.
    fn mcp_keys(
        &self,
        workspace: WorkspaceId,
        now: Timestamp,
        endings: &Endings,
    ) -> Result<(Vec<McpKeySummary>, Option<Timestamp>), Error> {
        let mut shown = Vec::with_capacity(self.mcp_keys.len());
        let mut changes_at: Option<Timestamp> = None;
        for found in &self.mcp_keys {
            let key: McpKey = decode_value(found)?;
            if now < key.expires_at {
                changes_at = changes_at.into_iter().chain([key.expires_at]).min();
                let last_used_at = same_id(&found.key, &self.mcp_key_uses)?;
                let ending = endings.of(&key.delegator());
                shown.push(key.summary(workspace, last_used_at, ending));
            }
        }
        Ok((shown, changes_at))
    }

    fn checklist(
        &self,
        workspace_slug: &str,
        has_mcp_key: bool,
        has_chat: bool,
    ) -> Result<Checklist, Error> {
        let memories = self.count(Count::Memories)?;
        let step =
            |tier, (step_id, label, cta_label): (&str, &str, &str), completed| ChecklistStep {
                step_id: step_id.to_owned(),
                label: label.to_owned(),
                cta_label: cta_label.to_owned(),
                completed,
                required: tier == ChecklistTier::Required,
                tier,
                workspace_slug: workspace_slug.to_owned(),
            };
        let required = |texts, completed| step(ChecklistTier::Required, texts, completed);
        let suggested = |texts, completed| step(ChecklistTier::Suggested, texts, completed);
        let has_colleagues = self.count(Count::Users)? > 1;
        let has_webhooks = self.count(Count::Webhooks)? > 0;
        let is_reviewed = memories > 0 && self.count(Count::Pending)? == 0;
        Ok(Checklist {
            required: vec![
                required(
                    ("connect_source", "Connect a source", "Connect"),
                    !self.connectors.is_empty(),
                ),
                required(
                    ("ingest_first_memory", "Bring in the first memory", "Import"),
                    memories > 0,
                ),
                required(
                    ("create_mcp_key", "Create an MCP key", "Create key"),
                    has_mcp_key,
                ),
            ],
            suggested: vec![
                suggested(
                    ("invite_teammate", "Invite a teammate", "Invite"),
                    has_colleagues,
                ),
                suggested(
                    ("ask_first_question", "Ask the first question", "Ask"),
                    has_chat,
                ),
                suggested(
                    ("add_webhook", "Add a webhook", "Add webhook"),
                    has_webhooks,
                ),
                suggested(
                    ("clear_review_backlog", "Clear the review backlog", "Review"),
                    is_reviewed,
                ),
            ],
        })
    }

    /// Returns the weak entity tag of the summary.
    ///
    /// It covers every value that was read and the next time at which the summary changes without a
    /// write; once that time has passed, there is a later one, and the tag differs. Versions are
    /// unsuitable: they start again in a restored store, so an old tag could recur for other
    /// content.
    fn etag(
        &self,
        chats: &RecentChats,
        mcp_keys: &[McpKeySummary],
        workspace: &Workspace,
        changes_at: Option<Timestamp>,
    ) -> String {
        let mut digest = Sha256::new();
        digest.update(workspace.id.0);
        // Only the fields that the summary shows.
        for text in [
            &workspace.name,
            &workspace.slug,
            &workspace.audience.to_string(),
        ] {
            digest.update(length(text.len()));
            digest.update(text);
        }
        for entry in &self.counts {
            let value = entry.as_ref().map_or(&[][..], |entry| &entry.value);
            digest.update(length(value.len()));
            digest.update(value);
        }
        let ranges = [
            &self.connectors,
            &self.connector_states,
            &self.mcp_keys,
            &self.mcp_key_uses,
        ];
        for range in ranges {
            digest.update(length(range.len()));
            for found in range {
                for bytes in [found.key.as_bytes(), &found.entry.value] {
                    digest.update(length(bytes.len()));
                    digest.update(bytes);
                }
            }
        }
        // The end of a key follows from records of its creator.
        for key in mcp_keys {
            let ended_at = key.ended_at.map_or(i64::MAX, Timestamp::as_millis);
            let reason = key.ended_reason.map_or("", EndedReason::as_str);
            digest.update(key.state.as_str());
            digest.update(length(reason.len()));
            digest.update(reason);
            digest.update(ended_at.to_be_bytes());
        }
        digest.update([u8::from(chats.has_any)]);
        for chat in &chats.shown {
            digest.update(chat.session_id.0);
            digest.update(chat.last_message_at.as_millis().to_be_bytes());
            for text in [&chat.title, &chat.snippet] {
                digest.update(length(text.len()));
                digest.update(text);
            }
        }
        digest.update(
            changes_at
                .map_or(i64::MAX, Timestamp::as_millis)
                .to_be_bytes(),
        );
        format!("W/{}", etag(hex(digest.finalize())))
    }
}

/// Returns the entry of another family for the same resource.
///
/// Both keys end with its identifier.
pub(super) fn same_id<T: serde::de::DeserializeOwned>(
    key: &Key,
    others: &[KeyEntry],
) -> Result<Option<T>, StoreError> {
    let id = keys::last_id(key);
    others
        .iter()
        .find(|other| keys::last_id(&other.key) == id)
        .map(decode_value)
        .transpose()
}

/// Encodes a length for the digest, independently of the word size of the target.
fn length(length: usize) -> [u8; 8] {
    (length as u64).to_be_bytes()
}
