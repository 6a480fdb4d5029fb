//! What a run would take, from what history knows: the scheduler's tasks before anything runs, and points that never ran. Reads;
//! simulates nothing and decides nothing.

use std::{collections::BTreeSet, sync::Arc};

use flow_core::{
    Instance, InstanceId, Outcome, Uses, nearest,
    plan::{Plan, State},
    sched::{Capacity, Limits, Task, contention::Host},
};
use serde_json::Value;

use super::{Device, Knowledge, Prediction, Session, estimate, history::History};
use crate::ExecError;

/// What a run of a plan would hand to the scheduler.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// One an instance; what need not run is settled.
    pub tasks: Vec<Task>,
    /// What there is.
    pub capacity: Capacity,
    /// As for a live run.
    pub limits: Limits,
    /// What running work shares.
    pub host: Host,
}

impl Forecast {
    /// Instances that are to run and of which nobody knows how long they take; flow's own steps take no time to speak of.
    pub fn unknown(&self, session: &Session) -> Vec<InstanceId> {
        let expansion = &session.expansion;
        let own = |id: InstanceId| {
            let step = expansion.instances[id.index()].step;
            matches!(expansion.steps[step.index()].uses, Uses::Builtin(_))
        };
        let unknown = |task: &&Task| task.settled.is_none() && task.estimate.duration.is_none() && !own(task.instance);
        self.tasks.iter().filter(unknown).map(|task| task.instance).collect()
    }
}

/// What a run of these instances would hand to the scheduler if this is its plan.
///
/// # Errors
/// The store cannot be read.
pub fn forecast(
    session: &Session,
    knowledge: &Knowledge,
    wanted: &[InstanceId],
    plan: &Plan,
) -> Result<Forecast, ExecError> {
    let history = history(session, knowledge, wanted)?;
    let (expansion, machine) = (&session.expansion, &session.expansion.machine);
    let mut tasks = estimate::tasks(expansion, wanted, &history);
    for item in &plan.items {
        match &item.state {
            State::Cached { outcome, .. } | State::Refused { outcome, .. } => {
                tasks[item.id.index()].settled = Some(*outcome);
            }
            State::Run(_) | State::After(_) => {}
        }
    }
    // What ends otherwise than hoped for is no part of a forecast.
    tasks.iter_mut().for_each(|task| task.record = vec![Outcome::OutOfMemory, Outcome::TimedOut, Outcome::DoesNotFit]);
    let mut limits = Limits { keep_going: true, ..estimate::limits(expansion, &history) };
    // What is tried out is worth nothing in a forecast: it learns nothing.
    limits.sharing.trial.clear();
    let host = Host { cores: f64::from(machine.cpus), devices: limits.sharing.devices.clone() };
    Ok(Forecast { tasks, capacity: estimate::capacity(machine, None), limits, host })
}

/// What is expected of a step's instances, or of points that it does not have: `solo`, `solo[batch=16]`, `solo/batch=48`. With
/// it the price of sharing each GPU model of this machine.
///
/// # Errors
/// There is no such step or axis; the store cannot be read.
pub fn predict(
    session: &Session,
    knowledge: &Knowledge,
    point: &str,
) -> Result<(Vec<Prediction>, Vec<Device>), ExecError> {
    let expansion = &session.expansion;
    let (name, axes) = match point.trim_end_matches(']').split_once(['/', '[']) {
        Some((name, axes)) => (name, axes),
        None => (point, ""),
    };
    let step = expansion.steps.iter().find(|step| step.name == name).ok_or_else(|| {
        let near = nearest(name, expansion.steps.iter().map(|step| &*step.name));
        let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        ExecError::Usage(format!("the workflow has no step `{name}`{near}"))
    })?;
    let instances = &expansion.instances[step.instances.start as usize..step.instances.end as usize];
    let mut points = instances.to_vec();
    for pair in axes.split(',').filter(|pair| !pair.trim().is_empty()) {
        let (axis, value) = pair.split_once('=').ok_or_else(|| {
            ExecError::Usage(format!("`{pair}` is no point; expected AXIS=VALUE, as in `{name}/batch=48`"))
        })?;
        let (axis, value) = (axis.trim(), value.trim());
        let known: BTreeSet<&String> = instances.iter().flat_map(|instance| instance.axes.keys()).collect();
        if !known.iter().any(|known| *known == axis) {
            let known: Vec<&str> = known.into_iter().map(|axis| &**axis).collect();
            let has = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
            return Err(ExecError::Usage(format!("step `{name}` has no axis `{axis}`; {has}")));
        }
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        // Where the point is one of the step's own, only those; else each of them, moved there.
        if points.iter().any(|instance| instance.axes.get(axis) == Some(&value)) {
            points.retain(|instance| instance.axes.get(axis) == Some(&value));
        } else {
            points.iter_mut().for_each(|instance| move_to(instance, name, axis, &value));
        }
    }
    let mut seen = BTreeSet::new();
    points.retain(|instance| seen.insert(instance.label.clone()));
    let wanted: Vec<InstanceId> = expansion.instances.iter().map(|instance| instance.id).collect();
    let history = history(session, knowledge, &wanted)?;
    let predictions = points.iter().map(|instance| history.predict(expansion, instance)).collect();
    Ok((predictions, history.devices(&expansion.machine)))
}

/// The instance as it would be at another point.
fn move_to(instance: &mut Instance, step: &str, axis: &str, value: &Value) {
    let mut axes = (*instance.axes).clone();
    axes.insert(axis.to_owned(), value.clone());
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let words: Vec<String> = axes.iter().map(|(name, value)| format!("{name}={}", word(value))).collect();
    instance.label = format!("{step}[{}]", words.join(",")).into();
    instance.axes = Arc::new(axes);
}

fn history(session: &Session, knowledge: &Knowledge, wanted: &[InstanceId]) -> Result<History, ExecError> {
    match knowledge.results() {
        Some(results) => Ok(History::load(&session.expansion, wanted, results)?),
        None => Ok(History::default()),
    }
}
