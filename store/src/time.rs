//! Points in time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in time with millisecond precision, written as RFC 3339 in UTC.
///
/// An example is `2026-01-31T09:30:00.000Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

/// Error of a text that is not an RFC 3339 timestamp between the years 0 and 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be an RFC 3339 timestamp, for example 2026-01-31T09:30:00.000Z")]
pub struct InvalidTimestamp;

/// First millisecond of the year 0 and last of the year 9999, the range of RFC 3339.
const MILLIS_MIN: i64 = -62_167_219_200_000;
const MILLIS_MAX: i64 = 253_402_300_799_999;

impl Timestamp {
    /// 1970-01-01T00:00:00.000Z.
    pub const UNIX_EPOCH: Self = Self(0);
    /// Last millisecond of the year 9999, the end of the range of RFC 3339.
    pub const MAX: Self = Self(MILLIS_MAX);

    /// Creates the time this many milliseconds after the Unix epoch, clamped to the years 0 to
    /// 9999.
    #[must_use]
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(MILLIS_MIN, MILLIS_MAX))
    }

    /// Returns the milliseconds since the Unix epoch, negative before it.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns the whole seconds since the Unix epoch.
    #[must_use]
    pub const fn as_seconds(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// Returns the time this much later, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.0.saturating_add(millis))
    }

    /// Returns the time this much earlier.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.0.saturating_sub(millis))
    }

    /// Returns the time elapsed since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = DateTime::<Utc>::from_timestamp_millis(self.0).unwrap_or_default();
        f.write_str(&time.to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let time = DateTime::parse_from_rfc3339(text).map_err(|_| InvalidTimestamp)?;
        let millis = time.timestamp_millis();
        (MILLIS_MIN..=MILLIS_MAX)
            .contains(&millis)
            .then_some(Self(millis))
            .ok_or(InvalidTimestamp)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schemars")]
impl schemars::JsonSchema for Timestamp {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut schema = schemars::json_schema!({
            "type": "string",
            "format": "date-time",
            "examples": ["2026-01-31T09:30:00.000Z"],
        });
        if generator.contract().is_serialize() {
            let pattern = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$";
            schema.insert("pattern".to_owned(), pattern.into());
        }
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_is_written_in_utc_with_milliseconds() {
        let time: Timestamp = "2026-01-31T10:30:00.5+01:00".parse().unwrap();
        assert_eq!(time.to_string(), "2026-01-31T09:30:00.500Z");
        assert_eq!(
            serde_json::to_string(&time).unwrap(),
            "\"2026-01-31T09:30:00.500Z\""
        );
    }

    #[test]
    fn timestamp_parser_rejects_incomplete_and_invalid_times() {
        for text in [
            "",
            "yesterday",
            "2026-01-31",
            "2026-13-01T00:00:00Z",
            "2026-01-31T09:30:00",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(InvalidTimestamp), "{text}");
        }
    }

    #[test]
    fn timestamp_arithmetic_saturates() {
        assert_eq!(Timestamp::MAX.plus(Duration::from_secs(1)), Timestamp::MAX);
        assert_eq!(Timestamp::MAX.to_string(), "9999-12-31T23:59:59.999Z");
        assert_eq!(Timestamp::UNIX_EPOCH.since(Timestamp::MAX), Duration::ZERO);
    }
}
