//! What sharing a GPU costs is found out, and counts from then on.

use super::dsl::case;
use crate::measure::{Epoch, Other, beside};
use crate::sched::contention::{Host, Load, UNKNOWN_DEVICE, coefficient, hoped, learned, speeds};
use crate::sched::*;
use crate::*;

const PAIR: &str = "a gpus=1 peak=4 busy=900 timed
                    b gpus=1 peak=4 busy=900 timed
                    c gpus=1 peak=4 busy=900 timed
                    d gpus=1 peak=4 busy=900 timed";

#[test]
fn a_gpu_of_which_little_is_known_is_tried_by_two() {
    // Two at 0.9 gain nothing at the price of an unknown card: one pair shares it all the same, and no more before that told
    // something.
    case(
        "gpus=1x24 trial=0",
        PAIR,
        "0 submit       | start a on 0; start b on 0 on trial
         1 exit a       | record a
         2 exit b       | record b; start c on 0
         3 priced 1 0.2 | start d on 0 on trial",
    );
    // What was measured so far gives no hope: no further trial.
    case(
        "gpus=1x24 trial=0.9",
        PAIR,
        "0 submit       | start a on 0
         1 exit a       | record a; start b on 0",
    );
    // One on each of two cards, and one trial at a time.
    case(
        "gpus=2x24 trial=0",
        PAIR,
        "0 submit       | start a on 0; start b on 1; start c on 0 on trial
         1 priced 1 0.2 | start d on 1 on trial",
    );
}

#[test]
fn a_trial_is_for_two_that_show_what_it_costs() {
    // Never timed alone, or with no room, or with too few CPUs for both: nothing would be learned.
    let refused = |settings: &str, b: &str| {
        let tasks = format!("a gpus=1 peak=4 busy=900 timed keeps=1500 cpus=2\n b gpus=1 {b}");
        case(settings, &tasks, "0 submit | start a on 0");
    };
    refused("gpus=1x24 trial=0", "peak=4 busy=900");
    refused("gpus=1x24 trial=0", "peak=22 busy=900 timed");
    refused("gpus=1x24 trial=0", "peak=4 busy=900 timed measured");
    refused("gpus=1x24 cpus=2 trial=0", "peak=4 busy=900 timed keeps=1000");
    refused("gpus=1x24 price=1.5 trial=0", "peak=4 busy=900 timed");
    // A third beside two would not say who costs what.
    case(
        "gpus=1x24 price=0.6 trial=0",
        "a gpus=1 peak=4 busy=500 timed
         b gpus=1 peak=4 busy=500 timed
         c gpus=1 peak=4 busy=990 timed",
        "0 submit | start a on 0; start b on 0",
    );
    // Nothing is promised on trial: what has a reservation waits for a place of its own.
    case(
        "gpus=1x24 policy=easy trial=0",
        "a gpus=1 peak=4 busy=900 timed takes=10
         b gpus=1 peak=22 busy=100 timed takes=5
         c gpus=1 peak=4 busy=900 timed takes=20",
        "0 submit | start a on 0
         9 exit a | record a; start b on 0",
    );
}

#[test]
fn what_was_learned_counts_at_once() {
    case(
        "gpus=1x24",
        PAIR,
        "0 submit     | start a on 0
         1 priced 0.5 | start b on 0
         2 priced 0.2 | start c on 0; start d on 0",
    );
    case("gpus=1x24 price=0.2", PAIR, "0 submit   | start a on 0; start b on 0; start c on 0; start d on 0");
    case(
        "gpus=1x24 price=0.6",
        PAIR,
        "0 submit     | start a on 0; start b on 0
         1 priced 1.1 |
         2 exit a     | record a
         3 exit b     | record b; start c on 0",
    );
}

#[test]
fn a_pair_that_was_measured_counts_as_measured() {
    // Expected not to slow each other down at all, and seen to.
    let tasks = "a gpus=1 peak=4 busy=400 timed
                 b gpus=1 peak=4 busy=500 timed
                 c gpus=1 peak=4 busy=500 timed";
    let world = case("gpus=1x24 pair=1.9", tasks, "0 submit | start a on 0; start c on 0");
    let Waiting::Resources(short) = world.waits("b") else { panic!("{:?}", world.waits("b")) };
    assert_eq!(short[0].resource, Resource::GpuBusy(GpuId(0)), "a third beside them was not measured");
    let two = "a gpus=1 peak=4 busy=400 timed\n b gpus=1 peak=4 busy=500 timed";
    let world = case("gpus=1x24 pair=1.9", two, "0 submit | start a on 0");
    let Waiting::Resources(short) = world.waits("b") else { panic!("{:?}", world.waits("b")) };
    assert_eq!((short[0].resource, short[0].requested), (Resource::GpuMeasured(GpuId(0)), 1_900));
    // Better than expected: they share it.
    case("gpus=1x24 pair=1.3", PAIR, "0 submit | start a on 0; start b on 0");
}

/// Runs equal trainings of 100 s in ten epochs, each keeping one GPU busy nine tenths of its time, on a card whose price is
/// `truth`. What was learned of it before is in `seen`, and afterwards what this run taught. Returns when the last ended.
fn run(trainings: u32, truth: f64, seen: &mut Vec<f64>) -> f64 {
    const BUSY: f64 = 0.9;
    let gpu = GpuState { memory: 140 << 30, strangers: 0, alive: true };
    let capacity = Capacity { gpus: vec![gpu], cpus: 64, memory: 1 << 40, jobs: None };
    let prices = |seen: &[f64]| {
        let known = if seen.is_empty() { UNKNOWN_DEVICE } else { learned(seen.iter().copied()) };
        (vec![known], vec![hoped(known, seen.len() as u32)])
    };
    let (devices, trial) = prices(seen);
    let sharing = Sharing { devices, trial, ..Sharing::default() };
    let policy = policy::named(policy::DEFAULT).unwrap();
    let mut scheduler = Scheduler::new(capacity, policy, Limits { sharing, ..Limits::default() });
    let task = |id| Task {
        instance: InstanceId(id),
        needs: Vec::new(),
        request: ResourceRequest { gpus: 1, cpus: 1, ..ResourceRequest::default() },
        exclusive: Exclusive::No,
        corun: None,
        continues: false,
        measured: false,
        record: Vec::new(),
        timeout: None,
        retries: 0,
        priority: 0,
        settled: None,
        estimate: Estimate {
            duration: Some(Span::from_secs_f64(100.0)),
            gpu_memory: Some(2 << 30),
            gpu_busy_milli: Some(900),
            cpu_milli: Some(500),
            timed_alone: true,
            samples: 1,
            ..Estimate::default()
        },
        submitted: Time(0),
    };
    /// Epochs done, marks of them, when the one at hand began and what is left of it.
    struct Training {
        attempt: AttemptId,
        there: (f64, f64),
        marks: Vec<Epoch>,
        left: f64,
    }
    let mut all: Vec<Training> = Vec::new();
    let (mut now, mut queue) = (0.0, vec![Event::Submitted((0..trainings).map(task).collect())]);
    loop {
        let mut out = Vec::new();
        let at = Time(0) + Span::from_secs_f64(now);
        for event in std::mem::take(&mut queue).into_iter().chain([Event::Tick]) {
            scheduler.handle(at, event, &mut out);
            scheduler.check().unwrap();
        }
        for action in out {
            match action {
                Action::LookUp { instances } => {
                    queue.extend(
                        instances.into_iter().map(|instance| Event::Answered { instance, answer: Answer::Miss }),
                    );
                }
                Action::Start { attempt, .. } => {
                    all.push(Training { attempt, there: (now, f64::INFINITY), marks: Vec::new(), left: 10.0 });
                }
                Action::Record { instance, attempt } => {
                    queue.push(Event::Recorded { instance });
                    let work = |t: &Training| Some((t.marks.first()?.ended, t.there.1));
                    let others: Vec<Other<AttemptId>> = all
                        .iter()
                        .filter(|t| t.attempt != attempt)
                        .map(|t| Other { who: t.attempt, there: t.there, at_work: work(t), shares: true, cores: 0.5 })
                        .collect();
                    let own = all.iter().find(|t| t.attempt == attempt).unwrap();
                    if let Some(beside) = beside(&own.marks, &others, 63.5) {
                        seen.extend(coefficient(BUSY * (1 + beside.who.len()) as f64, beside.took / 10.0));
                        let (devices, trial) = prices(seen);
                        queue.push(Event::Priced { devices, trial });
                    }
                }
                Action::Finish => return now,
                _ => {}
            }
        }
        if !queue.is_empty() || scheduler.next_wake().is_some_and(|wake| wake <= at) {
            continue;
        }
        let live: Vec<usize> = (0..all.len()).filter(|&i| all[i].there.1 == f64::INFINITY).collect();
        let loads = vec![Load { cores: 0.5, gpu_busy: BUSY, gpus: vec![0] }; live.len()];
        let speeds = speeds(&loads, &Host { cores: 64.0, devices: vec![truth] });
        let step = live.iter().zip(&speeds).map(|(&i, speed)| all[i].left / speed).fold(f64::INFINITY, f64::min);
        now += step;
        for (&i, speed) in live.iter().zip(&speeds) {
            let training = &mut all[i];
            training.left -= step * speed;
            if training.left < 1e-6 {
                let began = training.marks.last().map_or(training.there.0, |mark| mark.ended);
                training.marks.push(Epoch { began, ended: now, took: now - began });
                training.left = 10.0;
                if training.marks.len() == 10 {
                    training.there.1 = now;
                    queue.push(Event::Exited { attempt: training.attempt, outcome: Outcome::Ok, spoiled: false });
                }
            }
        }
    }
}

#[test]
fn twelve_trainings_teach_what_their_card_costs() {
    // One after the other they take 1200 s. Cards on which sharing is free, cheap, and as published; one on which a pair gains
    // too little, and one on which it loses: there the trial is all that this costs.
    for (truth, expected) in [
        (0.0, [400.0, 100.0, 100.0]),
        (0.2, [616.0, 456.0, 456.0]),
        (0.6, [888.0, 888.0, 888.0]),
        (1.0, [1_180.0, 1_200.0, 1_200.0]),
        (1.5, [1_220.0, 1_200.0, 1_200.0]),
    ] {
        let mut seen = Vec::new();
        assert_eq!(expected.map(|_| run(12, truth, &mut seen).round()), expected, "price {truth}");
        assert!(seen.iter().all(|seen| (seen - truth).abs() < 1e-6), "{seen:?}");
        let learned = learned(seen.iter().copied());
        assert!(truth > 0.7 || (learned - truth).abs() < 0.01, "{learned} of {truth}");
    }
}
