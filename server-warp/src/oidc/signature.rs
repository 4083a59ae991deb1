//! Signatures of ID tokens, verified by ring, which the TLS of this server uses too.
//!
//! Of the implementations that `jsonwebtoken` offers, one has an advisory (RUSTSEC-2023-0071, in
//! `rsa`), and the other would be a second library for cryptography.

use std::sync::LazyLock;

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};

/// Algorithms with which ID tokens may be signed, all of them asymmetric.
///
/// With a symmetric one, everybody who has the public key could sign.
pub(super) const ALGORITHMS: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// Verifier for all of these algorithms, without signing and without unused key formats.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: |algorithm, key| {
        let is_usable = ALGORITHMS.contains(algorithm) && key.family() == algorithm.family();
        if is_usable {
            Ok(Box::new(RingVerifier {
                algorithm: *algorithm,
                key: key.clone(),
            }))
        } else {
            Err(ErrorKind::InvalidAlgorithm.into())
        }
    },
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes [`PROVIDER`] the one of this process, unless an application has installed its own.
static INSTALLED: LazyLock<()> = LazyLock::new(|| {
    let _ = PROVIDER.install_default();
});

pub(super) fn install() {
    LazyLock::force(&INSTALLED);
}

struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

enum Scheme {
    Rsa(&'static RsaParameters),
    Other(&'static dyn VerificationAlgorithm),
}

impl RingVerifier {
    fn scheme(&self) -> Option<Scheme> {
        Some(match self.algorithm {
            Algorithm::RS256 => Scheme::Rsa(&RSA_PKCS1_2048_8192_SHA256),
            Algorithm::RS384 => Scheme::Rsa(&RSA_PKCS1_2048_8192_SHA384),
            Algorithm::RS512 => Scheme::Rsa(&RSA_PKCS1_2048_8192_SHA512),
            Algorithm::PS256 => Scheme::Rsa(&RSA_PSS_2048_8192_SHA256),
            Algorithm::PS384 => Scheme::Rsa(&RSA_PSS_2048_8192_SHA384),
            Algorithm::PS512 => Scheme::Rsa(&RSA_PSS_2048_8192_SHA512),
            Algorithm::ES256 => Scheme::Other(&ECDSA_P256_SHA256_FIXED),
            Algorithm::ES384 => Scheme::Other(&ECDSA_P384_SHA384_FIXED),
            Algorithm::EdDSA => Scheme::Other(&ED25519),
            _ => return None,
        })
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), Error> {
        let verified = match (self.scheme(), self.key.kind()) {
            (Some(Scheme::Rsa(parameters)), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(parameters, message, signature)
            }
            (Some(Scheme::Other(algorithm)), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(algorithm, key).verify(message, signature)
            }
            _ => return Err(Error::new()),
        };
        verified.map_err(|_| Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
