//! Which results are reused, and the resulting plan.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Context, Decision, Force, Lookup, LookupKeys, Reading, ReusableResult, State, decide, plan, plan_of_run};
use crate::fingerprint::{Parts, Tree, tests::instance};
use crate::plan::unfit;
use crate::reason::{Cause, Disturbance, Fault};
use crate::why::{FileChange, InputChange, ListContent, Reason, UnfitReason};
use crate::{
    Catalogue, Circumstances, CorunGpus, CorunWindow, Digest, Expansion, ForeignProcess, Input, Instance, InstanceId,
    LateResult, Machine, Metrics, Outcome, RequestedResults, RunId, SettledResults, Span, StepResult, Usage,
};

fn result(outcome: Outcome) -> StepResult {
    StepResult {
        caveats: vec![],
        fingerprint: Digest::of(b""),
        workflow: "w".into(),
        step: "solo".into(),
        label: "solo".into(),
        axes: Default::default(),
        repetition: None,
        outcome,
        cause: None,
        disturbances: Vec::new(),
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
        assert_eq!(of(never), Some(UnfitReason::Outcome(never)));
    }
    let why = vec![Disturbance::InputChanged { path: "photos".into(), differences: vec![] }];
    let disturbed = StepResult { disturbances: why.clone(), ..result(Outcome::Ok) };
    assert_eq!(unfit(&disturbed, &recording()), Some(UnfitReason::Disturbed(why)));
    assert_eq!(
        unfit(&result(Outcome::OutOfMemory), &instance("solo")),
        Some(UnfitReason::NotRecorded(Outcome::OutOfMemory)),
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
        let of_job = Instance { timeout: Some(seconds(3600)), job_limit: is.map(seconds), ..recording() };
        assert_eq!(unfit(&result, &of_job).is_none(), reused, "{was:?} then, a job of {is:?} now");
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
        interference: None,
    };
    assert_eq!(of(|_| {}), None);
    assert_eq!(of(|c| c.gpu_memory = Some(1 << 30)), Some(UnfitReason::MemoryLimit));
    assert_eq!(of(|c| c.memory = Some(1 << 30)), Some(UnfitReason::MemoryLimit));
    assert_eq!(of(|c| c.oom_killed = true), Some(UnfitReason::HostMemory));
    assert_eq!(of(|c| c.corunners = vec!["other".into()]), Some(UnfitReason::NotAlone(vec!["other".into()])));
    assert_eq!(
        of(|c| c.foreign_processes =
            vec![ForeignProcess { pid: 1, name: "python".into(), gpu: "GPU-0".into(), memory: 1 }]),
        Some(UnfitReason::NotAlone(vec!["python".into()]))
    );
    let mut group = result(Outcome::OutOfMemory);
    group.circumstances.corun = Some(window(2));
    group.circumstances.corunners = vec!["together[batch=32]".into()];
    assert_eq!(unfit(&group, &recording()), None, "its own group belongs to it");
    group.circumstances.corunners.push("other".into());
    assert!(unfit(&group, &recording()).is_some());
}

/// What a test says of the world. Nothing stands, and there are no inputs, unless it says so.
#[derive(Default)]
struct World {
    standing: Vec<&'static str>,
    /// Earlier parts of instances, and the content of inputs.
    parts: BTreeMap<String, Parts>,
    content: BTreeMap<&'static str, &'static str>,
    /// All results are there, from this many looks on.
    there_from: Option<usize>,
    looked_up: Vec<Digest>,
    /// What was announced last, how often something was, and how many looks were not.
    ahead: Vec<Digest>,
    announced: u32,
    unannounced: u32,
    /// What was looked up last can be read again.
    is_read_again: bool,
}

impl Lookup for World {
    fn input(&mut self, input: &Input) -> Result<Tree, Fault> {
        Ok(Tree { digest: Digest::of(self.content[&*input.path].as_bytes()), manifest: None })
    }

    fn unchanged_result(&mut self, instance: &Instance) -> Option<ReusableResult> {
        let from = RunId("20260208-153012-3f2a".into());
        let standing =
            ReusableResult { fingerprint: Digest::of(instance.label.as_bytes()), outcome: Outcome::Ok, from };
        self.standing.contains(&&*instance.label).then_some(standing)
    }

    fn ahead(&mut self, of: &[LookupKeys<'_>]) {
        self.announced += u32::from(!of.is_empty());
        self.ahead = of.iter().map(|sought| sought.fingerprint).collect();
    }

    fn result(&mut self, fingerprint: &Digest) -> Result<Option<StepResult>, Fault> {
        self.looked_up.push(*fingerprint);
        self.unannounced += u32::from(!self.ahead.contains(fingerprint));
        let is_there = self.there_from.is_some_and(|from| self.looked_up.len() > from);
        Ok(is_there.then(|| StepResult { fingerprint: *fingerprint, ..result(Outcome::Ok) }))
    }

    fn read_again(&mut self, _: &Digest, _: Option<&Metrics>, _: &Instance) -> Result<Option<Reading>, Fault> {
        let fingerprint = self.looked_up.last().copied().filter(|_| self.is_read_again);
        let read = |fingerprint| StepResult { fingerprint, ..result(Outcome::Ok) };
        Ok(fingerprint.map(|fingerprint| Reading { result: read(fingerprint), remarks: Vec::new() }))
    }

    fn last(&mut self, label: &str) -> Option<Parts> {
        self.parts.get(label).cloned()
    }

    fn listed(&mut self, _: &Digest) -> Option<ListContent> {
        None
    }
}

/// A workflow, expanded on a machine of two CPUs.
fn expanded(text: &str) -> Expansion {
    crate::fingerprint::tests::expanded(text, &Machine { cpus: 2, ..Machine::default() })
}

#[test]
fn what_stands_is_looked_up_only_where_something_else_reads_it() {
    let text = "flow: 1\nname: w\nsteps: {a: {run: a}, b: {run: b, needs: [a]}, c: {run: 'c ${{ steps.b.outcome }}'}, \
        d: {run: d}, e: {run: 'e ${{ steps.b | length }}'}}\n";
    let (expansion, catalogue) = (expanded(text), Catalogue::default());
    let wanted: Vec<InstanceId> = expansion.instances.iter().map(|instance| instance.id).collect();
    let planned = |standing: &[&'static str], is_there: bool, force: &Force| {
        let mut world = World { standing: standing.to_vec(), there_from: is_there.then_some(0), ..World::default() };
        let (mut found, context) = (BTreeMap::new(), Context { expansion: &expansion, catalogue: &catalogue });
        let plan = plan_of_run(&context, &wanted, &mut world, force, &mut found);
        let cached: String =
            plan.items.iter().map(|item| if matches!(item.state, State::Cached { .. }) { 'c' } else { '-' }).collect();
        let unread = found.values().filter(|found| matches!(found, Decision::Unchanged { result: None, .. })).count();
        (cached, unread, world.looked_up.len())
    };
    let nothing = Force::Nothing;
    let all = ["a", "b", "c", "d", "e"];
    assert_eq!(planned(&all, true, &nothing), ("ccccc".into(), 5, 0));
    assert_eq!(planned(&["a", "b", "d", "e"], true, &nothing), ("ccccc".into(), 3, 2), "c reads b");
    assert_eq!(planned(&["a", "b", "c", "d"], true, &nothing), ("ccccc".into(), 4, 1), "e counts and reads nothing");
    assert_eq!(planned(&["b", "c"], true, &nothing), ("ccccc".into(), 0, 5), "what needs something new is looked up");
    assert_eq!(planned(&["a", "b", "d", "e"], false, &nothing).0, "-----", "a result is gone: all is looked up");
    assert_eq!(planned(&all, false, &nothing).0, "ccccc", "nobody reads it");
    let force = Force::named(&expansion, &["b".to_owned()]).expect("a step");
    assert_eq!(planned(&all, true, &force).0, "c--c-", "what is forced does not stand");
}

#[test]
fn what_another_run_recorded_between_two_looks_is_not_recorded_again() {
    let text = "flow: 1\nname: w\nsteps: {a: {run: a}}\n";
    let (expansion, catalogue) = (expanded(text), Catalogue::default());
    let context = Context { expansion: &expansion, catalogue: &catalogue };
    let settled = BTreeMap::<InstanceId, StepResult>::new();
    // Another run records a result between two lookups.
    let mut world = World { there_from: Some(1), is_read_again: true, ..World::default() };
    let found = decide(&context, &[InstanceId(0)], &settled, &mut world, &Force::Nothing);
    assert!(matches!(&found[..], [Decision::Reuse { read_again: None, .. }]), "{found:?}");
}

#[test]
fn a_member_that_did_not_change_runs_for_the_one_that_did() {
    let text = "flow: 1\nname: w\nsteps: {a: {matrix: {n: [1, 2]}, run: 'cat f${{ n }}', inputs: ['f${{ n }}'], \
        corun: {group: g, gpus: shared}}}\n";
    let (expansion, catalogue) = (expanded(text), Catalogue::default());
    let context = Context { expansion: &expansion, catalogue: &catalogue };
    let wanted = [InstanceId(0), InstanceId(1)];
    let settled = BTreeMap::<InstanceId, StepResult>::new();
    let mut world = World { content: [("f1", "x"), ("f2", "x")].into(), ..World::default() };
    let decided = |world: &mut World| {
        let found = decide(&context, &wanted, &settled, world, &Force::Nothing);
        let run = |decision| match decision {
            Decision::Run { parts, reasons, .. } => (parts, reasons),
            other => panic!("{other:?}"),
        };
        found.into_iter().map(run).unzip::<Parts, Vec<Reason>, Vec<_>, Vec<_>>()
    };
    let (parts, _) = decided(&mut world);
    world.parts = ["a[n=1]", "a[n=2]"].map(str::to_owned).into_iter().zip(parts).collect();
    world.content.insert("f2", "y");
    let changed = Reason::Input("f2".into(), InputChange::Whole(FileChange::Changed));
    assert_eq!(decided(&mut world).1, [vec![Reason::GroupMember("a[n=2]".into())], vec![changed]]);
}

#[test]
fn many_are_looked_up_at_once_but_for_what_needs_another_of_them() {
    let text = "flow: 1\nname: w\nsteps:\n  a: {matrix: {n: '${{ range(1300) }}'}, run: a}\n  \
        b: {matrix: {n: '${{ range(1300) }}'}, run: b, needs: [a]}\n  c: {run: c, needs: [b]}\n  \
        d: {matrix: {n: '${{ range(40) }}', m: '${{ range(40) }}'}, run: d, corun: {group: '${{ n }}', gpus: own}}\n";
    let (expansion, catalogue) = (expanded(text), Catalogue::default());
    let wanted: Vec<InstanceId> = expansion.instances.iter().map(|instance| instance.id).collect();
    let context = Context { expansion: &expansion, catalogue: &catalogue };
    // A remote store that has all results and counts the queries.
    let mut far = World { there_from: Some(0), ..World::default() };
    let plan = plan(&context, &wanted, &mut far, &Force::Nothing);
    assert!(plan.items.iter().all(|item| matches!(item.state, State::Cached { .. })));
    assert_eq!((plan.items.len(), far.unannounced), (1300 + 1300 + 1 + 1600, 0));
    assert_eq!(far.announced, 3, "a with d, then b, and c");
}

/// Unchanged results of a run: none was read yet, and a store has them or not.
#[derive(Default)]
struct UnreadResults {
    read: OnceCell<StepResult>,
    requested: RequestedResults,
}

impl SettledResults for UnreadResults {
    fn result(&self, id: InstanceId) -> Option<&StepResult> {
        if self.unread(id).is_some() {
            self.requested.request(id);
        }
        self.read.get()
    }

    fn late(&self, id: InstanceId) -> LateResult {
        match self.unread(id) {
            Some(_) => LateResult::Unread(id, self.requested.clone()),
            None => LateResult::Read(self.read.get().cloned().map(Arc::new)),
        }
    }

    fn unread(&self, id: InstanceId) -> Option<Digest> {
        (id == InstanceId(0) && self.read.get().is_none()).then(|| Digest::of(b"a"))
    }

    fn requested(&self) -> BTreeSet<InstanceId> {
        self.requested.take()
    }

    fn read(&self, _: InstanceId, result: StepResult) {
        self.read.set(result).expect("read once");
    }
}

#[test]
fn an_unread_result_is_read_where_it_is_asked_for_and_refuses_who_asks_where_it_is_gone() {
    let text = "flow: 1\nname: w\nsteps: {a: {run: a}, b: {run: 'b ${{ steps.a.outcome }}'}, \
        c: {run: 'c ${{ steps.a | length }}'}}\n";
    let (expansion, catalogue) = (expanded(text), Catalogue::default());
    let context = Context { expansion: &expansion, catalogue: &catalogue };
    let decided = |id: u32, is_there: bool| {
        let (unread, mut world) =
            (UnreadResults::default(), World { there_from: is_there.then_some(0), ..World::default() });
        let decided = decide(&context, &[InstanceId(id)], &unread, &mut world, &Force::Nothing).remove(0);
        (decided, unread.read.get().is_some())
    };
    let read = BTreeMap::from([(InstanceId(0), result(Outcome::Ok))]);
    for id in [1, 2] {
        let mut world = World { there_from: Some(0), ..World::default() };
        let known = decide(&context, &[InstanceId(id)], &read, &mut world, &Force::Nothing).remove(0);
        assert_eq!(decided(id, true), (known, id == 1), "as if all had been read from the beginning");
    }
    assert!(matches!(decided(2, false), (Decision::Run { .. }, false)), "it reads nothing");
    assert!(matches!(
        decided(1, false).0,
        Decision::Refused { outcome: Outcome::Failed, cause: Cause::ResultUnseen { .. } }
    ));
}
