//! The file of the key that seals stored secrets.
//!
//! The file has 32 bytes as base64 or as hexadecimal digits, and belongs to its owner alone (mode 0600). It stands
//! outside the directory of the store, so that a copy of the one is worth nothing without the other: by default beside
//! it, under the same name with `.key` behind it.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use knowledge_core::env::Env;
use knowledge_core::service::SealingKey;

use crate::private_file::{self, PrivateFileError};

/// How many bytes the key has.
const KEY_BYTES: usize = 32;

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The file is not there.
    #[error(
        "the sealing key file {} is missing: put it back, or name the right one with --sealing-key-file",
        path.display()
    )]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file has something else in it.
    #[error(
        "{} does not have a sealing key: it must have {KEY_BYTES} bytes, as base64 or as {} hexadecimal digits",
        path.display(), 2 * KEY_BYTES
    )]
    Malformed {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read or written, or others may read it.
    #[error("sealing key: {0}")]
    File(#[from] PrivateFileError),
}

/// Where the key of a store is when nothing else is said: beside its directory.
#[must_use]
pub fn default_path(data_dir: &Path) -> PathBuf {
    private_file::with_suffix(data_dir, ".key")
}

/// Reads the key.
///
/// # Errors
/// [`KeyFileError`], one by one.
pub fn read(path: &Path) -> Result<SealingKey, KeyFileError> {
    let path = path.to_owned();
    let Some(text) = private_file::read(&path)? else {
        return Err(KeyFileError::Missing { path });
    };
    parse(text.trim()).ok_or(KeyFileError::Malformed { path })
}

/// Reads the key, and makes one where there is no file. The caller knows that nothing is sealed with another one yet,
/// and that no other process does the same.
///
/// # Errors
/// [`KeyFileError`], one by one, but for a missing file.
pub fn read_or_make(path: &Path, env: &Env) -> Result<SealingKey, KeyFileError> {
    match read(path) {
        Err(KeyFileError::Missing { .. }) => {
            let key = SealingKey::generate(env);
            private_file::create(path, &format!("{}\n", STANDARD.encode(key.expose())))?;
            tracing::info!(path = %path.display(), "made a sealing key");
            Ok(key)
        }
        read => read,
    }
}

fn parse(text: &str) -> Option<SealingKey> {
    let bytes = if text.len() == 2 * KEY_BYTES {
        from_hex(text)
    } else {
        STANDARD
            .decode(text)
            .or_else(|_| URL_SAFE.decode(text))
            .ok()
    };
    Some(SealingKey::new(bytes?.try_into().ok()?))
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.as_bytes().chunks_exact(2);
    pairs
        .map(|pair| u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::system_env;

    #[test]
    fn a_key_is_read_in_every_form() {
        let key = SealingKey::new([0xfb; KEY_BYTES]);
        let standard = STANDARD.encode(key.expose());
        let url_safe = URL_SAFE.encode(key.expose());
        for text in [
            "fb".repeat(KEY_BYTES),
            "FB".repeat(KEY_BYTES),
            standard.trim_end_matches('=').to_owned(),
            standard,
            url_safe,
        ] {
            assert_eq!(parse(&text), Some(key.clone()), "{text}");
        }
        for text in [
            "",
            "fb",
            &"fb".repeat(31),
            &"fg".repeat(32),
            &"A".repeat(40),
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_key_that_was_made_is_found_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = default_path(&directory.path().join("data"));
        assert!(matches!(read(&path), Err(KeyFileError::Missing { .. })));
        let made = read_or_make(&path, &system_env()).unwrap();
        assert_eq!(read(&path).unwrap(), made);
        assert_eq!(read_or_make(&path, &system_env()).unwrap(), made);
    }
}
