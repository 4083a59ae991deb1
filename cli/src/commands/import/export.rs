//! Formats of other tools' exports: the fields that are read, and their places in a memory.

use serde_json::{Map, Value};

use super::item::{Item, Object};
use super::record::{Draft, Problem, Record, Rules};

/// An export's format.
#[derive(Debug)]
pub(super) struct Export {
    /// Fields of an envelope whose lists contain entries.
    lists: &'static [&'static str],
    /// Kinds of entries; the first whose text is present applies.
    kinds: &'static [Kind],
}

/// Fields of one kind of entries.
#[derive(Debug)]
struct Kind {
    /// Text.
    content: &'static str,
    title: Option<&'static str>,
    /// Identifier that no other entry of any export has.
    key: Option<&'static str>,
    /// Identifier of the user that the entry is about.
    user: Option<&'static str>,
    /// Fields that become the end of the text, in this order.
    kept: &'static [&'static str],
}

/// Memories of mem0: results of `get_all` and `search`, and pages of its REST API.
pub(super) static MEM0: Export = Export {
    lists: &["results", "memories"],
    kinds: &[Kind {
        content: "memory",
        title: None,
        key: Some("id"),
        user: Some("user_id"),
        kept: &[
            "created_at",
            "agent_id",
            "app_id",
            "run_id",
            "actor_id",
            "role",
            "categories",
            "expiration_date",
            "metadata",
        ],
    }],
};

/// Facts (edges), episodes and messages of Zep.
pub(super) static ZEP: Export = Export {
    lists: &["edges", "facts", EPISODES, "messages", "items"],
    kinds: &[
        Kind {
            content: "fact",
            title: None,
            key: Some("uuid"),
            user: None,
            kept: &[
                "created_at",
                "valid_at",
                "invalid_at",
                "expired_at",
                "name",
                "attributes",
            ],
        },
        Kind {
            content: "content",
            title: None,
            key: Some("uuid"),
            user: None,
            kept: &[
                "created_at",
                "role",
                "role_type",
                "name",
                "session_id",
                "thread_id",
                "source",
                "source_description",
                "metadata",
            ],
        },
    ],
};

/// Archival passages of Letta, and the memory blocks of its agent files.
pub(super) static LETTA: Export = Export {
    lists: &["passages", "archival_memory", "blocks", "core_memory"],
    kinds: &[
        Kind {
            content: "text",
            title: None,
            key: Some("id"),
            user: None,
            kept: &["created_at", "file_name", "tags", "metadata", "metadata_"],
        },
        // The identifiers of blocks, such as `block-0`, are unique only within their file.
        Kind {
            content: "value",
            title: Some("label"),
            key: None,
            user: None,
            kept: &["created_at", "description", "metadata", "metadata_"],
        },
    ],
};

/// Field of Zep with a list of entries in an envelope, and of their identifiers in an edge.
const EPISODES: &str = "episodes";

impl Export {
    /// True if a field of an object may be a list of entries.
    pub(super) fn is_list(&self, name: &str) -> bool {
        self.lists.contains(&name)
    }

    /// True if an entry in a list is only the identifier of one elsewhere.
    pub(super) fn is_reference(&self, list: &str, entry: &Item) -> bool {
        list == EPISODES && matches!(entry, Item::Other(Value::String(_)))
    }

    /// True if an object is an entry, not an envelope of entries.
    pub(super) fn is_entry(&self, object: &Map<String, Value>) -> bool {
        self.kind_of(object).is_some()
    }

    /// True if an entry has a field of this name that is read.
    pub(super) fn reads(&self, name: &str) -> bool {
        let mut kinds = self.kinds.iter();
        let is_field = kinds.any(|kind| {
            kind.content == name
                || [kind.title, kind.key, kind.user].contains(&Some(name))
                || kind.kept.contains(&name)
        });
        is_field || name == IS_DELETED
    }

    fn kind_of(&self, object: &Map<String, Value>) -> Option<&Kind> {
        let mut kinds = self.kinds.iter();
        kinds.find(|kind| object.contains_key(kind.content))
    }

    /// Creates the memory of an entry.
    ///
    /// # Errors
    /// The problem of the entry.
    pub(super) fn record(&self, entry: &Item, rules: &Rules) -> Result<Record, Problem> {
        let Item::Object(Object {
            fields: entry,
            repeated,
        }) = entry
        else {
            return Err(Problem::new("must be a JSON object"));
        };
        if let Some(name) = repeated.iter().find(|name| self.reads(name)) {
            return Err(Problem::new(format!("duplicate field `{name}`")));
        }
        let Some(kind) = self.kind_of(entry) else {
            let names = self.kinds.iter().map(|kind| kind.content);
            let names: Vec<&str> = names.collect();
            let reason = format!("has no field {}", names.join(" or "));
            return Err(Problem::new(reason));
        };
        match entry.get(IS_DELETED) {
            None | Some(Value::Null | Value::Bool(false)) => {}
            Some(Value::Bool(true)) => return Err(Problem::new("is deleted in the other tool")),
            Some(_) => return Err(Problem::new("is_deleted must be true or false")),
        }
        let Some(content) = entry[kind.content].as_str() else {
            return Err(Problem::new(format!("{} must be a text", kind.content)));
        };
        let text = |name: Option<&str>| name.and_then(|name| entry.get(name)).and_then(shown);
        let kept = kind.kept.iter().filter_map(|name| {
            let value = entry.get(*name).and_then(shown)?;
            Some(((*name).to_owned(), value))
        });
        let draft = Draft {
            title: text(kind.title),
            content: content.to_owned(),
            source_key: text(kind.key),
            user: kind.user.map_or(Ok(None), |name| user(entry, name))?,
            kept: kept.collect(),
            ..Draft::default()
        };
        Record::new(draft, rules)
    }
}

/// Field of entries that were deleted and are exported nevertheless.
const IS_DELETED: &str = "is_deleted";

/// Returns the identifier of a user. Any other value is a problem, neither an identifier nor an
/// absent one: the user decides who reads the memory.
fn user(entry: &Map<String, Value>, name: &str) -> Result<Option<String>, Problem> {
    match entry.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(id)) => Ok(Some(id.clone())),
        Some(Value::Number(id)) if !id.is_f64() => Ok(Some(id.to_string())),
        Some(_) => Err(Problem::new(format!("{name} must be a text or an integer"))),
    }
}

/// Returns a value as text; `None` if it is empty.
fn shown(value: &Value) -> Option<String> {
    let text = match value {
        Value::Null => return None,
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            items.join(", ")
        }
        Value::Object(fields) if fields.is_empty() => return None,
        value => value.to_string(),
    };
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(export: &Export, entry: Value) -> Result<Record, Problem> {
        let item: Item = serde_json::from_value(entry).unwrap();
        export.record(&item, &Rules::default())
    }

    fn problem(export: &Export, entry: Value) -> String {
        record(export, entry).unwrap_err().to_string()
    }

    #[test]
    fn export_entry_without_text_is_explained() {
        assert_eq!(problem(&MEM0, json!("x")), "must be a JSON object");
        assert_eq!(problem(&MEM0, json!({"id": "1"})), "has no field memory");
        assert_eq!(problem(&ZEP, json!({})), "has no field fact or content");
        assert_eq!(
            problem(&MEM0, json!({"memory": 7})),
            "memory must be a text"
        );
        assert_eq!(
            problem(&LETTA, json!({"text": "Gone.", "is_deleted": true})),
            "is deleted in the other tool"
        );
    }

    #[test]
    fn export_entry_is_deleted_or_not() {
        for is_deleted in [json!("yes"), json!(1), json!("2025-06-12T09:00:00Z")] {
            let entry = json!({"text": "Gone.", "is_deleted": is_deleted});
            assert_eq!(problem(&LETTA, entry), "is_deleted must be true or false");
        }
        for is_deleted in [json!(null), json!(false)] {
            let entry = json!({"text": "There.", "is_deleted": is_deleted});
            record(&LETTA, entry).unwrap();
        }
    }

    #[test]
    fn export_user_is_a_text_or_an_integer() {
        for (user, label) in [
            (json!("bob"), Some("user:bob")),
            (json!(17), Some("user:17")),
            (json!(null), None),
        ] {
            let memory = record(&MEM0, json!({"memory": "Tea.", "user_id": user}));
            let memory = memory.unwrap().into_memory();
            let made = memory.audience_tag.map(|label| label.to_string());
            assert_eq!(made.as_deref(), label);
        }
        for user in [
            json!(true),
            json!(1.5),
            json!(["bob"]),
            json!([]),
            json!({}),
        ] {
            assert_eq!(
                problem(&MEM0, json!({"memory": "Tea.", "user_id": user})),
                "user_id must be a text or an integer"
            );
        }
        let empty = problem(&MEM0, json!({"memory": "Tea.", "user_id": ""}));
        assert!(empty.starts_with("the user's identifier is not a handle"));
    }

    #[test]
    fn empty_values_are_not_kept() {
        let entry = json!({
            "memory": "Likes tea.", "created_at": null, "categories": [], "metadata": {},
            "role": "",
            "run_id": 7,
        });
        let record = record(&MEM0, entry).unwrap();
        assert_eq!(record.into_memory().content, "Likes tea.\n\nrun_id: 7");
    }
}
