//! What stores and journals of format 1 hold, read as this flow has it: there reasons were sentences. For bringing a store over,
//! and for nothing else. What is of the present form already stays as it is; a sentence that no value stands for is kept as a text.

use flow_core::{
    Artifact, JOURNAL_FORMAT, JournalLine, Outcome, RunEvent, Span, StepResult,
    reason::{Cause, ClosedBy, Memory, ProcessEnd, ProfileReason, Spoiled},
    why::{Reason, Why},
};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A line of a journal, if it is one that any flow wrote.
pub(crate) fn line(bytes: &[u8]) -> Option<JournalLine> {
    let mut json: Value = serde_json::from_slice(bytes).ok()?;
    match json["event"].as_str()? {
        "run_started" => {
            json["format"] = json!(JOURNAL_FORMAT);
            replace(&mut json, "/profile/1", |why| value(&profile(why)));
        }
        "instance" => {
            let runs = json["plan"]["state"] == "run";
            rename(json.get_mut("plan")?, "reason", if runs { "why" } else { "cause" });
            replace(&mut json, "/plan/why", |why| value(&self::why(why)));
            replace(&mut json, "/plan/cause", |why| value(&cause(why, Outcome::Skipped, false)));
        }
        "started" => {
            rename(&mut json, "reason", "why");
            replace(&mut json, "/why", |why| value(&self::why(why)));
        }
        "ended" | "settled" => {
            let outcome = Outcome::deserialize(&json["outcome"]).ok()?;
            rename(&mut json, "message", "cause");
            rename(&mut json, "reason", "cause");
            replace(&mut json, "/cause", |why| value(&cause(why, outcome, false)));
        }
        "recorded" => change_result(json.get_mut("result")?)?,
        _ => {}
    }
    let mut line: JournalLine = serde_json::from_value(json).ok()?;
    if let RunEvent::Recorded { result, .. } = &mut line.event {
        let Recorded { result: ordered } = serde_json::from_slice(bytes).ok()?;
        ordered.put_into(result);
    }
    Some(line)
}

/// A result as the database keeps it.
pub(crate) fn result(bytes: &[u8]) -> Option<StepResult> {
    let mut json: Value = serde_json::from_slice(bytes).ok()?;
    change_result(&mut json)?;
    let mut result = serde_json::from_value(json).ok()?;
    serde_json::from_slice::<Ordered>(bytes).ok()?.put_into(&mut result);
    Some(result)
}

/// The status of a run that is over: nothing waits any more.
pub(crate) fn status(bytes: &[u8]) -> Option<Value> {
    let mut json: Value = serde_json::from_slice(bytes).ok()?;
    json.as_object_mut()?.remove("waiting");
    Some(json)
}

#[derive(Deserialize)]
struct Recorded {
    result: Ordered,
}

/// What of a result has an order that a [`Value`] forgets.
#[derive(Deserialize)]
struct Ordered {
    axes: IndexMap<String, Value>,
    #[serde(default)]
    outputs: IndexMap<String, Artifact>,
}

impl Ordered {
    fn put_into(self, result: &mut StepResult) {
        (result.axes, result.outputs) = (self.axes, self.outputs);
    }
}

fn change_result(json: &mut Value) -> Option<()> {
    let outcome = Outcome::deserialize(&json["outcome"]).ok()?;
    let on_gpus = json["circumstances"]["gpus"].as_array().is_some_and(|gpus| !gpus.is_empty());
    rename(json, "message", "cause");
    if outcome == Outcome::OutOfMemory && json.get("cause").is_none() {
        json["cause"] = value(&Cause::OutOfMemory { memory: Memory::meant(None, on_gpus), said: None });
    }
    replace(json, "/cause", |why| value(&cause(why, outcome, on_gpus)));
    let reasons = json.get_mut("spoiled").and_then(Value::as_array_mut);
    reasons.into_iter().flatten().for_each(|why| replace(why, "", |text| value(&spoiled(text))));
    replace(json, "/circumstances/corun/closed_by", |by| value(&closed_by(by)));
    Some(())
}

fn rename(json: &mut Value, from: &str, to: &str) {
    if let Some(object) = json.as_object_mut()
        && let Some(moved) = object.remove(from)
    {
        object.insert(to.to_owned(), moved);
    }
}

/// Only a text is of the older form.
fn replace(json: &mut Value, place: &str, with: impl FnOnce(&str) -> Value) {
    if let Some(old) = json.pointer_mut(place)
        && let Value::String(text) = &*old
    {
        *old = with(text);
    }
}

fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}

/// What stands between a beginning and an end.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    text.strip_prefix(begin)?.strip_suffix(end)
}

fn profile(text: &str) -> ProfileReason {
    match between(text, "`", "` holds") {
        Some(expression) => ProfileReason::Holds { expression: expression.to_owned() },
        None => ProfileReason::Asked,
    }
}

fn why(text: &str) -> Why {
    let reason = match text {
        "its first run" => Reason::NeverRan,
        "forced" => Reason::Forced,
        "its last attempt left no result to reuse" => Reason::NoResult,
        _ => Reason::Said(text.to_owned()),
    };
    Why { first: vec![reason], more: 0 }
}

fn cause(text: &str, outcome: Outcome, on_gpus: bool) -> Cause {
    match outcome {
        Outcome::OutOfMemory if text == "the kernel killed it for want of host memory" => Cause::KilledForMemory,
        Outcome::OutOfMemory => {
            Cause::OutOfMemory { memory: Memory::meant(Some(text), on_gpus), said: Some(text.to_owned()) }
        }
        _ => known_cause(text).unwrap_or_else(|| Cause::Said { text: text.to_owned() }),
    }
}

fn known_cause(text: &str) -> Option<Cause> {
    let owned = |text: &str| text.to_owned();
    let labelled = |end: &str| text.strip_suffix(end).map(owned);
    if let Some(expression) = between(text, "`", "` is false").filter(|rest| !rest.contains('`')) {
        return Some(Cause::ConditionFalse { expression: owned(expression) });
    }
    if let Some(axis) = between(text, "its axis `", "` is empty") {
        return Some(Cause::EmptyAxis { axis: owned(axis) });
    }
    if let Some((step, why)) = text.strip_prefix('`').and_then(|rest| rest.split_once("` has no instances: ")) {
        let because = known_cause(why).map(Box::new);
        return Some(Cause::NoInstances { step: Some(owned(step)), because });
    }
    if let Some(limit) = between(text, "it ran longer than its timeout of ", " s") {
        return Some(Cause::TimedOut { limit: Span::from_secs_f64(limit.parse().ok()?) });
    }
    if let Some(rest) = text.strip_prefix("ended with exit code ") {
        let (code, line) = rest.split_once(": ").map_or((rest, None), |(code, line)| (code, Some(line)));
        let end = ProcessEnd::Code { code: code.parse().ok()? };
        return Some(Cause::Exited { end, last_line: line.map(owned) });
    }
    if let Some(rest) = text.strip_prefix("was ended by ") {
        let (name, line) = rest.split_once(": ").map_or((rest, None), |(name, line)| (name, Some(line)));
        let end = ProcessEnd::Signal { name: owned(name) };
        return Some(Cause::Exited { end, last_line: line.map(owned) });
    }
    if let Some(label) = labelled(" of its group did not succeed") {
        return Some(Cause::MemberFailed { label });
    }
    if let Some(label) = labelled(" did not succeed") {
        return Some(Cause::NeedFailed { label });
    }
    if let Some(label) = labelled(" failed, and -k was not given") {
        return Some(Cause::FailedElsewhere { label });
    }
    if let Some(label) = labelled(" cannot run") {
        return Some(Cause::NeedCannotRun { label });
    }
    Some(match text {
        "the run was cancelled" => Cause::RunCancelled,
        "it asks for more than there is" => Cause::AsksTooMuch,
        "a GPU that it needs was lost" => Cause::GpuGone,
        "the program said that it failed" => Cause::SaidFailed,
        "no section has anything to show" => Cause::NothingToShow,
        _ => return None,
    })
}

fn spoiled(text: &str) -> Spoiled {
    known_spoiled(text).unwrap_or_else(|| Spoiled::Said { text: text.to_owned() })
}

fn known_spoiled(text: &str) -> Option<Spoiled> {
    if let Some(path) = between(text, "`", "` changed while it ran") {
        return Some(Spoiled::InputChanged { path: path.to_owned() });
    }
    if let Some(rest) = between(text, "process ", " meanwhile") {
        let (who, gpu) = rest.rsplit_once(" of somebody else computed on GPU ")?;
        let (pid, name) = who.split_once(" (")?;
        let name = name.strip_suffix(')')?.to_owned();
        return Some(Spoiled::Stranger { pid: pid.parse().ok()?, name, gpu: gpu.to_owned() });
    }
    let rest = between(text, "GPU ", " s meanwhile: what it did then is not known")?;
    let (gpu, seconds) = rest.split_once(" did not answer for ")?;
    Some(Spoiled::GpuSilent { gpu: gpu.to_owned(), seconds: seconds.parse().ok()? })
}

fn closed_by(text: &str) -> Option<ClosedBy> {
    let (label, outcome) = text.rsplit_once(": ")?;
    let outcome = serde_json::from_value(outcome.replace(' ', "_").into()).ok()?;
    Some(ClosedBy { label: label.to_owned(), outcome })
}
