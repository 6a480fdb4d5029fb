//! A program's terminal output as text. Prints nothing, and knows no line.

use std::borrow::Cow;

use crate::text::is_hidden;

/// Filters a program's output piece by piece: keeps text, blanks, line ends and, if wanted, colours. Removes everything
/// that would move the cursor, name the window, make links or change the terminal.
#[derive(Debug, Default)]
pub struct Program {
    state: EscapeState,
    /// The first bytes of an incomplete character.
    begun: Vec<u8>,
    colours: bool,
    coloured: bool,
}

#[derive(Debug, Default)]
enum EscapeState {
    #[default]
    Text,
    /// After an escape character.
    Escape,
    /// A control sequence, with its parameters as long as it can be a colour.
    Control(Option<String>),
    /// A string for the terminal: a title, a link.
    Words,
}

impl Program {
    pub fn with_colours() -> Self {
        Program { colours: true, ..Program::default() }
    }

    /// The visible part of the next bytes.
    pub fn text(&mut self, bytes: &[u8]) -> String {
        let mut out = String::with_capacity(bytes.len());
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let mut chunks = all.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            chunk.valid().chars().for_each(|c| self.take(c, &mut out));
            let bad = chunk.invalid();
            let is_begun = std::str::from_utf8(bad).is_err_and(|error| error.error_len().is_none());
            match chunks.peek() {
                None if is_begun => self.begun = bad.to_vec(),
                _ if !bad.is_empty() => self.take(char::REPLACEMENT_CHARACTER, &mut out),
                _ => {}
            }
        }
        out
    }

    /// Resets colours that the program left on.
    pub fn end(&mut self) -> String {
        match std::mem::take(&mut self.coloured) {
            true => "\x1b[0m".to_owned(),
            false => String::new(),
        }
    }

    fn take(&mut self, c: char, out: &mut String) {
        // A line end also ends an escape sequence; otherwise it could swallow the rest of the log.
        if c == '\n' {
            self.state = EscapeState::Text;
        }
        let state = std::mem::take(&mut self.state);
        self.state = match (state, c) {
            (_, '\x1b') => EscapeState::Escape,
            (_, '\u{9b}') | (EscapeState::Escape, '[') => EscapeState::Control(Some(String::new())),
            (_, '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}') | (EscapeState::Escape, ']' | 'P' | 'X' | '^' | '_') => {
                EscapeState::Words
            }
            (EscapeState::Escape, ' '..='/') => EscapeState::Escape,
            (EscapeState::Escape, _) => EscapeState::Text,
            (EscapeState::Words, '\x07' | '\u{9c}') => EscapeState::Text,
            (EscapeState::Words, _) => EscapeState::Words,
            (EscapeState::Control(Some(mut sign)), '0'..='9' | ';' | ':') if sign.len() < 64 => {
                sign.push(c);
                EscapeState::Control(Some(sign))
            }
            (EscapeState::Control(Some(sign)), 'm') => {
                if self.colours {
                    out.push_str(&format!("\x1b[{sign}m"));
                    self.coloured = true;
                }
                EscapeState::Text
            }
            (EscapeState::Control(_), '@'..='~') => EscapeState::Text,
            (EscapeState::Control(_), _) => EscapeState::Control(None),
            (EscapeState::Text, '\n' | '\t' | '\r') => {
                out.push(c);
                EscapeState::Text
            }
            (EscapeState::Text, c) => {
                match is_hidden(c) {
                    true if c.is_control() => {}
                    true => out.extend(c.escape_default()),
                    false => out.push(c),
                }
                EscapeState::Text
            }
        };
    }
}

/// A line of output without colours and other terminal sequences.
pub(crate) fn without_escapes(line: &[u8]) -> Cow<'_, str> {
    let plain = |byte: &u8| (b' '..=b'~').contains(byte) || *byte == b'\t';
    if line.iter().all(plain) {
        return String::from_utf8_lossy(line);
    }
    Cow::Owned(Program::default().text(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_program_its_text_and_colours_are_seen() {
        let log = b"\x1b[31mred\x1b[0m\ta\r\n\x1b[2J\x1b[1;1Hb\x1b]0;title\x07c\x1b]8;;http://x\x1b\\d\x1b(0e\x9b1mf\xc2\x9b1mg\
            \x1bP1$q\x1b\\h\x07\x08\x1b[?1049hi\x1b[>4;1mj\xe6\x89\xb9\x1b]0;no end\nk\xe2\x80\xael\x1b[31";
        let seen = "\x1b[31mred\x1b[0m\ta\r\nbcde\u{fffd}1mf\x1b[1mghij批\nk\\u{202e}l";
        assert_eq!(Program::with_colours().text(log), seen);
        let mut program = Program::with_colours();
        let pieces: String = log.iter().map(|byte| program.text(&[*byte])).collect();
        assert_eq!((pieces.as_str(), program.end().as_str(), program.end().as_str()), (seen, "\x1b[0m", ""));
    }

    #[test]
    fn a_line_is_read_without_its_colours() {
        for (line, text) in [
            (&b"loss: 0.5"[..], "loss: 0.5"),
            (
                b"\x1b[1m4/4\x1b[0m \x1b[32m\xe2\x94\x81\xe2\x94\x81\x1b[0m\x1b[37m\x1b[0m loss: \x1b[1m0.5\x1b[0m",
                "4/4 ━━ loss: 0.5",
            ),
            (b"\x08\x08\x08loss 0.5\x1b[K", "loss 0.5"),
            (b"acc \xff", "acc \u{fffd}"),
        ] {
            assert_eq!(without_escapes(line), text);
        }
    }
}
