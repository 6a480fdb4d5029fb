//! Hides secrets in texts and streams: the exact value, JSON-escaped and in base64. Knows no names, no environment and no files.
//!
//! flow searches for each line of a secret, so no form contains a line end. Any other spelling of a secret is shown, and so is a
//! secret that a program breaks into lines or colours.

mod forms;
mod stream;

use std::{collections::BTreeSet, fmt, ops::Range, sync::Arc};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use flow_core::reason::Texts;

pub(crate) use stream::StreamRedactor;

/// Replaces a secret of any length.
const HIDDEN: &str = "***";

/// A shorter text appears in too many others by chance.
const SHORTEST: usize = 8;

/// The automaton of a longer value takes too much memory.
const LONGEST: usize = 16 << 10;

/// Values to hide, and the automaton that finds them. Of a key with several lines, each line that is long enough is hidden.
#[derive(Clone, Default)]
pub struct Secrets {
    values: Vec<String>,
    finder: Option<Arc<Finder>>,
}

/// Why a value cannot be hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HideFault {
    Empty,
    Short,
    Long,
}

struct Finder {
    /// The length of the longest form.
    longest: usize,
    automaton: AhoCorasick,
}

/// Never what they are.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.values.len())
    }
}

impl HideFault {
    /// Whether a value is one of these.
    pub fn check(value: &str) -> Option<HideFault> {
        match value.trim() {
            "" => Some(HideFault::Empty),
            value if value.len() > LONGEST => Some(HideFault::Long),
            value => lines(value).next().is_none().then_some(HideFault::Short),
        }
    }
}

/// The number of the first line, from 1, of a text that contains all lines of a value. Some lines of a secret configuration appear in
/// many texts.
pub fn leaking_line(value: &str, text: &str) -> Option<usize> {
    let parts: Vec<Secrets> = lines(value).map(|line| Secrets::new(vec![line.to_owned()])).collect();
    let in_text = parts.iter().all(|part| part.occur_in(text));
    text.lines().zip(1..).find(|(line, _)| in_text && parts.iter().any(|part| part.occur_in(line))).map(|(_, n)| n)
}

fn lines(value: &str) -> impl Iterator<Item = &str> {
    value.split(['\n', '\r']).map(str::trim).filter(|line| line.chars().count() >= SHORTEST)
}

impl Secrets {
    /// A value that cannot be hidden is not looked for.
    pub fn new(values: Vec<String>) -> Secrets {
        let mut forms = BTreeSet::new();
        for value in values.iter().filter(|value| HideFault::check(value).is_none()).map(|value| value.trim()) {
            forms.extend(forms::base64(value));
            forms.extend(lines(value).flat_map(forms::of));
        }
        Secrets { values, finder: Finder::new(&forms).map(Arc::new) }
    }

    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// The text without them.
    pub fn hide(&self, text: String) -> String {
        if !self.occur_in(&text) {
            return text;
        }
        String::from_utf8_lossy(&self.hide_bytes(text.as_bytes())).into_owned()
    }

    /// The same in every text that something holds.
    pub fn hide_in(&self, what: &mut impl Texts) {
        if !self.values().is_empty() {
            what.texts(&mut |text| *text = self.hide(std::mem::take(text)));
        }
    }

    /// Whether the text has one, in one of the forms.
    pub fn occur_in(&self, text: &str) -> bool {
        self.finder.as_ref().is_some_and(|finder| finder.automaton.is_match(text))
    }

    fn hide_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
        for place in self.places(bytes) {
            out.extend_from_slice(&bytes[at..place.start]);
            out.extend_from_slice(HIDDEN.as_bytes());
            at = place.end;
        }
        out.extend_from_slice(&bytes[at..]);
        out
    }

    /// The ranges of secrets, in order. Ranges that overlap or touch are merged.
    fn places(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut places: Vec<Range<usize>> = Vec::new();
        for found in self.finder.iter().flat_map(|finder| finder.automaton.find_overlapping_iter(bytes)) {
            let mut place = found.range();
            // The ends of matches ascend.
            while let Some(last) = places.pop_if(|last| last.end >= place.start) {
                place.start = place.start.min(last.start);
            }
            places.push(place);
        }
        places
    }

    /// The length of the longest form.
    fn longest(&self) -> usize {
        self.finder.as_ref().map_or(0, |finder| finder.longest)
    }
}

impl Finder {
    fn new(forms: &BTreeSet<String>) -> Option<Finder> {
        // Other kinds of automata need a table of all bytes for each byte of a form.
        let kind = Some(AhoCorasickKind::ContiguousNFA);
        let automaton = AhoCorasick::builder().match_kind(MatchKind::Standard).kind(kind).build(forms).ok()?;
        Some(Finder { longest: forms.iter().map(String::len).max()?, automaton })
    }
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
        assert_eq!(hidden("-----KEY-----\r\nabc\r\nfirst of it\r\n"), "***\r\nabc\r\n***\r\n");
        assert_eq!(hidden("hunter2-s3cr3t-1 s3cr3t-"), "hunter2-*** s3cr3t-");
        assert_eq!(hidden("nothing"), "nothing");
        assert_eq!(format!("{secrets:?}"), "5 secrets");
    }

    #[test]
    fn a_secret_is_hidden_as_it_is_and_in_json() {
        let secrets = secrets(&["p\"a\\ss/w'ö<&>rd +$x%7~😀"]);
        let table = [
            "p\"a\\ss/w'ö<&>rd +$x%7~😀",
            r#"p\"a\\ss/w'ö<&>rd +$x%7~😀"#,
            r#"p\"a\\ss/w'\u00f6<&>rd +$x%7~\ud83d\ude00"#,
            r#"p\\\"a\\\\ss/w'ö<&>rd +$x%7~😀"#,
            r#"p\\\"a\\\\ss/w'\\u00f6<&>rd +$x%7~\\ud83d\\ude00"#,
            "p_a_ss_w_ö___rd___x_7",
        ];
        for form in table {
            assert_eq!(secrets.hide(format!("a \"{form}\" b")), "a \"***\" b", "{form}");
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
                        assert!(shown.len() - 3 <= length(before) + length(after) + 4, "{text}: {shown}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_text_tells_a_value_by_all_of_its_lines() {
        let key = "name: prod\nMIIEvQ+IBADAN\nab\n";
        assert_eq!(leaking_line(key, "env:\n  name: prod\n"), None);
        assert_eq!(leaking_line(key, "env:\n  name: prod\n  key: |\n    MIIEvQ+IBADAN\n"), Some(2));
        assert_eq!(leaking_line("hunter2-hunter2", "url: \"me:hunter2-hunter2@host\""), Some(1));
        assert_eq!(leaking_line("short", "short"), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_text_is_hidden_as_it_is_and_in_json_however_it_comes(
            value in r#"[ -~]{3}[ -~\n\tö\u{7f}€😀"'/\\<&]{8,40}"#,
            size in 1..20_usize,
            before in ".{0,5}",
        ) {
            prop_assume!(HideFault::check(&value).is_none());
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
            ("", Some(HideFault::Empty)),
            (" \n", Some(HideFault::Empty)),
            ("1234567", Some(HideFault::Short)),
            ("1234567\n12345\n", Some(HideFault::Short)),
            ("12345678", None),
            ("öäüößßß8", None),
            ("key\n12345678\n", None),
        ];
        for (value, why) in cases {
            assert_eq!(HideFault::check(value), why, "{value:?}");
        }
        assert_eq!(HideFault::check(&"x".repeat(LONGEST + 1)), Some(HideFault::Long));
    }
}
