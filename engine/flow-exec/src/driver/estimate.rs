//! The scheduler's tasks, with what history says of each. Chooses nothing.

use flow_core::{
    Expansion, Instance, InstanceId, Machine, Outcome, Time,
    sched::{Capacity, Estimate, GpuState, Limits, Sharing, Task},
};

use super::history::History;

/// What there is to give out on this machine.
pub(crate) fn capacity(machine: &Machine, jobs: Option<u32>) -> Capacity {
    let gpu = |gpu: &flow_core::GpuFacts| GpuState { memory: gpu.memory, strangers: 0, alive: true };
    Capacity { gpus: machine.gpus.iter().map(gpu).collect(), cpus: machine.cpus, memory: machine.memory, jobs }
}

/// How a live run is scheduled on this machine.
pub(crate) fn limits(expansion: &Expansion, history: &History) -> Limits {
    let (devices, trial) = prices(&expansion.machine, history);
    let pairs = history.pairs(expansion);
    Limits { sharing: Sharing { devices, trial, pairs, ..Sharing::default() }, ..Limits::default() }
}

/// What sharing each GPU of a machine costs, and what that may yet turn out to be.
pub(crate) fn prices(machine: &Machine, history: &History) -> (Vec<f64>, Vec<Option<f64>>) {
    history.devices(machine).iter().map(|device| (device.coefficient, device.hoped())).unzip()
}

/// One task an instance. What was not asked for is settled from the start.
pub(crate) fn tasks(expansion: &Expansion, wanted: &[InstanceId], history: &History) -> Vec<Task> {
    let task = |instance: &Instance| {
        let asked = wanted.binary_search(&instance.id).is_ok();
        let settled = match (&instance.skip, &instance.does_not_fit) {
            (Some(_), _) => Some(Outcome::Skipped),
            (None, Some(_)) => Some(Outcome::DoesNotFit),
            (None, None) if !asked => Some(Outcome::Skipped),
            (None, None) => None,
        };
        Task {
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
            estimate: settled.map_or_else(|| history.estimate(expansion, instance), |_| Estimate::default()),
            submitted: Time(0),
        }
    };
    expansion.instances.iter().map(task).collect()
}
