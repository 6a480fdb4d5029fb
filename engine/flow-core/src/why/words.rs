//! Reasons in words, English. The only place that has them; knows nothing of why they hold.

use serde_json::Value;

use super::{FileChange, InputChange, Reason, Unfit};
use crate::fingerprint::Kind;
use crate::{Outcome, Span};

/// How many reasons, and how many files of an input, are named one by one.
const NAMED: usize = 3;

/// All reasons in one line, the first few one by one.
pub fn sentence(reasons: &[Reason]) -> String {
    let mut words: Vec<String> = reasons.iter().take(NAMED).map(in_words).collect();
    match reasons.len().saturating_sub(NAMED) {
        0 => {}
        1 => words.push("1 more reason".to_owned()),
        more => words.push(format!("{more} more reasons")),
    }
    words.join("; ")
}

/// One reason in words.
pub fn in_words(reason: &Reason) -> String {
    match reason {
        Reason::NeverRan => "its first run".to_owned(),
        Reason::Forced => "forced".to_owned(),
        Reason::NoResult => "its last attempt left no result to reuse".to_owned(),
        Reason::Damaged(damage) => damage.clone(),
        Reason::NotReusable(unfit) => unfit_in_words(unfit),
        Reason::GroupMember(label) => format!("{label} of its co-run group must run"),
        Reason::Group => "its co-run group has other members".to_owned(),
        Reason::Value { kind, name, was, is } => value_in_words(*kind, name, was.as_ref(), is.as_ref()),
        Reason::PluginRebuilt(plugin) => format!("plugin {plugin} was rebuilt"),
        Reason::Artifact(path, change) => {
            let path = path.strip_prefix("in/").unwrap_or(path);
            match change {
                FileChange::Changed => format!("the output of `{path}` changed"),
                FileChange::Added => format!("it reads the output of `{path}` now"),
                FileChange::Removed => format!("it no longer reads the output of `{path}`"),
            }
        }
        Reason::Input(path, change) => input_in_words(path, change),
        Reason::Measurement(true) => "it is a measurement now".to_owned(),
        Reason::Measurement(false) => "it is no measurement any more".to_owned(),
        Reason::Seen(Kind::Result, label) => format!("the result of {label} changed"),
        Reason::Seen(_, what) => format!("`{what}` changed"),
        Reason::Many(kind) => format!("its {} changed", plural(*kind)),
        Reason::Format => "this version of flow makes fingerprints in another way".to_owned(),
    }
}

fn unfit_in_words(unfit: &Unfit) -> String {
    match unfit {
        Unfit::Outcome(outcome) => format!("its last attempt {}", ended(*outcome)),
        Unfit::NotRecorded(outcome) => format!("its last attempt {}, which it does not record", ended(*outcome)),
        Unfit::Spoiled(reasons) => format!("its last measurement is spoiled: {}", reasons.join(", ")),
        Unfit::LongerLimit { was: Some(was), is: Some(is) } => {
            format!("it timed out after {}, the limit is {} now", span(*was), span(*is))
        }
        Unfit::LongerLimit { was: Some(was), is: None } => {
            format!("it timed out after {}, there is no limit now", span(*was))
        }
        Unfit::LongerLimit { was: None, .. } => "it timed out under a limit that was not kept".to_owned(),
        Unfit::NotAlone(others) => format!("it ran out of memory beside {}", others.join(", ")),
        Unfit::HostMemory => "it was killed for want of host memory, which others use as well".to_owned(),
        Unfit::MemoryLimit => "it ran out of memory under another memory limit".to_owned(),
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

fn value_in_words(kind: Kind, name: &str, was: Option<&Value>, is: Option<&Value>) -> String {
    let subject = match kind {
        Kind::Uses => return then_and_now("it", "used", "uses", was, is),
        Kind::Measured if name == "gpus_declared_only" => {
            return match is {
                Some(_) => "its GPUs are declared and not there".to_owned(),
                None => "its GPUs were declared and not there".to_owned(),
            };
        }
        Kind::Measured => return measured_in_words(name, was, is),
        Kind::Version => return format!("{name} works differently in this version of flow"),
        Kind::Command => "the command".to_owned(),
        Kind::Protocol => "the plugin protocol".to_owned(),
        Kind::Seed => "the seed".to_owned(),
        Kind::Repetition => "the repetition".to_owned(),
        Kind::Variable => format!("the variable `{name}`"),
        Kind::Output => format!("the output `{name}`"),
        Kind::Metrics => format!("`metrics.{name}`"),
        _ => format!("`{name}`"),
    };
    then_and_now(&subject, "was", "is", was, is)
}

fn then_and_now(subject: &str, then: &str, now: &str, was: Option<&Value>, is: Option<&Value>) -> String {
    match (was, is) {
        (Some(Value::String(was)), Some(Value::String(is))) if was.len().max(is.len()) > LONGEST => {
            let (was, is) = where_they_differ(was, is);
            format!("{subject} {then} `{was}`, {now} `{is}`")
        }
        (Some(was), Some(is)) if short(was) == short(is) => format!("{subject} changed"),
        (Some(was), Some(is)) => format!("{subject} {then} {}, {now} {}", short(was), short(is)),
        (None, Some(is)) => format!("{subject} is new: {}", short(is)),
        (Some(was), None) => format!("{subject} {then} {}, is gone", short(was)),
        (None, None) => format!("{subject} changed"),
    }
}

/// "it measures now on 2 GPUs, was on 1".
fn measured_in_words(name: &str, was: Option<&Value>, is: Option<&Value>) -> String {
    let (on, unit) = match name {
        "gpus" => ("on ", " GPUs"),
        "cpus" => ("on ", " CPUs"),
        "mode" => ("", ""),
        _ => ("on ", ""),
    };
    match (was, is) {
        (Some(was), Some(is)) => format!("it measures now {on}{}{unit}, was {on}{}", short(is), short(was)),
        (None, Some(is)) => format!("it measures now {on}{}{unit}", short(is)),
        (Some(was), None) => format!("it measures no longer {on}{}{unit}", short(was)),
        (None, None) => "what it is measured on changed".to_owned(),
    }
}

/// A longer text is cut.
const LONGEST: usize = 60;

/// The words in which two long texts differ, with a few beside them.
fn where_they_differ(was: &str, is: &str) -> (String, String) {
    const BESIDE: usize = 2;
    let split = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
    let (was, is) = (split(was), split(is));
    let same = was.iter().zip(&is).take_while(|(a, b)| a == b).count();
    let rest = was.len().min(is.len()) - same;
    let same_end = was.iter().rev().zip(is.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let cut = |words: &[String]| {
        let (from, to) = (same.saturating_sub(BESIDE), (words.len() - same_end + BESIDE).min(words.len()));
        let before = if from > 0 { "… " } else { "" };
        let after = if to < words.len() { " …" } else { "" };
        let mut middle = words[from..to].join(" ");
        if middle.chars().count() > LONGEST {
            middle = middle.chars().take(LONGEST - 1).chain(['…']).collect();
        }
        format!("{before}{middle}{after}")
    };
    (cut(&was), cut(&is))
}

/// A value as people write it, cut where it is long.
fn short(value: &Value) -> String {
    let (text, quoted) = match value {
        Value::Null => ("none".to_owned(), false),
        Value::String(text) => (text.clone(), text.is_empty() || text.contains(' ')),
        other => (other.to_string(), false),
    };
    let mut line = text.replace('\n', " ");
    if line.chars().count() > LONGEST {
        line = line.chars().take(LONGEST - 1).chain(['…']).collect();
    }
    if quoted { format!("`{line}`") } else { line }
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
        InputChange::Files(files) => {
            let named: Vec<String> =
                files.iter().take(NAMED).map(|(file, change)| whole(&format!("{path}/{file}"), *change)).collect();
            match files.len().saturating_sub(NAMED) {
                0 => named.join(", "),
                more => format!("{} and {more} more of its files", named.join(", ")),
            }
        }
    }
}

fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::Parameter => "parameters",
        Kind::Variable => "variables",
        Kind::Artifact => "artifacts of other steps",
        Kind::Input => "inputs",
        Kind::Output => "outputs",
        Kind::Metrics => "`metrics`",
        Kind::Result => "results of other steps",
        _ => "settings",
    }
}
