//! The names that an expression reads, found in its text. minijinja's own analysis misses some, and a missed name is a
//! missed edge. This analysis may find a name too many, never too few.

use std::{collections::BTreeSet, iter::Peekable, str::CharIndices};

/// What an expression reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct References {
    /// Identifiers that do not follow a dot: variables, and with them filters and the names of arguments.
    pub(crate) names: Vec<String>,
    /// The names after `steps.`, `params.`, `machine.` and `inputs.`.
    pub(crate) fields: Vec<Field>,
    /// `steps` in any other form: with a computed name, or whole.
    pub(crate) bare_steps: bool,
    /// Names behind a `|`.
    pub(crate) filters: Vec<String>,
    /// Names behind `is` or `is not`.
    pub(crate) tests: Vec<String>,
}

/// `steps.solo.out`: root, name, and the attribute behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// `steps`.
    pub(crate) root: &'static str,
    /// `solo`.
    pub(crate) name: String,
    /// `out`.
    pub(crate) attribute: Option<String>,
    /// For `.outputs.model` and `.metrics.top1`: `model`.
    pub(crate) member: Option<String>,
}

/// Names that are ours in every expression.
pub(crate) const ROOTS: [&str; 4] = ["params", "steps", "machine", "inputs"];

/// Words of the language, which no test has for a name.
pub(super) const WORDS: [&str; 7] = ["and", "or", "not", "in", "is", "if", "else"];

/// The names that an expression reads.
pub(crate) fn reads(text: &str) -> References {
    let tokens = tokens(text);
    let mut reads = References { filters: behind(&tokens, &[Token::Pipe]), ..References::default() };
    for is in [&["is"][..], &["is", "not"]] {
        let is: Vec<Token> = is.iter().map(|word| Token::Name((*word).to_owned())).collect();
        reads.tests.extend(behind(&tokens, &is).into_iter().filter(|name| !WORDS.contains(&&**name)));
    }
    let mut tokens = tokens.into_iter().peekable();
    let mut seen = BTreeSet::new();
    let mut after_dot = false;
    while let Some(token) = tokens.next() {
        match token {
            Token::Name(name) if !after_dot => {
                let root = ROOTS.into_iter().find(|r| *r == name);
                if let Some(root) = root {
                    let field = match root {
                        "inputs" => member(&mut tokens),
                        _ => attribute(&mut tokens),
                    };
                    match field {
                        Some(field) => {
                            let attribute_name = attribute(&mut tokens);
                            let member = match attribute_name.as_deref() {
                                Some("outputs" | "metrics") => member(&mut tokens),
                                _ => None,
                            };
                            reads.fields.push(Field { root, name: field, attribute: attribute_name, member });
                        }
                        None => reads.bare_steps |= root == "steps",
                    }
                }
                if seen.insert(name.clone()) {
                    reads.names.push(name);
                }
                after_dot = false;
            }
            Token::Dot => after_dot = true,
            _ => after_dot = false,
        }
    }
    reads
}

/// The dotted paths that an expression reads: `opt.lr` is `["opt", "lr"]`. An index is unknown, so `opt[x]` reads all
/// of `opt`. The name of an argument, as in `dict(opt=1)`, reads nothing.
pub(crate) fn paths(text: &str) -> Vec<Vec<String>> {
    let mut tokens = tokens(text).into_iter().peekable();
    let mut paths = Vec::new();
    let mut after_dot = false;
    while let Some(token) = tokens.next() {
        after_dot = match token {
            Token::Name(name) if !after_dot => {
                let mut next = tokens.clone();
                let is_argument = next.next() == Some(Token::Sign('=')) && next.next() != Some(Token::Sign('='));
                let mut path = vec![name];
                path.extend(std::iter::from_fn(|| attribute(&mut tokens)));
                paths.extend((!is_argument).then_some(path));
                false
            }
            other => other == Token::Dot,
        };
    }
    paths
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Name(String),
    /// A number, or the content of a text in quotes.
    Literal(String),
    Dot,
    Pipe,
    /// Any other character that is not blank.
    Sign(char),
}

/// The names that stand behind these tokens.
fn behind(tokens: &[Token], before: &[Token]) -> Vec<String> {
    let found = tokens.windows(before.len() + 1).filter_map(|some| match some.split_last() {
        Some((Token::Name(name), rest)) if rest == before => Some(name.clone()),
        _ => None,
    });
    found.collect()
}

/// The name behind a dot, if that comes next.
fn attribute(tokens: &mut Peekable<std::vec::IntoIter<Token>>) -> Option<String> {
    tokens.next_if_eq(&Token::Dot)?;
    match tokens.next() {
        Some(Token::Name(name)) => Some(name),
        _ => None,
    }
}

/// The name behind a dot, or the literal in brackets, if one of them comes next.
fn member(tokens: &mut Peekable<std::vec::IntoIter<Token>>) -> Option<String> {
    if tokens.peek() == Some(&Token::Dot) {
        return attribute(tokens);
    }
    let mut ahead = tokens.clone();
    ahead.next_if_eq(&Token::Sign('['))?;
    let Some(Token::Literal(text)) = ahead.next() else { return None };
    ahead.next_if_eq(&Token::Sign(']'))?;
    *tokens = ahead;
    Some(text)
}

pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some((start, c)) = chars.next() {
        if c == '"' || c == '\'' {
            skip_text(&mut chars, c);
            let end = chars.peek().map_or(text.len(), |(i, _)| *i);
            tokens.push(Token::Literal(text[start + 1..end].trim_end_matches(c).to_owned()));
        } else if c == '_' || c.is_alphabetic() {
            let mut end = start + c.len_utf8();
            while let Some((i, c)) = chars.next_if(|(_, c)| *c == '_' || c.is_alphanumeric()) {
                end = i + c.len_utf8();
            }
            tokens.push(Token::Name(text[start..end].to_owned()));
        } else if c.is_ascii_digit() {
            // So that the dot of `1.5` and the letter of `1e5` are no names.
            while chars.next_if(|(_, c)| c.is_alphanumeric() || *c == '.' || *c == '_').is_some() {}
            let end = chars.peek().map_or(text.len(), |(i, _)| *i);
            tokens.push(Token::Literal(text[start..end].to_owned()));
        } else if c == '.' {
            tokens.push(Token::Dot);
        } else if c == '|' {
            tokens.push(Token::Pipe);
        } else if !c.is_whitespace() {
            tokens.push(Token::Sign(c));
        }
    }
    tokens
}

fn skip_text(chars: &mut Peekable<CharIndices<'_>>, quote: char) {
    while let Some((_, c)) = chars.next() {
        if c == '\\' {
            chars.next();
        } else if c == quote {
            return;
        }
    }
}

/// The length of the expression at the start of `text`, up to its `}}`. Quotes and maps may contain `}}` without ending
/// it. `None` if nothing ends it.
pub(crate) fn end_of_expression(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut chars = text.char_indices().peekable();
    while let Some((i, c)) = chars.next() {
        match c {
            '"' | '\'' => skip_text(&mut chars, c),
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' if text[i..].starts_with("}}") => return Some(i),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str) -> Vec<String> {
        reads(text).fields.iter().filter(|f| f.root == "steps").map(|f| f.name.clone()).collect()
    }

    #[test]
    fn finds_steps_wherever_they_stand() {
        for (text, expected) in [
            ("steps.a.out", vec!["a"]),
            ("steps . a . out", vec!["a"]),
            ("'steps.a' ~ \"steps.b\"", vec![]),
            ("'it\\'s steps.a' ~ steps.b.out", vec!["b"]),
            ("x.steps.a", vec![]),
            ("(steps.a | where(version='v7')).out if machine.gpus else steps.b.out", vec!["a", "b"]),
            ("[steps.a, {'k': steps.b}]", vec!["a", "b"]),
            ("mysteps.a", vec![]),
            ("1.steps", vec![]),
        ] {
            assert_eq!(steps(text), expected, "{text}");
        }
        assert!(reads("steps['a']").bare_steps);
        assert!(reads("steps | length").bare_steps);
        assert!(!reads("steps.a").bare_steps);
        let field = &reads("steps.a.metrics.top1 > 0.5").fields[0];
        assert_eq!((field.attribute.as_deref(), field.member.as_deref()), (Some("metrics"), Some("top1")));
        for (text, member) in [
            ("steps.a.outputs['my model'] ~ x", Some("my model")),
            ("steps.a.outputs[0]", Some("0")),
            ("steps.a.outputs[x]", None),
            ("steps.a.outputs[0:1]", None),
        ] {
            assert_eq!(reads(text).fields[0].member.as_deref(), member, "{text}");
        }
        assert_eq!(reads("inputs['x y']").fields[0].name, "x y");
    }

    #[test]
    fn finds_filters_and_tests() {
        let found =
            reads("('a | b' | upper, x|where(v=1)|sort(attribute='c'), y is not none, z is odd, y is not (none))");
        assert_eq!(found.filters, ["upper", "where", "sort"]);
        assert_eq!(found.tests, ["odd", "none"]);
    }

    #[test]
    fn finds_the_end() {
        for (text, rest) in
            [(" a }} b", "}} b"), (" {'a': {}} }}", "}}"), (" '}}' }}x", "}}x"), (" {'a': {'b': 1}}}}", "}}")]
        {
            assert_eq!(end_of_expression(text).map(|i| &text[i..]), Some(rest), "{text}");
        }
        assert_eq!(end_of_expression(" a }"), None);
    }
}
