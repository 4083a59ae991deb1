//! When a delivery that failed is attempted again, and when it is not.

use std::time::Duration;

use crate::env::Env;

/// How long to wait after each failed attempt but the last, as Standard Webhooks 1.0.0 proposes.
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
/// A wait is longer or shorter by up to this part of it, so that what failed together does not come back together.
const JITTER: f64 = 0.2;
/// What an endpoint asks for with `Retry-After` is honoured up to this many times the wait.
const RETRY_AFTER_FACTOR_MAX: u32 = 2;
/// How long an endpoint may do nothing but fail before it is switched off.
pub(super) const FAILING_MAX: Duration = Duration::from_secs(5 * 24 * 60 * 60);
/// The longest wait that there can be.
pub(super) const RETRY_DELAY_MAX: Duration = Duration::from_secs(48 * 60 * 60);

/// How long to wait for the next attempt after this many failed ones; `None` where that was the last.
pub(super) fn retry_delay(
    tries: u32,
    retry_after: Option<Duration>,
    env: &Env,
) -> Option<Duration> {
    let index = usize::try_from(tries).ok()?.checked_sub(1)?;
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
    fn waits_are_within_a_fifth_of_the_plan_and_reach_both_ends() {
        for (tries, planned) in (1..).zip(RETRY_DELAYS) {
            let delay = |byte| retry_delay(tries, None, &env(byte)).unwrap();
            assert_eq!(delay(0), planned.mul_f64(0.8));
            assert_eq!(delay(255), planned.mul_f64(1.2));
        }
        assert_eq!(retry_delay(10, Some(Duration::MAX), &env(0)), None);
        assert_eq!(retry_delay(0, None, &env(0)), None);
    }

    #[test]
    fn what_is_asked_for_lengthens_a_wait_up_to_twice_the_plan() {
        let delay = |asked| retry_delay(2, Some(asked), &env(0)).unwrap().as_secs();
        assert_eq!(delay(Duration::ZERO), 240);
        assert_eq!(delay(Duration::from_secs(239)), 240);
        assert_eq!(delay(Duration::from_secs(241)), 241);
        assert_eq!(delay(Duration::from_secs(599)), 599);
        assert_eq!(delay(Duration::from_secs(601)), 600);
        assert_eq!(delay(Duration::MAX), 600);
    }

    #[test]
    fn a_whole_schedule_ends_before_its_event_may_be_swept() {
        let longest: Duration = (1..=9)
            .map(|tries| retry_delay(tries, Some(Duration::MAX), &env(0)).unwrap())
            .sum();
        assert!(longest < DELIVERY_RETENTION_MIN);
        // A receiver such as this service knows for longer than that what it took in, each attempt as long as it may be.
        assert!(longest + 10 * DELIVERY_TIMEOUT < INBOUND_MESSAGE_RETENTION);
        let each = |tries| retry_delay(tries, Some(Duration::MAX), &env(0)).unwrap();
        assert_eq!((1..=9).map(each).max(), Some(RETRY_DELAY_MAX));
    }
}
