//! Instances: the points of the steps' matrices, with everything that is known about them before anything runs.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    CorunGpus, Digest, GroupId, InstanceId, Mode, Outcome, Span, StepId, StepResult,
    paths::normal,
    reason::{Cause, Lack},
    shell::Shell,
};

/// One point of a step's matrix (and one repetition of it).
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// Its position in the expansion.
    pub id: InstanceId,
    /// The step it belongs to.
    pub step: StepId,
    /// `solo[version=v7,batch=16]`; a step without a matrix is its bare name.
    pub label: Arc<str>,
    /// Axes in declared order; a mapping as value is flattened, `run.batch`.
    pub axes: Arc<IndexMap<String, Value>>,
    /// The repetition, from 0; absent if the step has no `repeat`.
    pub repetition: Option<u32>,
    /// Instances that must be settled first, in order of id.
    pub needs: Vec<Need>,
    /// Resources that it may hold while it runs.
    pub request: ResourceRequest,
    /// Whether it runs alone, and on what.
    pub exclusive: Exclusive,
    pub corun: Option<CorunMember>,
    /// Whether its circumstances matter and are part of its fingerprint.
    pub measured: bool,
    /// The seed, with the repetition added.
    pub seed: u64,
    /// Outcomes that are results, not failures.
    pub record: Arc<[Outcome]>,
    /// Wall-clock limit of an attempt.
    pub timeout: Option<Span>,
    /// Maximum number of retries of a failed attempt.
    pub retries: u32,
    /// Whether it resumes from an earlier attempt's checkpoint.
    pub resume: bool,
    /// Larger goes first, under the policies that use it: `critical-path` and `priority`.
    pub priority: i64,
    /// The declared environment that it runs in, by name.
    pub environment: Option<Arc<str>>,
    /// Files and folders of the user.
    pub inputs: Arc<[Input]>,
    pub outputs: Arc<[Output]>,
    /// Why it never runs: its `when` is false.
    pub skip: Option<Arc<Cause>>,
    /// It runs only while the verdict on a co-run group is undecided.
    pub again: Option<Arc<ConditionalRepetition>>,
    /// What this machine lacks to ever run it. Set only if it records `does_not_fit`.
    pub does_not_fit: Option<Arc<Lack>>,
    pub place: Place,
    /// Additional options of its job, if its place is Slurm.
    pub slurm: Option<Arc<SlurmJob>>,
    /// Time limit of its Slurm job, if known: by its request, and by its partition.
    pub job_limit: Option<Span>,
}

impl Instance {
    /// A batch system runs it. Otherwise it uses this machine.
    pub fn is_batch(&self) -> bool {
        self.place.is_batch()
    }

    /// Time limit of an attempt, by its own limit and that of its job.
    pub fn limit(&self) -> Option<Span> {
        self.timeout.into_iter().chain(self.job_limit).min()
    }

    /// Its outcome and the cause if it is settled without an attempt.
    pub fn settled(&self) -> Option<(Outcome, Cause)> {
        match (&self.skip, &self.does_not_fit) {
            (Some(cause), _) => Some((Outcome::Skipped, (**cause).clone())),
            (None, Some(lack)) => Some((Outcome::DoesNotFit, Cause::Lacks { lack: (**lack).clone() })),
            (None, None) => None,
        }
    }

    /// Its declared mode.
    pub fn mode(&self) -> Mode {
        match (&self.corun, self.exclusive) {
            (Some(_), _) => Mode::Corun,
            (None, Exclusive::No) => Mode::Plain,
            (None, _) => Mode::Alone,
        }
    }
}

/// A planned repetition of a co-run group, or of a solo run, that runs only if earlier measurements are inconclusive. It
/// needs all of these, and is looked up once they are settled. So neither the scheduler nor its driver knows the rule.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionalRepetition {
    /// The step and the group, `together v7`.
    pub group: String,
    /// Number of earlier runs of the group.
    pub looks: u32,
    /// Maximum number of runs.
    pub at_most: u32,
    /// Maximum slowdown that still counts as parallel.
    pub tolerance: f64,
    /// The members in all earlier repetitions.
    pub together: Vec<InstanceId>,
    pub alone: Vec<InstanceId>,
}

/// An edge to an instance that must be settled first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    pub on: InstanceId,
    /// Whether it is read as a member of a list: with `-k` its failure does not block.
    pub list: bool,
}

/// Resources that an instance may hold while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceRequest {
    /// Whole GPUs, after the profile's cap.
    pub gpus: u32,
    /// GPU memory on each, bytes: a reservation, and a limit if the plugin can enforce one.
    pub gpu_memory: Option<u64>,
    /// CPUs: declared, or by the fixed rule cores × gpus / GPUs; 1 without GPUs. Never from history.
    pub cpus: u32,
    /// Host memory, bytes.
    pub memory: Option<u64>,
}

/// `exclusive:`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exclusive {
    #[default]
    No,
    /// No other step of flow on its GPUs.
    Gpu,
    /// No other step of flow on the machine.
    Machine,
}

/// `on:`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    #[default]
    Local,
    /// Nodes of a cluster, through Slurm.
    Slurm,
}

impl Place {
    /// All places by name.
    pub const ALL: [(&'static str, Place); 2] = [("local", Place::Local), ("slurm", Place::Slurm)];

    /// A batch system runs the steps there.
    pub fn is_batch(self) -> bool {
        self == Place::Slurm
    }

    pub fn name(self) -> &'static str {
        match self {
            Place::Local => "local",
            Place::Slurm => "slurm",
        }
    }

    /// The place of that name.
    pub fn named(name: &str) -> Option<Place> {
        Place::ALL.iter().find(|(known, _)| *known == name).map(|(_, place)| *place)
    }
}

/// Slurm options in addition to a request: `slurm:` of the workflow, overridden by that of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SlurmJob {
    /// `--partition`.
    pub partition: Option<String>,
    /// `--account`.
    pub account: Option<String>,
    /// `--time`.
    pub time: Option<Span>,
    /// The type of its GPUs.
    pub gpu_type: Option<String>,
    /// Further options of `sbatch`, unchanged.
    pub options: Vec<String>,
}

impl SlurmJob {
    /// The step's options, completed by those of the workflow.
    pub fn over(self, whole: &SlurmJob) -> SlurmJob {
        SlurmJob {
            partition: self.partition.or_else(|| whole.partition.clone()),
            account: self.account.or_else(|| whole.account.clone()),
            time: self.time.or(whole.time),
            gpu_type: self.gpu_type.or_else(|| whole.gpu_type.clone()),
            options: whole.options.iter().cloned().chain(self.options).collect(),
        }
    }
}

/// `slurm:` of a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slurm {
    /// Options of every job.
    pub job: SlurmJob,
    /// Initial interval between polls of its queue.
    pub poll: Span,
    /// The folder that all nodes see.
    pub shared: Option<String>,
    /// The path of `flow` on the nodes.
    pub flow: Option<String>,
    /// Maximum number of attempts in its queue.
    pub jobs: u32,
}

impl Default for Slurm {
    fn default() -> Self {
        Slurm { job: SlurmJob::default(), poll: Span::from_millis(15_000), shared: None, flow: None, jobs: 200 }
    }
}

/// Membership of a co-run group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorunMember {
    /// The group, unique in the expansion.
    pub group: GroupId,
    /// Its name within the step: `v7`.
    pub name: Arc<str>,
    /// The GPUs of its members.
    pub gpus: CorunGpus,
    /// Whether it runs until told to stop.
    pub continues: bool,
}

/// A declared input: a file or folder of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Input {
    /// `${{ inputs.NAME }}`, if it has a name.
    pub name: Option<String>,
    /// Relative to the workflow file, or absolute; as written.
    pub path: String,
    /// Hash names and sizes only.
    pub by_listing: bool,
    /// A folder becomes a private copy that the step may change.
    pub copy: bool,
    /// Whether it comes from a plugin's parameter: read in place, not linked into the work folder. Its name is `with.`
    /// and the parameter.
    pub in_place: bool,
}

impl Input {
    /// The file or folder at this path, in a plugin's parameter.
    pub(crate) fn in_place(name: String, path: String) -> Input {
        Input { name: Some(name), path, in_place: true, ..Input::default() }
    }

    /// Its place in the work folder: the path as written, but never outside the folder (`../data/x` as `data/x`, an
    /// absolute path as its last part).
    pub fn place(&self) -> String {
        let path = normal(&self.path);
        match path.starts_with('/') {
            true => path.rsplit('/').next().unwrap_or_default().to_owned(),
            false => path.split('/').filter(|part| *part != "..").collect::<Vec<_>>().join("/"),
        }
    }

    /// How many folders above the workflow's own its path begins: 1 for `../data/x`.
    pub fn folders_above(&self) -> usize {
        normal(&self.path).split('/').filter(|part| *part == "..").count()
    }

    /// Whether it is also next to the work folder, as `../data/x`. Another folder `work` would be the work folder itself.
    pub fn is_next_to_work(&self) -> bool {
        self.folders_above() == 1 && self.place().split('/').next() != Some("work")
    }

    /// True if a program can find the author's file under the written path, so that the copy does not protect it.
    pub fn is_absolute(&self) -> bool {
        self.path.starts_with('/') && !self.in_place
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// `out`, or the name given.
    pub name: String,
    /// In the work folder.
    pub path: String,
}

/// An instance with all expressions of its body evaluated. Made twice: with artifacts as digests, for the fingerprint,
/// and as paths, for the run.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedInstance {
    pub body: Body,
    /// Variables, in order of name.
    pub env: std::collections::BTreeMap<String, String>,
    /// Artifacts of other steps that appear in the work folder.
    pub links: Vec<Link>,
    /// Inputs in addition to those of the instance: the user's files and folders that results determined.
    pub inputs: Vec<Input>,
}

/// The work of an instance.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A command.
    Command {
        line: String,
        /// As declared: the shell that runs it if it needs one ([`crate::shell::runner`]).
        shell: Shell,
    },
    /// A step of a plugin.
    Plugin {
        plugin: String,
        step: String,
        /// Parameters, with the schema's defaults filled in.
        with: Map<String, Value>,
    },
    /// A built-in step; `table`, `report`.
    Builtin {
        /// Its name after `flow/`.
        name: String,
        with: Map<String, Value>,
    },
}

/// An artifact of another step, as it appears in the work folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// `in/dataset/out/photos`; of a step with axes, `in/dataset/version=v7/out/photos`.
    pub path: String,
    pub digest: Digest,
}

/// How artifacts render in expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Render {
    /// As digests: for the fingerprint, where a step's name and place do not count.
    Digests,
    /// As paths below `in/`: for the run.
    Paths,
}

/// The caller's results of settled instances.
pub trait SettledResults {
    /// The result of an instance; `None` if it is not settled, or was skipped.
    fn result(&self, id: InstanceId) -> Option<&StepResult>;

    /// The same for an expression, which may never read it. Shared results need not be copied.
    fn late(&self, id: InstanceId) -> LateResult {
        LateResult::Read(self.result(id).cloned().map(Arc::new))
    }

    /// The fingerprint of a result that is known to exist but was not read yet.
    fn unread(&self, _id: InstanceId) -> Option<Digest> {
        None
    }

    /// Instances whose unread results were requested, each reported once. Anything computed without them is invalid.
    fn requested(&self) -> BTreeSet<InstanceId> {
        BTreeSet::new()
    }

    /// Supplies a result that was unread.
    fn read(&self, _id: InstanceId, _result: StepResult) {}
}

/// The result of an instance, read on demand.
#[derive(Clone, Debug)]
pub enum LateResult {
    /// `None` if there is none.
    Read(Option<Arc<StepResult>>),
    Unread(InstanceId, RequestedResults),
}

impl LateResult {
    /// The result, if it exists and was read. Otherwise notes the request.
    pub fn get(&self) -> Option<&StepResult> {
        match self {
            LateResult::Read(result) => result.as_deref(),
            LateResult::Unread(id, asked) => {
                asked.request(*id);
                None
            }
        }
    }
}

/// Unread results that were requested.
#[derive(Clone, Debug, Default)]
pub struct RequestedResults(Arc<Mutex<BTreeSet<InstanceId>>>);

impl RequestedResults {
    pub fn request(&self, id: InstanceId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
    }

    pub fn take(&self) -> BTreeSet<InstanceId> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether `selector` selects the instance with this label. A step selects all of its instances, and `solo[batch=16]`
/// all with that batch: every pair in the brackets must be in the label. A text's quotes may be left out if they are
/// there only for special characters, not to distinguish it from another type.
pub fn selects(selector: &str, label: &str) -> bool {
    let parts = |text: &str| -> (String, Vec<String>) {
        let (step, pairs) = match text.split_once('[') {
            Some((step, pairs)) => (step, pairs.strip_suffix(']').unwrap_or(pairs)),
            None => (text, ""),
        };
        let pairs = pairs.split(',').map(|pair| pair.trim().to_owned()).filter(|pair| !pair.is_empty());
        (step.trim().to_owned(), pairs.collect())
    };
    let ((step, wanted), (own, there)) = (parts(selector), parts(label));
    let bare = |pair: &str| -> Option<String> {
        let (axis, text) = pair.split_once("=\"")?;
        let text = text.strip_suffix('"')?;
        let other = matches!(text, "" | "null" | "true" | "false") || text.parse::<f64>().is_ok();
        (!other).then(|| format!("{axis}={text}"))
    };
    // `lr=1` and `lr=1e0` are the same number.
    let number = |pair: &str| -> Option<(String, f64)> {
        let (axis, value) = pair.split_once('=')?;
        Some((axis.to_owned(), value.parse().ok()?))
    };
    let is = |pair: &String| {
        let same = |own: &String| number(own).is_some_and(|own| number(pair) == Some(own));
        there.iter().any(|own| own == pair || same(own) || bare(own).is_some_and(|own| own == *pair))
    };
    step == own && wanted.iter().all(is)
}

/// The axis values in a label, and its repetition. Of a value that the label shortens or escapes, only the axis is known.
pub fn axes_of(label: &str) -> (IndexMap<String, Option<Value>>, Option<u32>) {
    let pairs = label.split_once('[').and_then(|(_, pairs)| pairs.strip_suffix(']')).unwrap_or_default();
    let (mut axes, mut repetition) = (IndexMap::new(), None);
    let mut rest = pairs;
    while !rest.is_empty() {
        let (pair, after) = split_outside_quotes(rest, ',');
        let (axis, text) = split_outside_quotes(pair, '=');
        rest = after;
        let read = match serde_json::from_str::<Value>(text) {
            Ok(value) => Some(value),
            Err(_) if text.starts_with('"') => None,
            Err(_) => Some(Value::String(text.to_owned())),
        };
        let read = read.filter(|_| !text.contains('…'));
        match read.as_ref().and_then(Value::as_u64) {
            Some(n) if axis == "repetition" => repetition = u32::try_from(n).ok(),
            _ => _ = axes.insert(serde_json::from_str(axis).unwrap_or_else(|_| axis.to_owned()), read),
        }
    }
    (axes, repetition)
}

fn split_outside_quotes(text: &str, at: char) -> (&str, &str) {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let end = text.find(|c: char| {
        let is_end = c == at && !is_quoted;
        is_quoted ^= c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    });
    end.map_or((text, ""), |end| (&text[..end], &text[end + 1..]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Input, axes_of, selects};

    #[test]
    fn a_label_has_the_values_of_its_axes() {
        let label = r#"train[lr=0.02,v="1",name=a/b,"odd, axis"="x, \"y\"=z",long=abc…0f12,on=true,repetition=2]"#;
        let (axes, repetition) = axes_of(label);
        let expected = [
            ("lr", Some(json!(0.02))),
            ("v", Some(json!("1"))),
            ("name", Some(json!("a/b"))),
            ("odd, axis", Some(json!("x, \"y\"=z"))),
            ("long", None),
            ("on", Some(json!(true))),
        ];
        assert_eq!(axes.into_iter().collect::<Vec<_>>(), expected.map(|(axis, value)| (axis.to_owned(), value)));
        assert_eq!((repetition, axes_of("train").0.len()), (Some(2), 0));
    }

    #[test]
    fn how_far_above_the_workflow_an_input_lies() {
        let above = |path: &str| Input { path: path.to_owned(), ..Input::default() }.folders_above();
        let all = [
            ("a/b", 0),
            ("../a", 1),
            ("./../a/..", 1),
            ("a/../../b", 1),
            ("../../a", 2),
            ("../a/../../b", 2),
            ("/../a", 0),
        ];
        for (path, expected) in all {
            assert_eq!(above(path), expected, "{path}");
        }
    }

    #[test]
    fn a_part_of_a_label_selects_all_that_agree() {
        let label = "solo[version=v7,batch=16]";
        for yes in ["solo", label, "solo[batch=16]", "solo[batch=16, version=v7]", "solo[]"] {
            assert!(selects(yes, label), "{yes}");
        }
        for no in ["sol", "solo[batch=1]", "solo[batch=16,lr=1]", "together[batch=16]", "solo[16]"] {
            assert!(!selects(no, label), "{no}");
        }
        for yes in ["a[lr=1]", "a[lr=1.0]", "a[lr=1e0]", "a[wd=1e-3]", "a[wd=0.0010]"] {
            assert!(selects(yes, "a[lr=1,wd=0.001]"), "{yes}");
        }
        assert!(!selects("a[lr=1]", "a[lr=10]") && !selects("a[v=3.1]", "a[v=\"3.10\"]"));
        assert!(selects("a[name=a b]", "a[name=\"a b\",n=1]") && selects("a[name=\"a b\"]", "a[name=\"a b\",n=1]"));
        assert!(!selects("a[n=1]", "a[n=\"1\"]") && !selects("a[n=-1]", "a[n=\"-1\"]"));
    }
}
