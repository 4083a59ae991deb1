//! Errors of fjall.

use std::io;

use knowledge_storage_embedded::EngineError;

/// Converts an error of fjall.
pub(crate) fn engine_error(error: fjall::Error) -> EngineError {
    match error {
        fjall::Error::Locked => EngineError::Locked,
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error))
            if !matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData
            ) =>
        {
            EngineError::Io(error)
        }
        fjall::Error::Poisoned => {
            EngineError::Io(io::Error::other("fjall: an earlier write failed"))
        }
        error => EngineError::Corrupt(format!("fjall: {error}")),
    }
}
