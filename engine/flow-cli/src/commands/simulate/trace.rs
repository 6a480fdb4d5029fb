//! `flow simulate --trace`.

use std::path::Path;

use flow_core::sched::policy;
use flow_sim::trace::Trace;
use flow_sim::{Cluster, Simulation, Summary, trace};

use super::{DEFAULT, Simulate, bad, table, text};
use crate::args::Global;
use crate::builtins::gantt;
use crate::error::CliError;
use crate::output::{NOTE, Output, STRONG, styled};
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
        note("processors of the Standard Workload Format count as GPUs".to_owned(), output)?;
    }
    if left_out > 0 {
        let jobs = words::count(left_out, "job");
        note(format!("without {jobs} that have no run time in the trace"), output)?;
    }
    if rounded > 0 {
        let jobs = words::count(rounded, "job");
        note(format!("{jobs} with a part of a GPU in the trace count as one whole GPU"), output)?;
    }
    let tasks = trace::tasks(&jobs);
    let limits = command.limits();
    let (mut summaries, mut last) = (Vec::new(), None);
    for name in command.policies(&DEFAULT) {
        let Some(policy) = policy::named(&name) else { continue };
        let one_gpu_only = policy.one_gpu_only().then_some(&*name);
        bad(file, &trace::too_wide(&jobs, cluster.total(), one_gpu_only))?;
        let schedule = Simulation::new(tasks.clone(), cluster.capacity(), policy, limits.clone())
            .and_then(|simulation| command.on_slurm(simulation, cluster)?.run(|_, _| {}))
            .map_err(|e| CliError::failed(format!("policy `{name}`: {e}")))?;
        let summary = Summary::of(&name, &tasks, &schedule, cluster.total());
        if command.json {
            output.json(&summary)?;
        }
        summaries.push(summary);
        last = Some(schedule);
    }
    if !command.json {
        let what = words::count(jobs.len(), "job");
        let on = words::count(cluster.total() as usize, "GPU");
        output.line(format!("{} on {on}: {}", styled(STRONG, what), file.display()))?;
        for line in table(&summaries) {
            output.line(line)?;
        }
        for line in command.slurm_notes(&summaries) {
            output.line(line)?;
        }
    }
    let schedule = last.unwrap_or_default();
    let wide = |task: &flow_sim::SimTask| words::count(task.task.request.gpus as usize, "GPU");
    command.draw(|| gantt(&tasks, &schedule, cluster.total() as usize, None, wide), global, output)
}

fn note(text: String, output: &mut Output) -> Result<(), CliError> {
    Ok(output.note(format!("{} {text}", styled(NOTE, "note:")))?)
}
