//! Stored form of audit entries about memories, without redundancy.
//!
//! A run is a sequence of memories with one outcome and the same labels before and after. The runs
//! refer to a list of labels by index, so that alternating labels are also written once. Schema 1
//! wrote each entry in full; both forms are read.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use crate::model::{MemoryChange, MemoryId, MemoryLabels};
use crate::service::kit::audit_entry::AuditOutcome;

/// Entries about memories, stored as runs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "StoredEntries")]
pub(crate) struct MemoryEntries {
    pub(crate) change: Option<MemoryChange>,
    pub(crate) entries: Vec<MemoryAudit>,
}

/// The outcome for one memory. Only pages of schema 1 are deserialised as such.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct MemoryAudit {
    pub(crate) memory_id: MemoryId,
    pub(crate) outcome: AuditOutcome,
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

/// Consecutive memories with one outcome and the same labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    #[serde(default = "ok", skip_serializing_if = "is_ok")]
    outcome: AuditOutcome,
    /// Index of the labels before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<usize>,
    /// Index of the labels after, unless they follow from the change of the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<usize>,
    #[serde(serialize_with = "simple_ids")]
    memory_ids: Vec<MemoryId>,
}

fn ok() -> AuditOutcome {
    AuditOutcome::Ok
}

fn is_ok(outcome: &AuditOutcome) -> bool {
    *outcome == AuditOutcome::Ok
}

fn simple_ids<S: Serializer>(ids: &[MemoryId], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(ids.iter().map(|id| id.0.simple()))
}

impl Serialize for MemoryEntries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (labels, runs) = runs(&self.entries);
        let mut stored = serializer.serialize_struct("MemoryEntries", 3)?;
        match &self.change {
            Some(change) => stored.serialize_field("change", change)?,
            None => stored.skip_field("change")?,
        }
        if labels.is_empty() {
            stored.skip_field("labels")?;
        } else {
            stored.serialize_field("labels", &labels)?;
        }
        stored.serialize_field("runs", &runs)?;
        stored.end()
    }
}

/// Distinct labels, in order of first use.
#[derive(Default)]
struct LabelTable<'l> {
    labels: Vec<&'l MemoryLabels>,
    places: HashMap<&'l MemoryLabels, usize, RandomState>,
}

impl<'l> LabelTable<'l> {
    /// Returns the index of labels, which are added if they are new.
    fn place(&mut self, labels: &'l MemoryLabels) -> usize {
        *self.places.entry(labels).or_insert_with(|| {
            self.labels.push(labels);
            self.labels.len() - 1
        })
    }
}

/// Returns the distinct labels of entries, in order of first use, and the runs.
fn runs(entries: &[MemoryAudit]) -> (Vec<&MemoryLabels>, Vec<Run>) {
    let mut table = LabelTable::default();
    let mut runs: Vec<Run> = Vec::new();
    for entry in entries {
        let (before, after) = (&entry.before, &entry.after);
        let before = before.as_ref().map(|labels| table.place(labels));
        let after = after.as_ref().map(|labels| table.place(labels));
        match runs.last_mut() {
            Some(run) if (run.outcome, run.before, run.after) == (entry.outcome, before, after) => {
                run.memory_ids.push(entry.memory_id);
            }
            _ => runs.push(Run {
                outcome: entry.outcome,
                before,
                after,
                memory_ids: vec![entry.memory_id],
            }),
        }
    }
    (table.labels, runs)
}

/// Stored entries of either schema.
#[derive(Deserialize)]
pub(crate) struct StoredEntries {
    change: Option<MemoryChange>,
    #[serde(default)]
    labels: Vec<MemoryLabels>,
    #[serde(default)]
    runs: Vec<Run>,
    /// Entries in full, as schema 1 wrote them.
    #[serde(default)]
    entries: Vec<MemoryAudit>,
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
        let mut entries = stored.entries;
        for run in stored.runs {
            for memory_id in run.memory_ids {
                entries.push(MemoryAudit {
                    memory_id,
                    outcome: run.outcome,
                    before: labels(run.before)?,
                    after: labels(run.after)?,
                });
            }
        }
        Ok(Self {
            change: stored.change,
            entries,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;
    use crate::access::Action;
    use crate::model::{ReviewStatus, SensitivityLabel, SourceId, WorkspaceId};
    use crate::service::kit::principal::Denial;

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
        assert_eq!(bytes(100) - bytes(99), 35);
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
            ],
        };
        let id = |id: u128| format!("{id:032x}");
        let stored = serde_json::to_value(&entries).unwrap();
        let workspace = "00000000-0000-0000-0000-000000000001";
        let source = "00000000-0000-0000-0000-000000000002";
        let expected = json!({
            "labels": [
                { "workspace_id": workspace, "source_id": source, "audience": "org:acme" },
                { "workspace_id": workspace, "source_id": source, "audience": "team:web" },
            ],
            "runs": [
                { "before": 0, "memory_ids": [id(1), id(2)] },
                { "before": 1, "memory_ids": [id(3)] },
                { "outcome": "not_found", "memory_ids": [id(4)] },
                {
                    "outcome": { "denied": { "lacks": "memory:review" } },
                    "before": 0,
                    "memory_ids": [id(5)],
                },
                { "before": 0, "after": 1, "memory_ids": [id(6)] },
            ],
        });
        assert_eq!(stored, expected);
        let read: MemoryEntries = serde_json::from_value(stored).unwrap();
        assert_eq!(read, entries);
    }

    #[test]
    fn audit_entries_of_schema_1_are_readable() {
        let stored = r#"{
            "change": { "sensitivityLabel": "restricted" },
            "entries": [
                {
                    "memory_id": "00000000-0000-0000-0000-000000000001",
                    "outcome": "ok",
                    "before": {
                        "workspace_id": "00000000-0000-0000-0000-000000000001",
                        "source_id": "00000000-0000-0000-0000-000000000002",
                        "audience": "org:acme",
                        "sensitivity": "internal",
                        "review": "pending"
                    }
                },
                { "memory_id": "00000000-0000-0000-0000-000000000002", "outcome": "not_found" }
            ]
        }"#;
        let read: MemoryEntries = serde_json::from_str(stored).unwrap();
        let expected = MemoryEntries {
            change: Some(MemoryChange {
                sensitivity_label: Some(SensitivityLabel::Restricted),
                ..MemoryChange::default()
            }),
            entries: vec![
                entry(1, AuditOutcome::Ok, Some("org:acme")),
                entry(2, AuditOutcome::NotFound, None),
            ],
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn audit_run_without_its_labels_is_corrupt() {
        let stored: Value = json!({
            "runs": [{ "before": 0, "memory_ids": ["00000000000000000000000000000001"] }],
        });
        let refused = serde_json::from_value::<MemoryEntries>(stored).unwrap_err();
        assert!(refused.to_string().contains("no labels at index 0"));
    }
}
