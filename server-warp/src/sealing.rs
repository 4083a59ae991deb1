//! File of the key that seals stored secrets.
//!
//! The file has 32 bytes as base64 or as hexadecimal digits, and only its owner may read it (mode
//! 0600). It is outside the directory of the store, so that a copy of one is worthless without the
//! other: by default it is beside the directory, under the same name with `.key` appended.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use knowledge_core::env::Env;
use knowledge_core::service::SealingKey;

use crate::private_file::{self, PrivateFileError};

/// Length of the key in bytes.
const KEY_BYTES: usize = 32;

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Error of reading the key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The file does not exist.
    #[error(
        "the sealing key file {} is missing; restore it, or set --sealing-key-file to the right \
         one",
        path.display()
    )]
    Missing {
        /// Path of the file.
        path: PathBuf,
    },
    /// The path is no file, such as a pipe: the key is read several times.
    #[error("the sealing key {} is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file does not contain a key.
    #[error(
        "{} contains no sealing key; it must have {KEY_BYTES} bytes, as base64 or as {} \
         hexadecimal digits",
        path.display(), 2 * KEY_BYTES
    )]
    Malformed {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file cannot be read or written, or other users may read it.
    #[error("sealing key: {0}")]
    File(#[from] PrivateFileError),
}

/// Returns the default path of a store's key: beside its directory.
#[must_use]
pub fn default_path(data_dir: &Path) -> PathBuf {
    private_file::with_suffix(data_dir, ".key")
}

/// Reads the key.
///
/// # Errors
/// See [`KeyFileError`].
pub fn read(path: &Path) -> Result<SealingKey, KeyFileError> {
    let path = path.to_owned();
    // Opening a pipe would wait for somebody who writes to it.
    if std::fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
        return Err(KeyFileError::NotAFile { path });
    }
    let Some(text) = private_file::read(&path)? else {
        return Err(KeyFileError::Missing { path });
    };
    parse(text.trim()).ok_or(KeyFileError::Malformed { path })
}

/// Reads the key, and creates it if there is no file. The caller ensures that nothing is sealed
/// with another key yet, and that no other process does the same.
///
/// # Errors
/// See [`KeyFileError`], except for a missing file.
pub fn read_or_create(path: &Path, env: &Env) -> Result<SealingKey, KeyFileError> {
    match read(path) {
        Err(KeyFileError::Missing { .. }) => {
            let key = SealingKey::generate(env);
            private_file::create(path, &text(&key))?;
            tracing::info!(path = %path.display(), "sealing key created");
            Ok(key)
        }
        read => read,
    }
}

/// Files of the keys of a store whose key is replaced.
pub struct KeyFiles {
    /// The key of the store.
    pub present: PathBuf,
    /// The key that is to replace it.
    next: PathBuf,
}

impl KeyFiles {
    /// Returns the files for a store with this key file.
    #[must_use]
    pub fn of(present: PathBuf) -> Self {
        let next = private_file::with_suffix(&present, ".next");
        Self { present, next }
    }

    /// Returns the file that keeps a replaced key, named after its fingerprint.
    #[must_use]
    pub fn former(&self, fingerprint: &str) -> PathBuf {
        private_file::with_suffix(&self.present, &format!(".{fingerprint}"))
    }

    /// Finds the key with this fingerprint in the files.
    ///
    /// # Errors
    /// If a file cannot be read, or has no key.
    pub fn find(&self, fingerprint: &str) -> Result<Option<SealingKey>, KeyFileError> {
        for path in [&self.present, &self.next, &self.former(fingerprint)] {
            match read(path) {
                Ok(key) if key.fingerprint() == fingerprint => return Ok(Some(key)),
                Ok(_) | Err(KeyFileError::Missing { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Stores the next key, or keeps the one that an interrupted replacement has stored or
    /// generated. Without a given key, it generates one.
    ///
    /// # Errors
    /// If the file cannot be read or written, or has no key.
    pub fn prepare(
        &self,
        given: Option<SealingKey>,
        env: &Env,
    ) -> Result<SealingKey, KeyFileError> {
        let Some(key) = given else {
            return read_or_create(&self.next, env);
        };
        private_file::replace(&self.next, &text(&key))?;
        Ok(key)
    }

    /// Replaces the key in its file, and keeps the old one in a file of its own.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn switch(&self, old: &SealingKey, new: &SealingKey) -> Result<(), KeyFileError> {
        private_file::replace(&self.former(&old.fingerprint()), &text(old))?;
        private_file::replace(&self.present, &text(new))?;
        private_file::remove(&self.next)?;
        Ok(())
    }
}

/// Returns the contents of a key file.
fn text(key: &SealingKey) -> String {
    format!("{}\n", STANDARD.encode(key.expose()))
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

    #[test]
    fn sealing_key_is_read_in_every_encoding() {
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

    #[cfg(unix)]
    #[test]
    fn sealing_key_is_not_read_from_a_pipe() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
        for path in [path.as_path(), directory.path()] {
            let refused = read(path);
            assert!(matches!(refused, Err(KeyFileError::NotAFile { .. })));
        }
    }

    #[test]
    fn sealing_key_is_generated_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = default_path(&directory.path().join("data"));
        assert!(matches!(read(&path), Err(KeyFileError::Missing { .. })));
        let made = read_or_create(&path, &Env::system()).unwrap();
        assert_eq!(read(&path).unwrap(), made);
        assert_eq!(read_or_create(&path, &Env::system()).unwrap(), made);
    }
}
