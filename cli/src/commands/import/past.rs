//! Entries that are over in their own store: deleted, archived, ended, expired or replaced.

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Utc};
use serde_json::Value;

use super::problem::Problem;

/// Meaning of a field.
#[derive(Clone, Copy)]
enum Rule {
    /// The entry is over if the field is true, or a time that has come.
    True,
    /// The entry is over if the field is false.
    False,
    /// The entry is over once the time has come.
    Time,
    /// The entry is over if the field names another one.
    Present,
    /// The entry is over if the field has one of [`STATES`].
    State,
}

/// Fields that tell that an entry is over, in lower case without `_`, with what it is then.
const FIELDS: [(&str, Rule, &str); 21] = [
    ("isdeleted", Rule::True, "deleted"),
    ("deleted", Rule::True, "deleted"),
    ("deletedat", Rule::Time, "deleted"),
    ("isarchived", Rule::True, "archived"),
    ("archived", Rule::True, "archived"),
    ("archivedat", Rule::Time, "archived"),
    ("isforgotten", Rule::True, "forgotten"),
    ("forgotten", Rule::True, "forgotten"),
    ("forgottenat", Rule::Time, "forgotten"),
    ("forgetafter", Rule::Time, "forgotten"),
    ("islatest", Rule::False, "superseded"),
    ("supersededat", Rule::Time, "superseded"),
    ("supersededby", Rule::Present, "superseded"),
    ("invalidat", Rule::Time, "ended"),
    ("expiredat", Rule::Time, "ended"),
    ("validuntil", Rule::Time, "ended"),
    ("validto", Rule::Time, "ended"),
    ("expirationdate", Rule::Time, "expired"),
    ("expiresat", Rule::Time, "expired"),
    ("state", Rule::State, ""),
    ("status", Rule::State, ""),
];
/// States of entries that are over.
const STATES: [&str; 8] = [
    "deleted",
    "archived",
    "paused",
    "obsolete",
    "superseded",
    "expired",
    "forgotten",
    "inactive",
];
/// Texts that programs write in place of a missing value, in lower case.
const MISSING: [&str; 9] = [
    "", "nan", "nat", "none", "null", "na", "n/a", "<na>", "#n/a",
];

fn rule_of(name: &str) -> Option<(Rule, &'static str)> {
    let name: String = name
        .chars()
        .filter(|char| char.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect();
    let found = FIELDS.iter().find(|(field, ..)| *field == name);
    found.map(|(_, rule, what)| (*rule, *what))
}

/// Returns true if a field may tell that an entry is over.
pub(super) fn is_field(name: &str) -> bool {
    rule_of(name).is_some()
}

/// Returns true for a text that programs write in place of a missing value.
pub(super) fn is_missing(text: &str) -> bool {
    let text = text.trim();
    MISSING.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Checks a field of an entry: whether the entry is over, at the time `now`.
///
/// # Errors
/// The reason to leave the entry out; or the problem of a value that tells nothing.
pub(super) fn check(name: &str, value: &Value, now: DateTime<Utc>) -> Result<(), Problem> {
    let Some((rule, what)) = rule_of(name) else {
        return Ok(());
    };
    if value.is_null() || value.as_str().is_some_and(is_missing) {
        return Ok(());
    }
    let over = |what: &str| Problem::past(format!("{what} ({name})"));
    let is_over = match rule {
        Rule::True => match flag(value).or_else(|| time(value).map(|end| end <= now)) {
            Some(is_set) => is_set,
            None => return Err(Problem::new(format!("{name} must be true or false"))),
        },
        Rule::False => match flag(value) {
            Some(is_set) => !is_set,
            None => return Err(Problem::new(format!("{name} must be true or false"))),
        },
        Rule::Time => match time(value) {
            Some(end) => end <= now,
            None => {
                return Err(Problem::new(format!(
                    "{name} must be a time, for example 2026-01-31T09:30:00Z"
                )));
            }
        },
        Rule::Present => true,
        Rule::State => {
            let state = value.as_str().unwrap_or_default().to_lowercase();
            return match STATES.into_iter().find(|over| *over == state) {
                Some(state) => Err(over(state)),
                None => Ok(()),
            };
        }
    };
    if is_over { Err(over(what)) } else { Ok(()) }
}

fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(is_set) => Some(*is_set),
        Value::Number(number) => match number.as_u64() {
            Some(0) => Some(false),
            Some(1) => Some(true),
            _ => None,
        },
        Value::String(text) => match text.trim().to_lowercase().as_str() {
            "true" | "t" | "yes" | "1" | "1.0" => Some(true),
            "false" | "f" | "no" | "0" | "0.0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// Reads a time: RFC 3339 and what databases make of it, a date, of which the whole day counts, or
/// seconds or milliseconds since 1970, from 1973 on. A time without a zone is in UTC.
fn time(value: &Value) -> Option<DateTime<Utc>> {
    match value {
        Value::Number(number) => time_of_number(number.as_f64()?),
        Value::String(text) => time_of_text(text.trim()),
        _ => None,
    }
}

fn time_of_number(number: f64) -> Option<DateTime<Utc>> {
    /// First number that is in milliseconds: in seconds, it would be the year 5138.
    const MILLIS_MIN: f64 = 1e11;
    if !(1e8..1e15).contains(&number) {
        return None;
    }
    let millis = if number < MILLIS_MIN {
        number * 1_000.0
    } else {
        number
    };
    DateTime::from_timestamp_millis(millis as i64)
}

fn time_of_text(text: &str) -> Option<DateTime<Utc>> {
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(time.to_utc());
    }
    for format in ["%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f%#z"] {
        if let Ok(time) = DateTime::parse_from_str(text, format) {
            return Some(time.to_utc());
        }
    }
    let plain = text.trim_end_matches(" UTC");
    for format in [
        "%Y-%m-%dT%H:%M:%S%.f",
        "%Y-%m-%d %H:%M:%S%.f",
        "%Y-%m-%dT%H:%M",
        "%Y-%m-%d %H:%M",
    ] {
        if let Ok(time) = NaiveDateTime::parse_from_str(plain, format) {
            return Some(time.and_utc());
        }
    }
    if let Ok(date) = NaiveDate::parse_from_str(plain, "%Y-%m-%d") {
        let next = date.checked_add_signed(TimeDelta::days(1))?;
        return Some(next.and_time(NaiveTime::MIN).and_utc());
    }
    plain.parse().ok().and_then(time_of_number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(name: &str, value: Value) -> String {
        let now = DateTime::from_timestamp_millis(1_780_272_000_000); // 2026-06-01T00:00:00Z
        match check(name, &value, now.unwrap()) {
            Ok(()) => "present".to_owned(),
            Err(problem) if problem.is_past => problem.reason,
            Err(problem) => format!("! {}", problem.reason),
        }
    }

    #[test]
    fn end_that_has_come_makes_an_entry_past() {
        for end in [
            json!("2026-05-31T23:59:59.999999Z"),
            json!("2026-06-01T01:59:00+02:00"),
            json!("2026-05-31 23:59:59+0000"),
            json!("2026-05-31 23:59:59"),
            json!("2026-05-31T23:59:59"),
            json!("2026-05-31"),
            json!(1_780_271_999),
            json!(1_780_271_999_000_u64),
            json!("1780271999"),
        ] {
            assert_eq!(
                checked("invalid_at", end.clone()),
                "ended (invalid_at)",
                "{end}"
            );
        }
        for end in [
            json!("2026-06-01T00:00:01Z"),
            json!("2026-06-01T01:00:00-02:00"),
            json!("2026-06-01"),
            json!("2030-01-01 00:00:00"),
            json!(1_780_272_001),
            json!(null),
            json!(""),
            json!("NaT"),
        ] {
            assert_eq!(checked("expiration_date", end.clone()), "present", "{end}");
        }
        for end in [
            json!("soon"),
            json!("31.05.2026"),
            json!(-1),
            json!([]),
            json!(true),
        ] {
            let reason = "! expires_at must be a time, for example 2026-01-31T09:30:00Z";
            assert_eq!(checked("expires_at", end.clone()), reason, "{end}");
        }
    }

    #[test]
    fn flags_and_states_make_an_entry_past() {
        for (name, value, expected) in [
            ("is_deleted", json!(true), "deleted (is_deleted)"),
            ("is_deleted", json!(false), "present"),
            ("isForgotten", json!(true), "forgotten (isForgotten)"),
            ("isLatest", json!(false), "superseded (isLatest)"),
            ("isLatest", json!(true), "present"),
            ("archived", json!("True"), "archived (archived)"),
            ("archived", json!("2026-01-01"), "archived (archived)"),
            ("state", json!("deleted"), "deleted (state)"),
            ("Status", json!("Archived"), "archived (Status)"),
            ("state", json!("active"), "present"),
            ("status", json!(7), "present"),
            ("superseded_by", json!("f-2"), "superseded (superseded_by)"),
            ("superseded_by", json!(null), "present"),
            (
                "is_deleted",
                json!("maybe"),
                "! is_deleted must be true or false",
            ),
            ("deleted_by", json!("maya"), "present"),
        ] {
            assert_eq!(checked(name, value.clone()), expected, "{name}: {value}");
        }
    }
}
