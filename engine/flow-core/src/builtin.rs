//! The interface between the engine and the built-in steps (`flow/table`, `flow/report`): bytes and values in and out.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::{
    CatalogueStep, Circumstances, Digest, Environment, Foreign, Machine, Metric, Series, StepResult,
    reason::{Cause, Fault, ProfileReason, WithheldReason},
};

/// The built-in steps. Pure: the caller reads and writes the files.
pub trait Builtins: Send + Sync {
    /// The steps by name after `flow/`, with schema, outputs and version.
    fn provided(&self) -> BTreeMap<String, CatalogueStep>;

    /// Changes if any of them does; cheaper than their schemas.
    fn version(&self) -> &str;

    /// Runs one.
    ///
    /// # Errors
    /// For the author of the workflow: what was expected, and what to do.
    fn run(&self, name: &str, input: &BuiltinInput) -> Result<BuiltinOutput, Fault>;

    /// The files that a `publish` entry writes, made from the files of the `from` step's only output.
    ///
    /// # Errors
    /// A sentence for the author of the workflow.
    fn publish(&self, job: &PublishJob) -> Result<Publication, String>;
}

/// Input of a built-in: the steps that it names, the steps that those are `like`, and those that these tables are
/// `from`.
#[derive(Clone, Debug, Default)]
pub struct BuiltinInput {
    pub workflow: String,
    /// The workflow's title by language; its name under `""` if it has none.
    pub title: BTreeMap<String, String>,
    pub with: Map<String, Value>,
    pub steps: IndexMap<String, StepView>,
    /// For a report: conditions of GPU runs of steps above those that it shows.
    pub behind: Vec<Circumstances>,
    /// The software environments of its results, by digest, as far as they are known.
    pub environments: BTreeMap<Digest, Environment>,
    /// The user's files that its parameters name, by the path in the parameter.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The active profile and why, if there is one.
    pub profile: Option<(String, ProfileReason)>,
    /// Parameters whose values differ from the file and the profile.
    pub set: BTreeMap<String, Value>,
    /// The machine of this run; for reports without results.
    pub machine: Machine,
}

/// A built-in's view of a step.
#[derive(Clone, Debug, Default)]
pub struct StepView {
    /// `torch/train`, `flow/table`, or absent for a command.
    pub uses: Option<String>,
    /// Its `with:` as written, with late values unresolved.
    pub with: Map<String, Value>,
    /// The step it is a copy of.
    pub like: Option<String>,
    /// Why it has no instances: `when` is false, or its matrix is empty.
    pub absent: Option<Cause>,
    /// Results in matrix order. Skipped and blocked instances also have one, with that outcome.
    pub results: Vec<StepResult>,
    /// Further repetitions for a verdict of this built-in. Other built-ins see only the requested repetitions.
    pub again: Vec<StepResult>,
    /// Results of other machines, if this built-in requested them.
    pub imported: Vec<Foreign>,
    /// Series of each result, if it has any; as long as `results`.
    pub series: Vec<Option<Series>>,
    /// For each result, the output files of built-in steps by path; as long as `results`. A report reads its tables and
    /// schedules from them.
    pub files: Vec<BTreeMap<String, Vec<u8>>>,
}

/// Output of a built-in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BuiltinOutput {
    /// Files of its only output (a folder), by path in it.
    pub files: BTreeMap<String, Vec<u8>>,
    pub metrics: BTreeMap<String, Metric>,
    /// Why it ended as it did, if there is a reason.
    pub cause: Option<Cause>,
    /// Warnings for the author, one sentence each.
    pub notices: Vec<String>,
}

/// The files next to a README that `whats_new:` names: with all entries, and with those of runs without a GPU.
pub const WHATS_NEW: [&str; 2] = ["WHATSNEW.md", "reports/WHATSNEW.md"];

/// One entry of `publish:`, ready to be carried out.
#[derive(Clone, Debug)]
pub struct PublishJob {
    /// Files of the report, by path in its folder.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The whole report to a file, or an entry into a file.
    pub what: PublishWhat,
    /// The target's file name, `feb08.md`.
    pub target: String,
    /// The target's present content, if it exists.
    pub existing: Option<String>,
    /// The present content of the [`WHATS_NEW`] files in the target's folder.
    pub whats_new: BTreeMap<String, String>,
    /// For an entry: the path from the target's folder to the published report, if this workflow publishes it too.
    pub report: Option<String>,
    /// What it may replace.
    pub replace: Replace,
}

/// Which published files a run may replace. Files that do not exist yet are published unless publishing is off.
#[derive(Clone, Debug, PartialEq)]
pub enum Replace {
    /// Everything that it published before.
    Always,
    /// Files from the same profile and the same GPU models.
    Alike,
    /// Nothing; with publishing turned off, new files are not written either.
    Nothing(WithheldReason),
}

/// Result of a `publish` entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Publication {
    pub files: Vec<FileToWrite>,
    /// Why the files are not written to their published place.
    pub withheld: Option<WithheldReason>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishWhat {
    /// `to:`, the whole report.
    Report,
    /// `whats_new:`, an entry under the first such heading.
    WhatsNew,
}

/// A file to write, relative to the folder of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileToWrite {
    /// Relative path without `..`.
    pub path: String,
    pub bytes: Vec<u8>,
}
