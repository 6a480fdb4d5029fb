//! Prints the mistakes of a workflow: file, line, column, the line itself, the expected form, the
//! fix.

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet, renderer::DecorStyle};
use flow_core::{Diagnostic, Source, visible, visible_but};

use crate::reasons;

/// More are not read by anybody.
const SHOWN: usize = 50;

/// The first diagnostics of a file, in its order, and how many there are in all.
pub(crate) fn render(source: &Source, diagnostics: &[Diagnostic], color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() }.decor_style(DecorStyle::Ascii);
    let mut sorted: Vec<&Diagnostic> = diagnostics.iter().collect();
    let file = |d: &Diagnostic| d.source.as_ref().map(|source| source.path.clone());
    sorted.sort_by_key(|d| (file(d), d.span.as_ref().map_or(0, |span| span.start)));
    let mut out = String::new();
    for of_file in sorted[..sorted.len().min(SHOWN)].chunk_by(|a, b| file(a) == file(b)) {
        let (source, shown) = seen(of_file[0].source.as_deref().unwrap_or(source), of_file);
        for diagnostic in &shown {
            out.push_str(&renderer.render(&[group(&source, diagnostic)]));
            out.push_str("\n\n");
        }
    }
    if sorted.len() > SHOWN {
        out.push_str(&format!("and {} more\n\n", sorted.len() - SHOWN));
    }
    let count = crate::words::count(diagnostics.len(), "error");
    out.push_str(&format!("{}: {count}; nothing was run", visible(&source.path)));
    out
}

/// Escapes invisible characters in the file and the message, so that carets stay under their text.
fn seen(source: &Source, diagnostics: &[&Diagnostic]) -> (Source, Vec<Diagnostic>) {
    let lines = |text: &str| visible_but(text, &['\n', '\r', '\t']).into_owned();
    let words = |text: &str| visible_but(text, &['\n']).into_owned();
    let text = lines(&source.text);
    let same = text == source.text;
    let moved = |at: usize| match same {
        true => at,
        false => lines(&source.text[..floor(&source.text, at)]).len(),
    };
    let seen = |diagnostic: &&Diagnostic| Diagnostic {
        message: words(&message(diagnostic)),
        span: diagnostic.span.as_ref().map(|span| moved(span.start)..moved(span.end)),
        source: None,
        label: words(&diagnostic.label),
        lack: None,
        help: diagnostic.help.iter().map(|help| words(help)).collect(),
    };
    let diagnostics = diagnostics.iter().map(seen).collect();
    (Source { path: visible(&source.path).into_owned(), text }, diagnostics)
}

fn message(diagnostic: &Diagnostic) -> String {
    match &diagnostic.lack {
        Some(lack) => format!("{}: it {}", diagnostic.message, reasons::lack(lack)),
        None => diagnostic.message.clone(),
    }
}

fn group<'a>(source: &'a Source, diagnostic: &'a Diagnostic) -> Group<'a> {
    let title = Level::ERROR.primary_title(&*diagnostic.message);
    let group = match &diagnostic.span {
        Some(span) => {
            let span = on_one_line(&source.text, span.start, span.end);
            let label = Some(&*diagnostic.label).filter(|label| !label.is_empty());
            // In a file of megabytes, only the line is read.
            let (before, behind) = source.text.split_at(span.start);
            let begin = before.rfind('\n').map_or(0, |n| n + 1);
            let end = span.start + behind.find(['\r', '\n']).unwrap_or(behind.len());
            let number = before.matches('\n').count() + 1;
            let place = AnnotationKind::Primary.span(span.start - begin..span.end.min(end) - begin).label(label);
            let line = Snippet::source(&source.text[begin..end]).line_start(number);
            title.element(line.path(&*source.path).annotation(place))
        }
        None => {
            let group = title.element(Origin::path(&*source.path));
            if diagnostic.label.is_empty() { group } else { group.element(Level::NOTE.message(&*diagnostic.label)) }
        }
    };
    group.elements(diagnostic.help.iter().map(|help| Level::HELP.message(&**help)))
}

/// The part of a span on its first line, on character boundaries: fifty lines of context help no
/// one.
fn on_one_line(text: &str, start: usize, end: usize) -> std::ops::Range<usize> {
    let (start, end) = (floor(text, start), floor(text, end.max(start)));
    let line_end = text[start..].find('\n').map_or(text.len(), |n| start + n);
    start..end.min(line_end)
}

/// The character boundary at or before a byte.
fn floor(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_shows_its_line() {
        let text = "flow: 1\nname: 批大小\nstps:\n  a: {run: \"true\"}\n";
        let source = Source { path: "w.yaml".into(), text: text.into() };
        let at = |what: &str| text.find(what).map(|i| i..i + what.len());
        let mut unknown = Diagnostic::new("unknown key `stps`").label("a key of a workflow was expected");
        unknown.span = at("stps");
        let unknown = unknown.nearest("stps", ["steps", "params"]);
        let mut wide = Diagnostic::new("a name is lower case ASCII").label("[a-z][a-z0-9_]*");
        wide.span = at("批大小");
        let nowhere =
            Diagnostic::new("there is no parameter `lr` to set").help("parameters are declared under `params:`");
        insta::assert_snapshot!(render(&source, &[unknown, wide, nowhere], false), @r"
        error: there is no parameter `lr` to set
        --> w.yaml
         = help: parameters are declared under `params:`

        error: a name is lower case ASCII
         --> w.yaml:2:7
          |
        2 | name: 批大小
          |       ^^^^^^ [a-z][a-z0-9_]*

        error: unknown key `stps`
         --> w.yaml:3:1
          |
        3 | stps:
          | ^^^^ a key of a workflow was expected
          |
          = help: did you mean `steps`?

        w.yaml: 3 errors; nothing was run
        ");
    }

    #[test]
    fn of_many_errors_the_first_are_shown() {
        let text = "a\n".repeat(70);
        let source = Source { path: "w.yaml".into(), text };
        let at = |n: usize| Diagnostic { span: Some(2 * n..2 * n + 1), ..Diagnostic::new(format!("wrong {n}")) };
        let said = render(&source, &(0..70).rev().map(at).collect::<Vec<_>>(), false);
        assert_eq!(said.matches("error: wrong").count(), SHOWN);
        assert!(said.contains("error: wrong 49\n") && !said.contains("error: wrong 50\n"));
        assert!(said.ends_with("and 20 more\n\nw.yaml: 70 errors; nothing was run"), "{said}");
    }

    #[test]
    fn what_cannot_be_seen_is_written_out_above_its_carets() {
        let text = "flow: 1\nname: a\u{9b}1m\u{202e}\x1b[31m x: stps\n";
        let source = Source { path: "w\x1b[2J.yaml".into(), text: text.into() };
        let at = |what: &str| text.find(what).map(|i| i..i + what.len());
        let mut unknown = Diagnostic::new("unknown `\u{9b}`").label("\x1b[1m").help("\u{85}");
        unknown.span = at("stps");
        insta::assert_snapshot!(render(&source, &[unknown], false), @r"
        error: unknown `\u{9b}`
         --> w\u{1b}[2J.yaml:2:38
          |
        2 | name: a\u{9b}1m\u{202e}\u{1b}[31m x: stps
          |                                      ^^^^ \u{1b}[1m
          |
          = help: \u{85}

        w\u{1b}[2J.yaml: 1 error; nothing was run
        ");
    }

    #[test]
    fn a_span_stays_on_its_line() {
        assert_eq!(on_one_line("ab\ncd", 1, 5), 1..2);
        assert_eq!(on_one_line("批", 1, 2), 0..0);
        assert_eq!(on_one_line("ab", 7, 9), 2..2);
    }
}
