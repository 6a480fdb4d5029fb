//! A small language for cases.
//!
//! Tasks, one per line: `b cpus=1 gpus=1 needs=a,c* group=g/own …`; a star marks a member of a list. Events, one per
//! line: `SECONDS EVENT | expected actions`. Between two lines the world answers like a well-behaved driver: lookups as
//! declared by the task (`hit=ok`, `refuse=skipped`, else a miss), records at once, each start with "started", and a
//! tick when one is due. `check()` is called after every event.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::sched::*;
use crate::*;

pub(super) const GIB: u64 = 1 << 30;

pub(super) struct World {
    pub(super) scheduler: Scheduler,
    pub(super) now: Time,
    /// `check()` is too slow for very many tasks.
    pub(super) unchecked: bool,
    names: Vec<String>,
    ids: BTreeMap<String, InstanceId>,
    answers: BTreeMap<InstanceId, Answer>,
    /// Started only by `begins`, because their folders are being filled.
    filling: BTreeSet<InstanceId>,
    /// The last attempt of each instance.
    attempts: BTreeMap<InstanceId, AttemptId>,
    owners: BTreeMap<AttemptId, InstanceId>,
    capacity: Capacity,
    tasks: Vec<Task>,
}

/// Runs a case. `settings`: `policy=fit cpus=4 memory=8 gpus=2x12 jobs=3 keep_going patience=60`. For sharing, after the
/// GPUs: `price=0.5 trial=0.2`, and `pair=1.5`, measured for the first two tasks.
#[track_caller]
pub(super) fn case(settings: &str, tasks: &str, script: &str) -> World {
    let mut world = World::new(settings, tasks);
    let (mut expected, mut actual) = (String::new(), String::new());
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (event, wanted) = line.split_once('|').unwrap_or((line, ""));
        let done = world.happens(event.trim());
        writeln!(expected, "{} | {}", event.trim(), wanted.trim()).unwrap();
        writeln!(actual, "{} | {done}", event.trim()).unwrap();
    }
    assert!(expected == actual, "expected:\n{expected}\nbut was:\n{actual}");
    world
}

impl World {
    pub(super) fn new(settings: &str, tasks: &str) -> World {
        let mut capacity = Capacity { cpus: 64, memory: 1024 * GIB, ..Capacity::default() };
        let mut limits = Limits { patience: None, ..Limits::default() };
        let mut chosen = "fit";
        for (key, value) in settings.split_whitespace().map(pair) {
            match key {
                "policy" => chosen = value,
                "cpus" => capacity.cpus = number(value) as u32,
                "memory" => capacity.memory = number(value) * GIB,
                "jobs" => capacity.jobs = Some(number(value) as u32),
                "queue" => capacity.batch = number(value) as u32,
                "gpus" => {
                    let (count, size) = value.split_once('x').unwrap();
                    let gpu = GpuState { memory: number(size) * GIB, foreign: 0, alive: true };
                    capacity.gpus = vec![gpu; number(count) as usize];
                }
                "price" => limits.sharing.devices = vec![price(value); capacity.gpus.len()],
                "trial" => limits.sharing.trial = vec![Some(price(value)); capacity.gpus.len()],
                "pair" => {
                    limits.sharing.pairs = BTreeMap::from([
                        ((InstanceId(0), InstanceId(1)), price(value)),
                        ((InstanceId(1), InstanceId(0)), price(value)),
                    ])
                }
                "keep_going" => limits.keep_going = true,
                "patience" => limits.patience = Some(seconds(value)),
                _ => panic!("no setting {key}"),
            }
        }
        let policy = policy::named(chosen).unwrap();
        let mut world = World {
            scheduler: Scheduler::new(capacity.clone(), policy, limits),
            now: Time(0),
            unchecked: false,
            names: Vec::new(),
            ids: BTreeMap::new(),
            answers: BTreeMap::new(),
            filling: BTreeSet::new(),
            attempts: BTreeMap::new(),
            owners: BTreeMap::new(),
            capacity,
            tasks: Vec::new(),
        };
        for line in tasks.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let task = world.task(line);
            world.tasks.push(task);
        }
        world
    }

    fn task(&mut self, line: &str) -> Task {
        let mut words = line.split_whitespace();
        self.names.push(words.next().unwrap().to_owned());
        let id = InstanceId(self.names.len() as u32 - 1);
        self.ids.extend(self.names.last().map(|name| (name.clone(), id)));
        let mut task = Task {
            instance: id,
            request: ResourceRequest { cpus: 1, ..ResourceRequest::default() },
            ..Task::default()
        };
        for (key, value) in words.map(pair) {
            match key {
                "cpus" => task.request.cpus = number(value) as u32,
                "memory" => task.request.memory = Some(number(value) * GIB),
                "gpus" => task.request.gpus = number(value) as u32,
                "gpu_memory" => task.request.gpu_memory = Some(number(value) * GIB),
                "peak" => (task.estimate.gpu_memory, task.estimate.samples) = (Some(number(value) * GIB), 1),
                "busy" => (task.estimate.gpu_busy_milli, task.estimate.samples) = (Some(number(value) as u32), 1),
                "timed" => task.estimate.timed_alone = true,
                "keeps" => (task.estimate.cpu_milli, task.estimate.samples) = (Some(number(value) as u32), 1),
                "repetition" => task.repetition = Some((StepId(0), value.parse().unwrap())),
                "priority" => task.priority = value.parse().unwrap(),
                "takes" => task.estimate.duration = Some(seconds(value)),
                "needs" => {
                    task.needs.extend(
                        value
                            .split(',')
                            .map(|name| Need { on: self.id(name.trim_end_matches('*')), list: name.ends_with('*') }),
                    );
                }
                "group" => {
                    let (name, mode) = value.split_once('/').unwrap();
                    let mode = if mode == "own" { CorunGpus::Own } else { CorunGpus::Shared };
                    task.corun = Some((GroupId(name.bytes().next().unwrap().into()), mode));
                    task.measured = true;
                }
                "exclusive" => {
                    task.exclusive = if value == "gpu" { Exclusive::Gpu } else { Exclusive::Machine };
                    task.measured = true;
                }
                "continues" => task.continues = true,
                "measured" => task.measured = true,
                "batch" => task.batch = true,
                "fills" => _ = self.filling.insert(id),
                "record" => task.record.push(outcome(value)),
                "timeout" => task.timeout = Some(seconds(value)),
                "retries" => task.retries = number(value) as u32,
                "settled" => task.settled = Some(outcome(value)),
                "hit" => _ = self.answers.insert(id, Answer::Hit(outcome(value))),
                "orphaned" => _ = self.answers.insert(id, Answer::Orphaned),
                "refuse" => _ = self.answers.insert(id, Answer::Refused(outcome(value))),
                _ => panic!("no key {key}"),
            }
        }
        task
    }

    /// Runs one line: the event, and the scheduler's actions in return.
    pub(super) fn happens(&mut self, line: &str) -> String {
        let (at, event) = line.split_once(' ').unwrap();
        self.now = Time(0) + seconds(at);
        let mut said = Vec::new();
        // Earlier timers fire first.
        while self.scheduler.next_wake().is_some_and(|wake| wake < self.now) {
            let wake = self.scheduler.next_wake().unwrap();
            self.handle(wake, Event::Tick, &mut said);
        }
        for event in self.events(event) {
            self.handle(self.now, event, &mut said);
        }
        self.settle_down(&mut said);
        said.join("; ")
    }

    fn events(&mut self, line: &str) -> Vec<Event> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (verb, rest) = words.split_first().unwrap();
        if matches!(
            *verb,
            "begins"
                | "collecting"
                | "freed"
                | "continues"
                | "hopeless"
                | "lost"
                | "exit"
                | "ready"
                | "sufficed"
                | "spawn_fails"
        ) {
            let outcomes = |word: &&&str| !self.ids.contains_key(**word);
            let disturbed = rest.contains(&"disturbed");
            let how =
                rest.iter().filter(outcomes).find(|word| **word != "disturbed").map_or(Outcome::Ok, |w| outcome(w));
            let who: Vec<_> = rest.iter().filter(|word| self.ids.contains_key(**word)).collect();
            return who
                .into_iter()
                .map(|name| {
                    let attempt = self.attempts[&self.id(name)];
                    match *verb {
                        "begins" => Event::Started { attempt },
                        "continues" => Event::Continues { attempt },
                        "lost" => Event::Lost { attempt },
                        "collecting" => Event::Collecting { attempt },
                        "freed" => Event::Freed { attempt },
                        "hopeless" => Event::Hopeless { attempt },
                        "exit" => Event::Exited { attempt, outcome: how, disturbed },
                        "ready" => Event::Ready { attempt },
                        "sufficed" => Event::Sufficed { attempt },
                        _ => Event::SpawnFailed { attempt },
                    }
                })
                .collect();
        }
        vec![match (*verb, rest) {
            ("submit", _) => Event::Submitted(std::mem::take(&mut self.tasks)),
            ("late_exit", [attempt]) => {
                Event::Exited { attempt: AttemptId(number(attempt) as u32), outcome: Outcome::Ok, disturbed: false }
            }
            ("uses", [name, bytes]) => {
                Event::Sampled { attempt: self.attempts[&self.id(name)], gpu_memory: vec![number(bytes) * GIB] }
            }
            ("lose", [gpu]) => {
                self.capacity.gpus[number(gpu) as usize].alive = false;
                Event::Capacity(self.capacity.clone())
            }
            ("foreign", [gpu, bytes]) => {
                self.capacity.gpus[number(gpu) as usize].foreign = number(bytes) * GIB;
                Event::Capacity(self.capacity.clone())
            }
            ("learned", [name, bytes, busy]) => Event::Learned {
                instance: self.id(name),
                estimate: Estimate {
                    gpu_memory: Some(number(bytes) * GIB),
                    gpu_busy_milli: Some(number(busy) as u32),
                    samples: 1,
                    ..Estimate::default()
                },
            },
            ("interference_learned", [learned, hoped @ ..]) => {
                let gpus = self.capacity.gpus.len();
                let trial = hoped.first().map(|hoped| vec![Some(price(hoped)); gpus]).unwrap_or_default();
                Event::InterferenceLearned { devices: vec![price(learned); gpus], trial }
            }
            ("deferred", [name, found @ ..]) => {
                let id = self.id(name);
                self.answers.extend(found.iter().map(|found| (id, Answer::Hit(outcome(found)))));
                Event::Deferred { attempt: self.attempts[&id] }
            }
            ("others", facts) => {
                let mut others = PeerLoad { runs: 1, ..PeerLoad::default() };
                for (key, value) in facts.iter().copied().map(pair) {
                    match key {
                        "cpus" => others.holds.cpu_milli = number(value) * 1_000,
                        "memory" => others.holds.memory = number(value) * GIB,
                        "attempts" => others.holds.attempts = number(value) as u32,
                        "exclusive" => others.holds.exclusive = true,
                        "ahead" => (others.ahead.cpu_milli, others.ahead.attempts) = (number(value) * 1_000, 1),
                        "ahead_exclusive" => (others.ahead.exclusive, others.ahead.attempts) = (true, 1),
                        "gpu" => others.gpus.push(GpuId(number(value) as u32)),
                        "reserved" => _ = others.reserved.insert(GpuId(number(value) as u32)),
                        "gone" => others.runs = 0,
                        _ => panic!("others have no {key}"),
                    }
                }
                Event::Others(others)
            }
            ("cancel", [grace]) => Event::Cancel { grace: seconds(grace) },
            ("tick", _) => Event::Tick,
            _ => panic!("no event {line}"),
        }]
    }

    /// Answers requests, and ticks if that is due.
    fn settle_down(&mut self, said: &mut Vec<String>) {
        while self.scheduler.next_wake().is_some_and(|wake| wake <= self.now) {
            self.handle(self.now, Event::Tick, said);
        }
    }

    pub(super) fn handle(&mut self, at: Time, event: Event, said: &mut Vec<String>) {
        let mut out = Vec::new();
        self.scheduler.handle(at, event.clone(), &mut out);
        if !self.unchecked {
            self.scheduler.check().unwrap_or_else(|what| panic!("after {event:?}: {what}"));
        }
        for action in out {
            if let Some(words) = self.words(&action) {
                said.push(words);
            }
            match action {
                Action::LookUp { instances } => {
                    for instance in instances {
                        let answer = self.answers.get(&instance).cloned().unwrap_or(Answer::Miss);
                        self.handle(at, Event::Answered { instance, answer }, said);
                    }
                }
                Action::Start { attempt, instance, .. } => {
                    self.attempts.insert(instance, attempt);
                    self.owners.insert(attempt, instance);
                    // It waits for a batch system, or for its folder.
                    if !self.scheduler.core().node(instance).task.batch && !self.filling.contains(&instance) {
                        self.handle(at, Event::Started { attempt }, said);
                    }
                }
                Action::Record { instance, .. } => self.handle(at, Event::Recorded { instance }, said),
                _ => {}
            }
        }
    }

    fn words(&self, action: &Action) -> Option<String> {
        let name = |id: &InstanceId| self.names[id.index()].clone();
        let all = |attempts: &[AttemptId]| attempts.iter().map(|a| name(&self.owners[a])).collect::<Vec<_>>().join(" ");
        Some(match action {
            Action::LookUp { .. } => return None,
            Action::Start { instance, placement, .. } if placement.gpus.is_empty() => {
                format!("start {}", name(instance))
            }
            Action::Start { instance, placement, .. } => {
                let gpus: Vec<_> = placement.gpus.iter().map(|gpu| gpu.0.to_string()).collect();
                let trial = if placement.trial { " on trial" } else { "" };
                format!("start {} on {}{trial}", name(instance), gpus.join("+"))
            }
            Action::Release { attempts } => format!("release {}", all(attempts)),
            Action::Stop { attempts } => format!("stop {}", all(attempts)),
            Action::Preempt { attempt } => format!("preempt {}", all(&[*attempt])),
            Action::Kill { attempt, grace, outcome } => {
                format!("kill {} in {} {}", all(&[*attempt]), grace.as_secs_f64(), word(*outcome))
            }
            Action::Record { instance, .. } => format!("record {}", name(instance)),
            Action::Discard { instance, retry_at, .. } => {
                format!("discard {} until {}", name(instance), retry_at.as_secs_f64())
            }
            Action::Settle { instance, outcome, because } => {
                let because = because.map(|id| format!(" for {}", name(&id))).unwrap_or_default();
                format!("settle {} {}{because}", name(instance), word(*outcome))
            }
            Action::Finish => "finish".to_owned(),
        })
    }

    pub(super) fn id(&self, name: &str) -> InstanceId {
        *self.ids.get(name).unwrap_or_else(|| panic!("no task {name}"))
    }

    pub(super) fn name(&self, id: InstanceId) -> &str {
        &self.names[id.index()]
    }

    pub(super) fn waits(&self, name: &str) -> WaitState {
        self.scheduler.explain(self.now, self.id(name))
    }
}

fn pair(word: &str) -> (&str, &str) {
    word.split_once('=').unwrap_or((word, ""))
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

fn price(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is no price"))
}

fn seconds(text: &str) -> Span {
    Span::from_secs_f64(text.parse().unwrap_or_else(|_| panic!("{text} is no number")))
}

fn outcome(word: &str) -> Outcome {
    serde_json::from_str(&format!("\"{word}\"")).unwrap_or_else(|_| panic!("{word} is no outcome"))
}

fn word(outcome: Outcome) -> String {
    serde_json::to_string(&outcome).unwrap().trim_matches('"').to_owned()
}
