//! Results of instances without an attempt. Knows no store: they are never stored.

use crate::{Circumstances, Digest, Expansion, InstanceId, Outcome, RunId, StepResult, reason::Cause};

/// The result, with its cause, that tables and reports see for an instance settled without an attempt. `at` is in
/// milliseconds since 1970.
pub fn without_attempt(
    expansion: &Expansion,
    id: InstanceId,
    outcome: Outcome,
    cause: Option<Cause>,
    run: &RunId,
    at: u64,
) -> StepResult {
    let instance = &expansion.instances[id.index()];
    StepResult {
        caveats: Vec::new(),
        fingerprint: Digest([0; 32]),
        workflow: expansion.workflow.clone(),
        step: expansion.steps[instance.step.index()].name.clone(),
        label: instance.label.to_string(),
        axes: (*instance.axes).clone(),
        repetition: instance.repetition,
        outcome,
        cause,
        disturbances: Vec::new(),
        run: run.clone(),
        started_at: at,
        ended_at: at,
        outputs: Default::default(),
        paths: Default::default(),
        metrics: Default::default(),
        params: Default::default(),
        usage: Default::default(),
        circumstances: Circumstances { mode: instance.mode(), ..Circumstances::default() },
        series: None,
        kept: None,
        accepted: None,
    }
}
