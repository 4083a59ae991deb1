//! One line as a memory.

use knowledge_core::limits::Limits;
use knowledge_core::model::{AudienceLabel, SensitivityLabel};
use knowledge_core::service::NewMemory;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::explain::explain;

/// A memory of the file, and its name at the source.
#[derive(Debug)]
pub(super) struct Record {
    memory: NewMemory,
    pub(super) name: Name,
}

/// The name of a memory at the source.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// The line has it.
    Given(String),
    /// It follows from the title and the content.
    Made(String),
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
    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub(super) fn parse(line: &[u8], limits: &Limits) -> Result<Self, String> {
        let fields: Fields = match line.first() {
            // serde would take the fields from a list, too.
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
        let name = match fields.source_key {
            Some(key) => Name::Given(key),
            None => Name::Made(key_of(&fields.title, &fields.content)),
        };
        let memory = NewMemory {
            title: fields.title,
            content: fields.content,
            source_key: Some(name.as_str().to_owned()),
            audience_tag: audience_tag.transpose()?,
            sensitivity_label: sensitivity_label.transpose()?,
        };
        memory.validate(limits).map_err(|error| explain(&error))?;
        Ok(Self { memory, name })
    }

    pub(super) fn into_memory(self) -> NewMemory {
        self.memory
    }
}

impl Name {
    fn as_str(&self) -> &str {
        match self {
            Self::Given(name) | Self::Made(name) => name,
        }
    }

    /// Enough of a hash to tell the names of one file apart.
    pub(super) fn hash(&self) -> u128 {
        let digest: [u8; 32] = Sha256::digest(self.as_str()).into();
        let (first, _) = digest.split_first_chunk().expect("32 bytes have 16");
        u128::from_be_bytes(*first)
    }
}

/// `sha256:` and the hash of the title and the content.
fn key_of(title: &str, content: &str) -> String {
    let digest = Sha256::new()
        // The length tells where the one ends and the other begins.
        .chain_update((title.len() as u64).to_be_bytes())
        .chain_update(title)
        .chain_update(content)
        .finalize();
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// What serde says of a line, which it takes for a file of its own.
fn json_problem(error: &serde_json::Error) -> String {
    let column = error.column();
    if !error.is_data() {
        return format!("is not JSON from column {column} on");
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
    fn a_line_without_a_key_gets_one_that_stays() {
        let parse = |line: &str| Record::parse(line.as_bytes(), &Limits::default()).unwrap();
        let one = parse(r#"{"title":"a","content":"bc"}"#);
        let same = parse(r#" {"content":"bc", "title":"a", "audience_tag":"org:acme"}"#);
        let other = parse(r#"{"title":"ab","content":"c"}"#);
        assert_eq!(one.name, same.name);
        assert_ne!(one.name, other.name);
        let key = one.into_memory().source_key.unwrap();
        assert!(key.starts_with("sha256:") && key.len() == 71, "{key}");
    }

    #[test]
    fn a_bad_line_says_what_is_wrong() {
        let long = format!(
            r#"{{"title":"t","content":"{}"}}"#,
            "x".repeat(32 * 1024 + 1)
        );
        for (line, expected) in [
            ("{", "is not JSON from column 1 on"),
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
            "is not JSON from column 11 on"
        );
    }
}
