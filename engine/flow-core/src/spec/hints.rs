//! Guesses at mistakes in a text that is invalid YAML, or that YAML reads differently than the author meant: `${{`
//! without quotes, a colon from a Chinese keyboard, a tab. Made only after an error.

use std::ops::Range;

use crate::Diagnostic;

/// Why a text has no value.
pub(super) enum Unreadable {
    /// Brackets nest too deep; the byte of the innermost.
    TooDeep { index: usize },
    /// The parser's words, and the byte at which it stopped.
    Parser { words: String, index: Option<usize> },
}

impl From<serde_yaml::Error> for Unreadable {
    fn from(error: serde_yaml::Error) -> Unreadable {
        let (words, index) = (words(&error), error.location().map(|l| l.index()));
        // Of a byte that it does not take the parser says the place in words.
        match words.split_once(" at position ").map(|(words, at)| (words, at.parse().ok())) {
            Some((words, at)) => Unreadable::Parser { words: words.to_owned(), index: at.or(index) },
            None if words.contains("recursion limit") => Unreadable::TooDeep { index: index.unwrap_or(0) },
            None => Unreadable::Parser { words, index },
        }
    }
}

/// The parser's words without its own idea of line and column.
pub(crate) fn words(error: &serde_yaml::Error) -> String {
    let words = error.to_string();
    words.split(" at line ").next().unwrap_or(&words).to_owned()
}

/// Characters of a Chinese keyboard, with those that YAML and expressions expect.
const FULL_WIDTH: [(char, &str); 22] = [
    ('，', ","),
    ('：', ":"),
    ('；', ";"),
    ('“', "\""),
    ('”', "\""),
    ('‘', "'"),
    ('’', "'"),
    ('（', "("),
    ('）', ")"),
    ('【', "["),
    ('】', "]"),
    ('［', "["),
    ('］', "]"),
    ('｛', "{"),
    ('｝', "}"),
    ('＝', "="),
    ('＜', "<"),
    ('＞', ">"),
    ('！', "!"),
    ('＄', "$"),
    ('、', ","),
    ('\u{3000}', " "),
];

/// The advice for a text that has a full-width colon where a key would end, or full-width signs among ASCII.
pub(super) fn full_width(text: &str) -> Option<String> {
    let first = text.lines().next()?;
    if let Some(colon) = first.find('：') {
        let key = first[..colon].trim();
        let word = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if word {
            return Some(format!("`：` is a full-width colon; write `{key}: ` with the ASCII one and a space"));
        }
    }
    let mut signs: Vec<(char, &str)> = Vec::new();
    for c in first.chars() {
        match FULL_WIDTH.iter().find(|(wide, _)| *wide == c) {
            Some(sign) if !signs.contains(sign) => signs.push(*sign),
            Some(_) => {}
            // In a text of the author's these are as they should be.
            None if !c.is_ascii() => return None,
            None => {}
        }
    }
    let advice: Vec<String> =
        signs.iter().map(|(wide, ascii)| format!("`{ascii}` for the full-width `{wide}`")).collect();
    (!advice.is_empty()).then(|| format!("write {}", advice.join(", ")))
}

/// Plain texts in `{…}` or `[…]` that a full-width comma was to part: no comma of YAML's, and nothing else that is not ASCII.
pub(super) fn full_width_commas(text: &str) -> Vec<Range<usize>> {
    if !text.contains('，') {
        return Vec::new();
    }
    let parted = |range: &Range<usize>| {
        let plain = &text[range.clone()];
        plain.contains('，') && plain.chars().all(|c| c.is_ascii() || c == '，')
    };
    scan(text).plain.into_iter().filter(parted).collect()
}

/// The diagnostics for a text that is refused.
pub(super) fn no_yaml(text: &str, why: &Unreadable) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    let Scan { plain, open_quote, .. } = scan(text);
    for span in plain.into_iter().filter(|span| text[span.clone()].contains("${{")) {
        let whole = &text[span.clone()];
        let quoted = match (whole.contains('"'), whole.contains('\'')) {
            (false, _) => format!("write \"{whole}\""),
            (true, false) => format!("write '{whole}'"),
            (true, true) => "write the step on separate lines, without braces".to_owned(),
        };
        let what = Diagnostic::new("`${{` is unquoted inside `{…}` or `[…]`, which is not valid YAML");
        found.push(at(span, what.label("quote it").help(quoted)));
    }
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_start_matches([' ', '-']);
        if let Some(help) = full_width(bare) {
            let from = start + line.len() - bare.len();
            let to = from + bare.find('：').map_or(0, |i| i + '：'.len_utf8());
            found.push(at(from..to, Diagnostic::new("a full-width colon does not end a key").help(help)));
        }
        if line.starts_with([' ', '\t']) && line[..line.len() - line.trim_start().len()].contains('\t') {
            let tab = start + line.find('\t').unwrap_or(0);
            found.push(at(tab..tab + 1, Diagnostic::new("a tab indents this line").help("use spaces")));
        }
        start += line.len();
    }
    let (words, index) = match why {
        Unreadable::TooDeep { index } => (&*super::too_deep(), *index),
        Unreadable::Parser { words, index } => (&**words, index.unwrap_or(0)),
    };
    let mut from = index.min(text.len());
    while !text.is_char_boundary(from) {
        from -= 1;
    }
    // The parser stops at the line of a mistake or at the next; what it says there adds nothing.
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let line = |at: usize| ends.partition_point(|end| *end < at);
    let guessed =
        |d: &Diagnostic| d.span.as_ref().is_some_and(|s| (line(s.start)..=line(s.start) + 1).contains(&line(from)));
    if !found.iter().any(guessed) {
        let second = text.match_indices("\n---").map(|(at, _)| at + 1).find(|at| !text[..*at].trim().is_empty());
        let mut diagnostic = Diagnostic::new(format!("this is not valid YAML: {words}"));
        match (open_quote, second) {
            (Some(quote), _) if words.contains("end of stream") => {
                from = quote;
                diagnostic = Diagnostic::new("the quote that opens here is not closed");
            }
            (_, Some(second)) if words.contains("more than one document") => {
                from = second;
                diagnostic = Diagnostic::new("a second document begins here")
                    .help("a workflow is one document; leave `---` out");
            }
            _ if matches!(why, Unreadable::TooDeep { .. }) => {
                diagnostic = Diagnostic::new(words).help("move the deeper part into another file");
            }
            _ if words.contains("repetition limit") => {
                let alias =
                    |(at, _): (usize, &str)| text[at + 1..].starts_with(|c: char| c.is_alphanumeric()).then_some(at);
                from = text.match_indices('*').filter_map(alias).next_back().unwrap_or(from);
                diagnostic = Diagnostic::new("the aliases expand to more values than a workflow can have")
                    .help("`*name` copies everything below `&name`, with the aliases in it");
            }
            _ if words.contains("mapping values") => diagnostic = diagnostic.help("quote a text that contains `: `"),
            _ if words.contains("did not find expected key") => {
                diagnostic =
                    diagnostic.help("the keys of one mapping begin in one column; close an open `{`, `[` or quote");
            }
            _ if words.contains("128") => {
                diagnostic =
                    Diagnostic::new("a whole number is too large").help(format!("{} is the largest", u64::MAX));
            }
            _ => {}
        }
        let begin = text[..from].rfind('\n').map_or(0, |n| n + 1);
        if let Some(help) = full_width(&text[begin..]) {
            diagnostic = diagnostic.help(help);
        }
        let end = from + text[from..].chars().next().filter(|c| *c != '\n').map_or(0, char::len_utf8);
        found.push(at(from..end, diagnostic));
    }
    found.sort_by_key(|d| d.span.as_ref().map(|s| s.start));
    found
}

fn at(span: Range<usize>, mut diagnostic: Diagnostic) -> Diagnostic {
    diagnostic.span = Some(span);
    diagnostic
}

/// The place of brackets that nest deeper than this, as far as quotes and blocks show it.
pub(super) fn deeper(text: &str, most: usize) -> Option<usize> {
    // Most texts have not even so many of them.
    text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).nth(most)?;
    scan(text).deepest.filter(|(depth, _)| *depth > most).map(|(_, at)| at)
}

/// The contents of a text, as far as quotes and brackets show them.
struct Scan {
    /// The most brackets in one another, and where the innermost opens.
    deepest: Option<(usize, usize)>,
    /// Plain texts inside a flow collection.
    plain: Vec<Range<usize>>,
    /// A quote that nothing closes.
    open_quote: Option<usize>,
}

fn scan(text: &str) -> Scan {
    let mut plain = Vec::new();
    let mut depth = 0usize;
    // Of those that are equally deep the first.
    let mut deepest: Option<(usize, usize)> = None;
    let mut block: Option<usize> = None;
    let mut quote: Option<(char, usize)> = None;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let blank = line.trim().is_empty();
        if block.is_some_and(|base| blank || indent > base) {
            start += line.len();
            continue;
        }
        block = None;
        // A token may begin here; inside of a plain text brackets are letters.
        let mut fresh = true;
        let mut skip_to = 0;
        let mut previous = '\n';
        let mut token: Option<usize> = None;
        let mut end = |token: &mut Option<usize>, at: usize| {
            if let Some(from) = token.take() {
                plain.push(from..from + text[from..at].trim_end().len());
            }
        };
        for (i, c) in line.char_indices() {
            if i < skip_to {
                previous = c;
                continue;
            }
            let rest = &line[i..];
            match (quote, c) {
                (Some(('"', _)), '\\') => skip_to = i + 2,
                (Some((q, _)), c) if c == q => quote = None,
                (Some(_), _) => {}
                (None, '#') if previous.is_whitespace() => break,
                (None, '"' | '\'') if fresh => {
                    quote = Some((c, start + i));
                    fresh = false;
                }
                (None, _) if rest.starts_with("${{") => {
                    if depth > 0 {
                        token.get_or_insert(start + i);
                    }
                    skip_to = i + rest.find("}}").map_or(rest.len(), |n| n + 2);
                    fresh = false;
                }
                (None, '{' | '[') if fresh || depth > 0 => {
                    end(&mut token, start + i);
                    depth += 1;
                    deepest = deepest.max(Some((depth, usize::MAX - start - i)));
                    fresh = true;
                }
                (None, '}' | ']') if depth > 0 => {
                    end(&mut token, start + i);
                    depth -= 1;
                }
                (None, ',') if depth > 0 => {
                    end(&mut token, start + i);
                    fresh = true;
                }
                (None, ':' | '-') if rest[1..].starts_with([' ', '\n']) => {
                    token = None;
                    fresh = true;
                }
                (None, '|' | '>') if fresh && depth == 0 && rest.trim().len() <= 3 => {
                    block = Some(indent);
                    break;
                }
                (None, c) if c.is_whitespace() => {}
                (None, _) => {
                    if depth > 0 && fresh {
                        token.get_or_insert(start + i);
                    }
                    fresh = false;
                }
            }
            previous = c;
        }
        end(&mut token, start + line.len());
        start += line.len();
    }
    let deepest = deepest.map(|(depth, at)| (depth, usize::MAX - at));
    Scan { deepest, plain, open_quote: quote.map(|(_, at)| at) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_wants_quotes() {
        let bad = "a: {x: ${{ one }}, y: \"${{ two }}\"}\nb: ${{ three }}\nc: [${{ four }}]\nd: |\n  {${{ five }}}\ne: it's {${{ six }}}\n";
        let found: Vec<&str> =
            scan(bad).plain.into_iter().map(|r| &bad[r]).filter(|plain| plain.contains("${{")).collect();
        assert_eq!(found, ["${{ one }}", "${{ four }}"]);
        let bad = "a: {run: sh -c 'sleep 0.${{ i }}', x: [1，2，3], en: batch，size, zh: 批大小，学习率, q: '1，2'}";
        let found: Vec<&str> = scan(bad).plain.into_iter().map(|r| &bad[r]).collect();
        assert_eq!(found, ["sh -c 'sleep 0.${{ i }}'", "1，2，3", "batch，size", "批大小，学习率"]);
        let found: Vec<&str> = full_width_commas(bad).into_iter().map(|r| &bad[r]).collect();
        assert_eq!(found, ["1，2，3", "batch，size"]);
        assert_eq!(scan("a: 'b\nc: \"d\"\n").open_quote, Some(3));
    }
}
