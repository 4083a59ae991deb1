//! Sealing of stored secrets, and of texts for clients: XChaCha20-Poly1305.
//!
//! A secret is sealed with the identifier of its endpoint as associated data, a text with a prefix
//! and its purpose, so that a secret never opens as a text, or a text as a secret.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::digest::hex;
use crate::env::Env;
use crate::error::Error;
use crate::limits::SIGNING_SECRET_OVERLAP;
use crate::model::{DisabledReason, Timestamp};
use crate::service::access::principal::Delegator;
use crate::service::secrets::signing::{SECRET_PREFIX, SigningSecret};

/// Number of random bytes in a signing secret.
const SIGNING_SECRET_BYTES: usize = 32;
/// Number of bytes in a nonce, enough for it to be random.
const NONCE_BYTES: usize = 24;
/// Number of hexadecimal digits of the fingerprint of a key.
const FINGERPRINT_DIGITS: usize = 16;

/// The key that seals stored secrets: 32 bytes from the operator, kept apart from the store.
///
/// # Examples
///
/// ```
/// use knowledge_core::env::Env;
/// use knowledge_core::service::SealingKey;
///
/// let key = SealingKey::generate(&Env::system());
/// // Its bytes belong in a secret manager, or in a file that only its owner can read.
/// let bytes: [u8; 32] = *key.expose();
/// // A later start creates the key from them.
/// assert_eq!(SealingKey::new(bytes).fingerprint(), key.fingerprint());
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SealingKey([u8; 32]);

impl SealingKey {
    /// Creates a key from these bytes, which must be random.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Generates a key.
    #[must_use]
    pub fn generate(env: &Env) -> Self {
        Self(env.random())
    }

    /// Returns the bytes of the key, to be written only where their owner can read them.
    #[must_use]
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns a fingerprint, which distinguishes the key from others without revealing it.
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

/// A sealed secret: nonce and ciphertext in base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Sealed(pub(super) String);

/// A record with its sealed secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SealedRecord<T> {
    pub(crate) record: T,
    pub(crate) secret: Sealed,
    /// Secret before the last rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<PreviousSecret>,
    /// True if no stored secret is valid: the next rotation begins anew.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_revoked: bool,
    /// Reason for which the service disabled the endpoint, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) disabled: Option<DisabledReason>,
    /// On whose behalf it acts.
    pub(crate) delegator: Delegator,
}

/// A replaced secret, which remains valid for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PreviousSecret {
    secret: Sealed,
    expires_at: Timestamp,
}

/// The result of a rotation: a new signing secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RotatedSecret {
    /// New secret (Standard Webhooks 1.0.0: `whsec_` and base64), returned only in this response.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::SigningSecret"))]
    pub signing_secret: String,
    /// Time until which the previous secret is valid too.
    pub previous_secret_expires_at: Timestamp,
}

impl<T> SealedRecord<T> {
    pub(crate) fn new(record: T, secret: Sealed, delegator: Delegator) -> Self {
        Self {
            record,
            secret,
            previous: None,
            is_revoked: false,
            disabled: None,
            delegator,
        }
    }

    /// Replaces the secret of this owner.
    ///
    /// The old one remains valid for [`SIGNING_SECRET_OVERLAP`] unless it was revoked; the one
    /// before it becomes invalid.
    pub(crate) fn rotate(
        &mut self,
        sealer: &Sealer,
        owner: Uuid,
        now: Timestamp,
        env: &Env,
    ) -> RotatedSecret {
        let (signing_secret, sealed) = sealer.new_secret(owner, env);
        let was_revoked = std::mem::take(&mut self.is_revoked);
        let expires_at = if was_revoked {
            now
        } else {
            now.plus(SIGNING_SECRET_OVERLAP)
        };
        let secret = std::mem::replace(&mut self.secret, sealed);
        let previous = PreviousSecret { secret, expires_at };
        self.previous = (!was_revoked).then_some(previous);
        RotatedSecret {
            signing_secret,
            previous_secret_expires_at: expires_at,
        }
    }

    /// Makes every stored secret invalid, until the next rotation.
    #[cfg(feature = "transfer")]
    pub(crate) fn revoke_secrets(&mut self) {
        self.is_revoked = true;
    }

    /// Returns true if a restore has made every stored secret invalid, until the next rotation.
    pub(crate) fn is_revoked(&self) -> bool {
        self.is_revoked
    }

    /// Returns all stored secrets, newest first, including those that are invalid.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &Sealed> {
        let previous = self.previous.iter().map(|previous| &previous.secret);
        std::iter::once(&self.secret).chain(previous)
    }

    /// Returns all stored secrets, to reseal them.
    pub(crate) fn secrets_mut(&mut self) -> impl Iterator<Item = &mut Sealed> {
        let previous = self.previous.iter_mut();
        std::iter::once(&mut self.secret).chain(previous.map(|previous| &mut previous.secret))
    }

    /// Returns the secrets that are valid at `now`, newest first.
    pub(crate) fn secrets_at(&self, now: Timestamp) -> impl Iterator<Item = &Sealed> {
        let previous = self.previous.iter();
        let previous = previous.filter(move |previous| now < previous.expires_at);
        let secrets =
            std::iter::once(&self.secret).chain(previous.map(|previous| &previous.secret));
        secrets.filter(|_| !self.is_revoked)
    }
}

#[derive(Clone)]
pub(crate) struct Sealer {
    cipher: XChaCha20Poly1305,
    /// HMAC of texts that must not be guessed from their digests, with a key derived from that of
    /// the cipher.
    digests: Hmac<Sha256>,
    fingerprint: String,
}

impl Sealer {
    pub(crate) fn new(key: &SealingKey) -> Self {
        let derived = Sha256::new()
            .chain_update(b"key of digests")
            .chain_update(key.0)
            .finalize();
        let digests = <Hmac<Sha256> as KeyInit>::new_from_slice(&derived);
        Self {
            cipher: XChaCha20Poly1305::new(&Key::from(key.0)),
            digests: digests.expect("HMAC accepts keys of any length"),
            fingerprint: key.fingerprint(),
        }
    }

    /// Returns a digest of some bytes that only the key reproduces: HMAC-SHA-256, in hexadecimal.
    pub(crate) fn fingerprint_of(&self, bytes: &[u8]) -> String {
        let mut mac = self.digests.clone();
        mac.update(bytes);
        hex(mac.finalize().into_bytes())
    }

    /// Returns the fingerprint of the key.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Generates a signing secret. Returns it in plain text and sealed.
    pub(crate) fn new_secret(&self, owner: Uuid, env: &Env) -> (String, Sealed) {
        let random = env.random::<SIGNING_SECRET_BYTES>();
        let secret = format!("{SECRET_PREFIX}{}", STANDARD.encode(random));
        let sealed = self.seal(&secret, owner, env);
        (secret, sealed)
    }

    pub(crate) fn seal(&self, secret: &str, owner: Uuid, env: &Env) -> Sealed {
        self.seal_with(secret, owner.as_bytes(), env)
    }

    pub(super) fn seal_with(&self, text: &str, associated: &[u8], env: &Env) -> Sealed {
        let nonce = env.random::<NONCE_BYTES>();
        let payload = Payload {
            msg: text.as_bytes(),
            aad: associated,
        };
        let ciphertext = self
            .cipher
            .encrypt(&XNonce::from(nonce), payload)
            .expect("a short text can be sealed");
        Sealed(STANDARD.encode([&nonce[..], &ciphertext].concat()))
    }

    /// Opens the sealed secret of this owner.
    ///
    /// # Errors
    /// [`Error::Internal`] if it was sealed for another owner or with another key, or is corrupt.
    pub(crate) fn open(&self, sealed: &Sealed, owner: Uuid) -> Result<String, Error> {
        let corrupt = || Error::internal(format!("the sealed secret of {owner} cannot be opened"));
        self.open_with(sealed, owner.as_bytes()).ok_or_else(corrupt)
    }

    pub(super) fn open_with(&self, sealed: &Sealed, associated: &[u8]) -> Option<String> {
        let bytes = STANDARD.decode(&sealed.0).ok()?;
        let (nonce, ciphertext) = bytes.split_first_chunk::<NONCE_BYTES>()?;
        let payload = Payload {
            msg: ciphertext,
            aad: associated,
        };
        let text = self.cipher.decrypt(&XNonce::from(*nonce), payload).ok()?;
        String::from_utf8(text).ok()
    }

    /// Opens the sealed secret of this owner, to sign and to verify.
    ///
    /// # Errors
    /// As [`Sealer::open`].
    pub(crate) fn signing_secret(
        &self,
        sealed: &Sealed,
        owner: Uuid,
    ) -> Result<SigningSecret, Error> {
        let secret = self.open(sealed, owner)?;
        let no_secret = |_| {
            Error::internal(format!(
                "the sealed secret of {owner} is not a signing secret"
            ))
        };
        secret.parse().map_err(no_secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::KnowledgeService;
    use crate::service::secrets::texts::text_data;

    #[test]
    fn sealed_secret_opens_only_with_its_owner_and_key() {
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
        // A secret is no text for a client, and the other way round.
        assert_eq!(sealer.open_with(&sealed, &text_data(owner)), None);
        let text = sealer.seal_with("state", &text_data(owner), &env);
        assert!(sealer.open(&text, owner).is_err());
    }

    #[tokio::test]
    async fn service_does_not_open_a_secret_as_a_text() {
        let key = SealingKey::new([1; 32]);
        let (env, owner) = (Env::system(), Uuid::from_u128(1));
        let (_, sealed) = Sealer::new(&key).new_secret(owner, &env);
        let store = std::sync::Arc::new(crate::store::MemoryStore::new());
        let options = crate::service::Options::new(key);
        let service = KnowledgeService::open(store, env, options).await.unwrap();
        assert_eq!(service.open_text(&sealed.0, owner), None);
        let text = service.seal_text("state", owner);
        assert_eq!(service.open_text(&text, owner).as_deref(), Some("state"));
    }

    #[test]
    fn fingerprint_depends_on_the_bytes_and_the_key() {
        let of = |key, bytes| Sealer::new(&SealingKey::new([key; 32])).fingerprint_of(bytes);
        assert_eq!(of(1, b"a"), of(1, b"a"));
        assert_ne!(of(1, b"a"), of(1, b"b"));
        assert_ne!(of(1, b"a"), of(2, b"a"));
    }

    #[test]
    fn rotated_secret_is_valid_for_one_more_day() {
        let bytes = std::sync::atomic::AtomicU8::new(0);
        let random = move |buffer: &mut [u8]| {
            buffer.fill(bytes.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
        };
        let env = Env::new(|| Timestamp::UNIX_EPOCH, random);
        let sealer = Sealer::new(&SealingKey::new([1; 32]));
        let (owner, now) = (Uuid::from_u128(1), Timestamp::from_millis(1_000));
        let (first, sealed) = sealer.new_secret(owner, &env);
        let delegator = Delegator::member(crate::model::MemberId(owner));
        let mut stored = SealedRecord::new((), sealed, delegator);
        let opened = |stored: &SealedRecord<()>, at| -> Vec<String> {
            let secrets = stored.secrets_at(at);
            secrets
                .map(|secret| sealer.open(secret, owner).unwrap())
                .collect()
        };
        assert_eq!(opened(&stored, now), std::slice::from_ref(&first));

        let second = stored.rotate(&sealer, owner, now, &env);
        let until = second.previous_secret_expires_at;
        assert_eq!(until, now.plus(SIGNING_SECRET_OVERLAP));
        let before = Timestamp::from_millis(until.as_millis() - 1);
        assert_eq!(
            opened(&stored, before),
            [second.signing_secret.clone(), first]
        );
        assert_eq!(
            opened(&stored, until),
            std::slice::from_ref(&second.signing_secret)
        );

        let third = stored.rotate(&sealer, owner, now, &env);
        assert_eq!(
            opened(&stored, now),
            [third.signing_secret, second.signing_secret]
        );

        stored.revoke_secrets();
        assert_eq!(opened(&stored, now), [""; 0]);
        let fourth = stored.rotate(&sealer, owner, now, &env);
        assert_eq!(fourth.previous_secret_expires_at, now);
        assert_eq!(opened(&stored, now), [fourth.signing_secret]);
    }
}
