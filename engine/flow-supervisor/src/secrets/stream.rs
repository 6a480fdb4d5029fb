//! Hides secrets in a stream, line by line. Reads and writes nothing.

use super::Secrets;

/// A longer line is handed on in parts. No secret is torn by that.
const LONGEST_LINE: usize = 64 << 10;

/// The line that has not ended yet.
pub(crate) struct StreamRedactor {
    secrets: Secrets,
    held: Vec<u8>,
}

impl StreamRedactor {
    pub(crate) fn new(secrets: Secrets) -> StreamRedactor {
        StreamRedactor { secrets, held: Vec::new() }
    }

    /// Takes a piece and appends to `out` the lines that have ended.
    pub(crate) fn pass(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(piece);
        let lines = self.held.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
        self.hand_on(lines, out);
        let longest = self.secrets.longest();
        if self.held.len() > LONGEST_LINE + longest {
            let part = self.held.len() - longest;
            let torn = self.secrets.places(&self.held).into_iter().find(|place| place.end > part);
            self.hand_on(torn.filter(|place| place.start < part).map_or(part, |place| place.end), out);
        }
    }

    /// The last line has no end.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        self.hand_on(self.held.len(), out);
    }

    fn hand_on(&mut self, end: usize, out: &mut Vec<u8>) {
        out.append(&mut self.secrets.hide_bytes(&self.held[..end]));
        self.held.drain(..end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(values: &[&str], pieces: &[&str]) -> Vec<String> {
        let secrets = Secrets::new(values.iter().map(|value| (*value).to_owned()).collect());
        let mut hiding = StreamRedactor::new(secrets);
        let mut shown = |take: &mut dyn FnMut(&mut StreamRedactor, &mut Vec<u8>)| {
            let mut out = Vec::new();
            take(&mut hiding, &mut out);
            String::from_utf8(out).unwrap()
        };
        let mut all: Vec<String> =
            pieces.iter().map(|piece| shown(&mut |hiding, out| hiding.pass(piece.as_bytes(), out))).collect();
        all.push(shown(&mut StreamRedactor::end));
        all
    }

    #[test]
    fn a_line_is_handed_on_when_it_has_ended() {
        let cases: &[(&[&str], &[&str], &[&str])] = &[
            (&["hunter2-hunter2"], &["tok hunt", "er2-hunter2", " end\n"], &["", "", "tok *** end\n", ""]),
            (&["hunter2-hunter2"], &["the hunt", "ing\nh"], &["", "the hunting\n", "h"]),
            (&["hunter2-hunter2"], &["1%\r2%", "\rhunter2-hunter2"], &["1%\r", "2%\r", "***"]),
            (&["hunter2-", "ter2-hunter2"], &["hunter2-", "hunter2 x\n"], &["", "*** x\n", ""]),
            (&[], &["hunter2", "\n"], &["", "hunter2\n", ""]),
        ];
        for (values, pieces, shown) in cases {
            assert_eq!(passed(values, pieces), *shown, "{values:?} {pieces:?}");
        }
    }

    #[test]
    fn a_long_line_is_handed_on_in_parts_and_tears_no_secret() {
        let line = format!("{}hunter2-hunter2{}", "x".repeat(LONGEST_LINE), "y".repeat(LONGEST_LINE));
        for cut in LONGEST_LINE - 2..LONGEST_LINE + 100 {
            let shown = passed(&["hunter2-hunter2"], &[&line[..cut], &line[cut..]]);
            assert_eq!(shown.concat(), line.replace("hunter2-hunter2", "***"), "{cut}");
        }
        let endless = "aaaaaaaa".repeat(LONGEST_LINE);
        let shown = passed(&["aaaaaaaa"], &[&endless, "b"]);
        assert_eq!(shown, ["***", "", "b"], "nothing is held for ever");
    }
}
