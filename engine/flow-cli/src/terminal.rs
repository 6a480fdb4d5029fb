//! Makes text safe for a terminal. Styles and line ends come from flow only. Every other character
//! that could move, hide, turn or colour text is escaped, as in `\u{9b}`. The colours of a
//! program's own output may stay.

use std::fmt::Display;
use std::hash::BuildHasher;
use std::sync::LazyLock;

use anstyle::{AnsiColor, Style};
use flow_core::{Program, visible, visible_but};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint(u32);

pub(crate) const STRONG: Paint = Paint(0);
/// Success.
pub(crate) const GOOD: Paint = Paint(1);
/// Failure.
pub(crate) const BAD: Paint = Paint(2);
/// A warning.
pub(crate) const NOTE: Paint = Paint(3);
/// Less important text.
pub(crate) const FAINT: Paint = Paint(4);

const STYLES: [Style; 5] = [
    Style::new().bold(),
    AnsiColor::Green.on_default(),
    AnsiColor::Red.on_default().bold(),
    AnsiColor::Yellow.on_default(),
    Style::new().dimmed(),
];

/// Private characters mark where styles begin and end. Each process chooses its own, so that no
/// name or message can contain them.
static MARKS: LazyLock<u32> =
    LazyLock::new(|| 0x10_0000 + (std::hash::RandomState::new().hash_one(()) % 0x1ff0) as u32 * 8);

fn mark(number: u32) -> char {
    char::from_u32(*MARKS + number).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The style that a character begins, or the end of one.
fn marked(c: char) -> Option<Option<&'static Style>> {
    let number = u32::from(c).checked_sub(*MARKS).filter(|number| *number <= STYLES.len() as u32)?;
    Some(STYLES.get(number as usize))
}

/// Styles a word in a line that will be printed.
pub(crate) fn styled(paint: Paint, text: impl Display) -> String {
    format!("{}{text}{}", mark(paint.0), mark(STYLES.len() as u32))
}

/// A text that is not a result, after the word that says so.
pub(crate) fn noted(text: impl Display) -> String {
    format!("{} {text}", styled(NOTE, "note:"))
}

/// A line as it will be seen, with marked styles. Unsafe characters are already escaped, so that
/// its width is final.
pub(crate) fn shown(line: &str) -> String {
    visible_but(line, &['\t']).into_owned()
}

/// A line without its styles.
pub(crate) fn plain(line: &str) -> String {
    line.chars().filter(|c| marked(*c).is_none()).collect()
}

/// A line for the terminal.
pub(crate) fn painted(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for c in shown(line).chars() {
        match marked(c) {
            Some(Some(style)) => out.push_str(&style.render().to_string()),
            Some(None) => out.push_str(&anstyle::Reset.render().to_string()),
            None => out.push(c),
        }
    }
    out
}

/// Several lines of flow's own for the terminal. A quoted line never starts at the margin: it is
/// indented.
pub(crate) fn message(text: &str) -> String {
    let lines = text.split('\n').map(|line| painted(line.trim_end_matches('\r')));
    let set_in = |(at, line): (usize, String)| match at > 0 && !line.is_empty() && !line.starts_with([' ', '\t']) {
        true => format!("  {line}"),
        false => line,
    };
    lines.enumerate().map(set_in).collect::<Vec<_>>().join("\n")
}

/// Text that flow has already coloured.
pub(crate) fn coloured(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\x1b[") {
        let (before, sequence) = rest.split_at(at);
        out.push_str(&visible_but(before, &['\n', '\t']));
        let end = sequence[2..].find(|c: char| !c.is_ascii_digit() && c != ';').map_or(sequence.len(), |end| end + 2);
        let (sequence, after) = match sequence[end..].starts_with('m') {
            true => sequence.split_at(end + 1),
            false => sequence.split_at(2),
        };
        out.push_str(&if sequence.ends_with('m') { sequence.into() } else { visible(sequence) });
        rest = after;
    }
    out + &visible_but(rest, &['\n', '\t'])
}

/// A line that a program printed, as its terminal would finally show it: overwritten text is gone.
pub(crate) fn printed(line: &str) -> String {
    let text = Program::default().text(line.as_bytes());
    text.rsplit('\r').find(|part| !part.trim().is_empty()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use flow_core::is_hidden;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_what_flow_styles_is_styled() {
        let name = "\x1b[31ma\x1b]0;t\x07\u{9b}1m\n\u{202e}";
        let line = format!("{} {name}", styled(GOOD, name));
        let written = r"\u{1b}[31ma\u{1b}]0;t\u{7}\u{9b}1m\n\u{202e}";
        assert_eq!(painted(&line), format!("\x1b[32m{written}\x1b[0m {written}"));
        assert_eq!(plain(&shown(&line)), format!("{written} {written}"));
        assert_eq!(painted("\u{100000}\u{10ffff}a"), "\u{100000}\\u{10ffff}a");
    }

    #[test]
    fn what_is_quoted_forges_no_line() {
        let told = message("error: `a\nhint: b\n\n  | c\r\nerror: d`\r");
        assert_eq!(told, "error: `a\n  hint: b\n\n  | c\n  error: d`");
    }

    #[test]
    fn colours_of_ours_pass() {
        let text = "\x1b[1;31merror\x1b[0m: \x1b[2Jx\x1b]8;;y\x07\n\x1b[";
        assert_eq!(coloured(text), "\x1b[1;31merror\x1b[0m: \\u{1b}[2Jx\\u{1b}]8;;y\\u{7}\n\\u{1b}[");
    }

    #[test]
    fn of_a_line_that_is_written_over_the_last_is_seen() {
        assert_eq!(printed("10 %\r\x1b[32m20 %\x1b[0m\r"), "20 %");
        assert_eq!(printed("\x1b[31mok\u{7}"), "ok");
    }

    /// Checks that a text without colours hides nothing except `except`.
    fn safe(text: &str, except: &[char]) -> bool {
        let mut rest = text.split("\x1b[");
        let begin = rest.next().unwrap_or_default();
        let colour =
            |part: &str| part.trim_start_matches(|c: char| c.is_ascii_digit() || ";:".contains(c)).starts_with('m');
        !begin.contains(|c| is_hidden(c) && !except.contains(&c))
            && rest.all(|part| colour(part) && !part.contains(|c| is_hidden(c) && !except.contains(&c)))
    }

    proptest::proptest! {
        /// For any line, in whatever pieces a program prints it.
        #[test]
        fn nothing_gets_through(
            parts in proptest::collection::vec(proptest::prop_oneof![
                proptest::sample::select(&["\x1b[31m", "\x1b]8;;x\x07", "\x1b", "\u{9b}", "\x1b[2J", "\x1bP", "\x1b\\", "\u{9d}0;", "\n", "m"][..])
                    .prop_map(str::to_owned),
                any::<char>().prop_map(String::from),
                "\\PC{0,8}",
            ], 0..12),
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let text = parts.concat();
            let line = painted(&styled(GOOD, &text));
            prop_assert!(safe(&line, &['\t']), "{:?}", line);
            prop_assert_eq!(line.matches('\x1b').count(), 2);
            prop_assert!(safe(&message(&text), &['\t', '\n']), "{:?}", text);
            prop_assert!(safe(&coloured(&text), &['\t', '\n']), "{:?}", text);
            let rows = vec![vec![text.clone(), styled(GOOD, &text), String::new()]];
            prop_assert!(safe(&painted(&crate::words::columns(&rows).concat()), &['\t']));
            let bytes = [text.as_bytes(), &bytes].concat();
            let whole = Program::with_colours().text(&bytes);
            prop_assert!(safe(&whole, &['\t', '\n', '\r']), "{:?}", whole);
            let mut program = Program::with_colours();
            let pieces: String = bytes.chunks(3).map(|piece| program.text(piece)).collect();
            prop_assert_eq!(pieces, whole);
            prop_assert!(safe(&printed(&text), &['\t', '\n']));
        }
    }
}
