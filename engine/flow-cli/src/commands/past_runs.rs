//! Facts of results from the journals of earlier runs: why the attempt ran, its command and its
//! variables. Each journal is read once.

use std::collections::BTreeMap;

use flow_core::{Digest, InstanceId, RunEvent, RunId, StepResult, fingerprint::Parts, why};
use flow_runs::StoreDir;
use serde_json::Value;

use crate::{
    reasons::InstanceReason,
    screen::{InstanceView, View},
};

/// The runs that were read.
pub(crate) struct PastRuns<'a> {
    store: &'a StoreDir,
    runs: BTreeMap<RunId, OneRun>,
}

#[derive(Default)]
struct OneRun {
    view: View,
    parts: BTreeMap<Digest, Parts>,
    by_fingerprint: BTreeMap<Digest, InstanceId>,
    by_label: BTreeMap<String, InstanceId>,
}

/// How an instance was started.
#[derive(Default)]
pub(crate) struct AsRun {
    pub(crate) command: Option<String>,
    /// Variables that the workflow sets; secrets without their values.
    pub(crate) env: BTreeMap<String, String>,
}

impl<'a> PastRuns<'a> {
    pub(crate) fn of(store: &'a StoreDir) -> PastRuns<'a> {
        PastRuns { store, runs: BTreeMap::new() }
    }

    /// A run counts as empty if its journal is gone or belongs to another user.
    fn run(&mut self, run: &RunId) -> &OneRun {
        let store = self.store;
        self.runs.entry(run.clone()).or_insert_with(|| {
            let mut one = OneRun::default();
            let _ = store.run(run).read_journal(|line| {
                one.view.event(&line);
                if let RunEvent::Recorded { result, parts, .. } = line.event {
                    one.parts.extend(serde_json::from_value(parts).ok().map(|parts| (result.fingerprint, parts)));
                }
            });
            for (id, shown) in &one.view.instances {
                // If several instances do the same work, one ran and the others have its result.
                let ran = shown.fingerprint.filter(|_| one.view.attempts_of(shown).len() > 0);
                one.by_fingerprint.extend(ran.map(|fingerprint| (fingerprint, *id)));
                one.by_label.insert(shown.label.clone(), *id);
            }
            one
        })
    }

    /// The instance of a run that made what another one reuses.
    pub(crate) fn made(&mut self, run: &RunId, reused: &InstanceView) -> Option<(&View, &InstanceView)> {
        let run = self.run(run);
        run.find(reused.fingerprint.as_ref(), &reused.label).map(|shown| (&run.view, shown))
    }

    /// Why the attempt ran that made the result with a fingerprint, or under a label.
    pub(crate) fn reason(&mut self, run: &RunId, fingerprint: &Digest, label: &str) -> Option<InstanceReason> {
        let shown = self.run(run).find(Some(fingerprint), label)?;
        shown.reason.clone().filter(|reason| matches!(reason, InstanceReason::Runs(_)))
    }

    /// The command of the attempt that made a result.
    pub(crate) fn as_run(&mut self, result: &StepResult) -> AsRun {
        let run = self.run(&result.run);
        let Some(shown) = run.find(Some(&result.fingerprint), &result.label) else { return AsRun::default() };
        let parts = shown.fingerprint.and_then(|fingerprint| run.parts.get(&fingerprint));
        let (command, mut env) = parts.map(why::as_run).unwrap_or_default();
        let written = run.view.written.get(&shown.step);
        // A long command is stored as written, not as it ran.
        let as_written = || Some(written?.get("run")?.as_str()?.to_owned());
        let secrets = written.and_then(|keys| keys.get("secrets"));
        let secrets = secrets.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        env.extend(secrets.map(|name| (name.to_owned(), "***".to_owned())));
        AsRun { command: command.or_else(as_written), env }
    }
}

impl OneRun {
    /// An accepted result has another fingerprint now, and a renamed step another label.
    fn find(&self, fingerprint: Option<&Digest>, label: &str) -> Option<&InstanceView> {
        let id = fingerprint.and_then(|one| self.by_fingerprint.get(one)).or_else(|| self.by_label.get(label))?;
        self.view.instances.get(id)
    }
}
