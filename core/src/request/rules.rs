//! Rules of the values in requests. Their schemas are in `crate::schema`.

use std::fmt::Display;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::checks::Checks;
use super::fields::Reading;
pub(crate) use super::fields::{Field, Flattened, Rule};
#[cfg(feature = "openapi")]
pub(crate) use super::lists::Size;
pub(crate) use super::lists::{Actions, BulkItems, Check, Items, List, Object, Unique};
use super::path::Path;
use super::problems::{Problems, SLUG_RULE};
use super::values::{Wrong, boolean, id, number, parse, text};
use crate::error::ProblemCode;
use crate::limits::{
    DESCRIPTION_CHARS_MAX, RETENTION_DAYS_MAX, ROTATION_MAX, SEARCH_RESULTS_MAX,
    SOURCE_KEY_CHARS_MAX, SYNC_INTERVAL_MAX, SYNC_INTERVAL_MIN,
};
use crate::model::{McpClient, WebhookUrl, is_blank_name, is_control_character, is_label_name};

/// Maximum size of content in its JSON form, in bytes.
///
/// The content fits into one value with the rest of its record.
const CONTENT_JSON_BYTES_MAX: usize = 60 * 1024;

/// Message about U+0000, which PostgreSQL stores in no text: what it cannot store, no store takes.
const NUL_MESSAGE: &str = "must not contain the character U+0000";

/// Rule of a value that has no parts.
pub(crate) trait Scalar {
    /// Type of the value.
    type Value;

    /// Description of a list of such values, for messages.
    const LIST: &'static str = "a list of strings";

    /// Parses the value.
    fn parse(json: &Value) -> Result<Self::Value, Wrong>;

    /// Adds the problems of a value.
    fn check(
        _value: &Self::Value,
        _path: &Path<'_>,
        _checks: &Checks<'_>,
        _problems: &mut Problems,
    ) {
    }

    /// Returns the value as it is written.
    fn json(value: &Self::Value) -> impl Serialize;
}

impl<T: Scalar> Rule for T {
    type Value = T::Value;

    const LIST: &'static str = T::LIST;

    fn read(json: &Value, path: &Path<'_>, reading: &mut Reading<'_>) -> Option<T::Value> {
        match T::parse(json) {
            Ok(value) => {
                if let Some(checks) = reading.checks {
                    T::check(&value, path, &checks, &mut reading.problems);
                }
                Some(value)
            }
            Err(wrong) => {
                reading.problems.push(path, wrong.code, wrong.message);
                None
            }
        }
    }

    fn check(value: &T::Value, path: &Path<'_>, checks: &Checks<'_>, problems: &mut Problems) {
        <T as Scalar>::check(value, path, checks, problems);
    }

    fn write<S: Serializer>(value: &T::Value, serializer: S) -> Result<S::Ok, S::Error> {
        T::json(value).serialize(serializer)
    }
}

/// A text that is parsed. The error of the type becomes the message.
pub(crate) struct Parsed<T>(PhantomData<T>);

impl<T: FromStr<Err: Display> + Serialize> Scalar for Parsed<T> {
    type Value = T;

    fn parse(json: &Value) -> Result<T, Wrong> {
        parse(json)
    }

    fn json(value: &T) -> impl Serialize {
        value
    }
}

/// A value, or `null` to take it away.
pub(crate) struct Nullable<R>(PhantomData<R>);

impl<R: Rule> Rule for Nullable<R> {
    type Value = Option<R::Value>;

    const LIST: &'static str = R::LIST;

    fn read(json: &Value, path: &Path<'_>, reading: &mut Reading<'_>) -> Option<Self::Value> {
        match json {
            Value::Null => Some(None),
            json => R::read(json, path, reading).map(Some),
        }
    }

    fn check(value: &Self::Value, path: &Path<'_>, checks: &Checks<'_>, problems: &mut Problems) {
        if let Some(value) = value {
            R::check(value, path, checks, problems);
        }
    }

    fn write<S: Serializer>(value: &Self::Value, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => R::write(value, serializer),
            None => serializer.serialize_none(),
        }
    }
}

/// An identifier.
pub(crate) struct Id<T>(PhantomData<T>);

impl<T: FromStr + Serialize> Scalar for Id<T> {
    type Value = T;

    const LIST: &'static str = "a list of UUIDs";

    fn parse(json: &Value) -> Result<T, Wrong> {
        id(json)
    }

    fn json(value: &T) -> impl Serialize {
        value
    }
}

/// `true` or `false`.
pub(crate) enum Flag {}

impl Scalar for Flag {
    type Value = bool;

    fn parse(json: &Value) -> Result<bool, Wrong> {
        boolean(json)
    }

    fn json(value: &bool) -> impl Serialize {
        value
    }
}

/// Defines rules of texts, each with its check.
macro_rules! texts {
    ($(
        $(#[$meta:meta])*
        $name:ident: |$text:ident, $path:ident, $limits:ident, $problems:ident| $check:block
    )+) => {$(
        $(#[$meta])*
        pub(crate) enum $name {}

        impl Scalar for $name {
            type Value = String;

            fn parse(json: &Value) -> Result<String, Wrong> {
                text(json).map(str::to_owned)
            }

            fn check(
                $text: &String,
                $path: &Path<'_>,
                Checks { limits: $limits, .. }: &Checks<'_>,
                $problems: &mut Problems,
            ) {
                if $text.contains('\0') {
                    $problems.push($path, ProblemCode::InvalidValue, NUL_MESSAGE);
                    return;
                }
                $check
            }

            fn json(value: &String) -> impl Serialize {
                value
            }
        }
    )+};
}

texts! {
    /// A text that the operation checks.
    Text: |text, path, _limits, problems| {}
    /// A name or a title: 1 to [`Limits::name_chars_max`] characters, not only white space and
    /// invisible ones, and no control characters, those of bidirectional text included.
    ///
    /// [`Limits::name_chars_max`]: crate::limits::Limits::name_chars_max
    Name: |text, path, limits, problems| {
        let chars_max = limits.name_chars_max;
        let code = match text.chars().count() {
            chars if chars > chars_max => ProblemCode::TooLarge,
            _ if is_blank_name(text) => ProblemCode::TooSmall,
            _ => {
                if let Some(char) = text.chars().find(|char| is_control_character(*char)) {
                    let message = format!(
                        "must not contain the control character U+{:04X}",
                        u32::from(char)
                    );
                    problems.push(path, ProblemCode::InvalidValue, message);
                }
                return;
            }
        };
        let message = format!(
            "must have 1 to {chars_max} characters, not only white space, and no control \
             characters"
        );
        problems.push(path, code, message);
    }
    /// A slug, a handle or the name of a team.
    Slug: |text, path, _limits, problems| {
        if !is_label_name(text) {
            problems.push(path, ProblemCode::InvalidValue, SLUG_RULE);
        }
    }
    /// A description.
    Description: |text, path, _limits, problems| {
        if text.chars().count() > DESCRIPTION_CHARS_MAX {
            let message = format!("must have at most {DESCRIPTION_CHARS_MAX} characters");
            problems.push(path, ProblemCode::TooLarge, message);
        }
    }
    /// The content of a memory or a message, which fits into one value.
    ///
    /// Its limit is in bytes, which a schema cannot express. `maxLength` is therefore exact only
    /// for ASCII.
    Content: |text, path, limits, problems| {
        let bytes_max = limits.content_bytes_max;
        let json_bytes = || serde_json::to_string(text).map_or(usize::MAX, |json| json.len());
        let code = match text.len() {
            0 => ProblemCode::TooSmall,
            bytes if bytes > bytes_max || json_bytes() > CONTENT_JSON_BYTES_MAX => {
                ProblemCode::TooLarge
            }
            _ => return,
        };
        let message = format!(
            "must have 1 to {bytes_max} bytes, and at most {CONTENT_JSON_BYTES_MAX} once JSON \
             escapes it"
        );
        problems.push(path, code, message);
    }
    /// The name of a memory at its source.
    SourceKey: |text, path, _limits, problems| {
        if text.is_empty() || text.chars().count() > SOURCE_KEY_CHARS_MAX {
            let message = format!("must have 1 to {SOURCE_KEY_CHARS_MAX} characters");
            problems.push(path, ProblemCode::InvalidValue, message);
        }
    }
}

/// The URL of a webhook, to which deliveries may go.
pub(crate) enum Url {}

impl Scalar for Url {
    type Value = WebhookUrl;

    fn parse(json: &Value) -> Result<WebhookUrl, Wrong> {
        parse(json)
    }

    fn check(url: &WebhookUrl, path: &Path<'_>, checks: &Checks<'_>, problems: &mut Problems) {
        let chars_max = checks.limits.url_chars_max;
        if url.as_str().len() > chars_max {
            let message = format!("must have at most {chars_max} characters");
            problems.push(path, ProblemCode::TooLarge, message);
        } else if let Some(Err(refused)) = checks.addresses.map(|policy| policy.check_url(url)) {
            problems.push(path, ProblemCode::InvalidValue, refused.to_string());
        }
    }

    fn json(url: &WebhookUrl) -> impl Serialize {
        url
    }
}

/// The kind of client that uses an MCP key. An unknown kind is read as `other`.
pub(crate) enum ClientName {}

impl Scalar for ClientName {
    type Value = McpClient;

    fn parse(json: &Value) -> Result<McpClient, Wrong> {
        let name = text(json)?;
        if name.contains('\0') {
            return Err(Wrong::value(NUL_MESSAGE));
        }
        Ok(name.parse().unwrap_or(McpClient::Other))
    }

    fn json(client: &McpClient) -> impl Serialize {
        client
    }
}

/// Defines rules of whole numbers, each with its maximum and its message; the minimum is 1.
macro_rules! numbers {
    ($($(#[$meta:meta])* $name:ident: $max:expr, $message:expr;)+) => {$(
        $(#[$meta])*
        pub(crate) enum $name {}

        impl Scalar for $name {
            type Value = u64;

            fn parse(json: &Value) -> Result<u64, Wrong> {
                number(json)
            }

            fn check(
                number: &u64,
                path: &Path<'_>,
                _checks: &Checks<'_>,
                problems: &mut Problems,
            ) {
                if !(1..=$max).contains(number) {
                    problems.push(path, ProblemCode::InvalidValue, $message);
                }
            }

            fn json(number: &u64) -> impl Serialize {
                number
            }
        }
    )+};
}

numbers! {
    /// The number of days after which something is erased.
    RetentionDays: RETENTION_DAYS_MAX, "must be between 1 and 36,500 days";
    /// The number of memories that a search returns.
    SearchLimit: SEARCH_RESULTS_MAX, format!("must be 1 to {SEARCH_RESULTS_MAX}");
}

/// Defines rules of durations in seconds, each with its minimum, its maximum and its message.
macro_rules! durations {
    ($($(#[$meta:meta])* $name:ident: $min:expr, $max:expr, $message:literal;)+) => {$(
        $(#[$meta])*
        pub(crate) enum $name {}

        impl Scalar for $name {
            type Value = Duration;

            fn parse(json: &Value) -> Result<Duration, Wrong> {
                number(json).map(Duration::from_secs)
            }

            fn check(
                duration: &Duration,
                path: &Path<'_>,
                _checks: &Checks<'_>,
                problems: &mut Problems,
            ) {
                if *duration < $min || *duration > $max {
                    problems.push(path, ProblemCode::InvalidValue, $message);
                }
            }

            fn json(duration: &Duration) -> impl Serialize {
                duration.as_secs()
            }
        }
    )+};
}

durations! {
    /// The interval between syncs of a connector.
    SyncIntervalSeconds: SYNC_INTERVAL_MIN, SYNC_INTERVAL_MAX,
        "must be between one minute and 31 days";
    /// The time within which an MCP key must be rotated.
    RotationSeconds: Duration::from_nanos(1), ROTATION_MAX,
        "must be greater than 0 and at most 366 days";
    /// A duration that the operation checks.
    Seconds: Duration::ZERO, Duration::MAX, "must be a duration";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::limits::Limits;

    #[test]
    fn no_text_contains_nul() {
        let limits = Limits::default();
        let checks = Checks {
            limits: &limits,
            addresses: None,
        };
        let text = "a\0b".to_owned();
        for checked in [
            checks.value::<Text>("text", &text),
            checks.value::<Name>("text", &text),
            checks.value::<Slug>("text", &text),
            checks.value::<Description>("text", &text),
            checks.value::<Content>("text", &text),
            checks.value::<SourceKey>("text", &text),
        ] {
            let Err(Error::InvalidRequest { fields }) = checked else {
                panic!("{checked:?}");
            };
            let found: Vec<String> = fields.iter().map(ToString::to_string).collect();
            assert_eq!(found, [format!("text {NUL_MESSAGE}")]);
        }
        assert!(
            checks
                .value::<Content>("text", &"a\u{1}b".to_owned())
                .is_ok()
        );
    }

    #[test]
    fn name_length_is_counted_in_characters() {
        let mut limits = Limits::default();
        let problem = |limits: &Limits, name: &str| {
            let checks = Checks {
                limits,
                addresses: None,
            };
            match checks.value::<Name>("name", &name.to_owned()) {
                Err(Error::InvalidRequest { mut fields }) => Some(fields.remove(0)),
                checked => checked.map(|()| None).unwrap(),
            }
        };
        let code = |name: &str| problem(&limits, name).map(|problem| problem.code);
        assert_eq!(code(&"ä".repeat(128)), None);
        assert_eq!(code(&"ä".repeat(129)), Some(ProblemCode::TooLarge));
        for blank in [
            "",
            " \t",
            "\u{200b}",
            "\u{2800} \u{3164}",
            "\u{ad}\u{2060}\u{fe0f}",
        ] {
            assert_eq!(code(blank), Some(ProblemCode::TooSmall), "{blank:?}");
        }
        assert_eq!(code("a\u{7}b"), Some(ProblemCode::InvalidValue));
        for char in
            "\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}".chars()
        {
            let invalid = Some(ProblemCode::InvalidValue);
            assert_eq!(code(&format!("a{char}b")), invalid, "{char:?}");
        }
        // A joiner in an emoji and a non-joiner in Persian, and text from right to left.
        for name in ["👩\u{200d}🚀", "می\u{200c}خواهم", "שלום עולם", "co\u{ad}op"]
        {
            assert_eq!(code(name), None, "{name:?}");
        }
        limits.name_chars_max = 3;
        assert_eq!(problem(&limits, "äöü"), None);
        let problem = problem(&limits, "äöüß").unwrap();
        assert!(problem.message.starts_with("must have 1 to 3 characters"));
    }
}
