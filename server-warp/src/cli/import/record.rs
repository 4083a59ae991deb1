//! Parsing of one line as a memory.

use knowledge_core::limits::Limits;
use knowledge_core::model::{AudienceLabel, SensitivityLabel};
use knowledge_core::service::NewMemory;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::explain::explain;

/// A memory of the file, and its key at the source.
#[derive(Debug)]
pub(super) struct Record {
    memory: NewMemory,
    pub(super) source_key: SourceKey,
}

/// Key of a memory at the source.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SourceKey {
    /// Given in the line.
    Given(String),
    /// Derived from the title and the content.
    Derived(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
struct Fields {
    title: String,
    content: String,
    source_key: Option<String>,
    audience_tag: Option<String>,
    sensitivity_label: Option<String>,
}

impl Record {
    /// Parses a line.
    ///
    /// # Errors
    /// A message for the user.
    pub(super) fn parse(line: &[u8], limits: &Limits) -> Result<Self, String> {
        let fields: Fields = match line.first() {
            // serde also accepts a list of the fields.
            Some(b'[') => return Err("must be a JSON object, not a list".to_owned()),
            _ => serde_json::from_slice(line).map_err(|error| json_problem(&error))?,
        };
        let audience_tag = fields.audience_tag.map(|text| {
            text.parse::<AudienceLabel>()
                .map_err(|error| format!("audience_tag {error}"))
        });
        let sensitivity_label = fields.sensitivity_label.map(|text| {
            text.parse::<SensitivityLabel>()
                .map_err(|error| format!("sensitivity_label {error}"))
        });
        let source_key = match fields.source_key {
            Some(key) => SourceKey::Given(key),
            None => SourceKey::Derived(key_of(&fields.title, &fields.content)),
        };
        let memory = NewMemory::builder()
            .title(fields.title)
            .content(fields.content)
            .source_key(source_key.as_str().to_owned())
            .maybe_audience_tag(audience_tag.transpose()?)
            .maybe_sensitivity_label(sensitivity_label.transpose()?)
            .build();
        memory.validate(limits).map_err(|error| explain(&error))?;
        Ok(Self { memory, source_key })
    }

    pub(super) fn into_memory(self) -> NewMemory {
        self.memory
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

/// Returns `sha256:` and the hash of the title and the content.
fn key_of(title: &str, content: &str) -> String {
    let digest = Sha256::new()
        // The length separates the two.
        .chain_update((title.len() as u64).to_be_bytes())
        .chain_update(title)
        .chain_update(content)
        .finalize();
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Rewords serde's error, whose line number is always 1.
fn json_problem(error: &serde_json::Error) -> String {
    let column = error.column();
    if !error.is_data() {
        return format!("is invalid JSON at column {column}");
    }
    let text = error.to_string();
    let problem = text
        .rsplit_once(" at line ")
        .map_or(&*text, |(problem, _)| problem);
    format!("{problem} (column {column})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(line: &str) -> String {
        Record::parse(line.as_bytes(), &Limits::default()).unwrap_err()
    }

    #[test]
    fn record_without_source_key_gets_a_stable_one() {
        let parse = |line: &str| Record::parse(line.as_bytes(), &Limits::default()).unwrap();
        let one = parse(r#"{"title":"a","content":"bc"}"#);
        let same = parse(r#" {"content":"bc", "title":"a", "audience_tag":"org:acme"}"#);
        let other = parse(r#"{"title":"ab","content":"c"}"#);
        assert_eq!(one.source_key, same.source_key);
        assert_ne!(one.source_key, other.source_key);
        let key = one.into_memory().source_key.unwrap();
        assert!(key.starts_with("sha256:") && key.len() == 71, "{key}");
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
}
