//! What may be parsed as an expression at all, and where in it values are weighed: before `+`, `~` and `*` make more of them, before
//! `in`, comparisons, slices and look-ups by key go through all of them, and where a list, a mapping, a slice or a text on the page
//! was made. One pass over the text, without recursion; does not know what values there are.
//!
//! minijinja parses and runs by recursion, so that a text which nests too deep overflows the stack, and its operators cannot be
//! replaced. So an operand of those that take as long as it is large gets a filter of ours behind it: `a * b` is compiled as
//! `a|_number * b|_number`, `a in b` as `a|_sized in b|_sized`.

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
/// The filter behind an operand of `~`.
pub(super) const TEXT: &str = "_text";
/// The filter behind an operand of `+`, `in` and of comparisons, and behind what was made.
pub(super) const SIZED: &str = "_sized";

/// The expression with its operands weighed. The error says what of it is too much.
pub(super) fn fenced(text: &str) -> Result<String, Diagnostic> {
    fence(text, false)
}

/// The same of a tag that may begin with `for x in`, which compares nothing.
fn fence(text: &str, is_loop: bool) -> Result<String, Diagnostic> {
    let too = |what: String| {
        let advice = "take it apart: a parameter can hold a part of it, a program can compute more";
        Err(Diagnostic::new(what).help(advice))
    };
    if text.len() > LONGEST {
        return too(format!("the expression has {} bytes, and {LONGEST} are the most", text.len()));
    }
    let mut fence = Fence { is_loop, ..Fence::new(text) };
    let mut rest = 0;
    while let Some((start, end, token)) = next(text, rest, fence.after == After::Dot) {
        fence.take(start, token);
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
            _ => done.push_str(&fence(inner, inner.split_whitespace().next() == Some("for"))?),
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
    /// `==`, `!=`, `<`, `<=`, `>` or `>=`.
    Compare,
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
        '=' | '!' | '<' | '>' if rest[1..].starts_with('=') => (2, Token::Compare),
        '<' | '>' => (1, Token::Compare),
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
    /// They are those of a mapping.
    is_map: bool,
    /// What is at hand is a key, or says which place.
    is_key: bool,
    /// Where, in what is done, they open, and where the operand at hand within them begins.
    opens: usize,
    operand: usize,
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
    /// The `in` of a loop is still to come.
    is_loop: bool,
}

impl<'a> Fence<'a> {
    fn new(text: &'a str) -> Self {
        let levels = vec![Level::default()];
        let (done, after) = (String::new(), After::Anything);
        Fence { text, done, copied: 0, end: 0, levels, links: 0, operand: false, after, is_loop: false }
    }

    fn take(&mut self, start: usize, token: Token<'_>) {
        let after = std::mem::replace(&mut self.after, After::Anything);
        match token {
            Token::Name("not") if after == After::Is => self.after = After::Is,
            Token::Name(_) if after == After::Is => (self.after, self.operand) = (After::Test, true),
            Token::Name("is") if !matches!(after, After::Dot | After::Pipe) => {
                self.link();
                self.after = After::Is;
            }
            Token::Name(word @ ("and" | "or" | "if" | "else" | "in" | "not"))
                if !matches!(after, After::Dot | After::Pipe) =>
            {
                match word {
                    "in" if std::mem::take(&mut self.is_loop) => self.operator(),
                    // The `not` of `not in`, or the `in` without one.
                    "in" | "not" if self.operand => self.weigh(SIZED),
                    _ => self.operator(),
                }
            }
            Token::Name(_) | Token::Literal => {
                // A word of a tag behind an expression.
                if after == After::Anything {
                    self.settle();
                    let at = self.place(start);
                    self.level().operand = at;
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
                let opens = self.place(start);
                if !self.operand {
                    self.level().operand = opens;
                }
                let is_map = bracket == '{';
                let is_key = is_map || kind == Brackets::Place;
                self.levels.push(Level { kind, is_map, is_key, opens, operand: opens + 1, ..Level::default() });
                self.operand = false;
            }
            Token::Close => self.close(),
            Token::Part(sign) => {
                self.settle();
                if sign == ':' && self.level().kind == Brackets::Place {
                    self.weigh_whole();
                }
                let level = self.level();
                level.filter = None;
                // Behind a colon stands a value, behind its comma the next key.
                level.is_key = sign == ',' && level.is_map;
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
            Token::Sign('+') if self.operand => self.weigh(SIZED),
            Token::Sign('~') if self.operand => self.weigh(TEXT),
            Token::Sign('*') if self.operand => self.weigh(NUMBER),
            Token::Compare if self.operand => self.weigh(SIZED),
            Token::Sign(_) | Token::Power | Token::Compare => self.operator(),
        }
    }

    fn level(&mut self) -> &mut Level {
        if self.levels.is_empty() {
            self.levels.push(Level::default());
        }
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    /// Where a place of the text behind what is copied comes to be in what is done.
    fn place(&self, at: usize) -> usize {
        self.done.len() + at - self.copied
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

    /// The brackets at hand take a part of the operand before them: to find it, all of that may be looked at.
    fn weigh_whole(&mut self) {
        self.copy();
        let level = self.level();
        level.kind = Brackets::Made;
        let opens = level.opens;
        let outer = self.levels.len().checked_sub(2).map_or(0, |outer| self.levels[outer].operand);
        self.done.insert_str(opens, &format!("|{SIZED})"));
        self.done.insert(outer, '(');
    }

    fn settle(&mut self) {
        if !self.operand {
            return;
        }
        let level = self.level();
        let filter = level.filter.take().or(level.is_key.then_some(SIZED));
        if let Some(filter) = filter {
            self.insert(filter);
        }
    }

    fn copy(&mut self) {
        self.done.push_str(&self.text[self.copied..self.end]);
        self.copied = self.end;
    }

    fn insert(&mut self, filter: &str) {
        self.copy();
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
            ("a~b * c", "a|_text~b|_number * c|_number"),
            ("-a * -b - c", "-a|_number * -b|_number - c"),
            ("a ** b * c ** 2 * d", "a ** b|_number * c|_number ** 2|_number * d|_number"),
            ("f(*a, b * 2, **c) * 2", "f(*a, b|_number * 2|_number, **c)|_number * 2|_number"),
            ("x | default(1) + 1.5e-3", "x | default(1)|_sized + 1.5e-3|_sized"),
            ("x is divisibleby -3 ~ y", "x is divisibleby -3|_text ~ y|_text"),
            ("x is odd + 1 if a.in * 2 else b", "x is odd|_sized + 1|_sized if a.in|_number * 2|_number else b"),
            (
                "'a * b' ~ \"it\\\"s\" ~ x[1 * 2:3].0.e",
                "'a * b'|_text ~ \"it\\\"s\"|_text ~ (x|_sized)[1|_number * 2|_number:3].0.e|_text",
            ),
            ("not a + b in c", "not a|_sized + b|_sized in c|_sized"),
            ("a not in b and not c", "a|_sized not in b|_sized and not c"),
            ("a == b if 1 < x.in <= 3 else y", "a|_sized == b|_sized if 1|_sized < x.in|_sized <= 3|_sized else y"),
            ("a != -b or f(k=a>b)", "a|_sized != -b|_sized or f(k=a|_sized>b|_sized)"),
            ("{'k': [1 + 2]}.k", "{'k'|_sized: [1|_sized + 2|_sized]|_sized}.k|_sized"),
            ("[a[1], b[2:][0]]", "[a[1|_sized], (b|_sized)[2|_sized:][0|_sized]|_sized]|_sized"),
            ("-a.b(c)[1:][d[:2]]", "-(a.b(c)|_sized)[1|_sized:][(d|_sized)[:2]|_sized]|_sized"),
            ("(a + b)[x:y][::2][0]", "(((a|_sized + b|_sized)|_sized)[x|_sized:y]|_sized)[::2][0|_sized]|_sized"),
            ("{a or b: c, d: e}[f or g]", "{a|_sized or b|_sized: c, d|_sized: e}[f|_sized or g|_sized]|_sized"),
            ("f([1])(x)|g(k=[2]) in [3]", "f([1]|_sized)(x)|g(k=[2]|_sized)|_sized in [3]|_sized"),
            (
                "2 * [1] if [] else [1][0] ~ 1",
                "2|_number * [1]|_number if []|_sized else [1][0|_sized]|_text ~ 1|_text",
            ),
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
                "{% set x = '%}'|_text ~ x|_text %}{{ ({'a'|_sized: {}|_sized}|_sized)|_sized }}",
            ),
            ("{% for x in [1] recursive %}{% endfor %}", "{% for x in [1]|_sized recursive %}{% endfor %}"),
            ("{%- for x, y in z if x in y %}{% endfor %}", "{%- for x, y in z if x|_sized in y|_sized %}{% endfor %}"),
            ("{% set x = y == z %}", "{% set x = y|_sized == z|_sized %}"),
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
