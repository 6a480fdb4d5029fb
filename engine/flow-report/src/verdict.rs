//! What running together did: each member against its run alone, a verdict for the group, and what each resource has to do
//! with it. Values only; words and tables are elsewhere.

use flow_core::sched::contention::{self, Host, Load};
use flow_core::{CorunGpus, Mode, Outcome, StepResult, reason::Spoiled};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::columns::{self, Datum, datum, likeness, unlike};

/// Slower than alone by up to this is still parallel, unless the section says otherwise.
pub(crate) const TOLERANCE: f64 = 0.10;
/// How many standard errors a difference must exceed.
const SIGMAS: f64 = 2.0;
/// A gain is known to be none where half its interval is no wider.
const NARROW: f64 = 0.05;
/// The relative standard error of a measurement of which no spread is known, nor of any other in its group: what a program that
/// runs again undisturbed is usually off by.
const ONCE: f64 = 0.02;
/// From this share of the host on, what other programs use of the CPU counts: a line below the report, and no verdict.
pub(crate) const FOREIGN_CPU: f64 = 0.10;
/// Demand below this share of a resource leaves it room: it is ruled out.
const ROOM: f64 = 0.90;

/// A co-run group, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Together {
    /// The group's name.
    pub(crate) group: String,
    /// Where its members ran.
    pub(crate) placement: CorunGpus,
    /// The number that is compared: `epoch_time`, or `wall` for programs without epochs.
    pub(crate) measure: String,
    /// Members, in the order of the matrix.
    pub(crate) members: Vec<Member>,
    /// What it comes to.
    pub(crate) verdict: Verdict,
    /// Slower together than the tolerance allows, beyond the noise.
    pub(crate) slower: bool,
    /// Work done together, in units of one job running alone: above 1 is a gain over one after another. With half its interval, of
    /// two standard errors.
    pub(crate) gain: Option<(f64, f64)>,
    /// Slower than alone by up to this share is still parallel.
    pub(crate) tolerance: f64,
    /// What each resource has to do with it.
    pub(crate) rulings: Vec<Ruling>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) label: String,
    pub(crate) axes: IndexMap<String, Value>,
    pub(crate) gpus: Option<u32>,
    pub(crate) alone: Option<f64>,
    pub(crate) together: Option<f64>,
    /// What was to be expected together, from the runs alone.
    pub(crate) predicted: Option<f64>,
    /// CPU use alone, as a share of the host.
    pub(crate) cpu: Option<f64>,
    /// What it used while all ran together.
    pub(crate) used: Used,
    /// What other programs used of the CPU meanwhile: alone, and together.
    pub(crate) foreign: (Option<f64>, Option<f64>),
}

/// What a member used while all ran together: shares of the host and of time, and bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Used {
    pub(crate) cpu: Option<f64>,
    pub(crate) cpu_peak: Option<f64>,
    pub(crate) gpu_load: Option<f64>,
    pub(crate) gpu_load_peak: Option<f64>,
    pub(crate) gpu_memory: Option<f64>,
}

impl Used {
    fn of(member: &StepResult) -> Used {
        let of = |name: &str| number(member, name);
        Used {
            cpu: of("cpu_util"),
            cpu_peak: of("cpu_util_peak").filter(|peak| *peak > 0.0),
            // All zeros is what a driver that does not tell gives.
            gpu_load: of("gpu_load").filter(|load| *load > 0.0),
            gpu_load_peak: of("gpu_load_peak").filter(|load| *load > 0.0),
            gpu_memory: of("gpu_memory").filter(|bytes| *bytes > 0.0),
        }
    }
}

impl Together {
    /// How much slower than alone a member is: 0.5 is half as long again. Nothing where the two are not to be compared.
    pub(crate) fn slowdown(&self, member: &Member) -> Option<f64> {
        let judged = matches!(
            self.verdict,
            Verdict::Parallel
                | Verdict::OnlyConcurrent
                | Verdict::NoGain
                | Verdict::SlowerThanOneAfterAnother
                | Verdict::TooNoisy
        );
        judged.then_some(member.together? / member.alone? - 1.0)
    }
}

/// What running together comes to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub(crate) enum Verdict {
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

/// Why there is nothing to judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "why")]
pub(crate) enum Refusal {
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
}

/// Something that members share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Resource {
    /// Processor time of the host.
    Cpu,
    /// Kernels on a GPU.
    Gpu,
    /// Size of the GPU's memory.
    GpuMemory,
    /// Traffic of the GPU's memory.
    GpuMemoryTraffic,
    /// Waiting for data: the loader.
    Data,
}

impl Resource {
    /// The end of its message keys.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Resource::Cpu => "cpu",
            Resource::Gpu => "gpu",
            Resource::GpuMemory => "gpu_memory",
            Resource::GpuMemoryTraffic => "gpu_memory_traffic",
            Resource::Data => "data",
        }
    }
}

/// What a resource has to do with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ruling {
    pub(crate) resource: Resource,
    pub(crate) ruled: Ruled,
    /// What the members ask for in sum, as a share of what there is; for data, the largest share of an epoch spent waiting.
    pub(crate) asked: Option<f64>,
    /// For data: the same alone.
    pub(crate) alone: Option<f64>,
}

/// In or out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ruled {
    /// It ran out.
    In,
    /// It did not.
    Out,
    /// Each member has its own.
    OutOwn,
    /// Between the two.
    Unclear,
    /// There are no figures for it.
    NotMeasured,
}

impl Ruled {
    pub(crate) fn is_out(self) -> bool {
        matches!(self, Ruled::Out | Ruled::OutOwn)
    }
}

/// Judges every group of a co-run step against the step that it is like.
pub(crate) fn judge(together: &[StepResult], solo: &[StepResult], tolerance: f64) -> Vec<Together> {
    let mut groups: IndexMap<String, Vec<&StepResult>> = IndexMap::new();
    for result in together {
        if let Some(window) = &result.circumstances.corun {
            groups.entry(window.group.clone()).or_default().push(result);
        }
    }
    groups.into_iter().map(|(name, members)| group(name, &members, solo, tolerance)).collect()
}

fn group(name: String, members: &[&StepResult], solo: &[StepResult], tolerance: f64) -> Together {
    let placement = members.iter().find_map(|m| m.circumstances.corun.as_ref()).map(|w| w.gpus).unwrap_or_default();
    let pairs: Vec<(&StepResult, Option<&StepResult>)> = members.iter().map(|m| (*m, m.run_alone(solo))).collect();
    let measure = measure(&pairs);
    let predicted = predicted(&pairs, solo, placement, measure);
    let shown = pairs.iter().enumerate().map(|(i, (member, solo))| Member {
        label: member.label.clone(),
        axes: member.axes.clone(),
        gpus: columns::gpus(member),
        alone: solo.and_then(|s| number(s, measure)),
        together: number(member, measure),
        predicted: predicted.as_ref().and_then(|all| all.get(i).copied()),
        cpu: solo.and_then(|s| number(s, "cpu_util")),
        used: Used::of(member),
        foreign: (solo.and_then(|s| number(s, "foreign_cpu")), number(member, "foreign_cpu")),
    });
    let mut judged = Together {
        group: name,
        placement,
        measure: measure.into(),
        members: shown.collect(),
        verdict: Verdict::TooNoisy,
        slower: false,
        gain: None,
        tolerance,
        rulings: Vec::new(),
    };
    if let Some(verdict) = refused(&pairs, measure) {
        judged.verdict = verdict;
        return judged;
    }
    let pairs: Vec<(&StepResult, &StepResult)> = pairs.iter().filter_map(|(m, s)| Some((*m, (*s)?))).collect();
    if let Some(verdict) = disturbed(&pairs) {
        judged.verdict = verdict;
        return judged;
    }
    let speeds = speeds(&pairs, measure);
    let gain: f64 = speeds.iter().map(|(speed, _)| speed).sum();
    let gain_error = speeds.iter().map(|(speed, error)| (speed * error).powi(2)).sum::<f64>().sqrt();
    // A member is slower by 1/speed − 1; what counts is the one that suffers most.
    let slow = |sign: f64| speeds.iter().map(|(s, e)| (1.0 + sign * SIGMAS * e) / s).fold(0.0, f64::max);
    let bound = 1.0 + tolerance;
    judged.slower = slow(-1.0) > bound;
    let half = SIGMAS * gain_error;
    judged.verdict = if slow(0.0) <= bound && slow(1.0) <= bound + tolerance {
        Verdict::Parallel
    } else if !judged.slower {
        Verdict::TooNoisy
    } else if (gain - 1.0).abs() < half {
        if half <= NARROW { Verdict::NoGain } else { Verdict::TooNoisy }
    } else if gain > 1.0 {
        Verdict::OnlyConcurrent
    } else {
        Verdict::SlowerThanOneAfterAnother
    };
    judged.gain = Some((gain, half));
    judged.rulings = rulings(&pairs, placement);
    judged
}

/// The time that each member was to be expected to take, from runs alone only; `None` unless all have one with figures. CPU work
/// beside a GPU belongs to the dataset, and is pooled over the runs that differ from a member's in numbers alone. What sharing a GPU
/// costs on this device is not known here: it counts as never learned.
fn predicted(
    pairs: &[(&StepResult, Option<&StepResult>)],
    solo: &[StepResult],
    placement: CorunGpus,
    measure: &str,
) -> Option<Vec<f64>> {
    let sampled = |result: &StepResult| (result.usage.samples > 0).then_some(result.usage.cpu_cores);
    let words =
        |result: &StepResult| -> Vec<Value> { result.axes.values().filter(|v| !v.is_number()).cloned().collect() };
    let work = |result: &StepResult| Some(sampled(result)? * number(result, measure)?);
    let (mut loads, mut times, mut next, mut cores) = (Vec::new(), Vec::new(), 0, 0);
    for (_, alone) in pairs {
        let alone = (*alone)?;
        let time = number(alone, measure).filter(|time| *time > 0.0)?;
        sampled(alone)?;
        let gpus = alone.usage.gpus.len();
        // Without a GPU the CPU does the training as well, and that is the member's own.
        let like =
            |other: &&StepResult| if gpus > 0 { words(other) == words(alone) } else { other.label == alone.label };
        let works: Vec<f64> = solo.iter().filter(like).filter_map(work).collect();
        let first = if placement == CorunGpus::Own { next } else { 0 };
        next += gpus;
        cores = cores.max(alone.circumstances.host_cpus);
        loads.push(Load {
            cores: works.iter().sum::<f64>() / works.len().max(1) as f64 / time,
            gpu_busy: alone.usage.gpus.iter().map(|gpu| gpu.load_mean).fold(0.0, f64::max),
            gpus: (first..first + gpus).collect(),
        });
        times.push(time);
    }
    let speeds = contention::speeds(&loads, &Host { cores: f64::from(cores), devices: Vec::new() });
    (cores > 0).then(|| times.iter().zip(speeds).map(|(time, speed)| time / speed).collect())
}

fn number(result: &StepResult, name: &str) -> Option<f64> {
    if result.outcome != Outcome::Ok {
        return None;
    }
    match datum(result, name)? {
        Datum::Measured { value, .. } => Some(value),
        Datum::Declared { number, .. } => number,
        Datum::NotANumber | Datum::NotMeasured => None,
    }
}

fn measure(pairs: &[(&StepResult, Option<&StepResult>)]) -> &'static str {
    let all = |name: &str| {
        pairs.iter().filter(|(m, _)| m.outcome == Outcome::Ok).all(|(m, s)| {
            m.metrics.contains_key(name) && s.is_none_or(|s| s.outcome != Outcome::Ok || s.metrics.contains_key(name))
        })
    };
    ["epoch_time", "iteration_time"].into_iter().find(|name| all(name)).unwrap_or("wall")
}

/// The measurement beside which other programs used the most of the CPU, if that was too much.
fn disturbed(pairs: &[(&StepResult, &StepResult)]) -> Option<Verdict> {
    let all = pairs.iter().flat_map(|(member, solo)| [*member, *solo]);
    let used = all.filter_map(|r| Some((r, number(r, "foreign_cpu")?)));
    let (result, used) = used.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, used)| *used > FOREIGN_CPU)?;
    Some(Verdict::ForeignCpu { label: result.label.clone(), used })
}

fn refused(pairs: &[(&StepResult, Option<&StepResult>)], measure: &str) -> Option<Verdict> {
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
            if number(result, measure).is_none_or(|v| v <= 0.0) {
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
        Some(window) if measure == "wall" => window.closed_at - window.released_at >= 0.8 * member.usage.wall_s,
        Some(window) => window.epochs > 0,
        None => false,
    };
    let apart = pairs.iter().find(|(member, _)| !overlaps(member))?;
    Some(Verdict::NotEnoughOverlap { label: apart.0.label.clone() })
}

/// Speed of each member together (1 is as fast as alone), with its relative standard error.
fn speeds(pairs: &[(&StepResult, &StepResult)], measure: &str) -> Vec<(f64, f64)> {
    let relative = |r: &StepResult| {
        let metric = r.metrics.get(measure)?;
        Some((metric.sd? / metric.value, f64::from(metric.epochs.filter(|n| *n > 1)?)))
    };
    // One epoch alone has no spread of its own: the group's typical one stands in for it, or what is usual.
    let mut known: Vec<f64> =
        pairs.iter().flat_map(|(m, s)| [relative(m), relative(s)]).flatten().map(|(sd, _)| sd).collect();
    known.sort_by(f64::total_cmp);
    let typical = known.get(known.len() / 2).copied().unwrap_or(ONCE);
    let error = |r: &StepResult| match relative(r) {
        Some((sd, n)) => sd / n.sqrt(),
        None => typical,
    };
    pairs
        .iter()
        .filter_map(|(m, s)| {
            let speed = number(s, measure)? / number(m, measure)?;
            Some((speed, error(m).hypot(error(s))))
        })
        .collect()
}

fn rulings(pairs: &[(&StepResult, &StepResult)], placement: CorunGpus) -> Vec<Ruling> {
    let asked = |name: &str| pairs.iter().map(|(_, solo)| number(solo, name)).sum::<Option<f64>>();
    let rule = |asked: Option<f64>, saturated: bool| match asked {
        None => Ruled::NotMeasured,
        Some(asked) if asked >= 1.0 => Ruled::In,
        Some(asked) if asked < ROOM && !saturated => Ruled::Out,
        Some(_) => Ruled::Unclear,
    };
    let saturated = pairs.iter().any(|(member, _)| member.circumstances.cpu_saturated > 0.5);
    let cpu = asked("cpu_util");
    let mut rulings = vec![Ruling { resource: Resource::Cpu, ruled: rule(cpu, saturated), asked: cpu, alone: None }];
    if pairs.iter().any(|(member, _)| columns::gpus(member).is_some_and(|n| n > 0)) {
        let total = pairs.iter().filter_map(|(m, _)| m.circumstances.gpu_memory_total.iter().min()).min();
        let memory = asked("gpu_memory").zip(total).map(|(asked, total)| asked / *total as f64);
        let on_card = [
            (Resource::Gpu, asked("gpu_load")),
            (Resource::GpuMemory, memory),
            (Resource::GpuMemoryTraffic, asked("gpu_memory_load")),
        ];
        for (resource, asked) in on_card {
            // All zeros is what a driver that does not tell the load gives.
            let asked = asked.filter(|sum| *sum > 0.0);
            rulings.push(match (placement, resource) {
                (CorunGpus::Own, _) => Ruling { resource, ruled: Ruled::OutOwn, asked: None, alone: None },
                // All members were running, so it did suffice; only how near it came is a figure.
                (CorunGpus::Shared, Resource::GpuMemory) => {
                    let ruled = if asked.is_some() { Ruled::Out } else { Ruled::NotMeasured };
                    Ruling { resource, ruled, asked, alone: None }
                }
                (CorunGpus::Shared, _) => Ruling { resource, ruled: rule(asked, false), asked, alone: None },
            });
        }
    }
    let waiting = |r: &StepResult| Some(number(r, "data_wait")? / number(r, "epoch_time")?);
    let most = |results: Vec<&StepResult>| {
        results.into_iter().map(waiting).collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
    };
    let together = most(pairs.iter().map(|(member, _)| *member).collect());
    let alone = most(pairs.iter().map(|(_, solo)| *solo).collect());
    let ruled = match together.zip(alone) {
        None => Ruled::NotMeasured,
        Some((together, alone)) if together - alone >= 0.10 => Ruled::In,
        Some((together, _)) if together < 0.10 => Ruled::Out,
        Some(_) => Ruled::Unclear,
    };
    rulings.push(Ruling { resource: Resource::Data, ruled, asked: together, alone });
    rulings
}
