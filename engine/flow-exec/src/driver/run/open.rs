//! The first phase of a run: opens the workflow and the store. Nothing is planned yet.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

use flow_core::{
    Builtins, Digest, Instance, InstanceId, Place, RunId,
    plan::Force,
    sched::policy::{self as policies, Policy},
};
use flow_runs::Holder;
use flow_store::{Activity, Snapshot, Store};
use flow_supervisor::{keeper, secrets::Secrets};

use crate::{
    ExecError,
    driver::{
        begin::revision,
        cancel::Cancel,
        plan::{continued::continued, lookup::RecordedParts},
        reports::publish::targets,
        request::{RunEnd, RunOptions},
        session::{
            Basis, Session,
            identity::{holder, new_run_id},
        },
        unchanged::{Summary, is_last},
        updates::Update,
    },
};

/// What the key of a snapshot covers besides the workflow and its plugins.
pub(super) fn options_key(options: &RunOptions) -> String {
    format!("{:?} {:?}", options.publish, options.policy)
}

/// The end of a run for which nothing changed since the last one. Its snapshot shows that by looking at files, without
/// workflow and database.
pub(super) fn nothing_to_do(
    options: &RunOptions,
    basis: &Basis,
    builtins: &dyn Builtins,
    previous: Option<&Snapshot>,
) -> Result<Option<RunEnd>, ExecError> {
    let Some(snapshot) = previous.filter(|_| options.targets.is_empty() && options.force.is_nothing()) else {
        return Ok(None);
    };
    let summary = Summary::of(snapshot);
    let (Some(plugins), Some(included)) = (basis.plugins(&summary.plugins), basis.included(&summary.included)) else {
        return Ok(None);
    };
    let dir = basis.workspace.make_store()?;
    let key = basis.key(&plugins, &included, &summary.variables, builtins, &options_key(options));
    let holds = snapshot.still_holds(&dir, &key)
        && is_last(&dir, snapshot.run(), &basis.workspace)
        && !keeper::may_have_strays(&basis.workspace.store);
    Ok(holds.then(|| summary.unchanged(snapshot.run().clone(), &dir)))
}

/// An opened workflow and the store that this run holds.
pub(super) struct OpenedRun {
    pub(super) session: Session,
    /// The snapshot of the last run.
    pub(super) previous: Option<Arc<Snapshot>>,
    /// The key of the snapshot that this run will leave.
    pub(super) key: Digest,
    pub(super) wanted: Vec<InstanceId>,
    pub(super) force: Force,
    pub(super) policy: Box<dyn Policy>,
    pub(super) policy_name: String,
    /// The Git commit, asked in the background.
    pub(super) revision: revision::RevisionQuery,
    pub(super) secrets: Secrets,
    pub(super) store: Store,
    pub(super) run: RunId,
    /// A run with a later id, because the clock was ahead.
    pub(super) ahead: Option<RunId>,
    pub(super) cancel: Cancel,
    pub(super) activity: Activity,
    pub(super) recorded: RecordedParts,
}

impl OpenedRun {
    /// `orphan_places`: where attempts of dead runs are. `store` may have opened the store. Waits for a process that has it alone,
    /// if the options say so.
    ///
    /// # Errors
    /// The workflow or an option is invalid, an input or a secret is missing, the store is unavailable.
    pub(super) fn open(
        options: &RunOptions,
        (basis, orphan_places): (&Basis, BTreeMap<String, Place>),
        builtins: &dyn Builtins,
        previous: Option<Arc<Snapshot>>,
        store: impl FnOnce() -> Option<Store>,
        observe: &mut dyn FnMut(Update),
    ) -> Result<OpenedRun, ExecError> {
        let session = continued(basis, orphan_places, builtins, false)?;
        let wanted = session.wanted(&options.targets)?;
        let force = options.force.of(&session)?;
        let policy_name =
            options.policy.as_deref().or(session.expansion.policy.as_deref()).unwrap_or(policies::DEFAULT);
        let policy_name = policy_name.to_owned();
        let policy = policy(&policy_name, &session)?;
        let key = key(options, basis, builtins, &session);
        let revision = revision::query(&session.workspace.root, &targets(&session), || revision::read(&session));
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
        if let (Some(cluster), None) = (&session.cluster, &session.cluster_unavailable) {
            cluster.remember(&dir.nodes());
        }
        let waiting = |who: &Holder| {
            if options.wait {
                observe(Update::Held(who.to_string()));
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        let mut store = match store() {
            Some(store) => store,
            None => Store::open_to_run(dir.path(), &holder(&options.doing), waiting)?,
        };
        let run = store.name_run(name)?;
        if !options.force.is_nothing() {
            // The snapshots depend on results that are about to be replaced.
            store.dir().drop_snapshots()?;
        }
        let cancel = Cancel::watch(store.dir().run(&run), options.detached)?;
        let activity = session.activity.clone();
        let recorded = RecordedParts::lately(store.dir(), &session.expansion.workflow);
        Ok(OpenedRun {
            session,
            previous,
            key,
            wanted,
            force,
            policy,
            policy_name,
            revision,
            secrets,
            store,
            run,
            ahead,
            cancel,
            activity,
            recorded,
        })
    }
}

/// The key of the snapshot that a run of this workflow leaves.
fn key(options: &RunOptions, basis: &Basis, builtins: &dyn Builtins, session: &Session) -> Digest {
    let mut also = options_key(options);
    if !session.orphan_places.is_empty() {
        also += &format!(" {:?}", session.orphan_places);
    }
    let plugins = session.plugins.iter().map(|plugin| plugin.name());
    let digest = |name: &str| Some((name.to_owned(), session.catalogue.plugins.get(name)?.digest));
    let plugins: BTreeMap<_, _> = plugins.filter_map(digest).collect();
    let included: Vec<_> = session.workflow.sources().skip(1).map(|file| Digest::of(file.text.as_bytes())).collect();
    basis.key(&plugins, &included, &session.workflow.shell_variables(), builtins, &also)
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
