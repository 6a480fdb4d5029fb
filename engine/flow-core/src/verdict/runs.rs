//! Co-run groups from results: which runs are compared, which repetitions count, and why a group cannot be judged.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Call, CallFigures, Times, call, more};
use crate::{CorunGpus, Mode, Outcome, StepResult, likeness, reason::Disturbance, unlike};

/// If other programs use more than this share of the host's CPU, a measurement decides nothing.
pub const FOREIGN_CPU: f64 = 0.10;

/// A co-run group with all of its repetitions.
#[derive(Clone, Debug)]
pub struct Group<'r> {
    pub name: String,
    /// The placement of its members on GPUs.
    pub placement: CorunGpus,
    /// Members, in the order of the matrix.
    pub members: Vec<Runs<'r>>,
}

/// The runs of a member, by repetition.
#[derive(Clone, Debug)]
pub struct Runs<'r> {
    pub together: Vec<&'r StepResult>,
    /// At most as many as there are together. Further repetitions, made for other groups, say nothing about this one.
    pub alone: Vec<&'r StepResult>,
}

/// The result for a group.
#[derive(Clone, Debug, Default)]
pub struct GroupJudgement<'r> {
    pub verdict: Verdict,
    /// The compared measure: `epoch_time`, `iteration_time`, or `wall` for programs without epochs.
    pub measure: &'static str,
    /// The call with its figures, if anything could be compared.
    pub called: Option<CallFigures>,
    /// The times behind the call, for each member; empty without a call.
    pub times: Vec<Times>,
    /// For an undecided group: how many more repetitions would decide it, if the number is realistic.
    pub more: Option<u32>,
    /// How often the group ran.
    pub looks: u32,
    /// The repetitions that do not count, each with the reason; `None` if a member is missing.
    pub left_out: Vec<Option<Verdict>>,
    /// If the gain exceeds what the CPUs can do: the largest gain that they allow.
    pub possible: Option<f64>,
    /// Each member with its run alone, from the first repetition that counts, or else from one that can be compared.
    pub pairs: Vec<(&'r StepResult, Option<&'r StepResult>)>,
}

/// The verdict about a co-run group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// As fast as alone, within the tolerance.
    Parallel,
    /// Slower than alone, but more work is done than one after another.
    OnlyConcurrent,
    /// Slower than alone, and as much work is done as one after another.
    NoGain,
    /// Less work is done than one after another.
    SlowerThanOneAfterAnother,
    /// The differences are within the noise.
    #[default]
    TooNoisy,
    /// Other programs used the CPU during the measurement of this member, or of its run alone, and may have caused the
    /// difference.
    ForeignCpu { label: String, used: f64 },
    /// A member finished no epoch while all were running.
    NotEnoughOverlap { label: String },
    /// A member ran out of memory alongside the others.
    OutOfMemory { label: String },
    /// The group cannot be judged.
    Refused { refusal: Refusal },
}

impl Verdict {
    /// The call behind the verdict; `None` if nothing could be compared.
    pub fn call(&self) -> Option<Call> {
        match self {
            Verdict::Parallel => Some(Call::Parallel),
            Verdict::OnlyConcurrent => Some(Call::OnlyConcurrent),
            Verdict::NoGain => Some(Call::NoGain),
            Verdict::SlowerThanOneAfterAnother => Some(Call::SlowerThanOneAfterAnother),
            Verdict::TooNoisy | Verdict::ForeignCpu { .. } => Some(Call::Undecided),
            Verdict::NotEnoughOverlap { .. } | Verdict::OutOfMemory { .. } | Verdict::Refused { .. } => None,
        }
    }

    /// Whether another repetition may decide it.
    pub fn is_undecided(&self) -> bool {
        self.call() == Some(Call::Undecided)
    }
}

impl From<Call> for Verdict {
    fn from(call: Call) -> Verdict {
        match call {
            Call::Parallel => Verdict::Parallel,
            Call::OnlyConcurrent => Verdict::OnlyConcurrent,
            Call::NoGain => Verdict::NoGain,
            Call::SlowerThanOneAfterAnother => Verdict::SlowerThanOneAfterAnother,
            Call::Undecided => Verdict::TooNoisy,
        }
    }
}

/// The reason why a group cannot be judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", rename_all = "snake_case", tag = "why")]
pub enum Refusal {
    /// The group has only one member.
    OneMember,
    /// A compared run ran alongside other steps of flow.
    NotAlone { label: String, beside: Vec<String> },
    /// A member has no run alone to compare with.
    NoSolo { label: String },
    /// A member and its run alone differ in their circumstances.
    Unlike { label: String, what: String, one: String, other: String },
    /// One of the two did not end well.
    Ended { label: String, outcome: Outcome },
    /// One of the two measurements was disturbed.
    Disturbed { label: String, reasons: Vec<Disturbance> },
    /// There are neither epochs nor a wall time to compare.
    NoTime { label: String },
    /// A program without epochs resumed from a checkpoint, so its wall time covers several starts.
    Resumed { label: String },
}

crate::compiled_once::compiled_once!(Refusal);

/// The groups of a co-run step. `solo` has the results of the step that it is `like`.
pub fn groups<'r>(
    together: impl IntoIterator<Item = &'r StepResult>,
    solo: impl IntoIterator<Item = &'r StepResult> + Clone,
) -> Vec<Group<'r>> {
    let mut groups: IndexMap<&str, (CorunGpus, IndexMap<String, Vec<&StepResult>>)> = IndexMap::new();
    for result in together {
        let Some(window) = &result.circumstances.corun else { continue };
        // Repetitions of a group have a number in their name, `v7#1`.
        let number = result.repetition.map(|n| format!("#{n}"));
        let name = number.as_deref().and_then(|number| window.group.strip_suffix(number)).unwrap_or(&window.group);
        let (_, members) = groups.entry(name).or_insert((window.gpus, IndexMap::new()));
        let point = Value::from_iter(result.axes.clone()).to_string();
        members.entry(point).or_default().push(result);
    }
    let runs = |mut together: Vec<&'r StepResult>| {
        together.sort_by_key(|run| run.repetition);
        let mut alone: Vec<&StepResult> = together[0].runs_alone(solo.clone());
        alone.truncate(together.len());
        Runs { together, alone }
    };
    let group = |(name, (placement, members)): (&str, (CorunGpus, IndexMap<_, _>))| Group {
        name: name.to_owned(),
        placement,
        members: members.into_values().map(runs).collect(),
    };
    groups.into_iter().map(group).collect()
}

/// The members of one repetition, each with its run alone.
type Round<'r> = Vec<(&'r StepResult, Option<&'r StepResult>)>;

impl<'r> Group<'r> {
    /// Judges the group by all of its repetitions.
    pub fn judge(&self, tolerance: f64) -> GroupJudgement<'r> {
        let looks = self.members.iter().map(|member| member.together.len()).max().unwrap_or(0);
        let rounds: Vec<Round<'r>> = (0..looks).map(|look| self.round(look)).collect();
        // If the first repetition cannot be compared, a later one may be.
        let is_comparable = |round: &&Round<'_>| refused(round, measure(round)).is_none();
        let first = rounds.iter().find(is_comparable).or(rounds.first()).cloned().unwrap_or_default();
        let measure = measure(&first);
        let mut judged = GroupJudgement { measure, looks: looks as u32, pairs: first, ..GroupJudgement::default() };
        if let Some(verdict) = refused(&judged.pairs, measure) {
            judged.verdict = verdict;
            return judged;
        }
        // A repetition counts if it can be compared, has all members, and was not disturbed.
        let mut counting: Vec<&Round<'r>> = Vec::new();
        for round in &rounds {
            match refused(round, measure).or_else(|| disturbed(round)) {
                None if round.len() == self.members.len() => counting.push(round),
                why => judged.left_out.push(why),
            }
        }
        let Some(best) = counting.first() else {
            judged.verdict = disturbed(&judged.pairs).unwrap_or(Verdict::TooNoisy);
            return judged;
        };
        let times: Vec<Times> = (0..best.len()).map(|member| times(&counting, member, measure)).collect();
        let called = call(&times, judged.looks, tolerance);
        judged.pairs.clone_from(best);
        judged.possible = possible(best, &times).filter(|most| called.gain > *most);
        // The whole interval is impossible, so some of the times are wrong.
        let impossible = judged.possible.is_some_and(|most| called.gain - called.half > most);
        judged.verdict = if impossible { Verdict::TooNoisy } else { called.call.into() };
        judged.more = judged.verdict.is_undecided().then(|| more(&times, judged.looks, tolerance)).flatten();
        judged.called = Some(called);
        judged.times = times;
        judged
    }

    fn round(&self, look: usize) -> Round<'r> {
        let of = |runs: &Runs<'r>| {
            // A member with fewer runs alone is compared with the first of them.
            Some((*runs.together.get(look)?, runs.alone.get(look).or(runs.alone.first()).copied()))
        };
        self.members.iter().filter_map(of).collect()
    }
}

/// The compared measure without epochs and iterations: from start to end.
const WALL: &str = "wall";

/// A positive, finite time of a successful result.
fn time(result: &StepResult, measure: &str) -> Option<f64> {
    let time = match measure {
        WALL => result.usage.wall_s,
        _ => result.metrics.get(measure).map(|metric| metric.value),
    };
    time.filter(|time| result.outcome == Outcome::Ok && time.is_finite() && *time > 0.0)
}

fn times(rounds: &[&Round<'_>], member: usize, measure: &str) -> Times {
    let mut alone: Vec<&StepResult> = Vec::new();
    let mut together = Vec::new();
    for round in rounds {
        together.extend(time(round[member].0, measure));
        alone.extend(round[member].1.filter(|run| !alone.iter().any(|known| known.label == run.label)));
    }
    let error = |run: &StepResult| {
        let metric = run.metrics.get(measure)?;
        let epochs = f64::from(metric.epochs.filter(|n| *n > 1)?);
        Some(metric.sd? / metric.value / epochs.sqrt())
    };
    let (one, other) = rounds[0][member];
    let epochs = error(one).zip(other.and_then(error)).map(|(one, other)| one.hypot(other));
    Times { alone: alone.into_iter().filter_map(|run| time(run, measure)).collect(), together, epochs }
}

/// The largest gain that the CPUs of the host allow, if all members run on CPUs alone: there, a member that is as fast as
/// alone uses as many CPUs as alone. `None` if that use was not measured.
fn possible(pairs: &Round<'_>, times: &[Times]) -> Option<f64> {
    let (mut gain, mut needed, mut cpus) = (0.0, 0.0, 0);
    for ((member, solo), times) in pairs.iter().zip(times) {
        let solo = (*solo).filter(|_| member.circumstances.gpu_models.is_empty())?;
        let speed = times.speed();
        gain += speed;
        needed += speed * solo.usage.cores()?;
        cpus = cpus.max(member.circumstances.usable_cpus());
    }
    (cpus > 0 && needed > 0.0).then(|| gain * f64::from(cpus) / needed)
}

fn measure(pairs: &Round<'_>) -> &'static str {
    let all = |name: &str| {
        pairs.iter().filter(|(m, _)| m.outcome == Outcome::Ok).all(|(m, s)| {
            m.metrics.contains_key(name) && s.is_none_or(|s| s.outcome != Outcome::Ok || s.metrics.contains_key(name))
        })
    };
    ["epoch_time", "iteration_time"].into_iter().find(|name| all(name)).unwrap_or(WALL)
}

/// The verdict for the measurement with the most foreign CPU use, if that is too much.
fn disturbed(pairs: &Round<'_>) -> Option<Verdict> {
    let all = pairs.iter().flat_map(|(member, solo)| [Some(*member), *solo]).flatten();
    let sampled = all.filter_map(|run| Some((run, run.circumstances.foreign_cpu?)));
    let (result, used) = sampled.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, used)| *used > FOREIGN_CPU)?;
    Some(Verdict::ForeignCpu { label: result.label.clone(), used })
}

fn refused(pairs: &Round<'_>, measure: &str) -> Option<Verdict> {
    let refuse = |refusal| Some(Verdict::Refused { refusal });
    if pairs.len() < 2 {
        return refuse(Refusal::OneMember);
    }
    for (member, _) in pairs {
        if member.outcome == Outcome::OutOfMemory {
            return Some(Verdict::OutOfMemory { label: member.label.clone() });
        }
    }
    for (member, solo) in pairs {
        let Some(solo) = solo else {
            return refuse(Refusal::NoSolo { label: member.label.clone() });
        };
        for result in [*member, *solo] {
            let label = result.label.clone();
            if result.outcome != Outcome::Ok {
                return refuse(Refusal::Ended { label, outcome: result.outcome });
            }
            if !result.disturbances.is_empty() {
                return refuse(Refusal::Disturbed { label, reasons: result.disturbances.clone() });
            }
            if result.circumstances.mode == Mode::Plain && !result.circumstances.corunners.is_empty() {
                return refuse(Refusal::NotAlone { label, beside: result.circumstances.corunners.clone() });
            }
            if measure == WALL && result.usage.earlier.is_some() {
                return refuse(Refusal::Resumed { label });
            }
            if time(result, measure).is_none() {
                return refuse(Refusal::NoTime { label });
            }
        }
        let without_mode =
            |r: &StepResult| likeness(r).into_iter().filter(|(what, _)| *what != "mode").collect::<Vec<_>>();
        if let Some((what, one, other)) = unlike(&without_mode(solo), &without_mode(member)) {
            return refuse(Refusal::Unlike { label: member.label.clone(), what, one, other });
        }
    }
    let overlaps = |member: &StepResult| match &member.circumstances.corun {
        // A program without epochs must have spent most of its time alongside all the others.
        Some(window) if measure == WALL => {
            member.usage.wall_s.is_some_and(|wall_s| window.closed_at - window.released_at >= 0.8 * wall_s)
        }
        Some(window) => window.epochs > 0,
        None => false,
    };
    let apart = pairs.iter().find(|(member, _)| !overlaps(member))?;
    Some(Verdict::NotEnoughOverlap { label: apart.0.label.clone() })
}
