//! `flow results`.

use flow_store::Import;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use clap::Args;
use flow_core::{Foreign, JournalLine, Outcome, RunEvent, StepResult, axes_of, reason::Disturbance};
use flow_report::measured;
use serde_json::{Map, Value, json};

use super::{CommandResult, find};
use crate::{
    args::{Global, OfRun},
    error::CliError,
    output::{Output, noted},
    place,
    screen::{InstanceState, InstanceView, each_result},
    words,
};

/// Arguments of `flow results`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow results train > results.csv                 one row per instance of the step in the last run
  flow results train --all --json                  all results of the step from all runs, one JSON object per line
  flow results train > r.csv && python3 -c 'import pandas as p; print(p.read_csv(\"r.csv\"))'

The value of a metric is that of its last epoch, or of the epoch that `summary:` selects. A time or rate is the mean of \
all epochs but the first. Axes are columns `axis.NAME`. Metrics are columns `NAME`, or \
`metric.NAME` if another column has that name, in the units of `flow show`. Memory is in bytes, times are in seconds, shares are ratios. A value that was not measured is empty, in \
JSON null, never 0. If an attempt resumed from a checkpoint, usage.attempts is the number of attempts in its times, and \
usage.attempts_unmeasured how many are missing from them. Columns `param.NAME` are the parameters of the run; with \
--all, of the run that made the result. With --all, `machine` is the machine that a result was imported from; it is empty \
for your own. Results from Slurm have the columns `node` and `slurm_job`.")]
pub(crate) struct Results {
    /// Only of these steps, or instances such as 'train[lr=0.1]'
    #[arg(value_name = "STEP")]
    steps: Vec<String>,
    #[command(flatten)]
    of: OfRun,
    /// Results of all runs, each from the run that made it
    #[arg(long, conflicts_with = "run")]
    all: bool,
    /// One JSON object per line, instead of CSV
    #[arg(long)]
    json: bool,
}

/// The parameters of a run, by name.
type Params = BTreeMap<String, Value>;

/// A result, its run's parameters, and the machine that it was imported from.
struct Row {
    result: StepResult,
    params: Rc<Params>,
    machine: Option<String>,
}

impl Results {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult {
        let found = self.results(global, output)?;
        let rows: Vec<Map<String, Value>> = found.iter().map(Row::columns).collect();
        if self.json {
            return Ok(rows.iter().try_for_each(|row| output.json(row))?);
        }
        if rows.is_empty() {
            return Ok(output.note("there are no results: `flow runs` lists other runs; use --run ID or --all")?);
        }
        // Common columns first, then axes, parameters and numbers.
        let names: BTreeSet<&String> = rows.iter().flat_map(Map::keys).collect();
        let rank = |name: &str| match FIRST.iter().position(|first| *first == name) {
            Some(at) => at,
            None if name.starts_with("axis.") => FIRST.len(),
            None if name.starts_with("param.") => FIRST.len() + 1,
            None => FIRST.len() + 2,
        };
        let mut names: Vec<&String> = names.into_iter().collect();
        names.sort_by_key(|name| (rank(name), *name));
        let mut csv = csv::Writer::from_writer(Vec::new());
        let wrong = |e: csv::Error| CliError::failed(format!("the table cannot be written: {e}"));
        csv.write_record(&names).map_err(wrong)?;
        for row in &rows {
            csv.write_record(names.iter().map(|name| row.get(*name).map(text).unwrap_or_default())).map_err(wrong)?;
        }
        let bytes = csv.into_inner().map_err(|e| CliError::failed(format!("the table cannot be written: {e}")))?;
        Ok(output.text(String::from_utf8_lossy(&bytes).trim_end())?)
    }

    /// The selected results.
    fn results(&self, global: &Global, output: &mut Output) -> Result<Vec<Row>, CliError> {
        let wanted = |label: &str| self.steps.is_empty() || self.steps.iter().any(|s| flow_core::selects(s, label));
        let mut found = Vec::new();
        if self.all {
            let place = place::StoreLocation::of_workflow(global, &self.of, output)?;
            for (run, _) in place.runs()? {
                let mut params = Rc::new(Params::new());
                let mut recorded = BTreeMap::new();
                place.store.run(&run).read_journal(|JournalLine { event, .. }| match event {
                    RunEvent::RunStarted(start) => params = Rc::new(start.params),
                    RunEvent::Recorded { instance, result, .. } if wanted(&result.label) => {
                        recorded.insert(instance, found.len());
                        found.push(Row { result: *result, params: params.clone(), machine: None });
                    }
                    // It has failed, because the metrics that it requires are missing.
                    RunEvent::Settled { instance, outcome, cause } => {
                        if let Some(at) = recorded.get(&instance) {
                            let result = &mut found[*at].result;
                            (result.outcome, result.cause) = (outcome, cause);
                        }
                    }
                    _ => {}
                })?;
            }
            for import in place.imports()? {
                let (_, there) = place.view(Some(&import.id.0))?;
                let params = Rc::new(there.start.as_ref().map(|start| start.params.clone()).unwrap_or_default());
                for Foreign { host, mut result } in Import::results(&place.store, &[import])? {
                    if wanted(&result.label) {
                        result.run = there.id_here(&result.run).clone();
                        found.push(Row { result, params: params.clone(), machine: Some(host) });
                    }
                }
            }
            return Ok(found);
        }
        let (place, _, view) = place::run(global, &self.of, output)?;
        for step in &self.steps {
            find(&view, step)?;
        }
        let results = place::results(&place.store, output)?;
        let params = Rc::new(view.start.as_ref().map(|start| start.params.clone()).unwrap_or_default());
        // A result that was valid only with the earlier numbers does not belong to this run.
        let has_failed = |shown: &InstanceView| {
            !matches!(shown.state, InstanceState::Cached(Outcome::Ok, _) | InstanceState::Done(Outcome::Ok))
        };
        let mut failed = BTreeMap::new();
        for tried in place::tried_earlier(&place, &self.of, &view, wanted, has_failed, output)? {
            each_result(tried.all(), &results, &place.store, |shown, result| {
                failed.extend(result.map(|result| (shown.label.clone(), result)));
                Ok(())
            })?;
        }
        let mut without = Vec::new();
        each_result(
            view.instances.values().filter(|shown| wanted(&shown.label)),
            &results,
            &place.store,
            |shown, result| {
                let result = result.or_else(|| failed.remove(&shown.label));
                if result.is_none() && shown.is_unread() {
                    without.push(&*shown.label);
                }
                let named = |result: StepResult| {
                    let run = view.id_here(&result.run).clone();
                    StepResult { run, ..under(result, shown) }
                };
                found.extend(result.map(named).map(|result| Row { result, params: params.clone(), machine: None }));
                Ok(())
            },
        )?;
        if !without.is_empty() {
            let names = words::named(&without);
            output.note(noted(format_args!("without a result: {names} (`flow show STEP` shows why)")))?;
        }
        Ok(found)
    }
}

/// A result as that of this instance. Its step and axes may have had other names when it was made.
fn under(mut result: StepResult, shown: &InstanceView) -> StepResult {
    result.step.clone_from(&shown.step);
    if result.label == shown.label {
        return result;
    }
    let (axes, repetition) = axes_of(&shown.label);
    let known = |(axis, value): (String, Option<Value>)| {
        let value = value.or_else(|| result.axes.get(&axis).cloned())?;
        Some((axis, value))
    };
    let axes = axes.into_iter().filter_map(known).collect();
    StepResult { label: shown.label.clone(), axes, repetition, ..result }
}

/// Common columns, in this order.
const FIRST: [&str; 11] = [
    "workflow",
    "step",
    "instance",
    "repetition",
    "outcome",
    "run",
    "machine",
    "node",
    "slurm_job",
    "started_at",
    "ended_at",
];

impl Row {
    /// Its columns and their values.
    fn columns(&self) -> Map<String, Value> {
        let Self { result, params, machine } = self;
        let Value::Object(mut row) = json!({
            "workflow": result.workflow, "step": result.step, "instance": result.label, "repetition": result.repetition,
            "outcome": result.outcome, "run": result.run,
            "started_at": result.started_at as f64 / 1e3, "ended_at": result.ended_at as f64 / 1e3,
        }) else {
            return Map::new();
        };
        if !result.disturbances.is_empty() {
            if result.outcome == Outcome::Ok && result.disturbances.iter().any(Disturbance::is_of_content) {
                row.insert("outcome".to_owned(), json!("not kept"));
            }
            let disturbed: Vec<String> = result.disturbances.iter().map(crate::reasons::disturbed).collect();
            row.insert("disturbed".to_owned(), json!(disturbed.join("; ")));
        }
        row.extend(machine.iter().map(|machine| ("machine".to_owned(), json!(machine))));
        let facts =
            result.circumstances.facts.iter().filter(|(name, _)| ["node", "slurm_job"].contains(&name.as_str()));
        row.extend(facts.map(|(name, value)| (name.clone(), json!(value))));
        row.extend(result.axes.iter().map(|(name, value)| (format!("axis.{name}"), value.clone())));
        row.extend(params.iter().map(|(name, value)| (format!("param.{name}"), value.clone())));
        if !result.caveats.is_empty() {
            let caveats: Vec<String> = result.caveats.iter().map(crate::reasons::caveat).collect();
            row.insert("caveats".to_owned(), json!(caveats.join("; ")));
        }
        let usage = &result.usage;
        let known = |name: &str| measured(result, name).map_or(Value::Null, number);
        let columns = [("wall_s", "wall"), ("cpu_s", "cpu_time"), ("cpu_cores", "cpu_cores"), ("rss_peak", "memory")];
        row.extend(columns.map(|(column, name)| (format!("usage.{column}"), known(name))));
        if let Some(earlier) = &usage.earlier {
            row.insert("usage.attempts".to_owned(), json!(earlier.jobs + 1));
            row.insert("usage.attempts_unmeasured".to_owned(), json!(earlier.unmeasured));
        }
        if !usage.gpus.is_empty() {
            let loads: Option<f64> = usage.gpus.iter().map(|gpu| gpu.load_mean).sum();
            row.insert("usage.gpu_memory_peak".to_owned(), known("gpu_memory"));
            row.insert("usage.gpu_load_mean".to_owned(), json!(loads.map(|sum| sum / usage.gpus.len() as f64)));
            row.insert("usage.gpus".to_owned(), json!(result.circumstances.gpu_models.join(", ")));
        }
        for (name, metric) in &result.metrics {
            let taken = row.contains_key(name);
            row.insert(if taken { format!("metric.{name}") } else { name.clone() }, number(metric.value));
        }
        row
    }
}

/// A count without a decimal point, so that others read it as one.
fn number(value: f64) -> Value {
    const EXACT: f64 = 9e15;
    match value {
        value if value.is_nan() => json!("NaN"),
        value if value.is_infinite() => json!(if value > 0.0 { "Infinity" } else { "-Infinity" }),
        value if value.fract() == 0.0 && value.abs() < EXACT => json!(value as i64),
        value => json!(value),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => flow_report::csv_cell(text),
        other => other.to_string(),
    }
}
