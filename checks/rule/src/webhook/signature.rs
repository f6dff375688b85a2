//! Signatures of requests.

use ring::hmac;

/// The header of a signature.
pub const SIGNATURE: &str = "kueue-check-signature";
/// How short a key may be.
const SHORTEST_KEY: usize = 16;

/// The value of the header for `body`, signed at `seconds` since 1970: `t=SECONDS,v1=HEX`, where
/// `HEX` is the HMAC-SHA256 of `SECONDS.BODY`.
///
/// # Errors
/// The key is too short.
pub fn sign(key: &str, seconds: i64, body: &str) -> Result<String, String> {
    if key.len() < SHORTEST_KEY {
        return Err(format!(
            "the signing key has {} characters, at least {SHORTEST_KEY} are needed",
            key.len()
        ));
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    let mut context = hmac::Context::with_key(&key);
    context.update(format!("{seconds}.").as_bytes());
    context.update(body.as_bytes());
    let tag = context.sign();
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or_default();
    let digits = tag.as_ref().iter();
    let hex: String = digits
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect();
    Ok(format!("t={seconds},v1={hex}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value is what `printf %s '1795251600.{"a":1}' | openssl dgst -sha256 -hmac …` prints.
    #[test]
    fn a_signature_is_over_the_time_and_the_body() {
        let key = "0123456789abcdef";
        assert_eq!(
            sign(key, 1_795_251_600, r#"{"a":1}"#).unwrap(),
            "t=1795251600,v1=fa3e4638be2b32ef4a14b23ac4dbc6e2cb0643832da0f8b87b2a174b61745896"
        );
        assert_ne!(sign(key, 1, "a"), sign(key, 1, "b"));
        assert_ne!(sign(key, 1, "a"), sign(key, 11, "a"));
        assert!(
            sign("short", 1, "")
                .unwrap_err()
                .contains("has 5 characters")
        );
    }
}
