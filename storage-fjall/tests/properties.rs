//! The service over fjall, compared with its model.

use knowledge_storage_fjall::Fjall as Engine;

#[path = "../../storage-embedded/tests/properties/mod.rs"]
mod properties;
