//! Expectations that an entry implies about others.

use serde_json::Value;

use crate::keys;
use crate::model::{EndpointId, EventId, MemberId, OrgId, Timestamp};
use crate::service::tasks::ScheduledTask;
use crate::store::Key;

/// Expectation about another entry.
pub(super) enum Expectation {
    /// The entry exists.
    Exists(Key),
    /// One of the two entries exists.
    EitherExists(Key, Key),
    /// The entry does not exist.
    Absent(Key),
    /// The entry exists and has this value, or is an object with at least these fields.
    Contains(Key, Value),
    /// The entry is an object with at least the fields of one of the two.
    ContainsEither(Key, Value, Value),
    /// The entry is an object with at least these fields, and without the named one.
    ContainsWithout(Key, Value, &'static str),
    /// The first entry has these fields, or only the second one exists.
    ContainsOrExists(Key, Value, Key),
    /// The entry is the content of a memory whose source key has this digest.
    HasName(Key, String),
    /// The task is scheduled for this time.
    Scheduled(Timestamp, ScheduledTask),
    /// The entry is a number, at least this one; a missing entry is 0.
    AtLeast(Key, i64),
    /// The entry is an event that lists this endpoint.
    Lists(Key, EndpointId),
    /// The endpoint exists, or the purge of its deliveries is scheduled.
    Endpoint(OrgId, EndpointId),
    /// The endpoint, if it exists, is due no later than its queue entry at this time requires.
    ReadyBy(OrgId, EndpointId, Timestamp, EventId),
    /// The first entry is an endpoint, its sequence number not above the counter in the second.
    Numbered(Key, Key),
}

/// An expectation, and the entry that implies it.
pub(super) struct ExpectationFrom {
    pub(super) by: Key,
    pub(super) expectation: Expectation,
}

impl Expectation {
    /// Expects a member or a former one.
    ///
    /// The audit log keeps referring to a removed member, and other records do until they are
    /// purged.
    pub(super) fn present_or_former(org: OrgId, member: MemberId) -> Self {
        Self::EitherExists(keys::member(org, member), keys::former_member(org, member))
    }

    /// Returns the keys of the entries that are needed to check it.
    pub(super) fn about(&self) -> Vec<Key> {
        match self {
            Self::Exists(key)
            | Self::Absent(key)
            | Self::Contains(key, _)
            | Self::ContainsEither(key, ..)
            | Self::ContainsWithout(key, ..)
            | Self::HasName(key, _)
            | Self::AtLeast(key, _)
            | Self::Lists(key, _) => vec![key.clone()],
            Self::EitherExists(one, other)
            | Self::ContainsOrExists(one, _, other)
            | Self::Numbered(one, other) => {
                vec![one.clone(), other.clone()]
            }
            Self::Endpoint(org, endpoint) | Self::ReadyBy(org, endpoint, ..) => {
                vec![keys::endpoint(*org, *endpoint)]
            }
            Self::Scheduled(..) => Vec::new(),
        }
    }
}
