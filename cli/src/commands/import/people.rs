//! Audience labels of an import that cover nobody.

use std::collections::{BTreeSet, HashSet};

use knowledge_core::api::admin::MemberView;
use knowledge_core::model::{AudienceLabel, AudienceScope};

use crate::commands::failure::Failure;
use crate::commands::operator::OrgOperator;
use crate::progress::counted;

/// Maximum number of labels that are named.
const LABELS_SHOWN_MAX: usize = 20;

/// Labels of the entries for members and teams, as texts.
#[derive(Debug, Default)]
pub(super) struct Audiences(BTreeSet<String>);

impl Audiences {
    /// Adds the label of an entry if it is one for a member or a team.
    pub(super) fn add(&mut self, label: Option<&AudienceLabel>) {
        if let Some(label) = label
            && matches!(label.scope(), AudienceScope::User | AudienceScope::Team)
        {
            self.0.insert(label.to_string());
        }
    }

    /// Warns of the labels that cover nobody: no member has the handle or the team.
    ///
    /// # Errors
    /// If the members cannot be listed.
    pub(super) async fn warn(self, operator: &OrgOperator) -> Result<(), Failure> {
        if self.0.is_empty() {
            return Ok(());
        }
        let members: Vec<MemberView> = operator.list("members", &[]).await?;
        let mut covering: HashSet<String> = HashSet::new();
        for member in &members {
            covering.insert(format!("{}:{}", AudienceScope::User, member.handle));
            for team in &member.teams {
                covering.insert(format!("{}:{team}", AudienceScope::Team));
            }
        }
        let mut labels = self.0;
        labels.retain(|label| !covering.contains(label));
        for label in labels.iter().take(LABELS_SHOWN_MAX) {
            eprintln!("warning: no member has {label} now: nobody can read memories with it");
        }
        let more = labels.len().saturating_sub(LABELS_SHOWN_MAX);
        if more > 0 {
            let more = counted(more as u64, "more label", "more labels");
            eprintln!("warning: and {more} that no member has");
        }
        Ok(())
    }
}
