//! Signatures of requests.

use ring::hmac;

/// The header of a signature.
pub const SIGNATURE: &str = "kueue-check-signature";
/// The minimum length of a key, in bytes.
const SHORTEST_KEY: usize = 16;
/// The maximum difference between a signature's time and the clock, in seconds.
const LONGEST_AGE: u64 = 300;

/// Returns the value of the header for `body`, signed at `seconds` since 1970: `t=SECONDS,v1=HEX`,
/// where `HEX` is the HMAC-SHA256 of `SECONDS.BODY`.
///
/// # Errors
/// If the key is too short.
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

/// Returns an error unless `header` signs `body` with `key`, at a time at most 5 min away from
/// `now`, in seconds since 1970.
///
/// # Errors
/// The reason why the signature is invalid.
pub fn verify(key: &str, header: &str, body: &[u8], now: i64) -> Result<(), String> {
    if header.is_empty() {
        return Err("the request is not signed".to_owned());
    }
    let parts = header
        .strip_prefix("t=")
        .and_then(|rest| rest.split_once(",v1="));
    let parts = parts.and_then(|(seconds, hex)| Some((seconds.parse::<i64>().ok()?, bytes(hex)?)));
    let Some((seconds, tag)) = parts else {
        return Err("the signature is not `t=SECONDS,v1=HEX`".to_owned());
    };
    let signed = [format!("{seconds}.").as_bytes(), body].concat();
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    if hmac::verify(&key, &signed, &tag).is_err() {
        return Err("the signature is wrong: it is of another key or another body".to_owned());
    }
    let age = now.abs_diff(seconds);
    if age > LONGEST_AGE {
        return Err(format!("the signature is {age} s away from now"));
    }
    Ok(())
}

/// Decodes the bytes that are written as `hex`.
fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = hex.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    let pairs = digits.chunks(2);
    let bytes = pairs.map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok());
    bytes.collect()
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

    #[test]
    fn a_signature_is_verified() {
        let (key, body) = ("0123456789abcdef", "{\"a\":1}");
        let header = sign(key, 1000, body).unwrap();
        let problem = |key, header: &str, body: &str, now| {
            verify(key, header, body.as_bytes(), now)
                .err()
                .unwrap_or_default()
        };
        for (key, header, body, now, expected) in [
            (key, &*header, body, 1300, ""),
            (key, &header, body, 700, ""),
            (key, &header, body, 1301, "301 s away"),
            (key, &header, body, 699, "301 s away"),
            ("0123456789abcdeg", &header, body, 1000, "another key"),
            (key, &header, "{}", 1000, "another body"),
            (key, "", body, 1000, "not signed"),
            (key, "t=1000", body, 1000, "is not `t=SECONDS"),
            (key, "t=x,v1=00", body, 1000, "is not `t=SECONDS"),
            (key, "t=1000,v1=0", body, 1000, "is not `t=SECONDS"),
            (key, "t=1000,v1=é0", body, 1000, "is not `t=SECONDS"),
            (key, "t=1000,v1=", body, 1000, "another key"),
        ] {
            let problem = problem(key, header, body, now);
            assert!(problem.contains(expected), "{header}: {problem}");
            assert_eq!(
                problem.is_empty(),
                expected.is_empty(),
                "{header}: {problem}"
            );
        }
    }
}
