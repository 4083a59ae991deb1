//! A memory of the input, from a line of JSON or the fields of an export.

use std::collections::HashMap;
use std::fmt;

use knowledge_core::limits::Limits;
use knowledge_core::model::{AudienceLabel, AudienceScope, SensitivityLabel, is_blank_name};
use knowledge_core::service::NewMemory;
use knowledge_server::explain::explain;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::terminal::plain;

/// A memory of the input, and its key at the source.
#[derive(Debug)]
pub(super) struct Record {
    memory: NewMemory,
    pub(super) source_key: SourceKey,
}

/// Key of a memory at the source.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SourceKey {
    /// Given in the input.
    Given(String),
    /// Derived from the audience label, if there is one, the title and the content.
    Derived(String),
}

/// Reason for a rejected entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// Reason, whose text is equal for all entries that have the same problem.
    pub(super) reason: String,
    /// Rest of the message, about this entry only.
    pub(super) detail: String,
}

/// Rules for all entries of an import.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) limits: Limits,
    /// Audience label of entries that have none.
    pub(super) audience: Option<AudienceLabel>,
    /// Handles of members by their identifiers in the input.
    pub(super) handles: HashMap<String, String>,
}

/// Fields of a memory as an export has them.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// Title; if absent, the first line of the text.
    pub(super) title: Option<String>,
    pub(super) content: String,
    pub(super) source_key: Option<String>,
    pub(super) audience_tag: Option<String>,
    /// Identifier of the user that the memory is about.
    pub(super) user: Option<String>,
    pub(super) sensitivity_label: Option<String>,
    /// Names and values that a memory has no fields for. They become the end of its text.
    pub(super) kept: Vec<(String, String)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
struct Line {
    title: String,
    content: String,
    source_key: Option<String>,
    audience_tag: Option<String>,
    sensitivity_label: Option<String>,
}

impl Problem {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self::with(reason, String::new())
    }

    pub(super) fn with(reason: impl Into<String>, detail: impl Into<String>) -> Self {
        // They quote the input, such as the names of fields.
        Self {
            reason: plain(&reason.into()).into_owned(),
            detail: plain(&detail.into()).into_owned(),
        }
    }

    /// Converts the error of parsing one line, whose line number is always 1.
    pub(super) fn of_json(error: &serde_json::Error) -> Self {
        let column = error.column();
        if !error.is_data() {
            return Self::with("is invalid JSON", format!(" at column {column}"));
        }
        let text = error.to_string();
        let problem = text.rsplit_once(" at line ");
        let reason = problem.map_or(&*text, |(problem, _)| problem);
        Self::with(reason, format!(" (column {column})"))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.reason, self.detail)
    }
}

impl Record {
    /// Parses a line of the format `jsonl`.
    ///
    /// # Errors
    /// The problem of the line.
    pub(super) fn parse(line: &[u8], rules: &Rules) -> Result<Self, Problem> {
        let line: Line = match line.first() {
            // serde also accepts a list of the fields.
            Some(b'[') => return Err(Problem::new("must be a JSON object, not a list")),
            _ => serde_json::from_slice(line).map_err(|error| Problem::of_json(&error))?,
        };
        let draft = Draft {
            title: Some(line.title),
            content: line.content,
            source_key: line.source_key,
            audience_tag: line.audience_tag,
            sensitivity_label: line.sensitivity_label,
            ..Draft::default()
        };
        Self::new(draft, rules)
    }

    /// Creates the memory of an entry.
    ///
    /// # Errors
    /// The problem of the entry.
    pub(super) fn new(draft: Draft, rules: &Rules) -> Result<Self, Problem> {
        let audience_tag = match (&draft.audience_tag, &draft.user) {
            (Some(label), _) => {
                let label = label.parse::<AudienceLabel>();
                Some(label.map_err(|error| Problem::new(format!("audience_tag {error}")))?)
            }
            (None, Some(user)) => Some(rules.label_of(user)?),
            (None, None) => rules.audience.clone(),
        };
        let sensitivity_label = draft.sensitivity_label.map(|text| {
            let label = text.parse::<SensitivityLabel>();
            label.map_err(|error| Problem::new(format!("sensitivity_label {error}")))
        });
        let mut content = draft.content;
        let title = draft.title;
        let title = title.unwrap_or_else(|| title_of(&content, rules.limits.name_chars_max));
        if !draft.kept.is_empty() && !content.is_empty() {
            content.truncate(content.trim_end().len());
            content.push('\n');
            for (name, value) in &draft.kept {
                content.push_str(&format!("\n{name}: {value}"));
            }
        }
        let source_key = match draft.source_key {
            Some(key) => SourceKey::Given(key),
            None => SourceKey::Derived(key_of(audience_tag.as_ref(), &title, &content)),
        };
        let memory = NewMemory::builder()
            .title(title)
            .content(content)
            .source_key(source_key.as_str().to_owned())
            .maybe_audience_tag(audience_tag)
            .maybe_sensitivity_label(sensitivity_label.transpose()?)
            .build();
        let valid = memory.validate(&rules.limits);
        valid.map_err(|error| Problem::new(explain(&error)))?;
        Ok(Self { memory, source_key })
    }

    pub(super) fn into_memory(self) -> NewMemory {
        self.memory
    }
}

impl Rules {
    /// Returns the audience label of a user.
    fn label_of(&self, user: &str) -> Result<AudienceLabel, Problem> {
        let handle = self.handles.get(user).map_or(user, String::as_str);
        let label = AudienceLabel::new(AudienceScope::User, handle);
        label.map_err(|_| {
            let reason = "the user's identifier is not a handle; assign one with --user ID=HANDLE";
            Problem::with(reason, format!(" ({user:?})"))
        })
    }
}

impl SourceKey {
    fn as_str(&self) -> &str {
        match self {
            Self::Given(name) | Self::Derived(name) => name,
        }
    }

    /// Returns a hash that distinguishes the keys of one file.
    pub(super) fn hash(&self) -> u128 {
        let digest: [u8; 32] = Sha256::digest(self.as_str()).into();
        let (first, _) = digest.split_first_chunk().expect("32 bytes have 16");
        u128::from_be_bytes(*first)
    }
}

/// Returns the first line of a text that is not blank, as a title of limited length.
fn title_of(content: &str, chars_max: usize) -> String {
    let mut lines = content.lines().map(str::trim);
    let line = lines.find(|line| !is_blank_name(line)).unwrap_or_default();
    let mut title: String = line
        .chars()
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect();
    if let Some((end, _)) = title.char_indices().nth(chars_max) {
        title.truncate(end);
        title.pop();
        title.truncate(title.trim_end().len());
        title.push('…');
    }
    title
}

/// Returns `sha256:` and the hash of the audience label (if there is one), title and content.
fn key_of(audience: Option<&AudienceLabel>, title: &str, content: &str) -> String {
    let audience = audience.map(ToString::to_string);
    let mut digest = Sha256::new();
    // The lengths separate the parts.
    for part in audience.as_deref().into_iter().chain([title]) {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let digest = digest.chain_update(content).finalize();
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(line: &str) -> String {
        let parsed = Record::parse(line.as_bytes(), &Rules::default());
        parsed.unwrap_err().to_string()
    }

    #[test]
    fn record_without_source_key_gets_a_stable_one() {
        let key = |line: &str, rules: &Rules| {
            let record = Record::parse(line.as_bytes(), rules).unwrap();
            record.into_memory().source_key.unwrap()
        };
        let plain = Rules::default();
        let line = r#"{"title":"a","content":"bc"}"#;
        // The tests of the console have the same two keys.
        let unlabelled = "sha256:e98bc483cc6af9ccf82bc23e481a128c12818251d9d359a7b560dcabfd7909d6";
        assert_eq!(key(line, &plain), unlabelled);
        let same = r#" {"content":"bc", "title":"a", "sensitivity_label":"public"}"#;
        assert_eq!(key(same, &plain), unlabelled);
        assert_ne!(key(r#"{"title":"ab","content":"c"}"#, &plain), unlabelled);
        let labelled = "sha256:afbd7d1c81cda2d9bd9b26c58d7ccb826d13d3276fa3c47d3c5c4ec7bff8268e";
        let tagged = r#"{"title":"a","content":"bc","audience_tag":"user:maya"}"#;
        assert_eq!(key(tagged, &plain), labelled);
        let rules = Rules {
            audience: Some("user:maya".parse().unwrap()),
            ..Rules::default()
        };
        assert_eq!(key(line, &rules), labelled);
    }

    #[test]
    fn record_parser_explains_invalid_lines() {
        let long = format!(
            r#"{{"title":"t","content":"{}"}}"#,
            "x".repeat(32 * 1024 + 1)
        );
        for (line, expected) in [
            ("{", "is invalid JSON at column 1"),
            ("[]", "must be a JSON object, not a list"),
            (
                "7",
                "invalid type: integer `7`, expected a JSON object (column 1)",
            ),
            (r#"{"title":"t"}"#, "missing field `content` (column 13)"),
            (
                r#"{"title":"t","content":""}"#,
                "content must have 1 to 32768 bytes",
            ),
            (&long, "content must have 1 to 32768 bytes"),
            (
                r#"{"title":"t","content":"c","sensitivity_label":"secret"}"#,
                "sensitivity_label must be one of public, internal, confidential, restricted",
            ),
        ] {
            let problem = problem(line);
            assert!(problem.starts_with(expected), "{problem}");
        }
        assert!(
            problem(r#"{"title":"t","content":"c","tags":[]}"#).starts_with("unknown field `tags`")
        );
        assert!(problem(r#"{"title":" ","content":"c"}"#).starts_with("title must have 1 to 128"));
        assert!(
            problem(r#"{"title":"t","content":"c","audience_tag":"all"}"#)
                .starts_with("audience_tag must be")
        );
        assert_eq!(
            problem("{\"title\":\"\u{0}\""),
            "is invalid JSON at column 11"
        );
    }

    #[test]
    fn record_of_export_has_title_label_and_kept_fields() {
        let rules = Rules {
            audience: Some("team:core".parse().unwrap()),
            handles: HashMap::from([("u-1".to_owned(), "maya".to_owned())]),
            ..Rules::default()
        };
        let draft = |user: Option<&str>| Draft {
            content: "\n Likes\ttea.\nAnd cake.\n".to_owned(),
            user: user.map(str::to_owned),
            kept: vec![("created_at".to_owned(), "2024-07-01".to_owned())],
            ..Draft::default()
        };
        let made = |user| Record::new(draft(user), &rules).map(Record::into_memory);
        let memory = made(Some("u-1")).unwrap();
        assert_eq!(memory.title, "Likes tea.");
        let content = "\n Likes\ttea.\nAnd cake.\n\ncreated_at: 2024-07-01";
        assert_eq!(memory.content, content);
        let label = |memory: NewMemory| memory.audience_tag.unwrap().to_string();
        assert_eq!(label(memory), "user:maya");
        assert_eq!(label(made(Some("bob")).unwrap()), "user:bob");
        assert_eq!(label(made(None).unwrap()), "team:core");
        let problem = made(Some("Bob B.")).unwrap_err();
        assert_eq!(problem.detail, r#" ("Bob B.")"#);
    }

    #[test]
    fn title_of_long_text_is_cut_at_the_limit() {
        assert_eq!(title_of("abcdef", 6), "abcdef");
        assert_eq!(title_of("äbc efg", 5), "äbc…");
        assert_eq!(title_of(" \n", 5), "");
    }
}
