//! The effect of running together: each member compared with its run alone, the verdict about the group, and the part
//! of each resource. Values only; words and tables are elsewhere, and the verdict itself is from
//! [`flow_core::verdict`].

use flow_core::sched::contention::{self, Host, Load};
use flow_core::verdict::{Group, Times, groups, typical};
use flow_core::{CorunGpus, GpuUsage, Outcome, StepResult, StepView};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::columns::{self, Datum, datum};
use crate::words::kind;

pub(crate) use flow_core::verdict::{FOREIGN_CPU, Refusal, TOLERANCE, UNREPEATED, USUAL, Verdict};

/// A resource with demand or use below this share has room left, so it is not the limit.
const HEADROOM: f64 = 0.90;
/// From this use on, a resource with too much demand may have been full for part of the time.
const NEARLY: f64 = 0.75;

/// A co-run group with its verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GroupVerdict {
    pub(crate) group: String,
    /// The placement of its members on GPUs.
    pub(crate) placement: CorunGpus,
    /// The number that is compared: `epoch_time`, or `wall` for programs without epochs.
    pub(crate) measure: String,
    /// Members, in the order of the matrix.
    pub(crate) members: Vec<Member>,
    /// The verdict.
    pub(crate) verdict: Verdict,
    /// Whether a member is slower than the tolerance allows, beyond the noise.
    pub(crate) slower: bool,
    /// Work done together, in units of one job running alone: above 1 is a gain compared with one after another. With
    /// half its interval, if that is known.
    pub(crate) gain: Option<(f64, Option<f64>)>,
    /// Whether the difference between runs was measured.
    pub(crate) repeated: bool,
    /// The interference coefficient behind the predicted times, if one had been measured before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) interference: Option<f64>,
    /// How often it ran.
    pub(crate) looks: u32,
    /// The repetitions that do not count, each with the reason; `None` if a member is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) left_out: Vec<Option<Verdict>>,
    /// For an undecided group: how many more repetitions would decide it, if that is known.
    pub(crate) more: Option<u32>,
    /// A member that is slower than alone by at most this share still counts as parallel.
    pub(crate) tolerance: f64,
    /// The part of each resource.
    pub(crate) rulings: Vec<Ruling>,
    /// If members used more CPUs together than any of them had alone: how many times as many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) more_cpus: Option<f64>,
    /// If the gain exceeds what the CPUs can do: the largest gain that they allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) possible: Option<f64>,
    /// The same group with earlier figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) earlier: Option<Box<GroupVerdict>>,
}

/// A member of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) label: String,
    pub(crate) axes: IndexMap<String, Value>,
    pub(crate) gpus: Option<u32>,
    pub(crate) alone: Option<f64>,
    pub(crate) together: Option<f64>,
    /// The shortest and the longest of several runs alone.
    pub(crate) alone_ends: Option<(f64, f64)>,
    /// The shortest and the longest of several runs together.
    pub(crate) together_ends: Option<(f64, f64)>,
    /// Half the interval of its slowdown, relative to it: from runs, or from its epochs if nothing was repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sure: Option<f64>,
    /// The predicted time together, from the runs alone.
    pub(crate) predicted: Option<f64>,
    /// CPU use alone, as a share of the host.
    pub(crate) cpu: Option<f64>,
    /// Its use of resources while all ran together.
    pub(crate) used: ResourceUse,
    /// The CPU that other programs used during its run alone, and during the run together.
    pub(crate) foreign: (Option<f64>, Option<f64>),
}

impl Member {
    /// The error of the prediction: 0.1 is a tenth too long.
    pub(crate) fn off(&self) -> Option<f64> {
        Some(self.predicted? / self.together? - 1.0)
    }
}

/// The use of resources while all ran together: shares of the host and of time, and bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ResourceUse {
    pub(crate) cpu: Option<f64>,
    pub(crate) cpu_peak: Option<f64>,
    pub(crate) gpu_load: Option<f64>,
    pub(crate) gpu_load_peak: Option<f64>,
    pub(crate) gpu_memory_load: Option<f64>,
    pub(crate) gpu_memory: Option<f64>,
    pub(crate) memory: Option<f64>,
}

impl ResourceUse {
    fn of(member: &StepResult) -> ResourceUse {
        let of = |name: &str| number(member, name);
        ResourceUse {
            cpu: of("cpu_util"),
            cpu_peak: of("cpu_util_peak").filter(|peak| *peak > 0.0),
            // Drivers that do not report a value return zero.
            gpu_load: of("gpu_load").filter(|load| *load > 0.0),
            gpu_load_peak: of("gpu_load_peak").filter(|load| *load > 0.0),
            gpu_memory_load: of("gpu_memory_load").filter(|load| *load > 0.0),
            gpu_memory: of("gpu_memory").filter(|bytes| *bytes > 0.0),
            memory: of("memory").filter(|bytes| *bytes > 0.0),
        }
    }
}

impl GroupVerdict {
    /// How many of its repetitions count.
    pub(crate) fn counted(&self) -> u32 {
        self.looks.saturating_sub(self.left_out.len() as u32)
    }

    /// The most CPU that other programs used during a repetition that is left out for this reason.
    pub(crate) fn left_out_for(&self) -> Option<f64> {
        let used = |why: &Option<Verdict>| match why {
            Some(Verdict::ForeignCpu { used, .. }) => Some(*used),
            _ => None,
        };
        self.left_out.iter().filter_map(used).reduce(f64::max)
    }

    /// The slowdown of a member against its run alone, with half its interval if that is known: 0.5 is half as long
    /// again. `None` if the two cannot be compared.
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

/// A resource that members share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Resource {
    /// CPU time of the host.
    Cpu,
    /// Size of the host's memory.
    Memory,
    /// GPU time for kernels.
    Gpu,
    /// Size of the GPU's memory.
    GpuMemory,
    /// Use of the GPU's memory controller.
    GpuMemoryTraffic,
    /// Waiting for data from the loader.
    Data,
}

impl Resource {
    /// All resources, in the order in which they are shown.
    pub(crate) const ALL: [Resource; 6] = [
        Resource::Cpu,
        Resource::Memory,
        Resource::Gpu,
        Resource::GpuMemory,
        Resource::GpuMemoryTraffic,
        Resource::Data,
    ];

    /// Suffix of its message keys.
    pub(crate) fn key(self) -> String {
        kind(&self)
    }
}

/// The part of a resource in a slowdown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ruling {
    pub(crate) resource: Resource,
    pub(crate) ruled: ResourceVerdict,
    /// The demand of all members, as a share of the capacity. For data, the largest share of an epoch spent waiting.
    pub(crate) demand: Option<f64>,
    /// The use while all ran, as a share of the capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) used: Option<f64>,
    /// For data: the same alone.
    pub(crate) alone: Option<f64>,
}

/// Whether a resource explains a slowdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ResourceVerdict {
    /// It was used up.
    In,
    /// It was not used up.
    Out,
    /// Each member has its own.
    OutOwn,
    /// The figures do not decide it.
    Unclear,
    /// There are no figures for it.
    NotMeasured,
}

impl ResourceVerdict {
    pub(crate) fn is_out(self) -> bool {
        matches!(self, ResourceVerdict::Out | ResourceVerdict::OutOwn)
    }
}

/// Judges every group of a co-run step against the step that it is `like`. Tables and charts have the times of all groups
/// under one name, so those of another measure are left out: the whole run of a group whose epochs did not overlap is no
/// epoch.
pub(crate) fn judge(together: &StepView, solo: &StepView, tolerance: f64) -> Vec<GroupVerdict> {
    let mut judged: Vec<GroupVerdict> =
        groups(all(together), all(solo)).iter().map(|group| one(group, &solo.results, tolerance)).collect();
    let decided = judged.iter().find(|group| group.gain.is_some()).or(judged.first());
    let measure = decided.map(|group| group.measure.clone()).unwrap_or_default();
    for group in judged.iter_mut().filter(|group| group.measure != measure) {
        group.measure.clone_from(&measure);
        for member in &mut group.members {
            (member.alone, member.together, member.predicted) = (None, None, None);
            (member.alone_ends, member.together_ends) = (None, None);
        }
    }
    judged
}

/// All measured results: the planned ones and the repetitions for the verdict.
fn all(step: &StepView) -> impl Iterator<Item = &StepResult> + Clone {
    step.results.iter().chain(&step.again).filter(|result| result.was_tried())
}

fn one(group: &Group<'_>, solo: &[StepResult], tolerance: f64) -> GroupVerdict {
    let judged = group.judge(tolerance);
    let (placement, measure, pairs) = (group.placement, judged.measure, &judged.pairs);
    let called = judged.called.as_ref();
    let usual = |runs: &[&StepResult]| {
        let times: Option<Vec<f64>> = runs.iter().map(|run| number(run, measure)).collect();
        times.filter(|times| !times.is_empty()).map(|times| typical(&times))
    };
    // The figures shown, and the basis of the prediction, are the ones that were judged.
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
    // The coefficient known before the group first ran.
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
        used: ResourceUse::of(member),
        foreign: (solo.and_then(|s| number(s, "foreign_cpu")), number(member, "foreign_cpu")),
    });
    let compared: Vec<(&StepResult, &StepResult)> =
        pairs.iter().filter_map(|(member, solo)| Some((*member, (*solo)?))).collect();
    GroupVerdict {
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
        possible: judged.possible,
        verdict: judged.verdict,
        earlier: None,
    }
}

impl GroupVerdict {
    /// The group with earlier figures, `(alone, together)` for each member; `None` unless all have them. Their scatter
    /// is not known, so the verdict takes them as exact.
    pub(crate) fn by(&self, figures: impl Fn(&Member) -> Option<(f64, f64)>) -> Option<GroupVerdict> {
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
            label: member.label.clone(),
            axes: member.axes.clone(),
            gpus: member.gpus,
            alone: Some(alone),
            together: Some(together),
            ..Member::default()
        });
        Some(GroupVerdict {
            members: members.collect(),
            verdict,
            slower,
            gain: Some((gain, None)),
            looks: 1,
            left_out: Vec::new(),
            more: None,
            rulings: Vec::new(),
            more_cpus: None,
            possible: None,
            earlier: None,
            ..self.clone()
        })
    }
}

/// The predicted time of each member, from its usual time alone; `None` unless all have one with CPU use. With a GPU,
/// the CPU work belongs to the dataset, so it is averaged over the runs that differ from the member's only in numbers.
/// Without a measured coefficient (`sharing`), the one for unknown devices applies.
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
    for ((member, alone), usual) in pairs.iter().zip(usual) {
        let alone = (*alone)?;
        let time = usual.filter(|time| *time > 0.0)?;
        alone.usage.cpu_cores?;
        let gpus = alone.usage.gpus.len();
        // Without a GPU, the training is part of the CPU work, so only the member's own runs count.
        let like =
            |other: &&StepResult| if gpus > 0 { words(other) == words(alone) } else { other.label == alone.label };
        let works: Vec<f64> = solo.iter().filter(like).filter_map(work).collect();
        let first = if placement == CorunGpus::Own { next } else { 0 };
        next += gpus;
        cores = cores.max(member.circumstances.usable_cpus());
        loads.push(Load {
            cores: works.iter().sum::<f64>() / works.len().max(1) as f64 / time,
            gpu_busy: alone.usage.gpus.iter().filter_map(GpuUsage::load).fold(0.0, f64::max),
            gpus: (first..first + gpus).collect(),
        });
        times.push(time);
    }
    // All GPUs of the host have the same coefficient.
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

/// The CPUs that members used together, divided by the most that one had alone. Above 1, part of a gain comes from more
/// CPUs.
fn more_cpus(pairs: &[(&StepResult, &StepResult)]) -> Option<f64> {
    let used: Option<f64> = pairs
        .iter()
        .map(|(member, _)| Some(number(member, "cpu_util")? * f64::from(member.circumstances.host_cpus)))
        .sum();
    let given = pairs.iter().map(|(_, solo)| solo.circumstances.cpus).max().filter(|cpus| *cpus > 0);
    let times = used? / f64::from(given?);
    (times > 1.0).then_some(times)
}

/// A resource limits the speed if it is full while all run. If that was not measured, the demand of the runs alone
/// decides.
fn ruled(asked: Option<f64>, used: Option<f64>, saturated: bool) -> ResourceVerdict {
    match (asked, used) {
        (_, Some(used)) if used >= HEADROOM => ResourceVerdict::In,
        (asked, Some(used)) if saturated || used >= NEARLY && asked.is_none_or(|asked| asked >= HEADROOM) => {
            ResourceVerdict::Unclear
        }
        (_, Some(_)) => ResourceVerdict::Out,
        (None, None) => ResourceVerdict::NotMeasured,
        (Some(asked), None) if asked >= 1.0 => ResourceVerdict::In,
        (Some(asked), None) if asked < HEADROOM && !saturated => ResourceVerdict::Out,
        (Some(_), None) => ResourceVerdict::Unclear,
    }
}

fn rulings(pairs: &[(&StepResult, &StepResult)], placement: CorunGpus) -> Vec<Ruling> {
    let asked = |name: &str| pairs.iter().map(|(_, solo)| number(solo, name)).sum::<Option<f64>>();
    let used = |name: &str| pairs.iter().map(|(member, _)| number(member, name)).collect::<Option<Vec<f64>>>();
    // Each member reports the load of the whole GPU. Drivers that do not report it return zero.
    let fullest = |name: &str| used(name)?.into_iter().reduce(f64::max).filter(|load| *load > 0.0);
    let ruling = |resource, demand, used, saturated| Ruling {
        resource,
        ruled: ruled(demand, used, saturated),
        demand,
        used,
        alone: None,
    };
    let saturated = pairs.iter().any(|(member, _)| member.circumstances.cpu_saturated.is_some_and(|share| share > 0.5));
    // Of the CPUs that flow could use.
    let of_usable = |share: f64| {
        let more = pairs.iter().map(|(member, _)| member.circumstances.cpus_per_usable());
        share * more.fold(1.0, f64::max)
    };
    // Each is a mean over the member's own epochs, so their sum may slightly exceed 100%.
    let cpu = used("cpu_util").map(|all| of_usable(all.iter().sum()).min(1.0));
    let mut rulings = vec![ruling(Resource::Cpu, asked("cpu_util").map(of_usable), cpu, saturated)];
    let host = pairs.iter().map(|(member, _)| member.circumstances.host_memory).max().filter(|bytes| *bytes > 0);
    let of_host = |bytes: Option<f64>| Some(bytes.filter(|bytes| *bytes > 0.0)? / host? as f64);
    let bytes = used("memory").and_then(|all| of_host(Some(all.iter().sum())));
    if let Some(share) = bytes {
        // All members ran, so memory sufficed. The cost of nearly full memory is not known.
        let ruled = if share < HEADROOM { ResourceVerdict::Out } else { ResourceVerdict::Unclear };
        let demand = of_host(asked("memory"));
        rulings.push(Ruling { resource: Resource::Memory, ruled, demand, used: bytes, alone: None });
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
            let demand = asked.filter(|sum| *sum > 0.0);
            rulings.push(match (placement, resource) {
                (CorunGpus::Own, _) => {
                    Ruling { resource, ruled: ResourceVerdict::OutOwn, demand: None, used: None, alone: None }
                }
                // All members ran, so GPU memory sufficed. The figure shows how much was left.
                (CorunGpus::Shared, Resource::GpuMemory) => {
                    let ruled = if demand.is_some() { ResourceVerdict::Out } else { ResourceVerdict::NotMeasured };
                    Ruling { resource, ruled, demand, used, alone: None }
                }
                (CorunGpus::Shared, _) => ruling(resource, demand, used, false),
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
        None => ResourceVerdict::NotMeasured,
        Some((together, alone)) if together - alone >= 0.10 => ResourceVerdict::In,
        Some((together, _)) if together < 0.10 => ResourceVerdict::Out,
        Some(_) => ResourceVerdict::Unclear,
    };
    rulings.push(Ruling { resource: Resource::Data, ruled, demand: together, used: None, alone });
    rulings
}
