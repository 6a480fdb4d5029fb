//! Facts about this machine: CPUs and memory that flow may use, and its GPUs. Knows no step and no load.

mod fake;
pub mod gpu_lock;
mod gpus;
pub mod ledger;
mod limits;
mod shared_file;
mod visible;

use std::{env, fs, num::NonZero, path::Path, sync::OnceLock, thread};

use flow_core::Machine;
use nix::unistd::{SysconfVar, sysconf};

use crate::nvml::Survey;

pub use fake::parse_fake_gpus;
pub use gpus::declares;
pub use visible::{allowed_by_flag, allowed_by_variable};

/// The environment variable that declares GPUs that do not exist.
pub const FAKE_GPUS_VAR: &str = "FLOW_FAKE_GPUS";

/// The machine as flow may use it, within affinity, control groups, an inherited `CUDA_VISIBLE_DEVICES`, and `only`,
/// the value of `--gpus`.
///
/// # Errors
/// A sentence: `FLOW_FAKE_GPUS` is invalid, or `only` names a missing GPU.
pub fn machine(only: Option<&str>) -> Result<Machine, String> {
    examine(only).map(|(machine, _)| machine)
}

/// As [`machine`], with NVML's information about the GPUs that flow may use.
///
/// # Errors
/// As [`machine`].
pub fn examine(only: Option<&str>) -> Result<(Machine, Survey), String> {
    let gpus::UsableGpus { gpus, fake, survey } = gpus::found(only)?;
    let machine = Machine {
        fake_gpus: fake && !gpus.is_empty(),
        gpus,
        driver: survey.driver.clone(),
        gpu_troubles: survey.troubles.clone(),
        ..without_gpus()
    };
    Ok((machine, survey))
}

/// This machine without its GPUs, which are not queried because that would wake them up.
pub(crate) fn without_gpus() -> Machine {
    Machine {
        cpus: usable_cpus(),
        cpu_model: cpu_model(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
        memory: limits::memory(Path::new("/")),
        ..Machine::default()
    }
}

/// The machine's name, without its domain.
pub fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim().split('.').next().unwrap_or_default();
    if name.is_empty() { "unnamed".to_owned() } else { name.to_owned() }
}

/// The user who runs this, by name.
pub fn person() -> String {
    shared_file::name(nix::unistd::Uid::effective())
}

/// All online CPUs of the host, usable or not: the base for shares of the host.
pub fn host_cpus() -> u32 {
    static HOST: OnceLock<u32> = OnceLock::new();
    let online = || sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
    *HOST.get_or_init(|| online().and_then(|cpus| u32::try_from(cpus).ok()).unwrap_or(1).max(1))
}

/// By the affinity mask and the CPU quota of control groups, when they are first asked for.
fn usable_cpus() -> u32 {
    static USABLE: OnceLock<u32> = OnceLock::new();
    *USABLE.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get).try_into().unwrap_or(u32::MAX))
}

/// The CPUs that this process may use, if the host has more.
pub fn allowed_cpus() -> Option<u32> {
    Some(usable_cpus()).filter(|cpus| *cpus < host_cpus())
}

/// The model that the kernel names, or the architecture if there is none, as on many ARM machines.
fn cpu_model(cpuinfo: &str) -> String {
    let named = |key: &str| {
        let line = cpuinfo.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(':'))?;
        let words: Vec<&str> = line.split_whitespace().collect();
        (!words.is_empty()).then(|| words.join(" "))
    };
    named("model name").or_else(|| named("Model")).unwrap_or_else(|| env::consts::ARCH.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_facts() {
        let machine = machine(None).unwrap();
        assert!(machine.cpus >= 1 && machine.cpus <= host_cpus(), "{machine:?}");
        assert!(machine.memory > 100 << 20, "{machine:?}");
        assert!(!machine.cpu_model.is_empty());
    }

    #[test]
    fn the_cpu_model_is_one_line() {
        let epyc = "processor\t: 0\nmodel\t\t: 1\nmodel name\t: AMD EPYC  7571\nflags: x\n";
        assert_eq!(cpu_model(epyc), "AMD EPYC 7571");
        assert_eq!(cpu_model("processor\t: 0\nBogoMIPS\t: 50\nModel\t\t: Raspberry Pi 5\n"), "Raspberry Pi 5");
        assert_eq!(cpu_model(""), env::consts::ARCH);
    }
}
