//! The service over sled, compared with its model.

use knowledge_storage_sled::Sled as Engine;

#[path = "../../storage-embedded/tests/properties/mod.rs"]
mod properties;
