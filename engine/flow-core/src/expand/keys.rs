//! The typed keys of a step. A key that is the same for every instance is evaluated once, others per instance.

use std::sync::Arc;

use minijinja::value::Value;

use super::prepare::StepPlan;
use crate::{
    CorunGpus, Exclusive, Input, Output, SlurmJob, Span,
    expr::Template,
    reason::Cause,
    spec::{
        at::Problems,
        files,
        raw::Condition,
        read::report,
        slurm,
        step::Step,
        typed_value::{self, Repetitions, TypedResult},
    },
};

/// The value of a key.
#[derive(Debug)]
pub(super) struct Lazy<T> {
    /// If the value may differ between instances.
    template: Option<Template>,
    typed: fn(&Value) -> TypedResult<T>,
    /// The value for all instances, or the one that takes the place of a wrong value.
    value: T,
}

impl<T: Clone> Lazy<T> {
    fn new(
        template: Option<&Template>,
        plan: &StepPlan,
        default: T,
        typed: fn(&Value) -> TypedResult<T>,
        scope: &Value,
        problems: &mut Problems,
    ) -> Self {
        let mut lazy = Lazy { template: None, typed, value: default };
        let Some(template) = template else { return lazy };
        match template.fold(scope, &plan.now(scope)) {
            Ok(folded) => match folded.as_const() {
                Some(value) => lazy.value = lazy.read(value, template, None, problems),
                None => lazy.template = Some(folded),
            },
            Err(error) => error.report(template, problems),
        }
        lazy
    }

    fn read(&self, value: &Value, template: &Template, label: Option<&str>, problems: &mut Problems) -> T {
        (self.typed)(value).unwrap_or_else(|wrong| {
            let n = problems.0.len();
            report(problems, &template.at, wrong);
            if let (Some(problem), Some(label)) = (problems.0.get_mut(n), label) {
                problem.what.help.push(format!("so it is in `{label}`"));
            }
            self.value.clone()
        })
    }

    /// Whether it is the same for every instance.
    pub(super) fn is_ready(&self) -> bool {
        self.template.is_none()
    }

    /// Its value for an instance.
    pub(super) fn get(&self, scope: &Value, label: &str, problems: &mut Problems) -> T {
        let Some(template) = &self.template else { return self.value.clone() };
        match template.eval(scope) {
            Ok(value) => self.read(&value, template, Some(label), problems),
            Err(error) => {
                error.report(template, problems);
                self.value.clone()
            }
        }
    }
}

/// The keys of a step that control how its instances run.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) gpus: Lazy<u32>,
    pub(super) gpu_memory: Lazy<Option<u64>>,
    pub(super) cpus: Lazy<Option<u32>>,
    pub(super) memory: Lazy<Option<u64>>,
    pub(super) exclusive: Lazy<Exclusive>,
    pub(super) corun: Lazy<Option<(String, CorunGpus)>>,
    pub(super) repeat: Lazy<Option<Repetitions>>,
    pub(super) seed: Lazy<u64>,
    pub(super) timeout: Lazy<Option<Span>>,
    pub(super) retries: Lazy<u32>,
    pub(super) resume: Lazy<bool>,
    pub(super) priority: Lazy<i64>,
    pub(super) slurm: Lazy<SlurmJob>,
    pub(super) environment: Lazy<Option<Arc<str>>>,
    pub(super) inputs: Lazy<Arc<[Input]>>,
    pub(super) outputs: Lazy<Arc<[Output]>>,
}

fn optional<T>(value: &Value, typed: impl Fn(&Value) -> TypedResult<T>) -> TypedResult<Option<T>> {
    if value.is_none() { Ok(None) } else { typed(value).map(Some) }
}

impl Keys {
    pub(super) fn new(step: &Step, plan: &StepPlan, scope: &Value, problems: &mut Problems) -> Self {
        macro_rules! lazy {
            ($key:literal, $default:expr, $typed:expr) => {
                Lazy::new(step.parts.value($key), plan, $default, $typed, scope, problems)
            };
        }
        let own = step.parts.value("inputs").map(|inputs| files::split(inputs).0);
        Keys {
            gpus: lazy!("gpus", 0, |v| typed_value::count(v, 0)),
            gpu_memory: lazy!("gpu_memory", None, |v| optional(v, typed_value::size)),
            cpus: lazy!("cpus", None, |v| optional(v, |v| typed_value::count(v, 1))),
            memory: lazy!("memory", None, |v| optional(v, typed_value::size)),
            exclusive: lazy!("exclusive", Exclusive::No, typed_value::exclusive),
            corun: lazy!("corun", None, |v| optional(v, typed_value::corun)),
            repeat: lazy!("repeat", None, |v| optional(v, typed_value::repeat)),
            seed: lazy!("seed", 0, typed_value::seed),
            timeout: lazy!("timeout", None, |v| optional(v, typed_value::duration)),
            retries: lazy!("retries", 0, |v| typed_value::count(v, 0)),
            resume: lazy!("resume", true, typed_value::boolean),
            priority: lazy!("priority", 0, typed_value::integer),
            slurm: lazy!("slurm", SlurmJob::default(), slurm::job),
            environment: lazy!("environment", None, |v| optional(v, |v| typed_value::text(v).map(Arc::from))),
            inputs: Lazy::new(own.as_ref(), plan, Arc::default(), |v| files::inputs(v).map(Arc::from), scope, problems),
            outputs: lazy!("outputs", plan.outputs.clone(), |v| files::outputs(v).map(Arc::from)),
        }
    }
}

/// Why an instance is skipped, if its `when` is false.
pub(super) fn skipped(when: &Condition, scope: &Value, problems: &mut Problems) -> Option<Arc<Cause>> {
    let holds = when.holds(scope, problems)?;
    (!holds).then(|| Arc::new(Cause::ConditionFalse { expression: when.expr.text.to_string() }))
}
