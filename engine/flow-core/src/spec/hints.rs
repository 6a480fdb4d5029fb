//! What probably went wrong in a text that is no YAML, or reads as something else than was meant: `${{` that wants quotes, a
//! colon from a Chinese keyboard, a tab. Guesses, made only after an error.

use std::ops::Range;

use crate::Diagnostic;

/// The advice for a text that has a full-width colon where a key would end.
pub(super) fn full_width(text: &str) -> Option<String> {
    let first = text.lines().next()?;
    let colon = first.find('：')?;
    let key = first[..colon].trim();
    let word = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    word.then(|| format!("`：` is a full-width colon; write `{key}: ` with the ASCII one and a space"))
}

/// What can be said about a text that the parser refused at a byte with these words.
pub(super) fn no_yaml(text: &str, index: Option<usize>, words: &str) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    for span in unquoted(text) {
        let line = text[span.start..].lines().next().unwrap_or("");
        let end = line.find("}}").map_or(line.len(), |i| i + 2);
        let expression = &line[..end];
        found.push(at(
            span.start..span.start + end,
            Diagnostic::new("`${{` stands unquoted inside `{…}` or `[…]`, which YAML cannot read")
                .label("quote it")
                .help(format!("write \"{expression}\"")),
        ));
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
            found.push(at(tab..tab + 1, Diagnostic::new("a tab indents this line").help("YAML wants spaces")));
        }
        start += line.len();
    }
    let mut from = index.unwrap_or(0).min(text.len());
    while !text.is_char_boundary(from) {
        from -= 1;
    }
    // The parser stops at the line of a mistake or at the next; what it says there adds nothing.
    let line = |at: usize| text[..at].matches('\n').count();
    let guessed =
        |d: &Diagnostic| d.span.as_ref().is_some_and(|s| (line(s.start)..=line(s.start) + 1).contains(&line(from)));
    if !found.iter().any(guessed) {
        let words = words.split(" at line ").next().unwrap_or(words);
        let mut diagnostic = Diagnostic::new(format!("this is no YAML: {words}"));
        if words.contains("mapping values") {
            diagnostic = diagnostic.help("quote a text that contains `: `");
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

/// `${{` in plain text inside a flow collection.
fn unquoted(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut depth = 0usize;
    let mut block: Option<usize> = None;
    let mut quote: Option<char> = None;
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
        for (i, c) in line.char_indices() {
            if i < skip_to {
                previous = c;
                continue;
            }
            let rest = &line[i..];
            match (quote, c) {
                (Some('"'), '\\') => skip_to = i + 2,
                (Some(q), c) if c == q => quote = None,
                (Some(_), _) => {}
                (None, '#') if previous.is_whitespace() => break,
                (None, '"' | '\'') if fresh => {
                    quote = Some(c);
                    fresh = false;
                }
                (None, _) if rest.starts_with("${{") => {
                    if depth > 0 {
                        found.push(start + i..start + i + 3);
                    }
                    skip_to = i + rest.find("}}").map_or(rest.len(), |n| n + 2);
                    fresh = false;
                }
                (None, '{' | '[') if fresh || depth > 0 => {
                    depth += 1;
                    fresh = true;
                }
                (None, '}' | ']') if depth > 0 => depth -= 1,
                (None, ',') if depth > 0 => fresh = true,
                (None, ':' | '-') if rest[1..].starts_with([' ', '\n']) => fresh = true,
                (None, '|' | '>') if fresh && depth == 0 && rest.trim().len() <= 3 => {
                    block = Some(indent);
                    break;
                }
                (None, c) if c.is_whitespace() => {}
                (None, _) => fresh = false,
            }
            previous = c;
        }
        start += line.len();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_wants_quotes() {
        let bad = "a: {x: ${{ one }}, y: \"${{ two }}\"}\nb: ${{ three }}\nc: [${{ four }}]\nd: |\n  {${{ five }}}\ne: it's {${{ six }}}\n";
        let found: Vec<&str> =
            unquoted(bad).iter().map(|r| bad[r.end..].split_whitespace().next().unwrap_or("")).collect();
        assert_eq!(found, ["one", "four"]);
    }
}
