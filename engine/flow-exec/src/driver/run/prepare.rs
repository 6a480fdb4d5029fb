//! The second phase of a run: looks at what dead runs left, plans, sets up plugins and environments, captures the
//! inputs. No step has started.

use std::fs::File;

use flow_core::plan::Plan;
use flow_runs::Journal;
use flow_store::SnapshotResult;
use nix::fcntl::Flock;

use super::{event_loop, open::OpenedRun, progress::with_progress};
use crate::{
    ExecError,
    driver::{
        begin::{
            capture::{Capture, CapturedPlan},
            setups::{make_environments, set_up},
            work_place::{self, WorkPlace},
        },
        plan::forecast::{self, EarlierObservations},
        recover::{follow, orphans::OrphanedWork},
        updates::Update,
    },
};

/// The plan of a run, with the inputs as of that moment.
pub(super) struct PreparedRun {
    pub(super) orphans: OrphanedWork,
    /// Processes of dead runs that were ended, in words.
    pub(super) strays: Option<String>,
    pub(super) previous: Vec<Option<SnapshotResult>>,
    pub(super) taken: CapturedPlan,
    pub(super) observed: EarlierObservations,
    pub(super) work: WorkPlace,
    pub(super) journal: Journal,
    /// The environments that flow makes, in use.
    pub(super) environments: Vec<Flock<File>>,
}

impl PreparedRun {
    /// Shows progress when it takes long.
    ///
    /// # Errors
    /// The store cannot be read, an input or a secret is missing, a plugin cannot be set up, or the place for work folders
    /// cannot be used.
    pub(super) fn of(opened: &OpenedRun, observe: &mut dyn FnMut(Update)) -> Result<PreparedRun, ExecError> {
        let OpenedRun { session, store, run, wanted, force, activity, recorded, secrets, key, .. } = opened;
        let previous = opened.previous.as_deref();
        let prepare = |observe: &mut dyn FnMut(Update)| {
            let orphans = OrphanedWork::look(store, run);
            let strays = follow::end_strays(store.dir()).map(|text| secrets.hide(text));
            let stood = previous.map_or(Ok(Vec::new()), |snapshot| snapshot.results(store, key))?;
            let capture =
                Capture { session, store, recorded, run, wanted, force, previous: &stood, orphans: &orphans, activity };
            let made = session.environments_of(wanted);
            let environments = match made.is_empty() {
                true => Vec::new(),
                false => make_environments(&event_loop()?, session, wanted, store.dir(), observe)?,
            };
            let set_up = |plan: &Plan| set_up(&event_loop()?, session, plan, store.dir(), observe);
            let taken = capture.take(previous, set_up)?;
            let may_run = |id| !taken.reused.contains_key(&id);
            let observed = forecast::observed(&session.expansion, wanted, may_run, &taken.plan, store)?;
            let work = work_place::choose(session, store.dir())?;
            let journal = store.begin(run)?;
            Ok::<_, ExecError>(PreparedRun {
                orphans,
                strays,
                previous: stood,
                taken,
                observed,
                work,
                journal,
                environments,
            })
        };
        with_progress(activity, observe, prepare)
    }
}
