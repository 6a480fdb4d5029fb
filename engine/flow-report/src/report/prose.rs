//! The sentences of a report in one language: findings, notes of the author, remarks.

use serde_json::Value;

use super::guess::GuessVerdict;
use super::judged;
use super::model::{Report, Section};
use super::with::{Attribution, Guess};
use crate::columns::written;
use crate::findings::ForeignCpu;
use crate::format::Format;
use crate::safe;
use crate::table::{ByLanguage, Names, Note, worded};
use crate::words::{Args, Locale, fields};

/// The title of a section.
pub(super) fn title(section: &Section, words: Locale<'_>) -> String {
    let names = Names { table: &section.table, words };
    match &section.with.title {
        Some(title) => safe::authors(title.of(words.lang)),
        None => {
            let rows: Vec<String> = section.table.rows.iter().map(|axis| names.inline(axis)).collect();
            let args = Args::new().with("step", safe::code(&section.table.from)).with("rows", words.list(&rows));
            let title = words.text(if rows.is_empty() { "section-title-one" } else { "section-title" }, &args);
            let only = section.table.only.iter();
            let only = only.map(|(axis, value)| format!("{} {}", names.inline(axis), safe::text(&written(value))));
            let only: Vec<String> = only.collect();
            if only.is_empty() {
                return title;
            }
            let args = Args::new().with("title", title).with("where", words.list(&only));
            words.text("section-title-where", &args)
        }
    }
}

/// All findings of a section in one language.
pub(super) fn bullets(section: &Section, words: Locale<'_>) -> Vec<String> {
    let names = Names { table: &section.table, words };
    let question = section.with.notes.question.as_ref();
    let mut out = Vec::new();
    out.extend(
        question.map(|q| words.text("note-question", &Args::new().with("text", safe::authors(q.of(words.lang))))),
    );
    // A finding that other programs may have disturbed has the caveat with it, because readers do not know which
    // results are behind it.
    let caveat = |said: String, beside: Option<&ForeignCpu>| match beside {
        Some(beside) => words.sentences(&[said, beside.worded(words)]),
        None => said,
    };
    for (at, finding) in section.findings.iter().enumerate() {
        out.push(caveat(finding.worded(&names), section.disturbed.of_finding(at)));
    }
    for (at, (_, found)) in section.analyses.iter().enumerate() {
        let sentences = found.sentences(&section.analyses, &names);
        let of_each = sentences.into_iter().enumerate();
        out.extend(of_each.map(|(sentence, said)| caveat(said, section.disturbed.of_sentence(at, sentence))));
    }
    out.extend(judged::sentences(&section.together, words));
    out.extend(notes(section, words));
    out
}

/// The author's guess with its verdict, the to-do, and the links.
pub(super) fn notes(section: &Section, words: Locale<'_>) -> Vec<String> {
    let notes = &section.with.notes;
    let say = |key: &str, text: String| words.text(key, &Args::new().with("text", text));
    let mut out = Vec::new();
    out.extend(guess(section, words));
    out.extend(notes.todo.as_ref().map(|t| say("note-todo", safe::authors(t.of(words.lang)))));
    if !section.with.see.is_empty() {
        let links: Vec<String> =
            section.with.see.iter().map(|link| safe::link(link).unwrap_or_else(|_| safe::text(link))).collect();
        out.push(say("note-see", links.join(", ")));
    }
    out
}

fn guess(section: &Section, words: Locale<'_>) -> Option<String> {
    let text = match section.with.notes.guess.as_ref()? {
        Guess::Words(text) => safe::authors(text.of(words.lang)),
        Guess::Attributed(Attribution { en, zh, .. }) => {
            safe::authors(ByLanguage { en: en.clone(), zh: zh.clone() }.of(words.lang))
        }
    };
    let said = words.text("note-guess", &Args::new().with("text", text));
    let Some(verdict) = &section.guess else { return Some(said) };
    let (kind, args) = fields(verdict, "guess", |name, value| match (name, value) {
        ("resource", Value::String(of)) => Some(words.word(&format!("resource-{of}"))),
        (_, Value::Array(groups)) => {
            let groups = groups.iter().filter_map(Value::as_str).map(safe::text);
            Some(words.list(&groups.collect::<Vec<_>>()))
        }
        _ => None,
    });
    let judged = match verdict {
        GuessVerdict::Confirmed { resource, relieved, .. } if !relieved.is_empty() => {
            words.text("guess-confirmed-relieved", &args.with("kind", resource.key()))
        }
        _ => words.text(&format!("guess-{kind}"), &args),
    };
    let ended = said.ends_with(['.', '?', '!', '。', '？', '！']);
    let stop = words.word(if ended { "mark-between-sentences" } else { "mark-stop" });
    Some(format!("{said}{stop}{judged}"))
}

/// Caveats of the results, and the steps that are left out.
pub(super) fn remarks(report: &Report, words: Locale<'_>) -> Vec<String> {
    let mut out = caveats(report, words);
    for (step, why) in &report.left_out {
        out.push(words.text(
            "remark-left-out",
            &Args::new().with("step", safe::code(step)).with("why", words.reasons().cause(why)),
        ));
    }
    out
}

/// The command that measures the disturbed results again.
fn measure_again(report: &Report, words: Locale<'_>) -> Option<String> {
    let value = |text: &str| shlex::try_quote(text).map_or_else(|_| "…".to_owned(), |quoted| quoted.into_owned());
    let options: String = report.to_repeat.iter().map(|name| format!(" -f {}", value(name))).collect();
    let set: String =
        report.setup.set.iter().map(|(name, text)| format!(" --set {}", value(&format!("{name}={text}")))).collect();
    let command = safe::code(&format!("flow run{options}{set}"));
    (!options.is_empty()).then(|| words.text("remark-measure-again", &Args::new().with("command", command)))
}

/// Caveats of the results.
pub(super) fn caveats(report: &Report, words: Locale<'_>) -> Vec<String> {
    let mut out = Vec::new();
    if report.fake_gpus {
        out.push(words.word("remark-fake-gpus"));
    }
    // Notes below a table are not repeated.
    let said = |label: &String| {
        let notes = report.sections.iter().flat_map(|section| &section.table.notes);
        notes.into_iter().any(|note| matches!(note, Note::Disturbed { label: l, .. } if l == label))
    };
    for (label, reasons) in report.disturbed.iter().filter(|(label, _)| !said(label)) {
        let args = Args::new().with("label", safe::code(label)).with("why", words.reasons().all_disturbed(reasons));
        out.push(words.text("note-disturbed", &args));
    }
    let share = |v: f64| words.figure(&Format::for_unit("ratio", [v].into_iter()), v);
    let most = report.foreign_cpu.iter().max_by(|a, b| a.1.total_cmp(b.1));
    if let (Some((label, used)), count) = (most, report.foreign_cpu.len()) {
        let key = if count == 1 { "remark-foreign-cpu" } else { "remark-foreign-cpu-several" };
        let args = Args::new().with("label", safe::code(label)).with("used", share(*used));
        let said = words.text(key, &args.with("count", count.to_string()));
        out.push(words.sentences(&[said].into_iter().chain(measure_again(report, words)).collect::<Vec<_>>()));
    }
    if let Some(label) = report.unwatched.first() {
        let args = Args::new().with("label", safe::code(label)).count("count", report.unwatched.len());
        out.push(words.text("remark-unwatched", &args));
    }
    for (label, names) in &report.foreign_processes {
        // A bundle of another machine's results does not name foreign processes.
        let names: Vec<String> = names.iter().filter(|name| !name.is_empty()).map(|name| safe::text(name)).collect();
        let key = if names.is_empty() { "remark-foreign-processes-unnamed" } else { "remark-foreign-processes" };
        let args = Args::new().with("label", safe::code(label)).with("names", words.list(&names));
        out.push(words.text(key, &args));
    }
    for (key, shared) in [("remark-gpu-shared", &report.gpu_shared), ("remark-gpu-shared-own", &report.gpu_shared_own)]
    {
        if let Some((label, used)) = shared.iter().max_by(|a, b| a.1.total_cmp(b.1)) {
            let args = Args::new().with("label", safe::code(label)).with("used", share(*used));
            out.push(words.text(key, &args.count("count", shared.len())));
        }
    }
    out.extend(report.doubts.worded(words));
    let kept = report.accepted.iter().map(|(label, reason)| (&**label, &**reason));
    out.extend(Note::accepted(kept).iter().map(|note| worded(note, words)));
    out
}
