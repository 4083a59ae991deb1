//! The key layout. Every key that core writes is built and parsed here.
//!
//! A key is ASCII: the name of its family and its parts, separated by `/`. UUIDs are written as 32
//! hexadecimal digits, times as 16 (milliseconds since the Unix epoch), so that byte order is the
//! order of creation or of time. No part can contain the separator. Values are JSON; the value of a
//! counter is its number.
//!
//! [`FAMILIES`] documents every family. Each is declared once, as a row of `families.rs`, from which
//! functions, table and verification are derived.

mod families;
mod macros;
mod part;

use uuid::Uuid;

pub(crate) use self::families::families;
#[cfg(any(test, feature = "internals"))]
use self::macros::rebuilt_key;
#[cfg(test)]
use self::macros::sampled;
pub(crate) use self::macros::written;
use self::macros::{define_keys, key_function, key_shape, part_names, range_function};
pub use self::part::{Part, Sha256};
use crate::access::{RoleRef, SecretHash};
use crate::model::*;
use crate::store::{Key, KeyRange};

const DIVIDER: char = '/';

/// A family of keys.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Name, the first part of each key.
    pub name: &'static str,
    /// Names of the parts that follow.
    pub parts: &'static [&'static str],
    /// Description of the value.
    pub about: &'static str,
    /// Builds an example of a key.
    #[cfg(test)]
    sample: fn(&mut Samples) -> Key,
    /// Ranges by name, each with a function that builds an example.
    #[cfg(test)]
    ranges: &'static [(&'static str, SampleRange)],
}

/// Function that builds an example of a range.
#[cfg(test)]
type SampleRange = fn(&mut Samples) -> KeyRange;

families!(define_keys);

/// A builder of a key from its parts.
struct Builder(String);

impl Builder {
    fn new(family: &str) -> Self {
        let mut text = String::with_capacity(128);
        text.push_str(family);
        Self(text)
    }

    fn part<'k>(mut self, part: &impl Part<'k>) -> Self {
        self.0.push(DIVIDER);
        part.write(&mut self.0);
        self
    }

    fn key(self) -> Key {
        Key::new(self.0).expect("no key of the layout exceeds 512 bytes")
    }

    /// Returns the range of the keys with further parts.
    fn range(mut self) -> KeyRange {
        self.0.push(DIVIDER);
        KeyRange::prefix(&self.key())
    }
}

/// Builds the keys of the labels of memories, as [`memory`] builds each.
#[must_use]
pub fn memories_named(org: OrgId, memories: &[MemoryId]) -> Vec<Key> {
    let Builder(mut text) = Builder::new("memory").part(&org);
    text.push(DIVIDER);
    let shared = text.len();
    let key = |memory: &MemoryId| {
        text.truncate(shared);
        memory.write(&mut text);
        Key::new(&text).expect("no key of the layout exceeds 512 bytes")
    };
    memories.iter().map(key).collect()
}

/// Returns the name of the family that a key belongs to.
#[must_use]
pub fn family_name(key: &str) -> &str {
    key.split(DIVIDER).next().unwrap_or_default()
}

/// Parses the last part of a key, an identifier.
#[must_use]
pub fn last_id(key: &Key) -> Option<Uuid> {
    let [part] = last_parts(key)?;
    Uuid::parse(part)
}

/// Parses the second last part of a key, an identifier.
#[must_use]
pub fn second_last_id(key: &Key) -> Option<Uuid> {
    let [part, _] = last_parts(key)?;
    Uuid::parse(part)
}

/// Returns the last part of a key, a text.
#[must_use]
pub fn last_text(key: &Key) -> Option<&str> {
    let [part] = last_parts(key)?;
    Some(part)
}

/// Returns the last parts of a key, in their order.
fn last_parts<const N: usize>(key: &Key) -> Option<[&str; N]> {
    let text = std::str::from_utf8(key.as_bytes()).ok()?;
    let mut from_end = text.rsplit(DIVIDER);
    let mut parts = [""; N];
    for part in parts.iter_mut().rev() {
        *part = from_end.next()?;
    }
    Some(parts)
}

/// Builds the range of all keys of a family.
pub(crate) fn all_of(family: &str) -> KeyRange {
    Builder::new(family).range()
}

/// Builds the ranges of everything that is stored under an organisation, or a workspace of it.
///
/// They are all families whose keys begin so, without the record of the removal. The outbox is the
/// first, then what is derived comes before what it is derived from.
pub(crate) fn everything_of(org: OrgId, workspace: Option<WorkspaceId>) -> Vec<KeyRange> {
    let leading = &["org", "workspace"][..1 + usize::from(workspace.is_some())];
    let mut families: Vec<&Family> = FAMILIES
        .iter()
        .rev()
        .filter(|family| family.parts.starts_with(leading))
        .filter(|family| !["former_org", "placement"].contains(&family.name))
        .collect();
    families.sort_by_key(|family| family.name != "outbox_queue");
    let range = |family: &Family| {
        let mut key = Builder::new(family.name).part(&org);
        if let Some(workspace) = &workspace {
            key = key.part(workspace);
        }
        if family.parts.len() > leading.len() {
            return key.range();
        }
        let key = key.key();
        let end = key.successor();
        KeyRange::new(key, end)
    };
    families.into_iter().map(range).collect()
}

/// Parses the organisation that a key begins with, after the name of its family.
pub(crate) fn org_of(key: &Key) -> Option<OrgId> {
    let text = std::str::from_utf8(key.as_bytes()).ok()?;
    Part::parse(text.split(DIVIDER).nth(1)?)
}

/// Parses the organisation that a key belongs to by its family: the first part.
pub(crate) fn leading_org(key: &Key) -> Option<OrgId> {
    let text = std::str::from_utf8(key.as_bytes()).ok()?;
    let (name, parts) = text.split_once(DIVIDER)?;
    let mut families = FAMILIES.iter();
    let family = families.find(|family| family.name == name)?;
    (family.parts.first() == Some(&"org")).then_some(())?;
    Part::parse(parts.split(DIVIDER).next()?)
}

/// Builds the ranges of what moves with an organisation, under keys that begin with it.
///
/// They are those of [`everything_of`] without the hold, and without the marks of events, which move
/// with the events.
#[cfg(feature = "transfer")]
pub(crate) fn movable_of(org: OrgId) -> Vec<KeyRange> {
    let (hold, marks) = (hold(org), outbox_queue_of(org));
    let mut ranges = everything_of(org, None);
    ranges.retain(|range| !range.contains(&hold) && *range != marks);
    ranges
}

/// Parses the due time from a `due` key.
#[must_use]
pub fn due_at(key: &Key) -> Option<Timestamp> {
    parse_due(key).map(|(at, _)| at)
}

/// Builds the bound of the `activity` keys of a workspace at which those of a day begin.
#[must_use]
pub fn activity_day(org: OrgId, workspace: WorkspaceId, day: Timestamp) -> Key {
    let day = Builder::new("activity")
        .part(&org)
        .part(&workspace)
        .part(&day);
    day.range().start
}

/// Builds the range of the tasks that are due at `now` or earlier, in order of time.
#[must_use]
pub fn due_until(now: Timestamp) -> KeyRange {
    let after = Timestamp::from_millis(now.as_millis().saturating_add(1));
    let end = Builder::new("due").part(&after).key();
    KeyRange::new(Builder::new("due").range().start, end)
}

/// Source of the parts of sample keys.
#[cfg(test)]
#[derive(Default)]
struct Samples {
    /// Number of parts so far.
    position: u128,
    /// True for the other variant of each part that has two.
    is_other: bool,
}

#[cfg(test)]
impl Samples {
    fn next<'k, T: Part<'k>>(&mut self, _name: &str) -> T {
        self.position += 1;
        T::sample(self.position, self.is_other)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::model::RoleId;

    fn id<T>(make: fn(Uuid) -> T, number: u128) -> T {
        make(Uuid::from_u128(number))
    }

    /// Returns each variant of the key of a family.
    fn samples_of(family: &Family) -> Vec<Key> {
        let [first, other] = [false, true].map(|is_other| {
            (family.sample)(&mut Samples {
                position: 0,
                is_other,
            })
        });
        if first == other {
            vec![first]
        } else {
            vec![first, other]
        }
    }

    fn ranges_of(family: &Family) -> impl Iterator<Item = (&'static str, KeyRange)> {
        let sampled = |(name, range): &(&'static str, fn(&mut Samples) -> KeyRange)| {
            (*name, range(&mut Samples::default()))
        };
        family.ranges.iter().map(sampled)
    }

    #[test]
    fn keys_and_ranges_keep_their_bytes() {
        let keys = FAMILIES.iter().flat_map(samples_of);
        let keys = keys.map(|key| key.to_string());
        let ranges = FAMILIES.iter().flat_map(ranges_of).map(|(name, range)| {
            let end = range.end.as_ref().expect("a range with an end");
            format!("{name}: {}..{end}", range.start)
        });
        let ranges: BTreeSet<_> = ranges.collect();
        let all: Vec<_> = keys.chain(ranges).collect();
        insta::assert_snapshot!(all.join("\n"));
    }

    #[test]
    fn families_have_distinct_names_and_described_keys() {
        let names: BTreeSet<_> = FAMILIES.iter().map(|family| family.name).collect();
        assert_eq!(names.len(), FAMILIES.len());
        for family in FAMILIES {
            assert!(family.about.ends_with('.'), "{}", family.name);
            for key in samples_of(family) {
                let parts = key.to_string().split(DIVIDER).count();
                assert_eq!(parts, 1 + family.parts.len(), "{key}");
                for (range, keys) in ranges_of(family) {
                    assert!(keys.contains(&key), "{key} in {range}");
                }
            }
        }
    }

    #[test]
    fn key_has_one_spelling() {
        for key in FAMILIES.iter().flat_map(samples_of) {
            assert_eq!(rebuilt(&key), Some(key));
        }
        let is_key = |text: &str| rebuilt(&Key::new(text).unwrap()).is_some();
        let (digits, time) = ("0000000000000000000000000000abcd", "0000018bcfe56800");
        assert!(is_key(&format!("org/{digits}")));
        for id in [
            "0000000000000000000000000000ABCD",
            "00000000-0000-0000-0000-00000000abcd",
            "{00000000-0000-0000-0000-00000000abcd}",
            "urn:uuid:00000000-0000-0000-0000-00000000abcd",
        ] {
            assert!(!is_key(&format!("org/{id}")), "{id}");
        }
        assert!(is_key(&format!("due/{time}/{digits}")));
        for at in [
            "18bcfe56800",
            "0000018BCFE56800",
            "+000018bcfe56800",
            "-000018bcfe56800",
            "7fffffffffffffff",
        ] {
            assert!(!is_key(&format!("due/{at}/{digits}")), "{at}");
        }
        for key in ["org", "org/", "orgs/1", "meta/", &format!("org/{digits}/")] {
            assert!(!is_key(key), "{key}");
        }
    }

    #[test]
    fn keys_are_readable() {
        let key = memory(id(OrgId, 1), id(MemoryId, 0xAB));
        assert_eq!(
            key.to_string(),
            "memory/00000000000000000000000000000001/000000000000000000000000000000ab"
        );
        assert_eq!(meta().to_string(), "meta");
    }

    #[test]
    fn keys_of_named_memories_equal_those_of_each() {
        let (org, memories) = (id(OrgId, 1), [2, 0xAB].map(|memory| id(MemoryId, memory)));
        let each = memories.map(|id| memory(org, id));
        assert_eq!(memories_named(org, &memories), each);
    }

    #[test]
    fn range_contains_only_its_own_family() {
        let (acme, other) = (id(OrgId, 1), id(OrgId, 2));
        let range = roles(acme);
        assert!(range.contains(&role(acme, id(RoleId, 0))));
        assert!(range.contains(&role(acme, id(RoleId, u128::MAX))));
        assert!(!range.contains(&role(other, id(RoleId, 0))));
        assert!(!range.contains(&role_count(acme)));
        assert!(!range.contains(&role_slug(acme, "a")));
    }

    #[test]
    fn role_holder_key_round_trips() {
        let (org, role, member) = (id(OrgId, 1), id(RoleId, 2), id(MemberId, 3));
        for workspace in [None, Some(id(WorkspaceId, 4))] {
            let key = holder(org, role, member, workspace);
            assert!(holders(org, role).contains(&key));
            assert_eq!(parse_holder(&key), Some((member, workspace)));
        }
    }

    #[test]
    fn due_keys_are_ordered_by_time() {
        let now = Timestamp::from_millis(1_000);
        let range = due_until(now);
        assert!(range.contains(&due(now, Uuid::max())));
        assert!(range.contains(&due(Timestamp::UNIX_EPOCH, Uuid::nil())));
        assert!(!range.contains(&due(Timestamp::from_millis(1_001), Uuid::nil())));
        assert_eq!(due_at(&due(now, Uuid::max())), Some(now));
    }

    #[test]
    fn ready_and_delivery_queue_keys_round_trip_ordered_by_time() {
        let (org, endpoint, event) = (id(OrgId, 1), id(EndpointId, 2), id(EventId, 3));
        let at = Timestamp::from_millis(1_700_000_000_000);
        let entry = endpoint_due(at, org, endpoint);
        assert!(endpoints_due().contains(&entry));
        assert_eq!(parse_endpoint_due(&entry), Some((at, org, endpoint)));
        let queued = delivery_due(org, endpoint, at, event);
        assert!(deliveries_due(org, endpoint).contains(&queued));
        assert_eq!(parse_delivery_due(&queued), Some((at, event)));
        assert!(
            queued
                < delivery_due(
                    org,
                    endpoint,
                    at.plus(std::time::Duration::from_millis(1)),
                    id(EventId, 0)
                )
        );
    }

    #[test]
    fn longest_key_fits_the_limit() {
        let longest = "x".repeat(crate::model::AUDIENCE_NAME_CHARS_MAX);
        assert!(
            member_handle(id(OrgId, 1), &longest).as_bytes().len() < crate::store::KEY_BYTES_MAX
        );
        let key = idempotency(
            id(OrgId, 1),
            id(MemberId, 1),
            "bulk_update",
            &"k".repeat(255),
        );
        assert!(key.as_bytes().len() < crate::store::KEY_BYTES_MAX);
    }
}
