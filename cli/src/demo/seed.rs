//! Seeding of the demo: two weeks of an organisation, by operations of the service.

use std::sync::Arc;
use std::time::Duration;

use knowledge_core::Error;
use knowledge_core::access::RoleRef;
use knowledge_core::env::{Env, OsRandomness};
use knowledge_core::limits::{BULK_MEMORIES_MAX, INGEST_MEMORIES_MAX};
use knowledge_core::model::{
    AudienceScope, BulkUpdate, CustomRoleUpdate, MemoryChange, MemoryId, ReviewStatus,
    SensitivityLabel, SourceId, Timestamp, Workspace,
};
use knowledge_core::service::{
    IdempotencyKey, KnowledgeService, MemberAssignment, NewMemory, OpenError, Options,
};
use knowledge_core::store::Store;

use super::clock::HistoryClock;
use super::data::{ORGANIZATION, cast, org_slug};
use super::history;
use super::stage::{CITED, Stage};
use super::state::{Demo, MEMORY_IDS_MAX};
use super::text::{Draft, Writer};
use crate::progress::Progress;

/// Age of the first record.
const HISTORY: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// Age of the last memories, and delay of the first ones after the start of the history.
const LAST_INGEST: Duration = Duration::from_secs(18 * 60);
/// Delay of the reviews after the memories.
const REVIEW_DELAY: Duration = Duration::from_secs(3 * 60 * 60);
/// Memories per ingest.
const BATCH: usize = INGEST_MEMORIES_MAX;
/// Memories per bulk update.
const BULK: usize = BULK_MEMORIES_MAX;
/// One memory in this many is in the second workspace.
const SECOND_WORKSPACE_SHARE: u64 = 5;

/// Parameters of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Number of memories, at least 3.
    pub(crate) memories: u64,
    /// Seed of the texts.
    pub(crate) seed: u64,
    /// End of the history.
    pub(crate) now: Timestamp,
}

/// Creates the demo in an empty store, without tokens, which are issued at the present time.
pub(crate) async fn seed(
    store: Arc<dyn Store>,
    options: Options,
    plan: Plan,
) -> Result<Demo, Error> {
    let clock = HistoryClock::at(plan.now.minus(HISTORY));
    let env = Env::new(clock.clone(), OsRandomness);
    let service =
        KnowledgeService::open(store, env, options)
            .await
            .map_err(|error| match error {
                OpenError::Store(error) => error.into(),
                other => Error::internal(other.to_string()),
            })?;
    let mut seeding = Seeding {
        stage: Stage::create(service, clock, plan.now).await?,
        writer: Writer::new(plan.seed),
        progress: Progress::begin("creating the demo", Some(plan.memories)),
        ingested: 0,
    };
    let created = seeding.run(plan).await;
    seeding.progress.end();
    created
}

/// State of the seeding.
struct Seeding {
    stage: Stage,
    writer: Writer,
    progress: Progress,
    ingested: u64,
}

impl Seeding {
    async fn run(&mut self, plan: Plan) -> Result<Demo, Error> {
        create_roles(&self.stage).await?;
        let sources = create_sources(&self.stage).await?;
        let in_second = plan.memories / SECOND_WORKSPACE_SHARE;
        let in_first = plan.memories - in_second;
        let [main, other] = &ORGANIZATION.workspaces;
        let [main, other] = [main, other].map(|place| self.stage.workspace(&place.slug).clone());
        let first = self.ingest(&main, &sources, in_first).await?;
        self.ingest(&other, &sources, in_second).await?;
        let created = history::create(&self.stage, &first).await?;
        let stage = &self.stage;
        Ok(Demo {
            org_id: stage.org,
            workspace_id: main.id,
            bearer_member: stage.member(&cast().admin),
            bearer_token: String::new(),
            session_member: stage.member(&cast().owner),
            session_token: String::new(),
            recall_id: created.recall,
            memory_ids: first.into_iter().take(MEMORY_IDS_MAX).collect(),
            healthy_connector: created.healthy_connector,
            degraded_connector: created.degraded_connector,
            memories: plan.memories,
            memories_in_first: in_first,
        })
    }

    /// Ingests memories batch by batch over the two weeks, each followed by its reviews.
    async fn ingest(
        &mut self,
        workspace: &Workspace,
        sources: &[SourceId],
        count: u64,
    ) -> Result<Vec<MemoryId>, Error> {
        let bot = self.stage.act_as(&cast().bot);
        let mut ids = Vec::new();
        let mut decisions = Decisions::default();
        let kinds = ORGANIZATION
            .sources
            .iter()
            .map(|source| source.kind.as_str());
        let mut batches = kinds.zip(sources).cycle();
        while (ids.len() as u64) < count {
            let Some((kind, source)) = batches.next() else {
                break;
            };
            let done = part(ids.len() as u64, count);
            let ago = LAST_INGEST + (HISTORY - 2 * LAST_INGEST).mul_f64(1.0 - done);
            self.stage.ago(ago);
            let left = usize::try_from(count).unwrap_or(usize::MAX) - ids.len();
            let drafts: Vec<_> = (0..left.min(BATCH))
                .map(|index| {
                    let is_first = ids.is_empty() && index < CITED;
                    self.writer.draft(kind, done, is_first)
                })
                .collect();
            let memories: Vec<_> = drafts.iter().map(|draft| draft.memory.clone()).collect();
            let service = &self.stage.service;
            let ingested = service
                .memories()
                .ingest(&bot, workspace.id, *source, &memories)
                .await?;
            for (draft, memory) in drafts.iter().zip(&ingested) {
                // Nothing has been erased here.
                if let Some(id) = memory.id {
                    decisions.note(draft, id);
                    ids.push(id);
                }
            }
            self.stage.ago(ago.saturating_sub(REVIEW_DELAY));
            decisions.apply(&self.stage, BULK).await?;
            self.ingested += ingested.len() as u64;
            self.progress.advance(self.ingested, self.ingested);
        }
        decisions.apply(&self.stage, 1).await?;
        Ok(ids)
    }
}

/// Returns the relative time of a batch that starts after `before` of `count` memories.
///
/// The first batch is at 0, the last at 1.
fn part(before: u64, count: u64) -> f64 {
    let last = count.saturating_sub(1) / BATCH as u64 * BATCH as u64;
    if last == 0 {
        1.0
    } else {
        before as f64 / last as f64
    }
}

/// Decisions on memories that are not yet written.
#[derive(Default)]
struct Decisions {
    by_curator: Reviews,
    by_admin: Reviews,
    restricted: Vec<MemoryId>,
}

/// Reviews by one member.
#[derive(Default)]
struct Reviews {
    approved: Vec<MemoryId>,
    rejected: Vec<MemoryId>,
}

/// Returns true if the curator may read a memory, and so review it.
fn curator_reads(memory: &NewMemory) -> bool {
    let is_covered = memory.audience_tag.as_ref().is_none_or(|label| {
        let mut members = ORGANIZATION.members.iter();
        match label.scope() {
            AudienceScope::Org | AudienceScope::Workspace => true,
            AudienceScope::User => label.name() == cast().curator,
            AudienceScope::Team => members.any(|member| {
                let mut teams = member.teams.iter();
                member.handle == cast().curator && teams.any(|team| team == label.name())
            }),
        }
    });
    let sensitivity = memory.sensitivity_label.unwrap_or_default();
    is_covered && sensitivity <= SensitivityLabel::Internal
}

impl Decisions {
    fn note(&mut self, draft: &Draft, id: MemoryId) {
        let reviews = if curator_reads(&draft.memory) {
            &mut self.by_curator
        } else {
            &mut self.by_admin
        };
        match draft.verdict {
            ReviewStatus::Approved => reviews.approved.push(id),
            ReviewStatus::Rejected => reviews.rejected.push(id),
            ReviewStatus::Pending => {}
        }
        if draft.is_to_be_restricted {
            self.restricted.push(id);
        }
    }

    /// Writes the decisions of each kind if there are at least `least`.
    async fn apply(&mut self, stage: &Stage, least: usize) -> Result<(), Error> {
        let review = |status| MemoryChange::builder().review_status(status).build();
        let restrict = MemoryChange::builder()
            .sensitivity_label(SensitivityLabel::Restricted)
            .build();
        let (approve, reject) = (
            review(ReviewStatus::Approved),
            review(ReviewStatus::Rejected),
        );
        let cast = cast();
        for (ids, handle, change) in [
            (&mut self.by_curator.approved, &cast.curator, &approve),
            (&mut self.by_curator.rejected, &cast.curator, &reject),
            (&mut self.by_admin.approved, &cast.admin, &approve),
            (&mut self.by_admin.rejected, &cast.admin, &reject),
            (&mut self.restricted, &cast.admin, &restrict),
        ] {
            while ids.len() >= least {
                let memory_ids = ids.drain(..ids.len().min(BULK)).collect();
                bulk_update(stage, handle, memory_ids, change.clone()).await?;
            }
        }
        Ok(())
    }
}

async fn bulk_update(
    stage: &Stage,
    handle: &str,
    memory_ids: Vec<MemoryId>,
    change: MemoryChange,
) -> Result<(), Error> {
    let key: IdempotencyKey = format!("demo-{}", stage.service.env().uuid())
        .parse()
        .map_err(|error| Error::internal(format!("an idempotency key: {error}")))?;
    let request = BulkUpdate::builder()
        .memory_ids(memory_ids)
        .change(change)
        .build();
    let result = stage
        .service
        .memories()
        .bulk_update(&stage.act_as(handle), &key, &request)
        .await?;
    match result.summary.failed {
        0 => Ok(()),
        failed => Err(Error::internal(format!(
            "{failed} memories of the demo were rejected"
        ))),
    }
}

async fn create_roles(stage: &Stage) -> Result<(), Error> {
    let owner = stage.act_as(&cast().owner);
    let service = &stage.service;
    for role in &ORGANIZATION.roles {
        let mut new = role.new.clone();
        new.workspace_id = role.workspace.as_ref().map(|slug| stage.workspace(slug).id);
        let created = service.roles().create(&owner, org_slug(), &new).await?;
        let held = RoleRef::Custom(created.id);
        let assignment = match created.workspace_id {
            Some(workspace) => MemberAssignment::Workspace(workspace, Some(held)),
            None => MemberAssignment::Organization(held),
        };
        for holder in &role.holders {
            service
                .members()
                .assign_role(&owner, org_slug(), stage.member(holder), assignment)
                .await?;
        }
        if !role.is_active {
            let off = CustomRoleUpdate::builder().is_active(false).build();
            service
                .roles()
                .update(&owner, org_slug(), created.id, &off, None)
                .await?;
        }
    }
    Ok(())
}

async fn create_sources(stage: &Stage) -> Result<Vec<SourceId>, Error> {
    let admin = stage.act_as(&cast().admin);
    let mut sources = Vec::with_capacity(ORGANIZATION.sources.len());
    for source in &ORGANIZATION.sources {
        sources.push(stage.service.sources().create(&admin, source).await?.id);
    }
    Ok(sources)
}
