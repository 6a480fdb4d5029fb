//! `flow simulate --trace`.

use std::path::Path;

use flow_sim::trace::Trace;
use flow_sim::{Cluster, Simulation, trace};

use super::{DEFAULT, Simulate, bad, text};
use crate::args::Global;
use crate::builtins::gantt;
use crate::error::CliError;
use crate::output::{Output, STRONG, noted, styled};
use crate::words;

pub(super) fn simulate(command: &Simulate, file: &Path, global: &Global, output: &mut Output) -> Result<(), CliError> {
    let cluster = Cluster::parse(command.gpus.as_deref().unwrap_or_default())
        .map_err(|fault| CliError::usage(fault.to_string()))?;
    let columns = command.columns.clone().unwrap_or_default();
    let Trace { jobs, left_out, rounded, is_swf } = match trace::read(&text(file)?, &columns) {
        Ok(trace) => trace,
        Err(errors) => return bad(file, &errors),
    };
    if is_swf {
        output.note(noted("processors of the Standard Workload Format count as GPUs"))?;
    }
    if left_out > 0 {
        let jobs = words::count(left_out, "job");
        output.note(noted(format_args!("without {jobs} that have no run time in the trace")))?;
    }
    if rounded > 0 {
        let jobs = words::count(rounded, "job");
        output.note(noted(format_args!("{jobs} with a part of a GPU in the trace count as one whole GPU")))?;
    }
    let tasks = trace::tasks(&jobs);
    let gpus = cluster.total();
    let (what, on) = (words::count(jobs.len(), "job"), words::count(gpus as usize, "GPU"));
    let heading = format!("{} on {on}: {}", styled(STRONG, what), file.display());
    let schedule = command.each_policy(&DEFAULT, (&tasks, gpus), heading, output, |name, policy| {
        bad(file, &trace::too_wide(&jobs, gpus, policy.one_gpu_only().then_some(name)))?;
        Ok(Simulation::new(tasks.clone(), cluster.capacity(), policy, command.limits())
            .and_then(|simulation| command.on_slurm(simulation, cluster)?.run(|_, _| {})))
    })?;
    let wide = |task: &flow_sim::SimTask| words::count(task.task.request.gpus as usize, "GPU");
    command.draw(|| gantt(&tasks, &schedule, gpus as usize, None, wide), global, output)
}
