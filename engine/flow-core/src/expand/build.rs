//! Builds the instances of a step, with their edges, and the groups of all steps.

use std::{collections::BTreeMap, sync::Arc};

use minijinja::value::Value;
use serde_json::Value as Json;

use super::{
    apart, environments,
    facts::{ExpandRequest, Group},
    fit,
    keys::{Keys, skipped},
    marks::Mark,
    matrix::Agreement,
    prepare::{MOST, StepPlan},
    with::{Schema, dotted, known},
};
use crate::{
    CorunGpus, CorunMember, DeclaredEnvironment, Diagnostic, Exclusive, GroupId, Input, Instance, InstanceId, Machine,
    Need, Place, ResourceRequest, Slurm, StepId,
    expr::{Expr, Scope, Template},
    reason::Cause,
    spec::{
        at::{PlacePart, Problems, Seg, YamlPath},
        step::Step,
        typed_value::Repetitions,
    },
    verdict::AT_MOST,
};

/// Shared by all steps while instances are built.
pub(super) struct BuildContext<'a> {
    pub(super) base: &'a Scope,
    /// The same, for expressions.
    pub(super) scope: &'a Value,
    pub(super) request: &'a ExpandRequest<'a>,
    pub(super) gpus: Option<u32>,
    /// Default place of steps.
    pub(super) on: Place,
    /// `slurm:` of the workflow.
    pub(super) slurm: &'a Slurm,
    pub(super) environments: &'a BTreeMap<String, DeclaredEnvironment>,
}

impl BuildContext<'_> {
    /// Place of an instance: where a killed run left it running, else as declared by its step or the workflow.
    fn on(&self, step: &Step, label: &str) -> Place {
        let orphan = self.request.batch.orphan_places.and_then(|places| places.get(label)).copied();
        orphan.or(step.on()).unwrap_or(self.on)
    }

    /// The machine of an instance, as far as it is known.
    fn machine(&self, batch: bool) -> &Machine {
        self.request.batch.node.filter(|_| batch).unwrap_or(self.request.machine)
    }
}

/// Agreements by reading and read step, built on demand.
pub(super) type Agreements = BTreeMap<(usize, usize), Agreement>;

/// Co-run groups, in order of appearance.
#[derive(Default)]
pub(super) struct Groups {
    index: BTreeMap<(usize, String), usize>,
    pub(super) groups: Vec<Group>,
}

/// The instances, built step by step.
#[derive(Default)]
pub(super) struct Built {
    pub(super) instances: Vec<Instance>,
    pub(super) agreements: Agreements,
    pub(super) groups: Groups,
}

/// Builds the instances of one step. Those of everything it needs exist already.
pub(super) fn build(
    at: usize,
    step: &Step,
    plans: &mut [StepPlan],
    shared: &BuildContext<'_>,
    built: &mut Built,
    problems: &mut Problems,
) {
    let Built { instances, agreements, groups } = built;
    let before = problems.0.len();
    let keys = Keys::new(step, &plans[at], shared.scope, problems);
    let is_group = step.parts.has("corun");
    plans[at].first = instances.len() as u32;
    if plans[at].absent.is_some() {
        return;
    }
    instances.reserve(plans[at].matrix.len());
    let edges = edges(at, plans, agreements);
    let uniform_inputs = plans[at].uniform.then(|| {
        let mut inputs = keys.inputs.get(shared.scope, "", &mut Problems::default()).to_vec();
        inputs.extend(uniform_paths(&plans[at]));
        Arc::<[Input]>::from(inputs)
    });
    for point in 0..plans[at].matrix.len() {
        let plan = &plans[at];
        let own = plan.matrix.at(point).map(|(axis, value)| (axis.name.clone(), value.value.clone()));
        let scope = match own.collect::<Vec<_>>() {
            axes if axes.is_empty() => shared.scope.clone(),
            axes => Value::from_object(Scope { axes, ..shared.base.clone() }),
        };
        let axes = Arc::new(plan.matrix.flat(point));
        let first_label = plan.matrix.label(&plan.name, point, None);
        // If one instance has a mistake, most others have the same. It is reported once.
        if problems.0.len() > before {
            break;
        }
        let skip = step.when.as_ref().and_then(|when| skipped(when, &scope, problems));
        let repeat = match keys.repeat.get(&scope, &first_label, problems) {
            Some(repetitions) if skip.is_none() => repetitions,
            _ => Repetitions::UntilDecided { at_most: AT_MOST },
        };
        let repeat = match (repeat, &mut plans[at].judged) {
            (Repetitions::Times(times), judged) => {
                *judged = None;
                times
            }
            (Repetitions::UntilDecided { .. }, _) if step.parts.has("repeat") && skip.is_none() && !is_group => {
                let what = Diagnostic::new("only the verdict on a co-run group can be undecided");
                problems.value(&step.at.key("repeat"), what.help("`repeat: 3` makes three repetitions of any step"));
                break;
            }
            (Repetitions::UntilDecided { at_most }, Some(judged)) => {
                judged.at_most = at_most;
                1
            }
            (Repetitions::UntilDecided { .. }, None) => 1,
        };
        if instances.len() - plans[at].first as usize + repeat as usize > MOST {
            let what = Diagnostic::new(format!("`{}` has more than {MOST} instances, repetitions counted", step.name));
            problems.value(&step.at.key("repeat"), what);
            break;
        }
        for repetition in 0..repeat {
            let plan = &plans[at];
            let repetition = plan.repeats.then_some(repetition);
            let place = (point as u32, repetition);
            let label =
                repetition.map_or_else(|| first_label.clone(), |n| plan.matrix.label(&plan.name, point, Some(n)));
            let on = if step.is_builtin() || skip.is_some() { Place::Local } else { shared.on(step, &label) };
            let id = InstanceId(instances.len() as u32);
            let mut instance = Instance {
                id,
                step: StepId(at as u32),
                label: label.clone(),
                axes: axes.clone(),
                repetition,
                needs: Vec::new(),
                request: ResourceRequest { cpus: 1, ..ResourceRequest::default() },
                exclusive: Exclusive::No,
                corun: None,
                measured: step.measured.unwrap_or(plan.measured),
                seed: 0,
                record: step.record.clone(),
                timeout: None,
                retries: 0,
                resume: true,
                priority: 0,
                environment: None,
                inputs: Arc::default(),
                outputs: Arc::default(),
                skip: skip.clone(),
                again: None,
                does_not_fit: None,
                place: on,
                slurm: None,
                job_limit: None,
            };
            if instance.skip.is_none() {
                let asked = keys.gpus.get(&scope, &label, problems);
                let gpus = shared.gpus.map_or(asked, |cap| asked.min(cap));
                instance.request = ResourceRequest {
                    gpus,
                    gpu_memory: keys.gpu_memory.get(&scope, &label, problems),
                    cpus: keys
                        .cpus
                        .get(&scope, &label, problems)
                        .unwrap_or_else(|| fit::default_cpus(gpus, shared.machine(on.is_batch()))),
                    memory: keys.memory.get(&scope, &label, problems),
                };
                if on == Place::Slurm {
                    let own = keys.slurm.get(&scope, &label, problems);
                    instance.slurm = Some(Arc::new(own.over(&shared.slurm.job)));
                }
                instance.exclusive = keys.exclusive.get(&scope, &label, problems);
                instance.seed =
                    keys.seed.get(&scope, &label, problems).wrapping_add(u64::from(repetition.unwrap_or(0)));
                instance.timeout = keys.timeout.get(&scope, &label, problems);
                instance.retries = keys.retries.get(&scope, &label, problems);
                instance.resume = keys.resume.get(&scope, &label, problems);
                instance.priority = keys.priority.get(&scope, &label, problems);
                let named = keys.environment.get(&scope, &label, problems);
                instance.environment = environments::known(named, shared.environments, step, problems);
                instance.outputs = keys.outputs.get(&scope, &label, problems);
                instance.inputs = match &uniform_inputs {
                    Some(inputs) if keys.inputs.is_ready() => inputs.clone(),
                    _ => {
                        let mut inputs = keys.inputs.get(&scope, &label, problems).to_vec();
                        inputs.extend(match plan.uniform {
                            true => uniform_paths(plan),
                            false => own_with(plan, step, &scope, &label, problems),
                        });
                        inputs.into()
                    }
                };
                // If both are the same for all instances, one check is enough.
                let same = keys.inputs.is_ready() && keys.outputs.is_ready();
                if problems.0.len() == before && (!same || plans[at].places.is_empty()) {
                    apart::check(step, &instance, &plans[at], problems);
                }
                find_needs(&edges, plans, place, instances, agreements, &mut instance, problems);
                let corun = keys.corun.get(&scope, &label, problems).filter(|_| instance.skip.is_none());
                if let Some((name, gpus)) = corun {
                    groups.join(at, plan, name, gpus, &mut instance, step, problems);
                }
                if step.measured.is_none() {
                    instance.measured |= instance.exclusive != Exclusive::No || instance.corun.is_some();
                }
            }
            plans[at].places.push(place);
            instances.push(instance);
        }
    }
    plans[at].sound &= problems.0.len() == before;
}

/// Paths in `with` as inputs, except those not known yet.
fn path_inputs(schema: &Schema, json: &Json, unknown: &[Vec<Seg>]) -> Vec<Input> {
    let known = schema.marked(json, Mark::Path).into_iter().filter(|(path, _)| !unknown.contains(path));
    known.map(|(path, text)| Input::in_place(dotted(&path), text)).collect()
}

/// Paths in a `with` that is the same for every instance and was already checked.
fn uniform_paths(plan: &StepPlan) -> Vec<Input> {
    let Some(schema) = &plan.schema else { return Vec::new() };
    let Ok((mut json, unknown)) = known(&plan.with) else { return Vec::new() };
    schema.fill(&mut json);
    path_inputs(schema, &json, &unknown)
}

/// Checks a `with` that differs between instances, and returns its paths.
fn own_with(plan: &StepPlan, step: &Step, scope: &Value, label: &str, problems: &mut Problems) -> Vec<Input> {
    let Some(schema) = &plan.schema else { return Vec::new() };
    let later = |name: &String| name == "inputs" || name == "seed" && plan.own_seed;
    let now = |expr: &Expr| !expr.reads.names.iter().any(later) && (!expr.is_late() || expr.is_known_in(scope));
    let folded = match plan.with.fold(scope, &now) {
        Ok(folded) => folded,
        Err(error) => {
            error.report(&plan.with, problems);
            return Vec::new();
        }
    };
    match known(&folded) {
        Ok((mut json, unknown)) => {
            schema.fill(&mut json);
            let at = step.with.as_ref().map_or_else(|| step.at.key("uses"), |with| with.at.clone());
            schema.check(&json, &unknown, &at, Some(label), problems);
            path_inputs(schema, &json, &unknown)
        }
        Err((path, message)) => {
            let at = plan.with.at.below(&path);
            problems.value(&at, Diagnostic::new(message).help(format!("so it is in `{label}`")));
            Vec::new()
        }
    }
}

/// The need of a step.
struct Edge {
    on: usize,
    /// `steps.X.out` and the like need exactly one instance.
    one: Option<(String, Option<String>, YamlPath)>,
    /// From `needs:`: all instances must succeed, even with `-k`.
    order: bool,
}

/// The needs of a step, in the order of the file.
fn edges(at: usize, plans: &[StepPlan], agreements: &mut Agreements) -> Vec<Edge> {
    let reads = plans[at].reads.iter().map(|read| {
        let one = read.attribute.clone().map(|a| (a, read.member.clone(), read.at.clone()));
        Edge { on: read.step, one, order: false }
    });
    let after = plans[at].after.iter().map(|on| Edge { on: *on, one: None, order: true });
    let sees = plans[at].sees.iter().map(|on| Edge { on: *on, one: None, order: false });
    let edges: Vec<Edge> = reads.chain(after).chain(sees).collect();
    for edge in &edges {
        agreements.entry((at, edge.on)).or_insert_with(|| {
            let (reader, read) = (&plans[at], &plans[edge.on]);
            let members = read.places.iter().enumerate().map(|(n, place)| (InstanceId(read.first + n as u32), *place));
            Agreement::new(&reader.matrix, &read.matrix, reader.repeats && read.repeats, members)
        });
    }
    edges
}

/// Finds the instances that an instance needs.
fn find_needs(
    edges: &[Edge],
    plans: &[StepPlan],
    place: (u32, Option<u32>),
    instances: &[Instance],
    agreements: &Agreements,
    instance: &mut Instance,
    problems: &mut Problems,
) {
    let at = instance.step.index();
    for edge in edges {
        let read = &plans[edge.on];
        let Some(agreement) = agreements.get(&(at, edge.on)).filter(|_| read.sound) else { continue };
        let members = agreement.of(&plans[at].matrix, place);
        let Some((attribute, member, written)) = &edge.one else {
            // A skipped instance is not waited for and blocks nothing.
            let running = members.iter().filter(|id| instances[id.index()].skip.is_none());
            instance.needs.extend(running.map(|on| Need { on: *on, list: !edge.order }));
            continue;
        };
        match members {
            [on] => {
                instance.needs.push(Need { on: *on, list: false });
                let text = format!("steps.{}.{attribute}", read.name);
                if let Some(what) = missing(read, &instances[on.index()], attribute, member.as_deref()) {
                    problems.add(written, PlacePart::Text(text), what);
                }
            }
            [] if read.places.is_empty() => {
                let (step, because) = (Some(read.name.to_string()), read.absent.as_deref().cloned().map(Box::new));
                instance.skip = Some(Arc::new(Cause::NoInstances { step, because }));
                instance.needs.clear();
                return;
            }
            [] => {
                let what = Diagnostic::new(format!("no instance of `{}` agrees with `{}`", read.name, instance.label));
                let what = what.help(format!("there is `{}`", instances[read.first as usize].label));
                problems.add(written, PlacePart::Text(format!("steps.{}", read.name)), what);
            }
            several => {
                let what = Diagnostic::new(format!(
                    "`steps.{}` selects {} instances here, but `.{attribute}` needs one",
                    read.name,
                    several.len()
                ));
                let axis = read.matrix.axes.iter().find(|a| !plans[at].matrix.axes.iter().any(|b| b.name == a.name));
                let axis = axis.map_or("repetition", |a| &a.name);
                let what = what
                    .help(format!("narrow them: `(steps.{} | where({axis}=…)).{attribute}`", read.name))
                    .help(format!("or give this step the axis `{axis}` too"));
                problems.add(written, PlacePart::Text(format!("steps.{}.{attribute}", read.name)), what);
            }
        }
    }
    let again = plans[at].judges.iter().flat_map(|on| &plans[*on].again);
    instance.needs.extend(again.map(|on| Need { on: *on, list: true }));
    // One edge per instance. A direct read takes precedence over a list.
    instance.needs.sort();
    instance.needs.dedup_by_key(|need| need.on);
}

/// The mistake in reading this output or metric, if any.
fn missing(read: &StepPlan, instance: &Instance, attribute: &str, member: Option<&str>) -> Option<Diagnostic> {
    if instance.skip.is_some() {
        return None;
    }
    let names: Vec<&str> = instance.outputs.iter().map(|o| o.name.as_str()).collect();
    match (attribute, member, &names[..]) {
        ("out", _, [_]) => None,
        ("out", _, []) => {
            let what = Diagnostic::new(format!("`{}` declares no outputs", read.name));
            Some(what.help(format!("give `{}` an `outputs: [PATH]`", read.name)))
        }
        ("out", _, many) => Some(
            Diagnostic::new(format!("`{}` has {} outputs, so `.out` is ambiguous", read.name, many.len()))
                .help(format!("say `.outputs.{}`", many.join("`, `.outputs."))),
        ),
        ("outputs", Some(name), _) if !names.contains(&name) => {
            Some(Diagnostic::new(format!("`{}` has no output `{name}`", read.name)).nearest(name, names))
        }
        ("metrics", Some(name), _) => {
            let metrics = read.metrics.as_ref().filter(|metrics| !metrics.iter().any(|metric| metric == name))?;
            let what = Diagnostic::new(format!("`{}` has no metric `{name}`", read.name));
            Some(match metrics.is_empty() {
                true => what.help(format!("give `{}` a `metrics:` with the place of its numbers", read.name)),
                false => what.nearest(name, metrics.iter().map(String::as_str)),
            })
        }
        _ => None,
    }
}

impl Groups {
    #[expect(clippy::too_many_arguments, reason = "one call, and every part is somebody else's")]
    fn join(
        &mut self,
        at: usize,
        plan: &StepPlan,
        name: String,
        gpus: CorunGpus,
        instance: &mut Instance,
        step: &Step,
        problems: &mut Problems,
    ) {
        // A repetition repeats the group; it does not enlarge it.
        let name = instance.repetition.map_or(name.clone(), |n| format!("{name}#{n}"));
        let next = self.groups.len();
        let index = *self.index.entry((at, name.clone())).or_insert(next);
        if index == next {
            let id = GroupId(next as u32);
            self.groups.push(Group { id, step: StepId(at as u32), name: name.clone(), gpus, members: Vec::new() });
        }
        let group = &mut self.groups[index];
        if group.gpus != gpus {
            let what =
                Diagnostic::new(format!("members of the group `{name}` of `{}` are placed differently", step.name));
            problems.value(&step.at.key("corun"), what.help("`gpus` is the same for all members of a group"));
        }
        group.members.push(instance.id);
        instance.corun = Some(CorunMember { group: group.id, name: name.into(), gpus, continues: plan.continues });
    }
}

/// Named inputs as a mapping: `inputs` in expressions.
pub(super) fn inputs_value(inputs: &[Input], placed: &[(String, Template)]) -> Value {
    let named = inputs.iter().filter(|i| !i.in_place).filter_map(|i| Some((i.name.clone()?, Value::from(i.place()))));
    let placed = placed.iter().map(|(place, _)| (place.clone(), Value::from(place.as_str())));
    Value::from_pairs(named.chain(placed).collect::<Vec<_>>())
}
