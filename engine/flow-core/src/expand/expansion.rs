//! A workflow on a machine, as used by everything after expansion.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    Group, Publish, Remark, StepFacts, UnmappedOutput, UnreadDependency, build::Agreements, prepare::StepPlan,
};
use crate::{
    DeclaredEnvironment, Foreign, Input, Instance, InstanceId, Machine, Need, Slurm, StepId, Workflow,
    expr::Scope,
    paths::{normal, within},
    reason::{Lack, ProfileReason},
    spec::files::relation,
};

/// A workflow on a machine: instances, edges, and facts about the steps for all later stages.
#[derive(Debug)]
pub struct Expansion {
    pub workflow: String,
    /// Its title by language; the name (or the only title) under `""`.
    pub title: BTreeMap<String, String>,
    /// The active profile, and why.
    pub profile: Option<(String, ProfileReason)>,
    pub params: BTreeMap<String, Value>,
    /// The parameters whose values differ from the file and the profile.
    pub set: BTreeMap<String, Value>,
    /// The machine that it was expanded for.
    pub machine: Machine,
    /// The largest node of Slurm, if steps run there.
    pub node: Option<Machine>,
    pub slurm: Slurm,
    /// Steps in the order of the file, by [`StepId`](crate::StepId).
    pub steps: Vec<StepFacts>,
    /// Instances by id, a topological order. Ties keep the order of the file; instances of a step keep the order of its
    /// matrix.
    pub instances: Vec<Instance>,
    /// Co-run groups, by [`GroupId`](crate::GroupId).
    pub groups: Vec<Group>,
    /// Declared environments by name. The engine sets the places of those that flow makes.
    pub environments: BTreeMap<String, DeclaredEnvironment>,
    /// Reports to publish after the run.
    pub publish: Vec<Publish>,
    /// The scheduling policy named in the file.
    pub policy: Option<String>,
    /// The base of work folders named in the file.
    pub work: Option<String>,
    /// Instances that can never run here and do not record that.
    pub(super) unrunnable: BTreeMap<InstanceId, Lack>,
    /// Warnings for the user.
    pub remarks: Vec<Remark>,
    /// Results of this workflow on other machines; set by the caller.
    pub imported: Vec<Foreign>,
    /// Data for evaluating bodies.
    pub(super) late: LateContext,
}

/// Data for evaluating bodies; private to the expansion.
#[derive(Debug)]
pub(crate) struct LateContext {
    pub(super) plans: Vec<StepPlan>,
    pub(super) agreements: Agreements,
    pub(super) base: Scope,
    pub(super) folder: String,
    pub(super) workflow: Workflow,
}

impl Expansion {
    /// The machine on which an instance runs, or an equal one.
    pub fn machine_of(&self, instance: &Instance) -> &Machine {
        self.node.as_ref().filter(|_| instance.is_batch()).unwrap_or(&self.machine)
    }

    /// The first step that does the same work as this one; itself if there is no other.
    pub fn work_of(&self, step: StepId) -> StepId {
        self.steps[step.index()].work_of.unwrap_or(step)
    }

    /// Pairs of steps: an instance was `kept` although one `ran` that it only comes after.
    pub fn unfollowed(
        &self,
        kept: impl Fn(InstanceId) -> bool,
        ran: impl Fn(InstanceId) -> bool,
    ) -> Vec<UnreadDependency> {
        let steps = self.steps.iter().zip(&self.late.plans);
        let pairs = steps.enumerate().flat_map(|(at, (step, plan))| plan.after.iter().map(move |on| (at, step, *on)));
        let unfollowed = pairs.filter(|(at, step, on)| {
            let of = |need: &&Need| self.instances[need.on.index()].step.index() == *on;
            let mut kept = step.ids().filter(|id| kept(*id));
            // Steps that do the same work notice every change of that work themselves.
            self.work_of(StepId(*at as u32)) != self.work_of(StepId(*on as u32))
                && kept.any(|id| self.instances[id.index()].needs.iter().filter(of).any(|need| ran(need.on)))
                && !self.reads(*at, *on)
        });
        let told = unfollowed.map(|(_, step, on)| {
            let ran = &self.steps[on];
            let first = ran.ids().next().map(|id| &*self.instances[id.index()].outputs);
            let output = first.and_then(|outputs| match outputs {
                [] => None,
                [_] => Some("out".to_owned()),
                [first, ..] => Some(format!("outputs.{}", first.name)),
            });
            UnreadDependency { step: step.name.clone(), ran: ran.name.clone(), output }
        });
        told.collect()
    }

    /// Outputs that a command names by their paths although the step only comes after the other one and gets no files.
    /// Only the first instance of a step is read.
    pub fn unmapped(&self) -> Vec<UnmappedOutput> {
        let mut found = Vec::new();
        for (step, plan) in self.steps.iter().zip(&self.late.plans) {
            let Some(first) = step.ids().next().map(|id| &self.instances[id.index()]) else { continue };
            let Some((command, _)) = self.command(first.id).filter(|_| !plan.after.is_empty()) else { continue };
            let words = command.split(|c: char| c.is_whitespace() || "'\"=;|&()<>".contains(c));
            let words: BTreeSet<String> = words.map(normal).collect();
            let mut places: Vec<String> = first.inputs.iter().map(Input::place).collect();
            places.extend(plan.placed.iter().map(|(place, _)| place.clone()));
            let own = first.outputs.iter().map(|output| normal(&output.path));
            places.extend(own);
            let is_there = |word: &str| places.iter().any(|place| relation(word, place).is_some());
            for needed in plan.after.iter().map(|on| &self.steps[*on]) {
                let Some(id) = needed.ids().next() else { continue };
                let outputs = &self.instances[id.index()].outputs;
                let is_named =
                    |path: &str| words.iter().any(|word| (word == path || within(word, path)) && !is_there(word));
                for output in outputs.iter().filter(|output| is_named(&normal(&output.path))) {
                    found.push(UnmappedOutput {
                        step: step.name.clone(),
                        of: needed.name.clone(),
                        path: normal(&output.path),
                        output: if outputs.len() == 1 { "out".to_owned() } else { format!("outputs.{}", output.name) },
                    });
                }
            }
        }
        found
    }

    /// Whether a step reads another one, directly or through others.
    fn reads(&self, step: usize, on: usize) -> bool {
        let (mut seen, mut next) = (BTreeSet::from([step]), vec![step]);
        while let Some(at) = next.pop() {
            let plan = &self.late.plans[at];
            for read in plan.reads.iter().map(|read| read.step).chain(plan.sees.iter().copied()) {
                if read == on {
                    return true;
                }
                if seen.insert(read) {
                    next.push(read);
                }
            }
        }
        false
    }

    /// The declared environment of an instance.
    pub fn environment_of(&self, instance: &Instance) -> Option<&DeclaredEnvironment> {
        self.environments.get(&**instance.environment.as_ref()?)
    }

    /// Whether a batch system runs some instances.
    pub fn has_batch(&self) -> bool {
        self.instances.iter().any(|instance| instance.is_batch())
    }
}
