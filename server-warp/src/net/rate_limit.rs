//! Rate limiting per principal (GCRA, by the `governor` crate).
//!
//! The header fields `RateLimit-Policy` and `RateLimit` report it to clients
//! (draft-ietf-httpapi-ratelimit-headers). The quota is a token bucket: it holds
//! [`requests`](RateLimitConfig::requests) tokens, each request takes one, and it refills evenly,
//! from empty to full within [`window`](RateLimitConfig::window). A client may spend the quota in
//! one burst and then continue at the refill rate.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, MonotonicClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter as Governor};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

use super::client_connections::client_network;

/// Header field with the policy that a request was counted under.
pub const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Header field with the remaining quota.
pub const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Default requests of a full quota in the settings: a thousand a second for as long as anyone keeps
/// it up, far above any dashboard, and above an importer that sends its memories in batches.
pub const RATE_LIMIT_REQUESTS_DEFAULT: u32 = 60_000;

/// Default time for an empty quota to refill.
pub const RATE_LIMIT_WINDOW_DEFAULT: Duration = Duration::from_secs(60);

/// Maximum number of addresses with a bucket of their own. Further addresses share one bucket until
/// others have refilled and are evicted.
const KEYS_MAX: usize = 100_000;

/// Time between two evictions of full buckets.
const EVICTION_INTERVAL: Duration = Duration::from_secs(10);

/// Rate limit of each principal.
///
/// The [responder](super::Responder::identify) identifies principals; all credentials of one
/// principal share its quota. Requests without a known principal are counted by their address
/// (IPv6: the first 64 bits). A request of a service account for another member counts for both,
/// from the second one on. Health checks and preflights are not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimitConfig {
    /// Requests of a full quota; 0 for no limit.
    pub requests: u32,
    /// Time in which an empty quota refills, in whole seconds.
    pub window: Duration,
}

impl Default for RateLimitConfig {
    fn default() -> Self {
        Self {
            requests: RATE_LIMIT_REQUESTS_DEFAULT,
            window: RATE_LIMIT_WINDOW_DEFAULT,
        }
    }
}

impl RateLimitConfig {
    /// Returns a configuration without a limit.
    #[must_use]
    pub fn off() -> Self {
        Self {
            requests: 0,
            ..Self::default()
        }
    }

    /// Returns the invalid field and its requirement, if any.
    pub(super) fn problem(&self) -> Option<(&'static str, &'static str)> {
        let is_whole = self.window.subsec_nanos() == 0;
        if !is_whole || !(1..=24 * 60 * 60).contains(&self.window.as_secs()) {
            return Some(("rate_limit.window", "whole seconds, between 1 s and a day"));
        }
        // The time for one request must not round to zero.
        if self.requests > 1_000_000 {
            return Some(("rate_limit.requests", "between 1 and 1,000,000"));
        }
        None
    }
}

/// Bucket that a request is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// Member, or inbound webhook of a signed message.
    Principal(Uuid),
    Address(IpAddr),
    /// Bucket shared by all addresses beyond the maximum.
    SharedBucket,
}

impl Key {
    /// Returns the key of an unknown caller.
    pub(super) fn of_address(address: IpAddr) -> Self {
        Self::Address(client_network(address))
    }
}

/// Rate limit status of a principal after a request was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RateLimitStatus {
    policy: HeaderValue,
    remaining: u32,
    reset_seconds: u64,
    /// Time to wait if the request exceeds the limit, in whole seconds.
    pub(super) retry_after: Option<Duration>,
}

impl RateLimitStatus {
    pub(super) fn write(&self, headers: &mut HeaderMap) {
        headers.insert(RATE_LIMIT_POLICY, self.policy.clone());
        let (remaining, reset) = (self.remaining, self.reset_seconds);
        let text = format!("\"default\";r={remaining};t={reset}");
        let value = HeaderValue::try_from(text).expect("numbers are visible ASCII");
        headers.insert(RATE_LIMIT, value);
    }
}

/// Counter of requests per principal.
#[derive(Debug)]
pub(super) struct RateLimiter<C: Clock = MonotonicClock> {
    governor: Governor<Key, HashMapStateStore<Key>, C, StateInformationMiddleware>,
    requests: u32,
    window: Duration,
    policy: HeaderValue,
    keys_max: usize,
}

impl RateLimiter {
    /// Creates a limiter from a configuration without a [`problem`](RateLimitConfig::problem);
    /// `None` if there is no limit.
    pub(super) fn new(config: &RateLimitConfig) -> Option<Self> {
        let requests = NonZeroU32::new(config.requests)?;
        Some(Self::with_clock(
            requests,
            config.window,
            KEYS_MAX,
            MonotonicClock,
        ))
    }

    /// Evicts full buckets at intervals; never returns.
    pub(super) async fn evict_forever(&self) {
        let mut ticks = tokio::time::interval(EVICTION_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.evict();
        }
    }
}

impl<C: Clock> RateLimiter<C> {
    fn with_clock(burst: NonZeroU32, window: Duration, keys_max: usize, clock: C) -> Self {
        let requests = burst.get();
        let seconds = window.as_secs();
        let quota = Quota::with_period(window / requests)
            .expect("a validated window is long enough for its requests")
            .allow_burst(burst);
        let policy = format!("\"default\";q={requests};w={seconds}");
        Self {
            governor: Governor::new(quota, HashMapStateStore::default(), clock),
            requests,
            window,
            policy: HeaderValue::try_from(policy).expect("numbers are visible ASCII"),
            keys_max,
        }
    }

    /// Counts a request in a bucket and, unless that is empty, in another one; returns the status
    /// of the one that is empty or has less left.
    pub(super) fn count_for(&self, key: Key, other: Option<Key>) -> RateLimitStatus {
        let first = self.count(key);
        let Some(other) = other.filter(|_| first.retry_after.is_none()) else {
            return first;
        };
        let second = self.count(other);
        if second.retry_after.is_some() || second.remaining < first.remaining {
            second
        } else {
            first
        }
    }

    /// Counts a request.
    fn count(&self, key: Key) -> RateLimitStatus {
        let is_too_many = matches!(key, Key::Address(_)) && self.governor.len() >= self.keys_max;
        let key = if is_too_many { Key::SharedBucket } else { key };
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
        RateLimitStatus {
            policy: self.policy.clone(),
            remaining,
            reset_seconds: whole_seconds(reset),
            retry_after,
        }
    }

    fn evict(&self) {
        self.governor.retain_recent();
        self.governor.shrink_to_fit();
    }
}

/// Rounds up, so that waiting that long is always enough.
pub(super) fn whole_seconds(time: Duration) -> u64 {
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
        let burst = NonZeroU32::new(requests).unwrap();
        let window = Duration::from_secs(window_seconds);
        let limiter = RateLimiter::with_clock(burst, window, 3, clock.clone());
        (limiter, clock)
    }

    /// Returns the rate limit of a request: remaining requests, seconds until a change, and wait.
    fn quota<C: Clock>(limiter: &RateLimiter<C>, key: Key) -> (u32, u64, Option<u64>) {
        let standing = limiter.count(key);
        let retry_after = standing.retry_after.map(|wait| wait.as_secs());
        (standing.remaining, standing.reset_seconds, retry_after)
    }

    #[test]
    fn rate_limit_is_spent_and_refills() {
        let (limiter, clock) = limiter(3, 30);
        let anna = Key::Principal(Uuid::from_u128(1));
        assert_eq!(quota(&limiter, anna), (2, 10, None));
        assert_eq!(quota(&limiter, anna), (1, 20, None));
        assert_eq!(quota(&limiter, anna), (0, 30, None));
        assert_eq!(quota(&limiter, anna), (0, 10, Some(10)));
        // Other principals are not affected.
        let bert = Key::Principal(Uuid::from_u128(2));
        assert_eq!(quota(&limiter, bert), (2, 10, None));
        // A rejected request costs nothing.
        clock.advance(Duration::from_millis(9_500));
        assert_eq!(quota(&limiter, anna), (0, 1, Some(1)));
        clock.advance(Duration::from_millis(500));
        assert_eq!(quota(&limiter, anna), (0, 30, None));
        clock.advance(Duration::from_secs(30));
        assert_eq!(quota(&limiter, anna), (2, 10, None));
    }

    #[test]
    fn request_for_another_member_counts_for_both() {
        let (limiter, _) = limiter(3, 30);
        let [bot, maya] = [1, 2].map(|number| Key::Principal(Uuid::from_u128(number)));
        let both = || limiter.count_for(bot, Some(maya));
        assert_eq!(quota(&limiter, maya), (2, 10, None));
        assert_eq!(both().remaining, 1);
        assert_eq!(both().remaining, 0);
        // Maya's quota is used up, which costs the service account a request.
        assert!(both().retry_after.is_some());
        assert_eq!(quota(&limiter, bot), (0, 10, Some(10)));
    }

    #[test]
    fn rate_limit_counts_addresses_by_network() {
        let key = |text: &str| Key::of_address(text.parse().unwrap());
        assert_eq!(key("2001:db8:1:2::1"), key("2001:db8:1:2:ffff::2"));
        assert_ne!(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
        assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
    }

    #[test]
    fn rate_limit_state_is_bounded_and_expires() {
        let (limiter, clock) = limiter(10, 10);
        let address = |last: u8| Key::of_address(IpAddr::from([192, 0, 2, last]));
        for last in 0..3 {
            assert_eq!(quota(&limiter, address(last)), (9, 1, None));
        }
        // From here on all other addresses share one bucket.
        assert_eq!(quota(&limiter, address(4)), (9, 1, None));
        assert_eq!(quota(&limiter, address(5)), (8, 2, None));
        assert_eq!(limiter.governor.len(), 4);
        // A principal never shares one.
        let anna = Key::Principal(Uuid::from_u128(1));
        assert_eq!(quota(&limiter, anna), (9, 1, None));
        assert_eq!(limiter.governor.len(), 5);
        limiter.evict();
        assert_eq!(limiter.governor.len(), 5);
        clock.advance(Duration::from_secs(3));
        limiter.evict();
        assert_eq!(limiter.governor.len(), 0);
        assert_eq!(quota(&limiter, address(5)), (9, 1, None));
    }

    #[test]
    fn rate_limit_headers_are_structured_fields() {
        let (limiter, _) = limiter(100, 60);
        let mut headers = HeaderMap::new();
        limiter.count(Key::SharedBucket).write(&mut headers);
        assert_eq!(headers[RATE_LIMIT_POLICY], "\"default\";q=100;w=60");
        assert_eq!(headers[RATE_LIMIT], "\"default\";r=99;t=1");
    }
}
