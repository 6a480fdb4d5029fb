//! Co-run groups out of results: whose runs are compared with which, what of them counts, and what keeps a group from being judged.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Call, Called, Times, call, more};
use crate::{CorunGpus, Mode, Outcome, StepResult, likeness, reason::Spoiled, unlike};

/// From this share of the host on, what other programs use of the CPU counts: a measurement beside them decides nothing.
pub const FOREIGN_CPU: f64 = 0.10;

/// A co-run group with all of its repetitions.
#[derive(Clone, Debug)]
pub struct Group<'r> {
    pub name: String,
    /// Where its members ran.
    pub placement: CorunGpus,
    /// In the order of the matrix.
    pub members: Vec<Runs<'r>>,
}

/// The runs of a member, by repetition.
#[derive(Clone, Debug)]
pub struct Runs<'r> {
    pub together: Vec<&'r StepResult>,
    /// As many as there are together, at most: what others had repeated tells nothing more of this group.
    pub alone: Vec<&'r StepResult>,
}

/// What a group comes to.
#[derive(Clone, Debug)]
pub struct Judged<'r> {
    pub verdict: Verdict,
    /// What was compared: `epoch_time`, `iteration_time`, or `wall` for programs without epochs.
    pub measure: &'static str,
    /// The call with its figures, where there was something to compare.
    pub called: Option<Called>,
    /// The times that the call rests on, of each member; none where there is no call.
    pub times: Vec<Times>,
    /// Of what is undecided: how many more repetitions would decide it, where somebody might make as many.
    pub more: Option<u32>,
    /// How often the group ran.
    pub looks: u32,
    /// The repetitions that do not count, each with what is the matter with it; nothing of one in which a member is missing.
    pub left_out: Vec<Option<Verdict>>,
    /// Each member with its run alone, of the first repetition that counts, or else of one that could be compared.
    pub pairs: Vec<(&'r StepResult, Option<&'r StepResult>)>,
}

/// What running together comes to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// As fast as alone, up to the tolerance.
    Parallel,
    /// Slower, yet more work done than one after another.
    OnlyConcurrent,
    /// Slower, and as much work done as one after another.
    NoGain,
    /// Less work done than one after another.
    SlowerThanOneAfterAnother,
    /// The differences are within the noise.
    TooNoisy,
    /// Other programs used the CPU while this member, or its run alone, was measured: the difference may be theirs.
    ForeignCpu { label: String, used: f64 },
    /// A member has no epoch while all were running.
    NotEnoughOverlap { label: String },
    /// A member ran out of memory beside the others.
    OutOfMemory { label: String },
    /// There is nothing to judge.
    Refused { refusal: Refusal },
}

impl Verdict {
    /// The call that it rests on; none where there was nothing to call.
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

    /// Another repetition may decide it.
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

/// Why there is nothing to judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", rename_all = "snake_case", tag = "why")]
pub enum Refusal {
    /// Nothing ran beside its only member.
    OneMember,
    /// What a member is compared with ran beside others of flow's own.
    NotAlone { label: String, beside: Vec<String> },
    /// A member has no run alone to compare with.
    NoSolo { label: String },
    /// A member and its run alone are not alike.
    Unlike { label: String, what: String, one: String, other: String },
    /// One of them has no number.
    Ended { label: String, outcome: Outcome },
    /// One of them is not to be trusted.
    Spoiled { label: String, reasons: Vec<Spoiled> },
    /// Neither epochs nor a wall time to compare.
    NoTime { label: String },
    /// It has no epochs to compare, and its wall time is that of several starts: it went on from a checkpoint.
    WentOn { label: String },
}

crate::compiled_once::compiled_once!(Refusal);

/// The groups of a co-run step, with the runs alone of the step that it is like.
pub fn groups<'r>(
    together: impl IntoIterator<Item = &'r StepResult>,
    solo: impl IntoIterator<Item = &'r StepResult> + Clone,
) -> Vec<Group<'r>> {
    let mut groups: IndexMap<&str, (CorunGpus, IndexMap<String, Vec<&StepResult>>)> = IndexMap::new();
    for result in together {
        let Some(window) = &result.circumstances.corun else { continue };
        // Repetitions of a group are told apart by their numbers, `v7#1`.
        let number = result.repetition.map(|n| format!("#{n}"));
        let name = number.as_deref().and_then(|number| window.group.strip_suffix(number)).unwrap_or(&window.group);
        let (_, members) = groups.entry(name).or_insert((window.gpus, IndexMap::new()));
        members.entry(point(&result.axes)).or_default().push(result);
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

/// A point of the matrix as a key.
fn point(axes: &IndexMap<String, Value>) -> String {
    Value::from_iter(axes.clone()).to_string()
}

/// Members of one repetition, each with its run alone.
type Round<'r> = Vec<(&'r StepResult, Option<&'r StepResult>)>;

impl<'r> Group<'r> {
    /// Judges it by all of its repetitions.
    pub fn judge(&self, tolerance: f64) -> Judged<'r> {
        let looks = self.members.iter().map(|member| member.together.len()).max().unwrap_or(0);
        let rounds: Vec<Round<'r>> = (0..looks).map(|look| self.round(look)).collect();
        // Where the first cannot be compared, a later one may be.
        let is_comparable = |round: &&Round<'_>| refused(round, measure(round)).is_none();
        let first = rounds.iter().find(is_comparable).or(rounds.first()).cloned().unwrap_or_default();
        let measure = measure(&first);
        let mut judged = Judged {
            verdict: Verdict::TooNoisy,
            measure,
            called: None,
            times: Vec::new(),
            more: None,
            looks: looks as u32,
            left_out: Vec::new(),
            pairs: first,
        };
        if let Some(verdict) = refused(&judged.pairs, measure) {
            judged.verdict = verdict;
            return judged;
        }
        // Of the others those count that can be compared; of all, those that nobody disturbed.
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
        judged.verdict = called.call.into();
        judged.more = (called.call == Call::Undecided).then(|| more(&times, judged.looks, tolerance)).flatten();
        judged.called = Some(called);
        judged.times = times;
        judged
    }

    fn round(&self, look: usize) -> Round<'r> {
        let of = |runs: &Runs<'r>| {
            // Whose runs alone are fewer are compared with the first.
            Some((*runs.together.get(look)?, runs.alone.get(look).or(runs.alone.first()).copied()))
        };
        self.members.iter().filter_map(of).collect()
    }
}

/// What is compared where there are neither epochs nor iterations: from start to end.
const WALL: &str = "wall";

/// A number of a result that was measured and is one.
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

fn measure(pairs: &Round<'_>) -> &'static str {
    let all = |name: &str| {
        pairs.iter().filter(|(m, _)| m.outcome == Outcome::Ok).all(|(m, s)| {
            m.metrics.contains_key(name) && s.is_none_or(|s| s.outcome != Outcome::Ok || s.metrics.contains_key(name))
        })
    };
    ["epoch_time", "iteration_time"].into_iter().find(|name| all(name)).unwrap_or(WALL)
}

/// The measurement beside which other programs used the most of the CPU, if that was too much.
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
            if !result.spoiled.is_empty() {
                return refuse(Refusal::Spoiled { label, reasons: result.spoiled.clone() });
            }
            if result.circumstances.mode == Mode::Plain && !result.circumstances.corunners.is_empty() {
                return refuse(Refusal::NotAlone { label, beside: result.circumstances.corunners.clone() });
            }
            if measure == WALL && result.usage.earlier.is_some() {
                return refuse(Refusal::WentOn { label });
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
        // A program without epochs must have spent most of its time beside all the others.
        Some(window) if measure == WALL => {
            member.usage.wall_s.is_some_and(|wall_s| window.closed_at - window.released_at >= 0.8 * wall_s)
        }
        Some(window) => window.epochs > 0,
        None => false,
    };
    let apart = pairs.iter().find(|(member, _)| !overlaps(member))?;
    Some(Verdict::NotEnoughOverlap { label: apart.0.label.clone() })
}
