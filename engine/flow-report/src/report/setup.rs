//! The set-up of the measurements: the list in a report, and the identity of the hardware.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::{BuiltinInput, CorunGpus, Environment, FRAMEWORKS, Revision, StepResult, reason::ProfileReason};
use indexmap::{IndexMap, IndexSet};
use serde::{Deserialize, Serialize};

use super::with::{self, ReportWith, SetupWith};
use crate::columns::{Datum, datum, written};
use crate::safe::value_without_folders;
use crate::table::{ByLanguage, Table, Text};

/// Parameters that belong in the set-up. All others are in the results.
const PARAMETERS: [&str; 8] = ["model", "size", "input_size", "epochs", FROZEN, "optimizer", "lr", "precision"];
/// Epochs before those of `epochs`.
const FROZEN: &str = "freeze_epochs";
/// Facts that are versions of software.
const VERSIONS: [&str; 3] = ["torch", "cuda", "cudnn"];

/// The set-up of all results of a report.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// Parameters that are not axes, with their values in the results.
    pub(crate) parameters: Vec<(String, String)>,
    /// All other parameters of the workflow that the results depend on, without paths and lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) others: Vec<(String, String)>,
    /// Parameters whose values differ from the file and the profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) set: Vec<(String, String)>,
    /// The most GPUs that were allocated at once: model, number, memory in bytes. Empty without GPUs.
    pub(crate) gpus: Vec<(String, usize, u64)>,
    /// The number of GPUs of a model in the machine, if it has more than were used.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) machine_gpus: BTreeMap<String, usize>,
    /// CPU model and number of CPUs that flow could use, of the hosts.
    pub(crate) cpus: Vec<(String, u32)>,
    /// The number of CPUs of the host with this model, if flow could use only some.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) host_cpus: BTreeMap<String, u32>,
    /// Slurm jobs that measured, and the nodes that they ran on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) slurm: Option<SlurmJobs>,
    /// Versions of the software.
    pub(crate) versions: Vec<(String, String)>,
    /// The profile in use, and the reason.
    pub(crate) profile: Option<(String, ProfileReason)>,
    /// The Git revisions of the runs that measured.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) revisions: BTreeSet<Revision>,
    /// The author's own lines.
    pub(crate) more: Vec<SetupWith>,
}

/// How many Slurm jobs measured, and on how many nodes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct SlurmJobs {
    pub(crate) jobs: usize,
    pub(crate) nodes: usize,
}

impl SlurmJobs {
    fn of(measured: &[&StepResult]) -> Option<Self> {
        let values = |name: &str| -> BTreeSet<&String> {
            measured.iter().filter_map(|result| result.circumstances.facts.get(name)).collect()
        };
        let jobs = values("slurm_job").len();
        (jobs > 0).then(|| Self { jobs, nodes: values("node").len() })
    }
}

impl Setup {
    /// The hardware of the results on one line, as part of an entry's identity.
    pub(crate) fn hardware(&self) -> String {
        let gpus = self.gpus.iter().map(|(model, count, _)| format!("{count} x {model}"));
        let cpus = self.cpus.iter().map(|(model, count)| format!("{count} CPUs {model}"));
        gpus.chain(cpus).collect::<Vec<_>>().join(", ")
    }
}

/// Collects the set-up: parameters of all results, and the machines of measured results.
pub(super) fn setup(
    with: &ReportWith,
    input: &BuiltinInput,
    tables: &[&Table],
    used: &[&StepResult],
    measured: &[&StepResult],
) -> Setup {
    let mut parameters = Vec::new();
    for name in PARAMETERS {
        let mut values: IndexSet<String> = IndexSet::new();
        for result in used.iter().filter(|r| !r.axes.contains_key(name)) {
            if let Some(Datum::Declared { text, .. }) = datum(result, name)
                && text != "null"
                && (name != FROZEN || text != "0")
            {
                values.insert(text);
            }
        }
        if !values.is_empty() {
            // For a step that trains a model, `size` is the size of its input. For others it may mean anything.
            let trains = |result: &&StepResult| matches!(datum(result, "model"), Some(Datum::Declared { .. }));
            let shown = if name == "size" && used.iter().any(trains) { "input_size" } else { name };
            let values: Vec<String> = values.iter().map(|value| value_without_folders(value)).collect();
            parameters.push((shown.to_owned(), values.join(", ")));
        }
    }
    let mut others = others(input, used);
    others.extend(constant_axes(tables, used));
    others.sort();
    let mut gpus: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    let (mut cpus, mut host_cpus) = (BTreeMap::<String, u32>::new(), BTreeMap::<String, u32>::new());
    let mut versions: IndexMap<&str, IndexSet<String>> = IndexMap::new();
    let mut drivers = IndexSet::new();
    let mut software: IndexMap<&str, BTreeSet<String>> = IndexMap::new();
    // Members of a co-run group with separate GPUs used all of these at once.
    let mut groups: BTreeMap<(&str, &str, u32, &str), BTreeSet<&str>> = BTreeMap::new();
    for r in measured {
        let window = r.circumstances.corun.iter().filter(|window| window.gpus == CorunGpus::Own);
        let gpus = r.circumstances.gpu_models.iter().zip(&r.circumstances.gpus);
        for (window, (model, uuid)) in window.flat_map(|window| gpus.clone().map(move |gpu| (window, gpu))) {
            let group = (&*r.step, &*window.group, r.repetition.unwrap_or_default(), &**model);
            groups.entry(group).or_default().insert(uuid);
        }
    }
    for c in measured.iter().map(|r| &r.circumstances).chain(&input.behind).filter(|c| c.host_cpus > 0) {
        for (model, total) in c.gpu_models.iter().zip(c.gpu_memory_total.iter().chain(std::iter::repeat(&0))) {
            let count = c.gpu_models.iter().filter(|m| *m == model).count();
            let entry = gpus.entry(model.clone()).or_default();
            *entry = (entry.0.max(count), entry.1.max(*total));
        }
        let entry = cpus.entry(c.cpu_model.clone()).or_default();
        *entry = (*entry).max(c.usable_cpus());
        let host = host_cpus.entry(c.cpu_model.clone()).or_default();
        *host = (*host).max(c.host_cpus);
        for name in VERSIONS {
            versions.entry(name).or_default().extend(c.facts.get(name).cloned());
        }
        let environment = c.environment.and_then(|digest| input.environments.get(&digest));
        if let Some(python) = environment.and_then(Environment::python) {
            software.entry("Python").or_default().extend(python.version.clone());
            for name in FRAMEWORKS {
                software.entry(name).or_default().extend(python.packages.get(name).cloned());
            }
        }
        // A driver version means nothing for a run without a GPU.
        drivers.extend(c.driver.clone().filter(|_| !c.gpu_models.is_empty()));
    }
    for ((.., model), held) in groups {
        if let Some((most, _)) = gpus.get_mut(model) {
            *most = (*most).max(held.len());
        }
    }
    // The results are from this machine only if it has all GPUs that were used.
    let here = |uuid: &String| input.machine.gpus.iter().any(|gpu| gpu.uuid == *uuid);
    let mut held = measured.iter().map(|r| &r.circumstances).chain(&input.behind).flat_map(|c| &c.gpus);
    let machine = !gpus.is_empty() && held.all(here);
    let machine_gpus = gpus.iter().filter(|_| machine).filter_map(|(model, (used, _))| {
        let there = input.machine.gpus.iter().filter(|gpu| gpu.name == *model).count();
        (there > *used).then(|| (model.clone(), there))
    });
    let machine_gpus = machine_gpus.collect();
    if used.is_empty() {
        for gpu in &input.machine.gpus {
            let entry = gpus.entry(gpu.name.clone()).or_default();
            *entry = (entry.0 + 1, entry.1.max(gpu.memory));
        }
        cpus.insert(input.machine.cpu_model.clone(), input.machine.cpus);
    }
    // A program that reports its own version of a framework knows it better.
    software.retain(|name, found| !found.is_empty() && versions.get(name).is_none_or(IndexSet::is_empty));
    let software = software.into_iter().map(|(name, found)| (name.to_owned(), joined(found)));
    versions.insert("driver", drivers);
    versions.retain(|_, found| !found.is_empty());
    let known = versions.into_iter().map(|(name, found)| (name.to_owned(), joined(found)));
    let known = software.chain(known).collect();
    Setup {
        parameters,
        others,
        set: input.set.iter().map(|(name, value)| (name.clone(), value_without_folders(&written(value)))).collect(),
        machine_gpus,
        gpus: gpus.into_iter().map(|(model, (count, memory))| (model, count, memory)).collect(),
        host_cpus: host_cpus
            .into_iter()
            .filter(|(model, host)| cpus.get(model).is_some_and(|cpus| cpus < host))
            .collect(),
        cpus: cpus.into_iter().collect(),
        slurm: SlurmJobs::of(measured),
        versions: known,
        profile: input.profile.clone(),
        revisions: measured.iter().filter_map(|r| r.circumstances.revision.clone()).collect(),
        more: with.setup.iter().map(own_line).collect(),
    }
}

fn joined(versions: impl IntoIterator<Item = String>) -> String {
    versions.into_iter().collect::<Vec<_>>().join(", ")
}

/// The parameters of the workflow that no other line and no axis shows, with each value that the results have.
fn others(input: &BuiltinInput, used: &[&StepResult]) -> Vec<(String, String)> {
    let all = used.iter().flat_map(|result| {
        let own = |name: &&String| !result.axes.contains_key(*name) && !input.set.contains_key(*name);
        result.circumstances.params.keys().filter(own).map(|name| (name, &result.circumstances.params[name]))
    });
    let shown = all.filter(|(name, _)| !PARAMETERS.contains(&name.as_str()));
    let values: BTreeSet<(String, String)> =
        shown.map(|(name, value)| (name.clone(), value_without_folders(&written(value)))).collect();
    values.into_iter().collect()
}

/// Axes that have one value in all results, and that no section shows.
fn constant_axes(tables: &[&Table], used: &[&StepResult]) -> Vec<(String, String)> {
    let mut values: BTreeMap<&String, BTreeSet<String>> = BTreeMap::new();
    for (axis, value) in used.iter().flat_map(|result| &result.axes) {
        values.entry(axis).or_default().insert(value_without_folders(&written(value)));
    }
    let is_shown = |axis: &str| {
        let shows = |table: &Table| table.axes().any(|shown| shown == axis) || table.only.contains_key(axis);
        tables.iter().any(|table| shows(table))
    };
    let constant = values.into_iter().filter(|(axis, values)| values.len() == 1 && !is_shown(axis));
    constant.flat_map(|(axis, values)| values.into_iter().map(|value| (axis.clone(), value))).collect()
}

/// A line by the author, without the folders of this machine.
fn own_line(line: &SetupWith) -> SetupWith {
    let told = |text: &Option<String>| text.as_deref().map(value_without_folders);
    let value = match &line.value {
        with::Value::Text(Text::Same(text)) => with::Value::Text(Text::Same(value_without_folders(text))),
        with::Value::Text(Text::By(ByLanguage { en, zh })) => {
            with::Value::Text(Text::By(ByLanguage { en: told(en), zh: told(zh) }))
        }
        number => number.clone(),
    };
    SetupWith { label: line.label.clone(), value }
}
