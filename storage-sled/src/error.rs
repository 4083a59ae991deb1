//! Errors of sled.

use std::io;

use knowledge_storage_embedded::EngineError;

/// Converts an error of sled.
pub(crate) fn engine_error(error: sled::Error) -> EngineError {
    match error {
        sled::Error::Io(error) if error.to_string().contains("could not acquire lock") => {
            EngineError::Locked
        }
        sled::Error::Io(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
            EngineError::Io(error)
        }
        error => EngineError::Corrupt(format!("sled: {error}")),
    }
}
