//! Sealing the secrets that are stored: XChaCha20-Poly1305, the endpoint's identifier as associated data.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::digest::hex;
use crate::env::Env;
use crate::error::Error;

/// What the secrets of Standard Webhooks 1.0.0 begin with.
const SIGNING_SECRET_PREFIX: &str = "whsec_";
/// How many random bytes a signing secret has.
const SIGNING_SECRET_BYTES: usize = 32;
/// How many bytes a nonce has: long enough to be random.
const NONCE_BYTES: usize = 24;
/// How many hexadecimal digits of the key's hash the store keeps.
const FINGERPRINT_DIGITS: usize = 16;

/// The key that seals stored secrets: 32 bytes from the operator, kept apart from the store.
#[derive(Clone, PartialEq, Eq)]
pub struct SealingKey([u8; 32]);

impl SealingKey {
    /// A key of these bytes. They have to be random.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A new key.
    #[must_use]
    pub fn generate(env: &Env) -> Self {
        Self(env.random())
    }

    /// The bytes of the key, to be written where its owner alone can read.
    #[must_use]
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// What may be known of the key: enough to tell it from another, not enough to find it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let digest = Sha256::new()
            .chain_update(b"sealing key fingerprint")
            .chain_update(self.0)
            .finalize();
        let mut digits = hex(digest);
        digits.truncate(FINGERPRINT_DIGITS);
        digits
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKey({})", self.fingerprint())
    }
}

/// A secret as it is stored: nonce and ciphertext in base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Sealed(String);

/// A record that is stored with its sealed secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SealedRecord<T> {
    pub(crate) record: T,
    pub(crate) secret: Sealed,
}

#[derive(Clone)]
pub(crate) struct Sealer {
    cipher: XChaCha20Poly1305,
    fingerprint: String,
}

impl Sealer {
    pub(crate) fn new(key: &SealingKey) -> Self {
        Self {
            cipher: XChaCha20Poly1305::new(&Key::from(key.0)),
            fingerprint: key.fingerprint(),
        }
    }

    /// The fingerprint of the key that it seals and opens with.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// A new signing secret, as it is shown once and as it is stored.
    pub(crate) fn new_secret(&self, owner: Uuid, env: &Env) -> (String, Sealed) {
        let random = env.random::<SIGNING_SECRET_BYTES>();
        let secret = format!("{SIGNING_SECRET_PREFIX}{}", STANDARD.encode(random));
        let sealed = self.seal(&secret, owner, env);
        (secret, sealed)
    }

    fn seal(&self, secret: &str, owner: Uuid, env: &Env) -> Sealed {
        let nonce = env.random::<NONCE_BYTES>();
        let payload = Payload {
            msg: secret.as_bytes(),
            aad: owner.as_bytes(),
        };
        let ciphertext = self
            .cipher
            .encrypt(&XNonce::from(nonce), payload)
            .expect("a short secret can be sealed");
        Sealed(STANDARD.encode([&nonce[..], &ciphertext].concat()))
    }

    /// The secret of this owner.
    ///
    /// # Errors
    /// [`Error::Internal`] where it was sealed for another owner or with another key, or is damaged.
    pub(crate) fn open(&self, sealed: &Sealed, owner: Uuid) -> Result<String, Error> {
        let damaged = || Error::internal(format!("the sealed secret of {owner} cannot be opened"));
        let bytes = STANDARD.decode(&sealed.0).map_err(|_| damaged())?;
        let (nonce, ciphertext) = bytes
            .split_first_chunk::<NONCE_BYTES>()
            .ok_or_else(damaged)?;
        let payload = Payload {
            msg: ciphertext,
            aad: owner.as_bytes(),
        };
        let secret = self
            .cipher
            .decrypt(&XNonce::from(*nonce), payload)
            .map_err(|_| damaged())?;
        String::from_utf8(secret).map_err(|_| damaged())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Timestamp;

    #[test]
    fn a_secret_opens_for_its_owner_and_key_alone() {
        let env = Env::new(|| Timestamp::UNIX_EPOCH, |buffer: &mut [u8]| buffer.fill(9));
        let sealer = Sealer::new(&SealingKey::new([1; 32]));
        let (owner, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let (secret, sealed) = sealer.new_secret(owner, &env);
        assert!(secret.starts_with("whsec_"));
        assert!(!sealed.0.contains(&secret));
        assert_eq!(sealer.open(&sealed, owner).unwrap(), secret);
        assert!(sealer.open(&sealed, other).is_err());
        assert!(
            Sealer::new(&SealingKey::new([2; 32]))
                .open(&sealed, owner)
                .is_err()
        );
        assert!(sealer.open(&Sealed("AAAA".to_owned()), owner).is_err());
    }
}
