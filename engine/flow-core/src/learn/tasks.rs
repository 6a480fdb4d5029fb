//! The input of the scheduler: tasks with their estimates, the capacity, and the cost of sharing. Chooses nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::history::History;
use crate::{
    Expansion, GpuFacts, Instance, InstanceId, Machine, Outcome, Time, Uses,
    plan::{Plan, State},
    sched::{Capacity, Estimate, GpuState, Limits, Sharing, Task, contention::Host},
};

/// The capacity of this machine.
pub fn capacity(machine: &Machine, jobs: Option<u32>, batch: u32) -> Capacity {
    let gpu = |gpu: &GpuFacts| GpuState { memory: gpu.memory, foreign: 0, alive: true };
    Capacity { gpus: machine.gpus.iter().map(gpu).collect(), cpus: machine.cpus, memory: machine.memory, jobs, batch }
}

/// How a live run is scheduled on the machine of its workflow.
pub fn limits(history: &History<'_>) -> Limits {
    let (devices, trial) = history.coefficients();
    Limits { sharing: Sharing { devices, trial, pairs: history.pairs(), ..Sharing::default() }, ..Limits::default() }
}

/// One task per instance. Instances that the user did not select are settled from the start, and so are those that the
/// plan `reused`.
pub fn tasks(wanted: &[InstanceId], reused: &BTreeMap<InstanceId, Outcome>, history: &History<'_>) -> Vec<Task> {
    let rounds = rounds(history.expansion);
    let task = |instance: &Instance| {
        let asked = wanted.binary_search(&instance.id).is_ok();
        let settled = instance.settled().map(|(outcome, _)| outcome).or((!asked).then_some(Outcome::Skipped));
        let settled = settled.or_else(|| reused.get(&instance.id).copied());
        Task {
            instance: instance.id,
            needs: instance.needs.clone(),
            request: instance.request,
            batch: instance.is_batch(),
            exclusive: instance.exclusive,
            corun: instance.corun.as_ref().map(|corun| (corun.group, corun.gpus)),
            continues: instance.corun.as_ref().is_some_and(|corun| corun.continues),
            measured: instance.measured,
            record: instance.record.to_vec(),
            timeout: instance.timeout,
            retries: instance.retries,
            priority: instance.priority,
            repetition: rounds.get(&instance.id).map(|round| (instance.step, *round)),
            settled,
            estimate: settled.map_or_else(|| history.estimate(instance), |_| Estimate::default()),
            submitted: Time(0),
        }
    };
    history.expansion.instances.iter().map(task).collect()
}

/// The round in which each instance of a repeated step runs. Repetitions are those of `repeat` and those of an axis that
/// a table averages, such as a seed.
fn rounds(expansion: &Expansion) -> BTreeMap<InstanceId, u32> {
    let mut rounds = BTreeMap::new();
    for step in &expansion.steps {
        let averaged = averaged(expansion, &step.name);
        let mut known: BTreeMap<String, u32> = BTreeMap::new();
        for instance in step.ids().map(|id| &expansion.instances[id.index()]) {
            let values: Vec<&Value> = averaged.iter().filter_map(|axis| instance.axes.get(*axis)).collect();
            if !values.is_empty() || instance.repetition.is_some() {
                let next = known.len() as u32;
                let round = *known.entry(format!("{values:?}")).or_insert(next);
                rounds.insert(instance.id, instance.repetition.unwrap_or(0).saturating_add(round));
            }
        }
    }
    rounds
}

/// The axes over which tables average results of this step.
fn averaged<'e>(expansion: &'e Expansion, step: &str) -> BTreeSet<&'e str> {
    let tables = expansion.steps.iter().filter(|of| matches!(&of.uses, Uses::Builtin(name) if name == "table"));
    let of_step = tables.filter(|table| table.with.get("from").is_some_and(|from| from == step));
    let over = of_step.filter_map(|table| table.with.get("over"));
    over.flat_map(|over| match over {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect::<Vec<_>>(),
    })
    .collect()
}

/// The input of the scheduler for a run of a plan.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// One an instance; what need not run is settled.
    pub tasks: Vec<Task>,
    pub capacity: Capacity,
    /// As for a live run.
    pub limits: Limits,
    /// What running work shares.
    pub host: Host,
    /// Instances that would run and have no estimate. flow's own steps take hardly any time and are left out.
    pub unknown: Vec<InstanceId>,
}

/// The instances of a plan that do not run, with their outcomes.
pub fn settled(plan: &Plan) -> BTreeMap<InstanceId, Outcome> {
    let settled = plan.items.iter().filter_map(|item| match &item.state {
        State::Cached { outcome, .. } | State::Refused { outcome, .. } => Some((item.id, *outcome)),
        // Most verdicts are decided at once.
        State::MayRepeat { .. } | State::NotNeeded { .. } => Some((item.id, Outcome::Skipped)),
        State::Run(_) | State::Orphaned { .. } | State::After(_) => None,
    });
    settled.collect()
}

/// The input of the scheduler for these instances, if this is their plan.
pub fn forecast(wanted: &[InstanceId], plan: &Plan, history: &History<'_>) -> Forecast {
    let (expansion, machine) = (history.expansion, &history.expansion.machine);
    let mut tasks = tasks(wanted, &settled(plan), history);
    // What ends otherwise than hoped for is no part of a forecast.
    tasks.iter_mut().for_each(|task| task.record = vec![Outcome::OutOfMemory, Outcome::TimedOut, Outcome::DoesNotFit]);
    // A group always has the same company: what its members took together is slow enough.
    let together =
        |task: &Task| task.corun.is_some() && history.ran_itself(&expansion.instances[task.instance.index()]);
    for task in tasks.iter_mut().filter(|task| together(task)) {
        (task.estimate.cpu_milli, task.estimate.gpu_busy_milli) = (None, None);
    }
    let mut limits = Limits { keep_going: true, ..limits(history) };
    // What is tried out is worth nothing in a forecast: it learns nothing.
    limits.sharing.trial.clear();
    let own = |id: InstanceId| {
        let step = expansion.instances[id.index()].step;
        matches!(expansion.steps[step.index()].uses, Uses::Builtin(_))
    };
    let unknown = |task: &&Task| task.settled.is_none() && task.estimate.duration.is_none() && !own(task.instance);
    Forecast {
        unknown: tasks.iter().filter(unknown).map(|task| task.instance).collect(),
        capacity: capacity(machine, None, expansion.slurm.jobs),
        host: Host { cores: f64::from(machine.cpus), devices: limits.sharing.devices.clone() },
        limits,
        tasks,
    }
}
