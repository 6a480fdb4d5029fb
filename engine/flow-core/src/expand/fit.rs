//! Whether an instance, or a co-run group, can ever run on a machine. One answer for planning; what is free at the moment is
//! the scheduler's business.

use bytesize::ByteSize;

use crate::{CorunGpus, Instance, Machine, ResourceRequest};

/// CPUs of a step that does not say: its share of the cores by GPUs, rounded down so that all GPUs can be in use at once.
pub(super) fn default_cpus(gpus: u32, machine: &Machine) -> u32 {
    let there = machine.gpus.len() as u64;
    if gpus == 0 || there == 0 {
        return 1;
    }
    let share = u64::from(machine.cpus) * u64::from(gpus) / there;
    u32::try_from(share.clamp(1, u64::from(machine.cpus.max(1)))).unwrap_or(u32::MAX)
}

/// What is lacking: the key that asks for it, and a sentence's end, "needs 4 GPUs, this machine has 1 GPU".
pub(super) type Lack = (&'static str, String);

/// Why a request can never be met: what it needs and what there is.
pub(super) fn request(request: &ResourceRequest, machine: &Machine) -> Option<Lack> {
    let there = machine.gpus.len() as u32;
    if request.gpus > there {
        let why = machine.gpu_troubles.first().map(|trouble| format!(" ({trouble})")).unwrap_or_default();
        return Some(("gpus", format!("needs {}, this machine has {}{why}", gpus(request.gpus), gpus(there))));
    }
    if let Some(memory) = request.gpu_memory.filter(|_| request.gpus > 0) {
        let enough = machine.gpus.iter().filter(|g| g.memory >= memory).count() as u32;
        if enough < request.gpus {
            let largest = machine.gpus.iter().map(|g| g.memory).max().unwrap_or(0);
            let needs = format!("needs {} with {} of memory each", gpus(request.gpus), size(memory));
            return Some((
                "gpu_memory",
                format!("{needs}, this machine has {enough} (the largest has {})", size(largest)),
            ));
        }
    }
    if request.cpus > machine.cpus {
        return Some(("cpus", format!("needs {}, this machine has {}", cpus(request.cpus), machine.cpus)));
    }
    let memory = request.memory.unwrap_or(0);
    (memory > machine.memory)
        .then(|| ("memory", format!("needs {} of memory, this machine has {}", size(memory), size(machine.memory))))
}

/// Why the members of a co-run group can never run together. CPUs are theirs to fight over; GPUs and memory are not.
pub(super) fn group(members: &[&Instance], machine: &Machine) -> Option<Lack> {
    let there = machine.gpus.len() as u32;
    let placement = members.first()?.corun.as_ref()?.gpus;
    let together = format!("is in a group of {} that together", members.len());
    if placement == CorunGpus::Own {
        let all: u32 = members.iter().map(|m| m.request.gpus).sum();
        if all > there {
            return Some((
                "corun",
                format!("{together} needs {} of their own, this machine has {}", gpus(all), gpus(there)),
            ));
        }
    } else {
        let width = members.iter().map(|m| m.request.gpus).max().unwrap_or(0);
        let memory: u64 = members.iter().filter_map(|m| m.request.gpu_memory).sum();
        let enough = machine.gpus.iter().filter(|g| g.memory >= memory).count() as u32;
        if enough < width {
            let needs = format!("{together} needs {} on each of {}", size(memory), gpus(width));
            return Some(("corun", format!("{needs}, this machine has {enough} such")));
        }
    }
    let memory: u64 = members.iter().filter_map(|m| m.request.memory).sum();
    (memory > machine.memory).then(|| {
        ("memory", format!("{together} needs {} of memory, this machine has {}", size(memory), size(machine.memory)))
    })
}

fn gpus(n: u32) -> String {
    match n {
        0 => "no GPU".to_owned(),
        1 => "1 GPU".to_owned(),
        n => format!("{n} GPUs"),
    }
}

fn cpus(n: u32) -> String {
    if n == 1 { "1 CPU".to_owned() } else { format!("{n} CPUs") }
}

fn size(bytes: u64) -> String {
    ByteSize(bytes).display().iec().to_string()
}
