//! Messages that people read in a Workload's status.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The most characters of a message.
pub const MESSAGE_LIMIT: usize = 1024;

/// A message for a status, an event or a log: at most 1,024 characters, on one line, without
/// credentials.
///
/// The API allows 32,768 bytes, but Kueue joins the messages of up to eight checks into one
/// condition, and notes of events end at 1,024 bytes.
///
/// ```
/// use kueue_check::{MESSAGE_LIMIT, Message};
///
/// assert_eq!(Message::new("GET https://me:hunter2@licences/free: refused\n").as_str(), "GET https://***@licences/free: refused");
/// assert_eq!(Message::new("x".repeat(5000)).as_str().chars().count(), MESSAGE_LIMIT);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Message(Arc<str>);

impl Message {
    /// Makes a message of `text`. Longer text is cut at a character and ends with `…`; control
    /// characters become spaces. Anything like a credential (a URL's user, a bearer token,
    /// `password=…` and its like) becomes `***`.
    pub fn new(text: impl AsRef<str>) -> Self {
        // Cutting first bounds the work. A credential that is cut must not remain, so redaction
        // runs on the longer text.
        let text = cut(text.as_ref(), MESSAGE_LIMIT * 4);
        let text: String = text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let redacted = redact(text.trim());
        Self(cut(&redacted, MESSAGE_LIMIT).as_ref().into())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text, cut at a character to at most `limit` bytes.
    pub(crate) fn cut_to_bytes(&self, limit: usize) -> Cow<'_, str> {
        if self.0.len() <= limit {
            return Cow::Borrowed(&self.0);
        }
        let end = self.0.floor_char_boundary(limit - '…'.len_utf8());
        Cow::Owned(format!("{}…", &self.0[..end]))
    }

    /// Returns the text, cut at a character to at most `limit` characters.
    pub(crate) fn cut_to(&self, limit: usize) -> Cow<'_, str> {
        cut(&self.0, limit)
    }
}

fn cut(text: &str, limit: usize) -> Cow<'_, str> {
    if text.char_indices().nth(limit).is_none() {
        return Cow::Borrowed(text);
    }
    let end = text
        .char_indices()
        .nth(limit - 1)
        .map_or(text.len(), |(at, _)| at);
    Cow::Owned(format!("{}…", &text[..end]))
}

impl<T: AsRef<str>> From<T> for Message {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

const HIDDEN: &str = "***";

/// Words that a credential follows, as `word=…`, `word: …` or `"word":"…"`. Compared without case,
/// and `-` equals `_`.
const SECRET_WORDS: [&str; 14] = [
    "password",
    "passwd",
    "secret",
    "token",
    "api_key",
    "apikey",
    "app_key",
    "application_key",
    "access_key",
    "secret_key",
    "authorization",
    "signature",
    "credential",
    "private_key",
];

/// The same, but only at the start of a word.
const SHORT_SECRET_WORDS: [&str; 3] = ["pwd", "pass", "sig"];

/// Returns `text` with everything like a credential replaced.
pub(crate) fn redact(text: &str) -> Cow<'_, str> {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    spans.extend(url_users(text));
    spans.extend(schemes(text));
    spans.extend(assignments(text));
    spans.extend(pem_blocks(text));
    spans.extend(web_tokens(text));
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    spans.sort_unstable();
    let mut shown = String::with_capacity(text.len());
    let mut done = 0;
    for (start, end) in spans {
        if end <= done {
            continue;
        }
        if start >= done {
            shown.push_str(&text[done..start]);
            shown.push_str(HIDDEN);
        }
        done = end;
    }
    shown.push_str(&text[done..]);
    Cow::Owned(shown)
}

/// Returns the places of `user:password` in `scheme://user:password@host`.
fn url_users(text: &str) -> impl Iterator<Item = (usize, usize)> + '_ {
    text.match_indices("://").filter_map(|(at, separator)| {
        let start = at + separator.len();
        let authority = &text[start..];
        let end = authority
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\''))
            .unwrap_or(authority.len());
        authority[..end].rfind('@').map(|at| (start, start + at))
    })
}

/// Returns the places of the text after `Bearer ` or `Basic `.
fn schemes(text: &str) -> impl Iterator<Item = (usize, usize)> + '_ {
    let lower = text.to_ascii_lowercase();
    ["bearer ", "basic "]
        .into_iter()
        .flat_map(move |scheme| {
            lower
                .match_indices(scheme)
                .map(|(at, scheme)| at + scheme.len())
                .collect::<Vec<_>>()
        })
        .map(|start| (start, value_end(text, start)))
        .filter(|(start, end)| end - start >= 8)
}

/// Returns the places of the values of [`SECRET_WORDS`].
fn assignments(text: &str) -> Vec<(usize, usize)> {
    let plain = text.to_ascii_lowercase().replace('-', "_");
    let mut spans = Vec::new();
    let begins = |at: usize| {
        let before = plain[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && c != '_')
    };
    let short = SHORT_SECRET_WORDS.map(|word| (word, true));
    let words = SECRET_WORDS.map(|word| (word, false)).into_iter();
    for (word, alone) in words.chain(short) {
        let found = plain.match_indices(word);
        for (at, _) in found.filter(|(at, _)| !alone || begins(*at)) {
            let after = &text[at + word.len()..];
            let separated = after.trim_start_matches(['"', '\'']).trim_start();
            let Some(value) = separated.strip_prefix(['=', ':']) else {
                continue;
            };
            let value = value.trim_start().trim_start_matches(['"', '\'']);
            let start = text.len() - value.len();
            let end = value_end(text, start);
            if end > start {
                spans.push((start, end));
            }
        }
    }
    spans
}

/// Returns the places of keys and certificates, which may have been cut at the end.
fn pem_blocks(text: &str) -> impl Iterator<Item = (usize, usize)> + '_ {
    text.match_indices("-----BEGIN ").map(|(start, _)| {
        let end = text[start..].find("-----END ").map(|end| start + end);
        (start, end.unwrap_or(text.len()))
    })
}

/// Returns the places of JSON Web Tokens: the header, which is an object in base64, and what
/// follows after a dot.
fn web_tokens(text: &str) -> impl Iterator<Item = (usize, usize)> + '_ {
    text.match_indices("eyJ").filter_map(|(start, _)| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let token = &text[start..];
        let token = &token[..token.find(|c| !is_part(c)).unwrap_or(token.len())];
        let (header, payload) = token.split_once('.')?;
        (header.len() >= 8 && payload.starts_with("eyJ")).then_some((start, start + token.len()))
    })
}

fn value_end(text: &str, start: usize) -> usize {
    let rest = &text[start..];
    start
        + rest
            .find(|c: char| {
                c.is_whitespace() || matches!(c, '"' | '\'' | '&' | ',' | ';' | '}' | ')')
            })
            .unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        for text in [
            "x".repeat(100_000),
            "日本語".repeat(50_000),
            format!("{}é", "x".repeat(1024)),
        ] {
            let message = Message::new(&text);
            assert_eq!(message.as_str().chars().count(), MESSAGE_LIMIT);
            assert!(message.as_str().ends_with('…'));
        }
        let exact = "é".repeat(1024);
        assert_eq!(Message::new(&exact).as_str(), exact);
    }

    #[test]
    fn a_message_is_one_line() {
        assert_eq!(
            Message::new(" two\nlines\tand\u{0} more \r\n").as_str(),
            "two lines and  more"
        );
    }

    #[test]
    fn credentials_are_hidden() {
        for (text, expected) in [
            (
                "GET http://user:pa55@prom:9090/api: refused",
                "GET http://***@prom:9090/api: refused",
            ),
            ("https://token@host?x=1", "https://***@host?x=1"),
            (
                "Authorization: Bearer eyJhbGciOi.J9.x",
                "Authorization: *** ***",
            ),
            ("sent bearer abcdefgh12345 to it", "sent bearer *** to it"),
            (
                "/v1/query?api_key=0123456789&q=up",
                "/v1/query?api_key=***&q=up",
            ),
            ("DD-API-KEY: 0123456789abcdef", "DD-API-KEY: ***"),
            (
                r#"{"access_token":"abc","x":1}"#,
                r#"{"access_token":"***","x":1}"#,
            ),
            ("password = hunter2; user=me", "password = ***; user=me"),
            ("the client-secret: s3cr3t", "the client-secret: ***"),
            (
                "namespace team-a has spent 12.50 of 10.00",
                "namespace team-a has spent 12.50 of 10.00",
            ),
            ("postgres: user=me pwd=hunter2", "postgres: user=me pwd=***"),
            ("?sv=2024&sig=a%2Bb&se=1", "?sv=2024&sig=***&se=1"),
            ("{\"pass\":\"hunter2\"}", "{\"pass\":\"***\"}"),
            (
                "the compass: north, by design: yes",
                "the compass: north, by design: yes",
            ),
            (
                "refused eyJhbGciOi.eyJzdWIi.c2ln for it",
                "refused *** for it",
            ),
            (
                "key -----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY----- is bad",
                "key ***-----END PRIVATE KEY----- is bad",
            ),
            ("key -----BEGIN PRIVATE KEY----- MIIE", "key ***"),
            ("the token expired", "the token expired"),
            ("basic auth failed", "basic auth failed"),
            ("mail someone@example.com", "mail someone@example.com"),
        ] {
            assert_eq!(Message::new(text).as_str(), expected, "{text}");
        }
    }

    #[test]
    fn a_credential_across_the_cut_is_hidden_too() {
        let text = format!("{} password={}", "x".repeat(1010), "s".repeat(100));
        assert!(
            !Message::new(&text).as_str().contains("sss"),
            "{}",
            Message::new(&text)
        );
    }
}
