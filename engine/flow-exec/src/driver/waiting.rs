//! What waiting instances wait for, in words. Decides nothing.

use flow_core::{
    InstanceId, Settled, Time,
    sched::{Holder, Resource, Scheduler, Shortage, Waiting},
};
use flow_store::Waiting as Told;

use super::{Session, cards::Cards, context::Known};
use crate::clock;

/// How many are told: `flow why` finds its step among them, the screen shows a few.
const TOLD: usize = 100;
/// How many unsettled instances are looked at for it.
const LOOKED_AT: usize = 500;

/// The first instances that could run but for want of something, and of what.
pub(crate) fn of(scheduler: &Scheduler, now: Time, session: &Session, known: &Known, cards: &Cards) -> Vec<Told> {
    let unsettled = session.expansion.instances.iter().filter(|instance| known.result(instance.id).is_none());
    unsettled
        .take(LOOKED_AT)
        .filter_map(|instance| {
            let reason = words(session, cards, now, &scheduler.explain(now, instance.id))?;
            Some(Told { label: instance.label.to_string(), reason })
        })
        .take(TOLD)
        .collect()
}

/// `None` for what runs, is over, or waits for others to be settled: that is the workflow's own order.
fn words(session: &Session, cards: &Cards, now: Time, waiting: &Waiting) -> Option<String> {
    let label = |id: &InstanceId| session.expansion.instances[id.index()].label.to_string();
    let labels = |ids: &[InstanceId]| match ids {
        [] => "others".to_owned(),
        [one] => label(one),
        [first, rest @ ..] => format!("{} and {} more", label(first), rest.len()),
    };
    Some(match waiting {
        Waiting::Resources(shortages) => {
            shortages.iter().map(|s| shortage(session, cards, now, s)).collect::<Vec<_>>().join("; ")
        }
        Waiting::Others(ids) => format!("wants the machine for itself; {} still runs", labels(ids)),
        Waiting::Exclusive(ids) => format!("{} has the machine for itself", labels(ids)),
        Waiting::Reserved(id) => format!("room is kept for {}", label(id)),
        Waiting::Turn(Some(id)) => format!("{} goes first", label(id)),
        Waiting::Retry { at, failures } => {
            let times = if *failures == 1 { "once".to_owned() } else { format!("{failures} times") };
            format!("failed {times}, tried again in {:.0} s", (*at - now).as_secs_f64().ceil())
        }
        Waiting::Barrier { missing, .. } if !missing.is_empty() => format!("ready; {} is not", labels(missing)),
        _ => return None,
    })
}

fn shortage(session: &Session, cards: &Cards, now: Time, shortage: &Shortage) -> String {
    let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64);
    let label = |holder: &Holder| session.expansion.instances[holder.instance.index()].label.to_string();
    let held = match shortage.held_by.as_slice() {
        [] => String::new(),
        [one] => format!(", held by {}", label(one)),
        [first, rest @ ..] => format!(", held by {} and {} more", label(first), rest.len()),
    };
    // What ends first makes room first.
    let until = shortage.held_by.iter().filter_map(|holder| holder.until).min().filter(|until| *until > now);
    let until = until.map(|until| format!(" until about {}", clock::local_clock(until - now)));
    let held = held + &until.unwrap_or_default();
    // Who it is, where that is known; else a desktop, or the driver itself.
    let others = |gpu: usize| match (cards.others(gpu), shortage.strangers) {
        (_, 0) => String::new(),
        (Some(who), bytes) => format!(", {who} holds {}", gib(bytes)),
        (None, bytes) => format!(", others hold {}", gib(bytes)),
    };
    let name = |gpu: usize| session.expansion.machine.gpus.get(gpu).map_or(gpu as u32, |gpu| gpu.index);
    let Shortage { requested, available, .. } = shortage;
    match shortage.resource {
        Resource::Jobs => format!("{requested} of the jobs at once, {available} free{held}"),
        Resource::Cpus if *requested == 1 => format!("1 CPU, {available} free{held}"),
        Resource::Cpus => format!("{requested} CPUs, {available} free{held}"),
        Resource::Memory => format!("{} of host memory, {} free{held}", gib(*requested), gib(*available)),
        Resource::Gpus if *requested == 1 => format!("a GPU with room for it{held}"),
        Resource::Gpus => format!("{requested} GPUs with room for it, {available} there{held}"),
        Resource::GpuMemory(gpu) => {
            let (asked, free, others) = (gib(*requested), gib(*available), others(gpu.index()));
            format!("GPU {}: {asked} asked, {free} free{held}{others}", name(gpu.index()))
        }
        Resource::GpuBusy(gpu) => {
            let (asked, free) = (requested / 10, available / 10);
            format!("to share GPU {} well: it would keep it busy {asked} %, {free} % are free{held}", name(gpu.index()))
        }
        Resource::GpuMeasured(gpu) => {
            let times = *requested as f64 / 1e3;
            format!(
                "to share GPU {} well: measured there, one of both takes {times:.2} times as long{held}",
                name(gpu.index())
            )
        }
        Resource::GpuLost(gpu) => format!("GPU {} does not answer", name(gpu.index())),
    }
}
