//! Describes why something runs.

use flow_core::fingerprint::{PartKind, RUNNER};
use flow_core::reason::Disturbance;
use flow_core::why::{FileChange, InputChange, Reason, RunReasons, UnfitReason};
use flow_core::{Difference, Outcome, Span};
use serde_json::Value;

use crate::words;

/// Fewer columns show too little of a value.
const MIN_COLUMNS: usize = 10;
/// The end of most short reasons.
const CHANGED: &str = " changed";

/// All reasons in one line.
pub(crate) fn why(why: &RunReasons) -> String {
    let more = (why.more > 0).then(|| words::count(why.more as usize, "more reason"));
    why.first.iter().map(reason).chain(more).collect::<Vec<_>>().join("; ")
}

/// The same in a limited number of columns. Of several reasons, values are left out first, then whole reasons, which
/// are counted.
pub(crate) fn why_within(why: &RunReasons, columns: usize) -> String {
    let whole = self::why(why);
    if words::wide(&whole) <= columns {
        return whole;
    }
    if let ([only], 0) = (&*why.first, why.more) {
        return reason_within(only, columns);
    }
    let mut short: Vec<(bool, String)> =
        why.first.iter().map(|one| (one.is_of_metrics(), without_values(one))).collect();
    // More of these fit.
    short.sort_by_key(|(of_metrics, words)| (*of_metrics, !has_changed(words)));
    let short: Vec<String> = short.into_iter().map(|(_, words)| words).collect();
    let said = |shown: usize| match short.len() - shown + why.more as usize {
        0 => together(&short[..shown]),
        rest => format!("{}; {}", together(&short[..shown]), words::count(rest, "more reason")),
    };
    (1..=short.len()).rev().map(said).find(|said| words::wide(said) <= columns).unwrap_or_else(|| said(1))
}

/// The subject of a reason.
fn without_values(one: &Reason) -> String {
    match one {
        Reason::Value { kind, name, was: Some(_), is: Some(_) }
            if !matches!(kind, PartKind::Uses | PartKind::Measured) =>
        {
            value_in_words(*kind, name, Some(&Value::Null), Some(&Value::Null))
        }
        other => reason(other),
    }
}

fn has_changed(words: &str) -> bool {
    words.ends_with(CHANGED) && !words.contains(", ")
}

/// Several short reasons, with all changed things in one list.
fn together(reasons: &[String]) -> String {
    let (changed, others): (Vec<&String>, Vec<&String>) = reasons.iter().partition(|words| has_changed(words));
    if changed.len() < 2 {
        return reasons.join("; ");
    }
    let subject = |words: &String| words.trim_end_matches(CHANGED).trim_start_matches("the ").to_owned();
    let changed = changed.into_iter().map(subject).collect::<Vec<_>>().join(", ") + CHANGED;
    [changed].into_iter().chain(others.into_iter().cloned()).collect::<Vec<_>>().join("; ")
}

/// A reason with the part of long values that differs.
pub(crate) fn reason(reason: &Reason) -> String {
    whole_reason(&reason.clone().brief())
}

/// The same in a limited number of columns, with the first difference. Without room for two values, it has the new one.
pub(crate) fn reason_within(one: &Reason, columns: usize) -> String {
    // The room of each value: there may be two, and a name.
    let room = [columns / 3, columns / 4, columns / 6].into_iter().filter(|longest| *longest >= MIN_COLUMNS);
    let shorter = room.map(|longest| whole_reason(&one.clone().brief_within(longest)));
    let news = [columns / 2, columns / 3, columns / 4].map(|longest| new_value(&one.clone().brief_within(longest)));
    let mut forms = [reason(one)].into_iter().chain(shorter).chain(news.into_iter().flatten());
    let fits = forms.find(|said| words::wide(said) <= columns);
    words::fit(&fits.unwrap_or_else(|| without_values(one)), columns)
}

/// `the command is now …`.
fn new_value(one: &Reason) -> Option<String> {
    let Reason::Value { was: Some(_), is: Some(is), .. } = one else { return None };
    let changed = without_values(one);
    Some(format!("{} is now {}", changed.strip_suffix(CHANGED)?, short(is)))
}

/// A reason with whole values.
pub(crate) fn whole_reason(reason: &Reason) -> String {
    match reason {
        Reason::NeverRan => "its first run".to_owned(),
        Reason::Continues => "it resumes from the checkpoint of an earlier attempt".to_owned(),
        Reason::Forced => "forced".to_owned(),
        Reason::Collects(run) => format!("started by run {run}, which was killed, and collected by this one"),
        Reason::Forgotten => "its result was dropped with `flow forget`".to_owned(),
        Reason::NoResult => "it has no stored result: it failed, was stopped, or was dropped".to_owned(),
        Reason::Damaged(damage) => damage.clone(),
        Reason::NotReusable(unfit) => unfit_in_words(unfit),
        Reason::Undecided { group, looks, at_most, gain } => {
            let runs = if *looks == 1 { "one run".to_owned() } else { format!("{looks} runs") };
            let gain = gain.map(|(gain, half)| format!(" (gain {gain:.2} ± {half:.2})")).unwrap_or_default();
            format!("the verdict on {group} is undecided after {runs} of each{gain}; at most {at_most} are made")
        }
        Reason::GroupMember(label) => format!("{label} of its co-run group must run"),
        Reason::Group => "its co-run group has other members".to_owned(),
        Reason::Value { kind, name, was, is } => value_in_words(*kind, name, was.as_ref(), is.as_ref()),
        Reason::PluginRebuilt(plugin) => format!("the plugin {plugin} was rebuilt"),
        Reason::Artifact(path, change) => {
            let output = match path.strip_prefix("in/") {
                Some(path) => format!("the output `{path}`"),
                None => format!("the output at `{path}`"),
            };
            match change {
                FileChange::Changed => format!("{output} changed"),
                FileChange::Added => format!("it now reads {output}"),
                FileChange::Removed => format!("it no longer reads {output}"),
            }
        }
        Reason::Input(path, change) => input_in_words(path, change),
        Reason::Environment { was, is, differences, more } => {
            environment_in_words(was.as_deref(), is.as_deref(), differences, *more)
        }
        Reason::Measurement(true) => "it is now a measurement".to_owned(),
        Reason::Measurement(false) => "it is no longer a measurement".to_owned(),
        Reason::Results { of, change, count } => results_in_words(of, *change, *count),
        Reason::Set(FileChange::Added) => "values of parameters differ from the file's".to_owned(),
        Reason::Set(FileChange::Changed) => "other values of parameters differ from the file's".to_owned(),
        Reason::Set(FileChange::Removed) => "all values of parameters are the file's again".to_owned(),
        Reason::Seen(_, what) if what == "profile" => "the profile changed".to_owned(),
        Reason::Seen(_, what) => match what.strip_prefix("step.") {
            Some(step) => format!("the steps that the workflow has for {step} changed"),
            None => format!("`{what}` changed"),
        },
        Reason::Many(PartKind::Result) => "results that it reads changed".to_owned(),
        Reason::Many(PartKind::Artifact) => "outputs that it reads changed".to_owned(),
        Reason::Many(kind) => format!("its {} changed", plural(*kind)),
        Reason::Format => "this version of flow computes fingerprints differently".to_owned(),
        Reason::Text(words) => words.clone(),
    }
}

/// Why an existing result cannot be reused.
pub(crate) fn unfit_in_words(unfit: &UnfitReason) -> String {
    match unfit {
        UnfitReason::Outcome(outcome) => format!("its last attempt {}", ended(*outcome)),
        UnfitReason::NotRecorded(outcome) => {
            format!("its last attempt {}, and the step does not `record:` that", ended(*outcome))
        }
        UnfitReason::Disturbed(reasons) => {
            let kept = !reasons.iter().any(Disturbance::is_of_content);
            let how = if kept { "measurement was disturbed" } else { "result was not kept" };
            let reasons: Vec<String> = reasons.iter().map(super::disturbed).collect();
            format!("its last {how}: {}", reasons.join(", "))
        }
        UnfitReason::LongerLimit { was: Some(was), is: Some(is) } => {
            format!("it timed out after {}; the limit is now {}", span(*was), span(*is))
        }
        UnfitReason::LongerLimit { was: Some(was), is: None } => {
            format!("it timed out after {}; there is no limit now", span(*was))
        }
        UnfitReason::LongerLimit { was: None, .. } => "it timed out under an unknown limit".to_owned(),
        UnfitReason::NotAlone(others) => format!("it ran out of memory while running with {}", others.join(", ")),
        UnfitReason::HostMemory => "it was killed because host memory ran out, which others use too".to_owned(),
        UnfitReason::MemoryLimit => "it ran out of memory under another memory limit".to_owned(),
    }
}

fn ended(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "succeeded",
        Outcome::OutOfMemory => "ran out of memory",
        Outcome::TimedOut => "timed out",
        Outcome::DoesNotFit => "did not fit",
        Outcome::Failed => "failed",
        Outcome::Cancelled => "was cancelled",
        Outcome::Skipped => "was skipped",
    }
}

/// `1h 30m`, `250ms`.
fn span(span: Span) -> String {
    humantime::format_duration(std::time::Duration::from_micros(span.0)).to_string()
}

fn value_in_words(kind: PartKind, name: &str, was: Option<&Value>, is: Option<&Value>) -> String {
    let subject = match kind {
        PartKind::Uses => return then_and_now("it", "used", "uses", was, is),
        PartKind::Measured if name == "gpus_declared_only" => {
            return match is {
                Some(_) => "its GPUs are declared, not real".to_owned(),
                None => "its GPUs were declared, not real".to_owned(),
            };
        }
        PartKind::Measured => return measured_in_words(name, was, is),
        PartKind::Version => return format!("{name} works differently in this version of flow"),
        PartKind::Command if name == RUNNER => {
            return match (was, is) {
                (None, Some(is)) => format!("{} runs it, it started without a shell", short(is)),
                (Some(was), None) => format!("{} ran it, now it starts without a shell", short(was)),
                _ => then_and_now("its shell", "was", "is", was, is),
            };
        }
        PartKind::Command => "the command".to_owned(),
        PartKind::Protocol => "the plugin protocol".to_owned(),
        PartKind::Seed => "the seed".to_owned(),
        PartKind::Repetition => "the repetition".to_owned(),
        PartKind::Variable => format!("the variable `{name}`"),
        PartKind::Output => format!("the output `{name}`"),
        PartKind::Metrics => format!("`metrics.{name}`"),
        _ => format!("`{name}`"),
    };
    then_and_now(&subject, "was", "is", was, is)
}

fn then_and_now(subject: &str, then: &str, now: &str, was: Option<&Value>, is: Option<&Value>) -> String {
    match (was, is) {
        (Some(was), Some(is)) if short(was) == short(is) => format!("{subject} changed"),
        (Some(was), Some(is)) => format!("{subject} {then} {}, {now} {}", short(was), short(is)),
        (None, Some(is)) => format!("{subject} is new: {}", short(is)),
        (Some(was), None) => format!("{subject} {then} {}, is gone", short(was)),
        (None, None) => format!("{subject} changed"),
    }
}

/// `hardware changed: 1 GPU → 2 GPUs`; `mode changed: alone → corun`.
fn measured_in_words(name: &str, was: Option<&Value>, is: Option<&Value>) -> String {
    let what = if name == "mode" { "mode" } else { "hardware" };
    let shown = |value: &Value| match (name, value.as_u64()) {
        ("gpus", Some(n)) => words::count(n as usize, "GPU"),
        ("cpus", Some(n)) => words::count(n as usize, "CPU"),
        _ => short(value),
    };
    match (was, is) {
        (Some(was), Some(is)) => format!("{what} changed: {} → {}", shown(was), shown(is)),
        (None, Some(is)) => format!("{what} counts now: {}", shown(is)),
        (Some(was), None) => format!("{what} no longer counts, was {}", shown(was)),
        (None, None) => format!("{what} changed"),
    }
}

/// A readable value.
fn short(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) if text.is_empty() || text.contains([' ', '…']) => {
            format!("`{}`", text.replace('\n', " "))
        }
        Value::String(text) => text.replace('\n', " "),
        other => other.to_string(),
    }
}

fn results_in_words(of: &str, change: FileChange, count: u32) -> String {
    let (one, many) = match change {
        FileChange::Changed => ("changed", "changed"),
        FileChange::Added => ("is new", "are new"),
        FileChange::Removed => ("is no longer used", "are no longer used"),
    };
    match count {
        1 => format!("the result of {of} {one}"),
        count => format!("{} results of {of} {many}", words::thousands(count as usize)),
    }
}

/// `numpy 1.26 → 2.0 in environment lab`.
fn environment_in_words(was: Option<&str>, is: Option<&str>, differences: &[Difference], more: u32) -> String {
    let (was, is) = match (was, is) {
        (Some(was), Some(is)) => (was, is),
        (None, Some(is)) => return format!("it now runs in environment {is}"),
        (Some(was), None) => return format!("it no longer runs in environment {was}"),
        (None, None) => return "its environment changed".to_owned(),
    };
    let more = (more > 0).then(|| format!("{more} more"));
    let all = differences.iter().map(super::difference).chain(more).collect::<Vec<_>>().join(", ");
    match (was == is, all.is_empty()) {
        (true, true) => format!("environment {is} changed"),
        (true, false) => format!("{all} in environment {is}"),
        (false, true) => format!("environment {was} → {is}"),
        (false, false) => format!("environment {was} → {is}: {all}"),
    }
}

fn input_in_words(path: &str, change: &InputChange) -> String {
    let whole = |path: &str, change: FileChange| match change {
        FileChange::Changed => format!("input `{path}` changed"),
        FileChange::Added => format!("input `{path}` is new"),
        FileChange::Removed => format!("input `{path}` is gone"),
    };
    match change {
        InputChange::Whole(change) => whole(path, *change),
        InputChange::Listing => format!("names or sizes in input `{path}` changed"),
        InputChange::By => format!("input `{path}` is hashed in another way (`by: listing`)"),
        InputChange::Files { named, more } => {
            let named: Vec<String> =
                named.iter().map(|(file, change)| whole(&format!("{path}/{file}"), *change)).collect();
            match more {
                0 => named.join(", "),
                more => format!("{} and {more} more of its files", named.join(", ")),
            }
        }
    }
}

fn plural(kind: PartKind) -> &'static str {
    match kind {
        PartKind::Parameter => "parameters",
        PartKind::Variable => "variables",
        PartKind::Input => "inputs",
        PartKind::Output => "outputs",
        PartKind::Metrics => "`metrics`",
        _ => "settings",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(kind: PartKind, name: &str, was: impl Into<Option<Value>>, is: impl Into<Option<Value>>) -> String {
        reason(&Reason::Value { kind, name: name.into(), was: was.into(), is: is.into() })
    }

    #[test]
    fn environments() {
        let package = |name: &str, was: &str| Difference::Package {
            name: name.into(),
            was: Some(was.into()),
            is: Some("2.0".into()),
        };
        let said = |was: Option<&str>, is: Option<&str>, differences: &[Difference]| {
            let (was, is) = (was.map(str::to_owned), is.map(str::to_owned));
            reason(&Reason::Environment { was, is, differences: differences.to_vec(), more: 0 })
        };
        let lab = Some("lab");
        let four = ["a", "b", "c", "d"].map(|name| package(name, "1"));
        assert_eq!(said(lab, lab, &[package("numpy", "1.26")]), "numpy 1.26 → 2.0 in environment lab");
        assert_eq!(said(lab, lab, &four), "a 1 → 2.0, b 1 → 2.0, c 1 → 2.0, 1 more in environment lab");
        assert_eq!(said(lab, Some("new"), &four[..1]), "environment lab → new: a 1 → 2.0");
        assert_eq!(said(lab, lab, &[]), "environment lab changed");
        assert_eq!(said(None, lab, &[]), "it now runs in environment lab");
        assert_eq!(said(lab, None, &[]), "it no longer runs in environment lab");
    }

    #[test]
    fn values() {
        assert_eq!(value(PartKind::Parameter, "batch", json!(16), json!(32)), "`batch` was 16, is 32");
        assert_eq!(value(PartKind::Parameter, "epochs", None, json!(4)), "`epochs` is new: 4");
        assert_eq!(value(PartKind::Parameter, "lr", json!(0.1), None), "`lr` was 0.1, is gone");
        assert_eq!(value(PartKind::Parameter, "lr", json!(0.1), json!("a b")), "`lr` was 0.1, is `a b`");
        assert_eq!(value(PartKind::Parameter, "lr", json!(0.1), Value::Null), "`lr` was 0.1, is none");
        assert_eq!(value(PartKind::Seed, "", json!(8), json!(9)), "the seed was 8, is 9");
        assert_eq!(value(PartKind::Variable, "N", json!("4"), json!("8")), "the variable `N` was 4, is 8");
        assert_eq!(value(PartKind::Measured, "gpus", json!(1), json!(2)), "hardware changed: 1 GPU → 2 GPUs");
        let cpu = value(PartKind::Measured, "cpu_model", json!("AMD EPYC 7571"), json!("Xeon"));
        assert_eq!(cpu, "hardware changed: `AMD EPYC 7571` → Xeon");
        assert_eq!(value(PartKind::Measured, "mode", json!("alone"), json!("plain")), "mode changed: alone → plain");
        assert_eq!(value(PartKind::Metrics, "jsonl", json!("m.jsonl"), None), "`metrics.jsonl` was m.jsonl, is gone");
        assert_eq!(
            value(PartKind::Uses, "", json!("torch/train"), json!("command")),
            "it used torch/train, uses command"
        );
        let long = |word: &str| json!(format!("{} {word} {}", "x ".repeat(40), "y ".repeat(40)));
        let command = value(PartKind::Command, "", long("one"), long("two"));
        assert_eq!(command, "the command was `… x x one y y …`, is `… x x two y y …`");
    }

    #[test]
    fn files_and_artifacts() {
        let photos = |change| reason(&Reason::Input("photos".into(), change));
        assert_eq!(photos(InputChange::Whole(FileChange::Changed)), "input `photos` changed");
        let named = vec![("a".into(), FileChange::Changed), ("b".into(), FileChange::Removed)];
        let files = photos(InputChange::Files { named, more: 2 });
        assert_eq!(files, "input `photos/a` changed, input `photos/b` is gone and 2 more of its files");
        let artifact = |path: &str, change| reason(&Reason::Artifact(path.into(), change));
        let path = "in/count/book=abyss/abyss.dat";
        assert_eq!(artifact(path, FileChange::Changed), "the output `count/book=abyss/abyss.dat` changed");
        assert_eq!(artifact("data/x", FileChange::Added), "it now reads the output at `data/x`");
    }

    #[test]
    fn many_reasons_are_counted() {
        let reasons: Vec<Reason> = (0..10).map(|n| Reason::PluginRebuilt(n.to_string())).collect();
        let said = why(&RunReasons::of(&reasons));
        assert!(said.ends_with("; the plugin 7 was rebuilt; 2 more reasons"), "{said}");
    }

    #[test]
    fn where_there_is_little_room_all_causes_are_named_without_their_values() {
        let value = |name: &str, was: &str, is: &str| Reason::Value {
            kind: if name.is_empty() { PartKind::Command } else { PartKind::Variable },
            name: name.into(),
            was: Some(json!(was)),
            is: Some(json!(is)),
        };
        let input = |path: &str| Reason::Input(path.into(), InputChange::Whole(FileChange::Changed));
        let new = Reason::Input("c.txt".into(), InputChange::Whole(FileChange::Added));
        let all = [
            value("", "cat a.txt b.txt", "cat -n a.txt b.txt"),
            input("a.txt"),
            new,
            input("b.txt"),
            value("N", "1", "2"),
        ];
        let within = |reasons: &[Reason], columns| why_within(&RunReasons::of(reasons), columns);
        assert_eq!(within(&all, 200), why(&RunReasons::of(&all)));
        assert_eq!(
            within(&all, 90),
            "command, input `a.txt`, input `b.txt`, variable `N` changed; input `c.txt` is new"
        );
        assert_eq!(within(&all, 50), "command, input `a.txt` changed; 3 more reasons");
        assert_eq!(within(&all, 9), "the command changed; 4 more reasons");
        let patterns =
            Reason::Value { kind: PartKind::Metrics, name: "stdout[0]".into(), was: None, is: Some(json!("x")) };
        let said = within(&[input("a.txt"), patterns.clone(), patterns], 30);
        assert!(said.starts_with("input `a.txt` changed"), "{said}");
        let one = [value("", "cat a.txt b.txt", "cat -n a.txt b.txt")];
        assert_eq!(within(&one, 60), "the command was `cat a.txt b.txt`, is `cat -n a.txt b.txt`");
        assert_eq!(within(&one, 40), "the command is now `cat -n a.txt b.txt`");
        assert_eq!(within(&one, 9), "the comm…");
    }

    #[test]
    fn a_long_value_has_room_for_its_first_difference() {
        let text =
            |word: &str| Some(json!(format!("python3 train.py --data photographs {word} --out {}", "x".repeat(80))));
        let (was, is) = (text("--epochs 3"), text("--epochs 10"));
        let one = Reason::Value { kind: PartKind::Command, name: String::new(), was, is };
        assert_eq!(
            reason_within(&one, 80),
            "the command was `…pochs 3 --out xxxxxxxxxxx…`, is `…pochs 10 --out xxxxxxxxxx…`"
        );
        assert_eq!(reason_within(&one, 40), "the command is now `…hs 10 --out …`");
        assert!(whole_reason(&one).len() > 200);
    }

    #[test]
    fn unfit_results_say_why() {
        let words = |unfit| reason(&Reason::NotReusable(unfit));
        insta::assert_snapshot!(words(UnfitReason::Outcome(Outcome::Failed)), @"its last attempt failed");
        insta::assert_snapshot!(words(UnfitReason::NotRecorded(Outcome::TimedOut)), @"its last attempt timed out, and the step does not `record:` that");
        insta::assert_snapshot!(
            words(UnfitReason::LongerLimit { was: Some(Span::from_millis(10_000)), is: Some(Span::from_millis(60_000)) }),
            @"it timed out after 10s; the limit is now 1m"
        );
        insta::assert_snapshot!(words(UnfitReason::HostMemory), @"it was killed because host memory ran out, which others use too");
        insta::assert_snapshot!(words(UnfitReason::NotAlone(vec!["python".into()])), @"it ran out of memory while running with python");
    }
}
