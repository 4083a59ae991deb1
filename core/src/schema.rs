//! Schemas of types that are serialised by hand: constrained strings, identifiers, labels, sets.
//!
//! A field that is a plain string with a constraint names the schema of that constraint:
//! `schemars(with = "Name")`. A configurable limit appears as `x-limit` with its name in
//! [`Limits`](crate::limits::Limits); generating the document replaces it by the limit in force.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::json;

use crate::access::{Action, ActionSet, BaseRole, BuiltInRole, RoleRef};
use crate::limits::{
    CONTENT_BYTES_MAX, DESCRIPTION_CHARS_MAX, NAME_CHARS_MAX, RETENTION_DAYS_MAX, ROTATION_DEFAULT,
    ROTATION_MAX, SEARCH_RESULTS_MAX, SOURCE_KEY_CHARS_MAX, SYNC_INTERVAL_MAX, SYNC_INTERVAL_MIN,
};
use crate::model::{
    AUDIENCE_NAME_CHARS_MAX, AudienceLabel, AudienceScope, URL_CHARS_MAX, WebhookUrl,
};
use crate::request::Request;
use crate::request::rules::{
    Actions, Check, Flag, Flattened, Id, List, Nullable, Object, Parsed, Rule, Seconds, Size, Text,
    Url,
};
pub(crate) use crate::request::rules::{
    ClientName, Content, Description, Name, RetentionDays, RotationSeconds, SearchLimit, Slug,
    SourceKey, SyncIntervalSeconds,
};

/// Implements an inline schema for a type.
macro_rules! inline_schema {
    ($name:ident: |$generator:ident| $schema:expr) => {
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema($generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $schema
            }
        }
    };
    ($name:ident: $schema:expr) => {
        $crate::schema::inline_schema! { $name: |_generator| $schema }
    };
}

pub(crate) use inline_schema;

/// Defines constraints of strings as uninhabited types that only have a schema.
macro_rules! rules {
    ($($(#[$meta:meta])* $name:ident: $schema:expr;)+) => {$(
        $(#[$meta])*
        pub(crate) enum $name {}

        inline_schema! { $name: $schema }
    )+};
}

pub(crate) fn uuid() -> Schema {
    json_schema!({
        "type": "string",
        "format": "uuid",
        "examples": ["01890a5d-ac96-774b-bcce-b302099a8057"],
    })
}

/// Pattern of a text of any characters but U+0000.
const NO_NUL: &str = r"^[^\x00]*$";

/// Control characters in a pattern, those of bidirectional text included.
macro_rules! controls {
    () => {
        r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    };
}

/// Characters that are invisible or blank by themselves, as in `model::is_blank_name`, as far as each
/// is one unit of UTF-16: not every dialect has an escape for others.
macro_rules! invisible {
    () => {
        concat!(
            r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065",
            r"\u206a-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
        )
    };
}

/// Pattern of a text without control characters that shows something.
const PLAIN_TEXT: &str = concat!(
    "^[^",
    controls!(),
    "]*[^\\s",
    controls!(),
    invisible!(),
    "][^",
    controls!(),
    "]*$"
);

rules! {
    /// An identifier whose kind another field names.
    Identifier: uuid();
    /// The outcome of an audited operation.
    OutcomeName: json_schema!({ "type": "string", "enum": ["ok", "not_found", "forbidden"] });
    /// A signing secret in the format of Standard Webhooks 1.0.0.
    SigningSecret: json_schema!({
        "type": "string",
        "pattern": "^whsec_[A-Za-z0-9+/]+={0,2}$",
        "examples": ["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"],
    });
}

inline_schema! { Slug: json_schema!({
    "type": "string",
    "minLength": 1,
    "maxLength": AUDIENCE_NAME_CHARS_MAX,
    "pattern": "^[a-z0-9._-]+$",
    "examples": ["product-handbook"],
}) }
inline_schema! { Description: json_schema!({
    "type": "string",
    "maxLength": DESCRIPTION_CHARS_MAX,
    "pattern": NO_NUL,
    "examples": ["What everybody should know."],
}) }
inline_schema! { SourceKey: json_schema!({
    "type": "string",
    "minLength": 1,
    "maxLength": SOURCE_KEY_CHARS_MAX,
    "pattern": NO_NUL,
    "examples": ["refunds.md"],
}) }
inline_schema! { ClientName: json_schema!({
    "type": "string",
    "pattern": NO_NUL,
    "examples": ["claude_code"],
}) }
inline_schema! { SyncIntervalSeconds: json_schema!({
    "type": "integer",
    "minimum": SYNC_INTERVAL_MIN.as_secs(),
    "maximum": SYNC_INTERVAL_MAX.as_secs(),
    "examples": [3_600],
}) }
inline_schema! { RetentionDays: json_schema!({
    "type": "integer",
    "minimum": 1,
    "maximum": RETENTION_DAYS_MAX,
    "examples": [90],
}) }
inline_schema! { SearchLimit: json_schema!({
    "type": "integer",
    "minimum": 1,
    "maximum": SEARCH_RESULTS_MAX,
    "examples": [10],
}) }
inline_schema! { RotationSeconds: json_schema!({
    "type": "integer",
    "minimum": 1,
    "maximum": ROTATION_MAX.as_secs(),
    "default": ROTATION_DEFAULT.as_secs(),
    "examples": [ROTATION_DEFAULT.as_secs()],
}) }
/// Adds the maximum length to the schema of a string.
///
/// A request obeys the limit in force; a response may hold values accepted under an earlier one.
fn limited(generator: &SchemaGenerator, mut schema: Schema, name: &str, ceiling: usize) -> Schema {
    schema.insert("type".to_owned(), "string".into());
    if generator.contract().is_serialize() {
        schema.insert("maxLength".to_owned(), ceiling.into());
    } else {
        schema.insert("x-limit".to_owned(), name.into());
    }
    schema
}

inline_schema! { Name: |generator| limited(generator, json_schema!({
    "minLength": 1,
    "pattern": PLAIN_TEXT,
    "examples": ["Product handbook"],
}), "name_chars_max", NAME_CHARS_MAX) }

inline_schema! { Content: |generator| limited(generator, json_schema!({
    "minLength": 1,
    "pattern": NO_NUL,
    "examples": ["Refunds take five working days."],
}), "content_bytes_max", CONTENT_BYTES_MAX) }

fn audience_label() -> Schema {
    let scopes: Vec<_> = AudienceScope::ALL
        .iter()
        .map(|scope| scope.as_str())
        .collect();
    let scopes = scopes.join("|");
    json_schema!({
        "description": "Audience of a memory: `<scope>:<name>`. `org:` covers the members of the \
            organisation, `workspace:` the people of a workspace (all members, or of a private \
            one those with a role in it and owners), `team:` those of a team, `user:` one member.",
        "type": "string",
        "pattern": format!("^({scopes}):[a-z0-9._-]{{1,{AUDIENCE_NAME_CHARS_MAX}}}$"),
        "examples": ["team:platform"],
    })
}

fn role_ref(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Name of a built-in role, or identifier of a custom role.",
        "anyOf": [generator.subschema_for::<BuiltInRole>(), uuid()],
    })
}

fn action_set(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = json_schema!({
        "type": "array",
        "items": generator.subschema_for::<Action>(),
    });
    if generator.contract().is_serialize() {
        schema.insert("uniqueItems".to_owned(), json!(true));
    }
    schema
}

/// A role that can be assigned in a workspace.
pub(crate) enum WorkspaceRole {}

inline_schema! { WorkspaceRole: json_schema!({
    "description": "Name of a built-in role except `owner`, or identifier of a custom role.",
    "anyOf": [{ "type": "string", "enum": ["viewer", "member", "admin"] }, uuid()],
}) }

/// The role that the holders of a deleted role get.
pub(crate) enum ReassignTarget {}

inline_schema! { ReassignTarget: |generator| json_schema!({
    "anyOf": [generator.subschema_for::<BaseRole>(), uuid()],
}) }
impl JsonSchema for AudienceLabel {
    fn schema_name() -> Cow<'static, str> {
        "AudienceLabel".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        audience_label()
    }
}

inline_schema! { RoleRef: |generator| role_ref(generator) }
inline_schema! { ActionSet: |generator| action_set(generator) }
inline_schema! { WebhookUrl: |generator| limited(generator, json_schema!({
    "format": "uri",
    "pattern": r"^https?://[^\s/?#@]+([/?][^\s#]*)?$",
    "examples": ["https://example.com/hooks"],
}), "url_chars_max", URL_CHARS_MAX) }

/// Implements the schema of a rule: that of the type of its values.
macro_rules! schemas_of_values {
    ($([$($parameter:ident $(: $bound:path)?)?] $rule:ty => $value:ty;)+) => {$(
        impl$(<$parameter: schemars::JsonSchema $(+ $bound)?>)? schemars::JsonSchema for $rule {
            fn inline_schema() -> bool {
                <$value>::inline_schema()
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                <$value>::schema_name()
            }

            fn schema_id() -> std::borrow::Cow<'static, str> {
                <$value>::schema_id()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                <$value>::json_schema(generator)
            }
        }
    )+};
}

pub(crate) use schemas_of_values;

schemas_of_values! {
    [T] Parsed<T> => T;
    [T] Id<T> => T;
    [T: Request] Object<T> => T;
    [T: Request] Flattened<T> => T;
    [] Flag => bool;
    [] Text => String;
    [] Url => WebhookUrl;
    [] Actions => ActionSet;
}

/// Mark in the schema of a value that `null` takes away.
pub(crate) const NULLABLE: &str = "x-nullable";

impl<R: JsonSchema> JsonSchema for Nullable<R> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Nullable".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Option::<R>::json_schema(generator);
        schema.insert(NULLABLE.to_owned(), true.into());
        schema
    }
}

inline_schema! { Seconds: json_schema!({ "type": "integer", "format": "uint64", "minimum": 1 }) }

impl<R: Rule + JsonSchema, S: Size, C: Check<R::Value>> JsonSchema for List<R, S, C> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "List".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Vec::<R>::json_schema(generator);
        S::describe(&mut schema);
        C::describe(&mut schema);
        schema
    }
}
