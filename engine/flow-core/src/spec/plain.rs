//! Large texts in plain YAML, as programs write workflows: a parser that knows all of YAML takes a second for ten megabytes of small steps
//! and four for as much of numbers, and this a tenth of that. Whatever is not plain, an anchor, a tag, a text over several lines,
//! a key that stands twice, anything wrong, is left to that parser, with the whole text, and so is what a person would write.

use serde_yaml::{Mapping, Number, Value};

/// So many bytes are a large text.
const LARGE: usize = 1 << 20;
/// Lists and mappings in one another; what nests deeper is not plain.
const DEEPEST: usize = 32;
/// YAML bounds the length of a key too.
const LONGEST_KEY: usize = 128;

/// The value of a text, if it is large and all of it is plain.
pub(super) fn read(text: &str) -> Option<Value> {
    (text.len() >= LARGE).then(|| read_plain(text)).flatten()
}

fn read_plain(text: &str) -> Option<Value> {
    if !is_printed(text) {
        return None;
    }
    let mut reader = Reader { text, at: 0, column: None, deep: 0 };
    reader.next_line();
    if reader.column != Some(0) {
        return None;
    }
    let value = reader.mapping(0)?;
    reader.column.is_none().then_some(value)
}

/// Nothing stands in it that YAML refuses, or that ends a line beside `\n`. Where tabs may stand YAML's own parser knows.
fn is_printed(text: &str) -> bool {
    let is_odd = |byte: &u8| (*byte < b' ' && *byte != b'\n') || *byte == 0x7F;
    let special =
        |c: char| matches!(c, '\u{80}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}');
    !text.as_bytes().iter().any(is_odd) && (text.is_ascii() || !text.contains(special))
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Where the line begins that was gone on to last, after its spaces; `None` at the end of the text.
    column: Option<usize>,
    deep: usize,
}

impl<'a> Reader<'a> {
    fn byte(&self) -> Option<u8> {
        self.byte_at(self.at)
    }

    fn byte_at(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// A blank or the end stands there, so that a colon or a hyphen before it means something.
    fn is_blank(&self, at: usize) -> bool {
        matches!(self.byte_at(at), None | Some(b' ' | b'\n'))
    }

    fn spaces(&mut self) {
        while self.byte() == Some(b' ') {
            self.at += 1;
        }
    }

    fn rest_of_line(&self) -> &'a str {
        let rest = &self.text[self.at..];
        rest.split_once('\n').map_or(rest, |(line, _)| line)
    }

    /// From where a line begins to the first one that is neither empty nor a remark.
    fn next_line(&mut self) {
        loop {
            let begin = self.at;
            self.spaces();
            match self.byte() {
                Some(b'\n') => self.at += 1,
                Some(b'#') => self.at = (self.at + self.rest_of_line().len() + 1).min(self.text.len()),
                other => {
                    self.column = other.map(|_| self.at - begin);
                    return;
                }
            }
        }
    }

    /// Nothing but a remark follows in this line; goes on to the next one.
    fn end_of_line(&mut self) -> Option<()> {
        let begin = self.at;
        self.spaces();
        match self.byte() {
            None | Some(b'\n') => {}
            Some(b'#') if self.at > begin => self.at += self.rest_of_line().len(),
            Some(_) => return None,
        }
        self.at = (self.at + 1).min(self.text.len());
        self.next_line();
        Some(())
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Option<Value>) -> Option<Value> {
        self.deep += 1;
        let value = if self.deep > DEEPEST { None } else { read(self) };
        self.deep -= 1;
        value
    }

    /// The next line goes on with what stands in this column. One further to the right would go on with the value before it.
    fn goes_on(&self, column: usize) -> Option<bool> {
        (self.column <= Some(column)).then_some(self.column == Some(column))
    }

    /// A mapping whose keys stand in this column, the first of them here.
    fn mapping(&mut self, column: usize) -> Option<Value> {
        let mut entries = Vec::new();
        loop {
            entries.push((self.key()?, self.value(column, true)?));
            if !self.goes_on(column)? {
                return mapping_of(entries);
            }
        }
    }

    /// A list whose hyphens stand in this column, the first of them here.
    fn list(&mut self, column: usize) -> Option<Value> {
        let mut list = Vec::new();
        loop {
            let begin = self.at;
            self.at += 1;
            self.spaces();
            let inside = column + self.at - begin;
            let first = self.at;
            // A mapping may begin behind the hyphen.
            let value = if self.key().is_some() {
                self.at = first;
                self.nested(|reader| reader.mapping(inside))?
            } else {
                self.at = first;
                self.value(column, false)?
            };
            list.push(value);
            if !self.goes_on(column)? || !self.is_item() {
                return Some(Value::Sequence(list));
            }
        }
    }

    fn is_item(&self) -> bool {
        self.byte() == Some(b'-') && self.is_blank(self.at + 1)
    }

    /// `key:`, which is a text. Its value comes behind a blank.
    fn key(&mut self) -> Option<Value> {
        let rest = &self.text[self.at..];
        let is_of_key = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let length = rest.bytes().take(LONGEST_KEY).take_while(|byte| is_of_key(*byte)).count();
        let key = &rest[..length];
        let is_key = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let colon = self.at + length;
        if !is_key || self.byte_at(colon) != Some(b':') || !self.is_blank(colon + 1) {
            return None;
        }
        self.at = colon + 1;
        scalar(key).filter(Value::is_string)
    }

    /// What stands behind a key or a hyphen in this column, in its line or in lines of its own; a list in lines of its own may stand
    /// below its key.
    fn value(&mut self, column: usize, below: bool) -> Option<Value> {
        self.spaces();
        match self.byte() {
            None | Some(b'\n' | b'#') => {
                // A remark wants a blank before it, which stands behind the colon or the hyphen.
                self.at -= usize::from(self.byte() == Some(b'#'));
                self.end_of_line()?;
                match self.column {
                    Some(inner) if inner > column => self.nested(|reader| reader.block(inner)),
                    Some(inner) if inner == column && below && self.is_item() => {
                        self.nested(|reader| reader.list(inner))
                    }
                    _ => Some(Value::Null),
                }
            }
            Some(b'|') => self.literal(column),
            Some(_) => {
                let value = self.within_line(false)?;
                self.end_of_line()?;
                Some(value)
            }
        }
    }

    /// What begins in a line of its own.
    fn block(&mut self, column: usize) -> Option<Value> {
        match self.byte()? {
            b'-' if self.is_blank(self.at + 1) => self.list(column),
            b'[' => {
                let value = self.within_line(false)?;
                self.end_of_line()?;
                Some(value)
            }
            _ => self.mapping(column),
        }
    }

    /// A scalar, or a list or mapping in brackets. `flow`: it stands in brackets itself.
    fn within_line(&mut self, flow: bool) -> Option<Value> {
        match self.byte()? {
            b'[' => self.nested(Self::flow_list),
            b'{' => self.nested(Self::flow_mapping),
            quote @ (b'"' | b'\'') => self.quoted(quote),
            _ => self.unquoted(flow),
        }
    }

    fn quoted(&mut self, quote: u8) -> Option<Value> {
        let rest = &self.rest_of_line()[1..];
        let length = rest.bytes().position(|byte| byte == quote)?;
        let text = &rest[..length];
        self.at += length + 2;
        let is_escaped = if quote == b'"' { text.contains('\\') } else { self.byte() == Some(quote) };
        (!is_escaped).then(|| Value::from(text))
    }

    fn unquoted(&mut self, flow: bool) -> Option<Value> {
        let bytes = self.text.as_bytes();
        let (begin, mut end) = (self.at, self.at);
        loop {
            match bytes.get(end) {
                None | Some(b'\n') => break,
                Some(b'#') if end > begin && bytes[end - 1] == b' ' => break,
                Some(b',' | b'[' | b']' | b'{' | b'}') if flow => break,
                Some(b':') if self.is_blank(end + 1) => return None,
                Some(b':') if flow && matches!(bytes[end + 1], b',' | b'?' | b'[' | b']' | b'{' | b'}') => return None,
                Some(_) => end += 1,
            }
        }
        let text = self.text[begin..end].trim_end_matches(' ');
        self.at = begin + text.len();
        scalar(text)
    }

    /// Blanks and ends of lines, which are the same in brackets. What stands at the beginning of a line could end the document.
    fn flow_blanks(&mut self) -> Option<()> {
        while let Some(byte @ (b' ' | b'\n')) = self.byte() {
            self.at += 1;
            if byte == b'\n' && matches!(self.byte(), Some(b'-' | b'.' | b'%')) {
                return None;
            }
        }
        Some(())
    }

    /// Goes past a comma, and says so, or past what closes.
    fn flow_goes_on(&mut self, close: u8) -> Option<bool> {
        self.flow_blanks()?;
        let byte = self.byte()?;
        self.at += 1;
        if byte == b',' {
            self.flow_blanks()?;
        }
        (byte == b',' || byte == close).then_some(byte == b',')
    }

    fn flow_list(&mut self) -> Option<Value> {
        let mut list = Vec::new();
        self.at += 1;
        self.flow_blanks()?;
        if self.byte()? == b']' {
            self.at += 1;
            return Some(Value::Sequence(list));
        }
        loop {
            list.push(self.within_line(true)?);
            if !self.flow_goes_on(b']')? {
                return Some(Value::Sequence(list));
            }
        }
    }

    fn flow_mapping(&mut self) -> Option<Value> {
        let mut entries = Vec::new();
        self.at += 1;
        self.flow_blanks()?;
        if self.byte()? == b'}' {
            self.at += 1;
            return mapping_of(entries);
        }
        loop {
            let key = self.key()?;
            self.spaces();
            entries.push((key, self.within_line(true)?));
            if !self.flow_goes_on(b'}')? {
                return mapping_of(entries);
            }
        }
    }

    /// `|` or `|-`, and its lines.
    fn literal(&mut self, column: usize) -> Option<Value> {
        let keeps_end = match self.rest_of_line() {
            "|" => true,
            "|-" => false,
            _ => return None,
        };
        self.at += self.rest_of_line().len() + 1;
        let indent = self.text.get(self.at..)?.bytes().take_while(|byte| *byte == b' ').count();
        let (mut text, mut empty) = (String::new(), 0);
        loop {
            let line = self.rest_of_line();
            let own = line.bytes().take_while(|byte| *byte == b' ').count();
            if line.is_empty() && self.at < self.text.len() && !text.is_empty() {
                empty += 1;
            } else if own < line.len() && own >= indent && indent > column {
                text.extend(std::iter::repeat_n('\n', empty));
                text.push_str(&line[indent..]);
                text.push('\n');
                empty = 0;
            } else if own < line.len() || line.is_empty() {
                break;
            } else {
                // How many blanks count of a line of blanks is a question for the parser.
                return None;
            }
            self.at += line.len() + 1;
            if self.at > self.text.len() {
                return None;
            }
        }
        if text.is_empty() {
            return None;
        }
        if !keeps_end {
            text.pop();
        }
        self.next_line();
        Some(Value::from(text))
    }
}

/// A mapping of so many entries and no room for more: most have two or three, and there may be a hundred thousand. None where a key
/// stands twice.
fn mapping_of(entries: Vec<(Value, Value)>) -> Option<Value> {
    let mut map = Mapping::with_capacity(entries.len());
    entries.into_iter().all(|(key, value)| map.insert(key, value).is_none()).then_some(Value::Mapping(map))
}

/// What a scalar without quotes is; none where its first character could mean something else.
pub(super) fn scalar(text: &str) -> Option<Value> {
    let mut bytes = text.bytes();
    match (bytes.next()?, bytes.next()) {
        (b'0'..=b'9' | b'+' | b'.' | b'~', _) | (b'-', Some(b'0'..=b'9' | b'.')) => {
            // There are more forms of numbers than JSON's.
            number(text).map(Value::Number).or_else(|| serde_yaml::from_str(text).ok())
        }
        (b'-', Some(b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'/' | b'-')) => Some(Value::from(text)),
        (b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'/' | b'$' | b'(' | b'<' | b'=' | b'^' | b'\\' | 0x80.., _) => {
            Some(match text {
                "null" | "Null" | "NULL" => Value::Null,
                "true" | "True" | "TRUE" => Value::Bool(true),
                "false" | "False" | "FALSE" => Value::Bool(false),
                _ => Value::from(text),
            })
        }
        _ => None,
    }
}

/// A number as JSON has it: YAML has the same, and others.
fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let whole = digits.bytes().take_while(u8::is_ascii_digit).count();
    if whole == 0 || (whole > 1 && digits.starts_with('0')) {
        return None;
    }
    if whole == digits.len() {
        return text.parse::<u64>().map(Number::from).or_else(|_| text.parse::<i64>().map(Number::from)).ok();
    }
    let (fraction, power) =
        digits[whole..].split_once(['e', 'E']).map_or((&digits[whole..], None), |(f, p)| (f, Some(p)));
    let some = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let sound = (fraction.is_empty() || fraction.strip_prefix('.').is_some_and(some))
        && power.is_none_or(|power| some(power.strip_prefix(['-', '+']).unwrap_or(power)));
    let number = text.parse::<f64>().ok().filter(|number| sound && number.is_finite())?;
    Some(number.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLAIN: &str = "
# A remark.
flow: 1
name: all   # and another
title: {en: all of it, zh: 全部}
params:
  sizes: [16, 32,
    64]
  empty: []
  nothing:
  lr: 1e-3
  on: True
  hex: 0x10
steps:
  one:
    run: python train.py --lr 0.1 'a:b' > out/1.txt
    outputs: [out/1.txt]
    env: {A: \"x, y\", B: 'it''s'}
  two:
    inputs:
    - a.txt
    - {path: b, by: listing}
    run: |
      first

        second # as it is
      third

publish:
  - from: two
    to: ../x.md
  - {from: two, whats_new: ../y.md}
";

    #[test]
    fn a_plain_text_is_read_without_the_parser() {
        let text = PLAIN.replace("it''s", "its");
        assert_eq!(read_plain(&text), serde_yaml::from_str(&text).ok());
        assert!(read_plain(&text).is_some());
    }

    #[test]
    fn a_small_text_is_for_the_parser() {
        let large = PLAIN.replace("it''s", "its").replace("# A remark.", &format!("#{}", " ".repeat(LARGE)));
        assert!(read(&large).is_some() && read(&large[LARGE..]).is_none());
    }

    #[test]
    fn what_is_not_plain_is_left_to_the_parser() {
        for other in [
            PLAIN,
            "",
            "- a",
            "a",
            "a: &x 1\nb: *x",
            "a: 1\na: 2",
            "a: !t 1",
            "a: b\n  c",
            "a: b: c",
            "a:\n  b\n",
            "a: \"\\n\"",
            "a: [b: c]",
            "a: {b}",
            "a: [1, 2",
            "a: [b\n  c]",
            "a: > \n  b",
            "a: 1\n---\nb: 2",
            "a: 1\r\n",
            "a:\t1",
            "<<: {a: 1}",
            "a: [1, ]",
            "null: 1",
        ] {
            assert_eq!(read_plain(other), None, "{other:?}");
        }
    }

    fn pieces() -> impl Strategy<Value = &'static str> {
        proptest::sample::select(PIECES.split('·').collect::<Vec<_>>())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn a_plain_text_has_the_value_that_the_parser_gives_it(pieces in proptest::collection::vec(pieces(), 1..16)) {
            let text = format!("a: {}", pieces.concat());
            if let Some(value) = read_plain(&text) {
                let parsed = serde_yaml::from_str::<Value>(&text);
                prop_assert_eq!(Some(value), parsed.ok(), "{:?}", text);
            }
        }
    }

    /// Parted by `·`.
    const PIECES: &str = "\n·\na: ·\nb: ·\n  c: ·\n  d:·\n    e: ·\n- ·\n  - ·\n    - ·\n---\n·\n...\n·f: ·g:·- ·? ·: · ·   ·\n    ·\n  ·[1, 2]·\
        {h: 3, i: 4}·[·]·{·}·, ·,·7·-0.5·0o7·1e3·18446744073709551615·-0·1.·2.5E-3·+5·007·.·~·null·true·text·a b·a-b·全部·\"x y\"·'x'·'·\"·#· # r·|\n·|-\n·>\n·\
        &x ·*x·!t ·<<: ·%·@·`·-·--lr·${{ n }}·x:y·\\·\nz: |\n   ·\n   w·\t·\r\n·\u{85}";
}
