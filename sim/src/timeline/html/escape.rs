//! Escaping of text in markup.

use std::fmt::{self, Display, Write};

/// A value that is displayed with all special characters of HTML escaped. The output is valid in
/// text and in quoted attributes.
pub(in crate::timeline) struct Escaped<T>(pub(in crate::timeline) T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '&' => self.0.write_str("&amp;")?,
                '<' => self.0.write_str("&lt;")?,
                '>' => self.0.write_str("&gt;")?,
                '"' => self.0.write_str("&quot;")?,
                '\'' => self.0.write_str("&#39;")?,
                '\n' | '\t' => self.0.write_char(c)?,
                // Neither HTML nor XML may contain control characters, not even as references. The
                // last two ranges change the direction of the text around them.
                c if c.is_control()
                    || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
                {
                    self.0.write_char('\u{fffd}')?;
                }
                c => self.0.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        let table = [
            ("<script>", "&lt;script&gt;"),
            ("a & b", "a &amp; b"),
            ("\" onload='x'", "&quot; onload=&#39;x&#39;"),
            ("\u{0}\u{1b}\u{202e}", "\u{fffd}\u{fffd}\u{fffd}"),
            ("é 漢 🚀", "é 漢 🚀"),
        ];
        for (text, expected) in table {
            assert_eq!(Escaped(text).to_string(), expected);
        }
    }
}
