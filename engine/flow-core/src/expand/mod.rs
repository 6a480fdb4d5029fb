//! Expansion turns a workflow, the installed plugins and the machine into instances with edges. Knows no results or
//! files.
//!
//! Decisions that could have been different:
//!
//! - `steps.X` is always a list of the instances of X with the same values on all common axes, and the same repetition
//!   if both repeat. A list of one also has the fields of its item (`.out`); otherwise planning refuses `.out`.
//! - Reading a field of `steps.X` makes a single need, and `needs:` makes one per instance. The list, and what a
//!   built-in sees, make list needs. All but the first kind leave out instances that are skipped from the start.
//! - A built-in sees the steps that its `with` names. For a co-run step it also sees the step that it is `like`, and so
//!   on along co-run steps, because these are its solo runs. The same holds for a step that `needs` the step it is
//!   `like`, such as one that is packed after it ran alone. For a named built-in it also sees the steps that this one
//!   names.
//! - A step with `repeat` has a co-run group for each repetition, named `v7#0`.
//! - A co-run group that a report judges has further repetitions, `v7#1`, with their solo runs. They follow the step's
//!   own instances, and only the judging step counts them.
//! - An instance that reads a step without instances is skipped.

mod again;
mod apart;
mod build;
mod builtin;
mod environments;
mod expansion;
mod facts;
mod fit;
mod keys;
mod marks;
mod matrix;
mod params;
mod prepare;
mod resolve;
mod view;
mod with;
mod written;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use minijinja::value::Value;

pub use expansion::Expansion;
pub use facts::{
    Batch, Definition, ExpandRequest, Group, Publish, Remark, StepFacts, UnmappedOutput, UnreadDependency, Uses,
};

use self::{
    build::{BuildContext, Built},
    expansion::LateContext,
    prepare::{PrepareContext, StepPlan},
};
use crate::{
    Diagnostic, Machine, Place, PublishWhat, Slurm, StepId, Workflow,
    expr::{Scope, value::to_json},
    graph::{StepGraph, around},
    paths::normal,
    spec::{
        at::{PlacePart, Problems, YamlPath},
        step::Step,
    },
};

impl Workflow {
    /// Builds the instances.
    ///
    /// # Errors
    /// All mistakes in the file and the request, in the order of the file.
    pub fn expand(&self, request: &ExpandRequest<'_>) -> Result<Expansion, Vec<Diagnostic>> {
        let mut problems = Problems(self.problems.clone());
        let expansion = self.build(request, &mut problems);
        if problems.0.is_empty() { Ok(expansion) } else { Err(self.locate(problems.0)) }
    }

    /// Default place of steps.
    fn on(&self, request: &ExpandRequest<'_>) -> Place {
        request.batch.on.or(self.file.on).unwrap_or_default()
    }

    /// The value of `machine` in expressions.
    fn meant<'a>(&self, request: &ExpandRequest<'a>) -> &'a Machine {
        request.batch.node.filter(|_| self.on(request).is_batch()).unwrap_or(request.machine)
    }

    /// Whether some of its steps should run there, if they run `on` a place unless they name one.
    pub fn wants(&self, place: Place, on: Option<Place>) -> bool {
        let whole = on.or(self.file.on).unwrap_or_default();
        let of = |step: &Step| step.on().unwrap_or(whole) == place && !step.is_builtin();
        self.steps.iter().any(of)
    }

    /// Sets the Slurm partition for jobs if neither the workflow nor a step names one.
    pub fn with_partition(mut self, partition: Option<String>) -> Workflow {
        if self.file.slurm.job.partition.is_none() {
            Arc::make_mut(&mut self.file).slurm.job.partition = partition;
        }
        self
    }

    /// `slurm:` as written.
    pub fn slurm(&self) -> &Slurm {
        &self.file.slurm
    }

    fn build(&self, request: &ExpandRequest<'_>, problems: &mut Problems) -> Expansion {
        let chosen = params::choose(self, request, problems);
        let base = Scope {
            params: Some(Value::from_pairs(chosen.params.iter().map(|(k, v)| (k.as_str(), v.clone())))),
            machine: Some(params::machine(self.meant(request))),
            ..Scope::default()
        };
        let scope = Value::from_object(base.clone());
        let names: BTreeMap<Arc<str>, usize> =
            self.steps.iter().enumerate().map(|(n, s)| (s.name.clone(), n)).collect();
        let seed_is_param = chosen.params.contains_key("seed");
        let mut context =
            PrepareContext { names: &names, seed_is_param, scope: &scope, request, schemas: BTreeMap::new() };
        let mut plans: Vec<StepPlan> =
            self.steps.iter().map(|step| prepare::prepare(step, &mut context, problems)).collect();
        prepare::see(&mut plans, &self.steps, &names);
        prepare::judge(&mut plans, &self.steps, &names, request.catalogue);
        let order = self.order(&plans, &names, problems);

        let mut built = Built::default();
        built.instances.reserve(self.steps.len());
        let environments = environments::declared(&self.file.environments, request.folder, &scope, problems);
        let shared = BuildContext {
            base: &base,
            scope: &scope,
            request,
            gpus: chosen.gpus,
            on: self.on(request),
            slurm: &self.file.slurm,
            environments: &environments,
        };
        // For each step: the parameters that it names, and those of its needs, which come before it.
        let mut named: Vec<BTreeSet<String>> = vec![BTreeSet::new(); self.steps.len()];
        for at in order {
            let needed = plans[at].reads.iter().map(|read| read.step).chain(plans[at].after.iter().copied());
            let theirs: BTreeSet<String> = needed.flat_map(|on| named[on].iter().cloned()).collect();
            named[at] = prepare::params(&self.steps[at], |name| chosen.params.contains_key(name));
            named[at].extend(theirs);
            if plans[at].sound {
                let step = &self.steps[at];
                build::build(at, step, &mut plans, &shared, &mut built, problems);
                again::repeat(at, &mut plans, &mut built);
            }
        }
        let Built { mut instances, agreements, groups, .. } = built;
        let unrunnable = fit::find(&groups.groups, request, &mut instances);
        builtin::check(&self.steps, &plans, &named, request.catalogue, problems);

        let mut remarks: Vec<Remark> = chosen.none_holds.into_iter().collect();
        let mut steps = Vec::with_capacity(plans.len());
        for ((step, plan), named) in self.steps.iter().zip(&plans).zip(named) {
            let last = plan.first + plan.places.len() as u32;
            let own = &instances[plan.first as usize..last as usize];
            if let Some(why) = &plan.absent {
                remarks.push(Remark::NoInstances { step: plan.name.to_string(), because: (**why).clone() });
            }
            let skipped = || {
                let first = own.first()?.skip.as_ref()?;
                own.iter().all(|i| i.skip.is_some()).then(|| first.clone())
            };
            steps.push(StepFacts {
                name: plan.name.to_string(),
                uses: plan.uses.clone(),
                like: step.like.clone(),
                work_of: step.work_of.map(|of| StepId(of as u32)),
                with: step.written.clone(),
                metrics: step.metrics.clone(),
                secrets: step.secrets.clone(),
                absent: plan.absent.clone().or_else(skipped),
                instances: plan.first..last,
                definition: prepare::definition(step),
                again: plan.again.clone(),
                unread: prepare::unread(step),
                params: named.into_iter().collect(),
                reads_seed: prepare::reads_seed(step, seed_is_param),
                has_late_inputs: plan.has_late_inputs,
                sees: plan.sees.iter().map(|n| StepId(*n as u32)).collect(),
            });
        }
        let params: BTreeMap<_, _> =
            chosen.params.iter().filter_map(|(k, v)| Some((k.clone(), to_json(v).ok()?))).collect();
        let publish = self.publish(&scope, &plans, &names, problems);
        Expansion {
            workflow: self.file.name.clone(),
            title: self.file.title.clone(),
            profile: chosen.profile,
            set: chosen.set.into_iter().filter_map(|name| Some((name.clone(), params.get(&name)?.clone()))).collect(),
            params,
            machine: request.machine.clone(),
            node: request.batch.node.cloned(),
            slurm: self.file.slurm.clone(),
            steps,
            instances,
            groups: groups.groups,
            environments,
            publish,
            policy: self.file.policy.clone(),
            work: self.file.work.clone(),
            unrunnable,
            remarks,
            imported: Vec::new(),
            late: LateContext { plans, agreements, base, folder: request.folder.to_owned(), workflow: self.clone() },
        }
    }

    /// The order of the steps, without cycles and the steps that need them.
    fn order(&self, plans: &[StepPlan], names: &BTreeMap<Arc<str>, usize>, problems: &mut Problems) -> Vec<usize> {
        let mut graph: StepGraph<YamlPath> = StepGraph::new(plans.len());
        for (at, (step, plan)) in self.steps.iter().zip(plans).enumerate() {
            for read in &plan.reads {
                graph.needs(at, read.step, read.at.clone());
            }
            for (name, place) in &step.needs {
                if let Some(on) = names.get(&**name) {
                    graph.needs(at, *on, place.clone());
                }
            }
            for on in &plan.sees {
                let place = plan.named.iter().find(|(n, _)| n == on).or(plan.named.first());
                graph.needs(at, *on, place.map_or_else(|| step.at.clone(), |(_, at)| at.clone()));
            }
            if let Some(judged) = &plan.judged {
                graph.needs(at, judged.alone, step.at.clone());
            }
            if let Some((own, place)) = plan.named.iter().find(|(n, _)| *n == at) {
                graph.needs(at, *own, place.clone());
            }
        }
        for (cycle, at) in graph.cycles() {
            let names: Vec<&str> = cycle.iter().map(|n| &*plans[*n].name).collect();
            let what = match &names[..] {
                [own, _] => Diagnostic::new(format!("`{own}` needs itself")),
                _ => Diagnostic::new(format!("the steps need each other in a cycle: {}", around(&names)))
                    .help("each needs the next; remove one of these dependencies"),
            };
            problems.value(at, what);
        }
        graph.order()
    }

    fn publish(
        &self,
        scope: &Value,
        plans: &[StepPlan],
        names: &BTreeMap<Arc<str>, usize>,
        problems: &mut Problems,
    ) -> Vec<Publish> {
        let mut publish: Vec<Publish> = Vec::new();
        // A whole report needs its own file; entries may share one.
        let mut targets: BTreeMap<String, bool> = BTreeMap::new();
        for entry in &self.file.publish {
            let Some(&from) = names.get(&*entry.from.0) else { continue };
            if plans[from].sound && !matches!(plans[from].uses, Uses::Builtin(_)) {
                let what = Diagnostic::new(format!("`{}` is not a report", entry.from.0));
                problems.value(&entry.from.1, what.label("expected a step that `uses: flow/report`"));
            }
            let path = match entry.to.eval(scope) {
                Ok(path) => path,
                Err(error) => {
                    error.report(&entry.to, problems);
                    continue;
                }
            };
            let target = path.as_str().map(normal).unwrap_or_default();
            if targets.get(&target).is_some_and(|whats_new| !(*whats_new && entry.whats_new)) {
                let what = Diagnostic::new(format!("`{path}` is also written by another entry of `publish`"));
                problems.value(&entry.to.at, what.help("a report at `to:` replaces the whole file"));
            }
            targets.insert(target, entry.whats_new);
            let what = if entry.whats_new { PublishWhat::WhatsNew } else { PublishWhat::Report };
            match path.as_str().filter(|path| !path.trim().is_empty()) {
                Some(path) => publish.push(Publish { from: StepId(from as u32), what, to: path.to_owned() }),
                None => {
                    let found = crate::expr::value::describe(&path);
                    problems.add(&entry.to.at, PlacePart::Value, Diagnostic::new(format!("the path is {found}")));
                }
            }
        }
        publish
    }
}
