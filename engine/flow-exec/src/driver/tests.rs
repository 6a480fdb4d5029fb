//! Tests of the loop with an unreliable executor: events are late, repeated, out of order or about unknown attempts,
//! and some starts are not reported. In any case every step gets one result, and Ctrl-C ends all running steps at once.

use std::{
    collections::{BTreeMap, VecDeque},
    fs, io,
    path::Path,
    process::Command,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use flow_core::{
    AttemptId, BuiltinInput, BuiltinOutput, Builtins, CatalogueStep, Outcome, Publication, PublishJob, RunEvent,
    StepResult,
    reason::{self, BatchEnd, Cause, Disturbance},
};
use flow_protocol::Exit;
use flow_supervisor::{clock, keeper};
use nix::sys::signal::{Signal, raise};
use proptest::{prelude::*, test_runner::TestRunner};

use super::{
    executor::{AttemptEnd, Event, Executor, LocalObservation, OutcomeOverride, RetryAdvice, Work},
    request::RunOptions,
    run::run_on,
    session::SessionRequest,
    updates::Update,
};
use crate::ExecError;

/// No built-in steps.
struct NoBuiltins;

impl Builtins for NoBuiltins {
    fn provided(&self) -> BTreeMap<String, CatalogueStep> {
        BTreeMap::new()
    }
    fn version(&self) -> &str {
        ""
    }
    fn run(&self, name: &str, _: &BuiltinInput) -> Result<BuiltinOutput, reason::Fault> {
        Err(format!("there is no {name}").into())
    }
    fn publish(&self, _: &PublishJob) -> Result<Publication, String> {
        Err("there is nothing to publish".to_owned())
    }
}

/// Faults in the events of an attempt.
#[derive(Clone, Copy, Debug)]
struct Fault {
    /// Its start is not reported.
    start_lost: bool,
    /// Its start is reported again after its end.
    start_late: bool,
    /// Number of reports of its end.
    ends: u8,
    /// Number of looks by which its events are delayed.
    delay: u8,
    /// An unknown attempt ends before it.
    unknown_end: bool,
}

/// Runs each command synchronously at its start, and reports it with the configured faults.
#[derive(Default)]
struct FaultyExecutor {
    /// Applied to one start after the other, cyclically; without any, all events are correct.
    faults: Vec<Fault>,
    /// The nodes of this many first starts are lost at their end.
    losses: usize,
    started: usize,
    events: VecDeque<(u8, Event)>,
    /// Programs that run until they are killed, with their start times.
    hanging: BTreeMap<AttemptId, (Fault, f64)>,
    /// Programs ignore requests to end.
    deaf: bool,
    /// When hanging programs were told to end, and their grace periods.
    kills: Kills,
}

type Kills = Arc<Mutex<Vec<(f64, Duration)>>>;

impl FaultyExecutor {
    fn execute(&mut self, start: keeper::Start) {
        let faultless = Fault { start_lost: false, start_late: false, ends: 1, delay: 0, unknown_end: false };
        let fault = self.faults.iter().cycle().nth(self.started).copied().unwrap_or(faultless);
        self.started += 1;
        let lost = || OutcomeOverride {
            outcome: Outcome::Failed,
            cause: Some(Cause::Batch { job: None, end: BatchEnd::NodeLost { node: None } }),
            again: RetryAdvice::Lost,
        };
        let instead = (self.started <= self.losses).then(lost);
        let began = clock::unix_seconds();
        let begins = Event::Started { attempt: start.attempt, node: None };
        let line = start.argv.join(" ");
        self.events.extend((!fault.start_lost || line.contains(LIMITED)).then_some((fault.delay, begins)));
        if line.contains(HANGS) {
            self.hanging.insert(start.attempt, (fault, began));
            return;
        }
        let mut command = Command::new(&start.argv[0]);
        command.args(&start.argv[1..]).env_clear().envs(start.env).current_dir(&start.cwd);
        let status = command.status().expect("a command");
        self.report_end(start.attempt, fault, exit(began, status.code(), None), instead);
    }

    fn report_end(&mut self, attempt: AttemptId, fault: Fault, exit: Exit, instead: Option<OutcomeOverride>) {
        let end = || {
            Box::new(AttemptEnd {
                instead: instead.clone(),
                ..AttemptEnd::here(exit.clone(), LocalObservation::default())
            })
        };
        let ends = |attempt: AttemptId| Event::Ended { attempt, end: end() };
        let begins = || Event::Started { attempt, node: None };
        let mut events = Vec::new();
        events.extend(fault.unknown_end.then(|| ends(AttemptId(9_999))));
        events.extend((0..fault.ends).map(|_| ends(attempt)));
        events.extend(fault.start_late.then(begins));
        self.events.extend(events.into_iter().map(|event| (fault.delay, event)));
    }
}

/// Part of a command that does not end by itself.
const HANGS: &str = "sleep";
/// Part of a command with a time limit, which counts from its start, so that the start is always reported.
const LIMITED: &str = "sleep 600";

fn exit(began: f64, code: Option<i32>, signal: Option<i32>) -> Exit {
    Exit { code, signal, started_at: began, ended_at: clock::unix_seconds(), ..Exit::default() }
}

impl Executor for FaultyExecutor {
    fn start(&mut self, gang: Vec<Work>) -> Result<(), ExecError> {
        gang.into_iter().for_each(|work| self.execute(work.program));
        Ok(())
    }

    fn release(&mut self, _: AttemptId, _: f64) -> io::Result<()> {
        Ok(())
    }

    fn stop(&mut self, _: AttemptId) -> io::Result<()> {
        Ok(())
    }

    fn kill(&mut self, attempt: AttemptId, grace: Duration) {
        let Some((fault, began)) = self.hanging.get(&attempt).copied() else { return };
        self.kills.lock().unwrap().push((clock::unix_seconds(), grace));
        if grace.is_zero() || !self.deaf {
            self.hanging.remove(&attempt);
            self.report_end(attempt, fault, exit(began, None, Some(15)), None);
        }
    }

    async fn next_event(&mut self) -> Result<Event, ExecError> {
        while let Some((delay, _)) = self.events.front_mut().filter(|(delay, _)| *delay > 0) {
            *delay -= 1;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        match self.events.pop_front() {
            Some((_, event)) => Ok(event),
            None => std::future::pending().await,
        }
    }
}

/// Runs a workflow in this folder, and returns the exit code.
fn run_in(
    dir: &Path,
    workflow: &str,
    keep_going: bool,
    executor: FaultyExecutor,
    mut observe: impl FnMut(RunEvent),
) -> i32 {
    let file = dir.join("w.yaml");
    fs::write(&file, workflow).unwrap();
    let session = SessionRequest { file, store: Some(dir.join(".flow")), ..SessionRequest::default() };
    let options = RunOptions { session, keep_going, ..RunOptions::default() };
    let mut observe = |update: Update| {
        if let Update::Event(line) = update {
            observe(line.event);
        }
    };
    run_on(&options, Arc::new(NoBuiltins), &mut observe, |_| Ok(executor)).unwrap().exit
}

/// A signal reaches all runs of this process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const WORKFLOW: &str = "\
flow: 1
name: faulty
work: cache
steps:
  first:
    matrix: {n: [1, 2, 3]}
    run: sh -c 'echo ${{ n }} > out.txt'
    outputs: [out.txt]
  pair:
    matrix: {n: [1, 2]}
    run: sh -c 'echo pair ${{ n }} > out.txt'
    outputs: [out.txt]
    corun: {group: all}
  after:
    needs: [first, pair]
    run: sh -c 'echo after > out.txt'
    outputs: [out.txt]
  fails: {run: sh -c 'exit 3', retries: 0}
  hangs: {run: sleep 600, retries: 0, timeout: 1s}
";

fn fault() -> impl Strategy<Value = Fault> {
    (any::<bool>(), any::<bool>(), 1..4u8, 0..6u8, any::<bool>()).prop_map(
        |(start_lost, start_late, ends, delay, unknown_end)| Fault { start_lost, start_late, ends, delay, unknown_end },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn every_step_has_its_result_once_whatever_the_executor_tells(faults in prop::collection::vec(fault(), 1..8)) {
        let _alone = alone();
        let dir = tempfile::tempdir().unwrap();
        let (mut ended, mut recorded, mut timeouts) = (BTreeMap::new(), BTreeMap::new(), 0);
        let executor = FaultyExecutor { faults, ..FaultyExecutor::default() };
        let exit = run_in(dir.path(), WORKFLOW, true, executor, |event| match event {
            RunEvent::Ended { attempt, outcome, .. } => {
                *ended.entry(attempt).or_insert(0) += 1;
                timeouts += usize::from(outcome == Outcome::TimedOut);
            }
            RunEvent::Recorded { result, .. } => *recorded.entry(result.label).or_insert(0) += 1,
            _ => {}
        });
        prop_assert_eq!(exit, 1, "two steps fail, and the run ends");
        prop_assert_eq!((ended.len(), timeouts), (8, 1));
        prop_assert!(ended.values().all(|times| *times == 1), "{ended:?}");
        prop_assert_eq!(recorded.len(), 6, "{:?}", recorded);
        prop_assert!(recorded.values().all(|times| *times == 1), "{recorded:?}");
    }
}

/// Steps that end, and steps that run until they are killed, with dependents.
const ENDLESS: &str = "\
flow: 1
name: endless
work: cache
steps:
  first:
    matrix: {n: [1, 2, 3]}
    run: sh -c 'echo ${{ n }} > out.txt'
    outputs: [out.txt]
  endless: {needs: [first], matrix: {n: [1, 2]}, run: sleep 900, CORUN}
  after: {needs: [endless], run: sh -c 'true'}
";

/// Interrupts a run at this start, and again if programs are `deaf`. Returns the delay in seconds until each was told
/// to end.
fn interrupted(faults: Vec<Fault>, nth: usize, deaf: bool, grouped: bool) -> Vec<f64> {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let workflow = ENDLESS.replace("CORUN", if grouped { "corun: {group: all}" } else { "retries: 1" });
    let (mut ended, mut recorded) = (BTreeMap::new(), BTreeMap::new());
    let (kills, mut signals) = (Kills::default(), Vec::new());
    let mut signal = |times: usize| {
        if signals.len() == times {
            signals.push(clock::unix_seconds());
            raise(Signal::SIGINT).unwrap();
        }
    };
    let executor = FaultyExecutor { faults, deaf, kills: Arc::clone(&kills), ..FaultyExecutor::default() };
    let exit = run_in(dir.path(), &workflow, false, executor, |event| match event {
        RunEvent::Started { attempt, .. } => {
            ended.insert(attempt, 0);
            if ended.len() == nth {
                signal(0);
            }
        }
        // A signal that nothing receives would hit the next run.
        RunEvent::Interrupted { again: false, .. } if deaf && !kills.lock().unwrap().is_empty() => signal(1),
        RunEvent::Ended { attempt, outcome, .. } => {
            assert!(matches!(outcome, Outcome::Ok | Outcome::Cancelled), "{outcome:?}");
            *ended.get_mut(&attempt).expect("one that was started") += 1;
        }
        RunEvent::Recorded { result, .. } => *recorded.entry(result.label).or_insert(0) += 1,
        _ => {}
    });
    assert_eq!(exit, 130);
    assert!(ended.values().all(|times| *times == 1), "each that was started has ended, once: {ended:?}");
    assert!(recorded.values().all(|times| *times == 1) && !recorded.contains_key("after"), "{recorded:?}");
    let late = |(at, grace): &(f64, Duration)| at - signals[usize::from(deaf && grace.is_zero())];
    kills.lock().unwrap().iter().map(late).collect()
}

#[test]
fn ctrl_c_ends_all_at_once_whatever_the_executor_tells() {
    let mut runner = TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(12) });
    let lateness = Mutex::new(Vec::new());
    let cases = (prop::collection::vec(fault(), 1..8), 1..6usize, any::<bool>(), any::<bool>());
    let outcome = runner.run(&cases, |(faults, nth, deaf, grouped)| {
        lateness.lock().unwrap().extend(interrupted(faults, nth, deaf, grouped));
        Ok(())
    });
    outcome.unwrap();
    let mut lateness = lateness.into_inner().unwrap();
    lateness.sort_by(f64::total_cmp);
    // Independent of the load of the machine: a loop that waits for something is late every time.
    let (half, last) = (lateness[lateness.len() / 2], lateness.last());
    assert!(half < 0.1, "half of them were told {half} s later, the last {last:?} s");
}

/// Runs one step whose node is lost this often. Returns the exit code, the number of attempts, and the result, if any.
fn losing(losses: usize, command: &str) -> (i32, usize, Option<StepResult>) {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let workflow = format!("flow: 1\nname: losing\nwork: cache\nsteps:\n  train: {{run: \"{command}\"}}\n");
    let (mut ended, mut recorded) = (0, None);
    let executor = FaultyExecutor { losses, ..FaultyExecutor::default() };
    let exit = run_in(dir.path(), &workflow, false, executor, |event| match event {
        RunEvent::Ended { .. } => ended += 1,
        RunEvent::Recorded { result, .. } => recorded = Some(*result),
        _ => {}
    });
    (exit, ended, recorded)
}

#[test]
fn a_loss_that_left_a_new_checkpoint_does_not_count() {
    let (exit, attempts, result) = losing(7, "echo epoch >> $FLOW_CHECKPOINT/n");
    assert_eq!((exit, attempts), (0, 8));
    assert_eq!(
        result.and_then(|result| result.usage.earlier).map(|earlier| earlier.jobs),
        Some(7),
        "one result of all"
    );
    // Only the first attempt leaves something new.
    let (exit, attempts, _) = losing(7, "echo epoch > $FLOW_CHECKPOINT/n");
    assert_eq!((exit, attempts), (1, 5), "three losses without any progress");
    let (exit, attempts, _) = losing(7, "true");
    assert_eq!((exit, attempts), (1, 4));
}

/// Both attempts have their inputs before one of them writes.
const WRITING: &str = "\
flow: 1
name: writing
work: cache
steps:
  writes: {run: \"until [ $(ls ../../*/*/d/a.txt | wc -l) = 2 ] || [ ${#n} = 99 ]; do n=x$n; done; echo b > d/a.txt\", inputs: [d]}
  reads: {run: grep a d/a.txt, inputs: [d]}
";

#[test]
fn root_that_writes_into_its_input_loses_its_own_result_alone() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    fs::write(dir.path().join("d/a.txt"), "a").unwrap();
    let written = Disturbance::InputWritten { path: "d/a.txt".into(), folder: Some("d".into()), itself: true };
    // The second run has the result of the reader.
    for attempts in [2, 1] {
        let mut ended = BTreeMap::new();
        let exit = run_in(dir.path(), WRITING, false, FaultyExecutor::default(), |event| {
            if let RunEvent::Ended { instance, outcome, disturbances, .. } = event {
                ended.insert(instance.0, (outcome, disturbances));
            }
        });
        assert_eq!((exit, ended.len()), (1, attempts), "{ended:?}");
        assert_eq!(ended[&0], (Outcome::Ok, vec![written.clone()]));
        assert!(ended.get(&1).is_none_or(|end| *end == (Outcome::Ok, Vec::new())), "{ended:?}");
    }
}
