//! Hashes for the names that Kueue generates.

use std::fmt::Write as _;

use ring::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};

/// Returns the SHA-1 hash in hexadecimal digits.
pub(super) fn sha1(message: &[u8]) -> String {
    hex(&SHA1_FOR_LEGACY_USE_ONLY, message)
}

/// Returns the SHA-256 hash in hexadecimal digits.
pub(super) fn sha256(message: &[u8]) -> String {
    hex(&SHA256, message)
}

fn hex(algorithm: &'static Algorithm, message: &[u8]) -> String {
    let mut text = String::new();
    for byte in digest(algorithm, message).as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
