//! Messages: foreign text that people read in a status.

use kueue_check::{MESSAGE_LIMIT, Message};
use kueue_check_sources::brief;

use super::{Form, KEPT, Outcome, Target, assert_line, magnitude, outcome};
use crate::target::DictionaryWords::{Of, One};

pub(super) const MESSAGE: Target = Target {
    name: "message",
    about: "messages: one line, bounded, and without the credential that is put into each",
    form: Form::Bytes,
    dictionary: &[
        One("password="),
        One("token: "),
        One("\"secret\":\""),
        One("Bearer "),
        One("basic "),
        Of("https:// :// @ pwd="),
        One("-----BEGIN "),
        One("-----END "),
        Of("eyJ .eyJ api-key API_KEY = : & \u{202e} \u{1b}[31m x-signature"),
        One("Authorization: "),
        Of("İ ß"),
    ],
    memory: KEPT,
    run: message,
};

/// The credential that no message may contain.
const SECRET: &str = "hunter2hunter2";

fn message(input: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(input);
    let message = Message::new(&text);
    assert_line(message.as_str(), MESSAGE_LIMIT);
    let again = Message::new(message.as_str());
    assert_line(again.as_str(), MESSAGE_LIMIT);
    assert_line(&brief(&text), 256);
    // A credential in a known form is hidden, whatever text is around it.
    let middle = text.char_indices().nth(text.chars().count() / 2);
    let (before, after) = text.split_at(middle.map_or(0, |(at, _)| at));
    let mut shown = 0;
    for (form, closes) in [
        ("password=", " "),
        ("\"token\": \"", "\""),
        ("https://me:", "@host "),
        ("Bearer ", " "),
        ("dd-api-key: ", "\n"),
    ] {
        let hidden = Message::new(format!("{before} {form}{SECRET}{closes}{after}"));
        let own = text.contains(SECRET) || cut_in_a_url(before);
        assert!(own || !hidden.as_str().contains(SECRET), "{form}: {hidden}");
        shown += hidden.as_str().matches("***").count();
    }
    outcome((
        magnitude(message.as_str().len()),
        message.as_str().matches("***").count(),
        magnitude(shown),
        message.as_str() == text,
    ))
}

/// Returns true if the text before ends inside another form, in which `https://` has no meaning.
fn cut_in_a_url(before: &str) -> bool {
    before.ends_with("://")
}
