//! Summary of an import.

use knowledge_core::service::IngestOutcome;
use serde::Serialize;

use super::notes::Notes;
use super::people::Uncovered;
use super::problem::Problem;
use crate::progress::grouped;

/// Number of entries by outcome, with the first lines of those that a person should know of.
#[derive(Debug, Default, Serialize)]
pub(super) struct Summary {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
    pub(super) created: u64,
    updated: u64,
    unchanged: u64,
    /// Entries that moved their memories to the audiences that they declare.
    moved: u64,
    /// Entries whose memories keep the labels that people set.
    label_kept: u64,
    /// Entries whose keys were erased, which are not stored.
    erased: u64,
    /// Entries that the member may not store.
    pub(super) forbidden: u64,
    /// Entries that are over in their own store.
    left_out: u64,
    pub(super) rejected: u64,
    #[serde(rename = "reasons")]
    notes: Notes,
    /// Labels for members and teams that no member has.
    pub(super) labels_without_members: Uncovered,
}

impl Summary {
    pub(super) fn new(dry_run: bool) -> Self {
        Self {
            dry_run,
            ..Self::default()
        }
    }

    /// Counts an entry that was ingested.
    pub(super) fn count(&mut self, outcome: IngestOutcome, line: u64) {
        let (count, name) = match outcome {
            IngestOutcome::Created => (&mut self.created, None),
            IngestOutcome::Updated => (&mut self.updated, None),
            IngestOutcome::Unchanged => (&mut self.unchanged, None),
            IngestOutcome::Moved => (&mut self.moved, Some("moved")),
            IngestOutcome::LabelKept => (&mut self.label_kept, Some("label_kept")),
            IngestOutcome::Erased => (&mut self.erased, Some("erased")),
            IngestOutcome::Forbidden => (&mut self.forbidden, Some("forbidden")),
        };
        *count += 1;
        if let Some(name) = name {
            self.notes.add_outcome(name, line);
        }
    }

    /// Counts an entry that is an exact duplicate of an earlier one.
    pub(super) fn repeat(&mut self) {
        self.unchanged += 1;
    }

    /// Counts an entry that is over in its own store.
    pub(super) fn leave_out(&mut self, line: u64, problem: &Problem) {
        self.left_out += 1;
        self.notes.add("left_out", line, problem);
    }

    /// Counts an invalid entry.
    pub(super) fn reject(&mut self, line: u64, problem: &Problem) {
        self.rejected += 1;
        self.notes.add("rejected", line, problem);
    }

    /// Returns the number of memories that the entries are now.
    pub(super) fn imported(&self) -> u64 {
        self.created + self.updated + self.unchanged + self.moved + self.label_kept
    }

    /// Returns the number of entries with which all is as it should be.
    pub(super) fn accepted(&self) -> u64 {
        self.imported() + self.erased + self.left_out
    }

    /// Returns the counts, with the first lines of what a person should know of.
    pub(super) fn text(&self) -> String {
        let beginning = if self.dry_run { "dry run: " } else { "" };
        let mut text = format!(
            "{beginning}created {}, updated {}, unchanged {}",
            grouped(self.created),
            grouped(self.updated),
            grouped(self.unchanged),
        );
        for (name, count) in [
            ("moved", self.moved),
            ("label kept", self.label_kept),
            ("erased (--revive brings them in)", self.erased),
            ("forbidden", self.forbidden),
            ("left out (--include-past brings them in)", self.left_out),
        ] {
            if count > 0 {
                let (name, hint) = name.split_once(" (").unwrap_or((name, ""));
                let hint = if hint.is_empty() {
                    String::new()
                } else {
                    format!(" ({hint}")
                };
                text += &format!(", {name} {}{hint}", grouped(count));
            }
        }
        text + &format!(
            ", rejected {}\n{}",
            grouped(self.rejected),
            self.notes.text()
        )
    }
}
