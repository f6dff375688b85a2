//! Mutation of inputs.
//!
//! Most mutations keep the structure that a reader parses first, so that they reach the code behind
//! it. A JSON tree stays a tree, and an input of several parts keeps the other parts.

mod bytes;
mod json;

use fastrand::Rng;

use crate::target::{Form, Target};

/// The separator of an input's parts, for targets that take several.
pub const BETWEEN_PARTS: &str = "\n###\n";
/// The maximum length of a mutated input, in bytes. Readers have larger limits of their own, which
/// the targets test with inputs that they make themselves.
const LONGEST: usize = 16 * 1024;

/// The source of mutations.
#[derive(Clone, Copy, Debug)]
pub struct Material<'m> {
    /// The inputs so far, at least one.
    pub pool: &'m [Vec<u8>],
    /// Words that readers recognize.
    pub dictionary: &'m [&'m str],
}

/// Returns an input for `target`.
pub fn next(random: &mut Rng, target: &Target, pool: &[Vec<u8>]) -> Vec<u8> {
    let material = Material {
        pool,
        dictionary: &target.words(),
    };
    let mut input = material.any(random).to_vec();
    // An input with few mutations stays nearly valid, one with many does not.
    let rounds = 1 << random.u32(0..4);
    for _ in 0..rounds {
        input = once(random, target.form, input, material);
        input.truncate(LONGEST);
    }
    input
}

fn once(random: &mut Rng, form: Form, input: Vec<u8>, material: Material<'_>) -> Vec<u8> {
    match form {
        Form::Json if random.u8(0..10) < 7 => json::mutate(random, &input, material)
            .unwrap_or_else(|| bytes::mutate(random, input, material)),
        Form::Bytes | Form::Json => bytes::mutate(random, input, material),
        Form::Parts => parts(random, &input, material),
    }
}

impl Material<'_> {
    fn any(&self, random: &mut Rng) -> &[u8] {
        random.choice(self.pool).map_or(&[], Vec::as_slice)
    }

    fn word(&self, random: &mut Rng) -> &str {
        random.choice(self.dictionary).copied().unwrap_or_default()
    }
}

/// Mutates one part, or takes parts of another input.
fn parts(random: &mut Rng, input: &[u8], material: Material<'_>) -> Vec<u8> {
    let mut own = split(input);
    let other = split(material.any(random));
    let at = random.usize(0..own.len());
    match random.u8(0..10) {
        0 if own.len() > 1 => {
            own.remove(at);
        }
        1 => own.insert(at, own[random.usize(0..own.len())].clone()),
        2 => own.insert(at, other[random.usize(0..other.len())].clone()),
        3 => {
            let with = random.usize(0..own.len());
            own.swap(at, with);
        }
        _ => {
            // The head of a part, such as the line of a request, ends with an empty line.
            let part = std::mem::take(&mut own[at]);
            let body = find(&part, b"\n\n").map(|end| end + 2);
            own[at] = match body {
                Some(body) if random.u8(0..10) < 7 => {
                    let mutated = json::mutate(random, &part[body..], material)
                        .unwrap_or_else(|| bytes::mutate(random, part[body..].to_vec(), material));
                    [&part[..body], &mutated].concat()
                }
                Some(body) => {
                    let mutated = bytes::mutate(random, part[..body].to_vec(), material);
                    [&mutated, &part[body..]].concat()
                }
                None => json::mutate(random, &part, material)
                    .filter(|_| random.u8(0..10) < 7)
                    .unwrap_or_else(|| bytes::mutate(random, part, material)),
            };
        }
    }
    own.join(BETWEEN_PARTS.as_bytes())
}

/// Returns the parts of an input.
pub fn split(input: &[u8]) -> Vec<Vec<u8>> {
    let between = BETWEEN_PARTS.as_bytes();
    let mut parts = Vec::new();
    let mut rest = input;
    while let Some(at) = find(rest, between) {
        parts.push(rest[..at].to_vec());
        rest = &rest[at + between.len()..];
    }
    parts.push(rest.to_vec());
    parts
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::TARGETS;

    #[test]
    fn the_same_seed_gives_the_same_inputs_and_another_gives_others() {
        for target in TARGETS {
            let pool = vec![b"{\"a\": [1, \"two\"]}\n###\n{}".to_vec()];
            let inputs = |seed| {
                let mut random = Rng::with_seed(seed);
                (0..100)
                    .map(|_| next(&mut random, target, &pool))
                    .collect::<Vec<_>>()
            };
            assert_eq!(inputs(7), inputs(7), "{}", target.name);
            assert_ne!(inputs(7), inputs(8), "{}", target.name);
            assert!(inputs(7).iter().all(|input| input.len() <= LONGEST));
        }
    }

    #[test]
    fn json_mostly_stays_json() {
        let target = TARGETS.iter().find(|target| target.form == Form::Json);
        let pool = vec![br#"{"metadata": {"name": "a"}, "list": [1, 2]}"#.to_vec()];
        let mut random = Rng::with_seed(1);
        let valid = (0..1000)
            .map(|_| next(&mut random, target.unwrap(), &pool))
            .filter(|input| serde_json::from_slice::<serde_json::Value>(input).is_ok())
            .count();
        assert!((200..950).contains(&valid), "{valid}");
    }

    #[test]
    fn parts_are_what_stands_between_the_marks() {
        assert_eq!(split(b"a\n###\n\n###\nb"), [&b"a"[..], b"", b"b"]);
        assert_eq!(split(b""), [b""]);
    }
}
