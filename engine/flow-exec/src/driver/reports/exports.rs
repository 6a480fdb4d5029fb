//! Exports a run: which parts of its store and workspace a bundle carries.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use flow_core::{
    BundledRun, CarriedObject, Digest, InstanceId, JournalLine, RunEvent, RunId, Series, StepResult, Uses, thin,
};
use flow_runs::RunDir;
use flow_store::Objects;
use flow_supervisor::secrets::Secrets;
use serde_json::{Map, Value};

use super::builtin::files;
use crate::{
    ExecError,
    driver::{begin::environments, session::Session},
    text,
};

/// Longer files of the workspace, or made by steps of flow, are not carried.
const LONGEST: u64 = 4 << 20;

/// Files that a simulation makes besides its numbers.
const SEEDS: &str = "seeds.json";
const SCHEDULE: &str = "schedule.json";

/// The file next to a plugin's description that has the plugin's digest.
const PLUGIN_DIGEST: &str = "digest";

/// The folder of a bundle's workspace with the texts of inputs, each named by the digest of the original. Their own digests
/// may differ, because names of folders and of the machine are replaced.
const INPUT_TEXTS: &str = ".inputs";

/// How texts are made fit for other people.
pub struct Private<'a> {
    /// Rewrites a text of the journal or of a result.
    pub text: &'a dyn Fn(&str) -> String,
    /// Rewrites a file of the workspace without a change of meaning.
    pub file: &'a dyn Fn(&str) -> String,
}

/// Collects a run: its journal, its results with their series and the output of flow's own steps, and the workspace
/// files that its reports are made from. No workspace files if the workflow cannot be opened. `inputs`: also the kept texts
/// of its inputs.
///
/// # Errors
/// The store cannot be read.
pub fn carry(
    dir: &RunDir,
    run: &RunId,
    results: &[StepResult],
    session: Option<&Session>,
    private: &Private<'_>,
    inputs: bool,
) -> Result<BundledRun, ExecError> {
    let mut carried = BundledRun::default();
    let mut made_by_flow = BTreeSet::new();
    let mut schedules = Vec::new();
    dir.read_journal(|line| {
        if let RunEvent::Instance { step, written, .. } = &line.event
            && let Some(uses) = written.get("uses").and_then(|uses| uses.as_str())
            // The flow that shows a report makes it again from its tables.
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
    let objects = Objects::of(dir.store());
    for result in results {
        if let Some((digest, series)) = series(&objects, result)? {
            carried.objects.insert(digest, series);
        }
        if let Some(digest) = result.circumstances.environment
            && let Some(environment) = environments::load(&digest, &objects)
            && let Ok(text) = serde_json::to_string(&environment.without_folders())
        {
            carried.objects.insert(digest, CarriedObject::from([(String::new(), (private.text)(&text))]));
        }
        for artifact in result.outputs.values().filter(|_| made_by_flow.contains(&result.step)) {
            let mut made = CarriedObject::new();
            let is_shown = schedules.iter().any(|shown| shown.is_of(result));
            for (path, bytes) in files(&objects, artifact)? {
                // These are long, and no report shows them.
                if path == SEEDS || path == SCHEDULE && !is_shown {
                    continue;
                }
                // Pictures are drawn again.
                let text = String::from_utf8(bytes).ok().filter(|text| text.len() as u64 <= LONGEST);
                made.extend(text.filter(|_| !path.ends_with(".svg")).map(|text| (path, (private.text)(&text))));
            }
            // Several results may have made the same artifact, and only one of them is shown.
            carried.objects.entry(artifact.digest).or_default().extend(made);
        }
    }
    carried.settle();
    if let Some(session) = session {
        carried.files = workspace(session, private);
    }
    if inputs {
        carried.files.extend(kept_texts(&objects, results, &known_secrets(session)?));
    }
    Ok(carried)
}

/// The values of all secrets that the workflow declares.
///
/// # Errors
/// The workflow or a value is not known, so flow could not recognise a secret.
fn known_secrets(session: Option<&Session>) -> Result<Secrets, ExecError> {
    let unknown = |what: String| {
        ExecError::Usage(format!("{what}, so flow cannot look for secrets in the inputs; export without `--inputs`"))
    };
    let session = session.ok_or_else(|| unknown("the workflow of the run cannot be opened".to_owned()))?;
    if let Some(name) = session.secrets().into_iter().find(|name| std::env::var_os(name).is_none()) {
        return Err(unknown(format!("the secret `{name}` is not set here")));
    }
    session.secret_values()
}

/// The stored texts of the results' inputs, as files of the workspace. A text with a secret of its run is never stored,
/// and one with these secrets is left out.
fn kept_texts(objects: &Objects, results: &[StepResult], secrets: &Secrets) -> BTreeMap<String, String> {
    let inputs = results.iter().filter_map(|result| result.kept.as_ref()).flat_map(|kept| kept.inputs.values());
    let digests: BTreeSet<Digest> = inputs.filter(|input| input.text).map(|input| input.digest).collect();
    let text = |digest: Digest| {
        let text = String::from_utf8(objects.read_private(&digest)?).ok().filter(|text| !secrets.occur_in(text))?;
        Some((format!("{INPUT_TEXTS}/{digest}"), text))
    };
    digests.into_iter().filter_map(text).collect()
}

/// The number of texts of inputs that a run takes along.
pub fn input_text_count(run: &BundledRun) -> usize {
    run.files.keys().filter(|path| Path::new(path).starts_with(INPUT_TEXTS)).count()
}

/// The texts of inputs in the workspace of an imported run, by the digest of the original.
pub fn input_texts(workspace: &Path) -> BTreeMap<Digest, String> {
    let text = |entry: std::fs::DirEntry| {
        let digest = entry.file_name().to_str()?.parse().ok()?;
        Some((digest, text::read(&entry.path(), LONGEST).ok()?))
    };
    std::fs::read_dir(workspace.join(INPUT_TEXTS)).into_iter().flatten().flatten().filter_map(text).collect()
}

/// A schedule that a report shows: its step, and its point.
struct ShownSchedule {
    from: String,
    at: Map<String, Value>,
}

impl ShownSchedule {
    fn is_of(&self, result: &StepResult) -> bool {
        let same = |own: &Value, wanted: &Value| match (own.as_f64(), wanted.as_f64()) {
            (Some(own), Some(wanted)) => own == wanted,
            // The value of an expression is not known here.
            _ => own == wanted || wanted.as_str().is_some_and(|text| text.contains("${{")),
        };
        result.step == self.from
            && self.at.iter().all(|(axis, wanted)| result.axes.get(axis).is_none_or(|own| same(own, wanted)))
    }
}

/// The `schedules:` of a report's sections, as the step was written.
fn shown_schedules(written: &Map<String, Value>) -> Vec<ShownSchedule> {
    let sections = written.get("with").and_then(|with| with.get("sections")).and_then(Value::as_array);
    let schedules = sections.into_iter().flatten().filter_map(|section| section.get("schedules")?.as_array());
    let one = |schedule: &Value| {
        let at = schedule.get("where").and_then(Value::as_object).cloned().unwrap_or_default();
        Some(ShownSchedule { from: schedule.get("from")?.as_str()?.to_owned(), at })
    };
    schedules.flatten().filter_map(one).collect()
}

/// The journal lines about reused results, from the runs that produced them.
fn reused(
    dir: &RunDir,
    run: &RunId,
    results: &[StepResult],
    private: &Private<'_>,
    carried: &mut BundledRun,
) -> Result<(), ExecError> {
    let mut by_run: BTreeMap<&RunId, BTreeMap<Digest, &StepResult>> = BTreeMap::new();
    for result in results.iter().filter(|result| result.run != *run) {
        by_run.entry(&result.run).or_default().insert(result.fingerprint, result);
    }
    for (from, mut wanted) in by_run {
        let mut lines: Vec<JournalLine> = Vec::new();
        // The journal may be gone, or belong to another user.
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
        // Results that `flow accept` kept are recorded elsewhere.
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

/// The series of a result, thinned, under the digest of the full series.
fn series(objects: &Objects, result: &StepResult) -> Result<Option<(Digest, CarriedObject)>, ExecError> {
    let Some(digest) = result.series else { return Ok(None) };
    let Some(bytes) = objects.whole(&digest)? else { return Ok(None) };
    let thinned = serde_json::from_slice::<Series>(&bytes).ok().map(|series| thin(&series));
    let text = thinned.and_then(|series| serde_json::to_string(&series).ok());
    Ok(text.map(|text| (digest, CarriedObject::from([(String::new(), text)]))))
}

/// The workflow with its includes, the descriptions of its plugins, and the author's files that flow's own steps read.
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
    // A plugin is not carried, only its digest.
    let digests = session.catalogue.plugins.iter().map(|(name, facts)| (name, facts.digest.to_string()));
    found.extend(digests.map(|(name, digest)| (format!("plugins/{name}/{PLUGIN_DIGEST}"), digest)));
    found
}

/// The digests of an imported run's plugins by name. `folder` has a folder for each plugin.
pub fn plugin_digests(folder: &Path) -> BTreeMap<String, Digest> {
    let digest = |entry: std::fs::DirEntry| {
        let digest = text::read(&entry.path().join(PLUGIN_DIGEST), LONGEST).ok()?;
        Some((entry.file_name().into_string().ok()?, digest.parse().ok()?))
    };
    std::fs::read_dir(folder).into_iter().flatten().flatten().filter_map(digest).collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write, ops::ControlFlow};

    use flow_runs::{Holder, ProcessIdentity};
    use flow_store::Store;
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_of_inputs_are_found_by_the_digest_of_the_original() {
        let dir = tempfile::tempdir().unwrap();
        let me = Holder { process: ProcessIdentity::own(), doing: "t".into(), run: None, since: String::new() };
        let store = Store::open(&dir.path().join(".flow"), &me, |_| ControlFlow::Break(())).unwrap();
        let original = store.objects().store_private(|file| file.write_all(b"cd /home/kim\n")).unwrap();
        let input = |digest, text| json!({"digest": digest, "bytes": 13, "text": text});
        let inputs = json!({"a.sh": input(original, true), "gone.sh": input(Digest::of(b"gone"), true),
            "a.bin": input(Digest::of(b"data"), false)});
        let result = json!({"fingerprint": original, "workflow": "w", "step": "a", "label": "a", "axes": {}, "outcome": "ok",
            "run": "r", "started_at": 0, "ended_at": 0, "kept": {"attempt": original, "inputs": inputs}});
        let results = [serde_json::from_value(result).unwrap()];
        let secret = Secrets::new(vec!["/home/kim".into()]);
        assert!(kept_texts(store.objects(), &results, &secret).is_empty());
        let texts = kept_texts(store.objects(), &results, &Secrets::default());
        for (path, text) in &texts {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        assert_eq!(input_texts(dir.path()), [(original, "cd /home/kim\n".to_owned())].into());
        assert_eq!(input_texts(&dir.path().join("none")), BTreeMap::new());
    }
}
