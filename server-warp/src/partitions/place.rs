//! Names and addresses of partitions.

use knowledge_core::partition::HOME;

use crate::store_address::StoreAddress;

/// Maximum length of a name, in characters.
const NAME_CHARS_MAX: usize = 64;

/// A partition other than home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionAddress {
    /// Name: 1 to 64 of the characters `a-z 0-9 _ -`, and not `home`.
    pub name: String,
    /// Address of its store.
    pub store: StoreAddress,
}

impl PartitionAddress {
    /// Parses a name and the address of a store; `None` if one is invalid.
    #[must_use]
    pub fn parse(name: &str, store: &str) -> Option<Self> {
        let is_valid = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        let is_name = (1..=NAME_CHARS_MAX).contains(&name.len())
            && name.bytes().all(is_valid)
            && name != HOME;
        let store = store.parse().ok().filter(|_| is_name)?;
        Some(Self {
            name: name.to_owned(),
            store,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_has_a_name_other_than_home() {
        let found = PartitionAddress::parse("eu-1", "sled:/data/eu").unwrap();
        assert_eq!(
            (&*found.name, found.store.to_string()),
            ("eu-1", "sled:/data/eu".to_owned())
        );
        for (name, store) in [
            ("", "memory:"),
            ("home", "memory:"),
            ("EU", "memory:"),
            ("a/b", "memory:"),
            (&"x".repeat(65), "memory:"),
            ("eu", "elsewhere"),
        ] {
            assert_eq!(
                PartitionAddress::parse(name, store),
                None,
                "{name:?} {store:?}"
            );
        }
    }
}
