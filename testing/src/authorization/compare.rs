//! Comparison of the service with the rules, use by use.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::str::FromStr;

use super::probes::{MAIN, PROBES};
use super::site::{AUDIENCES, Case, SIDE, Site};
use super::{Access, Caller, Change, Directory, Labels, Scope, Use, Verdict};
use crate::requests::{new_recall, with};
use bytes::Bytes;
use http::Response;
use knowledge_core::Error;
use knowledge_core::access::{MemberRef, Secret};
use knowledge_core::model::{
    AccessCheck, AccessFilterOptions, AudienceScope, BulkItemErrorCode, BulkUpdate, MemoryChange,
    MemoryFilter, MemoryId, MemoryUpdate,
};
use knowledge_core::service::{self, PageRequest};
use serde_json::Value;

/// Number of random uses of single memories in a full comparison.
const USES_OF_FULL: usize = 60;

/// Audience labels that other records of the site have too.
const OF_RECORDS: [&str; 2] = ["org:acme", "workspace:main"];

/// How much of the uses and operations a comparison covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Every change of every memory, every operation, and every use of some memories.
    Full,
    /// One change of every memory, every operation, and some random uses.
    Operations,
    /// One change of every memory, and this many random uses and operations.
    Sample(usize),
}

/// Returns changes of memories, each of one label or of two.
fn changes() -> Vec<Change> {
    let mut changes = Vec::new();
    for audience in AUDIENCES {
        changes.push(Change {
            audience: Some(audience.to_owned()),
            ..Change::default()
        });
    }
    for sensitivity in ["public", "internal", "confidential", "restricted"] {
        changes.push(Change {
            sensitivity: Some(sensitivity.to_owned()),
            ..Change::default()
        });
    }
    for review in ["pending", "approved", "rejected"] {
        changes.push(Change {
            review: Some(review.to_owned()),
            ..Change::default()
        });
    }
    for (audience, sensitivity) in [("team:sales", "public"), ("user:olga", "restricted")] {
        changes.push(Change {
            audience: Some(audience.to_owned()),
            sensitivity: Some(sensitivity.to_owned()),
            review: Some("approved".to_owned()),
            ..Change::default()
        });
    }
    changes.push(Change {
        moves: true,
        ..Change::default()
    });
    changes
}

fn parse<T: FromStr<Err: Debug>>(name: &str) -> T {
    name.parse().expect("a name of the enumeration")
}

/// Returns the message of an error response, from its header or its body.
fn reason(response: &Response<Bytes>) -> String {
    if let Some(message) = response.headers().get("error-message") {
        return message.to_str().expect("the message is text").to_owned();
    }
    let body: Value = serde_json::from_slice(response.body()).expect("an error has a body");
    let message = body["message"].as_str();
    message.expect("an error has a message").to_owned()
}

/// Beginning of the reason for which a service account may do nothing with an action.
const WITHHELD: &str = "not permitted for another member: ";

/// Returns true if a refusal gives the true reason: an action that the caller lacks, or the
/// workspaces of its credential.
fn is_true_reason(reason: &str, operation: &str, by: &Access<'_>) -> bool {
    match reason.strip_prefix("missing permission ") {
        Some(action) => by.lacks(operation, action, MAIN),
        None if by.caller.via.is_some() && reason.starts_with(WITHHELD) => {
            let action = reason.trim_start_matches(WITHHELD);
            by.is_withheld(action) && by.lacks(operation, action, MAIN)
        }
        None => {
            reason == "outside the scope of this credential" && by.caller.scope.workspaces.is_some()
        }
    }
}

impl Site {
    /// Compares the service with the rules in one case.
    ///
    /// # Errors
    /// The first difference.
    ///
    /// # Panics
    /// If the service cannot be prepared for the case.
    pub async fn compare(&mut self, case: &Case, extent: Extent) -> Result<(), String> {
        let prepared = self.prepare(case).await.expect("the case is prepared");
        let (directory, caller, secret) = prepared;
        let differs = self.differs(&directory, caller, secret, extent).await;
        differs.map_err(|difference| format!("{difference}\n{case:#?}"))
    }

    async fn differs(
        &mut self,
        directory: &Directory,
        caller: Caller,
        secret: Secret,
        extent: Extent,
    ) -> Result<(), String> {
        let reference = self.reference;
        let session = Caller {
            scope: Scope::default(),
            via: None,
            ..caller.clone()
        };
        let session = reference.access(directory, session);
        let access = reference.access(directory, caller);
        let mut credential = service::Caller::from(secret.clone());
        if access.caller.via.is_some() {
            credential = credential.act_for(MemberRef::Handle(access.caller.handle.clone()));
        }
        let checked = self.check(&credential).await;
        let expected = self.expected(&access, &Use::Check);
        self.same(&Use::Check, &expected, &checked)?;
        let expected = self.expected(&access, &Use::Read);
        for slug in [MAIN, SIDE] {
            let is_listed = access.operation("listMemories", slug) == Verdict::Everything;
            if let Some(listed) = self.list(&credential, slug).await {
                self.same(&Use::Read, &self.listed(&expected, slug), &listed)?;
                if !is_listed {
                    return Err(format!("{slug} is listed"));
                }
            } else if is_listed {
                return Err(format!("{slug} is not listed"));
            }
            self.compare_labels(&access, &credential, slug).await?;
            self.compare_filter(&access, &credential, slug).await?;
        }
        self.compare_uses(&access, &credential, extent).await?;
        self.compare_operations(&access, &session, &secret, extent)
            .await
    }

    /// Compares the counts of the labels that no other records of the site have, and whether labels
    /// of workspaces cover anybody.
    async fn compare_labels(
        &self,
        access: &Access<'_>,
        credential: &service::Caller,
        slug: &str,
    ) -> Result<(), String> {
        let is_permitted = access.operation("listLabels", slug) == Verdict::Everything;
        let memories = self.dry.memories();
        let Ok(listed) = memories.labels(credential, self.workspaces[slug]).await else {
            return if is_permitted {
                Err(format!("the labels of {slug} are not listed"))
            } else {
                Ok(())
            };
        };
        if !is_permitted {
            return Err(format!("the labels of {slug} are listed"));
        }
        for shown in &listed.data {
            let (label, covers) = (&shown.label, shown.has_members);
            let is_of_workspace = label.scope() == AudienceScope::Workspace;
            if is_of_workspace && covers != access.knows(label.name()) {
                return Err(format!("{label} in {slug}: has_members is {covers}"));
            }
        }
        let reviews = access.actions_in(slug).contains("memory:review");
        for label in AUDIENCES {
            if OF_RECORDS.contains(&label) {
                continue;
            }
            let is_counted = |labels: &Labels| {
                let is_reviewed = reviews || labels.review == "approved";
                let is_there = labels.workspace == slug && labels.audience == label;
                is_there && is_reviewed && access.exists(labels)
            };
            let counted = self.memories.iter();
            let expected = counted.filter(|(_, labels)| is_counted(labels)).count() as u64;
            let mut shown = listed.data.iter();
            let shown = shown.find(|shown| shown.label.to_string() == label);
            let shown = shown.map_or(0, |shown| shown.memories);
            if shown != expected {
                let difference = format!("{shown} memories, not {expected}");
                return Err(format!("{label} in {slug}: {difference}"));
            }
        }
        Ok(())
    }

    /// Compares what the access filter of a workspace lets through.
    async fn compare_filter(
        &self,
        access: &Access<'_>,
        credential: &service::Caller,
        slug: &str,
    ) -> Result<(), String> {
        let is_permitted = access.operation("getAccessFilter", slug) == Verdict::Everything;
        for approved_only in [false, true] {
            let options = AccessFilterOptions::builder()
                .approved_only(approved_only)
                .build();
            let (memories, place) = (self.dry.memories(), self.workspaces[slug]);
            let filter = memories.access_filter(credential, place, &options).await;
            let Ok(filter) = filter.map(|filter| filter.value) else {
                return if is_permitted {
                    Err(format!("{slug} has no access filter"))
                } else {
                    Ok(())
                };
            };
            for (_, labels) in &self.memories {
                let is_admitted = labels.workspace == slug
                    && filter.audience_tags.contains(&parse(&labels.audience))
                    && filter
                        .sensitivity_labels
                        .contains(&parse(&labels.sensitivity))
                    && filter.review_statuses.contains(&parse(&labels.review));
                let is_expected = labels.workspace == slug
                    && is_permitted
                    && access.is_in_filter(labels, approved_only);
                if is_admitted != is_expected {
                    return Err(format!("{labels:?} in the filter: {is_admitted}"));
                }
            }
        }
        Ok(())
    }

    /// Returns the decisions on a use of each memory.
    fn expected(&self, access: &Access<'_>, wanted: &Use) -> Vec<Verdict> {
        let memories = self.memories.iter();
        memories
            .map(|(_, labels)| access.verdict(labels, wanted))
            .collect()
    }

    /// Compares changes of all memories, and uses of some of them.
    async fn compare_uses(
        &mut self,
        access: &Access<'_>,
        credential: &service::Caller,
        extent: Extent,
    ) -> Result<(), String> {
        let changes = changes();
        let count = if extent == Extent::Full {
            changes.len()
        } else {
            1
        };
        let first = self.random.usize(..changes.len());
        for change in changes.iter().cycle().skip(first).take(count) {
            let wanted = Use::BulkUpdate(change.clone());
            let updated = self.bulk_update(credential, change).await;
            self.same(&wanted, &self.expected(access, &wanted), &updated)?;
        }
        let uses = match extent {
            Extent::Full => USES_OF_FULL,
            Extent::Operations => 6,
            Extent::Sample(uses) => uses,
        };
        for _ in 0..uses {
            let change = Change {
                rewrites: self.random.bool(),
                ..changes[self.random.usize(..changes.len())].clone()
            };
            let others = [Use::Read, Use::Cite, Use::Delete];
            let wanted = match self.random.usize(..6) {
                other @ 0..3 => others[other].clone(),
                _ => Use::Update(change),
            };
            let (id, labels) = self.memories[self.random.usize(..self.memories.len())].clone();
            let verdict = access.verdict(&labels, &wanted);
            let actual = self.use_one(credential, id, &labels, &wanted).await;
            if verdict != actual {
                return Err(format!(
                    "{wanted:?} of {labels:?}: {actual:?}, not {verdict:?}"
                ));
            }
        }
        Ok(())
    }

    /// Compares what operations always require.
    async fn compare_operations(
        &mut self,
        access: &Access<'_>,
        session: &Access<'_>,
        token: &Secret,
        extent: Extent,
    ) -> Result<(), String> {
        let mut probes: Vec<_> = PROBES.iter().collect();
        if let Extent::Sample(count) = extent {
            self.random.shuffle(&mut probes);
            probes.truncate(count);
        }
        for probe in probes {
            let (by, secret) = if probe.by_session() {
                (session, &self.session)
            } else {
                (access, token)
            };
            let Some(verdict) = probe.verdict(by) else {
                continue;
            };
            let is_acting = by.caller.via.is_some();
            let response = self
                .api
                .handle(self.records.request(probe, secret, is_acting))
                .await;
            let status = response.status().as_u16();
            let agrees = match verdict {
                Verdict::Unknown => status == 404,
                Verdict::Forbidden => status == 403,
                Verdict::Labels | Verdict::Everything => status != 403 && status != 401,
            };
            if !agrees {
                return Err(format!("{probe:?}: {status}, not {verdict:?}"));
            }
            if verdict == Verdict::Forbidden {
                let reason = reason(&response);
                if !is_true_reason(&reason, probe.operation, by) {
                    return Err(format!("{probe:?}: the reason “{reason}”"));
                }
            }
        }
        Ok(())
    }

    fn same(&self, wanted: &Use, expected: &[Verdict], actual: &[Verdict]) -> Result<(), String> {
        let verdicts = expected.iter().zip(actual);
        for ((_, labels), (expected, actual)) in self.memories.iter().zip(verdicts) {
            if expected != actual {
                return Err(format!(
                    "{wanted:?} of {labels:?}: {actual:?}, not {expected:?}"
                ));
            }
        }
        Ok(())
    }

    fn ids(&self) -> Vec<MemoryId> {
        self.memories.iter().map(|(id, _)| *id).collect()
    }

    async fn check(&self, credential: &service::Caller) -> Vec<Verdict> {
        let check = AccessCheck::builder()
            .memory_ids(self.ids())
            .include_content(true)
            .build();
        let checked = self
            .dry
            .memories()
            .check_access(credential, &check)
            .await
            .expect("every caller may check");
        let items = checked.results.into_iter().map(|item| {
            assert_eq!(item.readable, item.content.is_some());
            assert_eq!(item.readable, item.title.is_some());
            match (item.readable, item.labels.is_some()) {
                (true, true) => Verdict::Everything,
                (false, true) => Verdict::Labels,
                (_, false) => Verdict::Unknown,
            }
        });
        items.collect()
    }

    /// Returns the verdicts of those memories that a list of a workspace does not leave out.
    fn listed(&self, verdicts: &[Verdict], slug: &str) -> Vec<Verdict> {
        let memories = self.memories.iter().zip(verdicts);
        let shown = memories.map(|((_, labels), verdict)| {
            if labels.workspace == slug {
                *verdict
            } else {
                Verdict::Unknown
            }
        });
        shown.collect()
    }

    /// Lists a workspace; `None` if the caller may not.
    async fn list(&self, credential: &service::Caller, slug: &str) -> Option<Vec<Verdict>> {
        let mut shown = BTreeMap::new();
        let mut page = with(PageRequest::default(), |page| page.limit = Some(200));
        loop {
            let filter = MemoryFilter::default();
            let listed =
                self.dry
                    .memories()
                    .list(credential, self.workspaces[slug], &filter, &page);
            let listed = listed.await.ok()?;
            for memory in listed.data {
                let verdict = match memory.title {
                    Some(_) => Verdict::Everything,
                    None => Verdict::Labels,
                };
                shown.insert(memory.id, verdict);
            }
            page.cursor = listed.next_cursor;
            if page.cursor.is_none() {
                break;
            }
        }
        let verdict = |id: &MemoryId| shown.get(id).copied().unwrap_or(Verdict::Unknown);
        Some(self.memories.iter().map(|(id, _)| verdict(id)).collect())
    }

    async fn bulk_update(&self, credential: &service::Caller, change: &Change) -> Vec<Verdict> {
        let update = BulkUpdate::builder()
            .memory_ids(self.ids())
            .change(self.change(change))
            .build();
        let key = "key".parse().expect("a key");
        let updated = self.dry.memories().bulk_update(credential, &key, &update);
        match updated.await {
            Err(Error::Forbidden { .. }) => vec![Verdict::Forbidden; self.memories.len()],
            Err(error) => panic!("{error}"),
            Ok(updated) => {
                let items = updated.results.into_iter();
                let verdict = |code| match code {
                    None => Verdict::Everything,
                    Some(BulkItemErrorCode::NotFound) => Verdict::Unknown,
                    Some(BulkItemErrorCode::Forbidden) => Verdict::Forbidden,
                };
                items
                    .map(|item| verdict(item.error.map(|error| error.code)))
                    .collect()
            }
        }
    }

    fn change(&self, change: &Change) -> MemoryChange {
        let sensitivity = change.sensitivity.as_ref();
        let status = change.review.as_ref();
        MemoryChange::builder()
            .maybe_audience_tag(change.audience.as_ref().map(|label| parse(label)))
            .maybe_sensitivity_label(sensitivity.map(|label| parse(label)))
            .maybe_review_status(status.map(|status| parse(status)))
            .maybe_source_id(change.moves.then_some(self.other_source))
            .build()
    }

    /// Uses one memory.
    async fn use_one(
        &self,
        credential: &service::Caller,
        id: MemoryId,
        labels: &Labels,
        wanted: &Use,
    ) -> Verdict {
        let dry = &self.dry;
        let done = match wanted {
            Use::Read => {
                let read = dry.memories().get(credential, id).await;
                let read = read.map(|memory| memory.value.content.is_some());
                if let Ok(false) = read {
                    return Verdict::Labels;
                }
                read.map(drop)
            }
            Use::Cite => {
                let place = self.workspaces[labels.workspace.as_str()];
                let cited = dry
                    .recalls()
                    .create(credential, place, &new_recall(&[id]))
                    .await;
                match cited {
                    Err(Error::InvalidRequest { .. }) => return Verdict::Unknown,
                    cited => cited.map(drop),
                }
            }
            Use::Update(change) => {
                let update = MemoryUpdate::builder()
                    .maybe_title(change.rewrites.then(|| "New title".to_owned()))
                    .change(self.change(change))
                    .build();
                dry.memories()
                    .update(credential, id, &update, None)
                    .await
                    .map(drop)
            }
            Use::Delete => dry.memories().delete(credential, id).await,
            Use::Check | Use::BulkUpdate(_) => unreachable!("these are for many memories"),
        };
        match done {
            Ok(()) => Verdict::Everything,
            Err(Error::NotFound { .. }) => Verdict::Unknown,
            Err(Error::Forbidden { .. }) => Verdict::Forbidden,
            Err(error) => panic!("{error}"),
        }
    }
}
