//! SHA-256 digests as text, for fingerprints, parts of keys and entity tags.

use sha2::{Digest, Sha256};

/// Number of hexadecimal digits of a digest in an entity tag.
const ETAG_DIGITS: usize = 32;

/// Encodes bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: impl AsRef<[u8]>) -> String {
    base16ct::lower::encode_string(bytes.as_ref())
}

/// Returns the SHA-256 digest of some bytes.
pub(crate) fn sha256_bytes(bytes: impl AsRef<[u8]>) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Returns the SHA-256 digest of some bytes as hexadecimal digits.
pub(crate) fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex(sha256_bytes(bytes))
}

/// Returns the strong entity tag (RFC 9110, 8.8.3) for a digest.
pub(crate) fn etag(mut digest: String) -> String {
    digest.truncate(ETAG_DIGITS);
    format!("\"{digest}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha256_matches_standard() {
        // FIPS 180-4, the empty message.
        let expected = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(""), expected);
        assert_eq!(etag(sha256("")), "\"e3b0c44298fc1c149afbf4c8996fb924\"");
    }
}
