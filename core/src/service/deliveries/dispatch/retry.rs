//! Retry schedule of failed deliveries: backoff with jitter.

use std::time::Duration;

use crate::env::Env;

/// Minimum delay until a claimed endpoint is due again, behind others that are due.
pub(super) const REQUEUE_DELAY: Duration = Duration::from_millis(1);
/// Delay before corrupt data are tried again, so that they do not hold up the rest.
pub(super) const CORRUPT_RETRY_DELAY: Duration = Duration::from_secs(5 * 60);
/// Backoff after each failed attempt but the last, as Standard Webhooks 1.0.0 proposes.
const RETRY_DELAYS: [Duration; 9] = [
    Duration::from_secs(5),
    Duration::from_secs(5 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(2 * 60 * 60),
    Duration::from_secs(5 * 60 * 60),
    Duration::from_secs(10 * 60 * 60),
    Duration::from_secs(14 * 60 * 60),
    Duration::from_secs(20 * 60 * 60),
    Duration::from_secs(24 * 60 * 60),
];
/// Maximum relative jitter of a delay, in either direction.
///
/// It keeps deliveries that failed together from being retried together.
const JITTER: f64 = 0.2;
/// Maximum multiple of the scheduled delay up to which `Retry-After` is honoured.
const RETRY_AFTER_FACTOR_MAX: u32 = 2;
/// Time of uninterrupted failures after which an endpoint is disabled.
pub(super) const FAILING_MAX: Duration = Duration::from_secs(5 * 24 * 60 * 60);
/// Maximum delay between two attempts.
pub(super) const RETRY_DELAY_MAX: Duration = Duration::from_secs(48 * 60 * 60);

/// Returns the delay after this many failed attempts; `None` after the last one.
pub(super) fn retry_delay(
    attempt_count: u32,
    retry_after: Option<Duration>,
    env: &Env,
) -> Option<Duration> {
    let index = usize::try_from(attempt_count).ok()?.checked_sub(1)?;
    let planned = *RETRY_DELAYS.get(index)?;
    let jittered = planned.mul_f64(1.0 - JITTER) + env.jitter(planned.mul_f64(2.0 * JITTER));
    let asked = retry_after.unwrap_or_default();
    Some(jittered.max(asked.min(planned * RETRY_AFTER_FACTOR_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{DELIVERY_RETENTION_MIN, INBOUND_MESSAGE_RETENTION};
    use crate::model::Timestamp;
    use crate::service::DELIVERY_TIMEOUT;

    fn env(byte: u8) -> Env {
        Env::new(
            || Timestamp::UNIX_EPOCH,
            move |buffer: &mut [u8]| buffer.fill(byte),
        )
    }

    #[test]
    fn retry_delay_jitters_by_up_to_a_fifth() {
        for (attempt_count, planned) in (1..).zip(RETRY_DELAYS) {
            let delay = |byte| retry_delay(attempt_count, None, &env(byte)).unwrap();
            assert_eq!(delay(0), planned.mul_f64(0.8));
            assert_eq!(delay(255), planned.mul_f64(1.2));
        }
        assert_eq!(retry_delay(10, Some(Duration::MAX), &env(0)), None);
        assert_eq!(retry_delay(0, None, &env(0)), None);
    }

    #[test]
    fn retry_after_extends_delay_up_to_twice_the_plan() {
        let delay = |asked| retry_delay(2, Some(asked), &env(0)).unwrap().as_secs();
        assert_eq!(delay(Duration::ZERO), 240);
        assert_eq!(delay(Duration::from_secs(239)), 240);
        assert_eq!(delay(Duration::from_secs(241)), 241);
        assert_eq!(delay(Duration::from_secs(599)), 599);
        assert_eq!(delay(Duration::from_secs(601)), 600);
        assert_eq!(delay(Duration::MAX), 600);
    }

    #[test]
    fn retry_schedule_ends_before_event_may_be_purged() {
        let longest: Duration = (1..=9)
            .map(|attempt_count| retry_delay(attempt_count, Some(Duration::MAX), &env(0)).unwrap())
            .sum();
        assert!(longest < DELIVERY_RETENTION_MIN);
        // A receiver that is this service remembers messages for longer, even if every attempt
        // times out.
        assert!(longest + 10 * DELIVERY_TIMEOUT < INBOUND_MESSAGE_RETENTION);
        let each =
            |attempt_count| retry_delay(attempt_count, Some(Duration::MAX), &env(0)).unwrap();
        assert_eq!((1..=9).map(each).max(), Some(RETRY_DELAY_MAX));
    }
}
