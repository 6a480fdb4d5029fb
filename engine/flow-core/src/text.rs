//! Makes invisible characters visible. Knows no terminal, Markdown or SVG; each of these has one place that builds on
//! it.

use std::borrow::Cow;

/// Whether a character is invisible, but moves, hides or turns the text around it: a control character, a direction
/// mark, a line separator, a zero-width blank, or a non-character. Joiners of letters within a word do not count.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
        || matches!(u32::from(c) & 0xffff, 0xfffe | 0xffff)
        || ('\u{fdd0}'..='\u{fdef}').contains(&c)
}

/// The text with hidden characters escaped as in Rust: `\u{9b}`, `\n`.
pub fn visible(text: &str) -> Cow<'_, str> {
    visible_but(text, &[])
}

/// The same, with some characters unchanged.
pub fn visible_but<'a>(text: &'a str, except: &[char]) -> Cow<'a, str> {
    let shown = |c: char| is_hidden(c) && !except.contains(&c);
    if !text.contains(shown) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match shown(c) {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_seen_and_the_rest_is_as_it_was() {
        for text in ["", "mobilenet_v2 批大小 é 👩‍🔬 می‌خواهم", "a\\b 'c' \"d\""] {
            assert_eq!(visible(text), text);
        }
        assert_eq!(visible("\x1b[31m\u{9b}\0\r\n\t\u{7f}"), r"\u{1b}[31m\u{9b}\u{0}\r\n\t\u{7f}");
        assert_eq!(visible("\u{202e}a\u{2066}\u{2028}\u{feff}\u{ffff}"), r"\u{202e}a\u{2066}\u{2028}\u{feff}\u{ffff}");
        assert_eq!(visible_but("a\nb\x07", &['\n']), "a\nb\\u{7}");
    }
}
