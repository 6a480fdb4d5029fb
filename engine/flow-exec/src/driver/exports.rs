//! A run as others are given it: what of its store and of its workspace a bundle carries.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use flow_core::{
    Carried, CarriedObject, Digest, InstanceId, JournalLine, RunEvent, RunId, Series, StepResult, Uses, thin,
};
use flow_store::{Objects, RunDir};

use super::{Session, builtin::files};
use crate::{ExecError, text};

/// A longer file of the workspace, or of what a step of flow made, is not carried.
const LONGEST: u64 = 4 << 20;

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
    dir.read_journal(|line| {
        if let RunEvent::Instance { step, written, .. } = &line.event
            && let Some(uses) = written.get("uses").and_then(|uses| uses.as_str())
            // A report is made again from its tables, by the flow that shows it.
            && uses.starts_with("flow/") && uses != "flow/report"
        {
            made_by_flow.insert(step.clone());
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
            for (path, bytes) in files(&objects, artifact)? {
                // Pictures are drawn again.
                let text = String::from_utf8(bytes).ok().filter(|text| text.len() as u64 <= LONGEST);
                made.extend(text.filter(|_| !path.ends_with(".svg")).map(|text| (path, (private.text)(&text))));
            }
            carried.objects.insert(artifact.digest, made);
        }
    }
    carried.settle();
    if let Some(session) = session {
        carried.files = workspace(session, private);
    }
    Ok(carried)
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
                parts: serde_json::Value::Null,
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
        add(&plugin.folder.join("plugin.yaml"), Some(format!("plugins/{}/plugin.yaml", plugin.manifest.name)));
    }
    let expansion = &session.expansion;
    for instance in &expansion.instances {
        if matches!(expansion.steps[instance.step.index()].uses, Uses::Builtin(_)) {
            instance.inputs.iter().for_each(|input| add(&session.path(&input.path), None));
        }
    }
    found
}
