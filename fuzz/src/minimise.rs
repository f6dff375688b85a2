//! A smaller input that fails in the same place.

use serde_json::Value;

/// The maximum number of inputs that are tried.
const ATTEMPTS: usize = 4_000;

/// Returns the smallest input found that fails as `input` does. `fails` returns true if one does.
pub fn minimise(input: &[u8], mut fails: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut attempts = ATTEMPTS;
    let mut best = input.to_vec();
    let mut attempt = |candidate: &[u8], best: &mut Vec<u8>| {
        if attempts == 0 || candidate == &**best {
            return false;
        }
        attempts -= 1;
        let smaller = fails(candidate);
        if smaller {
            *best = candidate.to_vec();
        }
        smaller
    };
    loop {
        let before = best.clone();
        without_parts(&mut best, &mut attempt);
        without_members(&mut best, &mut attempt);
        without_chunks(&mut best, &mut attempt);
        simpler_bytes(&mut best, &mut attempt);
        if best == before {
            return best;
        }
    }
}

type Attempt<'a> = dyn FnMut(&[u8], &mut Vec<u8>) -> bool + 'a;

/// Removes whole parts of an input that has several.
fn without_parts(best: &mut Vec<u8>, attempt: &mut Attempt<'_>) {
    let mut at = 0;
    loop {
        let text = String::from_utf8_lossy(best).into_owned();
        let mut parts: Vec<&str> = text.split(crate::mutate::BETWEEN_PARTS).collect();
        if parts.len() < 2 || at >= parts.len() {
            return;
        }
        parts.remove(at);
        let candidate = parts.join(crate::mutate::BETWEEN_PARTS);
        if !attempt(candidate.as_bytes(), best) {
            at += 1;
        }
    }
}

/// Removes members of objects and elements of lists.
fn without_members(best: &mut Vec<u8>, attempt: &mut Attempt<'_>) {
    let mut at = 0;
    while let Ok(mut tree) = serde_json::from_slice::<Value>(best) {
        let mut left = at;
        if !remove(&mut tree, &mut left) {
            return;
        }
        if !attempt(tree.to_string().as_bytes(), best) {
            at += 1;
        }
    }
}

/// Removes the member or element with this number, in the order of the text.
fn remove(tree: &mut Value, left: &mut usize) -> bool {
    match tree {
        Value::Object(members) => {
            let keys: Vec<String> = members.keys().cloned().collect();
            for key in keys {
                if *left == 0 {
                    members.remove(&key);
                    return true;
                }
                *left -= 1;
                if members
                    .get_mut(&key)
                    .is_some_and(|value| remove(value, left))
                {
                    return true;
                }
            }
            false
        }
        Value::Array(elements) => {
            for index in 0..elements.len() {
                if *left == 0 {
                    elements.remove(index);
                    return true;
                }
                *left -= 1;
                if remove(&mut elements[index], left) {
                    return true;
                }
            }
            false
        }
        _ => false,
    }
}

/// Removes chunks, large ones first.
fn without_chunks(best: &mut Vec<u8>, attempt: &mut Attempt<'_>) {
    let mut size = best.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < best.len() {
            let end = (at + size).min(best.len());
            let candidate = [&best[..at], &best[end..]].concat();
            if !attempt(&candidate, best) {
                at += size;
            }
        }
        size /= 2;
    }
}

/// Replaces bytes by plain ones.
fn simpler_bytes(best: &mut Vec<u8>, attempt: &mut Attempt<'_>) {
    for at in 0..best.len() {
        for plain in [b'0', b'a', b' '] {
            let Some(byte) = best.get(at).copied() else {
                return;
            };
            if byte == plain || byte.is_ascii_alphanumeric() && plain != b'0' {
                break;
            }
            let mut candidate = best.clone();
            candidate[at] = plain;
            if attempt(&candidate, best) {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_what_fails() {
        let input = br#"{"a": [1, 2, {"deep": "x"}], "bad": 7, "c": "text"}"#;
        let fails = |input: &[u8]| {
            serde_json::from_slice::<Value>(input).is_ok_and(|tree| !tree["bad"].is_null())
        };
        let smallest = minimise(input, fails);
        assert_eq!(String::from_utf8_lossy(&smallest), r#"{"bad":0}"#);
    }

    #[test]
    fn parts_and_bytes_that_do_not_matter_are_left_out() {
        let input = b"one\n###\ntwo with !\n###\nthree";
        let smallest = minimise(input, |input| input.contains(&b'!'));
        assert_eq!(smallest, b"!");
    }
}
