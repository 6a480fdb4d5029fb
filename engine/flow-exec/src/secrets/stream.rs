//! Hides secrets in what passes by. What may be the beginning of one waits until it is known. Reads and writes nothing.

use super::{HIDDEN, Secrets};

/// A beginning of a secret that is at least so long tells something of it.
const TELLING: usize = 4;

/// The state between two pieces.
pub(crate) struct StreamRedactor {
    secrets: Secrets,
    /// Not handed on yet: a secret may begin here.
    held: Vec<u8>,
    /// So much of it, from its beginning, is of a secret for which stars stand already.
    covered: usize,
}

impl StreamRedactor {
    pub(crate) fn new(secrets: Secrets) -> StreamRedactor {
        StreamRedactor { secrets, held: Vec::new(), covered: 0 }
    }

    /// Takes a piece, and adds to `out` what can be shown of this and earlier ones.
    pub(crate) fn pass(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(piece);
        let beginning = self.secrets.finder.as_ref().map_or(self.held.len(), |finder| finder.beginning(&self.held));
        self.hand_on(beginning, out);
    }

    /// There are no more pieces. What waits is the beginning of a secret, and ends of lines behind it.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        let told = held.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
        if told < TELLING {
            out.extend_from_slice(held.get(self.covered..told).unwrap_or_default());
        } else if self.covered == 0 {
            out.extend_from_slice(HIDDEN.as_bytes());
        }
        out.extend_from_slice(&held[told.max(self.covered)..]);
        self.covered = 0;
    }

    /// Hands on what lies before `end`, which is no part of a secret that is not whole yet.
    fn hand_on(&mut self, end: usize, out: &mut Vec<u8>) {
        let Some(finder) = &self.secrets.finder else { return out.append(&mut self.held) };
        let mut runs = finder.runs(&self.held);
        let begun = self.covered > 0;
        if begun {
            // What touches it is hidden with it.
            let joined = runs.iter().take_while(|run| run.start <= self.covered).count();
            let last = runs.drain(..joined).next_back().map_or(self.covered, |run| run.end.max(self.covered));
            runs.insert(0, 0..last);
        }
        let mut at = 0;
        self.covered = 0;
        for (n, run) in runs.into_iter().enumerate() {
            let already = begun && n == 0;
            if run.start >= end && !already {
                break;
            }
            out.extend_from_slice(&self.held[at..run.start]);
            if !already {
                out.extend_from_slice(HIDDEN.as_bytes());
            }
            at = run.end.min(end);
            self.covered = run.end - at;
        }
        out.extend_from_slice(&self.held[at..end]);
        self.held.drain(..end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(values: &[&str]) -> Secrets {
        Secrets::new(values.iter().map(|value| (*value).to_owned()).collect())
    }

    fn passed(secrets: &Secrets, pieces: &[&str]) -> Vec<String> {
        let mut hiding = StreamRedactor::new(secrets.clone());
        let mut shown = |take: &mut dyn FnMut(&mut StreamRedactor, &mut Vec<u8>)| {
            let mut out = Vec::new();
            take(&mut hiding, &mut out);
            String::from_utf8(out).unwrap()
        };
        let mut all: Vec<String> =
            pieces.iter().map(|piece| shown(&mut |hiding, out| hiding.pass(piece.as_bytes(), out))).collect();
        all.push(shown(&mut |hiding, out| hiding.end(out)));
        all
    }

    #[test]
    fn what_may_become_a_secret_waits() {
        let cases: &[(&[&str], &[&str], &[&str])] = &[
            (&["hunter2-hunter2"], &["tok hunt", "er2-hunter2", " end\n"], &["tok ", "***", " end\n", ""]),
            (&["hunter2-hunter2"], &["the hunt", "ing\nh"], &["the ", "hunting\n", "h"]),
            (&["hunter2-hunter2"], &["at the end hunter2-"], &["at the end ", "***"]),
            // The longer of two; two that overlap; one that goes on and on.
            (&["hunter2-", "hunter2-hunter2"], &["hunter2-", "hunter2 x"], &["", "*** x", ""]),
            (&["hunter2-", "hunter2-hunter2"], &["hunter2-", "hunt x"], &["", "***hunt x", ""]),
            (&["hunter2-", "ter2-hunter2"], &["hunter2-", "hunt", "er2", "!"], &["***", "", "", "!", ""]),
            (&["hunter2-", "ter2-hunter2"], &["hunter2-", "hunt!"], &["***", "hunt!", ""]),
            (&["hunter2-", "ter2-hunter2"], &["hunter2-", "hu"], &["***", "", ""]),
            (&["aaaaaaaa"], &["aaaaaaaaaa", "aaaaaaaaaaaa", "b"], &["***", "", "b", ""]),
            (&[], &["hunter2", ""], &["hunter2", "", ""]),
            // Colours and ends of lines within; the end of a line that is like the beginning of a secret by chance waits for nothing.
            (&["hunter2-hunter2"], &["a hunt\x1b[", "m\x1b[Ker2-hunter2\n"], &["a ", "***", "\n"]),
            (&["hunter2-hunter2"], &["a hunt\n", "er2-hunter2, b\n"], &["a ", "***, b\n", ""]),
            (&["hunter2-hunter2"], &["a hunt\n"], &["a ", "***\n"]),
            (&["hunter2-hunter2"], &["a hunt\n", "ing\n"], &["a ", "hunt\ning\n", ""]),
            (&["hunter2-hunter2"], &["a hun\n", "ting\n"], &["a hun\n", "ting\n", ""]),
        ];
        for (values, pieces, shown) in cases {
            assert_eq!(passed(&secrets(values), pieces), *shown, "{values:?} {pieces:?}");
        }
    }

    #[test]
    fn however_it_is_cut_the_same_is_shown() {
        let text = "x hunter2-hunter2 \"hunter3-\" aGh1bnRlcjItaHVudGVyMg== hunter2-\nhun\x1b[mter2-hunter hunt";
        let secrets = secrets(&["hunter2-hunter2", "ter2-hunt"]);
        let whole = passed(&secrets, &[text]).concat();
        assert!(!whole.contains("unter2"), "{whole}");
        for cut in 0..text.len() {
            for then in cut..text.len() {
                let pieces = [&text[..cut], &text[cut..then], &text[then..]];
                assert_eq!(passed(&secrets, &pieces).concat(), whole, "{pieces:?}");
            }
        }
        let bytes: Vec<String> = text.chars().map(String::from).collect();
        let bytes: Vec<&str> = bytes.iter().map(String::as_str).collect();
        assert_eq!(passed(&secrets, &bytes).concat(), whole);
    }
}
