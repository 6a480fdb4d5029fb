//! `flow simulate -w`: the instances of a workflow on any hardware, with the times of earlier runs.

use std::path::Path;

use flow_core::plan::Plan;
use flow_core::sched::{Limits, policy};
use flow_exec::{Session, forecast};
use flow_sim::{Cluster, SimTask, Simulation, expected};
use flow_supervisor::hardware;

use super::Simulate;
use crate::args::{Global, Selection};
use crate::builtins::{Steps, gantt};
use crate::error::CliError;
use crate::output::{Output, STRONG, noted, styled};
use crate::{place, words};

pub(super) fn simulate(command: &Simulate, file: &Path, global: &Global, output: &mut Output) -> Result<(), CliError> {
    if command.slurm.is_some() && command.gpus.is_none() {
        let hint =
            "for example --gpus '64 x H100, 80000 MiB' --nodes 8; `flow hw --on slurm` shows a cluster's hardware";
        return Err(CliError::usage("--slurm needs --gpus to know the GPUs of the nodes").hint(hint));
    }
    let mut machine = hardware::machine(None).map_err(CliError::usage)?;
    if let Some(gpus) = &command.gpus {
        machine.gpus = hardware::parse_fake_gpus("--gpus", gpus).map_err(CliError::usage)?;
        machine.fake_gpus = true;
    }
    machine.cpus = command.cpus.unwrap_or(machine.cpus);
    let selection = Selection { set: command.set.clone(), ..Selection::default() };
    let request = place::request(global, file.to_owned(), &selection);
    let session = Session::imagine(&request, &Steps::default(), machine, command.slurm.is_some())?;
    if let Some(partitions) = &command.partitions {
        session.check_partitions(partitions)?;
    }
    let knowledge = place::knowledge(&session, output)?;
    let wanted = session.wanted(&[])?;
    // Nothing has run on that machine, so only the learned times are taken from the store.
    let forecast = forecast(&session, &knowledge, &wanted, &Plan::default())?;
    let unknown = forecast.unknown;
    let tasks = expected(forecast.tasks.clone());
    let (machine, expansion) = (&session.expansion.machine, &session.expansion);
    let gpus = machine.gpus.len() as u32;
    let nodes = command.nodes.unwrap_or(1);
    if command.slurm.is_some() && (gpus == 0 || !gpus.is_multiple_of(nodes)) {
        let gpus = words::count(gpus as usize, "GPU");
        return Err(CliError::usage(format!("{gpus} cannot be divided equally among {nodes} nodes")));
    }
    let cluster = Cluster { nodes, gpus: gpus / nodes };
    let what = styled(STRONG, format_args!("{}, {}", expansion.workflow, words::count(tasks.len(), "instance")));
    let gpus_text = machine.gpus.first().map(|gpu| format!("{gpus} × {}, ", gpu.name)).unwrap_or_default();
    let heading = format!("{what} on {gpus_text}{}", words::count(machine.cpus as usize, "CPU"));
    let own = [expansion.policy.as_deref().unwrap_or(policy::DEFAULT)];
    let schedule = command.each_policy(&own, (&tasks, gpus), heading, output, |_, policy| {
        let limits = Limits { sharing: forecast.limits.sharing.clone(), keep_going: true, ..command.limits() };
        let simulation = Simulation::new(tasks.clone(), forecast.capacity.clone(), policy, limits);
        Ok(simulation.and_then(|simulation| match command.slurm {
            // Each node has CPUs of its own.
            Some(_) => command.on_slurm(simulation, cluster)?.run(|_, _| {}),
            None => simulation.on(forecast.host.clone()).run(|_, _| {}),
        }))
    })?;
    if command.slurm.is_none() && tasks.iter().any(|task| task.task.batch) {
        output.note(noted("steps on Slurm start at once here; --slurm simulates its queue and nodes"))?;
    }
    if let Some(first) = unknown.first() {
        let first = &expansion.instances[first.index()].label;
        let never = words::count(unknown.len(), "instance");
        let take = if unknown.len() == 1 { "takes" } else { "take" };
        let text = format!("{never} never ran with these parameters and {take} no time here; the first is {first}");
        output.note(noted(text))?;
    }
    let step = |task: &SimTask| {
        let step = expansion.instances[task.task.instance.index()].step;
        expansion.steps[step.index()].name.clone()
    };
    command.draw(|| gantt(&tasks, &schedule, gpus as usize, Some(&forecast.host), step), global, output)
}
