//! Long lists of numbers, which are data: a parser of YAML takes half a microsecond for each of them, and this a hundredth of that.
//! They are taken out of the text before it is parsed, and put back into what it comes to. Whether one stood where a list can
//! stand the parser tells: what took its place is found there, once, or nothing is taken out.

use std::fmt::Write;

use serde_yaml::{Number, Value};

/// What stands in the text for the list of that number.
const NAME: &str = "flow-list-";

/// What was taken out of a text.
#[derive(Default)]
pub(super) struct Lists(Vec<Option<Vec<Value>>>);

/// The value of a text without its lists of numbers that have so many at `least`. `None` where there are none, or the parser has to
/// see them.
pub(super) fn read(text: &str, least: usize) -> Option<(Value, Lists)> {
    let (mut lists, mut rest, mut from, mut at) = (Vec::new(), String::new(), 0, 0);
    while let Some(open) = text[at..].find('[').map(|found| at + found) {
        at = open + 1;
        if let Some((numbers, length)) = list(&text[at..]).filter(|(numbers, _)| numbers.len() >= least) {
            _ = write!(rest, "{}[{NAME}{}]", &text[from..open], lists.len());
            lists.push(Some(numbers));
            at += length;
            from = at;
        }
    }
    if lists.is_empty() || text.contains(NAME) {
        return None;
    }
    rest.push_str(&text[from..]);
    let mut value = serde_yaml::from_str(&rest).ok()?;
    // One that an alias names stands in two places.
    let mut found = vec![0; lists.len()];
    each(&mut value, &mut |number, _| found[number] += 1);
    found.iter().all(|times| *times == 1).then_some((value, Lists(lists)))
}

impl Lists {
    /// Puts them where they stood, or were merged to.
    pub(super) fn put_back(mut self, value: &mut Value) {
        if !self.0.is_empty() {
            each(value, &mut |number, list| *list = self.0.get_mut(number).and_then(Option::take).unwrap_or_default());
        }
    }
}

/// What stands for a list of numbers, with its number.
fn each(value: &mut Value, see: &mut dyn FnMut(usize, &mut Vec<Value>)) {
    match value {
        Value::Sequence(list) => {
            let name = if let [Value::String(name)] = &list[..] { name.strip_prefix(NAME) } else { None };
            match name.and_then(|number| number.parse().ok()) {
                Some(number) => see(number, list),
                None => list.iter_mut().for_each(|value| each(value, see)),
            }
        }
        Value::Mapping(map) => map.iter_mut().for_each(|(_, value)| each(value, see)),
        Value::Tagged(tagged) => each(&mut tagged.value, see),
        _ => {}
    }
}

/// The numbers up to a closing bracket, and how long that is; `None` where anything else stands between.
fn list(text: &str) -> Option<(Vec<Value>, usize)> {
    let bytes = text.as_bytes();
    let blank = |mut at: usize| {
        while matches!(bytes.get(at), Some(b' ' | b'\n')) {
            at += 1;
        }
        at
    };
    let (mut numbers, mut at) = (Vec::new(), 0);
    loop {
        at = blank(at);
        let begin = at;
        while matches!(bytes.get(at), Some(b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')) {
            at += 1;
        }
        numbers.push(Value::Number(number(&text[begin..at])?));
        at = blank(at);
        match bytes.get(at)? {
            b',' => at += 1,
            b']' => return Some((numbers, at + 1)),
            _ => return None,
        }
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

    fn whole(text: &str, least: usize) -> Option<Value> {
        let (mut value, lists) = read(text, least)?;
        lists.put_back(&mut value);
        Some(value)
    }

    #[test]
    fn long_lists_are_read_wherever_they_stand() {
        let text = "a: [1, -2, 0,\n3.5,  -0.25e+2 , 18446744073709551615] # [1, 2]\nb: {c: [4, 5], d: &x [6]}\ne: 'no [7, 8]'\n";
        assert_eq!(whole(text, 2), None, "one stands in a text");
        let text = text.replace("no [7, 8]", "none").replace("# [1, 2]", "# none");
        let value = whole(&text, 2).unwrap();
        assert_eq!(value, serde_yaml::from_str::<Value>(&text).unwrap());
        for other in
            ["a: [1, 07]", "a: [1, 2] b", "a: [1 2]", "a: [1, .5]", "[1, 2]: a", "a: &x [1, 2]\nb: *x", "a: [1"]
        {
            assert_eq!(whole(other, 1), None, "{other}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn a_text_has_the_value_that_the_parser_gives_it(pieces in proptest::collection::vec(proptest::sample::select(PIECES), 1..24)) {
            let text = pieces.concat();
            if let Some(value) = whole(&text, 1) {
                let parsed = serde_yaml::from_str::<Value>(&text);
                prop_assert_eq!(Some(value), parsed.ok(), "{:?}", text);
            }
        }
    }

    const PIECES: &[&str] = &[
        "a: ",
        "b: ",
        "c: ",
        "- ",
        "? ",
        ": ",
        "\n",
        "\n  ",
        "\n    ",
        " ",
        "[1, 2]",
        "[3,\n4]",
        "[-0.5, 1e3]",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "7",
        "'",
        "\"",
        "#",
        " # ",
        "|\n",
        ">\n",
        "&x ",
        "*x",
        "!t ",
        "---\n",
        "text",
    ];
}
