//! What running together did: each member against its run alone, the verdict for the group, and what each resource has to do
//! with it. Values only; words and tables are elsewhere, and the verdict itself is [`flow_core::verdict`]'s.

use flow_core::sched::contention::{self, Host, Load};
use flow_core::verdict::{Group, Times, groups, typical};
use flow_core::{CorunGpus, GpuUsage, Outcome, StepResult, StepView};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::columns::{self, Datum, datum};

pub(crate) use flow_core::verdict::{FOREIGN_CPU, Refusal, TOLERANCE, UNREPEATED, USUAL, Verdict};

/// Demand, or use, below this share of a resource leaves it room: it is ruled out.
const ROOM: f64 = 0.90;
/// From this share on a resource that more was asked of than there is may have been full for part of the time.
const NEARLY: f64 = 0.75;

/// A co-run group, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Together {
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
    /// Work done together, in units of one job running alone: above 1 is a gain over one after another. With half its interval,
    /// where that is known.
    pub(crate) gain: Option<(f64, Option<f64>)>,
    /// How much runs differ was measured.
    pub(crate) repeated: bool,
    /// The interference coefficient that times together were predicted with, where any had been measured before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) interference: Option<f64>,
    /// How often it ran.
    pub(crate) looks: u32,
    /// The repetitions that do not count, each with what is the matter with it; nothing of one in which a member is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) left_out: Vec<Option<Verdict>>,
    /// Of what is undecided: how many more times would decide it, if anybody knows.
    pub(crate) more: Option<u32>,
    /// Slower than alone by up to this share is still parallel.
    pub(crate) tolerance: f64,
    /// What each resource has to do with it.
    pub(crate) rulings: Vec<Ruling>,
    /// Where together they used more CPUs than any was given alone: how many times as many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) more_cpus: Option<f64>,
    /// The same group by earlier figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) earlier: Option<Box<Together>>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) label: String,
    pub(crate) axes: IndexMap<String, Value>,
    pub(crate) gpus: Option<u32>,
    pub(crate) alone: Option<f64>,
    pub(crate) together: Option<f64>,
    /// The shortest and the longest of several runs alone.
    #[serde(default)]
    pub(crate) alone_ends: Option<(f64, f64)>,
    /// The shortest and the longest of several runs together.
    #[serde(default)]
    pub(crate) together_ends: Option<(f64, f64)>,
    /// Half the interval of what it takes together against alone, relative to that: of runs, or where none was repeated of what its epochs tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sure: Option<f64>,
    /// What was to be expected together, from the runs alone.
    pub(crate) predicted: Option<f64>,
    /// CPU use alone, as a share of the host.
    pub(crate) cpu: Option<f64>,
    /// What it used while all ran together.
    pub(crate) used: Used,
    /// What other programs used of the CPU meanwhile: alone, and together.
    pub(crate) foreign: (Option<f64>, Option<f64>),
}

impl Member {
    /// How far the prediction is from what was measured: 0.1 is a tenth too long.
    pub(crate) fn off(&self) -> Option<f64> {
        Some(self.predicted? / self.together? - 1.0)
    }
}

/// What a member used while all ran together: shares of the host and of time, and bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Used {
    pub(crate) cpu: Option<f64>,
    pub(crate) cpu_peak: Option<f64>,
    pub(crate) gpu_load: Option<f64>,
    pub(crate) gpu_load_peak: Option<f64>,
    #[serde(default)]
    pub(crate) gpu_memory_load: Option<f64>,
    pub(crate) gpu_memory: Option<f64>,
    #[serde(default)]
    pub(crate) memory: Option<f64>,
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
            gpu_memory_load: of("gpu_memory_load").filter(|load| *load > 0.0),
            gpu_memory: of("gpu_memory").filter(|bytes| *bytes > 0.0),
            memory: of("memory").filter(|bytes| *bytes > 0.0),
        }
    }
}

impl Together {
    /// How many of its repetitions count.
    pub(crate) fn counted(&self) -> u32 {
        self.looks.saturating_sub(self.left_out.len() as u32)
    }

    /// What other programs used of the CPU at the most beside a repetition that is left out for it.
    pub(crate) fn left_out_for(&self) -> Option<f64> {
        let used = |why: &Option<Verdict>| match why {
            Some(Verdict::ForeignCpu { used, .. }) => Some(*used),
            _ => None,
        };
        self.left_out.iter().filter_map(used).reduce(f64::max)
    }

    /// How much slower than alone a member is: 0.5 is half as long again; with half its interval, where that is known. Nothing where
    /// the two are not to be compared.
    pub(crate) fn slowdown(&self, member: &Member) -> Option<(f64, Option<f64>)> {
        let judged = matches!(
            self.verdict,
            Verdict::Parallel
                | Verdict::OnlyConcurrent
                | Verdict::NoGain
                | Verdict::SlowerThanOneAfterAnother
                | Verdict::TooNoisy
        );
        let longer = member.together? / member.alone?;
        judged.then_some((longer - 1.0, member.sure.map(|sure| longer * sure)))
    }
}

/// Something that members share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Resource {
    /// Processor time of the host.
    Cpu,
    /// Size of the host's memory.
    Memory,
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
    /// In the order in which they are shown.
    pub(crate) const ALL: [Resource; 6] = [
        Resource::Cpu,
        Resource::Memory,
        Resource::Gpu,
        Resource::GpuMemory,
        Resource::GpuMemoryTraffic,
        Resource::Data,
    ];

    /// The end of its message keys.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Resource::Cpu => "cpu",
            Resource::Memory => "memory",
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
    /// What was used of it while all ran, as a share of what there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) used: Option<f64>,
    /// For data: the same alone.
    pub(crate) alone: Option<f64>,
}

/// Whether a resource explains a slowdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ruled {
    /// It was used up.
    In,
    /// It was not used up.
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
pub(crate) fn judge(together: &StepView, solo: &StepView, tolerance: f64) -> Vec<Together> {
    groups(all(together), all(solo)).iter().map(|group| one(group, &solo.results, tolerance)).collect()
}

/// What was measured, as asked for and for this verdict.
fn all(step: &StepView) -> impl Iterator<Item = &StepResult> + Clone {
    step.results.iter().chain(&step.again).filter(|result| result.was_tried())
}

fn one(group: &Group<'_>, solo: &[StepResult], tolerance: f64) -> Together {
    let judged = group.judge(tolerance);
    let (placement, measure, pairs) = (group.placement, judged.measure, &judged.pairs);
    let called = judged.called.as_ref();
    let usual = |runs: &[&StepResult]| {
        let times: Option<Vec<f64>> = runs.iter().map(|run| number(run, measure)).collect();
        times.filter(|times| !times.is_empty()).map(|times| typical(&times))
    };
    // What was judged by is what is shown, and predicted from.
    let times = |i: usize, of: fn(&Times) -> &Vec<f64>| judged.times.get(i).map(|times| typical(of(times)));
    let ends = |i: usize, of: fn(&Times) -> &Vec<f64>, runs: &[&StepResult]| {
        let all = || runs.iter().filter_map(|run| number(run, measure)).collect();
        let times = judged.times.get(i).map_or_else(all, |times| of(times).clone());
        let (least, most) = times.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), t| (a.min(*t), b.max(*t)));
        (times.len() > 1).then_some((least, most))
    };
    let alone = pairs.iter().zip(&group.members).enumerate().map(|(i, ((_, solo), runs))| {
        let of_all = || usual(&runs.alone).or_else(|| solo.and_then(|s| number(s, measure)));
        times(i, |times| &times.alone).or_else(of_all)
    });
    let alone: Vec<Option<f64>> = alone.collect();
    // As far as it was known before the group ran for the first time.
    let first = group.members.first().and_then(|runs| runs.together.first());
    let interference = first.and_then(|run| run.circumstances.corun.as_ref()?.interference);
    let predicted = predicted(pairs, &alone, solo, placement, measure, interference);
    let shown = pairs.iter().zip(&group.members).enumerate().map(|(i, ((member, solo), runs))| Member {
        label: member.label.clone(),
        axes: member.axes.clone(),
        gpus: columns::gpus(member),
        alone: alone[i],
        together: times(i, |times| &times.together)
            .or_else(|| usual(&runs.together))
            .or_else(|| number(member, measure)),
        alone_ends: ends(i, |times| &times.alone, &runs.alone),
        together_ends: ends(i, |times| &times.together, &runs.together),
        sure: called.and_then(|called| called.speeds.get(i).copied()),
        predicted: predicted.as_ref().and_then(|all| all.get(i).copied()),
        cpu: solo.and_then(|s| number(s, "cpu_util")),
        used: Used::of(member),
        foreign: (solo.and_then(|s| number(s, "foreign_cpu")), number(member, "foreign_cpu")),
    });
    let compared: Vec<(&StepResult, &StepResult)> =
        pairs.iter().filter_map(|(member, solo)| Some((*member, (*solo)?))).collect();
    Together {
        group: group.name.clone(),
        placement,
        measure: measure.into(),
        members: shown.collect(),
        slower: called.is_some_and(|called| called.slower),
        gain: called.map(|called| (called.gain, Some(called.half))),
        repeated: called.is_some_and(|called| called.repeated),
        interference,
        looks: judged.looks,
        left_out: judged.left_out,
        more: judged.more,
        tolerance,
        rulings: if called.is_some() { rulings(&compared, placement) } else { Vec::new() },
        more_cpus: more_cpus(&compared),
        verdict: judged.verdict,
        earlier: None,
    }
}

impl Together {
    /// The group by earlier figures, `(alone, together)` of each member; nothing unless all have them. How far these vary is not known,
    /// so the verdict is that of the figures as they stand.
    pub(crate) fn by(&self, figures: impl Fn(&Member) -> Option<(f64, f64)>) -> Option<Together> {
        let known: Option<Vec<(f64, f64)>> = self.members.iter().map(figures).collect();
        let known = known.filter(|known| known.len() > 1 && known.iter().all(|(a, b)| *a > 0.0 && *b > 0.0))?;
        let gain: f64 = known.iter().map(|(alone, together)| alone / together).sum();
        let most = known.iter().map(|(alone, together)| together / alone - 1.0).fold(f64::NEG_INFINITY, f64::max);
        let slower = most > self.tolerance;
        let verdict = match slower {
            false => Verdict::Parallel,
            true if gain > 1.0 => Verdict::OnlyConcurrent,
            true => Verdict::SlowerThanOneAfterAnother,
        };
        let members = self.members.iter().zip(known).map(|(member, (alone, together))| Member {
            alone: Some(alone),
            together: Some(together),
            alone_ends: None,
            together_ends: None,
            sure: None,
            predicted: None,
            cpu: None,
            used: Used::default(),
            foreign: (None, None),
            ..member.clone()
        });
        Some(Together {
            members: members.collect(),
            verdict,
            slower,
            gain: Some((gain, None)),
            looks: 1,
            left_out: Vec::new(),
            more: None,
            rulings: Vec::new(),
            more_cpus: None,
            earlier: None,
            ..self.clone()
        })
    }
}

/// The time that each member was to be expected to take, from its usual time alone; `None` unless all have one with figures. CPU work
/// beside a GPU belongs to the dataset, and is pooled over the runs that differ from a member's in numbers alone. What sharing a GPU
/// costs on this device counts as never learned where nothing measured it before.
fn predicted(
    pairs: &[(&StepResult, Option<&StepResult>)],
    usual: &[Option<f64>],
    solo: &[StepResult],
    placement: CorunGpus,
    measure: &str,
    sharing: Option<f64>,
) -> Option<Vec<f64>> {
    let words =
        |result: &StepResult| -> Vec<Value> { result.axes.values().filter(|v| !v.is_number()).cloned().collect() };
    let work = |result: &StepResult| Some(result.usage.cpu_cores? * number(result, measure)?);
    let (mut loads, mut times, mut next, mut cores) = (Vec::new(), Vec::new(), 0, 0);
    for ((_, alone), usual) in pairs.iter().zip(usual) {
        let alone = (*alone)?;
        let time = usual.filter(|time| *time > 0.0)?;
        alone.usage.cpu_cores?;
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
            gpu_busy: alone.usage.gpus.iter().filter_map(GpuUsage::load).fold(0.0, f64::max),
            gpus: (first..first + gpus).collect(),
        });
        times.push(time);
    }
    // One model has one price, on whichever of the host's GPUs.
    let devices = sharing.map(|price| vec![price; next.max(1)]).unwrap_or_default();
    let speeds = contention::speeds(&loads, &Host { cores: f64::from(cores), devices });
    (cores > 0).then(|| times.iter().zip(speeds).map(|(time, speed)| time / speed).collect())
}

fn number(result: &StepResult, name: &str) -> Option<f64> {
    if result.outcome != Outcome::Ok {
        return None;
    }
    match datum(result, name)? {
        Datum::Measured { value, .. } => Some(value),
        Datum::Declared { number, .. } => number,
        Datum::NotFinite(_) | Datum::NotMeasured => None,
    }
}

/// How many times as many CPUs they used together as any was given alone: more than sharing is what more of them gain.
fn more_cpus(pairs: &[(&StepResult, &StepResult)]) -> Option<f64> {
    let used: Option<f64> = pairs
        .iter()
        .map(|(member, _)| Some(number(member, "cpu_util")? * f64::from(member.circumstances.host_cpus)))
        .sum();
    let given = pairs.iter().map(|(_, solo)| solo.circumstances.cpus).max().filter(|cpus| *cpus > 0);
    let times = used? / f64::from(given?);
    (times > 1.0).then_some(times)
}

/// What limits is full while all run; what was asked of it by each alone decides where that was not measured.
fn ruled(asked: Option<f64>, used: Option<f64>, saturated: bool) -> Ruled {
    match (asked, used) {
        (_, Some(used)) if used >= ROOM => Ruled::In,
        (asked, Some(used)) if saturated || used >= NEARLY && asked.is_none_or(|asked| asked >= ROOM) => Ruled::Unclear,
        (_, Some(_)) => Ruled::Out,
        (None, None) => Ruled::NotMeasured,
        (Some(asked), None) if asked >= 1.0 => Ruled::In,
        (Some(asked), None) if asked < ROOM && !saturated => Ruled::Out,
        (Some(_), None) => Ruled::Unclear,
    }
}

fn rulings(pairs: &[(&StepResult, &StepResult)], placement: CorunGpus) -> Vec<Ruling> {
    let asked = |name: &str| pairs.iter().map(|(_, solo)| number(solo, name)).sum::<Option<f64>>();
    let used = |name: &str| pairs.iter().map(|(member, _)| number(member, name)).collect::<Option<Vec<f64>>>();
    // Each member is told the load of the whole card. All zeros is what a driver that does not tell it gives.
    let fullest = |name: &str| used(name)?.into_iter().reduce(f64::max).filter(|load| *load > 0.0);
    let ruling = |resource, asked, used, saturated| Ruling {
        resource,
        ruled: ruled(asked, used, saturated),
        asked,
        used,
        alone: None,
    };
    let saturated = pairs.iter().any(|(member, _)| member.circumstances.cpu_saturated.is_some_and(|share| share > 0.5));
    // Each is a mean over the member's own epochs, so that their sum may come to a little more than there is.
    let cpu = used("cpu_util").map(|all| all.iter().sum::<f64>().min(1.0));
    let mut rulings = vec![ruling(Resource::Cpu, asked("cpu_util"), cpu, saturated)];
    let host = pairs.iter().map(|(member, _)| member.circumstances.host_memory).max().filter(|bytes| *bytes > 0);
    let of_host = |bytes: Option<f64>| Some(bytes.filter(|bytes| *bytes > 0.0)? / host? as f64);
    let bytes = used("memory").and_then(|all| of_host(Some(all.iter().sum())));
    if let Some(share) = bytes {
        // All members were running, so it did suffice; near its end nobody knows what that cost.
        let ruled = if share < ROOM { Ruled::Out } else { Ruled::Unclear };
        let asked = of_host(asked("memory"));
        rulings.push(Ruling { resource: Resource::Memory, ruled, asked, used: bytes, alone: None });
    }
    if pairs.iter().any(|(member, _)| columns::gpus(member).is_some_and(|n| n > 0)) {
        let total = pairs.iter().filter_map(|(m, _)| m.circumstances.gpu_memory_total.iter().min()).min();
        let memory = asked("gpu_memory").zip(total).map(|(asked, total)| asked / *total as f64);
        let on_card = [
            (Resource::Gpu, asked("gpu_load"), fullest("gpu_load")),
            (Resource::GpuMemory, memory, None),
            (Resource::GpuMemoryTraffic, asked("gpu_memory_load"), fullest("gpu_memory_load")),
        ];
        for (resource, asked, used) in on_card {
            let asked = asked.filter(|sum| *sum > 0.0);
            rulings.push(match (placement, resource) {
                (CorunGpus::Own, _) => Ruling { resource, ruled: Ruled::OutOwn, asked: None, used: None, alone: None },
                // All members were running, so it did suffice; only how near it came is a figure.
                (CorunGpus::Shared, Resource::GpuMemory) => {
                    let ruled = if asked.is_some() { Ruled::Out } else { Ruled::NotMeasured };
                    Ruling { resource, ruled, asked, used, alone: None }
                }
                (CorunGpus::Shared, _) => ruling(resource, asked, used, false),
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
    rulings.push(Ruling { resource: Resource::Data, ruled, asked: together, used: None, alone });
    rulings
}
