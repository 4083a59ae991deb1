//! Signatures as Standard Webhooks 1.0.0 has them, of what is sent and of what comes in.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use uuid::Uuid;

use super::KnowledgeService;
use super::sealing::{SIGNING_SECRET_PREFIX, Sealed};
use crate::error::Error;

/// What a signature of the symmetric kind begins with.
const SIGNATURE_PREFIX: &str = "v1,";

/// The bytes that messages are signed with.
pub(super) struct SigningSecret(Vec<u8>);

impl SigningSecret {
    fn mac(&self, id: &[u8], timestamp: &[u8], body: &[u8]) -> Hmac<Sha256> {
        let mut mac =
            <Hmac<Sha256> as KeyInit>::new_from_slice(&self.0).expect("a key of any length does");
        for part in [id, b".", timestamp, b".", body] {
            mac.update(part);
        }
        mac
    }

    /// The signature of a message.
    pub(super) fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> String {
        let mac = self.mac(id.as_bytes(), timestamp.as_bytes(), body);
        let code = STANDARD.encode(mac.finalize().into_bytes());
        format!("{SIGNATURE_PREFIX}{code}")
    }

    /// Whether one of the signatures, which are divided by spaces, was made with this secret. How much of a wrong one is
    /// right does not show in the time that this takes.
    pub(super) fn has_signed(
        &self,
        id: &[u8],
        timestamp: &[u8],
        body: &[u8],
        signatures: &[u8],
    ) -> bool {
        let mac = self.mac(id, timestamp, body);
        let signatures = signatures.split(|byte| *byte == b' ');
        let signatures = signatures.filter_map(|one| one.strip_prefix(SIGNATURE_PREFIX.as_bytes()));
        let mut signatures = signatures.filter_map(|one| STANDARD.decode(one).ok());
        signatures.any(|one| mac.clone().verify_slice(&one).is_ok())
    }
}

impl KnowledgeService {
    /// What is signed with, from the secret of this owner as it is stored.
    pub(super) fn signing_secret(
        &self,
        sealed: &Sealed,
        owner: Uuid,
    ) -> Result<SigningSecret, Error> {
        let secret = self.inner.sealer.open(sealed, owner)?;
        let bytes = secret.strip_prefix(SIGNING_SECRET_PREFIX);
        let bytes = bytes.and_then(|bytes| STANDARD.decode(bytes).ok());
        let bytes =
            bytes.ok_or_else(|| Error::internal(format!("the secret of {owner} is no secret")))?;
        Ok(SigningSecret(bytes))
    }
}
