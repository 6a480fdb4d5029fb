//! What may be parsed as an expression at all, and where in it values are weighed: before `+`, `~` and `*` make more of them, and
//! where a list, a mapping, a slice or a text on the page was made. One pass over the text, without recursion; does not know what values there are.
//!
//! minijinja parses and runs by recursion, so that a text which nests too deep overflows the stack, and its operators cannot be
//! replaced. So an operand of these three gets a filter of ours behind it: `a * b` is compiled as `a|_number * b|_number`.

use super::scan::{end_of_expression, end_of_text};
use crate::Diagnostic;

/// Bytes of an expression.
const LONGEST: usize = 64 << 10;
/// Brackets in one another.
const DEEPEST: usize = 40;
/// Operators, dots, filters and the like that hang on one another.
const LINKS: usize = 250;

/// The filter behind an operand of `*`.
pub(super) const NUMBER: &str = "_number";
/// The filter behind an operand of `+` and `~`, and behind what was made.
pub(super) const SIZED: &str = "_sized";

/// The expression with its operands weighed. The error says what of it is too much.
pub(super) fn fenced(text: &str) -> Result<String, Diagnostic> {
    let too = |what: String| {
        let advice = "take it apart: a parameter can hold a part of it, a program can compute more";
        Err(Diagnostic::new(what).help(advice))
    };
    if text.len() > LONGEST {
        return too(format!("the expression has {} bytes, and {LONGEST} are the most", text.len()));
    }
    let mut fence = Fence::new(text);
    let mut rest = 0;
    while let Some((start, end, token)) = next(text, rest, fence.after == After::Dot) {
        fence.take(token);
        (fence.end, rest) = (end, end);
        if fence.levels.len() > DEEPEST {
            return too(format!("the expression has more than {DEEPEST} brackets in one another"));
        }
        if fence.links > LINKS {
            let what = "operators, dots and filters that hang on one another";
            return too(format!("the expression has more than {LINKS} {what}, the last of them at its byte {start}"));
        }
    }
    fence.settle();
    Ok(fence.done + &text[fence.copied..])
}

/// A whole template of minijinja's with the expressions in its tags fenced.
pub(super) fn fenced_template(text: &str) -> Result<String, Diagnostic> {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    let opens = |rest: &str| {
        let tag = |at: &usize| rest[at + 1..].starts_with(['{', '%', '#']);
        rest.match_indices('{').map(|(at, _)| at).find(tag)
    };
    while let Some(open) = opens(rest) {
        let inside = &rest[open + 2..];
        let end = match &rest[open..open + 2] {
            "{{" => end_of_expression(inside),
            "{%" => end_of_tag(inside),
            _ => None,
        };
        // A comment goes as it is, and what nothing closes is the parser's to tell.
        let Some(end) = end else {
            let behind = inside.find("#}").filter(|_| rest[open..].starts_with("{#")).unwrap_or(inside.len());
            done.push_str(&rest[..open + 2 + behind]);
            rest = &inside[behind..];
            continue;
        };
        let inner = inside[..end].trim_matches(['-', '+']);
        let from = inside[..end].find(inner).unwrap_or(0);
        done.push_str(&rest[..open + 2 + from]);
        // What is shown can be caught again in a variable, and shown twice.
        match &rest[open..open + 2] {
            "{{" => done.push_str(&format!("({})|{SIZED}", fenced(inner)?)),
            _ => done.push_str(&fenced(inner)?),
        }
        rest = &inside[from + inner.len()..];
        if inner.trim() == "raw" {
            let behind = rest.find("endraw").unwrap_or(rest.len());
            done.push_str(&rest[..behind]);
            rest = &rest[behind..];
        }
    }
    Ok(done + rest)
}

fn end_of_tag(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        let next = at + text[at..].find(['"', '\'', '%'])?;
        if text[next..].starts_with("%}") {
            return Some(next);
        }
        at = next + if text[next..].starts_with('%') { 1 } else { end_of_text(&text[next..]) };
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Token<'a> {
    /// A number or a text in quotes.
    Literal,
    Name(&'a str),
    Open(char),
    Close,
    /// What parts the members of a list, or the two sides of a member or of a slice.
    Part(char),
    Power,
    Sign(char),
}

/// The token at or behind a byte, with where it begins and ends.
fn next(text: &str, from: usize, after_dot: bool) -> Option<(usize, usize, Token<'_>)> {
    let rest = text[from..].trim_start();
    let (start, first) = (text.len() - rest.len(), rest.chars().next()?);
    let word = |c: char| c == '_' || c.is_alphanumeric();
    let (length, token) = match first {
        '"' | '\'' => (end_of_text(rest), Token::Literal),
        '0'..='9' => (end_of_number(rest.as_bytes(), after_dot), Token::Literal),
        c if word(c) => {
            let length = rest.find(|c| !word(c)).unwrap_or(rest.len());
            (length, Token::Name(&rest[..length]))
        }
        '(' | '[' | '{' => (1, Token::Open(first)),
        ')' | ']' | '}' => (1, Token::Close),
        ',' | ':' => (1, Token::Part(first)),
        '*' if rest.starts_with("**") => (2, Token::Power),
        c => (c.len_utf8(), Token::Sign(c)),
    };
    Some((start, start + length, token))
}

/// As minijinja reads numbers: `0xff`, `1_000`, `1.5e-3`, and `1` of `1.real`; behind a dot only the whole part.
fn end_of_number(text: &[u8], after_dot: bool) -> usize {
    let radix = matches!(text.get(..2), Some([b'0', b'b' | b'B' | b'o' | b'O' | b'x' | b'X']));
    if radix {
        return 2 + text[2..].iter().take_while(|c| c.is_ascii_hexdigit() || **c == b'_').count();
    }
    let digits = |from: usize| from + text[from..].iter().take_while(|c| c.is_ascii_digit() || **c == b'_').count();
    let exponent = |from: usize| {
        matches!(text.get(from), Some(b'e' | b'E')) && matches!(text.get(from + 1), Some(b'+' | b'-' | b'0'..=b'9'))
    };
    let mut end = digits(0);
    if text.get(end) == Some(&b'.') && !after_dot {
        let name = text.get(end + 1).is_some_and(|c| c.is_ascii_alphabetic() || *c == b'_' || !c.is_ascii());
        if name && !exponent(end + 1) {
            return end;
        }
        end = digits(end + 1);
    }
    if exponent(end) { digits(end + 2) } else { end }
}

/// What the token before was, where that decides what the next one is.
#[derive(Clone, Copy, PartialEq)]
enum After {
    Anything,
    Dot,
    Pipe,
    Is,
    /// The name of a test, which takes what follows as its argument.
    Test,
}

#[derive(Default)]
struct Level {
    /// Links of the member at hand, and of the longest member before it.
    links: usize,
    longest: usize,
    /// The filter that belongs behind the operand at hand.
    filter: Option<&'static str>,
    /// The brackets are those of a list or a mapping, or of a place in one.
    kind: Brackets,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Brackets {
    #[default]
    Other,
    Place,
    /// What they hold is new.
    Made,
}

struct Fence<'a> {
    text: &'a str,
    done: String,
    /// Bytes of the text that are in `done`.
    copied: usize,
    /// Where the token before ended.
    end: usize,
    levels: Vec<Level>,
    /// Links of all levels.
    links: usize,
    /// The token before ended an operand.
    operand: bool,
    after: After,
}

impl<'a> Fence<'a> {
    fn new(text: &'a str) -> Self {
        let levels = vec![Level::default()];
        Fence { text, done: String::new(), copied: 0, end: 0, levels, links: 0, operand: false, after: After::Anything }
    }

    fn take(&mut self, token: Token<'_>) {
        let after = std::mem::replace(&mut self.after, After::Anything);
        match token {
            Token::Name("not") if after == After::Is => self.after = After::Is,
            Token::Name(_) if after == After::Is => (self.after, self.operand) = (After::Test, true),
            Token::Name("is") if !matches!(after, After::Dot | After::Pipe) => {
                self.link();
                self.after = After::Is;
            }
            Token::Name("and" | "or" | "if" | "else" | "in" | "not") if !matches!(after, After::Dot | After::Pipe) => {
                self.operator();
            }
            Token::Name(_) | Token::Literal => {
                // A word of a tag behind an expression.
                if after == After::Anything {
                    self.settle();
                }
                self.operand = true;
            }
            Token::Open(bracket) => {
                self.link();
                let kind = match bracket {
                    '[' if self.operand => Brackets::Place,
                    '[' | '{' => Brackets::Made,
                    _ => Brackets::Other,
                };
                self.levels.push(Level { kind, ..Level::default() });
                self.operand = false;
            }
            Token::Close => self.close(),
            Token::Part(sign) => {
                self.settle();
                let level = self.level();
                level.filter = None;
                if sign == ':' && level.kind == Brackets::Place {
                    level.kind = Brackets::Made;
                }
                level.longest = level.longest.max(level.links);
                let links = std::mem::take(&mut level.links);
                self.links -= links;
                self.operand = false;
            }
            Token::Sign('.') => {
                self.link();
                self.after = After::Dot;
            }
            Token::Sign('|') => {
                self.link();
                self.after = After::Pipe;
            }
            Token::Sign('-') if after == After::Test => {
                self.link();
                self.operand = false;
            }
            Token::Sign('+' | '~') if self.operand => self.weigh(SIZED),
            Token::Sign('*') if self.operand => self.weigh(NUMBER),
            Token::Sign(_) | Token::Power => self.operator(),
        }
    }

    fn level(&mut self) -> &mut Level {
        if self.levels.is_empty() {
            self.levels.push(Level::default());
        }
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    fn link(&mut self) {
        self.level().links += 1;
        self.links += 1;
    }

    /// An operator that makes nothing of its operands that would be larger; without one before it, a sign of the next.
    fn operator(&mut self) {
        self.settle();
        self.link();
        self.operand = false;
    }

    /// An operator whose operands are weighed.
    fn weigh(&mut self, filter: &'static str) {
        let before = self.level().filter.replace(filter);
        self.insert(if before == Some(NUMBER) { NUMBER } else { filter });
        self.link();
        self.operand = false;
    }

    /// An operand ends.
    fn settle(&mut self) {
        if !self.operand {
            return;
        }
        if let Some(filter) = self.level().filter.take() {
            self.insert(filter);
        }
    }

    fn insert(&mut self, filter: &str) {
        self.done.push_str(&self.text[self.copied..self.end]);
        self.copied = self.end;
        self.done.push('|');
        self.done.push_str(filter);
    }

    fn close(&mut self) {
        self.settle();
        if let Some(level) = self.levels.pop() {
            let within = level.longest.max(level.links);
            self.links = self.links - level.links + within;
            let outer = self.level();
            outer.links += within;
            if level.kind == Brackets::Made {
                outer.filter.get_or_insert(SIZED);
            }
        }
        self.operand = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_weighed_where_they_end() {
        for (text, expected) in [
            ("a", "a"),
            ("a + b", "a|_sized + b|_sized"),
            ("a~b * c", "a|_sized~b|_number * c|_number"),
            ("-a * -b - c", "-a|_number * -b|_number - c"),
            ("a ** b * c ** 2 * d", "a ** b|_number * c|_number ** 2|_number * d|_number"),
            ("f(*a, b * 2, **c) * 2", "f(*a, b|_number * 2|_number, **c)|_number * 2|_number"),
            ("x | default(1) + 1.5e-3", "x | default(1)|_sized + 1.5e-3|_sized"),
            ("x is divisibleby -3 ~ y", "x is divisibleby -3|_sized ~ y|_sized"),
            ("x is odd + 1 if a.in * 2 else b", "x is odd|_sized + 1|_sized if a.in|_number * 2|_number else b"),
            (
                "'a * b' ~ \"it\\\"s\" ~ x[1 * 2:3].0.e",
                "'a * b'|_sized ~ \"it\\\"s\"|_sized ~ x[1|_number * 2|_number:3].0.e|_sized",
            ),
            ("not a + b in c", "not a|_sized + b|_sized in c"),
            ("{'k': [1 + 2]}.k", "{'k': [1|_sized + 2|_sized]|_sized}.k|_sized"),
            ("[a[1], b[2:][0]]", "[a[1], b[2:][0]|_sized]|_sized"),
            ("f([1])(x)|g(k=[2]) in [3]", "f([1]|_sized)(x)|g(k=[2]|_sized) in [3]|_sized"),
            ("2 * [1] if [] else [1][0] ~ 1", "2|_number * [1]|_number if []|_sized else [1][0]|_sized ~ 1|_sized"),
            ("1 + + 2) * ", "1|_sized + + 2|_sized)|_number * "),
        ] {
            assert_eq!(fenced(text).expect(text), expected);
        }
    }

    #[test]
    fn templates_are_fenced_in_their_tags() {
        for (text, expected) in [
            ("a + b {{- a + b -}} {# a + b #} c", "a + b {{- ( a|_sized + b|_sized )|_sized -}} {# a + b #} c"),
            (
                "{% set x = '%}' ~ x %}{{ {'a': {}} }}",
                "{% set x = '%}'|_sized ~ x|_sized %}{{ ({'a': {}|_sized}|_sized)|_sized }}",
            ),
            ("{% for x in [1] recursive %}{% endfor %}", "{% for x in [1]|_sized recursive %}{% endfor %}"),
            ("{% for x in y * 2 %}*{% endfor %}", "{% for x in y|_number * 2|_number %}*{% endfor %}"),
            ("{% raw %}{{ a + b }}{% endraw %}{{ c", "{% raw %}{{ a + b }}{% endraw %}{{ c"),
        ] {
            let found = fenced_template(text).expect(text);
            assert_eq!(found.replace(' ', ""), expected.replace(' ', ""), "{text}");
        }
    }

    #[test]
    fn what_is_too_deep_is_refused() {
        let brackets = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        assert!(fenced(&brackets(30)).is_ok());
        for text in [
            brackets(60),
            "(".repeat(100_000),
            "1+".repeat(200_000),
            "1+".repeat(300) + "1",
            "not ".repeat(300) + "x",
            "-".repeat(300) + "1",
            "a.b".repeat(300),
            "1 if x else ".repeat(300) + "1",
            "x|f".repeat(300),
            "(a + b + c)".repeat(120),
        ] {
            let refused = fenced(&text).map(drop).map_err(|d| d.to_string());
            assert!(refused.as_ref().is_err_and(|words| words.contains("take it apart")), "{text}: {refused:?}");
        }
        // Long is not deep.
        assert!(fenced(&format!("[{}]", "a.b * 2, ".repeat(5000))).is_ok());
        assert!(fenced(&format!("[{}]", "(a + b), ".repeat(5000))).is_ok());
    }
}
