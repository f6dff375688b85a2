//! Mutations of bytes.

use fastrand::Rng;

use super::Material;

/// Bytes that change the state of parsers.
const SPECIAL: &[u8] = b"\0\t\n\r \"'\\/{}[]():,;.+-=%&#@*$?!|<>^~`09azAZ_\x7f\x80\xc3\xff";
/// Texts that do, too.
const TEXTS: &[&str] = &[
    "0",
    "-0",
    "1e308",
    "1e-308",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "170141183460469231731687303715884105728",
    "NaN",
    "Infinity",
    "null",
    "\u{0}",
    "\u{feff}",
    "\u{202e}",
    "é",
    "日本語",
    "🦀",
    "\u{10ffff}",
    "\\u0000",
    "\\ud800",
    "../",
    "%00",
    "%zz",
    "\r\n\r\n",
];

/// Returns `input` with one change.
pub(super) fn mutate(random: &mut Rng, mut input: Vec<u8>, material: Material<'_>) -> Vec<u8> {
    let at = random.usize(0..=input.len());
    match random.u8(0..12) {
        0 | 1 => {
            let end = input.len().min(at + 1 + random.usize(0..16));
            input.drain(at..end);
        }
        2 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.u8(0..8);
            }
        }
        3 | 4 => {
            let byte = random.choice(SPECIAL).copied().unwrap_or_default();
            match input.get_mut(at) {
                Some(place) if random.bool() => *place = byte,
                _ => input.insert(at, byte),
            }
        }
        5 => input.insert(at, random.u8(..)),
        6 | 7 => insert(&mut input, at, material.word(random).as_bytes()),
        8 => {
            let text = random.choice(TEXTS).copied().unwrap_or_default();
            insert(&mut input, at, text.as_bytes());
        }
        9 => {
            // A piece is repeated up to 64 times.
            let end = input.len().min(at + 1 + random.usize(0..32));
            let piece = input[at..end].repeat(1 << random.u32(0..7));
            insert(&mut input, at, &piece);
        }
        10 => {
            let other = material.any(random);
            let from = random.usize(0..=other.len());
            let to = random.usize(from..=other.len());
            let piece = other[from..to].to_vec();
            insert(&mut input, at, &piece);
        }
        _ => {
            // The beginning of one and the end of another.
            let other = material.any(random);
            let from = random.usize(0..=other.len());
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
    }
    input
}

fn insert(input: &mut Vec<u8>, at: usize, piece: &[u8]) {
    input.splice(at..at, piece.iter().copied());
}
