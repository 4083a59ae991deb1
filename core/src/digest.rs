//! SHA-256 as text: the fingerprints, the parts of keys and the entity tags.

use sha2::{Digest, Sha256};

/// How many hexadecimal digits of a digest make an entity tag.
const ETAG_DIGITS: usize = 32;

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The SHA-256 of some bytes.
pub(crate) fn sha256_bytes(bytes: impl AsRef<[u8]>) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// The SHA-256 of some bytes, in hexadecimal digits.
pub(crate) fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex(sha256_bytes(bytes))
}

/// The entity tag (RFC 9110, 8.8.3) of what has this digest: quoted, without the mark of a weak one.
pub(crate) fn etag(mut digest: String) -> String {
    digest.truncate(ETAG_DIGITS);
    format!("\"{digest}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        // FIPS 180-4, of the empty message.
        let expected = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(""), expected);
        assert_eq!(etag(sha256("")), "\"e3b0c44298fc1c149afbf4c8996fb924\"");
    }
}
