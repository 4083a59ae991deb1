//! `Retry-After` of responses.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::RETRY_AFTER;

/// Longest accepted delay; a longer one is reduced to this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Parses `Retry-After` (RFC 9110, 10.2.3), as seconds or as a date. `None` if it is neither.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that overflows is a long delay too.
        value.parse().map_or(Duration::MAX, Duration::from_secs)
    } else {
        let date = httpdate::parse_http_date(value).ok()?;
        // A date in the past means no delay.
        date.duration_since(now).unwrap_or_default()
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    /// 1994-11-06T08:49:00Z, 37 seconds before the date of RFC 9110.
    const NOW: Duration = Duration::from_secs(784_111_740);

    fn understood(value: &str) -> Option<Duration> {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        let headers = HeaderMap::from_iter([(RETRY_AFTER, value)]);
        retry_after(&headers, SystemTime::UNIX_EPOCH + NOW)
    }

    #[test]
    fn retry_after_parser_accepts_only_seconds_and_dates() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (value, expected) in [
            ("0", seconds(0)),
            ("120", seconds(120)),
            (" 7 ", seconds(7)),
            ("0007", seconds(7)),
            ("604800", seconds(604_800)),
            ("604801", seconds(604_800)),
            ("99999999999999999999999999", seconds(604_800)),
            ("18446744073709551615", seconds(604_800)),
            // The three date formats of HTTP.
            ("Sun, 06 Nov 1994 08:49:37 GMT", seconds(37)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", seconds(37)),
            ("Sun Nov  6 08:49:37 1994", seconds(37)),
            ("Sun, 06 Nov 1994 08:48:37 GMT", seconds(0)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", seconds(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", seconds(604_800)),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("1e3", None),
            ("soon", None),
            ("１２０", None),
            ("Sun, 06 Nov 1994 08:49:37 PST", None),
            ("Sun, 99 Nov 1994 08:49:37 GMT", None),
            ("Fri, 31 Dec 99999 23:59:59 GMT", None),
        ] {
            assert_eq!(understood(value), expected, "{value:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), SystemTime::now()), None);
    }

    proptest::proptest! {
        #[test]
        fn retry_after_parser_bounds_any_value(value in proptest::collection::vec(0_u8.., 0..40)) {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                let headers = HeaderMap::from_iter([(RETRY_AFTER, value)]);
                let wait = retry_after(&headers, SystemTime::UNIX_EPOCH + NOW);
                assert!(wait.is_none_or(|wait| wait <= RETRY_AFTER_MAX));
            }
        }
    }
}
