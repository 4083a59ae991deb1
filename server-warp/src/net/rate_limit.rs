//! How many requests one principal may make (GCRA, by the library governor), told to it in the header fields
//! `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers).
//!
//! The quota is a bucket: it holds [`requests`](RateLimitConfig::requests), each request takes one out, and it fills
//! up evenly, in [`window`](RateLimitConfig::window) from empty to full. So a client may spend the quota at once, and
//! then go on at the rate at which it fills.

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, MonotonicClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter as Governor};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

/// The header field with the policy that a request was counted under.
pub const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The header field with what is left of the quota.
pub const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Time for which a quota counts when nothing else is said.
pub const RATE_LIMIT_WINDOW_DEFAULT: Duration = Duration::from_secs(60);

/// The addresses that are counted each for itself. Those beyond are counted together until others have a full bucket
/// again and are forgotten.
const KEYS_MAX: usize = 100_000;

/// Time between two looks for keys that can be forgotten.
const FORGET_INTERVAL: Duration = Duration::from_secs(10);

/// How many requests one principal may make.
///
/// Principals are who the [responder](super::Responder::caller) says they are; all credentials of one principal share
/// its quota. Requests of nobody that it knows are counted by the address that they come from (of IPv6 by its first 64
/// bits). Health checks and preflights are not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimitConfig {
    /// The requests of a full quota.
    pub requests: NonZeroU32,
    /// Time in which an empty quota becomes full, in whole seconds.
    pub window: Duration,
}

impl RateLimitConfig {
    /// What is wrong with this configuration: the field and what it must be.
    pub(super) fn problem(&self) -> Option<(&'static str, &'static str)> {
        let is_whole = self.window.subsec_nanos() == 0;
        if !is_whole || !(1..=24 * 60 * 60).contains(&self.window.as_secs()) {
            return Some(("rate_limit.window", "whole seconds, between 1 s and a day"));
        }
        // So that the time for one request is a time.
        if self.requests.get() > 1_000_000 {
            return Some(("rate_limit.requests", "between 1 and 1,000,000"));
        }
        None
    }
}

/// For whom requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Principal(Uuid),
    Address(IpAddr),
    /// All addresses that are too many to be counted each for itself.
    Crowd,
}

impl Key {
    /// The key of who is not known. Who has one IPv6 address has a network of them.
    pub(super) fn of_address(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() >> 64 << 64;
                Ipv6Addr::from_bits(network).into()
            }
            v4 => v4,
        })
    }
}

/// Where a principal stands after a request was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    policy: HeaderValue,
    remaining: u32,
    reset_seconds: u64,
    /// How long to wait where the request is one too many, in whole seconds.
    pub(super) retry_after: Option<Duration>,
}

impl Standing {
    pub(super) fn write(&self, headers: &mut HeaderMap) {
        headers.insert(RATE_LIMIT_POLICY, self.policy.clone());
        let (remaining, reset) = (self.remaining, self.reset_seconds);
        let text = format!("\"default\";r={remaining};t={reset}");
        let value = HeaderValue::try_from(text).expect("numbers are visible ASCII");
        headers.insert(RATE_LIMIT, value);
    }
}

/// Counts requests.
#[derive(Debug)]
pub(super) struct RateLimiter<C: Clock = MonotonicClock> {
    governor: Governor<Key, HashMapStateStore<Key>, C, StateInformationMiddleware>,
    requests: u32,
    window: Duration,
    policy: HeaderValue,
    keys_max: usize,
}

impl RateLimiter {
    /// For a configuration without a [`problem`](RateLimitConfig::problem).
    pub(super) fn new(config: &RateLimitConfig) -> Self {
        Self::with_clock(config, KEYS_MAX, MonotonicClock)
    }

    /// Forgets whose bucket is full again, now and then, for ever.
    pub(super) async fn forget_for_ever(&self) {
        let mut ticks = tokio::time::interval(FORGET_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.forget();
        }
    }
}

impl<C: Clock> RateLimiter<C> {
    fn with_clock(config: &RateLimitConfig, keys_max: usize, clock: C) -> Self {
        let requests = config.requests.get();
        let seconds = config.window.as_secs();
        let quota = Quota::with_period(config.window / requests)
            .expect("a window that was checked is long enough for its requests")
            .allow_burst(config.requests);
        let policy = format!("\"default\";q={requests};w={seconds}");
        Self {
            governor: Governor::new(quota, HashMapStateStore::default(), clock),
            requests,
            window: config.window,
            policy: HeaderValue::try_from(policy).expect("numbers are visible ASCII"),
            keys_max,
        }
    }

    /// Counts a request.
    pub(super) fn count(&self, key: Key) -> Standing {
        let is_too_many = matches!(key, Key::Address(_)) && self.governor.len() >= self.keys_max;
        let key = if is_too_many { Key::Crowd } else { key };
        let (remaining, reset, retry_after) = match self.governor.check_key(&key) {
            Ok(state) => {
                let remaining = state.remaining_burst_capacity();
                let missing = self.requests.saturating_sub(remaining);
                (remaining, self.window * missing / self.requests, None)
            }
            Err(refused) => {
                let wait = refused.wait_time_from(self.governor.clock().now());
                let wait = Duration::from_secs(whole_seconds(wait).max(1));
                (0, wait, Some(wait))
            }
        };
        Standing {
            policy: self.policy.clone(),
            remaining,
            reset_seconds: whole_seconds(reset),
            retry_after,
        }
    }

    fn forget(&self) {
        self.governor.retain_recent();
        self.governor.shrink_to_fit();
    }
}

/// Rounded up: whoever waits that long has waited long enough.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    fn limiter(
        requests: u32,
        window_seconds: u64,
    ) -> (RateLimiter<FakeRelativeClock>, FakeRelativeClock) {
        let clock = FakeRelativeClock::default();
        let config = RateLimitConfig {
            requests: requests.try_into().unwrap(),
            window: Duration::from_secs(window_seconds),
        };
        (RateLimiter::with_clock(&config, 3, clock.clone()), clock)
    }

    /// What a request is told: what is left, when that changes, and how long to wait.
    fn told<C: Clock>(limiter: &RateLimiter<C>, key: Key) -> (u32, u64, Option<u64>) {
        let standing = limiter.count(key);
        let retry_after = standing.retry_after.map(|wait| wait.as_secs());
        (standing.remaining, standing.reset_seconds, retry_after)
    }

    #[test]
    fn a_quota_is_spent_and_fills_up() {
        let (limiter, clock) = limiter(3, 30);
        let anna = Key::Principal(Uuid::from_u128(1));
        assert_eq!(told(&limiter, anna), (2, 10, None));
        assert_eq!(told(&limiter, anna), (1, 20, None));
        assert_eq!(told(&limiter, anna), (0, 30, None));
        assert_eq!(told(&limiter, anna), (0, 10, Some(10)));
        // Another one is not concerned.
        let bert = Key::Principal(Uuid::from_u128(2));
        assert_eq!(told(&limiter, bert), (2, 10, None));
        // A refused request costs nothing.
        clock.advance(Duration::from_millis(9_500));
        assert_eq!(told(&limiter, anna), (0, 1, Some(1)));
        clock.advance(Duration::from_millis(500));
        assert_eq!(told(&limiter, anna), (0, 30, None));
        clock.advance(Duration::from_secs(30));
        assert_eq!(told(&limiter, anna), (2, 10, None));
    }

    #[test]
    fn addresses_are_counted_by_their_network() {
        let key = |text: &str| Key::of_address(text.parse().unwrap());
        assert_eq!(key("2001:db8:1:2::1"), key("2001:db8:1:2:ffff::2"));
        assert_ne!(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
        assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
    }

    #[test]
    fn what_is_kept_is_bounded_and_forgotten() {
        let (limiter, clock) = limiter(10, 10);
        let address = |last: u8| Key::of_address(IpAddr::from([192, 0, 2, last]));
        for last in 0..3 {
            assert_eq!(told(&limiter, address(last)), (9, 1, None));
        }
        // From here on all others are one.
        assert_eq!(told(&limiter, address(4)), (9, 1, None));
        assert_eq!(told(&limiter, address(5)), (8, 2, None));
        assert_eq!(limiter.governor.len(), 4);
        // A principal never is.
        let anna = Key::Principal(Uuid::from_u128(1));
        assert_eq!(told(&limiter, anna), (9, 1, None));
        assert_eq!(limiter.governor.len(), 5);
        limiter.forget();
        assert_eq!(limiter.governor.len(), 5);
        clock.advance(Duration::from_secs(3));
        limiter.forget();
        assert_eq!(limiter.governor.len(), 0);
        assert_eq!(told(&limiter, address(5)), (9, 1, None));
    }

    #[test]
    fn the_fields_are_structured() {
        let (limiter, _) = limiter(100, 60);
        let mut headers = HeaderMap::new();
        limiter.count(Key::Crowd).write(&mut headers);
        assert_eq!(headers[RATE_LIMIT_POLICY], "\"default\";q=100;w=60");
        assert_eq!(headers[RATE_LIMIT], "\"default\";r=99;t=1");
    }
}
