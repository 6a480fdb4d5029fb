//! Guesses at mistakes in a text that is invalid YAML: `${{` without quotes, a colon from a Chinese keyboard, a tab.
//! Made only after an error.

use std::{collections::BTreeSet, ops::Range};

use crate::Diagnostic;

/// The parser's words without its own idea of line and column.
pub(crate) fn words(error: &serde_yaml::Error) -> String {
    let words = error.to_string();
    words.split(" at line ").next().unwrap_or(&words).to_owned()
}

/// Characters of a Chinese keyboard, each before the one that YAML and expressions expect.
const FULL_WIDTH: &str = "，,：:；;“\"”\"‘'’'（(）)【[】]［[］]｛{｝}＝=＜<＞>！!＄$、,\u{3000} ";

/// The ASCII character for one of a Chinese keyboard.
fn ascii(wide: char) -> Option<char> {
    let signs: Vec<char> = FULL_WIDTH.chars().collect();
    signs.chunks(2).find(|pair| pair[0] == wide).map(|pair| pair[1])
}

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
    let mut signs: Vec<char> = first.chars().filter(|c| !c.is_ascii()).collect();
    let mut seen = BTreeSet::new();
    signs.retain(|sign| seen.insert(*sign));
    // Among other characters of the author's language they are as they should be.
    let advice = signs.iter().map(|wide| Some(format!("`{}` for the full-width `{wide}`", ascii(*wide)?)));
    let advice: Vec<String> = advice.collect::<Option<_>>()?;
    (!advice.is_empty()).then(|| format!("write {}", advice.join(", ")))
}

/// The diagnostics for a text that is refused.
pub(super) fn no_yaml(text: &str, error: &serde_yaml::Error) -> Vec<Diagnostic> {
    let mut found = Vec::new();
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
    let refused = refused(text, error);
    // The parser stops at the line of a mistake or at the next; what it says there adds nothing.
    let line = |d: &Diagnostic| text[..d.span.as_ref().map_or(0, |span| span.start)].matches('\n').count();
    if !found.iter().any(|guess| (line(guess)..=line(guess) + 1).contains(&line(&refused))) {
        found.push(refused);
    }
    found.sort_by_key(|d| d.span.as_ref().map(|s| s.start));
    found
}

/// The parser's own error, with advice.
fn refused(text: &str, error: &serde_yaml::Error) -> Diagnostic {
    let whole = error.to_string();
    let words = words(error);
    // Of a byte that it does not take the parser says the place in words.
    let (words, place) = match words.split_once(" at position ") {
        Some((words, place)) => (words, place.parse().ok()),
        None => (&*words, None),
    };
    let place: Option<usize> = place.or_else(|| Some(error.location()?.index()));
    let place = place.unwrap_or(0).min(text.len());
    let from = (0..=place).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let begin = text[..from].rfind('\n').map_or(0, |n| n + 1);
    let line = text[begin..].lines().next().unwrap_or_default();
    let what = Diagnostic::new(format!("this is not valid YAML: {words}"));
    let what = match words {
        _ if words.contains("recursion limit") => {
            Diagnostic::new(super::too_deep()).help("move the deeper part into another file")
        }
        _ if words.contains("i128") || words.contains("u128") => {
            Diagnostic::new("a whole number is too large").help(format!("{} is the largest", u64::MAX))
        }
        _ if words.contains("repetition limit") => what.help("the aliases expand to too many values"),
        _ if words.contains("more than one document") => what.help("a workflow is one document; leave `---` out"),
        _ if words.contains("mapping values") => what.help("quote a text that contains `: `"),
        _ if words.contains("did not find expected key") => {
            what.help("the keys of one mapping begin in one column; close an open `{`, `[` or quote")
        }
        // It says where an open quote begins.
        _ if words.contains("end of stream") => Diagnostic::new(format!("this is not valid YAML: {whole}")),
        _ if line.contains("${{") => what.help("inside `{…}` or `[…]`, put quotes around a text with `${{ }}`"),
        _ => what,
    };
    let what = full_width(line).into_iter().fold(what, Diagnostic::help);
    at(from..from + text[from..].chars().next().filter(|c| *c != '\n').map_or(0, char::len_utf8), what)
}

fn at(span: Range<usize>, mut diagnostic: Diagnostic) -> Diagnostic {
    diagnostic.span = Some(span);
    diagnostic
}
