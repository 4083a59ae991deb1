//! Bytes of responses, and keys and values of the store, that the reference repeats.

use std::path::Path;

use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A storage engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Engine {
    Sled,
    Fjall,
}

impl Engine {
    pub(crate) const ALL: [Self; 2] = [Self::Sled, Self::Fjall];
    /// Engine of a store whose address names none.
    pub(crate) const DEFAULT: Self = Self::Sled;

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sled => "sled",
            Self::Fjall => "fjall",
        }
    }
}

/// A change of one key of the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Write {
    pub(crate) key: Binary,
    /// Value without its version; `None` if the key is deleted.
    pub(crate) value: Option<Binary>,
}

impl Write {
    /// Returns the value as the store writes it, after its version.
    pub(crate) fn stored(&self, version: [u8; 8]) -> Option<Vec<u8>> {
        let Binary(value) = self.value.as_ref()?;
        Some([&version[..], value].concat())
    }
}

/// A response, without what the HTTP library adds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Recorded {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    #[serde(with = "text")]
    pub(crate) body: Vec<u8>,
}

/// A key or a value of the engine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Binary(#[serde(with = "text")] pub(crate) Vec<u8>);

/// Everything that a reference needs.
#[derive(Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) engine: Engine,
    /// Keys that a dashboard summary reads.
    pub(crate) dashboard_keys: Vec<Binary>,
    /// Commit of a large bulk update.
    pub(crate) bulk: Vec<Write>,
    /// Commits of bulk updates of one memory each, of different memories.
    pub(crate) updates: Vec<Vec<Write>>,
    /// Commits of ingested batches, of all rounds.
    pub(crate) batches: Vec<Vec<Write>>,
    pub(crate) dashboard: Recorded,
    pub(crate) not_modified: Recorded,
    /// Response to a bulk update of one memory.
    pub(crate) update: Recorded,
    /// Response to a replayed large bulk update.
    pub(crate) replay: Recorded,
}

impl Spec {
    pub(crate) fn write(&self, path: &Path) {
        let json = serde_json::to_vec(self).expect("JSON");
        std::fs::write(path, json).expect("the file can be written");
    }

    pub(crate) fn read(path: &Path) -> Self {
        let json = std::fs::read(path).expect("the file can be read");
        serde_json::from_slice(&json).expect("JSON")
    }
}

/// Bytes as text.
mod text {
    use base64::Engine as _;

    use super::{Deserialize, Deserializer, STANDARD, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD.decode(text).map_err(serde::de::Error::custom)
    }
}
