//! The keys of the language: one table that the reader, the checks of visible names and the JSON Schema all follow.

/// The names that expressions of a key may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VisibleNames {
    pub(crate) params: bool,
    pub(crate) machine: bool,
    pub(crate) axes: bool,
    /// `steps`, `inputs` and `seed`: what an instance knows when it starts.
    pub(crate) steps: bool,
}

const fn sees(params: bool, machine: bool, axes: bool, steps: bool) -> Option<VisibleNames> {
    Some(VisibleNames { params, machine, axes, steps })
}

const ALL: Option<VisibleNames> = sees(true, true, true, true);
const PARAMS: Option<VisibleNames> = sees(true, false, false, false);
const PARAMS_MACHINE: Option<VisibleNames> = sees(true, true, false, false);
const PARAMS_AXES: Option<VisibleNames> = sees(true, false, true, false);
const PARAMS_MACHINE_AXES: Option<VisibleNames> = sees(true, true, true, false);
const MACHINE: Option<VisibleNames> = sees(false, true, false, false);
/// No expression at all.
const PLAIN: Option<VisibleNames> = None;

/// The form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The version of the language.
    Version,
    /// A word for file names.
    Name,
    /// A text, or a text for each language.
    Title,
    /// Names and plain values.
    Params,
    Profiles,
    Steps,
    /// A list of what is published.
    Publish,
    /// A file, or a list of them.
    Include,
    /// A relative path.
    Path,
    /// The path of a folder of this machine.
    Folder,
    /// The name of a step.
    Step,
    /// `plugin/step`.
    Uses,
    Command,
    /// The shell of a command.
    Shell,
    /// The name of a scheduling policy.
    Policy,
    On,
    /// Options for Slurm: of the workflow (`true`), or of a step.
    Slurm(bool),
    /// A mapping that a schema of somebody else's describes.
    With,
    Matrix,
    /// A list of steps.
    StepList,
    When,
    /// A list or mapping of paths to read.
    Inputs,
    /// A list or mapping of paths to write.
    Outputs,
    Metrics,
    /// A whole number from this one on.
    Count(u32),
    Integer,
    /// A size in bytes with its unit.
    Size,
    /// A length of time with its unit.
    Duration,
    /// `true`, `false`, `gpu`.
    Exclusive,
    Corun,
    /// A number of repetitions, or a mapping that says when they end.
    Repeat,
    Bool,
    /// A list of outcomes.
    Record,
    Env,
    /// Names and the sources of software environments.
    Environments,
    /// The name of a declared environment.
    Environment,
    /// A list of names of environment variables.
    Secrets,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    /// One line for people.
    pub(crate) about: &'static str,
    /// The form of its value.
    pub(crate) kind: Kind,
    /// The names that its expressions see. `None` if it takes no expressions.
    pub(crate) sees: Option<VisibleNames>,
}

const fn key(name: &'static str, kind: Kind, sees: Option<VisibleNames>, about: &'static str) -> Key {
    Key { name, about, kind, sees }
}

/// Keys of the file.
pub(crate) const FILE: &[Key] = &[
    key("flow", Kind::Version, PLAIN, "Version of the language: 1."),
    key("name", Kind::Name, PLAIN, "The workflow's name; without it, the file's."),
    key("title", Kind::Title, PLAIN, "A title, or one for each language."),
    key("include", Kind::Include, PLAIN, "Files to include in the workflow, relative to this one."),
    key("params", Kind::Params, PLAIN, "Parameters and their defaults; `--set NAME=VALUE` replaces one."),
    key(
        "profiles",
        Kind::Profiles,
        PLAIN,
        "Settings for machines: the first whose `when` is true, or `--profile NAME`.",
    ),
    key(
        "environments",
        Kind::Environments,
        PLAIN,
        "Software environments that steps may name ([more](#declared-environments)); `required: true` refuses a `run` without one.",
    ),
    key("steps", Kind::Steps, PLAIN, "The steps."),
    key("policy", Kind::Policy, PLAIN, "The order in which steps get their resources; `--policy` replaces it."),
    key("on", Kind::On, PLAIN, "Where steps run: `local` or `slurm`; `--on` replaces it."),
    key("slurm", Kind::Slurm(true), PLAIN, "Slurm settings for jobs and for flow itself."),
    key("work", Kind::Folder, PLAIN, "Where work folders are; by default in the user's cache folder."),
    key("publish", Kind::Publish, PLAIN, "What the engine writes into the repository after every run."),
];

/// Keys of a profile.
pub(crate) const PROFILE: &[Key] = &[
    key("when", Kind::When, MACHINE, "An expression over `machine`."),
    key("gpus", Kind::Count(0), PLAIN, "A cap on every step's request."),
    key("params", Kind::Params, PLAIN, "Parameters that are different here; lists are replaced, mappings merged."),
];

/// Keys of an environment.
pub(crate) const ENVIRONMENT: &[Key] = &[
    key("uv", Kind::Path, PARAMS, "A folder with `pyproject.toml` and `uv.lock`, from which uv makes the environment."),
    key("prefix", Kind::Path, PARAMS, "The folder of an existing environment: venv, conda or module."),
    key(
        "apptainer",
        Kind::Path,
        PARAMS,
        "An image file, `pytorch.sif`, or `docker://NAME@sha256:…`. `apptainer exec` runs the command in it.",
    ),
];

/// Keys of an entry of `publish`.
pub(crate) const PUBLISH: &[Key] = &[
    key("from", Kind::Step, PLAIN, "The report step."),
    key("to", Kind::Path, PARAMS, "The file that becomes the report, relative to the workflow."),
    key("whats_new", Kind::Path, PARAMS, "Instead of `to`: the file that gets an entry under its What's New."),
];

/// Keys of a step.
pub(crate) const STEP: &[Key] = &[
    key("uses", Kind::Uses, PLAIN, "A plugin's step, `torch/train`, or flow's own, `flow/table`."),
    key(
        "run",
        Kind::Command,
        ALL,
        "A command. flow starts a plain command directly. Anything else runs in a shell and ends at the first command that fails ([more](#the-shell)).",
    ),
    key("shell", Kind::Shell, PLAIN, "The shell of a `run` that needs one: `bash` by default, or `sh`."),
    key("with", Kind::With, ALL, "Parameters of the step that `uses` names."),
    key("like", Kind::Step, PLAIN, "A step to copy; keys here replace its keys."),
    key(
        "matrix",
        Kind::Matrix,
        PARAMS_MACHINE,
        "Axes: for each a list, or one expression that gives a list. `include` and `exclude` change the points ([more](#instances)).",
    ),
    key("needs", Kind::StepList, PLAIN, "Steps that come before, without their data."),
    key("when", Kind::When, PARAMS_MACHINE_AXES, "An expression; if it is false, the instance is skipped."),
    key("inputs", Kind::Inputs, PARAMS_AXES, "Files and folders that appear in the work folder."),
    key("outputs", Kind::Outputs, PARAMS_AXES, "Files and folders that it writes into the work folder."),
    key("metrics", Kind::Metrics, PLAIN, "The sources of a command's numbers; a change here does not rerun the step."),
    key("gpus", Kind::Count(0), PARAMS_MACHINE_AXES, "Whole GPUs; 0 by default."),
    key("gpu_memory", Kind::Size, PARAMS_MACHINE_AXES, "Memory that it may use on each GPU, `4GiB`."),
    key("cpus", Kind::Count(1), PARAMS_MACHINE_AXES, "CPUs; by default cores × gpus / GPUs, 1 without GPUs."),
    key("memory", Kind::Size, PARAMS_MACHINE_AXES, "Host memory, `16GiB`."),
    key("exclusive", Kind::Exclusive, PARAMS_AXES, "`true`: alone on the machine; `gpu`: alone on its GPUs."),
    key("corun", Kind::Corun, PARAMS_AXES, "Instances of one group start together and are measured together."),
    key(
        "measured",
        Kind::Bool,
        PLAIN,
        "The step is a measurement; `true` with exclusive or corun, else as its plugin declares.",
    ),
    key(
        "repeat",
        Kind::Repeat,
        PARAMS_AXES,
        "Number of repetitions; the i-th runs with seed + i. For a co-run group also `{until: decided, at_most: 3}`.",
    ),
    key("seed", Kind::Integer, PARAMS_AXES, "The seed; 0 by default."),
    key("record", Kind::Record, PLAIN, "Outcomes that are results, not failures."),
    key(
        "timeout",
        Kind::Duration,
        PARAMS_AXES,
        "Wall-clock limit of the program, `90s`, `2h`. flow's work before and after it, such as copying inputs and hashing outputs, does not count.",
    ),
    key(
        "retries",
        Kind::Count(0),
        PARAMS_AXES,
        "How often a failed attempt is retried, with growing pauses; after a `timeout` it is not.",
    ),
    key(
        "resume",
        Kind::Bool,
        PARAMS_AXES,
        "`false`: each attempt begins anew. By default one that Slurm's time limit ended goes on, in another job, from what it left in its \
         checkpoint folder.",
    ),
    key("priority", Kind::Integer, PARAMS_AXES, "Larger goes first, if the policy uses it."),
    key("on", Kind::On, PLAIN, "Where it runs: `local` or `slurm`; by default that of the workflow."),
    key("slurm", Kind::Slurm(false), PARAMS_AXES, "Slurm settings of this step; they override the workflow's."),
    key("env", Kind::Env, ALL, "Environment variables, or a list of variables of the shell."),
    key(
        "environment",
        Kind::Environment,
        PARAMS_MACHINE_AXES,
        "The name of its software environment, one of `environments`. Another package in it reruns the step.",
    ),
    key(
        "secrets",
        Kind::Secrets,
        PLAIN,
        "Names of environment variables whose values are never stored, hashed or printed.",
    ),
];

/// The key of that name.
pub(crate) fn find(keys: &'static [Key], name: &str) -> Option<&'static Key> {
    keys.iter().find(|k| k.name == name)
}

/// Names of machine facts in expressions.
pub(crate) const MACHINE_FIELDS: [&str; 5] = ["gpus", "gpu_names", "gpu_memory", "cpus", "memory"];
