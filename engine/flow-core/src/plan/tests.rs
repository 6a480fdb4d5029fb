//! Which results are reused, and what a plan says.

use std::sync::Arc;

use crate::fingerprint::tests::instance;
use crate::plan::unfit;
use crate::reason::Spoiled;
use crate::why::Unfit;
use crate::{
    Circumstances, CorunGpus, CorunWindow, Digest, Instance, Outcome, RunId, Span, StepResult, Stranger, Usage,
};

fn result(outcome: Outcome) -> StepResult {
    StepResult {
        fingerprint: Digest::of(b""),
        workflow: "w".into(),
        step: "solo".into(),
        label: "solo".into(),
        axes: Default::default(),
        repetition: None,
        outcome,
        cause: None,
        spoiled: Vec::new(),
        run: RunId("20260208-153012-3f2a".into()),
        started_at: 0,
        ended_at: 0,
        outputs: Default::default(),
        paths: Default::default(),
        metrics: Default::default(),
        params: Default::default(),
        usage: Usage::default(),
        circumstances: Circumstances::default(),
        series: None,
        kept: None,
        accepted: None,
    }
}

fn recording() -> Instance {
    Instance { record: Arc::from([Outcome::OutOfMemory, Outcome::TimedOut]), ..instance("solo") }
}

#[test]
fn which_outcomes_are_reused() {
    let of = |outcome| unfit(&result(outcome), &recording());
    assert_eq!(of(Outcome::Ok), None);
    assert_eq!(of(Outcome::OutOfMemory), None);
    for never in [Outcome::DoesNotFit, Outcome::Failed, Outcome::Cancelled, Outcome::Skipped] {
        assert_eq!(of(never), Some(Unfit::Outcome(never)));
    }
    let why = vec![Spoiled::InputChanged { path: "photos".into() }];
    let spoiled = StepResult { spoiled: why.clone(), ..result(Outcome::Ok) };
    assert_eq!(unfit(&spoiled, &recording()), Some(Unfit::Spoiled(why)));
    assert_eq!(
        unfit(&result(Outcome::OutOfMemory), &instance("solo")),
        Some(Unfit::NotRecorded(Outcome::OutOfMemory)),
        "a failure is tried again"
    );
}

#[test]
fn a_time_out_is_reused_under_a_limit_that_is_no_longer() {
    let seconds = |s: u64| Span::from_millis(s * 1000);
    let table = [
        (Some(10), Some(10), true),
        (Some(10), Some(5), true),
        (Some(10), Some(11), false),
        (Some(10), None, false),
        (None, Some(10), false),
    ];
    for (was, is, reused) in table {
        let mut result = result(Outcome::TimedOut);
        result.circumstances.timeout = was.map(seconds);
        let instance = Instance { timeout: is.map(seconds), ..recording() };
        assert_eq!(unfit(&result, &instance).is_none(), reused, "{was:?} then, {is:?} now");
    }
}

#[test]
fn out_of_memory_is_reused_if_it_happened_alone_under_the_same_limits() {
    let of = |change: fn(&mut Circumstances)| {
        let mut result = result(Outcome::OutOfMemory);
        change(&mut result.circumstances);
        unfit(&result, &recording())
    };
    let window = |members| CorunWindow {
        group: "v7".into(),
        gpus: CorunGpus::Shared,
        members,
        released_at: 0.0,
        closed_at: 1.0,
        epochs: 0,
        closed_by: None,
    };
    assert_eq!(of(|_| {}), None);
    assert_eq!(of(|c| c.gpu_memory = Some(1 << 30)), Some(Unfit::MemoryLimit));
    assert_eq!(of(|c| c.memory = Some(1 << 30)), Some(Unfit::MemoryLimit));
    assert_eq!(of(|c| c.oom_killed = true), Some(Unfit::HostMemory));
    assert_eq!(of(|c| c.corunners = vec!["other".into()]), Some(Unfit::NotAlone(vec!["other".into()])));
    assert_eq!(
        of(|c| c.strangers = vec![Stranger { pid: 1, name: "python".into(), gpu: "GPU-0".into(), memory: 1 }]),
        Some(Unfit::NotAlone(vec!["python".into()]))
    );
    let mut group = result(Outcome::OutOfMemory);
    group.circumstances.corun = Some(window(2));
    group.circumstances.corunners = vec!["together[batch=32]".into()];
    assert_eq!(unfit(&group, &recording()), None, "its own group belongs to it");
    group.circumstances.corunners.push("other".into());
    assert!(unfit(&group, &recording()).is_some());
}
