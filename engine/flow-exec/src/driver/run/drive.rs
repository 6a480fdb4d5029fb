//! The event loop of a run, from its first task to the published files and the last line of the journal.

use std::collections::BTreeMap;

use flow_core::{
    InstanceId, Replace, RunEvent,
    plan::Decision,
    sched::{Event, Task},
};

use super::event_loop;
use crate::{
    ExecError,
    driver::{
        begin::context::RunContext,
        cancel::SignalGuard,
        executor::Executor,
        live::{EventLoop, LoopStart},
        reports::{
            publish::{PublishResult, PublishedFile, WithheldFile, publish},
            stale::remove_stale,
        },
        unchanged::PublishedBefore,
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

/// Runs the loop, from the first task to publishing, and returns the end of the run.
pub(super) fn drive<X: Executor>(
    context: &RunContext,
    reused: BTreeMap<InstanceId, Decision>,
    beginning: LoopStart<'_, X>,
    tasks: Vec<Task>,
    replace: &Replace,
    before: &PublishedBefore,
) -> Result<CompletedRun, ExecError> {
    let session = &context.session;
    let mut live = EventLoop::new(beginning);
    // Settled before anything runs: tables and reports show these instances, and the scheduler knows them from its
    // tasks.
    for id in &context.wanted {
        if let Some((outcome, cause)) = session.expansion.instances[id.index()].settled() {
            live.settle_before(*id, outcome, cause);
        }
    }
    reused.into_iter().for_each(|(id, decision)| live.reuse_before(id, decision));
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
    let done = publish(session, &*context.builtins, &context.known, &context.objects, replace, &aside);
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
