//! Tasks that do what history expects of them: a plan, simulated before anything runs.

use flow_core::Span;
use flow_core::sched::Task;

use crate::{Attempt, SimTask};

/// Each task takes what is estimated, keeps busy what is estimated, and succeeds; what is unknown takes no time.
pub fn expected(tasks: Vec<Task>) -> Vec<SimTask> {
    let behave = |task: Task| {
        let estimate = &task.estimate;
        let thousandths = |milli: Option<u32>| f64::from(milli.unwrap_or(0)) / 1e3;
        let whole = estimate.duration.unwrap_or(Span(0));
        let warm_up = estimate.startup.unwrap_or(Span(0)).min(whole);
        let work = Span(whole.0 - warm_up.0);
        // What it keeps busy from start to end, it does while it works.
        let working = if work > Span(0) { whole.as_secs_f64() / work.as_secs_f64() } else { 1.0 };
        let attempt = Attempt {
            warm_up,
            cores: thousandths(estimate.cpu_milli),
            gpu_busy: (thousandths(estimate.gpu_busy_milli) * working).min(1.0),
            ..Attempt::new(work)
        };
        SimTask { attempts: vec![attempt], ..SimTask::new(task, Span(0)) }
    };
    tasks.into_iter().map(behave).collect()
}
