//! The seam between the engine and flow's own steps (`flow/table`, `flow/report`): bytes and values in, bytes and values out.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::{
    Circumstances, Foreign, Machine, Metric, Provided, Series, StepResult,
    reason::{Cause, Fault, ProfileReason, Withheld},
};

/// Flow's own steps. Pure: whoever calls reads and writes the files.
pub trait Builtins: Send + Sync {
    /// The steps by name behind `flow/`, with schema, outputs and version.
    fn provided(&self) -> BTreeMap<String, Provided>;

    /// What changes with any of them, told without their schemas.
    fn version(&self) -> &str;

    /// Runs one.
    ///
    /// # Errors
    /// For the author of the workflow: what was expected, what to do.
    fn run(&self, name: &str, input: &BuiltinInput) -> Result<BuiltinOutput, Fault>;

    /// What a `publish` entry writes, from the files of the `from` step's only output.
    ///
    /// # Errors
    /// A sentence for the author of the workflow.
    fn publish(&self, job: &PublishJob) -> Result<Publication, String>;
}

/// What a built-in sees: the steps that it names, the steps that those are `like`, and the steps that those tables are `from`.
#[derive(Clone, Debug, Default)]
pub struct BuiltinInput {
    pub workflow: String,
    /// The workflow's title by language; the name under `""` where it has none.
    pub title: BTreeMap<String, String>,
    pub with: Map<String, Value>,
    pub steps: IndexMap<String, StepView>,
    /// What a report rests on besides these: where there was a GPU, for results of steps above what it shows.
    pub behind: Vec<Circumstances>,
    /// What its parameters name of the author's files, by the path that stands there.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The profile in force and why, if there is one.
    pub profile: Option<(String, ProfileReason)>,
    /// Parameters whose values are not those of the file and the profile.
    pub set: BTreeMap<String, Value>,
    /// Where the results were asked for; for reports made without results.
    pub machine: Machine,
}

/// A step, as a built-in sees it.
#[derive(Clone, Debug, Default)]
pub struct StepView {
    /// `torch/train`, `flow/table`, or absent for a command.
    pub uses: Option<String>,
    /// Its `with:` as written, without late values resolved.
    pub with: Map<String, Value>,
    /// The step it is a copy of.
    pub like: Option<String>,
    /// Why it has no instances: `when` is false, or its matrix is empty.
    pub absent: Option<Cause>,
    /// Results in the order of the matrix. Skipped and blocked instances have one too, with that outcome.
    pub results: Vec<StepResult>,
    /// What was repeated for a verdict of this built-in, besides: all others see an experiment as it was asked for.
    pub again: Vec<StepResult>,
    /// What other machines came to, where this built-in asked for that.
    pub imported: Vec<Foreign>,
    /// Series of each result, where there are any; as long as `results`.
    pub series: Vec<Option<Series>>,
    /// Files of the outputs of built-in steps by path, for each result; as long as `results`. So a report reads the tables and
    /// the schedules that it shows.
    pub files: Vec<BTreeMap<String, Vec<u8>>>,
}

/// What a built-in produces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BuiltinOutput {
    /// Files of its only output (a folder), by path in it.
    pub files: BTreeMap<String, Vec<u8>>,
    pub metrics: BTreeMap<String, Metric>,
    /// What is to be said of it, if anything.
    pub cause: Option<Cause>,
    /// What its author should know, a sentence each.
    pub notices: Vec<String>,
}

/// The files beside a README that `whats_new:` names: with all entries, and with those of runs without a GPU.
pub const WHATS_NEW: [&str; 2] = ["WHATSNEW.md", "reports/WHATSNEW.md"];

/// One entry of `publish:` to carry out.
#[derive(Clone, Debug)]
pub struct PublishJob {
    /// Files of the report, by path in its folder.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Whole report to a file, or an entry into a file.
    pub what: PublishWhat,
    /// The target's file name, `feb08.md`.
    pub target: String,
    /// The target's present content, if it exists.
    pub existing: Option<String>,
    /// The present content of those files of [`WHATS_NEW`] that exist in the target's folder.
    pub beside: BTreeMap<String, String>,
    /// For an entry: the path from the target's folder to the published report, if this workflow publishes it too.
    pub report: Option<String>,
    /// What may be replaced.
    pub replace: Replace,
}

/// Which published files a run may replace. What does not exist yet is published unless publishing is off.
#[derive(Clone, Debug, PartialEq)]
pub enum Replace {
    /// Whatever it published before.
    Always,
    /// What is of the same profile and from the same GPU models.
    Alike,
    /// Nothing; where nothing was to be published, that is not published either.
    Nothing(Withheld),
}

/// What a `publish` entry comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Publication {
    pub files: Vec<FileToWrite>,
    /// Why they are not written to where they are published.
    pub withheld: Option<Withheld>,
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
    /// Relative path, never upwards.
    pub path: String,
    pub bytes: Vec<u8>,
}
