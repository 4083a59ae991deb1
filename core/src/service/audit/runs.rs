//! Stored form of audit entries about memories, without redundancy.
//!
//! A page lists its distinct labels, and its distinct outcomes with the labels before and after, which
//! refer to the labels by index. What remains for each memory is its identifier, packed, and for each
//! sequence of memories with one outcome a reference to it. An entry about an unknown memory thus takes
//! less than the identifier in the request, whatever its neighbours are: a bulk update of 1,000 such
//! memories stores 24 kB instead of the 157 kB that an entry for each would take.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use foldhash::fast::RandomState;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use uuid::Uuid;

use crate::model::{MemoryChange, MemoryId, MemoryLabels};
use crate::service::audit::entry::AuditOutcome;

/// Entries about memories, stored as runs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "StoredEntries")]
pub(crate) struct MemoryEntries {
    pub(crate) change: Option<MemoryChange>,
    pub(crate) entries: Vec<MemoryAudit>,
}

/// The outcome for one memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemoryAudit {
    pub(crate) memory_id: MemoryId,
    pub(crate) outcome: AuditOutcome,
    /// True if the actor decided the review of what it had written itself.
    pub(crate) is_own: bool,
    pub(crate) before: Option<MemoryLabels>,
    /// Labels after; `None` if they follow from `before` and the change of the page.
    pub(crate) after: Option<MemoryLabels>,
}

impl MemoryAudit {
    /// Returns the labels after the operation, if there are any.
    pub(crate) fn labels_after(&self, change: Option<&MemoryChange>) -> Option<MemoryLabels> {
        match (&self.after, &self.before, change) {
            (Some(after), _, _) => Some(after.clone()),
            (None, Some(before), Some(change)) if self.outcome == AuditOutcome::Ok => {
                Some(change.applied_to(before))
            }
            _ => None,
        }
    }
}

/// An outcome with the labels before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    #[serde(default = "ok", skip_serializing_if = "is_ok")]
    outcome: AuditOutcome,
    /// True if the actor decided the review of what it had written itself.
    #[serde(default, rename = "own", skip_serializing_if = "std::ops::Not::not")]
    is_own: bool,
    /// Index of the labels before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<usize>,
    /// Index of the labels after, unless they follow from the change of the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<usize>,
}

fn ok() -> AuditOutcome {
    AuditOutcome::Ok
}

fn is_ok(outcome: &AuditOutcome) -> bool {
    *outcome == AuditOutcome::Ok
}

impl Serialize for MemoryEntries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (labels, outcomes, order) = runs(&self.entries);
        let ids = self.entries.iter();
        let ids: Vec<u8> = ids
            .flat_map(|entry| *entry.memory_id.0.as_bytes())
            .collect();
        let mut stored = serializer.serialize_struct("MemoryEntries", 5)?;
        match &self.change {
            Some(change) => stored.serialize_field("change", change)?,
            None => stored.skip_field("change")?,
        }
        if labels.is_empty() {
            stored.skip_field("labels")?;
        } else {
            stored.serialize_field("labels", &labels)?;
        }
        stored.serialize_field("runs", &outcomes)?;
        stored.serialize_field("order", &order)?;
        stored.serialize_field("ids", &STANDARD_NO_PAD.encode(ids))?;
        stored.end()
    }
}

/// Distinct labels, in order of first use.
#[derive(Default)]
struct LabelTable<'l> {
    labels: Vec<&'l MemoryLabels>,
    places: HashMap<&'l MemoryLabels, usize, RandomState>,
    /// Index of the labels used last, which most entries share with their neighbour.
    last: usize,
}

impl<'l> LabelTable<'l> {
    /// Returns the index of labels, which are added if they are new.
    fn place(&mut self, labels: &'l MemoryLabels) -> usize {
        if self.labels.get(self.last) != Some(&labels) {
            self.last = *self.places.entry(labels).or_insert_with(|| {
                self.labels.push(labels);
                self.labels.len() - 1
            });
        }
        self.last
    }
}

/// Returns the distinct labels of entries and their distinct outcomes, in order of first use, and the
/// order of the outcomes: the index of one and its number of entries, then those of the next.
fn runs(entries: &[MemoryAudit]) -> (Vec<&MemoryLabels>, Vec<Run>, Vec<usize>) {
    let mut table = LabelTable::default();
    let mut runs: Vec<Run> = Vec::new();
    let mut order: Vec<usize> = Vec::new();
    for entry in entries {
        let run = Run {
            outcome: entry.outcome,
            is_own: entry.is_own,
            before: entry.before.as_ref().map(|labels| table.place(labels)),
            after: entry.after.as_ref().map(|labels| table.place(labels)),
        };
        if let [.., last, count] = order.as_mut_slice()
            && runs[*last] == run
        {
            *count += 1;
            continue;
        }
        let found = runs.iter().position(|found| *found == run);
        order.extend([found.unwrap_or(runs.len()), 1]);
        if found.is_none() {
            runs.push(run);
        }
    }
    (table.labels, runs, order)
}

/// Entries as they are stored.
#[derive(Deserialize)]
pub(crate) struct StoredEntries {
    change: Option<MemoryChange>,
    #[serde(default)]
    labels: Vec<MemoryLabels>,
    runs: Vec<Run>,
    /// Index of a run and number of consecutive entries with it, in turns.
    order: Vec<usize>,
    /// Identifiers of the memories, packed.
    ids: String,
}

impl TryFrom<StoredEntries> for MemoryEntries {
    type Error = String;

    fn try_from(stored: StoredEntries) -> Result<Self, String> {
        let labels = |place: Option<usize>| {
            let found = |place| {
                let found = stored.labels.get(place).cloned();
                found.ok_or_else(|| format!("the page has no labels at index {place}"))
            };
            place.map(found).transpose()
        };
        let mut ids = unpacked(&stored.ids)?.into_iter();
        let mut entries = Vec::with_capacity(ids.len());
        for order in stored.order.chunks(2) {
            let [index, count] = *order else {
                return Err("the last run of the page has no length".to_owned());
            };
            let run = stored.runs.get(index);
            let run = run.ok_or_else(|| format!("the page has no run at index {index}"))?;
            for _ in 0..count {
                let id = ids.next();
                entries.push(MemoryAudit {
                    memory_id: id.ok_or("the page has fewer identifiers than entries")?,
                    outcome: run.outcome,
                    is_own: run.is_own,
                    before: labels(run.before)?,
                    after: labels(run.after)?,
                });
            }
        }
        if ids.next().is_some() {
            return Err("the page has more identifiers than entries".to_owned());
        }
        Ok(Self {
            change: stored.change,
            entries,
        })
    }
}

/// Returns the identifiers of packed ones.
fn unpacked(ids: &str) -> Result<Vec<MemoryId>, &'static str> {
    let bytes = STANDARD_NO_PAD.decode(ids).unwrap_or_else(|_| vec![0]);
    let (ids, rest) = bytes.as_chunks::<16>();
    if !rest.is_empty() {
        return Err("the identifiers of the page are unreadable");
    }
    let ids = ids.iter().map(|id| MemoryId(Uuid::from_bytes(*id)));
    Ok(ids.collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::access::Action;
    use crate::model::{ReviewStatus, SensitivityLabel, SourceId, WorkspaceId};
    use crate::service::access::principal::Denial;

    fn labels(audience: &str) -> MemoryLabels {
        MemoryLabels {
            workspace_id: WorkspaceId(Uuid::from_u128(1)),
            source_id: SourceId(Uuid::from_u128(2)),
            audience: audience.parse().unwrap(),
            sensitivity: SensitivityLabel::Internal,
            review: ReviewStatus::Pending,
        }
    }

    fn entry(id: u128, outcome: AuditOutcome, before: Option<&str>) -> MemoryAudit {
        MemoryAudit {
            memory_id: MemoryId(Uuid::from_u128(id)),
            outcome,
            is_own: false,
            before: before.map(labels),
            after: None,
        }
    }

    #[test]
    fn identical_entries_cost_only_their_identifiers() {
        let entries = |count| MemoryEntries {
            change: None,
            entries: (0..count)
                .map(|id| MemoryAudit {
                    after: Some(labels("org:acme")),
                    ..entry(id, AuditOutcome::Ok, None)
                })
                .collect(),
        };
        let bytes = |count| serde_json::to_vec(&entries(count)).unwrap().len();
        assert_eq!(bytes(99) - bytes(96), 64);
    }

    #[test]
    fn alternating_outcomes_cost_less_than_identifiers_in_a_request() {
        let entries = |count| MemoryEntries {
            change: None,
            entries: (0..count)
                .map(|id| match id % 2 {
                    0 => entry(id, AuditOutcome::NotFound, None),
                    _ => entry(id, AuditOutcome::Ok, Some("org:acme")),
                })
                .collect(),
        };
        let bytes = |count| serde_json::to_vec(&entries(count)).unwrap().len();
        let request = format!("\"{}\",", Uuid::nil());
        assert!(bytes(99) - bytes(96) < 3 * request.len());
    }

    #[test]
    fn audit_runs_are_readable_and_keep_order() {
        let denied = AuditOutcome::Denied(Denial::MissingPermission(Action::MemoryReview));
        let entries = MemoryEntries {
            change: None,
            entries: vec![
                entry(1, AuditOutcome::Ok, Some("org:acme")),
                entry(2, AuditOutcome::Ok, Some("org:acme")),
                entry(3, AuditOutcome::Ok, Some("team:web")),
                entry(4, AuditOutcome::NotFound, None),
                entry(5, denied, Some("org:acme")),
                MemoryAudit {
                    after: Some(labels("team:web")),
                    ..entry(6, AuditOutcome::Ok, Some("org:acme"))
                },
                MemoryAudit {
                    is_own: true,
                    ..entry(7, AuditOutcome::Ok, Some("org:acme"))
                },
            ],
        };
        let stored = serde_json::to_value(&entries).unwrap();
        let workspace = "00000000-0000-0000-0000-000000000001";
        let source = "00000000-0000-0000-0000-000000000002";
        let expected = json!({
            "labels": [
                { "workspace_id": workspace, "source_id": source, "audience": "org:acme" },
                { "workspace_id": workspace, "source_id": source, "audience": "team:web" },
            ],
            "runs": [
                { "before": 0 },
                { "before": 1 },
                { "outcome": "not_found" },
                { "outcome": { "denied": { "missing_permission": "memory:review" } }, "before": 0 },
                { "before": 0, "after": 1 },
                { "own": true, "before": 0 },
            ],
            "order": [0, 2, 1, 1, 2, 1, 3, 1, 4, 1, 5, 1],
            "ids": STANDARD_NO_PAD.encode((1..=7).flat_map(u128::to_be_bytes).collect::<Vec<_>>()),
        });
        assert_eq!(stored, expected);
        let read: MemoryEntries = serde_json::from_value(stored).unwrap();
        assert_eq!(read, entries);
    }

    #[test]
    fn inconsistent_audit_runs_are_corrupt() {
        let id = STANDARD_NO_PAD.encode([0; 16]);
        for (stored, expected) in [
            (
                json!({ "runs": [{ "before": 0 }], "order": [0, 1], "ids": id }),
                "no labels at index 0",
            ),
            (
                json!({ "runs": [], "order": [0, 1], "ids": id }),
                "no run at index 0",
            ),
            (
                json!({ "runs": [{}], "order": [0], "ids": id }),
                "has no length",
            ),
            (
                json!({ "runs": [{}], "order": [0, 2], "ids": id }),
                "fewer identifiers",
            ),
            (
                json!({ "runs": [], "order": [], "ids": id }),
                "more identifiers",
            ),
            (
                json!({ "runs": [{}], "order": [0, 1], "ids": "A" }),
                "unreadable",
            ),
        ] {
            let refused = serde_json::from_value::<MemoryEntries>(stored).unwrap_err();
            assert!(refused.to_string().contains(expected), "{refused}");
        }
    }
}
