//! Audience labels of an import that cover nobody.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use knowledge_core::api::admin::MemberView;
use knowledge_core::model::{AudienceLabel, AudienceScope};
use serde::Serialize;

use crate::commands::failure::Failure;
use crate::commands::operator::OrgOperator;
use crate::progress::counted;

/// Maximum number of labels that are named.
const LABELS_SHOWN_MAX: usize = 20;

/// Labels that cover a member of an organisation.
#[derive(Debug)]
pub(super) struct Covering(HashSet<String>);

/// Labels of entries that cover nobody: for members and teams that no member has.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Uncovered(BTreeMap<String, Entries>);

/// Entries with a label.
#[derive(Debug, Serialize)]
struct Entries {
    count: u64,
    first_line: u64,
    /// True once a warning has named the label.
    #[serde(skip)]
    is_named: bool,
}

impl Covering {
    /// Reads the members of an organisation.
    ///
    /// # Errors
    /// If the members cannot be listed.
    pub(super) async fn read(operator: &OrgOperator) -> Result<Self, Failure> {
        let members: Vec<MemberView> = operator.list("members", &[]).await?;
        let mut labels = HashSet::new();
        for member in &members {
            labels.insert(format!("{}:{}", AudienceScope::User, member.handle));
            for team in &member.teams {
                labels.insert(format!("{}:{team}", AudienceScope::Team));
            }
        }
        Ok(Self(labels))
    }

    /// Returns the label of a member whose handle has zeros in front of that of this label, as an
    /// identifier has before a spreadsheet reads it as a number.
    fn with_zeros(&self, label: &str) -> Option<&String> {
        let (scope, name) = label.split_once(':')?;
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        let mut labels = self.0.iter().filter(|_| is_number);
        labels.find(|known| {
            let known = known.split_once(':').filter(|(other, _)| *other == scope);
            known.is_some_and(|(_, known)| known != name && known.trim_start_matches('0') == name)
        })
    }
}

impl Uncovered {
    /// Counts an entry if its label is one for a member or a team that no member has.
    pub(super) fn add(&mut self, covering: &Covering, label: Option<&AudienceLabel>, line: u64) {
        let Some(label) = label else { return };
        let is_for_people = matches!(label.scope(), AudienceScope::User | AudienceScope::Team);
        let label = label.to_string();
        if !is_for_people || covering.0.contains(&label) {
            return;
        }
        let entries = self.0.entry(label).or_insert(Entries {
            count: 0,
            first_line: line,
            is_named: false,
        });
        entries.count += 1;
    }

    /// Returns a line for each label that no line has named yet.
    pub(super) fn warnings(&mut self, covering: &Covering) -> String {
        let mut text = String::new();
        let unnamed = self.0.iter_mut().filter(|(_, entries)| !entries.is_named);
        let mut more = 0;
        for (index, (label, entries)) in unnamed.enumerate() {
            entries.is_named = true;
            if index >= LABELS_SHOWN_MAX {
                more += 1;
                continue;
            }
            let count = counted(entries.count, "entry", "entries");
            let line = entries.first_line;
            let zeros = covering.with_zeros(label);
            let zeros = zeros.map(|known| format!("; a member has {known}"));
            let zeros = zeros.unwrap_or_default();
            let _ = writeln!(
                text,
                "warning: no member has {label} now: nobody can read its memories ({count}, first \
                 in line {line}){zeros}"
            );
        }
        if more > 0 {
            let more = counted(more, "more label", "more labels");
            let _ = writeln!(text, "warning: and {more} that no member has");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_no_member_has_are_named_once() {
        let labels = ["user:maya", "team:core", "user:00123"].map(str::to_owned);
        let covering = Covering(labels.into());
        let mut uncovered = Uncovered::default();
        for (line, label) in [
            "user:maya",
            "user:bob",
            "workspace:support",
            "user:123",
            "user:bob",
        ]
        .into_iter()
        .enumerate()
        {
            let label: AudienceLabel = label.parse().unwrap();
            uncovered.add(&covering, Some(&label), line as u64);
        }
        assert_eq!(
            uncovered.warnings(&covering),
            "warning: no member has user:123 now: nobody can read its memories (1 entry, first in \
             line 3); a member has user:00123\nwarning: no member has user:bob now: nobody can \
             read its memories (2 entries, first in line 1)\n"
        );
        assert_eq!(uncovered.warnings(&covering), "");
    }
}
