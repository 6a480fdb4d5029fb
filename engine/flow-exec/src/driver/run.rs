//! `flow run`, from the file to the published report: all steps in order. The loop in between is in `live`.

use std::{
    cell::LazyCell,
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    process,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use flow_core::{
    Builtins, Digest, Instance, InstanceId, JOURNAL_FORMAT, JournalLine, Outcome, Planned, Replace, Revision, RunEvent,
    RunId, RunStart, Settled, Uses, learn,
    plan::{Decision, Plan},
    sched::{
        Event, Limits, Scheduler, Task,
        policy::{self as policies, Policy},
    },
};
use flow_store::{Activity, Holder, Snapshot, Status, Store};

use serde_json::Map;

use super::{
    attempts::placements::{SLOW, progress},
    begin::capture::{Capture, Taken},
    begin::context::{Known, RunContext},
    begin::environments::{Environments, PresentEnvironment},
    begin::revision,
    begin::run_claims::RunClaims,
    begin::setups::set_up,
    begin::start,
    cancel::{Cancel, Leaving},
    decide::decisions,
    executor::Executor,
    executor::adopted::AdoptedAttempts,
    executor::composite::CompositeExecutor,
    executor::daemon,
    executor::local::Local,
    executor::slurm::{Settings, Slurm},
    live::{EventLoop, GRACE, LoopStart},
    plan::continued::continued,
    plan::forecast,
    plan::lookup::Recorded,
    recover::left,
    recover::orphans::OrphanedWork,
    reports::publish::PublishedFile,
    reports::publish::{Published, WithheldFile, publish, targets},
    request::{RunEnd, RunOptions},
    session::Basis,
    session::Session,
    session::identity::{holder, new_run_id},
    unchanged::{self, Summary, is_last, save_snapshot},
    updates::Update,
};
use crate::{
    ExecError, clock, hardware,
    keeper::{self, record},
    pages,
};

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
        let mut local = Local::new(context.exe.clone(), record::of_run(context.run_dir.path()));
        if context.outlives {
            local = local.outliving(outliving(context));
        }
        let joined = AdoptedAttempts::new(context.store.dir().clone());
        CompositeExecutor::new(local, joined, context.session.expansion.has_batch().then(|| slurm(context)))
    })
}

/// Among the Slurm steps.
fn highest_priority(instances: &[Instance]) -> i64 {
    instances.iter().filter(|instance| instance.slurm.is_some()).map(|instance| instance.priority).max().unwrap_or(0)
}

fn outliving(context: &RunContext) -> daemon::Settings {
    let expansion = &context.session.expansion;
    let wants = expansion.instances.iter().any(|instance| instance.request.gpus > 0 && instance.slurm.is_none());
    let machine = Some(&expansion.machine).filter(|machine| wants && !machine.fake_gpus);
    daemon::Settings {
        exe: context.exe.clone(),
        store: context.store.dir().path().to_owned(),
        run: context.run.clone(),
        folder: context.run_dir.path().to_owned(),
        workflow: expansion.workflow.clone(),
        environment: context.environment.inherited().clone(),
        cards: machine.map(|machine| machine.gpus.clone()).unwrap_or_default(),
    }
}

fn slurm(context: &RunContext) -> Slurm {
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
    executor: impl FnOnce(&RunContext) -> X,
) -> Result<RunEnd, ExecError> {
    let machine = hardware::machine(options.session.gpus.as_deref()).map_err(ExecError::Usage)?;
    let basis = Basis::read(&options.session, machine)?;
    let also = format!("{:?} {:?}", options.publish, options.policy);
    let key_of =
        |plugins: &BTreeMap<_, _>, included: &[Digest], also: &str| basis.key(plugins, included, &*builtins, also);

    // If nothing changed since the last run, its snapshot shows that by looking at files, without workflow and
    // database.
    let existing = basis.workspace.existing_store()?;
    let name = basis.workspace.snapshot_name();
    let previous = existing.as_ref().and_then(|dir| Snapshot::load(dir, &name));
    if let Some(snapshot) = previous.as_ref().filter(|_| options.targets.is_empty() && options.force.is_nothing())
        && let summary = Summary::of(snapshot)
        && let Some(plugins) = basis.plugins(&summary.plugins)
        && let Some(included) = basis.included(&summary.included)
        && snapshot.still_holds(&basis.workspace.make_store()?, &key_of(&plugins, &included, &also))
        && existing.as_ref().is_some_and(|dir| is_last(dir, snapshot.run(), &basis.workspace))
        && !keeper::may_be_left(&basis.workspace.store)
    {
        return Ok(summary.unchanged(snapshot.run().clone(), &basis.workspace.make_store()?));
    }
    pages::keep_small();
    let session = continued(&basis, &*builtins, false)?;
    let also = if session.left.is_empty() { also } else { format!("{also} {:?}", session.left) };
    let wanted = session.wanted(&options.targets)?;
    let force = options.force.of(&session)?;
    let policy_name = options.policy.as_deref().or(session.expansion.policy.as_deref()).unwrap_or(policies::DEFAULT);
    let policy = policy(policy_name, &session)?;
    let plugins = session.plugins.iter().map(|plugin| plugin.name());
    let digest = |name: &str| Some((name.to_owned(), session.catalogue.plugins.get(name)?.digest));
    let included: Vec<_> = session.workflow.sources().skip(1).map(|file| Digest::of(file.text.as_bytes())).collect();
    let key = key_of(&plugins.filter_map(digest).collect(), &included, &also);
    let revision = revision::ask(&session.workspace.root, &targets(&session), &revision::read(&session));

    if previous.is_none() {
        session.check_inputs(&wanted)?;
    }
    let secrets = session.secret_values()?;
    let mut ahead = None;
    let name = |runs: &[RunId]| {
        let (run, newest) = new_run_id(runs);
        ahead = newest.cloned();
        run
    };
    let dir = session.workspace.make_store()?;
    if let (Some(cluster), None) = (&session.cluster, &session.unasked) {
        cluster.remember(&dir.nodes());
    }
    let (store, run) = Store::open_for_run(dir.path(), &holder(&options.doing), name, |who: &Holder| {
        if options.wait {
            observe(Update::Held(who.to_string()));
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    if !options.force.is_nothing() {
        // The snapshots depend on results that are about to be replaced.
        store.dir().drop_snapshots()?;
    }
    let cancel = Cancel::watch(store.dir().run(&run), options.detached)?;
    let activity = session.activity.clone();
    let recorded = Recorded::lately(store.dir(), &session.expansion.workflow);
    let prepare = |observe: &mut dyn FnMut(Update)| {
        let left = OrphanedWork::look(&store, &run);
        let strays = left::kill_strays(store.dir(), &left.all()).map(|text| secrets.hide(text));
        let stood = previous.as_ref().map_or(Ok(Vec::new()), |snapshot| snapshot.stood(&store, &key))?;
        let capture = Capture {
            session: &session,
            store: &store,
            recorded: &recorded,
            run: &run,
            wanted: &wanted,
            force: &force,
            stood: &stood,
            left: &left,
            activity: &activity,
        };
        let set_up = |plan: &Plan| set_up(&event_loop()?, &session, plan, store.dir(), observe);
        let taken = capture.take(previous.as_ref(), set_up)?;
        let may_run = |id| !taken.reused.contains_key(&id);
        let observed = forecast::observed(&session.expansion, &wanted, may_run, &taken.plan, &store)?;
        Ok::<_, ExecError>((left, strays, stood, taken, observed, store.begin(&run)?))
    };
    let (left, strays, stood, taken, observed, journal) = aside(&activity, observe, prepare)?;
    let Taken { inputs, captures, plan, reused, notices } = taken;

    let claimed = RunClaims::nothing(store.dir(), &run)?;
    let started_at = clock::unix_millis();
    let revision = revision.answer();
    let mut beginning = beginning(&session, options, &run, policy_name, revision.clone(), &plan, started_at);
    let ahead =
        ahead.map(|newest| format!("the clock is behind run {newest} of this store; this run's id follows that one"));
    let rebuilt = store.rebuilt().map(ToString::to_string);
    let silent = session.unasked.as_ref().map(ToString::to_string);
    let notices = ahead.into_iter().chain(rebuilt).chain(strays).chain(silent).chain(notices);
    let notices = notices.map(|text| RunEvent::Notice { instance: None, text });
    beginning.extend(notices.map(|event| JournalLine { at: started_at, event }));
    beginning.iter_mut().for_each(|line| secrets.hide_in(&mut line.event));
    journal.append(&beginning)?;
    beginning.into_iter().for_each(|line| observe(Update::Event(line)));

    let environment = start::Environment::of(&session);
    let context = Arc::new(RunContext {
        builtins,
        objects: store.objects().doing(activity.clone()),
        run_dir: store.dir().run(&run),
        run,
        wanted,
        force,
        inputs,
        captures,
        known: Known::of_nothing(session.expansion.instances.len()),
        claimed,
        stood,
        tellers: session.tellers(),
        secrets,
        environments: Environments::new(store.dir().path(), environment.inherited()),
        environment,
        revision,
        exe: start::exe()?,
        left,
        outlives: options.detached,
        leaves_jobs: options.detached && session.expansion.has_batch(),
        highest_priority: highest_priority(&session.expansion.instances),
        activity,
        recorded,
        store,
        session,
    });
    let RunContext { session, run, known, wanted, .. } = &*context;
    let expansion = &session.expansion;
    let labels: LazyCell<BTreeSet<String>, _> = LazyCell::new(|| {
        expansion.instances.iter().map(|instance| context.secrets.hide(instance.label.to_string())).collect()
    });
    let followed = |attempt: &Digest| !matches!(context.claimed.taken(&[*attempt]), Ok(None));
    let mut useless = context.left.end_unknown(&context.file(), |label| labels.contains(label), followed);
    useless.extend(decisions::end_reused(&context, reused.keys()));
    if let Some(text) = left::notice(&useless) {
        let line = JournalLine { at: clock::unix_millis(), event: RunEvent::Notice { instance: None, text } };
        journal.append(std::slice::from_ref(&line))?;
        observe(Update::Event(line));
    }
    let history = observed.history(expansion, &expansion.instances);
    let limits = Limits { keep_going: options.keep_going, grace: GRACE, ..learn::limits(&history) };
    let capacity = learn::capacity(&expansion.machine, options.jobs, expansion.slurm.jobs);
    let scheduler = Scheduler::new(capacity.clone(), policy, limits);
    let settled = reused.iter().filter_map(|(id, decision)| Some((*id, decision.reused()?)));
    let tasks = learn::tasks(wanted, &settled.collect(), &history);
    let executor = executor(&context);
    let status = Status {
        run: run.clone(),
        workflow: expansion.workflow.clone(),
        file: session.workspace.name(&session.workspace.file),
        pid: process::id(),
        started_at,
        updated_at: started_at,
        ended: None,
        instances: wanted.len() as u32,
        counts: BTreeMap::new(),
        running: Vec::new(),
        waiting: Vec::new(),
    };
    let beginning = LoopStart {
        context: Arc::clone(&context),
        journal,
        history,
        scheduler,
        capacity,
        executor,
        status,
        cancel,
        observe,
    };
    let replace = options.publish.replace(session, wanted.len() == expansion.instances.len());
    let driven = drive(&context, reused, beginning, tasks, &replace);
    // In case it did not finish.
    context.captures.clear();
    let Driven { published, withheld, exit, counts, leaving: _leaving } = driven?;

    let own = wanted.iter().map(|id| &session.expansion.instances[id.index()]).filter(|instance| {
        let builtin = matches!(session.expansion.steps[instance.step.index()].uses, Uses::Builtin(_));
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
        save_snapshot(&context, key, &end)?;
    }
    Ok(end)
}

/// Runs `work` on another thread while this one shows its progress. Before the loop exists, nothing else could show it.
fn aside<T: Send>(
    activity: &Activity,
    observe: &mut dyn FnMut(Update),
    work: impl FnOnce(&mut dyn FnMut(Update)) -> Result<T, ExecError> + Send,
) -> Result<T, ExecError> {
    const LOOK: Duration = Duration::from_secs(1);
    /// Hashing or copying is shown after this many seconds.
    const SHOW: u32 = SLOW as u32;
    /// The size of the main thread's stack.
    const STACK: usize = 8 << 20;
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        let work = thread::Builder::new().name("plan".to_owned()).stack_size(STACK).spawn_scoped(scope, move || {
            let done = catch_unwind(AssertUnwindSafe(|| work(&mut |update| _ = tell.send(Some(update)))));
            let _ = tell.send(None);
            done.unwrap_or_else(|panic| resume_unwind(panic))
        });
        let work = work.map_err(ExecError::io("start", "the thread that plans"))?;
        let mut seconds = 0;
        loop {
            match told.recv_timeout(LOOK) {
                Ok(Some(update)) => observe(update),
                Ok(None) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    seconds += 1;
                    if seconds % SHOW == 0
                        && let Some(doing) = activity.doing()
                    {
                        observe(Update::Doing(progress(&doing)));
                    }
                }
            }
        }
        work.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

struct Driven {
    published: Vec<PublishedFile>,
    withheld: Vec<WithheldFile>,
    exit: i32,
    counts: BTreeMap<String, u32>,
    leaving: Leaving,
}

/// Runs the loop, from the first task to publishing, and returns the end of the run.
fn drive<X: Executor>(
    context: &RunContext,
    reused: BTreeMap<InstanceId, Decision>,
    beginning: LoopStart<'_, X>,
    tasks: Vec<Task>,
    replace: &Replace,
) -> Result<Driven, ExecError> {
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
    drop(publishing);
    let Published { files: published, withheld, errors } = done;
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
    let failures = errors.into_iter().map(|(path, why)| format!("`{}`: {why}", session.workspace.name(&path)));
    let (not_published, counts) = (failures.collect(), live.outcomes.counts.clone());
    last.push(RunEvent::RunEnded { exit, counts: counts.clone(), run: None, not_published });
    live.end(last, exit)?;
    Ok(Driven { published, withheld, exit, counts, leaving })
}

/// Jobs wait for disks as often as for a core, so there may be more of them than cores, but not so many that they slow
/// each other down.
const JOBS: usize = 16;

fn event_loop() -> Result<tokio::runtime::Runtime, ExecError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(JOBS)
        .build()
        .map_err(ExecError::io("start", "the event loop"))
}

fn beginning(
    session: &Session,
    options: &RunOptions,
    run: &RunId,
    policy: &str,
    revision: Option<Revision>,
    plan: &Plan,
    at: u64,
) -> Vec<JournalLine> {
    let expansion = &session.expansion;
    let start = RunEvent::RunStarted(Box::new(RunStart {
        format: JOURNAL_FORMAT,
        run: run.clone(),
        flow: env!("CARGO_PKG_VERSION").to_owned(),
        file: session.workspace.name(&session.workspace.file),
        workflow: expansion.workflow.clone(),
        profile: expansion.profile.clone(),
        params: expansion.params.clone(),
        note: options.note.clone(),
        set: session.set.clone(),
        targets: options.targets.clone(),
        policy: policy.to_owned(),
        force: options.force.names(),
        on: options.session.on,
        revision,
        machine: expansion.machine.clone(),
        knows_nodes: session.cluster.is_some() && session.unasked.is_none(),
        instances: plan.items.len() as u32,
        pid: process::id(),
    }));
    // The instances of a step are consecutive.
    let mut told = None;
    let instances = plan.items.iter().map(|item| {
        let instance = &expansion.instances[item.id.index()];
        let is_first = told.replace(instance.step) != Some(instance.step);
        RunEvent::Instance {
            instance: item.id,
            label: instance.label.to_string(),
            step: expansion.steps[instance.step.index()].name.clone(),
            plan: Planned::from(&item.state),
            written: if is_first { expansion.written(instance.step) } else { Map::new() },
        }
    });
    let remarks = expansion.remarks.iter().map(|remark| RunEvent::Remarked { remark: remark.clone() });
    let troubles = expansion.machine.gpu_troubles.iter();
    let notices = troubles.map(ToString::to_string).chain(session.warnings());
    let notices = notices.map(|text| RunEvent::Notice { instance: None, text });
    let events = std::iter::once(start).chain(instances).chain(remarks).chain(notices);
    events.map(|event| JournalLine { at, event }).collect()
}

fn policy(name: &str, session: &Session) -> Result<Box<dyn Policy>, ExecError> {
    let policy = policies::named(name).ok_or_else(|| ExecError::Usage(policies::unknown(name).to_string()))?;
    if policy.preemptive() {
        let way_out = "use one that does not, or `flow simulate`";
        return Err(ExecError::Usage(format!("{}; {way_out}", policies::only_simulated(name))));
    }
    let wide = |instance: &&Instance| policy.one_gpu_only() && instance.request.gpus > 1;
    match session.expansion.instances.iter().find(wide) {
        Some(wide) => Err(ExecError::Usage(format!(
            "policy `{name}` runs one GPU a step, and {} asks for {}; use `{}`",
            wide.label,
            wide.request.gpus,
            name.trim_end_matches("-single")
        ))),
        None => Ok(policy),
    }
}
