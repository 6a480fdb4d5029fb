//! Words in a drawing: where they break, and positions where none is cut off or covered.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Approximate width of the drawing, and of a terminal column of small text.
const DRAWING: f64 = 540.0;
pub(super) const SMALL_LETTER: f64 = 5.4;

/// A position without a number, and the reason.
#[derive(Clone, Debug)]
pub(crate) struct Gap {
    pub(crate) at: f64,
    pub(crate) why: String,
}

/// A line of a gap's text, along an axis.
pub(super) struct PlacedText<'a> {
    pub(super) line: &'a str,
    pub(super) middle: f64,
    pub(super) half: f64,
    /// Number of lines below it.
    pub(super) level: usize,
}

/// Places the texts of gaps along an axis, so that none is cut off and none overlap.
pub(super) fn place_texts(gaps: &[Gap], place: impl Fn(f64) -> f64, from: f64, to: f64) -> Vec<PlacedText<'_>> {
    let mut said = Vec::new();
    let mut before: Option<&Gap> = None;
    let (mut right, mut level) = (f64::NEG_INFINITY, 0);
    for gap in gaps {
        // Of neighbours with the same text, only the first shows it.
        if before.replace(gap).is_some_and(|before| before.why == gap.why) {
            continue;
        }
        let widest = gap.why.width() as f64 * SMALL_LETTER;
        let half = (0.5 * widest / DRAWING * (to - from)).min(0.5 * (to - from));
        let middle = place(gap.at).clamp(from + half, to - half);
        level = if middle - half < right { level } else { 0 };
        said.push(PlacedText { line: &gap.why, middle, half, level });
        level += 1;
        right = right.max(middle + half);
    }
    said
}

/// A name in lines of at most this many terminal columns, broken between words if possible.
pub(super) fn broken(name: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in name.split_inclusive(' ') {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && (lines[last].clone() + word.trim_end()).width() > room {
            lines.push(String::new());
        }
        for letter in word.chars() {
            let last = lines.len() - 1;
            let full = lines[last].width() + letter.width().unwrap_or(0) > room;
            if full && letter != ' ' {
                lines.push(String::new());
            }
            let last = lines.len() - 1;
            lines[last].push(letter);
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}
