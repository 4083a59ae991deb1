//! Lanes: the rows that commits lock.
//!
//! Every key belongs to one of 256 lanes. A commit locks the lanes of its checks and mutations, in
//! ascending order, so that commits that share a key exclude each other.

use knowledge_store::{Commit, Key, Mutation};

/// Number of lanes, which is the number of rows in the table.
pub(crate) const LANES: usize = 256;

/// Returns the lane of a key, from its area, or from the whole key if it has no area.
///
/// All processes that share a database must agree on this function: a change of it is a change of
/// the schema.
pub(crate) fn lane_of(key: &Key) -> u8 {
    let area = key.area();
    let hashed = if area.is_empty() {
        key.as_bytes()
    } else {
        area
    };
    let [a, b, c, d, e, f, g, h] = fnv1a(hashed).to_be_bytes();
    a ^ b ^ c ^ d ^ e ^ f ^ g ^ h
}

/// Returns the 64-bit FNV-1a hash.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Set of lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaneSet([u64; LANES / 64]);

impl LaneSet {
    /// Returns the lanes that a commit locks.
    ///
    /// A commit without keys locks a lane too, since it needs a version.
    pub(crate) fn of(commit: &Commit) -> Self {
        let mut lanes = Self::default();
        let checked = commit.checks().iter().map(|check| &check.key);
        let changed = commit.mutations().iter().map(Mutation::key);
        for key in checked.chain(changed) {
            lanes.insert(lane_of(key));
        }
        if lanes == Self::default() {
            lanes.insert(0);
        }
        lanes
    }

    pub(crate) fn insert(&mut self, lane: u8) {
        self.0[usize::from(lane / 64)] |= 1 << (lane % 64);
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word |= other;
        }
    }

    pub(crate) fn remove_all(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word &= !other;
        }
    }

    pub(crate) fn intersects(&self, other: &Self) -> bool {
        self.0
            .iter()
            .zip(other.0)
            .any(|(word, other)| word & other != 0)
    }

    /// Returns the lanes in ascending order, as the database numbers them.
    pub(crate) fn numbers(&self) -> Vec<i16> {
        let has = |lane: &u8| self.0[usize::from(lane / 64)] >> (lane % 64) & 1 == 1;
        (0..=u8::MAX).filter(has).map(i16::from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(bytes: &str) -> Key {
        Key::new(bytes.as_bytes()).unwrap()
    }

    /// Processes of different releases share a database, so that the numbers must never change.
    #[test]
    fn lanes_of_keys_are_fixed() {
        for (bytes, lane) in [
            ("memory/acme/1", 160),
            ("label/acme/2", 160),
            ("memory/other/1", 9),
            ("meta", 113),
            ("credential/0", 153),
        ] {
            assert_eq!(lane_of(&key(bytes)), lane, "{bytes}");
        }
    }

    #[test]
    fn commit_locks_lanes_of_checks_and_mutations() {
        let (checked, changed) = (key("a"), key("b"));
        let commit = Commit::builder()
            .check(checked.clone(), None)
            .add(changed.clone(), 1)
            .build()
            .unwrap();
        let mut expected = [i16::from(lane_of(&checked)), i16::from(lane_of(&changed))];
        expected.sort_unstable();
        assert_eq!(LaneSet::of(&commit).numbers(), expected);
        assert_eq!(LaneSet::of(&Commit::default()).numbers(), [0]);
    }

    #[test]
    fn set_holds_every_lane() {
        let mut all = LaneSet::default();
        for lane in 0..=u8::MAX {
            let mut one = LaneSet::default();
            one.insert(lane);
            assert!(!all.intersects(&one));
            all.add_all(&one);
            assert!(all.intersects(&one));
        }
        assert_eq!(all.numbers(), (0..256).collect::<Vec<i16>>());
        all.remove_all(&all.clone());
        assert!(all.numbers().is_empty());
    }
}
