//! `flow run`, from the file to the published report, in phases: open, prepare, begin, drive. The loop in between is in
//! `live`.

mod active;
mod drive;
mod open;
mod prepare;
mod progress;

use std::{ops::ControlFlow, sync::Arc, thread, time::Duration};

use flow_core::{Builtins, Instance, Outcome, SettledResults, Uses};
use flow_runs::StoreDir;
use flow_store::{Snapshot, Store};
use flow_supervisor::{hardware, keeper::record};

use self::{
    active::ActiveRun,
    drive::{CompletedRun, drive},
    open::{OpenedRun, nothing_to_do},
    prepare::PreparedRun,
};
use super::{
    begin::{context::RunContext, environments::PresentEnvironment},
    executor::{
        Executor,
        composite::CompositeExecutor,
        daemon,
        detached::DetachedAttempts,
        local::Local,
        slurm::{Settings, Slurm},
    },
    live::THREADS,
    plan::continued::find_orphan_places,
    request::{RunEnd, RunOptions},
    session::{Basis, identity::holder},
    unchanged::{self, PublishedBefore, save_snapshot},
    updates::Update,
};
use crate::ExecError;

/// Runs a workflow.
///
/// # Errors
/// The workflow is invalid, the store is unavailable, a plugin cannot be set up. A failed step is not an error.
pub fn run(
    options: &RunOptions,
    builtins: Arc<dyn Builtins>,
    observe: &mut dyn FnMut(Update),
) -> Result<RunEnd, ExecError> {
    run_on(options, builtins, observe, |context| {
        let local = Local::new(context.exe.clone(), record::of_run(context.run_dir.path()));
        let daemon = context.detached.then(|| daemon(context));
        let detached = DetachedAttempts::new(context.store.dir().clone(), daemon);
        let slurm = context.session.expansion.has_batch().then(|| slurm(context)).transpose()?;
        Ok(CompositeExecutor::new(local, detached, slurm))
    })
}

/// Among the Slurm steps.
fn highest_priority(instances: &[Instance]) -> i64 {
    instances.iter().filter(|instance| instance.is_batch()).map(|instance| instance.priority).max().unwrap_or(0)
}

fn daemon(context: &RunContext) -> daemon::Settings {
    let expansion = &context.session.expansion;
    let wants = expansion.instances.iter().any(|instance| instance.request.gpus > 0 && !instance.is_batch());
    let machine = Some(&expansion.machine).filter(|machine| wants && !machine.fake_gpus);
    daemon::Settings {
        exe: context.exe.clone(),
        dir: context.store.dir().clone(),
        run: context.run.clone(),
        folder: context.run_dir.path().to_owned(),
        workflow: expansion.workflow.clone(),
        environment: context.environment.inherited().clone(),
        gpus: machine.map(|machine| machine.gpus.clone()).unwrap_or_default(),
    }
}

fn slurm(context: &RunContext) -> Result<Slurm, ExecError> {
    let expansion = &context.session.expansion;
    let flow = expansion.slurm.flow.as_ref().map(|flow| context.session.path(flow));
    Slurm::new(Settings {
        dir: context.store.dir().clone(),
        flow: flow.unwrap_or_else(|| context.exe.clone()),
        poll: Duration::from_micros(expansion.slurm.poll.0),
        environment: context.environment.inherited().clone(),
        workflow: expansion.workflow.clone(),
    })
}

/// Runs a workflow with the executor that `executor` makes.
pub(super) fn run_on<X: Executor>(
    options: &RunOptions,
    builtins: Arc<dyn Builtins>,
    observe: &mut dyn FnMut(Update),
    executor: impl FnOnce(&RunContext) -> Result<X, ExecError>,
) -> Result<RunEnd, ExecError> {
    let machine = hardware::machine(options.session.gpus.as_deref()).map_err(ExecError::Usage)?;
    let basis = Basis::read(&options.session, machine)?;
    let existing = basis.workspace.existing_store()?;
    let previous =
        existing.as_ref().and_then(|dir| Snapshot::load(dir, &basis.workspace.snapshot_name())).map(Arc::new);
    if let Some(end) = nothing_to_do(options, &basis, &*builtins, previous.as_deref())? {
        return Ok(end);
    }
    let before = previous.clone().map(PublishedBefore::of).unwrap_or_default();
    let orphan_places = find_orphan_places(&basis)?;
    let opened = thread::scope(|scope| {
        // It takes as long as the expansion of the workflow, which opens the store itself if a dead run left something.
        let holder = holder(&options.doing);
        let snapshot = previous.clone();
        let open = move |dir: StoreDir| {
            let store = Store::open_to_run(dir.path(), &holder, |_| ControlFlow::Break(())).ok()?;
            snapshot.iter().for_each(|snapshot| snapshot.look_ahead(&store));
            Some(store)
        };
        let opening = existing
            .filter(|_| orphan_places.is_empty())
            .and_then(|dir| thread::Builder::new().name("open".into()).spawn_scoped(scope, move || open(dir)).ok());
        let store = || opening?.join().ok()?;
        OpenedRun::open(options, (&basis, orphan_places), &*builtins, previous, store, observe)
    })?;
    let prepared = PreparedRun::of(&opened, observe)?;
    let begun = ActiveRun::new(opened, prepared, options, builtins, observe)?;
    let (context, key) = (Arc::clone(&begun.context), begun.key);
    let driven = executor(&context).and_then(|executor| drive(begun, options, executor, &before, observe));
    // In case it did not finish.
    context.captures.clear();
    context.run_dir.leave_work();
    let CompletedRun { published, withheld, exit, counts, leaving: _leaving } = driven?;

    let RunContext { session, run, known, wanted, .. } = &*context;
    let expansion = &session.expansion;
    let own = wanted.iter().map(|id| &expansion.instances[id.index()]).filter(|instance| {
        let builtin = matches!(expansion.steps[instance.step.index()].uses, Uses::Builtin(_));
        builtin && known.result(instance.id).is_some_and(|result| result.outcome == Outcome::Ok)
    });
    let made = own.map(|instance| instance.label.to_string()).collect();
    let has_run = |id| known.is_settled(id) && known.result(id).is_some_and(|result| result.run == *run);
    let unfollowed = expansion.unfollowed(|id| known.is_settled(id) && !has_run(id), has_run);
    let environments =
        PresentEnvironment::of_programs(context.store.dir()).since_any(&unchanged::environments(&context));
    let run = run.clone();
    let end = RunEnd { run, exit, counts, published, withheld, made, unfollowed, environments, unchanged: false };
    if exit == 0 && options.targets.is_empty() {
        save_snapshot(&context, key, &end, &before)?;
    }
    Ok(end)
}

fn event_loop() -> Result<tokio::runtime::Runtime, ExecError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(THREADS)
        .build()
        .map_err(ExecError::io("start", "the event loop"))
}
