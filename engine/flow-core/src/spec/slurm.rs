//! `on:` and `slurm:`, from plain values to typed ones. Does not know which options Slurm has.

use minijinja::value::Value;

use super::typed_value::{self, PrependPath, TypedResult, entries, expected, other, seg};
use crate::{Diagnostic, Place, Slurm, SlurmJob, Span, spec::at::Seg};

/// Keys of `slurm:` in a step.
pub(crate) const JOB_KEYS: [&str; 5] = ["partition", "account", "time", "gpu_type", "options"];

/// Keys of `slurm:` in a workflow.
pub(crate) const KEYS: [&str; 9] =
    ["partition", "account", "time", "gpu_type", "options", "poll", "shared", "flow", "jobs"];

pub(crate) fn on(value: &Value) -> TypedResult<Place> {
    value.as_str().and_then(Place::named).map_or_else(|| expected(value, "`local` or `slurm`"), Ok)
}

/// `slurm:` of a step.
pub(crate) fn job(value: &Value) -> TypedResult<SlurmJob> {
    read(value, &JOB_KEYS).map(|slurm| slurm.job)
}

/// `slurm:` of a workflow.
pub(crate) fn settings(value: &Value) -> TypedResult<Slurm> {
    read(value, &KEYS)
}

fn read(value: &Value, keys: &[&'static str]) -> TypedResult<Slurm> {
    let mut slurm = Slurm::default();
    for (key, value) in entries(value, "a mapping, `{partition: gpu, time: 2h}`", keys, "`slurm`")? {
        let at = || seg(&key);
        let text = || word(&value).map(Some).below(at());
        let span = || typed_value::duration(&value).below(at());
        match &*key {
            "partition" => slurm.job.partition = text()?,
            "account" => slurm.job.account = text()?,
            "gpu_type" => slurm.job.gpu_type = text()?,
            "time" => slurm.job.time = Some(span()?),
            "options" => slurm.job.options = options(&value).below(at())?,
            "poll" => slurm.poll = span()?.max(Span::from_millis(100)),
            "shared" => slurm.shared = Some(typed_value::text(&value).below(at())?),
            "flow" => slurm.flow = Some(typed_value::text(&value).below(at())?),
            "jobs" => slurm.jobs = typed_value::count(&value, 1).below(at())?,
            _ => {}
        }
    }
    Ok(slurm)
}

/// A word for an option or a table of Slurm.
fn word(value: &Value) -> TypedResult<String> {
    let text = typed_value::scalar_text(value)?;
    let good = |c: char| c.is_ascii_alphanumeric() || "_-.,:+".contains(c);
    if !text.is_empty() && text.chars().all(good) && !text.starts_with('-') {
        return Ok(text);
    }
    expected(value, "a Slurm name: letters, digits, `_`, `-` and `.`")
}

fn options(value: &Value) -> TypedResult<Vec<String>> {
    let options = typed_value::texts(value, "a list of options of `sbatch`, `[--constraint=a100, --qos=long]`")?;
    match options.iter().position(|option| !option.starts_with("--")) {
        None => Ok(options),
        Some(n) => {
            let what = Diagnostic::new(format!("`{}` is not a long option of `sbatch`", options[n]));
            let what = what.label("expected such as `--constraint=a100`");
            other(what.help("use flow's own keys for these: `slurm: {partition: gpu, account: lab, time: 2h}`, `gpus`, `cpus`, `memory`"))
                .below(Seg::Index(n))
        }
    }
}
