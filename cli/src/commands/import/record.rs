//! A memory of the input, from a line of JSON or the fields of an export.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use knowledge_core::limits::Limits;
use knowledge_core::model::{
    AudienceLabel, AudienceScope, SensitivityLabel, is_blank_name, is_control_character,
};
use knowledge_core::service::NewMemory;
use knowledge_server::explain::explain;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::past;
use super::problem::Problem;

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

/// Rules for all entries of an import.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    pub(super) limits: Limits,
    /// Audience label of entries that have none.
    pub(super) audience: Option<AudienceLabel>,
    /// Handles of members by their identifiers in the input.
    pub(super) handles: HashMap<String, String>,
    /// Identifiers of users by those that the entries have, for inputs with a table of users.
    pub(super) users: Option<HashMap<String, String>>,
    /// Time at which entries that are over are left out; `None` to include them.
    pub(super) now: Option<DateTime<Utc>>,
}

/// Fields of a memory as an export has them.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// Title; if absent, the first line of the text.
    pub(super) title: Option<String>,
    pub(super) content: String,
    pub(super) source_key: Option<String>,
    pub(super) audience_tag: Option<String>,
    /// True if the format is one of memories about users: an entry needs a user or an audience, and
    /// its key is that of its user.
    pub(super) is_personal: bool,
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

/// Parses the values of a line, of which there is one in most.
///
/// # Errors
/// The problem of the line.
pub(super) fn parse_all<T: DeserializeOwned>(line: &[u8]) -> Result<Vec<T>, Problem> {
    if std::str::from_utf8(line).is_err() {
        return Err(Problem::not_utf8());
    }
    let values = serde_json::Deserializer::from_slice(line).into_iter::<T>();
    values
        .collect::<Result<_, _>>()
        .map_err(|error| Problem::of_json(&error))
}

impl Record {
    /// Parses a line of the format `jsonl`, which may have more than one memory. For each that
    /// cannot be imported, there is its problem; for a line that is no JSON, there is one.
    pub(super) fn parse(line: &[u8], rules: &Rules) -> Vec<Result<Self, Problem>> {
        if line.first() == Some(&b'[') {
            // serde also accepts a list of the fields.
            return vec![Err(Problem::new("must be a JSON object, not a list"))];
        }
        let parsed = parse_all::<Line>(line);
        let lines = match parsed {
            Ok(lines) => lines,
            Err(problem) => return vec![Err(problem)],
        };
        let drafts = lines.into_iter().map(|line| Draft {
            title: Some(line.title),
            content: line.content,
            source_key: line.source_key,
            audience_tag: line.audience_tag,
            sensitivity_label: line.sensitivity_label,
            ..Draft::default()
        });
        drafts.map(|draft| Self::new(draft, rules)).collect()
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
            (None, None) if draft.is_personal && rules.audience.is_none() => {
                return Err(Problem::new(NO_USER));
            }
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
        let user = draft.user.as_deref().or_else(|| {
            let label = audience_tag.as_ref().filter(|_| draft.is_personal)?;
            (label.scope() == AudienceScope::User).then(|| label.name())
        });
        let user = user.filter(|_| draft.audience_tag.is_none());
        let source_key = match draft.source_key {
            Some(key) => SourceKey::Given(key_of_user(user, key)),
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

/// Reason for which an entry of a personal format without a user is rejected.
const NO_USER: &str = "has no user; choose the audience of such entries with --audience, for \
                       example user:HANDLE";

impl Rules {
    /// Returns the audience label of a user.
    ///
    /// # Errors
    /// The problem of an identifier that is no handle and has none, or that a program has changed:
    /// the label would be another person's, or nobody's.
    fn label_of(&self, user: &str) -> Result<AudienceLabel, Problem> {
        let given = user;
        let user = match &self.users {
            None => user,
            Some(users) => users.get(user).map_or(user, String::as_str),
        };
        let assigned = self.handles.get(user).or_else(|| self.handles.get(given));
        let assigned = assigned.map(String::as_str);
        if assigned.is_none() {
            let is_unknown = self.users.as_ref().is_some_and(|users| {
                let mut known = users.values();
                !known.any(|known| known == user)
            });
            let reason = if past::is_missing(user) {
                "the user's identifier is what programs write for an empty cell; empty the cell, \
                 or assign a handle with --user ID=HANDLE"
            } else if is_spreadsheet_number(user) {
                "the user's identifier is a number that a spreadsheet has changed; export it as \
                 text, or assign a handle with --user ID=HANDLE"
            } else if is_unknown {
                "the user is not in the table of users; assign a handle with --user ID=HANDLE"
            } else {
                ""
            };
            if !reason.is_empty() {
                return Err(Problem::with(reason, format!(" ({user:?})")));
            }
        }
        let label = AudienceLabel::new(AudienceScope::User, assigned.unwrap_or(user));
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

/// Returns true for a number as spreadsheets write an identifier of digits: `17.0`, `1.0053E+17`.
fn is_spreadsheet_number(text: &str) -> bool {
    let (digits, exponent) = match text.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, Some(exponent)),
        None => (text, None),
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = match digits.split_once(['.', ',']) {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (digits, None),
    };
    let has_exponent = exponent.is_some_and(|text| is_number(text.trim_start_matches(['+', '-'])));
    is_number(whole)
        && fraction.is_none_or(is_number)
        && (has_exponent || (exponent.is_none() && fraction.is_some()))
}

/// Returns a key of a user: with the user before it, unless it is a UUID, which no other has.
fn key_of_user(user: Option<&str>, key: String) -> String {
    match user {
        Some(user) if key.parse::<Uuid>().is_err() => format!("{user}/{key}"),
        _ => key,
    }
}

/// Returns the first line of a text that is not blank, as a title of limited length.
///
/// Control characters become blanks, and those of bidirectional text, which are invisible, are left
/// out.
fn title_of(content: &str, chars_max: usize) -> String {
    let lines = content.split(|char| "\n\r\u{b}\u{c}\u{85}\u{2028}\u{2029}".contains(char));
    let cleaned = lines.map(|line| {
        let chars = line.chars().filter_map(|char| match char {
            char if char.is_control() => Some(' '),
            char => (!is_control_character(char)).then_some(char),
        });
        chars.collect::<String>().trim().to_owned()
    });
    let mut cleaned = cleaned.filter(|line| !is_blank_name(line));
    let mut title = cleaned.next().unwrap_or_default();
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
        let mut parsed = Record::parse(line.as_bytes(), &Rules::default());
        parsed.remove(0).unwrap_err().to_string()
    }

    #[test]
    fn record_without_source_key_gets_a_stable_one() {
        let key = |line: &str, rules: &Rules| {
            let record = Record::parse(line.as_bytes(), rules).remove(0);
            record.unwrap().into_memory().source_key.unwrap()
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
    fn identifiers_that_a_spreadsheet_changed_are_rejected() {
        let rules = Rules {
            handles: HashMap::from([("17.0".to_owned(), "maya".to_owned())]),
            ..Rules::default()
        };
        for user in [
            "1.0",
            "1.0053E+17",
            "1,0053E+17",
            "5e3",
            "nan",
            "None",
            "#N/A",
            "NULL",
        ] {
            let problem = rules.label_of(user).unwrap_err();
            assert!(
                problem.reason.contains("--user ID=HANDLE"),
                "{user}: {problem}"
            );
        }
        assert_eq!(rules.label_of("17.0").unwrap().to_string(), "user:maya");
        for user in ["17", "00123", "e5", "1.0.0", "v1.0", "nancy"] {
            assert_eq!(rules.label_of(user).unwrap().name(), user);
        }
    }

    #[test]
    fn keys_of_users_are_apart_unless_they_are_uuids() {
        let key = |user: Option<&str>, key: &str| key_of_user(user, key.to_owned());
        assert_eq!(key(Some("maya"), "1"), "maya/1");
        assert_eq!(key(None, "1"), "1");
        let uuid = "01890a5d-ac96-774b-bcce-b302099a8057";
        assert_eq!(key(Some("maya"), uuid), uuid);
    }

    #[test]
    fn derived_title_has_no_control_characters() {
        for (content, title) in [
            ("\u{202a}+351 912\u{202c} is Maya's", "+351 912 is Maya's"),
            ("\u{200e}\u{200f}\nRoom 7\u{200f}", "Room 7"),
            ("First\u{2028}second", "First"),
            ("a\u{0}b\tc", "a b c"),
        ] {
            assert_eq!(title_of(content, 128), title, "{content:?}");
        }
    }

    #[test]
    fn title_of_long_text_is_cut_at_the_limit() {
        assert_eq!(title_of("abcdef", 6), "abcdef");
        assert_eq!(title_of("äbc efg", 5), "äbc…");
        assert_eq!(title_of(" \n", 5), "");
    }
}
