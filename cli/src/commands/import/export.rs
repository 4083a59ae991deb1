//! Formats of other tools' exports: the fields that are read, and their places in a memory.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::item::{Item, Object};
use super::past;
use super::problem::Problem;
use super::record::{Draft, Record, Rules};

/// An export's format.
#[derive(Debug)]
pub(super) struct Export {
    /// Fields of an envelope whose lists contain entries.
    lists: &'static [&'static str],
    /// Kinds of entries; the first whose text is present applies.
    kinds: &'static [Kind],
    /// Converts an entry that has several texts, or none in one field.
    convert: Option<Convert>,
    /// True if a field beside the entries may have the users.
    has_users: bool,
}

/// Conversion of an entry to entries of the kinds.
type Convert = fn(Map<String, Value>) -> Vec<Map<String, Value>>;

/// Fields of one kind of entries.
#[derive(Debug)]
struct Kind {
    /// Text.
    content: &'static str,
    title: Option<&'static str>,
    /// Identifier of the entry.
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
    convert: None,
    has_users: false,
};

/// Memories of OpenMemory: `memories.json` of its archive, with the users beside the entries, and
/// pages of its API.
pub(super) static OPENMEMORY: Export = Export {
    lists: &["memories", "items"],
    kinds: &[Kind {
        content: "content",
        title: None,
        key: Some("id"),
        user: Some("user_id"),
        kept: &[
            "created_at",
            "app_name",
            "categories",
            "metadata",
            "metadata_",
        ],
    }],
    convert: None,
    has_users: true,
};

/// Facts (edges), episodes and messages of Zep and Graphiti.
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
    convert: None,
    has_users: false,
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
    convert: None,
    has_users: false,
};

/// Memories and documents of supermemory: responses of its API.
pub(super) static SUPERMEMORY: Export = Export {
    lists: &["memories", "memoryEntries", "results", "documents"],
    kinds: &[
        Kind {
            content: "memory",
            title: None,
            key: Some("id"),
            user: None,
            kept: &["createdAt", "containerTags", "metadata"],
        },
        Kind {
            content: "content",
            title: Some("title"),
            key: Some("id"),
            user: None,
            kept: &["createdAt", "containerTags", "url", "metadata"],
        },
    ],
    convert: None,
    has_users: false,
};

/// Memories of Open WebUI: the response of its API, or the table `memory` as JSON.
pub(super) static OPEN_WEBUI: Export = Export {
    lists: &["memories"],
    kinds: &[Kind {
        content: "content",
        title: None,
        key: Some("id"),
        user: Some("user_id"),
        kept: &["created_at"],
    }],
    convert: None,
    has_users: false,
};

/// Entities and relations of the reference memory server of the Model Context Protocol.
pub(super) static MCP_MEMORY: Export = Export {
    lists: &["entities", "relations"],
    kinds: &[Kind {
        content: "observations",
        title: Some("name"),
        key: Some("key"),
        user: None,
        kept: &["entityType"],
    }],
    convert: Some(relation_as_entity),
    has_users: false,
};

/// Memories of Claude: `memories.json` of its data export.
pub(super) static CLAUDE: Export = Export {
    lists: &["memories"],
    kinds: &[Kind {
        content: "conversations_memory",
        title: None,
        key: Some("key"),
        user: None,
        kept: &["project"],
    }],
    convert: Some(memories_of_account),
    has_users: false,
};

/// Field of Zep with a list of entries in an envelope, and of their identifiers in an edge.
const EPISODES: &str = "episodes";

/// Gives an entity of the memory server a key, and writes a relation as a sentence.
fn relation_as_entity(mut entry: Map<String, Value>) -> Vec<Map<String, Value>> {
    let text = |entry: &Map<String, Value>, name: &str| entry.get(name).and_then(shown);
    let parts = ["from", "relationType", "to"].map(|name| text(&entry, name));
    if let [Some(from), Some(relation), Some(to)] = parts {
        let sentence = format!("{from} {relation} {to}");
        entry.insert("key".to_owned(), format!("relation/{sentence}").into());
        entry.insert("observations".to_owned(), sentence.into());
    } else if let Some(name) = text(&entry, "name") {
        entry.insert("key".to_owned(), format!("entity/{name}").into());
    }
    vec![entry]
}

/// Returns the memories of an account of Claude: one of all conversations, and one of each project.
fn memories_of_account(mut entry: Map<String, Value>) -> Vec<Map<String, Value>> {
    let account = entry.get("account_uuid").and_then(shown);
    let account = account.unwrap_or_default();
    let projects = match entry.remove("project_memories") {
        Some(Value::Object(projects)) => projects,
        _ => Map::new(),
    };
    let mut all = Vec::new();
    if entry.contains_key("conversations_memory") || projects.is_empty() {
        let key = format!("{account}/conversations");
        entry.insert("key".to_owned(), key.into());
        all.push(entry);
    }
    for (project, text) in projects {
        let mut memory = Map::new();
        memory.insert("conversations_memory".to_owned(), text);
        memory.insert("key".to_owned(), format!("{account}/{project}").into());
        memory.insert("project".to_owned(), project.into());
        all.push(memory);
    }
    all
}

impl Export {
    /// True if a field of an object may be a list of entries.
    pub(super) fn is_list(&self, name: &str) -> bool {
        self.lists.contains(&name)
    }

    /// True if texts in a list are the identifiers of entries elsewhere.
    pub(super) fn has_references(&self, list: &str) -> bool {
        list == EPISODES
    }

    /// True if the entries may say whose they are.
    pub(super) fn has_audiences(&self) -> bool {
        self.kinds.iter().any(|kind| kind.user.is_some())
    }

    /// True if a field beside the entries may have the users.
    pub(super) fn has_users(&self) -> bool {
        self.has_users
    }

    /// True if an object is an entry, not an envelope of entries.
    pub(super) fn is_entry(&self, object: &Map<String, Value>) -> bool {
        match self.convert {
            None => self.kind_of(object).is_some(),
            Some(convert) => {
                let mut entries = convert(object.clone()).into_iter();
                entries.any(|entry| self.kind_of(&entry).is_some())
            }
        }
    }

    /// True if an entry has a field of this name that is read.
    pub(super) fn reads(&self, name: &str) -> bool {
        let mut kinds = self.kinds.iter();
        let is_field = kinds.any(|kind| {
            kind.content == name
                || [kind.title, kind.key, kind.user].contains(&Some(name))
                || kind.kept.contains(&name)
        });
        is_field || past::is_field(name) || (self.convert.is_some() && !self.is_list(name))
    }

    fn kind_of(&self, object: &Map<String, Value>) -> Option<&Kind> {
        let mut kinds = self.kinds.iter();
        kinds.find(|kind| object.contains_key(kind.content))
    }

    /// Creates the memories of an entry: one, or those that the entry contains. For each that
    /// cannot be imported, there is its problem.
    pub(super) fn records(&self, entry: Item, rules: &Rules) -> Vec<Result<Record, Problem>> {
        let Object {
            fields: entry,
            repeated,
        } = match entry {
            Item::Object(object) => object,
            Item::Other(value) => {
                let detail = format!(", not {}", kind_of_value(&value));
                return vec![Err(Problem::with("must be a JSON object", detail))];
            }
        };
        if let Some(name) = repeated.iter().find(|name| self.reads(name)) {
            return vec![Err(Problem::new(format!("duplicate field `{name}`")))];
        }
        let entries = match self.convert {
            Some(convert) => convert(entry),
            None => vec![entry],
        };
        let records = entries.iter().map(|entry| self.record(entry, rules));
        records.collect()
    }

    fn record(&self, entry: &Map<String, Value>, rules: &Rules) -> Result<Record, Problem> {
        let Some(kind) = self.kind_of(entry) else {
            let names = self.kinds.iter().map(|kind| kind.content);
            let names: Vec<&str> = names.collect();
            let reason = format!("has no field {}", names.join(" or "));
            return Err(Problem::new(reason));
        };
        if let Some(now) = rules.now {
            for (name, value) in entry {
                past::check(name, value, now)?;
            }
        }
        let content = match &entry[kind.content] {
            Value::String(content) => content.clone(),
            Value::Array(lines) if lines.iter().all(Value::is_string) => {
                let lines: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
                lines.join("\n")
            }
            _ => return Err(Problem::new(format!("{} must be a text", kind.content))),
        };
        let text = |name: Option<&str>| name.and_then(|name| entry.get(name)).and_then(shown);
        let kept = kind.kept.iter().filter_map(|name| {
            let value = entry.get(*name).and_then(shown)?;
            Some(((*name).to_owned(), value))
        });
        let draft = Draft {
            title: text(kind.title),
            content,
            source_key: text(kind.key),
            is_personal: true,
            user: kind.user.map_or(Ok(None), |name| user(entry, name))?,
            kept: kept.collect(),
            ..Draft::default()
        };
        Record::new(draft, rules)
    }
}

/// Returns the users of a table, by the identifiers that entries have.
pub(super) fn users(tables: &Map<String, Value>) -> HashMap<String, String> {
    let rows = USER_TABLES.iter().filter_map(|name| tables.get(*name));
    let rows = rows.flat_map(|table| match table {
        Value::Array(rows) => rows.as_slice(),
        row => std::slice::from_ref(row),
    });
    let named = rows.filter_map(|row| {
        let id = shown(row.get("id")?)?;
        let name = row.get("user_id").or_else(|| row.get("name"))?;
        Some((id, shown(name)?))
    });
    named.collect()
}

/// Fields beside the entries that have the users.
pub(super) const USER_TABLES: [&str; 2] = ["user", "users"];

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

fn kind_of_value(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
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

    /// Returns the first memory of an entry, whose audience is the workspace's without a user.
    fn record(export: &Export, entry: Value) -> Result<Record, Problem> {
        let rules = Rules {
            audience: Some("workspace:research".parse().unwrap()),
            now: Some(chrono::DateTime::from_timestamp_millis(1_780_272_000_000).unwrap()),
            ..Rules::default()
        };
        let item: Item = serde_json::from_value(entry).unwrap();
        export.records(item, &rules).remove(0)
    }

    fn problem(export: &Export, entry: Value) -> String {
        record(export, entry).unwrap_err().to_string()
    }

    #[test]
    fn export_entry_without_text_is_explained() {
        assert_eq!(
            problem(&MEM0, json!("x")),
            "must be a JSON object, not a text"
        );
        assert_eq!(problem(&MEM0, json!({"id": "1"})), "has no field memory");
        assert_eq!(problem(&ZEP, json!({})), "has no field fact or content");
        assert_eq!(
            problem(&MEM0, json!({"memory": 7})),
            "memory must be a text"
        );
        assert_eq!(
            problem(&LETTA, json!({"text": "Gone.", "is_deleted": true})),
            "deleted (is_deleted)"
        );
    }

    #[test]
    fn export_entry_is_deleted_or_not() {
        for is_deleted in [json!("perhaps"), json!(2), json!([])] {
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
            (json!(null), Some("workspace:research")),
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
        assert!(empty.starts_with("the user's identifier is what programs write"));
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

    #[test]
    fn entry_without_a_user_needs_an_audience() {
        let entry: Item = serde_json::from_value(json!({"memory": "Tea."})).unwrap();
        let records = MEM0.records(entry, &Rules::default());
        let problem = records.into_iter().next().unwrap().unwrap_err();
        assert!(
            problem
                .reason
                .starts_with("has no user; choose the audience")
        );
    }

    #[test]
    fn users_of_a_table_are_those_of_their_entries() {
        let tables = json!({
            "user": {"id": "u1", "user_id": "alice"},
            "users": [{"id": "u2", "user_id": "bob"}, {"id": "u3"}],
        });
        let Value::Object(tables) = tables else {
            unreachable!()
        };
        let rules = Rules {
            users: Some(users(&tables)),
            ..Rules::default()
        };
        let made = |user: &str| {
            let entry = json!({"content": "Tea.", "user_id": user, "id": "7"});
            let entry: Item = serde_json::from_value(entry).unwrap();
            let made = OPENMEMORY.records(entry, &rules).remove(0);
            made.map(|record| {
                let memory = record.into_memory();
                let label = memory.audience_tag.unwrap().to_string();
                (label, memory.source_key.unwrap())
            })
        };
        assert_eq!(
            made("u1").unwrap(),
            ("user:alice".to_owned(), "u1/7".to_owned())
        );
        assert_eq!(made("bob").unwrap().0, "user:bob");
        let unknown = made("u3").unwrap_err();
        assert!(unknown.reason.starts_with("the user is not in the table"));
    }

    #[test]
    fn entity_and_relation_of_the_memory_server_are_memories() {
        let entity = json!({
            "type": "entity", "name": "Maya", "entityType": "person",
            "observations": ["Leads support.", "Likes tea."],
        });
        let memory = record(&MCP_MEMORY, entity).unwrap().into_memory();
        assert_eq!(memory.title, "Maya");
        assert_eq!(
            memory.content,
            "Leads support.\nLikes tea.\n\nentityType: person"
        );
        assert_eq!(memory.source_key.as_deref(), Some("entity/Maya"));
        let relation = json!({
            "type": "relation", "from": "Maya", "to": "Acme", "relationType": "works at",
        });
        let memory = record(&MCP_MEMORY, relation).unwrap().into_memory();
        assert_eq!(memory.content, "Maya works at Acme");
    }

    #[test]
    fn projects_of_claude_are_memories_of_their_own() {
        let entry = json!({
            "conversations_memory": "Works in Porto.",
            "project_memories": {"p-1": "Plans a move."},
            "account_uuid": "a-1",
        });
        let rules = Rules {
            audience: Some("user:maya".parse().unwrap()),
            ..Rules::default()
        };
        let entry: Item = serde_json::from_value(entry).unwrap();
        let records = CLAUDE.records(entry, &rules).into_iter();
        let memories: Vec<_> = records
            .map(|record| record.unwrap().into_memory())
            .collect();
        let keys = memories
            .iter()
            .filter_map(|memory| memory.source_key.as_deref());
        assert_eq!(
            keys.collect::<Vec<_>>(),
            ["maya/a-1/conversations", "maya/a-1/p-1"]
        );
        assert_eq!(memories[1].content, "Plans a move.\n\nproject: p-1");
    }
}
