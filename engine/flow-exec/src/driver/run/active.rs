//! The third phase of a run: the first lines of its journal, and the data that stays fixed until its end.

use std::{
    cell::LazyCell,
    collections::{BTreeMap, BTreeSet},
    fs, process,
    sync::Arc,
};

use flow_core::{
    Builtins, Digest, InstanceId, JOURNAL_FORMAT, JournalLine, PlannedAction, Revision, RunEvent, RunId, RunStart,
    plan::{Decision, Plan},
    sched::policy::Policy,
};
use flow_runs::{Journal, Status, WorkFolders};
use flow_supervisor::{attempt::make_private, clock};
use serde_json::Map;

use super::{highest_priority, open::OpenedRun, prepare::PreparedRun};
use crate::{
    ExecError,
    driver::{
        begin::{
            capture::CapturedPlan,
            context::{RunContext, RunResults},
            environments::Environments,
            run_claims::RunClaims,
            start,
        },
        cancel::Cancel,
        decide::decisions,
        plan::forecast::EarlierObservations,
        recover::follow,
        request::RunOptions,
        results::keep::KeptFolders,
        session::Session,
        updates::Update,
    },
};

/// A run whose journal has begun.
pub(super) struct ActiveRun {
    pub(super) context: Arc<RunContext>,
    pub(super) journal: Journal,
    pub(super) cancel: Cancel,
    pub(super) policy: Box<dyn Policy>,
    pub(super) observed: EarlierObservations,
    /// Decisions that are known before the loop starts.
    pub(super) reused: BTreeMap<InstanceId, Decision>,
    /// The key of the snapshot that it will leave.
    pub(super) key: Digest,
    started_at: u64,
}

impl ActiveRun {
    /// # Errors
    /// The journal cannot be written, for example because the disk is full.
    pub(super) fn new(
        opened: OpenedRun,
        prepared: PreparedRun,
        options: &RunOptions,
        builtins: Arc<dyn Builtins>,
        observe: &mut dyn FnMut(Update),
    ) -> Result<ActiveRun, ExecError> {
        let OpenedRun { session, wanted, force, policy, policy_name, secrets, store, run, ahead, .. } = opened;
        let PreparedRun { orphans, strays, previous: stood, taken, observed, work, mut journal, environments: in_use } =
            prepared;
        let CapturedPlan { inputs, captures, plan, reused, notices } = taken;
        let claimed = RunClaims::nothing(store.dir(), &run)?;
        let started_at = clock::unix_millis();
        let revision = opened.revision.answer();
        let mut first = first_lines(&session, options, &run, &policy_name, revision.clone(), &plan, started_at);
        let ahead = ahead
            .map(|newest| format!("the clock is behind run {newest} of this store; this run's id follows that one"));
        let rebuilt = store.rebuilt().map(ToString::to_string);
        let silent = session.cluster_unavailable.as_ref().map(ToString::to_string);
        let moved = session.moved_here().filter(|_| plan.has_work()).map(str::to_owned);
        let notices = ahead
            .into_iter()
            .chain(moved)
            .chain(rebuilt)
            .chain(strays)
            .chain(silent)
            .chain(notices)
            .chain(work.warning);
        let notices = notices.map(|text| RunEvent::Notice { instance: None, text });
        first.extend(notices.map(|event| JournalLine { at: started_at, event }));
        first.iter_mut().for_each(|line| secrets.hide_in(&mut line.event));
        journal.append(&first)?;
        first.into_iter().for_each(|line| observe(Update::Event(line)));

        let run_dir = store.dir().run(&run);
        let begin = |folders: WorkFolders| {
            folders.begin(&run_dir).map_err(|e| ExecError::io("create a folder for the run in", folders.path())(e))
        };
        let work = work.folders.map(begin).transpose()?;
        let attempts = run_dir.attempts();
        let real = make_private(&attempts).and_then(|()| fs::canonicalize(&attempts));
        let attempts = real.map_err(ExecError::io("create", &attempts))?;
        let environment = start::Environment::of(&session);
        let context = Arc::new(RunContext {
            builtins,
            objects: store.objects().doing(opened.activity.clone()),
            run_dir,
            attempts,
            work,
            run,
            wanted,
            force,
            inputs,
            captures,
            kept_folders: KeptFolders::default(),
            known: RunResults::of_nothing(session.expansion.instances.len()),
            claimed,
            previous: stood,
            confidential: session.confidential(),
            secrets,
            environments: Environments::new(store.dir().path(), environment.inherited()),
            _in_use: in_use,
            environment,
            revision,
            exe: start::exe()?,
            orphans,
            detached: options.detached,
            leaves_jobs: options.detached && session.expansion.has_batch(),
            highest_priority: highest_priority(&session.expansion.instances),
            activity: opened.activity,
            recorded: opened.recorded,
            store,
            session,
        });
        end_useless(&context, &reused, &mut journal, observe)?;
        Ok(ActiveRun { context, journal, cancel: opened.cancel, policy, observed, reused, key: opened.key, started_at })
    }

    pub(super) fn status(&self) -> Status {
        let RunContext { session, run, wanted, .. } = &*self.context;
        Status {
            run: run.clone(),
            workflow: session.expansion.workflow.clone(),
            file: session.workspace.name(&session.workspace.file),
            pid: process::id(),
            started_at: self.started_at,
            updated_at: self.started_at,
            ended: None,
            instances: wanted.len() as u32,
            counts: BTreeMap::new(),
            running: Vec::new(),
            waiting: Vec::new(),
        }
    }
}

/// Ends work of dead runs that no instance of this run needs, and says so.
fn end_useless(
    context: &RunContext,
    reused: &BTreeMap<InstanceId, Decision>,
    journal: &mut Journal,
    observe: &mut dyn FnMut(Update),
) -> Result<(), ExecError> {
    let instances = &context.session.expansion.instances;
    let labels: LazyCell<BTreeSet<String>, _> =
        LazyCell::new(|| instances.iter().map(|instance| context.secrets.hide(instance.label.to_string())).collect());
    let followed = |attempt: &Digest| !matches!(context.claimed.taken(&[*attempt]), Ok(None));
    let mut useless = context.orphans.end_unknown(&context.file(), |label| labels.contains(label), followed);
    useless.extend(decisions::end_reused(context, reused.keys()));
    if let Some(text) = follow::notice(&useless) {
        let line = JournalLine { at: clock::unix_millis(), event: RunEvent::Notice { instance: None, text } };
        journal.append(std::slice::from_ref(&line))?;
        observe(Update::Event(line));
    }
    Ok(())
}

/// The start of the run, its instances, and what is said about them.
fn first_lines(
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
        knows_nodes: session.cluster.is_some() && session.cluster_unavailable.is_none(),
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
            plan: PlannedAction::from(&item.state),
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
