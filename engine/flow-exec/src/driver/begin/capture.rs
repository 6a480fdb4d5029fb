//! The start of a run: its plan, and the inputs of all steps that may run as of that moment. Copies nothing itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use flow_core::{
    Input, InstanceId, RunId,
    plan::{Decision, Force, Plan, plan_of_run},
};
use flow_store::{Activity, Captures, CopyRoom, InputSize, InputToCapture, Inputs, Snapshot, SnapshotResult, Store};

use crate::{
    ExecError,
    driver::{
        plan::lookup::{RecordedParts, StoreLookup, inputs_of, list_environments},
        recover::orphans::OrphanedWork,
        session::Session,
    },
};

/// How often inputs that change while they are captured are hashed again.
const TRIES: u32 = 3;

/// A run that is about to start.
pub(crate) struct Capture<'a> {
    pub(crate) session: &'a Session,
    pub(crate) store: &'a Store,
    pub(crate) recorded: &'a RecordedParts,
    pub(crate) run: &'a RunId,
    pub(crate) wanted: &'a [InstanceId],
    pub(crate) force: &'a Force,
    /// The result of each instance in the previous run, if it can be relied on.
    pub(crate) previous: &'a [Option<SnapshotResult>],
    /// The work of dead runs.
    pub(crate) orphans: &'a OrphanedWork,
    pub(crate) activity: &'a Activity,
}

/// The plan and inputs that a run starts with.
pub(crate) struct CapturedPlan {
    pub(crate) inputs: Inputs,
    pub(crate) captures: Captures,
    pub(crate) plan: Plan,
    /// Reuse decisions that need no second lookup.
    pub(crate) reused: BTreeMap<InstanceId, Decision>,
    /// Notices for the user.
    pub(crate) notices: Vec<String>,
}

impl Capture<'_> {
    /// Plans, sets up what the plan needs (`set_up` returns whether anything was set up), and captures inputs. If an
    /// input changes before it is captured, the new content counts and everything is planned again. An input that keeps
    /// changing is read in place.
    ///
    /// With a `previous` run, missing inputs are found only here, because most are looked at here anyway.
    ///
    /// # Errors
    /// The store cannot be read, an input or a secret is missing, a plugin cannot be set up.
    pub(crate) fn take(
        &self,
        previous: Option<&Snapshot>,
        mut set_up: impl FnMut(&Plan) -> Result<bool, ExecError>,
    ) -> Result<CapturedPlan, ExecError> {
        let Capture { session, store, .. } = *self;
        let inputs = inputs_of(session, Some(store.objects().clone()), previous).doing(self.activity.clone());
        list_environments(session, self.wanted, &inputs);
        let captures = Captures::new(store.dir().run(self.run).inputs());
        let mut tries = 0;
        loop {
            let (plan, mut reused) = self.plan(&inputs)?;
            if previous.is_some() {
                session.check_inputs_unless(self.wanted, |path, by_listing| inputs.is_read(path, by_listing))?;
            }
            session.check_secrets(&plan)?;
            session.check_live_sources(&plan)?;
            if set_up(&plan)? {
                reused.clear();
            }
            let read = of_plan(session, &plan);
            let refused = match captures.capture(&inputs, read.iter().cloned()) {
                Ok(changed) if !changed.is_empty() && tries < TRIES => {
                    inputs.forget(&changed);
                    tries += 1;
                    continue;
                }
                captured => captured.err().map(|error| format!("{error}; flow reads the inputs in place")),
            };
            let notices = ignored(session, &inputs, &read).into_iter().chain(refused).collect();
            return Ok(CapturedPlan { inputs, captures, plan, reused, notices });
        }
    }

    /// The plan for the inputs in their present state.
    fn plan(&self, inputs: &Inputs) -> Result<(Plan, BTreeMap<InstanceId, Decision>), ExecError> {
        let Capture { session, store, .. } = *self;
        let (workflow, folder) = (&*session.expansion.workflow, &session.workspace.folder);
        let mut world = StoreLookup {
            results: Some(store),
            recorded: Some(self.recorded),
            objects: Some(store.objects().doing(self.activity.clone())),
            keep: true,
            previous: self.previous,
            environments: Some(&session.expansion.environments),
            followed: &|fingerprint| self.orphans.followed(fingerprint),
            ..StoreLookup::of_inputs(workflow, folder, inputs)
        };
        let mut reused = BTreeMap::new();
        let plan = plan_of_run(&session.context(), self.wanted, &mut world, self.force, &mut reused);
        world.error.map_or(Ok((plan, reused)), |error| Err(error.into()))
    }
}

/// An input that a run does not copy because it is too large, so that steps see the author's own files.
pub struct LinkedInput {
    /// As written.
    pub path: String,
    pub size: InputSize,
    /// `copy: true` can be added to it.
    pub may_be_copied: bool,
}

impl Session {
    /// The inputs of these instances that a run would not copy. Those by listing never are, so they are left out.
    pub fn linked_inputs(&self, wanted: impl IntoIterator<Item = InstanceId>) -> Vec<LinkedInput> {
        let mut all: BTreeMap<InputToCapture, &Input> = BTreeMap::new();
        for input in wanted.into_iter().flat_map(|id| self.expansion.instances[id.index()].inputs.iter()) {
            let first = all.entry(one(self, input)).or_insert(input);
            // Only one of two steps may have a private copy.
            if first.copy {
                *first = input;
            }
        }
        let inputs = inputs_of(self, None, None);
        let mut room = CopyRoom::default();
        let linked = all.iter().filter(|(wanted, _)| !wanted.by_listing).filter_map(|(wanted, input)| {
            let size = inputs.size(&wanted.path).ok()?;
            let fits = !size.has_more && room.take(size.bytes, size.files);
            let may_be_copied = self.may_be_copied(input);
            // A file gets a copy in each work folder, however large it is.
            let is_seen = input.in_place || may_be_copied;
            (!fits && is_seen).then(|| LinkedInput { path: input.path.clone(), size, may_be_copied })
        });
        linked.collect()
    }

    /// True if `copy: true` can be added to the input.
    pub(crate) fn may_be_copied(&self, input: &Input) -> bool {
        !input.in_place && !input.by_listing && !input.copy && self.path(&input.path).is_dir()
    }
}

/// The inputs of all steps that may run.
fn of_plan(session: &Session, plan: &Plan) -> BTreeSet<InputToCapture> {
    let runs = plan.items.iter().filter(|item| item.state.may_run());
    let inputs = runs.flat_map(|item| session.expansion.instances[item.id.index()].inputs.iter());
    inputs.map(|input| one(session, input)).collect()
}

pub(crate) fn one(session: &Session, input: &Input) -> InputToCapture {
    let place = match input.place() {
        // The folder of the workflow, or one above it.
        empty if empty.is_empty() => "folder".to_owned(),
        place => place,
    };
    InputToCapture { path: session.path(&input.path), place, by_listing: input.by_listing }
}

/// A notice about ignored files in the folders of the inputs, if there are any.
fn ignored(session: &Session, inputs: &Inputs, wanted: &BTreeSet<InputToCapture>) -> Option<String> {
    const NAMED: usize = 4;
    let found: BTreeSet<_> =
        wanted.iter().flat_map(|wanted| inputs.ignored_in(&wanted.path, wanted.by_listing)).collect();
    let near = |path: &Path| path.strip_prefix(&session.workspace.folder).unwrap_or(path).display().to_string();
    let mut names: Vec<String> = found.iter().take(NAMED).map(|path| near(path)).collect();
    match found.len().saturating_sub(NAMED) {
        0 if names.is_empty() => return None,
        0 => {}
        1 => names.push("1 other".to_owned()),
        more => names.push(format!("{more} others")),
    }
    let last = names.pop().unwrap_or_default();
    let all = if names.is_empty() { last } else { format!("{} and {last}", names.join(", ")) };
    Some(format!("not inputs: {all}; these are files of editors and caches, or listed in `.flowignore`"))
}
