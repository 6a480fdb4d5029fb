//! Estimates from history, and the scheduler's tasks. Chooses nothing.

use std::collections::BTreeMap;

use flow_core::{
    Instance, InstanceId, Machine, Outcome, Span, Time,
    sched::{Capacity, Estimate, GpuState, Task},
};
use flow_store::{Observation, Results, StoreError, shapes};

use super::Session;

/// What there is to give out on this machine.
pub(crate) fn capacity(machine: &Machine, jobs: Option<u32>) -> Capacity {
    let gpu = |gpu: &flow_core::GpuFacts| GpuState { memory: gpu.memory, strangers: 0, alive: true };
    Capacity { gpus: machine.gpus.iter().map(gpu).collect(), cpus: machine.cpus, memory: machine.memory, jobs }
}

/// One task an instance. What was not asked for is settled from the start.
///
/// # Errors
/// History cannot be read.
pub(crate) fn tasks(session: &Session, wanted: &[InstanceId], results: &dyn Results) -> Result<Vec<Task>, StoreError> {
    let expansion = &session.expansion;
    let mut steps: BTreeMap<String, Vec<Observation>> = BTreeMap::new();
    let task = |instance: &Instance| -> Result<Task, StoreError> {
        let asked = wanted.binary_search(&instance.id).is_ok();
        let settled = match (&instance.skip, &instance.does_not_fit) {
            (Some(_), _) => Some(Outcome::Skipped),
            (None, Some(_)) => Some(Outcome::DoesNotFit),
            (None, None) if !asked => Some(Outcome::Skipped),
            (None, None) => None,
        };
        let estimate = match settled {
            Some(_) => Estimate::default(),
            None => {
                let step = &expansion.steps[instance.step.index()].name;
                let [exact, of_step] = shapes(&expansion.workflow, step, &instance.label);
                let own = results.history(&exact)?;
                if !steps.contains_key(&of_step) {
                    steps.insert(of_step.clone(), results.history(&of_step)?);
                }
                estimate(&own, steps.get(&of_step).map_or(&[], Vec::as_slice))
            }
        };
        Ok(Task {
            instance: instance.id,
            needs: instance.needs.clone(),
            request: instance.request,
            exclusive: instance.exclusive,
            corun: instance.corun.as_ref().map(|corun| (corun.group, corun.gpus)),
            continues: instance.corun.as_ref().is_some_and(|corun| corun.continues),
            measured: instance.measured,
            record: instance.record.to_vec(),
            timeout: instance.timeout,
            retries: instance.retries,
            priority: instance.priority,
            settled,
            estimate,
            submitted: Time(0),
        })
    };
    expansion.instances.iter().map(task).collect()
}

/// The median of what the instance took before, else of what its step took.
fn estimate(own: &[Observation], step: &[Observation]) -> Estimate {
    let (seen, source) = if own.is_empty() { (step, "its step") } else { (own, "this instance") };
    if seen.is_empty() {
        return Estimate { source: "never ran".to_owned(), ..Estimate::default() };
    }
    let median = |value: fn(&Observation) -> f64| {
        let mut values: Vec<f64> = seen.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Estimate {
        duration: Some(Span::from_secs_f64(median(|o| o.wall_s))),
        // Peaks, not medians: memory that does not suffice costs the attempt. Another instance's says nothing of this one's.
        gpu_memory: own.iter().map(|o| o.gpu_memory).max().filter(|peak| *peak > 0),
        cpu_milli: Some((median(|o| o.cpu_cores) * 1e3) as u32),
        gpu_busy_milli: seen.iter().any(|o| o.gpu_memory > 0).then(|| (median(|o| o.gpu_load) * 1e3) as u32),
        samples: seen.len() as u32,
        source: format!(
            "{} of {source}",
            if seen.len() == 1 { "1 run".to_owned() } else { format!("{} runs", seen.len()) }
        ),
    }
}
