//! Rejected entries, counted by their reasons.

use std::fmt::Write as _;

use serde::Serialize;

use super::record::Problem;
use crate::progress::grouped;

/// Reasons that are counted separately.
const REASONS_MAX: usize = 50;
/// Examples of each reason.
const EXAMPLES_MAX: usize = 3;
/// Reason of all entries with further reasons.
const OTHER: &str = "other reasons";

/// Rejected entries by reason, in order of appearance.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Rejections(Vec<Rejection>);

#[derive(Debug, Serialize)]
struct Rejection {
    reason: String,
    count: u64,
    /// The first entries.
    examples: Vec<Example>,
}

#[derive(Debug, Serialize)]
struct Example {
    line: u64,
    message: String,
    #[serde(skip)]
    detail: String,
}

impl Rejections {
    /// Counts an entry.
    pub(super) fn add(&mut self, line: u64, problem: &Problem) {
        let is_known = self.0.iter().any(|known| known.reason == problem.reason);
        let reason = if is_known || self.0.len() < REASONS_MAX {
            problem.reason.as_str()
        } else {
            OTHER
        };
        let index = self.0.iter().position(|known| known.reason == reason);
        let index = index.unwrap_or_else(|| {
            self.0.push(Rejection {
                reason: reason.to_owned(),
                count: 0,
                examples: Vec::new(),
            });
            self.0.len() - 1
        });
        let rejection = &mut self.0[index];
        rejection.count += 1;
        if rejection.examples.len() < EXAMPLES_MAX {
            rejection.examples.push(Example {
                line,
                message: problem.to_string(),
                detail: problem.detail.clone(),
            });
        }
    }

    /// Returns the reasons with their first lines, most frequent first.
    pub(super) fn text(&self) -> String {
        let mut sorted: Vec<&Rejection> = self.0.iter().collect();
        sorted.sort_by_key(|rejection| std::cmp::Reverse(rejection.count));
        let mut text = String::new();
        for rejection in sorted {
            let _ = writeln!(text, "  {}: {}", grouped(rejection.count), rejection.reason);
            for example in &rejection.examples {
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
    fn rejections_are_counted_by_reason() {
        let mut rejections = Rejections::default();
        for line in 1..=5 {
            rejections.add(
                line,
                &Problem::with("is invalid", format!(" at column {line}")),
            );
        }
        rejections.add(6, &Problem::new("is too long"));
        assert_eq!(
            rejections.text(),
            "  5: is invalid\n    line 1 at column 1\n    line 2 at column 2\n    line 3 at column \
             3\n  1: is too long\n    line 6\n"
        );
        for line in 0..1_000 {
            rejections.add(line, &Problem::new(format!("reason {line}")));
        }
        assert_eq!(rejections.0.len(), REASONS_MAX + 1);
        assert_eq!(rejections.0[REASONS_MAX].count, 1_000 - 48);
    }
}
