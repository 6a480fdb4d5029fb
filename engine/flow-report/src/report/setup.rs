//! What was measured and on what: the list at the head of a report, and the identity of the hardware.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::{BuiltinInput, CorunGpus, Revision, StepResult, reason::ProfileReason};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::with::{ReportWith, SetupWith};
use crate::columns::{Datum, datum};

/// Parameters that belong to what was measured; all others are in the results.
const PARAMETERS: [&str; 7] = ["model", "size", "input_size", "epochs", "optimizer", "lr", "precision"];
/// Facts that are versions.
const VERSIONS: [&str; 3] = ["torch", "cuda", "cudnn"];

/// The set-up of all results of a report.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// Parameters that all results share, or their values where there are few.
    pub(crate) parameters: Vec<(String, String)>,
    /// Parameters whose values are not those of the file and the profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) set: Vec<(String, String)>,
    /// GPUs of the largest placement: model, how many, memory in bytes. Empty without.
    pub(crate) gpus: Vec<(String, usize, u64)>,
    /// CPU model and CPUs of the hosts.
    pub(crate) cpus: Vec<(String, u32)>,
    /// Versions of the software.
    pub(crate) versions: Vec<(String, String)>,
    /// Profile in force and why.
    pub(crate) profile: Option<(String, ProfileReason)>,
    /// What the repository stood at in the runs that measured.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) revisions: BTreeSet<Revision>,
    /// The author's own lines.
    pub(crate) more: Vec<SetupWith>,
}

impl Setup {
    /// What hardware the results are from, on one line: part of an entry's identity.
    pub(crate) fn hardware(&self) -> String {
        let gpus = self.gpus.iter().map(|(model, count, _)| format!("{count} x {model}"));
        let cpus = self.cpus.iter().map(|(model, count)| format!("{count} CPUs {model}"));
        gpus.chain(cpus).collect::<Vec<_>>().join(", ")
    }
}

/// Gathers the set-up: parameters of all results, and the machines of those that were measured on one.
pub(super) fn setup(with: &ReportWith, input: &BuiltinInput, used: &[&StepResult], measured: &[&StepResult]) -> Setup {
    let mut parameters = Vec::new();
    for name in PARAMETERS {
        let mut values: Vec<String> = Vec::new();
        for result in used.iter().filter(|r| !r.axes.contains_key(name)) {
            if let Some(Datum::Declared { text, .. }) = datum(result, name)
                && !values.contains(&text)
                && text != "null"
            {
                values.push(text);
            }
        }
        if !values.is_empty() {
            // Whoever trains a model and has a size means that of its input; others may mean anything.
            let shown =
                if name == "size" && parameters.iter().any(|(n, _)| n == "model") { "input_size" } else { name };
            parameters.push((shown.to_owned(), values.join(", ")));
        }
    }
    let mut gpus: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    let mut cpus: BTreeMap<String, u32> = BTreeMap::new();
    let mut versions: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    let mut drivers = Vec::new();
    // Members of a co-run group on GPUs of their own held them all at once.
    let mut groups: BTreeMap<(&str, &str, u32, &str), usize> = BTreeMap::new();
    for r in measured {
        let window = r.circumstances.corun.iter().filter(|window| window.gpus == CorunGpus::Own);
        for (window, model) in window.flat_map(|window| r.circumstances.gpu_models.iter().map(move |m| (window, m))) {
            *groups.entry((&r.step, &window.group, r.repetition.unwrap_or_default(), model)).or_default() += 1;
        }
    }
    for c in measured.iter().map(|r| &r.circumstances).filter(|c| c.host_cpus > 0) {
        for (model, total) in c.gpu_models.iter().zip(c.gpu_memory_total.iter().chain(std::iter::repeat(&0))) {
            let count = c.gpu_models.iter().filter(|m| *m == model).count();
            let entry = gpus.entry(model.clone()).or_default();
            *entry = (entry.0.max(count), entry.1.max(*total));
        }
        let entry = cpus.entry(c.cpu_model.clone()).or_default();
        *entry = (*entry).max(c.host_cpus);
        for (at, name) in VERSIONS.iter().enumerate() {
            let known = versions.entry(at).or_default();
            if let Some(version) = c.facts.get(*name).filter(|v| !known.contains(v)) {
                known.push(version.clone());
            }
        }
        // A driver says nothing about a run without a GPU.
        if let Some(driver) = c.driver.as_ref().filter(|d| !c.gpu_models.is_empty() && !drivers.contains(*d)) {
            drivers.push(driver.clone());
        }
    }
    for ((.., model), count) in groups {
        if let Some((most, _)) = gpus.get_mut(model) {
            *most = (*most).max(count);
        }
    }
    if used.is_empty() {
        for gpu in &input.machine.gpus {
            let entry = gpus.entry(gpu.name.clone()).or_default();
            *entry = (entry.0 + 1, entry.1.max(gpu.memory));
        }
        cpus.insert(input.machine.cpu_model.clone(), input.machine.cpus);
    }
    let mut known: Vec<(String, String)> = versions
        .into_iter()
        .filter(|(_, v)| !v.is_empty())
        .map(|(at, values)| (VERSIONS[at].to_owned(), values.join(", ")))
        .collect();
    if !drivers.is_empty() {
        known.push(("driver".into(), drivers.join(", ")));
    }
    Setup {
        parameters,
        set: input.set.iter().map(|(name, value)| (name.clone(), written(value))).collect(),
        gpus: gpus.into_iter().map(|(model, (count, memory))| (model, count, memory)).collect(),
        cpus: cpus.into_iter().collect(),
        versions: known,
        profile: input.profile.clone(),
        revisions: measured.iter().filter_map(|r| r.circumstances.revision.clone()).collect(),
        more: with.setup.clone(),
    }
}

/// A value as people write it on a command line.
fn written(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
