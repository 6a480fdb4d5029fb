//! The last lines of a terminal, which change in place. Each change is one text with only the lines that differ, so nothing
//! flickers. Knows no run.

use crate::words;

/// The drawn lines. The cursor is at the start of the line below them, so an interrupted flow leaves the terminal as it
/// should be.
#[derive(Debug)]
pub(crate) struct Frame {
    lines: Vec<String>,
    columns: usize,
    /// Turns a line with marked styles into one for this terminal.
    paint: fn(&str) -> String,
}

impl Frame {
    pub(crate) fn new(paint: fn(&str) -> String) -> Frame {
        Frame { lines: Vec::new(), columns: 0, paint }
    }

    /// The text that turns the drawn lines into these. It is empty if nothing differs.
    pub(crate) fn draw(&mut self, lines: Vec<String>, columns: usize) -> String {
        let is_whole = columns != self.columns || lines.len() < self.lines.len();
        let mut out = if is_whole { self.clear(columns) } else { self.up() };
        let mut differs = is_whole;
        for (at, line) in lines.iter().enumerate() {
            if self.lines.get(at) != Some(line) {
                differs = true;
                out.push_str(&format!("\x1b[2K{}", (self.paint)(line)));
            }
            out.push('\n');
        }
        (self.lines, self.columns) = (lines, columns);
        if differs { out } else { String::new() }
    }

    /// The text that prints these lines above the drawn ones.
    pub(crate) fn above(&mut self, printed: &[String], columns: usize) -> String {
        let lines = self.lines.clone();
        let mut out = self.clear(columns);
        printed.iter().for_each(|line| out.push_str(&format!("{}\n", (self.paint)(line))));
        out + &self.draw(lines, columns)
    }

    /// The text that removes the drawn lines.
    pub(crate) fn clear(&mut self, columns: usize) -> String {
        // A terminal that became narrower has wrapped them.
        let rows = |line: &String| words::wide(line).div_ceil(columns.max(1)).max(1);
        let rows: usize = self.lines.drain(..).map(|line| rows(&line)).sum();
        self.columns = columns;
        if rows == 0 { String::new() } else { format!("\x1b[{rows}A\x1b[J") }
    }

    fn up(&self) -> String {
        if self.lines.is_empty() { String::new() } else { format!("\x1b[{}A", self.lines.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(all: &[&str]) -> Vec<String> {
        all.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn only_lines_that_differ_are_written() {
        let mut frame = Frame::new(str::to_owned);
        assert_eq!(frame.draw(lines(&["a", "b", "c"]), 80), "\x1b[2Ka\n\x1b[2Kb\n\x1b[2Kc\n");
        assert_eq!(frame.draw(lines(&["a", "b", "c"]), 80), "", "nothing changed");
        assert_eq!(frame.draw(lines(&["a", "x", "c"]), 80), "\x1b[3A\n\x1b[2Kx\n\n");
        assert_eq!(frame.draw(lines(&["a", "x", "c", "d"]), 80), "\x1b[3A\n\n\n\x1b[2Kd\n");
        assert_eq!(frame.draw(lines(&["c", "d"]), 80), "\x1b[4A\x1b[J\x1b[2Kc\n\x1b[2Kd\n", "fewer lines");
        assert_eq!(frame.above(&lines(&["said"]), 80), "\x1b[2A\x1b[Jsaid\n\x1b[2Kc\n\x1b[2Kd\n");
        assert_eq!(frame.clear(80), "\x1b[2A\x1b[J");
        assert_eq!(frame.clear(80), "");
    }

    #[test]
    fn a_narrower_terminal_has_wrapped_the_lines() {
        let mut frame = Frame::new(str::to_owned);
        frame.draw(lines(&["0123456789", "a"]), 80);
        assert_eq!(frame.draw(lines(&["01234", "a"]), 5), "\x1b[3A\x1b[J\x1b[2K01234\n\x1b[2Ka\n");
    }
}
