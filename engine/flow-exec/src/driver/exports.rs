//! A run as others are given it: what of its store and of its workspace a bundle carries.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use flow_core::{
    Carried, CarriedObject, Digest, InstanceId, JournalLine, RunEvent, RunId, Series, StepResult, Uses, thin,
};
use flow_store::{Objects, RunDir};
use serde_json::{Map, Value};

use super::{Session, builtin::files};
use crate::{ExecError, text};

/// A longer file of the workspace, or of what a step of flow made, is not carried.
const LONGEST: u64 = 4 << 20;

/// What a simulation makes beside its numbers.
const SEEDS: &str = "seeds.json";
const SCHEDULE: &str = "schedule.json";

/// The file next to a plugin's description that has the plugin's digest.
const PLUGIN_DIGEST: &str = "digest";

/// How texts are told to others.
pub struct Private<'a> {
    /// A text of the journal or of a result.
    pub text: &'a dyn Fn(&str) -> String,
    /// A file of the workspace, which is to mean the same afterwards.
    pub file: &'a dyn Fn(&str) -> String,
}

/// Collects a run: its journal, its results with their series and with what flow's own steps made, and the files of its workspace
/// that its reports are made from. Of the latter nothing if the workflow cannot be opened.
///
/// # Errors
/// The store cannot be read.
pub fn carry(
    dir: &RunDir,
    run: &RunId,
    results: &[StepResult],
    session: Option<&Session>,
    private: &Private<'_>,
) -> Result<Carried, ExecError> {
    let mut carried = Carried::default();
    let mut made_by_flow = BTreeSet::new();
    let mut schedules = Vec::new();
    dir.read_journal(|line| {
        if let RunEvent::Instance { step, written, .. } = &line.event
            && let Some(uses) = written.get("uses").and_then(|uses| uses.as_str())
            // A report is made again from its tables, by the flow that shows it.
            && uses.starts_with("flow/") && uses != "flow/report"
        {
            made_by_flow.insert(step.clone());
        }
        if let RunEvent::Instance { written, .. } = &line.event {
            schedules.extend(shown_schedules(written));
        }
        carried.add(run, line, private.text);
    })?;
    reused(dir, run, results, private, &mut carried)?;
    let objects = dir.store().objects();
    for result in results {
        if let Some((digest, series)) = series(&objects, result)? {
            carried.objects.insert(digest, series);
        }
        for artifact in result.outputs.values().filter(|_| made_by_flow.contains(&result.step)) {
            let mut made = CarriedObject::new();
            let is_shown = schedules.iter().any(|shown| shown.is_of(result));
            for (path, bytes) in files(&objects, artifact)? {
                // Long, and no report shows them.
                if path == SEEDS || path == SCHEDULE && !is_shown {
                    continue;
                }
                // Pictures are drawn again.
                let text = String::from_utf8(bytes).ok().filter(|text| text.len() as u64 <= LONGEST);
                made.extend(text.filter(|_| !path.ends_with(".svg")).map(|text| (path, (private.text)(&text))));
            }
            // Several may have made the same, and only one of them is shown.
            carried.objects.entry(artifact.digest).or_default().extend(made);
        }
    }
    carried.settle();
    if let Some(session) = session {
        carried.files = workspace(session, private);
    }
    Ok(carried)
}

/// A schedule that a report shows: of which step, and at which point.
struct ShownSchedule {
    from: String,
    at: Map<String, Value>,
}

impl ShownSchedule {
    fn is_of(&self, result: &StepResult) -> bool {
        let same = |own: &Value, asked: &Value| match (own.as_f64(), asked.as_f64()) {
            (Some(own), Some(asked)) => own == asked,
            // What an expression comes to is not known here.
            _ => own == asked || asked.as_str().is_some_and(|text| text.contains("${{")),
        };
        result.step == self.from
            && self.at.iter().all(|(axis, asked)| result.axes.get(axis).is_none_or(|own| same(own, asked)))
    }
}

/// The `schedules:` of the sections of a report, as its step was written.
fn shown_schedules(written: &Map<String, Value>) -> Vec<ShownSchedule> {
    let sections = written.get("with").and_then(|with| with.get("sections")).and_then(Value::as_array);
    let schedules = sections.into_iter().flatten().filter_map(|section| section.get("schedules")?.as_array());
    let one = |schedule: &Value| {
        let at = schedule.get("where").and_then(Value::as_object).cloned().unwrap_or_default();
        Some(ShownSchedule { from: schedule.get("from")?.as_str()?.to_owned(), at })
    };
    schedules.flatten().filter_map(one).collect()
}

/// Of the runs that produced what this one reused, the lines about that.
fn reused(
    dir: &RunDir,
    run: &RunId,
    results: &[StepResult],
    private: &Private<'_>,
    carried: &mut Carried,
) -> Result<(), ExecError> {
    let mut by_run: BTreeMap<&RunId, BTreeMap<Digest, &StepResult>> = BTreeMap::new();
    for result in results.iter().filter(|result| result.run != *run) {
        by_run.entry(&result.run).or_default().insert(result.fingerprint, result);
    }
    for (from, mut wanted) in by_run {
        let mut lines: Vec<JournalLine> = Vec::new();
        // The journal may be gone, or belong to somebody else.
        let _ = dir.store().run(from).read_journal(|line| lines.push(line));
        let of = |line: &JournalLine| match &line.event {
            RunEvent::Recorded { instance, result, .. } if wanted.contains_key(&result.fingerprint) => Some(*instance),
            _ => None,
        };
        let instances: BTreeSet<InstanceId> = lines.iter().filter_map(of).collect();
        for line in lines {
            let is_about = match &line.event {
                RunEvent::RunStarted(_) => true,
                RunEvent::Instance { instance, .. }
                | RunEvent::Started { instance, .. }
                | RunEvent::Ended { instance, .. }
                | RunEvent::Recorded { instance, .. } => instances.contains(instance),
                _ => false,
            };
            if let RunEvent::Recorded { result, .. } = &line.event {
                wanted.remove(&result.fingerprint);
            }
            if is_about {
                carried.add(from, line, private.text);
            }
        }
        // What `flow accept` kept is recorded elsewhere.
        for (n, result) in wanted.into_values().enumerate() {
            let instance = InstanceId(u32::MAX - n as u32);
            let event = RunEvent::Recorded {
                instance,
                result: Box::new(result.clone()),
                parts: Value::Null,
                read_again: false,
            };
            carried.add(from, JournalLine { at: result.ended_at, event }, private.text);
        }
    }
    Ok(())
}

/// The series of a result with fewer points, under the digest of the whole one.
fn series(objects: &Objects, result: &StepResult) -> Result<Option<(Digest, CarriedObject)>, ExecError> {
    let Some(digest) = result.series else { return Ok(None) };
    let Some(bytes) = objects.whole(&digest)? else { return Ok(None) };
    let thinned = serde_json::from_slice::<Series>(&bytes).ok().map(|series| thin(&series));
    let text = thinned.and_then(|series| serde_json::to_string(&series).ok());
    Ok(text.map(|text| (digest, CarriedObject::from([(String::new(), text)]))))
}

/// The workflow with what it includes, the descriptions of its plugins, and the author's files that flow's own steps read.
fn workspace(session: &Session, private: &Private<'_>) -> BTreeMap<String, String> {
    let root = &session.workspace.root;
    let mut found = BTreeMap::new();
    let mut add = |path: &Path, name: Option<String>| {
        let Ok(path) = path.canonicalize() else { return };
        let below = || path.strip_prefix(root).ok().map(|path| path.to_string_lossy().into_owned());
        if let (Some(name), Ok(text)) = (name.or_else(below), text::read(&path, LONGEST)) {
            found.insert(name, (private.file)(&text));
        }
    };
    for source in session.workflow.sources() {
        add(Path::new(&source.path), None);
    }
    for plugin in &session.plugins {
        add(&plugin.folder.join("plugin.yaml"), Some(format!("plugins/{}/plugin.yaml", plugin.name())));
    }
    let expansion = &session.expansion;
    for instance in &expansion.instances {
        if matches!(expansion.steps[instance.step.index()].uses, Uses::Builtin(_)) {
            instance.inputs.iter().for_each(|input| add(&session.path(&input.path), None));
        }
    }
    // A plugin is not carried, only what it is known by.
    let digests = session.catalogue.plugins.iter().map(|(name, facts)| (name, facts.digest.to_string()));
    found.extend(digests.map(|(name, digest)| (format!("plugins/{name}/{PLUGIN_DIGEST}"), digest)));
    found
}

/// The digests of the plugins of an imported run, by name: `folder` has a folder for each.
pub fn plugin_digests(folder: &Path) -> BTreeMap<String, Digest> {
    let digest = |entry: std::fs::DirEntry| {
        let digest = text::read(&entry.path().join(PLUGIN_DIGEST), LONGEST).ok()?;
        Some((entry.file_name().into_string().ok()?, digest.parse().ok()?))
    };
    std::fs::read_dir(folder).into_iter().flatten().flatten().filter_map(digest).collect()
}
