//! Turns journal lines into events for the page: only the fields that it shows, with reasons in English and Chinese. Reads
//! no file.

use flow_core::reason::{Cause, ProfileReason};
use flow_core::{JournalLine, Planned, Remark, RunEvent, StepResult};
use flow_report::{Reasons, Words};
use serde_json::{Map, Value, json};

/// The page's languages.
const LANGUAGES: [&str; 2] = ["en", "zh"];

/// An event for the page; `None` if the page does not show it. `reused` is the result that a `Cached` event reuses.
pub(crate) fn event(line: &JournalLine, words: &Words, reused: Option<&StepResult>) -> Option<Value> {
    let both = |of: &dyn Fn(Reasons<'_>) -> String| json!(LANGUAGES.map(|lang| of(words.plain_reasons(lang))));
    let cause = |cause: &Cause| both(&|reasons| reasons.cause(cause));
    let maybe = |of: &Option<Cause>| of.as_ref().map_or(Value::Null, cause);
    let (name, rest) = match &line.event {
        RunEvent::RunStarted(start) => {
            let why = |why: &ProfileReason| both(&|reasons| reasons.profile(why));
            let profile = start.profile.as_ref().map(|(name, reason)| json!({"name": name, "why": why(reason)}));
            let rest = json!({
                "run": start.run, "flow": start.flow, "file": start.file, "workflow": start.workflow,
                "profile": profile, "note": start.note, "targets": start.targets, "set": start.set,
                "policy": start.policy, "revision": start.revision, "machine": start.machine,
                "instances": start.instances,
            });
            ("start", rest)
        }
        RunEvent::Instance { instance, label, step, plan, .. } => {
            let mut rest = json!({"i": instance, "label": label, "step": step});
            match plan {
                Planned::Skipped { cause: of } | Planned::NotNeeded { cause: of } => rest["cause"] = cause(of),
                Planned::Run { why, .. } => rest["why"] = json!(why),
                Planned::After { steps } => rest["after"] = json!(steps.iter().take(5).collect::<Vec<_>>()),
                Planned::Cached | Planned::MayRepeat => {}
            }
            ("instance", rest)
        }
        RunEvent::Remarked { remark } => ("notice", json!({"text": said(remark, words)})),
        RunEvent::Cached { instance, outcome, from, .. } => {
            let result = reused.map(|result| brief(result, words));
            ("cached", json!({"i": instance, "outcome": outcome, "from": from, "result": result}))
        }
        RunEvent::Started { instance, attempt, why, gpus, gpus_asked, cpus, queued, .. } => {
            let rest = json!({
                "i": instance, "a": attempt, "why": why, "gpus": gpus, "asked": gpus_asked, "cpus": cpus,
                "queued": queued,
            });
            ("started", rest)
        }
        RunEvent::Ready { attempt } => ("ready", json!({"a": attempt})),
        RunEvent::Released { attempts, .. } => ("released", json!({"attempts": attempts})),
        RunEvent::Epoch { attempt, epoch, metrics, .. } => {
            ("epoch", json!({"a": attempt, "n": epoch, "metrics": finite(metrics)}))
        }
        RunEvent::Ended { instance, attempt, outcome, cause, spoiled } => {
            let spoiled: Vec<Value> = spoiled.iter().map(|one| both(&|reasons| reasons.spoiled(one))).collect();
            let rest = json!({
                "i": instance, "a": attempt, "outcome": outcome, "cause": maybe(cause), "spoiled": spoiled,
            });
            ("ended", rest)
        }
        RunEvent::Again { instance, .. } => ("again", json!({"i": instance})),
        RunEvent::Recorded { instance, result, read_again, .. } => {
            ("recorded", json!({"i": instance, "again": read_again, "result": brief(result, words)}))
        }
        RunEvent::Settled { instance, outcome, cause } => {
            let unneeded = matches!(cause, Some(Cause::Decided { .. }));
            ("settled", json!({"i": instance, "outcome": outcome, "cause": maybe(cause), "unneeded": unneeded}))
        }
        RunEvent::Interrupted { again, .. } => ("interrupted", json!({"again": again})),
        RunEvent::Notice { instance, text } => ("notice", json!({"i": instance, "text": [text, text]})),
        RunEvent::Published { path, changed } => ("published", json!({"path": path, "changed": changed})),
        RunEvent::Withheld { path, written, .. } => ("withheld", json!({"path": path, "written": written})),
        RunEvent::RunEnded { exit, not_published, .. } => ("end", json!({"exit": exit, "unpublished": not_published})),
        RunEvent::Accepted { .. }
        | RunEvent::Imported { .. }
        | RunEvent::Foreign { .. }
        | RunEvent::Observed { .. }
        | RunEvent::Tried { .. }
        | RunEvent::Forgotten { .. }
        | RunEvent::Dropped { .. } => return None,
    };
    let mut event = Map::from_iter([("t".to_owned(), json!(line.at)), ("e".to_owned(), json!(name))]);
    if let Value::Object(rest) = rest {
        event.extend(rest);
    }
    Some(Value::Object(event))
}

/// The numbers of a result that the table shows.
fn brief(result: &StepResult, words: &Words) -> Value {
    let usage = &result.usage;
    let loads: Vec<f64> = usage.gpus.iter().filter_map(flow_core::GpuUsage::load).collect();
    let load = (!loads.is_empty()).then(|| loads.iter().sum::<f64>() / loads.len() as f64);
    let metrics = result.metrics.iter().map(|(name, metric)| {
        let value = if metric.value.is_finite() { json!(metric.value) } else { json!(metric.value.to_string()) };
        (name.clone(), json!({"v": value, "unit": metric.unit, "sd": metric.sd, "n": metric.epochs}))
    });
    json!({
        "outcome": result.outcome,
        "cause": result.cause.as_ref().map(|of| LANGUAGES.map(|lang| words.plain_reasons(lang).cause(of))),
        "axes": result.axes,
        "metrics": metrics.collect::<Map<String, Value>>(),
        "wall": usage.wall_s, "cores": usage.cores(), "rss": usage.rss_peak,
        "load": load, "gpu_memory": usage.gpus.iter().filter_map(|gpu| gpu.memory_peak).max(),
        "disturbed": result.spoiled.len(),
    })
}

/// All of a result for the card.
pub(crate) fn whole(result: &StepResult, words: &Words) -> Value {
    let list = |of: &dyn Fn(&Reasons<'_>) -> Vec<String>| {
        let [en, zh] = LANGUAGES.map(|lang| of(&words.plain_reasons(lang)));
        json!(en.into_iter().zip(zh).collect::<Vec<_>>())
    };
    let circumstances = &result.circumstances;
    json!({
        "label": result.label, "run": result.run, "outcome": result.outcome,
        "started_at": result.started_at, "ended_at": result.ended_at,
        "cause": list(&|reasons| result.cause.iter().map(|cause| reasons.cause(cause)).collect()),
        "spoiled": list(&|reasons| result.spoiled.iter().map(|one| reasons.spoiled(one)).collect()),
        "caveats": list(&|reasons| result.caveats.iter().map(|one| reasons.caveat(one)).collect()),
        "result": brief(result, words),
        "params": result.params, "usage": result.usage,
        "outputs": result.outputs.iter().map(|(name, of)| json!({"name": name, "bytes": of.bytes, "files": of.files}))
            .collect::<Vec<_>>(),
        "circumstances": circumstances, "accepted": result.accepted, "has_series": result.series.is_some(),
    })
}

/// JSON has no NaN: it becomes null, and infinity a text.
fn finite(metrics: &std::collections::BTreeMap<String, f64>) -> Value {
    let number = |value: f64| match value {
        value if value.is_finite() => json!(value),
        value if value.is_nan() => Value::Null,
        value => json!(value.to_string()),
    };
    metrics.iter().map(|(name, value)| (name.clone(), number(*value))).collect::<Map<String, Value>>().into()
}

fn said(remark: &Remark, words: &Words) -> [String; 2] {
    match remark {
        Remark::NoProfile { profiles } => {
            let names = profiles.iter().map(|(name, when)| format!("{name} (`{when}`)")).collect::<Vec<_>>().join(", ");
            [format!("no profile matches this machine: {names}"), format!("没有符合本机的 profile：{names}")]
        }
        Remark::NoInstances { step, because } => {
            let [en, zh] = LANGUAGES.map(|lang| words.plain_reasons(lang).cause(because));
            [format!("`{step}` has no instances: {en}"), format!("`{step}` 没有实例：{zh}")]
        }
    }
}
