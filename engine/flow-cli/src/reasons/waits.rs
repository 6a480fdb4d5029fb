//! Describes what something waits for.

use flow_core::reason::{Labels, Occupant, PeerConflict, Resource, ResourceShortage, Waits};
use flow_runs::{QueuedJob, RunningStep};
use jiff::tz::TimeZone;

use crate::words;

/// The reason of a wait, at a time in milliseconds since 1970.
pub(crate) fn waits(waits: &Waits, now: u64) -> String {
    match waits {
        Waits::Resources { short } => short.iter().map(scarce).collect::<Vec<_>>().join("; "),
        Waits::Others { running } => {
            format!("needs the machine exclusively; {} still {}", labels(running), verb(running, "runs", "run"))
        }
        Waits::Exclusive { running } => {
            format!("{} {} the machine exclusively", labels(running), verb(running, "has", "have"))
        }
        Waits::OtherRuns { how, runs } => other_runs(*how, runs.as_ref()),
        Waits::Reserved { label } => format!("room is kept for {label}"),
        Waits::Turn { label } => format!("{label} goes first"),
        Waits::SharedWork { run, user, pid } => {
            let who = match (run, pid) {
                (Some(run), _) => format!("run {run}"),
                (None, Some(pid)) => format!("process {pid}"),
                (None, None) => "a flow in another container".to_owned(),
            };
            let of = if user.is_empty() { String::new() } else { format!(" of {user}") };
            format!("{who}{of} is running it already, and its result will be used here too")
        }
        Waits::Retry { at, failures } => {
            let times = if *failures == 1 { "once".to_owned() } else { format!("{failures} times") };
            format!("failed {times}, retried in {} s", at.saturating_sub(now).div_ceil(1_000))
        }
        Waits::Barrier { missing } => format!("ready; {} {} not", labels(missing), verb(missing, "is", "are")),
    }
}

/// The position of a job in Slurm's queue: `job 12, Resources, since 15:30`, and advice.
pub(crate) fn queued(queued: &QueuedJob) -> String {
    let job = queued.job.as_ref().map_or_else(|| "not submitted yet".to_owned(), |job| format!("job {job}"));
    in_queue(queued, Some(job), "since")
}

/// The job and the node of a step that Slurm runs.
pub(crate) fn slurm_place(running: &RunningStep) -> Option<String> {
    match (&running.job, &running.node) {
        (Some(job), Some(node)) => Some(format!("job {job} on {node}")),
        _ => None,
    }
}

/// The same for many jobs that wait for one reason; this is the first.
pub(crate) fn queued_alike(first: &QueuedJob) -> String {
    in_queue(first, first.job.is_none().then(|| "not submitted yet".to_owned()), "the first since")
}

fn in_queue(queued: &QueuedJob, job: Option<String>, since: &str) -> String {
    let reason = Some(queued.reason.clone()).filter(|reason| !reason.is_empty());
    let since = format!("{since} {}", words::time_of_day(queued.since, &TimeZone::system()));
    let parts: Vec<String> = job.into_iter().chain(reason).chain([since]).collect();
    let advice = queued.advice.as_ref().map(|advice| format!(": {advice}")).unwrap_or_default();
    format!("in Slurm ({}){advice}", parts.join(", "))
}

/// The part of other runs of the machine in it.
fn other_runs(how: PeerConflict, runs: Option<&Labels>) -> String {
    let runs = runs.map_or_else(|| "another run of this machine".to_owned(), labels);
    match how {
        PeerConflict::Exclusive => format!("{runs} has the machine for itself"),
        PeerConflict::Running => format!("needs the machine exclusively; steps of {runs} are still running"),
        PeerConflict::Ahead => format!("{runs} goes first; `flow queue` shows the order"),
    }
}

fn verb<'a>(of: &Labels, one: &'a str, several: &'a str) -> &'a str {
    if of.more == 0 { one } else { several }
}

fn labels(labels: &Labels) -> String {
    match labels {
        Labels { first, more: 0 } => first.clone(),
        Labels { first, more } => format!("{first} and {more} more"),
    }
}

fn scarce(scarce: &ResourceShortage) -> String {
    let ResourceShortage { requested, available, .. } = scarce;
    let held = scarce.held_by.as_ref().map(|held_by| format!(", held by {}", labels(held_by))).unwrap_or_default();
    let until = scarce.until.map(|at| format!(" until about {}", words::time_of_day(at, &TimeZone::system())));
    let amount = |n: u64| match scarce.resource {
        Resource::Memory => gib(n),
        _ => n.to_string(),
    };
    let runs = scarce.runs.as_ref().map(|runs| format!(" ({})", labels(runs))).unwrap_or_default();
    let others = format!(", other runs of this machine{runs}");
    let elsewhere = match (scarce.other_runs, scarce.ahead) {
        (0, 0) => String::new(),
        (0, ahead) => format!("{others} go first for {}", amount(ahead)),
        (held, 0) => format!("{others} have {}", amount(held)),
        (held, ahead) => format!("{others} have {} and go first for {} more", amount(held), amount(ahead)),
    };
    let held = held + &until.unwrap_or_default() + &elsewhere;
    match scarce.resource {
        Resource::Queue => format!("{requested} place in Slurm's queue, {available} of flow's free{held}"),
        Resource::Jobs => format!("{requested} of the jobs at once, {available} free{held}"),
        Resource::Cpus if *requested == 1 => format!("1 CPU, {available} free{held}"),
        Resource::Cpus => format!("{requested} CPUs, {available} free{held}"),
        Resource::Memory => format!("{} of host memory, {} free{held}", gib(*requested), gib(*available)),
        Resource::Gpus if *requested == 1 => format!("a GPU with room for it{held}"),
        Resource::Gpus => format!("{requested} GPUs with room for it, {available} there{held}"),
        Resource::GpuMemory(gpu) => {
            let others = match scarce.foreign {
                0 => String::new(),
                bytes => format!(", {} {}", occupant(scarce.occupant.as_ref()), gib(bytes)),
            };
            let alone = if available >= requested { ", and one of them needs it exclusively" } else { "" };
            format!("GPU {gpu}: {} needed, {} free{held}{others}{alone}", gib(*requested), gib(*available))
        }
        Resource::GpuBusy(gpu) => {
            let (asked, free) = (requested / 10, available / 10);
            format!("to share GPU {gpu} efficiently: it needs {asked}% of its time, {free}% is free{held}")
        }
        Resource::GpuMeasured(gpu) => {
            let times = *requested as f64 / 1e3;
            format!(
                "to share GPU {gpu} efficiently: one of the two would take {times:.2} times as long, as measured there{held}"
            )
        }
        Resource::GpuLost(gpu) => format!("GPU {gpu} does not answer"),
        Resource::GpuReserved(gpu) => {
            let runs = scarce.runs.as_ref().map_or_else(|| "another run of this machine".to_owned(), labels);
            format!("GPU {gpu} is reserved for {runs}, whose step has waited longer")
        }
    }
}

/// Who holds memory of a GPU. An unknown holder is a desktop or the driver itself.
fn occupant(occupant: Option<&Occupant>) -> String {
    match occupant {
        None => "others hold".to_owned(),
        Some(Occupant::Flow { holder }) if holder.is_empty() => "another flow holds".to_owned(),
        Some(Occupant::Flow { holder }) => format!("another flow ({holder}) holds"),
        Some(Occupant::Silent) => "the driver, which does not answer, holds".to_owned(),
        Some(Occupant::Processes { pid, name, more: 0 }) => format!("the foreign process {pid} ({name}) holds"),
        Some(Occupant::Processes { pid, name, more }) => {
            format!("the foreign process {pid} ({name}) and {more} more hold")
        }
    }
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}

#[cfg(test)]
mod tests {
    use flow_core::RunId;

    use super::*;

    #[test]
    fn a_scarce_gpu_is_said_with_who_holds_it() {
        let labels = |more| Labels { first: "solo[batch=16]".into(), more };
        let gpu = |occupant| ResourceShortage {
            resource: Resource::GpuMemory(2),
            requested: 6 << 30,
            available: 1 << 29,
            held_by: Some(labels(1)),
            until: None,
            foreign: 2 << 30,
            occupant,
            other_runs: 0,
            ahead: 0,
            runs: None,
        };
        let room = ResourceShortage { resource: Resource::Gpus, requested: 1, foreign: 0, held_by: None, ..gpu(None) };
        let run = || Some(Labels { first: "run 7 (feb08) of ada".into(), more: 0 });
        let cpus = ResourceShortage {
            resource: Resource::Cpus,
            requested: 4,
            available: 1,
            other_runs: 3,
            runs: run(),
            ..room.clone()
        };
        let flow = Occupant::Flow { holder: "process 7 of ada".into() };
        let said = [
            Waits::Resources { short: vec![room, gpu(Some(flow))] },
            Waits::Resources { short: vec![gpu(Some(Occupant::Silent))] },
            Waits::Resources { short: vec![ResourceShortage { foreign: 0, ..gpu(None) }] },
            Waits::Resources { short: vec![ResourceShortage { foreign: 0, available: 9 << 30, ..gpu(None) }] },
            Waits::Others { running: labels(0) },
            Waits::SharedWork { run: Some(RunId("2026-11-22-001".into())), user: "ada".into(), pid: Some(7) },
            Waits::SharedWork { run: None, user: String::new(), pid: Some(7) },
            Waits::Resources { short: vec![ResourceShortage { other_runs: 0, ahead: 3, ..cpus.clone() }] },
            Waits::Resources { short: vec![ResourceShortage { other_runs: 2, ahead: 1, ..cpus.clone() }] },
            Waits::Resources { short: vec![cpus] },
            Waits::Others { running: labels(1) },
            Waits::Barrier { missing: labels(0) },
            Waits::OtherRuns { how: PeerConflict::Exclusive, runs: run() },
            Waits::OtherRuns { how: PeerConflict::Running, runs: run() },
            Waits::OtherRuns { how: PeerConflict::Ahead, runs: None },
            Waits::Retry { at: 2_500, failures: 1 },
            Waits::Barrier { missing: labels(2) },
        ];
        let said: Vec<String> = said.iter().map(|one| waits(one, 1_000)).collect();
        insta::assert_snapshot!(said.join("\n"), @r"
        a GPU with room for it; GPU 2: 6.0 GiB needed, 0.5 GiB free, held by solo[batch=16] and 1 more, another flow (process 7 of ada) holds 2.0 GiB
        GPU 2: 6.0 GiB needed, 0.5 GiB free, held by solo[batch=16] and 1 more, the driver, which does not answer, holds 2.0 GiB
        GPU 2: 6.0 GiB needed, 0.5 GiB free, held by solo[batch=16] and 1 more
        GPU 2: 6.0 GiB needed, 9.0 GiB free, held by solo[batch=16] and 1 more, and one of them needs it exclusively
        needs the machine exclusively; solo[batch=16] still runs
        run 2026-11-22-001 of ada is running it already, and its result will be used here too
        process 7 is running it already, and its result will be used here too
        4 CPUs, 1 free, other runs of this machine (run 7 (feb08) of ada) go first for 3
        4 CPUs, 1 free, other runs of this machine (run 7 (feb08) of ada) have 2 and go first for 1 more
        4 CPUs, 1 free, other runs of this machine (run 7 (feb08) of ada) have 3
        needs the machine exclusively; solo[batch=16] and 1 more still run
        ready; solo[batch=16] is not
        run 7 (feb08) of ada has the machine for itself
        needs the machine exclusively; steps of run 7 (feb08) of ada are still running
        another run of this machine goes first; `flow queue` shows the order
        failed once, retried in 2 s
        ready; solo[batch=16] and 2 more are not
        ");
    }
}
