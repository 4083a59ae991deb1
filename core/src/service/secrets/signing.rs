//! Signed messages in both directions, with the symmetric signatures of Standard Webhooks 1.0.0.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::error::Error;
use crate::limits::SIGNED_MESSAGE_TOLERANCE;
use crate::model::Timestamp;

/// Prefix of a secret.
pub(crate) const SECRET_PREFIX: &str = "whsec_";
/// Prefix of a symmetric signature.
const SIGNATURE_PREFIX: &str = "v1,";

/// A secret that signs messages with HMAC-SHA256.
///
/// ```
/// use knowledge_core::model::Timestamp;
/// use knowledge_core::service::{SignedMessage, SigningSecret};
///
/// let secret: SigningSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse()?;
/// let (at, body) = (Timestamp::from_millis(1_614_265_330_000), br#"{"test": 2432232314}"#);
/// let signature = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", at, body);
/// assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
///
/// let message = SignedMessage {
///     id: b"msg_p5jXN8AQM9LWM0D4loKWxJek",
///     timestamp: b"1614265330",
///     signature: signature.as_bytes(),
///     body,
/// };
/// assert!(message.verify(&[secret], at).is_ok());
/// # Ok::<(), knowledge_core::service::InvalidSigningSecret>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret(Vec<u8>);

/// An invalid signing secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be {SECRET_PREFIX} followed by base64")]
pub struct InvalidSigningSecret;

impl FromStr for SigningSecret {
    type Err = InvalidSigningSecret;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = text
            .strip_prefix(SECRET_PREFIX)
            .ok_or(InvalidSigningSecret)?;
        let bytes = STANDARD.decode(bytes).map_err(|_| InvalidSigningSecret)?;
        Ok(Self(bytes))
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret")
    }
}

impl SigningSecret {
    /// Signs a message that is sent at this time.
    ///
    /// The header `webhook-signature` lists such signatures, separated by spaces.
    #[must_use]
    pub fn sign(&self, id: &str, at: Timestamp, body: &[u8]) -> String {
        let timestamp = at.as_seconds().to_string();
        let mac = self.mac(id.as_bytes(), timestamp.as_bytes(), body);
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        format!("{SIGNATURE_PREFIX}{signature}")
    }

    /// Returns a digest of three parts that only the secret reproduces: HMAC-SHA-256.
    ///
    /// Only the last part may have a variable length.
    pub(crate) fn digest(&self, first: &[u8], second: &[u8], last: &[u8]) -> [u8; 32] {
        self.mac(first, second, last).finalize().into_bytes().into()
    }

    fn mac(&self, id: &[u8], timestamp: &[u8], body: &[u8]) -> Hmac<Sha256> {
        let mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.0);
        let mut mac = mac.expect("HMAC accepts keys of any length");
        for part in [id, b".", timestamp, b".", body] {
            mac.update(part);
        }
        mac
    }
}

/// A received message: the bytes of its headers and of its body.
#[derive(Clone, Copy, Debug)]
pub struct SignedMessage<'m> {
    /// `webhook-id`: the same for each repetition of a message, and unique to it.
    pub id: &'m [u8],
    /// `webhook-timestamp`: time of sending, in seconds since the Unix epoch.
    pub timestamp: &'m [u8],
    /// `webhook-signature`: signatures separated by spaces, one of which must be valid.
    pub signature: &'m [u8],
    /// Body of the message.
    pub body: &'m [u8],
}

impl SignedMessage<'_> {
    /// Verifies that one of these secrets signed the message, and that its time is recent.
    ///
    /// The time must be within five minutes of `now`. Returns the index of the first such secret.
    /// The comparison takes constant time, so that it reveals nothing about a valid signature.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] if the time is out of range or no signature is valid.
    pub fn verify(&self, secrets: &[SigningSecret], now: Timestamp) -> Result<usize, Error> {
        self.check_time(now)?;
        let signatures = self.signature.split(|byte| *byte == b' ');
        let signatures = signatures.filter_map(|one| one.strip_prefix(SIGNATURE_PREFIX.as_bytes()));
        let signatures: Vec<_> = signatures
            .filter_map(|one| STANDARD.decode(one).ok())
            .collect();
        let has_signed = |secret: &SigningSecret| {
            let mac = secret.mac(self.id, self.timestamp, self.body);
            let mut signatures = signatures.iter();
            signatures.any(|one| mac.clone().verify_slice(one).is_ok())
        };
        let found = secrets.iter().position(has_signed);
        found.ok_or(Error::Unauthenticated {
            reason: "webhook-signature has no valid signature of this message",
        })
    }

    /// Checks that the message was sent within five minutes of `now`, before or after.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] if it was not.
    pub(crate) fn check_time(&self, now: Timestamp) -> Result<(), Error> {
        let text = std::str::from_utf8(self.timestamp).ok();
        let text = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let seconds = text.and_then(|text| text.parse::<i64>().ok());
        let sent = seconds.and_then(|seconds| seconds.checked_mul(1_000));
        let sent = sent.ok_or(Error::Unauthenticated {
            reason: "webhook-timestamp must be a time in seconds since the Unix epoch",
        })?;
        let distance = sent.abs_diff(now.as_millis());
        if u128::from(distance) <= SIGNED_MESSAGE_TOLERANCE.as_millis() {
            Ok(())
        } else {
            Err(Error::Unauthenticated {
                reason: "webhook-timestamp is more than 5 minutes from now",
            })
        }
    }
}
