//! `flow run`, from the file to the published report. Steps in order; the loop between start and end is `live`'s.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    path::PathBuf,
    process,
    sync::{Arc, Mutex},
};

use flow_core::{
    Builtins, Digest, Instance, InstanceId, JOURNAL_FORMAT, JournalLine, Outcome, Planned, Replace, Revision, RunEvent,
    RunId, RunStart, Settled, StepResult, Uses, learn,
    plan::{Force, Plan, State, unfit},
    sched::{
        Capacity, Event, Limits, Scheduler, Task,
        policy::{self as policies, Policy},
    },
};
use flow_store::{FinishedRun, Holder, Inputs, Snapshot, Status, Store, StoreDir};

use super::{
    PublishedFile, Session, SessionRequest, Update,
    cancel::Cancel,
    capture::{Capture, Taken},
    context::{Known, RunContext},
    executor::{Executor, Local},
    forecast,
    identity::{holder, new_run_id},
    live::{EventLoop, GRACE, LoopStart},
    publish::{PublishRequest, Published, WithheldFile, publish},
    revision,
    session::plugin_of,
    start,
};
use crate::{
    ExecError, clock,
    keeper::{kill_strays, record},
    plugins,
};

/// What to run, and how.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The workflow and what decides its expansion.
    pub session: SessionRequest,
    /// Steps or labels; everything without.
    pub targets: Vec<String>,
    /// `--force`.
    pub force: ForceRequest,
    /// `-k`.
    pub keep_going: bool,
    /// `-j`.
    pub jobs: Option<u32>,
    /// `--policy`, before what the workflow says.
    pub policy: Option<String>,
    /// `--publish`, `--no-publish`.
    pub publish: PublishRequest,
    /// Wait while somebody else holds the store.
    pub wait: bool,
    /// `-m`.
    pub note: Option<String>,
    /// The command line, for whoever is told that the store is held.
    pub doing: String,
}

/// `--force`, as asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ForceRequest {
    /// Nothing.
    #[default]
    Nothing,
    /// Everything.
    All,
    /// Steps or labels.
    Only(Vec<String>),
}

impl ForceRequest {
    /// As decisions take it.
    ///
    /// # Errors
    /// An unknown name.
    pub fn of(&self, session: &Session) -> Result<Force, ExecError> {
        match self {
            ForceRequest::Nothing => Ok(Force::Nothing),
            ForceRequest::All => Ok(Force::All),
            ForceRequest::Only(names) => Force::named(&session.expansion, names).map_err(|d| session.wrong(d)),
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// The run; of one with nothing to do, the run that it repeats.
    pub run: RunId,
    /// 0 done, 1 a step failed or something could not be published, 130 interrupted.
    pub exit: i32,
    /// Settled instances by how.
    pub counts: BTreeMap<String, u32>,
    /// What is published, whether it changed or not.
    pub published: Vec<PublishedFile>,
    /// What was written elsewhere, for what is published stays.
    pub withheld: Vec<WithheldFile>,
    /// Instances of flow's own steps that have a result: tables and reports.
    pub made: Vec<String>,
    /// Nothing had changed since that run: no process was started, nothing was opened.
    pub unchanged: bool,
}

/// Runs a workflow.
///
/// # Errors
/// It is invalid, the store cannot be had, a plugin cannot be set up. A step that fails is not an error.
pub fn run(
    options: &RunOptions,
    builtins: Arc<dyn Builtins>,
    observe: &mut dyn FnMut(Update),
) -> Result<RunEnd, ExecError> {
    run_on(options, builtins, observe, |context, capacity| {
        Local::new(capacity, context.exe.clone(), record::of_run(context.run_dir.path()))
    })
}

/// Runs a workflow, its attempts on what `executor` makes.
pub(super) fn run_on<X: Executor>(
    options: &RunOptions,
    builtins: Arc<dyn Builtins>,
    observe: &mut dyn FnMut(Update),
    executor: impl FnOnce(&RunContext, Capacity) -> X,
) -> Result<RunEnd, ExecError> {
    let session = Session::open(&options.session, &*builtins)?;
    let wanted = session.wanted(&options.targets)?;
    let force = options.force.of(&session)?;
    let policy_name = options.policy.as_deref().or(session.expansion.policy.as_deref()).unwrap_or(policies::DEFAULT);
    let policy = policy(policy_name, &session)?;
    let key = key(&session, options.publish);

    // Nothing changed since the last run: its snapshot answers by looking at files, without the database.
    let whole = options.targets.is_empty() && force == Force::Nothing;
    let existing = session.workspace.existing_store()?;
    let previous = existing.and_then(|dir| Snapshot::load(&dir, &session.snapshot_name()));
    if let Some(snapshot) = previous.as_ref().filter(|_| whole)
        && snapshot.still_holds(&session.workspace.make_store()?, &key)
    {
        return Ok(unchanged(snapshot));
    }
    let revision = revision::ask(&session.workspace.root);

    session.check_inputs(&wanted)?;
    let secrets = session.secret_values()?;
    let mut ahead = None;
    let name = |runs: &[RunId]| {
        let (run, newest) = new_run_id(runs);
        ahead = newest.cloned();
        run
    };
    let dir = session.workspace.make_store()?;
    let (store, run) = Store::open_for_run(dir.path(), &holder(&options.doing), name, |who: &Holder| {
        if options.wait {
            observe(Update::Held(who.to_string()));
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    let cancel = Cancel::watch(store.dir().run(&run))?;
    let strays = kill_strays(store.dir().path()).map(|text| secrets.hide(text));
    let capture = Capture { session: &session, store: &store, run: &run, wanted: &wanted, force: &force };
    let Taken { inputs, captures, plan, found, notices } =
        capture.take(previous.as_ref(), |plan| set_up(&session, plan, store.dir(), observe))?;

    let journal = store.begin(&run)?;
    let started_at = clock::unix_millis();
    let revision = revision.answer();
    let mut beginning = beginning(&session, options, &run, policy_name, revision.clone(), &plan, started_at);
    let ahead = ahead
        .map(|newest| format!("the clock is behind run {newest} of this store; the id of this run follows that one's"));
    let rebuilt = store.rebuilt().map(ToString::to_string);
    let notices = ahead.into_iter().chain(rebuilt).chain(strays).chain(notices);
    let notices = notices.map(|text| RunEvent::Notice { instance: None, text });
    beginning.extend(notices.map(|event| JournalLine { at: started_at, event }));
    beginning.iter_mut().for_each(|line| secrets.hide_in(&mut line.event));
    journal.append(&beginning)?;
    beginning.into_iter().for_each(|line| observe(Update::Event(line)));

    let context = Arc::new(RunContext {
        builtins,
        objects: store.objects().clone(),
        run_dir: store.dir().run(&run),
        run,
        force,
        inputs,
        captures,
        found: Mutex::new(found),
        known: Known::of_nothing(session.expansion.instances.len()),
        tellers: session.tellers(),
        secrets,
        environment: start::Environment::of(&session),
        revision,
        exe: start::exe()?,
        store,
        session,
    });
    let RunContext { session, store, run, inputs, known, .. } = &*context;
    let expansion = &session.expansion;
    let history = forecast::history(expansion, &expansion.instances, &wanted, Some(store))?;
    let limits = Limits { keep_going: options.keep_going, grace: GRACE, ..learn::limits(&history) };
    let capacity = learn::capacity(&expansion.machine, options.jobs);
    let scheduler = Scheduler::new(capacity.clone(), policy, limits);
    let tasks = learn::tasks(&wanted, &history);
    let executor = executor(&context, capacity);
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
    let beginning =
        LoopStart { context: Arc::clone(&context), journal, history, scheduler, executor, status, cancel, observe };
    let replace = options.publish.replace(session, wanted.len() == expansion.instances.len());
    let driven = drive(&context, &wanted, beginning, tasks, &replace);
    context.captures.clear();
    let Driven { published, withheld, exit, counts } = driven?;

    let own = wanted.iter().map(|id| &session.expansion.instances[id.index()]).filter(|instance| {
        let builtin = matches!(session.expansion.steps[instance.step.index()].uses, Uses::Builtin(_));
        builtin && known.result(instance.id).is_some_and(|result| result.outcome == Outcome::Ok)
    });
    let made = own.map(|instance| instance.label.to_string()).collect();
    let end = RunEnd { run: run.clone(), exit, counts, published, withheld, made, unchanged: false };
    if exit == 0 && options.targets.is_empty() {
        save_snapshot(session, store, inputs, known, key, &end)?;
    }
    Ok(end)
}

struct Driven {
    published: Vec<PublishedFile>,
    withheld: Vec<WithheldFile>,
    exit: i32,
    counts: BTreeMap<String, u32>,
}

/// The loop, from the first task to what is published, and how it ended.
fn drive<X: Executor>(
    context: &RunContext,
    wanted: &[InstanceId],
    beginning: LoopStart<'_, X>,
    tasks: Vec<Task>,
    replace: &Replace,
) -> Result<Driven, ExecError> {
    let session = &context.session;
    let mut live = EventLoop::new(beginning);
    // Settled before anything runs: tables and reports show them, and the scheduler knows it from the tasks.
    for id in wanted {
        if let Some((outcome, cause)) = session.expansion.instances[id.index()].settled() {
            live.settle_before(*id, outcome, cause);
        }
    }
    event_loop()?.block_on(live.run(Event::Submitted(tasks)))?;

    let aside = context.run_dir.path().join("not-published");
    let done = publish(session, &*context.builtins, &context.known, &context.objects, replace, &aside);
    let Published { files: published, withheld, errors } = done;
    let failed = live.has_failed() || !errors.is_empty();
    let exit = if live.was_interrupted() { 130 } else { i32::from(failed) };
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
    let (not_published, counts) = (failures.collect(), live.counts().clone());
    last.push(RunEvent::RunEnded { exit, counts: counts.clone(), run: None, not_published });
    live.say_last(last)?;
    live.show_status(Some(exit));
    live.clear();
    Ok(Driven { published, withheld, exit, counts })
}

/// Jobs wait for disks as often as for a core, so there may be more of them than cores; not so many that they only get in each
/// other's way.
const JOBS: usize = 16;

fn event_loop() -> Result<tokio::runtime::Runtime, ExecError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(JOBS)
        .build()
        .map_err(ExecError::io("start", "the event loop"))
}

/// Sets up, once for each digest, the plugins of which a step may run. Says whether anything had to be.
fn set_up(session: &Session, plan: &Plan, dir: &StoreDir, observe: &mut dyn FnMut(Update)) -> Result<bool, ExecError> {
    let mut done = false;
    for plugin in &session.plugins {
        let needed = plan.items.iter().any(|item| {
            matches!(item.state, State::Run(_) | State::After(_)) && plugin_of(session, item.id) == Some(plugin.name())
        });
        let digest = session.catalogue.plugins.get(plugin.name()).map(|facts| facts.digest);
        let (true, Some(digest)) = (needed, digest) else { continue };
        let (record, keeper) = (dir.plugin(plugin.name()), start::exe()?);
        let secrets = &session.secrets();
        let setup = plugins::Setup { plugin, digest, record: &record, keeper: &keeper, secrets };
        if !setup.needed() {
            continue;
        }
        let mut said = |progress: plugins::Progress<'_>| {
            let line = match progress {
                plugins::Progress::Waiting => "another flow sets it up; waiting".to_owned(),
                plugins::Progress::Command(command) => format!("$ {command}"),
                plugins::Progress::Line(line) => line.to_owned(),
            };
            observe(Update::Setup { plugin: plugin.name().to_owned(), line });
        };
        event_loop()?.block_on(setup.ensure(&mut said))?;
        done = true;
    }
    Ok(done)
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
        policy: policy.to_owned(),
        revision,
        machine: expansion.machine.clone(),
        instances: plan.items.len() as u32,
        pid: process::id(),
    }));
    let instances = plan.items.iter().map(|item| {
        let instance = &expansion.instances[item.id.index()];
        RunEvent::Instance {
            instance: item.id,
            label: instance.label.to_string(),
            step: expansion.steps[instance.step.index()].name.clone(),
            plan: Planned::from(&item.state),
        }
    });
    let remarks = expansion.remarks.iter().map(|remark| RunEvent::Remarked { remark: remark.clone() });
    let troubles = expansion.machine.gpu_troubles.iter();
    let troubles = troubles.map(|text| RunEvent::Notice { instance: None, text: text.clone() });
    let events = std::iter::once(start).chain(instances).chain(remarks).chain(troubles);
    events.map(|event| JournalLine { at, event }).collect()
}

fn policy(name: &str, session: &Session) -> Result<Box<dyn Policy>, ExecError> {
    let policy = policies::named(name).ok_or_else(|| ExecError::Usage(policies::unknown(name)))?;
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

/// Everything besides files that decides what a run does: with the same key and the same files there is nothing to do.
fn key(session: &Session, publish: PublishRequest) -> Digest {
    let plugins: BTreeMap<_, _> = session
        .plugins
        .iter()
        .filter_map(|p| Some((p.name(), session.catalogue.plugins.get(p.name())?.digest)))
        .collect();
    let builtins: BTreeMap<_, _> = session.catalogue.builtins.iter().map(|(name, b)| (name, &b.version)).collect();
    let source = session.workflow.source();
    let all = serde_json::json!([
        env!("CARGO_PKG_VERSION"),
        source.text,
        session.expansion.params,
        session.expansion.profile,
        session.expansion.machine,
        plugins,
        builtins,
        format!("{publish:?}"),
    ]);
    Digest::of(all.to_string().as_bytes())
}

fn save_snapshot(
    session: &Session,
    store: &Store,
    inputs: &Inputs,
    known: &Known,
    key: Digest,
    end: &RunEnd,
) -> Result<(), ExecError> {
    let instances = session.expansion.instances.iter();
    let results: Vec<_> = instances.filter_map(|i| known.result(i.id).map(|result| (i, result))).collect();
    // What may not be reused runs again.
    let attempted = |result: &StepResult| !matches!(result.outcome, Outcome::Skipped | Outcome::DoesNotFit);
    if results.iter().any(|(instance, result)| attempted(result) && unfit(result, instance).is_some()) {
        return Ok(());
    }
    let results = results.into_iter().map(|(_, result)| result);
    let objects: Vec<_> = results.flat_map(|result| result.outputs.values().cloned()).collect();
    let published: Vec<PathBuf> = end.published.iter().map(|file| file.path.clone()).collect();
    let total: u32 = end.counts.values().sum();
    let withheld = &end.withheld;
    let summary =
        serde_json::json!({ "counts": end.counts, "total": total, "published": published, "withheld": withheld });
    // Where the published file is gone, the next run publishes.
    let there = withheld.iter().flat_map(|file| [&file.path, &file.written]).filter(|path| path.exists());
    let looked_at: Vec<PathBuf> = published.iter().chain(there).cloned().collect();
    let summary = summary.to_string();
    let rested = FinishedRun { key, run: &end.run, objects: &objects, published: &looked_at, summary };
    Snapshot::of(rested, inputs, clock::system()).save(store.dir(), &session.snapshot_name())?;
    Ok(())
}

/// The end of a run that had nothing to do, from the snapshot's summary.
fn unchanged(snapshot: &Snapshot) -> RunEnd {
    let summary: serde_json::Value = serde_json::from_str(snapshot.summary()).unwrap_or_default();
    let total = summary["total"].as_u64().unwrap_or(0) as u32;
    let published = summary["published"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|path| Some(PublishedFile { path: PathBuf::from(path.as_str()?), changed: false }));
    RunEnd {
        run: snapshot.run().clone(),
        exit: 0,
        counts: BTreeMap::from([("cached".to_owned(), total)]),
        published: published.collect(),
        withheld: serde_json::from_value(summary["withheld"].clone()).unwrap_or_default(),
        made: Vec::new(),
        unchanged: true,
    }
}

impl Session {
    /// The name of this workflow's snapshot: one for each file.
    pub(crate) fn snapshot_name(&self) -> String {
        Digest::of(self.workspace.file.as_os_str().as_encoded_bytes()).short()
    }
}
