//! A whole run in a bundle: the journals that commands read, the small objects that reports are made from, and the texts
//! of its workspace. Everything that names a person, a machine or a folder is left out or hidden.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{apart, check_numbers, line};
use crate::{Artifact, Digest, InstanceId, JournalLine, Outcome, RunEvent, RunId, StepResult, reason::Texts};

/// The parts of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BundledRun {
    /// The workflow, its included files, the descriptions of its plugins and the files that tables read, by their path
    /// from the root.
    pub files: BTreeMap<String, String>,
    /// Its journal, and those parts of other runs' journals that are about the results it reused.
    pub journals: BTreeMap<RunId, Vec<JournalLine>>,
    /// Series and built-in steps' outputs. The digest is that of the original, which may have had more points or files.
    pub objects: BTreeMap<Digest, CarriedObject>,
}

/// The texts of an object by path. A file has one text, under an empty path.
pub type CarriedObject = BTreeMap<String, String>;

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case", deny_unknown_fields)]
enum Part {
    File { path: String, text: String },
    Line { run: RunId, line: Box<JournalLine> },
    Object { digest: Digest, files: CarriedObject },
}

impl BundledRun {
    /// Adds a line of a run's journal, if it is public. `hide` removes private content from a text.
    pub fn add(&mut self, run: &RunId, line: JournalLine, hide: &dyn Fn(&str) -> String) {
        if let Some(line) = public(line).and_then(|line| hidden_line(line, hide)) {
            self.journals.entry(run.clone()).or_default().push(line);
        }
    }

    /// Fills in how many CPUs a run could use, from its machine, where results do not say it.
    fn limit_cpus(&mut self) {
        for lines in self.journals.values_mut() {
            let machine = match lines.first().map(|line| &line.event) {
                Some(RunEvent::RunStarted(start)) => start.machine.clone(),
                _ => continue,
            };
            for result in lines.iter_mut().filter_map(|line| result_of(&mut line.event)) {
                let seen = &mut result.circumstances;
                let is_here = seen.cpu_model == machine.cpu_model && !seen.facts.contains_key("node");
                if is_here && seen.allowed_cpus.is_none() && machine.cpus < seen.host_cpus {
                    seen.allowed_cpus = Some(machine.cpus);
                }
            }
        }
    }

    /// Keeps in each result only references to objects in the bundle.
    pub fn settle(&mut self) {
        let BundledRun { journals, objects, .. } = self;
        for line in journals.values_mut().flatten() {
            if let Some(result) = result_of(&mut line.event) {
                result.outputs.retain(|_, artifact| objects.contains_key(&artifact.digest));
                result.series = result.series.filter(|digest| objects.contains_key(digest));
                let environment = &mut result.circumstances.environment;
                *environment = environment.filter(|digest| objects.contains_key(digest));
            }
        }
    }

    /// Replaces references to objects by the ones of the local store.
    pub fn placed(&mut self, objects: &BTreeMap<Digest, Artifact>) {
        for line in self.journals.values_mut().flatten() {
            let Some(result) = result_of(&mut line.event) else { continue };
            for artifact in result.outputs.values_mut() {
                if let Some(placed) = objects.get(&artifact.digest) {
                    artifact.clone_from(placed);
                }
            }
            let place = |digest| objects.get(&digest).map(|placed| placed.digest);
            result.series = result.series.and_then(place);
            result.circumstances.environment = result.circumstances.environment.and_then(place);
        }
    }

    /// The results that a run produced or reused, in order of its instances.
    pub(super) fn results(&self, run: &RunId) -> Vec<StepResult> {
        let mut all: BTreeMap<Digest, &StepResult> = BTreeMap::new();
        for line in self.journals.values().flatten() {
            if let RunEvent::Recorded { result, .. } = &line.event {
                all.insert(result.fingerprint, result);
            }
        }
        let mut found: BTreeMap<InstanceId, StepResult> = BTreeMap::new();
        for line in self.journals.get(run).into_iter().flatten() {
            match &line.event {
                RunEvent::Recorded { instance, result, .. } => _ = found.insert(*instance, (**result).clone()),
                RunEvent::Cached { instance, fingerprint, .. } => {
                    found.extend(all.get(fingerprint).map(|result| (*instance, (*result).clone())));
                }
                RunEvent::Settled { instance, outcome, cause } => {
                    if let Some(result) = found.get_mut(instance) {
                        (result.outcome, result.cause) = (*outcome, cause.clone());
                    }
                }
                _ => {}
            }
        }
        let tells = |result: &StepResult| !matches!(result.outcome, Outcome::Skipped | Outcome::Cancelled);
        found.into_values().filter(tells).map(apart).collect()
    }

    /// Writes the parts, one per line, and returns their number.
    pub(super) fn write(&self, bytes: &mut Vec<u8>) -> usize {
        let mut count = 0;
        let mut add = |part: Part| {
            line(bytes, &part);
            count += 1;
        };
        for (path, text) in &self.files {
            add(Part::File { path: path.clone(), text: text.clone() });
        }
        for (run, lines) in &self.journals {
            for line in lines {
                add(Part::Line { run: run.clone(), line: Box::new(line.clone()) });
            }
        }
        for (digest, files) in &self.objects {
            add(Part::Object { digest: *digest, files: files.clone() });
        }
        count
    }

    /// Reads a part.
    pub(super) fn read(&mut self, line: &[u8]) -> Result<(), String> {
        match serde_json::from_slice(line).map_err(|e| format!("it is not a part of a run: {e}"))? {
            Part::File { path, text } => _ = self.files.insert(path, text),
            Part::Object { digest, files } => _ = self.objects.insert(digest, files),
            Part::Line { run, line } => self.journals.entry(run).or_default().extend(public(*line)),
        }
        Ok(())
    }

    /// Rejects content that flow never writes: paths that leave a folder, a run without a beginning, impossible numbers.
    pub(super) fn check(&mut self, run: &RunId) -> Result<(), String> {
        let paths = self.files.keys().chain(self.objects.values().flat_map(BTreeMap::keys));
        if let Some(path) = paths.filter(|path| !path.is_empty()).find(|path| !is_inside(path)) {
            return Err(format!("`{}` is not the path of a file in it", crate::visible(path)));
        }
        if self.files.contains_key("") {
            return Err("a file in it has no name".to_owned());
        }
        if let Some(name) = self.journals.keys().find(|run| !is_name(&run.0)) {
            return Err(format!("`{}` is not a valid run id", crate::visible(&name.0)));
        }
        let first = self.journals.get(run).and_then(|lines| lines.first()).map(|line| &line.event);
        if !matches!(first, Some(RunEvent::RunStarted(start)) if start.run == *run) {
            return Err(format!("the journal of run {} has no beginning", crate::visible(&run.0)));
        }
        for line in self.journals.values_mut().flatten() {
            if let Some(result) = result_of(&mut line.event) {
                check_numbers(result)?;
            }
        }
        self.settle();
        self.limit_cpus();
        Ok(())
    }
}

/// A relative path without `..` that does not enter a store.
fn is_inside(path: &str) -> bool {
    const LONGEST: usize = 1024;
    let is_part = |part: &str| !part.is_empty() && ![".", "..", ".flow"].contains(&part);
    path.len() <= LONGEST && path.split('/').all(is_part) && !path.contains(|c: char| c.is_control() || c == '\\')
}

fn is_name(run: &str) -> bool {
    const LONGEST: usize = 64;
    (1..=LONGEST).contains(&run.len()) && run.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

/// The public form of a line, without private fields and without references that only its own store can use.
fn public(mut line: JournalLine) -> Option<JournalLine> {
    match &mut line.event {
        // Messages about the machine and other users' processes.
        RunEvent::Notice { .. }
        // The series contain these.
        | RunEvent::Epoch { .. }
        // Only about its store's database.
        | RunEvent::Forgotten { .. }
        | RunEvent::Dropped { .. }
        | RunEvent::Accepted { .. }
        | RunEvent::Imported { .. }
        | RunEvent::Foreign { .. } => return None,
        RunEvent::RunStarted(start) => {
            start.pid = 0;
            start.machine.gpu_troubles.clear();
        }
        // The bundle has no attempt folders, so no logs.
        RunEvent::Started { folder, .. } => folder.clear(),
        RunEvent::Recorded { result, .. } | RunEvent::Observed { result } => {
            for process in &mut result.circumstances.foreign_processes {
                (process.pid, process.name) = (0, String::new());
            }
            if let Some(kept) = &mut result.kept {
                (kept.record, kept.log) = (None, None);
                kept.files.clear();
                kept.absent.clear();
            }
        }
        _ => {}
    }
    Some(line)
}

/// A recorded result, or the observation of a failed attempt.
fn result_of(event: &mut RunEvent) -> Option<&mut StepResult> {
    match event {
        RunEvent::Recorded { result, .. } | RunEvent::Observed { result } => Some(result),
        _ => None,
    }
}

/// The same line with all its texts hidden, if it stays a valid line.
fn hidden_line(mut line: JournalLine, hide: &dyn Fn(&str) -> String) -> Option<JournalLine> {
    let order = result_of(&mut line.event).map(|result| (result.axes.clone(), result.outputs.clone()));
    let mut told: JournalLine = serde_json::from_value(hidden(serde_json::to_value(&line).ok()?, hide)).ok()?;
    if let (Some(result), Some((axes, outputs))) = (result_of(&mut told.event), order) {
        // The conversion sorts keys alphabetically; restore the declared order.
        result.axes.sort_by(|a, _, b, _| axes.get_index_of(a).cmp(&axes.get_index_of(b)));
        result.outputs.sort_by(|a, _, b, _| outputs.get_index_of(a).cmp(&outputs.get_index_of(b)));
    }
    Some(told)
}

/// A value with all its texts hidden, as in a bundle.
pub fn hidden(mut value: Value, hide: &dyn Fn(&str) -> String) -> Value {
    value.texts(&mut |text| *text = hide(text));
    value
}
