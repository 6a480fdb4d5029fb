//! A text as it is read, whatever tears it apart: colours that a program sets within it, and lines that it is broken into. Pure.

use std::ops::Range;

/// A break leaves at least so much of a text before it. A shorter end of a line would wait for the next line again and again,
/// because it happens to be the beginning of what is looked for.
pub(super) const BEFORE_A_BREAK: usize = 4;

/// The longest sequence for a terminal: a title or a link. What is longer is none, or all the rest would be.
const LONGEST_SEQUENCE: usize = 256;

/// Bytes without sequences for a terminal and without ends of lines, and where they stood.
pub(super) struct Seen {
    pub(super) bytes: Vec<u8>,
    /// Where a piece begins that stood in one: here, and there.
    pieces: Vec<(usize, usize)>,
    /// The bytes before which a line ended.
    breaks: Vec<usize>,
}

impl Seen {
    pub(super) fn of(bytes: &[u8]) -> Seen {
        let mut seen = Seen { bytes: Vec::with_capacity(bytes.len()), pieces: Vec::new(), breaks: Vec::new() };
        let mut at = 0;
        while at < bytes.len() {
            let left_out = match bytes[at] {
                b'\n' | b'\r' => {
                    seen.breaks.push(seen.bytes.len());
                    Some(1)
                }
                b'\x1b' => sequence(&bytes[at..]),
                _ => None,
            };
            if let Some(length) = left_out {
                at += length;
                continue;
            }
            // An escape that begins nothing is a byte as any other.
            let rest = &bytes[at + 1..];
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r' | b'\x1b')).unwrap_or(rest.len());
            seen.pieces.push((seen.bytes.len(), at));
            seen.bytes.extend_from_slice(&bytes[at..=at + end]);
            at += end + 1;
        }
        seen
    }

    /// Where a byte stood.
    pub(super) fn at(&self, byte: usize) -> usize {
        let piece = self.pieces.partition_point(|(here, _)| *here <= byte).saturating_sub(1);
        self.pieces.get(piece).map_or(byte, |(here, there)| there + (byte - here))
    }

    /// Where these bytes stood, unless a line ended too early in them. There is at least one of them.
    pub(super) fn place(&self, bytes: Range<usize>) -> Option<Range<usize>> {
        (!self.is_broken(bytes.start, bytes.end)).then(|| self.at(bytes.start)..self.at(bytes.end - 1) + 1)
    }

    /// Whether a line ends too early in what goes on from this byte to the end.
    pub(super) fn is_broken_from(&self, byte: usize) -> bool {
        self.is_broken(byte, self.bytes.len() + 1)
    }

    fn is_broken(&self, from: usize, to: usize) -> bool {
        let first = self.breaks.partition_point(|at| *at <= from);
        self.breaks.get(first).is_some_and(|at| *at < to && at - from < BEFORE_A_BREAK)
    }
}

/// The length of a sequence for a terminal that begins here. Its end may not have come yet.
fn sequence(bytes: &[u8]) -> Option<usize> {
    let most = &bytes[..bytes.len().min(LONGEST_SEQUENCE)];
    let end = match most.get(1) {
        None => None,
        Some(b'[') => most.iter().skip(2).position(|byte| !(0x20..0x40).contains(byte)).map(|n| match most[n + 2] {
            0x40..0x7f => n + 3,
            _ => n + 2,
        }),
        Some(b']' | b'P' | b'X' | b'^' | b'_') => {
            most.iter().skip(2).position(|byte| matches!(byte, 0x07 | b'\n' | b'\x1b')).map(|n| match most[n + 2] {
                0x07 => n + 3,
                b'\x1b' if most.get(n + 3) == Some(&b'\\') => n + 4,
                _ => n + 2,
            })
        }
        // A character set, for example: what follows the blank to slash is one character.
        Some(_) => most.iter().skip(1).position(|byte| !(0x20..0x30).contains(byte)).map(|n| match most[n + 1] {
            b'\n' | b'\r' | b'\x1b' => n + 1,
            _ => n + 2,
        }),
    };
    end.or_else(|| (bytes.len() < LONGEST_SEQUENCE).then_some(bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_and_ends_of_lines_are_not_seen() {
        let table = [
            ("plain", "plain"),
            ("\x1b[01;31m\x1b[Kred\x1b[m\x1b[K line\r\nnext", "red linenext"),
            ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1b]8;;\x1b\\", "ab"),
            ("\x1b(Ba\x1b[3", "a"),
            ("a\x1b", "a"),
            ("\x1b]0;no end\nb", "b"),
            ("\x1b[1\nb", "b"),
        ];
        for (text, read) in table {
            let seen = Seen::of(text.as_bytes());
            assert_eq!(String::from_utf8_lossy(&seen.bytes), read, "{text:?}");
            assert!(seen.bytes.iter().enumerate().all(|(n, byte)| text.as_bytes()[seen.at(n)] == *byte), "{text:?}");
        }
        let endless = format!("\x1b]{}", "x".repeat(LONGEST_SEQUENCE));
        assert_eq!(Seen::of(endless.as_bytes()).bytes, endless.as_bytes());
    }
}
