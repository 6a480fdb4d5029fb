//! Turns journal lines into events for the page: only the fields that it shows, with reasons in English and Chinese. Reads
//! no file.

use flow_core::reason::Cause;
use flow_core::{ArtifactKind, JournalLine, PlannedAction, Remark, RunEvent, RunStart, StepResult, why::RunReasons};
use flow_report::{Reasons, Words};
use serde_json::{Map, Value, json};

use crate::{
    catalogue::{self, BilingualText, phrase},
    facts, sentences,
};

/// The page's languages.
const LANGUAGES: [&str; 2] = ["en", "zh"];

/// An event for the page; `None` if the page does not show it. `reused` is the result that a `Cached` event reuses.
pub(crate) fn event(line: &JournalLine, words: &Words, reused: Option<&StepResult>) -> Option<Value> {
    let both = |of: &dyn Fn(Reasons<'_>) -> String| json!(LANGUAGES.map(|lang| of(words.plain_reasons(lang))));
    let cause = |cause: &Cause| both(&|reasons| reasons.cause(cause));
    let maybe = |of: &Option<Cause>| of.as_ref().map_or(Value::Null, cause);
    let (name, mut event) = match &line.event {
        RunEvent::RunStarted(start) => {
            let rest = json!({
                "run": start.run, "workflow": start.workflow, "gpus": start.machine.gpus, "about": about(start, words),
            });
            ("start", rest)
        }
        RunEvent::Instance { instance, label, step, plan, .. } => {
            let mut rest = json!({"i": instance, "label": label, "step": step});
            match plan {
                PlannedAction::Skipped { cause: of } | PlannedAction::NotNeeded { cause: of } => {
                    rest["cause"] = cause(of)
                }
                PlannedAction::Run { why, .. } => rest["why"] = json!(sentence(why)),
                PlannedAction::After { steps } => rest["after"] = json!(steps.iter().take(5).collect::<Vec<_>>()),
                PlannedAction::Cached | PlannedAction::MayRepeat => {}
            }
            ("instance", rest)
        }
        RunEvent::Remarked { remark } => ("notice", json!({"text": remarked(remark, words)})),
        RunEvent::Cached { instance, outcome, from, .. } => {
            let result = reused.map(|result| brief(result, words));
            ("cached", json!({"i": instance, "outcome": outcome, "from": from, "result": result}))
        }
        RunEvent::Started { instance, attempt, why, gpus, gpus_requested, cpus, queued, .. } => {
            let rest = json!({
                "i": instance, "a": attempt, "why": sentence(why), "gpus": gpus, "requested": gpus_requested, "cpus": cpus,
                "queued": queued,
            });
            ("started", rest)
        }
        RunEvent::Ready { attempt } => ("ready", json!({"a": attempt})),
        RunEvent::Released { attempts, .. } => ("released", json!({"attempts": attempts})),
        RunEvent::Epoch { attempt, epoch, metrics, .. } => {
            ("epoch", json!({"a": attempt, "n": epoch, "metrics": finite(metrics)}))
        }
        RunEvent::Ended { instance, attempt, outcome, cause, disturbances } => {
            let disturbed: Vec<Value> =
                disturbances.iter().map(|one| both(&|reasons| reasons.disturbed(one))).collect();
            let rest = json!({
                "i": instance, "a": attempt, "outcome": outcome, "cause": maybe(cause), "disturbances": disturbed,
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
        RunEvent::Interrupted { .. } => ("interrupted", json!({})),
        RunEvent::Notice { instance, text } => ("notice", json!({"i": instance, "text": [text, text]})),
        RunEvent::RunEnded { exit, .. } => ("end", json!({"exit": exit})),
        RunEvent::Published { .. }
        | RunEvent::Withheld { .. }
        | RunEvent::Accepted { .. }
        | RunEvent::Imported { .. }
        | RunEvent::Foreign { .. }
        | RunEvent::Observed { .. }
        | RunEvent::Tried { .. }
        | RunEvent::Forgotten { .. }
        | RunEvent::Dropped { .. } => return None,
    };
    (event["t"], event["e"]) = (json!(line.at), json!(name));
    Some(event)
}

/// The numbers of a result that the table shows.
fn brief(result: &StepResult, words: &Words) -> Value {
    let usage = &result.usage;
    let metrics = result.metrics.iter().map(|(name, metric)| {
        let value = if metric.value.is_finite() { json!(metric.value) } else { json!(metric.value.to_string()) };
        (name.clone(), json!({"v": value, "unit": metric.unit, "sd": metric.sd, "n": metric.epochs}))
    });
    json!({
        "outcome": result.outcome,
        "folder": result.outputs.values().any(|artifact| artifact.kind == ArtifactKind::Folder),
        "cause": result.cause.as_ref().map(|of| LANGUAGES.map(|lang| words.plain_reasons(lang).cause(of))),
        "axes": result.axes,
        "metrics": metrics.collect::<Map<String, Value>>(),
        "wall": usage.wall_s, "cores": usage.cores(),
        "load": facts::load(result), "gpu_memory": usage.gpus.iter().filter_map(|gpu| gpu.memory_peak).max(),
        "waited": waited(result), "foreign_cpu": result.circumstances.foreign_cpu,
        "foreign_processes": result.circumstances.foreign_processes.iter().map(|one| &one.gpu).collect::<Vec<_>>(),
    })
}

/// The mean share of an epoch that it waited for data.
fn waited(result: &StepResult) -> Option<f64> {
    let mean = |name: &str| result.metrics.get(name).map(|metric| metric.value);
    let share = mean("data_wait")? / mean("epoch_time")?;
    share.is_finite().then_some(share)
}

/// What the card says of a result beyond its event.
pub(crate) fn whole(result: &StepResult, words: &Words) -> Value {
    let caveats = LANGUAGES.map(|lang| {
        let reasons = words.plain_reasons(lang);
        result.caveats.iter().map(|one| reasons.caveat(one)).collect::<Vec<_>>()
    });
    let [en, zh] = caveats;
    json!({
        "run": result.run, "started_at": result.started_at, "caveats": en.into_iter().zip(zh).collect::<Vec<_>>(),
        "sections": facts::sections(result), "has_series": result.series.is_some(),
    })
}

/// Machine, profile, policy and note of a run.
fn about(start: &RunStart, words: &Words) -> Vec<BilingualText> {
    let machine = &start.machine;
    let mut models: Vec<(&str, usize)> = Vec::new();
    for gpu in &machine.gpus {
        match models.iter_mut().find(|(name, _)| *name == gpu.name) {
            Some((_, n)) => *n += 1,
            None => models.push((&gpu.name, 1)),
        }
    }
    let fake =
        if machine.fake_gpus { phrase("fake", &[]).map(|fake| format!(" ({fake})")) } else { BilingualText::default() };
    let gpus = models.into_iter().map(|(name, n)| match n {
        1 => fake.each_ref().map(|fake| format!("{name}{fake}")),
        n => fake.each_ref().map(|fake| format!("{n} × {name}{fake}")),
    });
    let mut all: Vec<BilingualText> = gpus.collect();
    let cpus = if machine.cpus == 1 { phrase("cpu-1", &[]) } else { phrase("cpus-n", &[&machine.cpus.to_string()]) };
    all.push(cpus.map(|cpus| format!("{cpus} {}", machine.cpu_model)));
    all.extend(start.profile.as_ref().map(|(name, why)| {
        let why = LANGUAGES.map(|lang| words.plain_reasons(lang).profile(why));
        let profile = phrase("profile", &[name]);
        [0, 1].map(|lang| format!("{} ({})", profile[lang], why[lang]))
    }));
    all.push(phrase("policy", &[&start.policy]));
    all.extend(start.note.as_deref().map(catalogue::same));
    all
}

fn sentence(why: &RunReasons) -> BilingualText {
    sentences::why(&serde_json::to_value(why).unwrap_or_default())
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

fn remarked(remark: &Remark, words: &Words) -> [String; 2] {
    match remark {
        Remark::NoProfile { profiles } => {
            let each = |is_for: &str| -> Vec<String> {
                profiles.iter().map(|(name, when)| format!("{name} {is_for} `{when}`")).collect()
            };
            let [en, zh] = [each("is for").join(", "), each("适用于").join("，")];
            [format!("no profile applies here: {en}"), format!("本机不使用 profile：{zh}")]
        }
        Remark::NoInstances { step, because } => {
            let [en, zh] = LANGUAGES.map(|lang| words.plain_reasons(lang).cause(because));
            [format!("`{step}` has no instances: {en}"), format!("`{step}` 没有实例：{zh}")]
        }
    }
}

#[cfg(test)]
mod tests {
    use flow_core::{AttemptId, InstanceId, Outcome};

    use super::*;

    #[test]
    fn the_page_reads_fields_that_are_sent() {
        let (instance, attempt, outcome) = (InstanceId(0), AttemptId(0), Outcome::Ok);
        let (why, folder, gpus, gpus_requested, cpus, queued) =
            (RunReasons::default(), String::new(), vec![], 2, 1, true);
        let started = RunEvent::Started { instance, attempt, folder, why, gpus, gpus_requested, cpus, queued };
        let ended = RunEvent::Ended { instance, attempt, outcome, cause: None, disturbances: vec![] };
        for sent in [started, ended] {
            let sent = event(&JournalLine { at: 1, event: sent }, &Words::new(), None).unwrap();
            let handler = format!("  {}(fold, {{", sent["e"].as_str().unwrap());
            let (_, rest) = include_str!("../page/fold.js").split_once(&handler).unwrap();
            for field in rest.split_once('}').unwrap().0.split(',') {
                assert!(sent.get(field.trim()).is_some(), "`{}` is not in {sent}", field.trim());
            }
        }
    }
}
