//! Records of the service for millions of memories.
//!
//! The service creates the records of a thousand memories, and they are copied under other ids.

use std::sync::Arc;

use bytes::Bytes;
use knowledge_core::store::{Key, KeyRange, MemoryStore, Store, StoreExt};

use crate::{Tenant, add_handbook};

/// Key families of memories. Idempotency records are excluded, because they expire after a day.
const FAMILIES: [&str; 8] = [
    "audit",
    "audit_actor",
    "content",
    "memory",
    "reviewed_memory",
    "source_key",
    "sourced_memory",
    "workspace_memory",
];
/// Number of hexadecimal digits of the digest at the end of a key.
const DIGEST_DIGITS: usize = 64;

/// Position of a version 7 id in a key or a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IdPosition {
    at: usize,
    is_hyphenated: bool,
    /// Time of the id, in milliseconds since the Unix epoch.
    millis: u64,
}

/// Bytes that contain ids.
#[derive(Clone, Debug)]
struct TemplateBytes {
    bytes: Vec<u8>,
    ids: Vec<IdPosition>,
}

/// Entries of some memories, as a template for copies.
#[derive(Clone, Debug)]
pub struct Template {
    /// Entries in key order.
    entries: Vec<(TemplateBytes, TemplateBytes)>,
    /// Indexes of the `memory` entries.
    memories: Vec<usize>,
    /// Time between two copies, in milliseconds.
    span: u64,
}

impl Template {
    /// Creates the entries of a number of memories through the service, always the same.
    ///
    /// # Panics
    /// If the service fails.
    pub async fn new(memories: usize) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let tenant = Tenant::fill(Arc::clone(&store), 0).await;
        add_handbook(&tenant, memories).await;
        let all = store.scan_all(&KeyRange::all()).await;
        let all = all.expect("the store works");
        let family = |key: &Key| key.to_string().split('/').next().map(str::to_owned);
        // Entries up to the last source are fixed: the organisation, its owner, the workspace.
        let sources = all
            .iter()
            .filter(|found| family(&found.key).as_deref() == Some("source"));
        let ids = sources.flat_map(|found| ids(found.key.as_bytes(), 0));
        let fixed = ids.map(|id| id.millis).max().expect("there is a source");

        let (mut entries, mut memories_at) = (Vec::new(), Vec::new());
        for found in all {
            let family = family(&found.key).unwrap_or_default();
            let key = TemplateBytes::new(found.key.as_bytes(), fixed + 1);
            if !FAMILIES.contains(&&*family) || (key.ids.is_empty() && family != "source_key") {
                continue;
            }
            if family == "memory" {
                memories_at.push(entries.len());
            }
            entries.push((key, TemplateBytes::new(&found.entry.value, fixed + 1)));
        }
        let times = entries
            .iter()
            .flat_map(|(key, value)| key.ids.iter().chain(&value.ids));
        let last = times.map(|id| id.millis).max().expect("memories have ids");
        Self {
            entries,
            memories: memories_at,
            span: last - fixed,
        }
    }

    /// Returns the number of memories per copy.
    #[must_use]
    pub fn memories(&self) -> usize {
        self.memories.len()
    }

    /// Returns the number of entries per copy.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Returns the entries of a copy, newer than all copies with lower numbers. Source key digests
    /// are random.
    pub fn copy(
        &self,
        number: u64,
        random: &mut fastrand::Rng,
    ) -> impl Iterator<Item = (Key, Bytes)> {
        let shift = number * self.span;
        self.entries.iter().map(move |(key, value)| {
            let mut key = key.shift_ids(shift);
            if key.starts_with(b"source_key/") {
                let start = key.len() - DIGEST_DIGITS;
                key[start..].fill_with(|| b"0123456789abcdef"[random.usize(..16)]);
            }
            (new_key(key), value.shift_ids(shift).into())
        })
    }

    /// Returns the key of a memory by its index in all copies.
    #[must_use]
    pub fn memory_key(&self, number: usize) -> Key {
        let (copy, index) = (number / self.memories.len(), number % self.memories.len());
        let (key, _) = &self.entries[self.memories[index]];
        new_key(key.shift_ids(copy as u64 * self.span))
    }
}

fn new_key(bytes: Vec<u8>) -> Key {
    Key::new(bytes).expect("a copy is as long as its key")
}

impl TemplateBytes {
    fn new(bytes: &[u8], millis_min: u64) -> Self {
        Self {
            bytes: bytes.to_vec(),
            ids: ids(bytes, millis_min),
        }
    }

    /// Returns the bytes with all ids later by `shift` milliseconds.
    fn shift_ids(&self, shift: u64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for id in &self.ids {
            let digits = format!("{:012x}", id.millis + shift);
            let (high, low) = digits.as_bytes().split_at(8);
            let low_at = id.at + 8 + usize::from(id.is_hyphenated);
            bytes[id.at..id.at + 8].copy_from_slice(high);
            bytes[low_at..low_at + 4].copy_from_slice(low);
        }
        bytes
    }
}

/// Finds the version 7 ids that are not older than `millis_min`.
fn ids(bytes: &[u8], millis_min: u64) -> Vec<IdPosition> {
    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-');
    let mut found = Vec::new();
    let mut at = 0;
    for word in bytes.split(|byte| !is_part(byte)) {
        let is_hyphenated = word.len() == 36;
        if let Some(millis) = id_millis(word).filter(|millis| *millis >= millis_min) {
            found.push(IdPosition {
                at,
                is_hyphenated,
                millis,
            });
        }
        at += word.len() + 1;
    }
    found
}

/// Returns the time of an id, with or without hyphens.
fn id_millis(word: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(word).ok()?;
    if text.len() != 32 && text.len() != 36 {
        return None;
    }
    let digits = text.replace('-', "");
    let is_seven = digits.len() == 32 && digits.as_bytes()[12] == b'7';
    let time = is_seven.then(|| u64::from_str_radix(&digits[..12], 16).ok());
    time.flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn ids_are_found_with_and_without_hyphens() {
        let simple = "memory/018bcfe5680070008000000000000001";
        let hyphenated = r#"{"id":"018bcfe5-6800-7000-8000-000000000001"}"#;
        let digest = format!("source_key/{}", "7".repeat(64));
        let millis = 0x018b_cfe5_6800;
        for (text, at, is_hyphenated) in [(simple, 7, false), (hyphenated, 7, true)] {
            let id = IdPosition {
                at,
                is_hyphenated,
                millis,
            };
            assert_eq!(ids(text.as_bytes(), millis), [id]);
            assert_eq!(ids(text.as_bytes(), millis + 1), []);
            let shifted = TemplateBytes::new(text.as_bytes(), 0).shift_ids(0x1_0001);
            assert_eq!(ids(&shifted, 0)[0].millis, millis + 0x1_0001);
            assert_eq!(shifted.len(), text.len());
        }
        assert_eq!(ids(digest.as_bytes(), 0), []);
    }

    #[tokio::test]
    async fn copies_have_distinct_ascending_keys() {
        let template = Template::new(200).await;
        assert_eq!(template.memories(), 200);
        let mut random = fastrand::Rng::with_seed(1);
        let mut all = BTreeMap::new();
        for number in 0..3 {
            all.extend(template.copy(number, &mut random));
        }
        assert_eq!(all.len(), 3 * template.entries());
        let memories: Vec<&Key> = all
            .keys()
            .filter(|key| key.as_bytes().starts_with(b"memory/"))
            .collect();
        assert_eq!(memories.len(), 600);
        for (number, key) in memories.into_iter().enumerate() {
            assert_eq!(*key, template.memory_key(number));
        }
    }

    #[tokio::test]
    async fn values_refer_to_memories_of_their_copy() {
        let template = Template::new(100).await;
        let mut random = fastrand::Rng::with_seed(1);
        let entries: BTreeMap<Key, Bytes> = template.copy(5, &mut random).collect();
        let mut names = 0;
        for (key, value) in &entries {
            let key = key.to_string();
            if let Some(rest) = key.strip_prefix("source_key/") {
                names += 1;
                let org = rest.split('/').next().unwrap();
                let memory = std::str::from_utf8(value).unwrap().replace(['"', '-'], "");
                let memory = Key::new(format!("memory/{org}/{memory}")).unwrap();
                assert!(entries.contains_key(&memory), "{memory}");
            }
        }
        assert_eq!(names, 100);
    }
}
