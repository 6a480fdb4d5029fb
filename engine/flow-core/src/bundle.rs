//! The results of a run as a file that another machine takes in: a line about the run and where it ran, a line a result, and the
//! digest of all that. A text, so that whoever sends one can read what it says. Whoever reads one believes nothing of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Digest, Machine, Outcome, RunId, StepResult};

/// The version of the form.
const FORMAT: u32 = 2;
/// A longer file is none.
pub const LONGEST_BUNDLE: u64 = 256 << 20;
/// What a result can come to in the store is far less.
const LONGEST_LINE: usize = 1 << 20;
/// Of the name of a host, in bytes.
const LONGEST_NAME: usize = 64;

/// A run of another machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    pub host: String,
    /// What it is; its GPUs without their serial numbers.
    pub machine: Machine,
    /// The version of flow there.
    pub flow: String,
    pub run: RunId,
    /// When that began, milliseconds since 1970.
    pub began: u64,
    pub workflow: String,
}

/// A result of another machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Foreign {
    pub host: String,
    pub result: StepResult,
}

/// What a file says.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    pub origin: Origin,
    pub results: Vec<StepResult>,
    /// By which it is known again.
    pub digest: Digest,
}

#[derive(Serialize, Deserialize)]
struct Head {
    flow_bundle: u32,
    origin: Origin,
    results: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    digest: Digest,
}

impl Bundle {
    /// What of a run others are told: numbers and their circumstances. `hide` takes the folders of this machine out of a text.
    /// Artifacts, serial numbers and the names of other people's processes stay.
    pub fn of(
        mut origin: Origin,
        results: impl IntoIterator<Item = StepResult>,
        hide: &dyn Fn(&str) -> String,
    ) -> Bundle {
        origin.machine.gpus.iter_mut().for_each(|gpu| gpu.uuid.clear());
        origin.machine.gpu_troubles.clear();
        let told = |result: &StepResult| !matches!(result.outcome, Outcome::Skipped | Outcome::Cancelled);
        let results = results.into_iter().filter(told).filter_map(|result| shared(result, hide)).collect();
        let mut bundle = Bundle { origin, results, digest: Digest([0; 32]) };
        bundle.digest = Digest::of(&bundle.content());
        bundle
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.content();
        line(&mut bytes, &End { digest: self.digest });
        bytes
    }

    fn content(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        line(&mut bytes, &Head { flow_bundle: FORMAT, origin: self.origin.clone(), results: self.results.len() });
        self.results.iter().for_each(|result| line(&mut bytes, result));
        bytes
    }

    /// Reads a file.
    ///
    /// # Errors
    /// A sentence: it is something else, has not come whole, or says what cannot be.
    pub fn read(bytes: &[u8]) -> Result<Bundle, String> {
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let first = lines.next().unwrap_or_default();
        let head: Value = Some(first).filter(|first| first.len() <= LONGEST_LINE).map_or(Value::Null, parsed);
        match head.get("flow_bundle").and_then(Value::as_u64) {
            Some(format) if format == u64::from(FORMAT) => {}
            Some(format) => {
                return Err(format!(
                    "it has format {format}, and this flow knows format {FORMAT}: take the flow that wrote it, or have it written by \
                     flow {}",
                    env!("CARGO_PKG_VERSION")
                ));
            }
            None => return Err("it is no bundle; `flow export RUN --bundle FILE` writes one".to_owned()),
        }
        let Head { origin, results: count, .. } =
            serde_json::from_value(head).map_err(|e| format!("line 1 cannot be read: {e}"))?;
        let rest: Vec<&[u8]> = lines.collect();
        let torn = |found: usize| {
            format!(
                "it has not come whole: of {count} results {} are there, and no end; copy it again",
                found.min(count)
            )
        };
        let Some((end, results)) = rest.split_last() else { return Err(torn(0)) };
        let Ok(End { digest }) = serde_json::from_slice::<End>(end) else { return Err(torn(results.len())) };
        if digest != Digest::of(&bytes[..bytes.len() - end.len()]) {
            return Err("it is not as it was written: its digest is another one; copy it again".to_owned());
        }
        if results.len() != count {
            return Err(format!("it says that it has {count} results, and has {}", results.len()));
        }
        check_origin(&origin)?;
        let result = |(n, line): (usize, &&[u8])| {
            let wrong = |why: String| format!("line {}: {why}", n + 2);
            if line.len() > LONGEST_LINE {
                return Err(wrong(format!("it is longer than {} KiB", LONGEST_LINE >> 10)));
            }
            let result = serde_json::from_slice(line).map_err(|e| wrong(format!("it is no result: {e}")))?;
            check(&result).map_err(wrong)?;
            Ok(result)
        };
        let results = results.iter().enumerate().map(result).collect::<Result<_, _>>()?;
        Ok(Bundle { origin, results, digest })
    }
}

fn parsed(line: &[u8]) -> Value {
    serde_json::from_slice(line).unwrap_or_default()
}

fn line(bytes: &mut Vec<u8>, of: &impl Serialize) {
    // Our own types with string keys: there is nothing in them that JSON cannot hold.
    bytes.extend(serde_json::to_vec(of).unwrap_or_default());
    bytes.push(b'\n');
}

/// A result as others are told it; nothing where hiding makes none of it.
fn shared(mut result: StepResult, hide: &dyn Fn(&str) -> String) -> Option<StepResult> {
    let seen = &mut result.circumstances;
    seen.gpus.clear();
    for stranger in &mut seen.strangers {
        (stranger.pid, stranger.name, stranger.gpu) = (0, String::new(), String::new());
    }
    result.usage.gpus.iter_mut().for_each(|gpu| gpu.uuid.clear());
    result.outputs.clear();
    result.paths.clear();
    (result.series, result.kept) = (None, None);
    let mut told: StepResult = serde_json::from_value(hidden(serde_json::to_value(&result).ok()?, hide)).ok()?;
    // The point is told in the order in which its axes were declared.
    let place = |axis: &String| result.axes.get_index_of(axis);
    told.axes.sort_by(|a, _, b, _| place(a).cmp(&place(b)));
    Some(told)
}

fn hidden(value: Value, hide: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(hide(&text)),
        Value::Array(items) => items.into_iter().map(|item| hidden(item, hide)).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, hidden(value, hide))).collect(),
        scalar => scalar,
    }
}

fn check_origin(origin: &Origin) -> Result<(), String> {
    let name = &origin.host;
    let odd = name.trim().is_empty()
        || name.len() > LONGEST_NAME
        || name.contains(|c: char| c.is_whitespace() || crate::is_hidden(c));
    if odd {
        return Err(format!("`{}` is no name of a machine", crate::visible(name)));
    }
    Ok(())
}

/// What a run cannot have come to.
fn check(result: &StepResult) -> Result<(), String> {
    let usage = &result.usage;
    let measured = [usage.wall_s, usage.cpu_s, usage.cpu_cores, usage.energy_j].into_iter().flatten();
    match measured.into_iter().find(|value| !value.is_finite() || *value < 0.0) {
        Some(value) => Err(format!("`{}` cannot have used {value}", result.label)),
        None if !result.outputs.is_empty() || result.series.is_some() || result.kept.is_some() => {
            Err(format!("`{}` names files, and a bundle has none", result.label))
        }
        None => Ok(()),
    }
}

/// A machine as tables and predictions name it: by what its results were measured on, and if it is another one, by its name.
pub fn machine_of(result: &StepResult, host: Option<&str>) -> String {
    let seen = &result.circumstances;
    let what = match (seen.gpu_models.first(), seen.host_cpus) {
        (Some(model), _) => model.clone(),
        (None, 0) => "—".to_owned(),
        (None, 1) => format!("1 CPU {}", seen.cpu_model),
        (None, cpus) => format!("{cpus} CPUs {}", seen.cpu_model),
    };
    match host {
        Some(host) => format!("{what} ({host})"),
        None => what,
    }
}

#[cfg(test)]
mod tests;
