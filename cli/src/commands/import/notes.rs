//! Notes of an import about entries, counted by outcome and reason.

use std::fmt::Write as _;

use serde::Serialize;

use super::problem::Problem;
use crate::progress::grouped;

/// Reasons that are counted separately.
const REASONS_MAX: usize = 50;
/// Examples of each reason.
const EXAMPLES_MAX: usize = 3;
/// Reason of all entries with further reasons.
const OTHER: &str = "other reasons";

/// Entries by outcome and reason, in order of appearance.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Notes(Vec<Note>);

#[derive(Debug, Serialize)]
struct Note {
    /// Outcome, as the summary names it.
    outcome: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    count: u64,
    /// The first entries.
    examples: Vec<Example>,
}

#[derive(Debug, Serialize)]
struct Example {
    line: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip)]
    detail: String,
}

impl Notes {
    /// Counts an entry that is rejected or left out.
    pub(super) fn add(&mut self, outcome: &'static str, line: u64, problem: &Problem) {
        let is_of = |note: &Note| note.outcome == outcome && note.reason == problem.reason;
        let is_known = self.0.iter().any(is_of);
        let reason = if is_known || self.0.len() < REASONS_MAX {
            problem.reason.as_str()
        } else {
            OTHER
        };
        let example = Example {
            line,
            message: problem.to_string(),
            detail: problem.detail.clone(),
        };
        self.count(outcome, reason, example);
    }

    /// Counts an entry with another outcome that a person should know of.
    pub(super) fn add_outcome(&mut self, outcome: &'static str, line: u64) {
        let example = Example {
            line,
            message: String::new(),
            detail: String::new(),
        };
        self.count(outcome, "", example);
    }

    fn count(&mut self, outcome: &'static str, reason: &str, example: Example) {
        let is_of = |note: &Note| note.outcome == outcome && note.reason == reason;
        let index = self.0.iter().position(is_of);
        let index = index.unwrap_or_else(|| {
            self.0.push(Note {
                outcome,
                reason: reason.to_owned(),
                count: 0,
                examples: Vec::new(),
            });
            self.0.len() - 1
        });
        let note = &mut self.0[index];
        note.count += 1;
        if note.examples.len() < EXAMPLES_MAX {
            note.examples.push(example);
        }
    }

    /// Returns the outcomes and reasons with their first lines, most frequent first.
    pub(super) fn text(&self) -> String {
        let mut sorted: Vec<&Note> = self.0.iter().collect();
        sorted.sort_by_key(|note| std::cmp::Reverse(note.count));
        let mut text = String::new();
        for note in sorted {
            let count = grouped(note.count);
            let outcome = note.outcome.replace('_', " ");
            if note.reason.is_empty() {
                let lines = note.examples.iter();
                let lines: Vec<String> = lines.map(|example| example.line.to_string()).collect();
                let more = if note.count > lines.len() as u64 {
                    ", …"
                } else {
                    ""
                };
                let noun = if note.count == 1 { "line" } else { "lines" };
                let lines = lines.join(", ");
                let _ = writeln!(text, "  {count} {outcome}: {noun} {lines}{more}");
                continue;
            }
            let _ = writeln!(text, "  {count} {outcome}: {}", note.reason);
            for example in &note.examples {
                let _ = writeln!(text, "    line {}{}", example.line, example.detail);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_counted_by_outcome_and_reason() {
        let mut notes = Notes::default();
        for line in 1..=5 {
            let problem = Problem::with("is invalid", format!(" at column {line}"));
            notes.add("rejected", line, &problem);
            notes.add_outcome("label_kept", line);
        }
        notes.add("rejected", 6, &Problem::new("is too long"));
        notes.add_outcome("moved", 7);
        assert_eq!(
            notes.text(),
            "  5 rejected: is invalid\n    line 1 at column 1\n    line 2 at column 2\n    line 3 \
             at column 3\n  5 label kept: lines 1, 2, 3, …\n  1 rejected: is too long\n    line \
             6\n  1 moved: line 7\n"
        );
        for line in 0..1_000 {
            notes.add("rejected", line, &Problem::new(format!("reason {line}")));
        }
        assert_eq!(notes.0.len(), REASONS_MAX + 1);
        assert_eq!(notes.0[REASONS_MAX].count, 1_000 - 46);
    }
}
