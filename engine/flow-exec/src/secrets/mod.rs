//! Values that nobody is to read, found in whatever form and hidden. Knows no names, no environment and no files.

mod forms;
mod seen;
mod stream;

use std::{collections::BTreeSet, fmt, ops::Range, sync::Arc};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use flow_core::reason::Texts;

pub(crate) use stream::StreamRedactor;

use seen::Seen;

/// What stands in their place, whatever their length.
const HIDDEN: &str = "***";

/// A shorter text stands in too many others by chance.
const SHORTEST: usize = 8;

/// Of a longer one there would be too much to look for.
const LONGEST: usize = 16 << 10;

/// What tears a secret apart, colours and ends of lines, takes no more than this: nothing waits for what comes behind more of it.
const TEARING: usize = 4 << 10;

/// Values to hide, and what finds them. Of a value with several lines, a key for example, each line counts that is long enough.
#[derive(Clone, Default)]
pub(crate) struct Secrets {
    values: Vec<String>,
    finder: Option<Arc<Finder>>,
}

/// Why a value cannot be hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unhidable {
    Empty,
    Short,
    Long,
}

struct Finder {
    /// In order.
    forms: Vec<Vec<u8>>,
    /// The pairs of bytes that they begin with: most others are told by these alone.
    pairs: Vec<bool>,
    longest: usize,
    automaton: AhoCorasick,
}

/// Never what they are.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.values.len())
    }
}

impl Unhidable {
    /// Whether a value is one of these.
    pub(crate) fn check(value: &str) -> Option<Unhidable> {
        match value.trim() {
            "" => Some(Unhidable::Empty),
            value if value.len() > LONGEST => Some(Unhidable::Long),
            value => lines(value).next().is_none().then_some(Unhidable::Short),
        }
    }
}

/// The number of the line, from 1, in which a text begins to tell a value. All lines of the value must stand in it: of a configuration
/// that is secret as a whole some stand in many texts.
pub(crate) fn line_that_tells(value: &str, text: &str) -> Option<usize> {
    let parts: Vec<Secrets> = lines(value).map(|line| Secrets::new(vec![line.to_owned()])).collect();
    let told = parts.iter().all(|part| part.stand_in(text));
    text.lines().zip(1..).find(|(line, _)| told && parts.iter().any(|part| part.stand_in(line))).map(|(_, n)| n)
}

fn lines(value: &str) -> impl Iterator<Item = &str> {
    value.lines().map(str::trim).filter(|line| line.chars().count() >= SHORTEST)
}

impl Secrets {
    /// Of these values. One that cannot be hidden is not.
    pub(crate) fn new(values: Vec<String>) -> Secrets {
        let mut all = BTreeSet::new();
        for value in values.iter().filter(|value| Unhidable::check(value).is_none()).map(|value| value.trim()) {
            all.insert(value.replace(['\n', '\r'], ""));
            all.extend(forms::base64(value));
            all.extend(lines(value).flat_map(forms::of));
        }
        let forms: Vec<Vec<u8>> = all.into_iter().map(String::into_bytes).collect();
        let finder = Finder::new(forms).map(Arc::new);
        Secrets { values, finder }
    }

    pub(crate) fn values(&self) -> &[String] {
        &self.values
    }

    /// The text without them.
    pub(crate) fn hide(&self, text: String) -> String {
        let Some(finder) = &self.finder else { return text };
        let runs = finder.runs(text.as_bytes());
        if runs.is_empty() {
            return text;
        }
        let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
        for run in runs {
            out.extend_from_slice(&text.as_bytes()[at..run.start]);
            out.extend_from_slice(HIDDEN.as_bytes());
            at = run.end;
        }
        out.extend_from_slice(&text.as_bytes()[at..]);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// The same in every text that something holds.
    pub(crate) fn hide_in(&self, what: &mut impl Texts) {
        if !self.values().is_empty() {
            what.texts(&mut |text| *text = self.hide(std::mem::take(text)));
        }
    }

    /// Whether one stands in a text, in whatever form.
    pub(crate) fn stand_in(&self, text: &str) -> bool {
        self.finder.as_ref().is_some_and(|finder| !finder.runs(text.as_bytes()).is_empty())
    }
}

impl Finder {
    fn new(mut forms: Vec<Vec<u8>>) -> Option<Finder> {
        forms.sort();
        // The others would take as much memory for each byte of a form as for a table of all bytes.
        let kind = Some(AhoCorasickKind::ContiguousNFA);
        let automaton = AhoCorasick::builder().match_kind(MatchKind::Standard).kind(kind).build(&forms).ok()?;
        let mut pairs = vec![false; 1 << 16];
        forms.iter().filter_map(|form| pair(form)).for_each(|pair| pairs[pair] = true);
        Some(Finder { longest: forms.iter().map(Vec::len).max()?, forms, pairs, automaton })
    }

    /// Where secrets stand, in order. Those that overlap or touch are one.
    fn runs(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        let seen = Seen::of(bytes);
        for found in self.automaton.find_overlapping_iter(&seen.bytes) {
            let Some(mut run) = seen.place(found.range()) else { continue };
            // They come in the order of their ends.
            while let Some(last) = runs.pop_if(|last| last.end >= run.start) {
                run.start = run.start.min(last.start);
            }
            runs.push(run);
        }
        runs
    }

    /// Where the longest of the beginnings of secrets starts in which these bytes end; their length, if they end in none.
    fn beginning(&self, bytes: &[u8]) -> usize {
        let before = bytes.len().saturating_sub(self.longest + TEARING);
        let seen = Seen::of(&bytes[before..]);
        let begins = |from: &usize| {
            let end = &seen.bytes[*from..];
            if pair(end).is_some_and(|pair| !self.pairs[pair]) || seen.is_broken_from(*from) {
                return false;
            }
            let at = self.forms.partition_point(|form| form.as_slice() <= end);
            self.forms.get(at).is_some_and(|form| form.starts_with(end))
        };
        let read = seen.bytes.len();
        (read.saturating_sub(self.longest - 1)..read).find(begins).map_or(bytes.len(), |from| before + seen.at(from))
    }
}

/// The first two bytes as a number.
fn pair(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk().map(|pair| usize::from(u16::from_be_bytes(*pair)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secrets(values: &[&str]) -> Secrets {
        Secrets::new(values.iter().map(|value| (*value).to_owned()).collect())
    }

    #[test]
    fn secrets_are_hidden_in_texts_whatever_their_length() {
        let secrets = secrets(&["s3cr3t-1", "s3cr3t-1-and-more\n", "short", "", "-----KEY-----\nabc\nfirst of it\n"]);
        let hidden = |text: &str| secrets.hide(text.to_owned());
        assert_eq!(hidden("tok s3cr3t-1-and-more s3cr3t-1, in short"), "tok *** ***, in short");
        assert_eq!(hidden("-----KEY-----\r\nabc\r\nfirst of it\r\n"), "***\r\n");
        assert_eq!(hidden("-----KEY-----\nabc\nfirst of it\n"), "***\n");
        assert_eq!(hidden("nothing"), "nothing");
        assert_eq!(format!("{secrets:?}"), "5 secrets");
    }

    #[test]
    fn every_form_is_hidden() {
        let secret = "p\"a\\ss/w'ö<&>rd +$x%7~😀";
        let secrets = secrets(&[secret]);
        let table = [
            r#"{"a": "p\"a\\ss/w'ö<&>rd +$x%7~😀"}"#,
            r#"{"a": "p\"a\\ss\/w'\u00f6<&>rd +$x%7~\ud83d\ude00"}"#,
            r#"{"a": "p\"a\\ss/w'\u00F6<&>rd +$x%7~\uD83D\uDE00"}"#,
            r#"{"a": "p\"a\\ss/w'ö\u003c\u0026\u003erd +$x%7~😀"}"#,
            r#"{"a": "p\u0022a\\ss/w\u0027\u00F6\u003C\u0026\u003Erd \u002B$x%7~\uD83D\uDE00"}"#,
            r#"{"a": "{\"b\": \"p\\\"a\\\\ss/w'ö<&>rd +$x%7~😀\"}"}"#,
            "https://me:p%22a%5Css%2Fw%27%C3%B6%3C%26%3Erd%20%2B%24x%257~%F0%9F%98%80@host/",
            "https://me:p%22a%5css%2fw%27%c3%b6%3c%26%3erd%20%2b%24x%257~%f0%9f%98%80@host/",
            "q=p%22a%5Css%2Fw%27%C3%B6%3C%26%3Erd+%2B%24x%257%7E%F0%9F%98%80&",
            "p%22a%5Css/w'%C3%B6%3C&%3Erd%20+$x%257~%F0%9F%98%80",
            "<a>p&quot;a\\ss/w&#x27;ö&lt;&amp;&gt;rd +$x%7~😀</a>",
            "<a>p&quot;a\\ss/w&apos;&#246;&lt;&amp;&gt;rd +$x%7~&#128512;</a>",
            "<a>p\"a\\ss/w'ö&lt;&amp;&gt;rd +$x%7~😀</a>",
            "'p\"a\\ss/w'\\''ö<&>rd +$x%7~😀'",
            "'p\"a\\ss/w'\"'\"'ö<&>rd +$x%7~😀'",
            "\"p\\\"a\\\\ss/w'ö<&>rd +\\$x%7~😀\"",
            "$'p\"a\\\\ss/w\\'\\303\\266<&>rd +$x%7~\\360\\237\\230\\200'",
            "p\\\"a\\\\ss/w\\'ö\\<\\&\\>rd\\ +\\$x%7~😀",
            "'p\"a\\\\ss/w\\'ö<&>rd +$x%7~😀'",
            "'p\"a\\\\ss/w\\'\\xf6<&>rd +$x%7~\\U0001f600'",
            "b'p\"a\\\\ss/w\\'\\xc3\\xb6<&>rd +$x%7~\\xf0\\x9f\\x98\\x80'",
        ];
        for text in table {
            let hidden = secrets.hide(text.to_owned());
            let rest = hidden.replacen("***", "", 1);
            assert!(rest.len() + 3 == hidden.len() && !rest.contains("ss") && !rest.contains("7"), "{text}: {hidden}");
        }
    }

    #[test]
    fn base64_is_found_wherever_it_begins_and_ends() {
        for secret in ["hunter2-hunter2", "hunter2-hunter", "hunter2-hunte", "a/b+c?d>e~f"] {
            let secrets = secrets(&[secret]);
            for before in ["", "u", "us", "user:", "me:"] {
                for after in ["", "\n", "@host", ":x"] {
                    let text = format!("{before}{secret}{after}");
                    for encoding in [data_encoding::BASE64, data_encoding::BASE64URL, data_encoding::BASE64_NOPAD] {
                        let shown = secrets.hide(encoding.encode(text.as_bytes()));
                        assert_eq!(shown.matches("***").count(), 1, "{text}: {shown}");
                        // What is before and behind it, and a character that each shares with it.
                        let length = |text: &str| encoding.encode(text.as_bytes()).len();
                        assert!(shown.len() - 3 <= length(before) + length(after) + 2, "{text}: {shown}");
                    }
                }
            }
        }
    }

    #[test]
    fn colours_and_ends_of_lines_within_hide_nothing_from_the_search() {
        let secrets = secrets(&["hunter2-hunter2", "s3cr3t-1"]);
        let hidden = |text: &str| secrets.hide(text.to_owned());
        assert_eq!(hidden("a \x1b[01;31m\x1b[Khunt\x1b[m\x1b[Ker2-hunter2 b"), "a \x1b[01;31m\x1b[K*** b");
        assert_eq!(hidden("a hunter2-\nhunter2 b\n"), "a *** b\n");
        assert_eq!(hidden("s3cr3t-1\ns3cr3t-1\n"), "***\n***\n");
        let long = "hunter2/".repeat(30);
        let secrets = Secrets::new(vec![long.clone()]);
        for width in [60, 64, 76] {
            for before in 0..80 {
                let encoded = data_encoding::BASE64.encode(format!("{}{long}\n", "x".repeat(before)).as_bytes());
                let lines: Vec<&[u8]> = encoded.as_bytes().chunks(width).collect();
                let shown = secrets.hide(String::from_utf8(lines.join(&b'\n')).unwrap());
                assert!(shown.len() < before * 4 / 3 + 20, "{width} {before}: {shown}");
            }
        }
    }

    #[test]
    fn a_text_tells_a_value_by_all_of_its_lines() {
        let key = "name: prod\nMIIEvQ+IBADAN\nab\n";
        assert_eq!(line_that_tells(key, "env:\n  name: prod\n"), None);
        assert_eq!(line_that_tells(key, "env:\n  name: prod\n  key: |\n    MIIEvQ%2BIBADAN\n"), Some(2));
        assert_eq!(line_that_tells("hunter2-hunter2", "url: \"me:hunter2-hunter2@host\""), Some(1));
        assert_eq!(line_that_tells("short", "short"), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_text_is_hidden_as_others_write_it_however_it_comes(
            value in r#"[ -~]{3}[ -~\n\tö\u{7f}€😀"'/\\<&]{8,40}"#,
            size in 1..20_usize,
            before in ".{0,5}",
        ) {
            prop_assume!(Unhidable::check(&value).is_none());
            let secrets = secrets(&[&value]);
            let line = lines(&value).next().unwrap();
            let json = |text: &str| serde_json::to_string(text).unwrap();
            let texts = [value.clone(), json(&format!("{before}{value}")), json(&json(&value))];
            let kept = [line.to_owned(), json(line), json(&json(line))];
            let kept = kept.iter().map(|kept| kept.trim_matches(['\\', '"'])).filter(|kept| kept.len() >= SHORTEST);
            let kept: Vec<&str> = kept.collect();
            for text in texts {
                let mut hiding = StreamRedactor::new(secrets.clone());
                let mut shown = Vec::new();
                text.as_bytes().chunks(size).for_each(|piece| hiding.pass(piece, &mut shown));
                hiding.end(&mut shown);
                for shown in [String::from_utf8_lossy(&shown).into_owned(), secrets.hide(text)] {
                    prop_assert!(!kept.iter().any(|kept| shown.contains(kept)), "{shown}");
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_hidden_is_told() {
        let cases = [
            ("", Some(Unhidable::Empty)),
            (" \n", Some(Unhidable::Empty)),
            ("1234567", Some(Unhidable::Short)),
            ("1234567\n12345\n", Some(Unhidable::Short)),
            ("12345678", None),
            ("öäüößßß8", None),
            ("key\n12345678\n", None),
        ];
        for (value, why) in cases {
            assert_eq!(Unhidable::check(value), why, "{value:?}");
        }
        assert_eq!(Unhidable::check(&"x".repeat(LONGEST + 1)), Some(Unhidable::Long));
    }
}
