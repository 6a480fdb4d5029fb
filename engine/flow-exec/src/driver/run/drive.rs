//! The event loop of a run, from its first task to the published files and the last line of the journal.

use std::{collections::BTreeMap, sync::Arc};

use flow_core::{
    RunEvent, learn,
    sched::{Event, Limits, Scheduler},
};

use super::{active::ActiveRun, event_loop};
use crate::{
    ExecError,
    driver::{
        begin::context::RunContext,
        cancel::SignalGuard,
        executor::Executor,
        live::{EventLoop, GRACE, LoopStart},
        reports::{
            publish::{PublishResult, PublishedFile, WithheldFile, publish},
            stale::remove_stale,
        },
        request::RunOptions,
        unchanged::PublishedBefore,
        updates::Update,
    },
};

/// What a run came to.
pub(super) struct CompletedRun {
    pub(super) published: Vec<PublishedFile>,
    pub(super) withheld: Vec<WithheldFile>,
    pub(super) exit: i32,
    pub(super) counts: BTreeMap<String, u32>,
    pub(super) leaving: SignalGuard,
}

/// Gives the tasks to the scheduler, runs the loop, publishes, and returns the end of the run.
pub(super) fn drive<X: Executor>(
    begun: ActiveRun,
    options: &RunOptions,
    executor: X,
    before: &PublishedBefore,
    observe: &mut dyn FnMut(Update),
) -> Result<CompletedRun, ExecError> {
    let status = begun.status();
    let ActiveRun { context, journal, cancel, policy, observed, reused, .. } = begun;
    let RunContext { session, wanted, .. } = &*context;
    let expansion = &session.expansion;
    let history = observed.history(expansion, &expansion.instances);
    let limits = Limits { keep_going: options.keep_going, grace: GRACE, ..learn::limits(&history) };
    let capacity = learn::capacity(&expansion.machine, options.jobs, expansion.slurm.jobs);
    let scheduler = Scheduler::new(capacity.clone(), policy, limits);
    let settled = reused.iter().filter_map(|(id, decision)| Some((*id, decision.reused()?)));
    let tasks = learn::tasks(wanted, &settled.collect(), &history);
    let replace = options.publish.replace(session, wanted.len() == expansion.instances.len());
    let mut live = EventLoop::new(LoopStart {
        context: Arc::clone(&context),
        journal,
        history,
        scheduler,
        capacity,
        executor,
        status,
        cancel,
        observe,
    });
    live.settle_before(reused);
    let runtime = event_loop()?;
    let ran = runtime.block_on(live.run(Event::Submitted(tasks)));
    if live.interrupted {
        // Nobody waits for the remaining background jobs.
        context.activity.end();
        runtime.shutdown_background();
    }
    ran?;
    let leaving = live.is_over();

    let aside = context.run_dir.path().join("not-published");
    let publishing = context.claimed.publishing()?;
    let done = publish(session, &*context.builtins, &context.known, &context.objects, &replace, &aside);
    let PublishResult { files: published, withheld, errors } = done;
    // After an error, files may be missing only because they could not be written.
    let removed = errors.is_empty().then(|| remove_stale(session, &published, &before.unchanged())).flatten();
    drop(publishing);
    let failed = live.outcomes.failed || !errors.is_empty();
    let exit = if live.interrupted { 130 } else { i32::from(failed) };
    live.tidy();
    let mut last: Vec<RunEvent> = published
        .iter()
        .map(|file| RunEvent::Published { path: session.workspace.name(&file.path), changed: file.changed })
        .collect();
    last.extend(withheld.iter().map(|file| RunEvent::Withheld {
        path: session.workspace.name(&file.path),
        written: session.workspace.name(&file.written),
        why: file.why.clone(),
    }));
    last.extend(removed.map(|text| RunEvent::Notice { instance: None, text }));
    let failures = errors.into_iter().map(|(path, why)| format!("`{}`: {why}", session.workspace.name(&path)));
    let (not_published, counts) = (failures.collect(), live.outcomes.counts.clone());
    last.push(RunEvent::RunEnded { exit, counts: counts.clone(), run: None, not_published });
    live.end(last, exit)?;
    Ok(CompletedRun { published, withheld, exit, counts, leaving })
}
