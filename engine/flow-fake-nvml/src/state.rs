//! Reads the text file that describes the GPUs. Knows no call of the library.

use std::{env, fs, path::Path};

use crate::STATE_VAR;

#[derive(Clone, Debug, Default)]
pub(crate) struct Gpu {
    pub(crate) name: String,
    pub(crate) uuid: String,
    pub(crate) total: u64,
    pub(crate) used: u64,
    pub(crate) reserved: u64,
    pub(crate) load: u32,
    pub(crate) memory_load: u32,
    pub(crate) watts: u32,
    pub(crate) pcie: (u32, u32),
    pub(crate) no_energy: bool,
    pub(crate) mig: bool,
    pub(crate) lost: bool,
    pub(crate) hang_ms: u64,
    pub(crate) processes: Vec<Process>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) memory: u64,
    pub(crate) sm: u32,
    pub(crate) computes: bool,
    pub(crate) draws: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) driver: String,
    /// The return code of the library's start.
    pub(crate) init: u32,
    pub(crate) gpus: Vec<Gpu>,
    missing: Vec<String>,
}

impl State {
    pub(crate) fn read() -> State {
        let path = env::var(STATE_VAR).unwrap_or_default();
        Self::parse(&fs::read_to_string(&path).unwrap_or_default(), &path)
    }

    pub(crate) fn has(&self, call: &str) -> bool {
        !self.missing.iter().any(|missing| missing == call)
    }

    fn parse(text: &str, path: &str) -> State {
        let mut state = State { driver: "580.95.05".to_owned(), ..State::default() };
        for line in text.lines() {
            let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
            match word {
                "driver" => state.driver = rest.to_owned(),
                "init" => state.init = rest.parse().unwrap_or(999),
                "missing" => state.missing.push(rest.to_owned()),
                "gpu" => {
                    let gpu = gpu(rest, path, state.gpus.len());
                    state.gpus.push(gpu);
                }
                "process" => state.process(rest),
                _ => {}
            }
        }
        state
    }

    fn process(&mut self, rest: &str) {
        let (gpu, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let at = gpu.parse().ok().or_else(|| self.gpus.iter().position(|known| known.uuid == gpu));
        let Some(gpu) = at.and_then(|at: usize| self.gpus.get_mut(at)) else { return };
        let mut process = Process { computes: true, ..Process::default() };
        for field in rest.split_whitespace() {
            match field.split_once('=').unwrap_or((field, "")) {
                ("pid", value) => process.pid = number(value),
                ("memory", value) => process.memory = bytes(value),
                ("sm", value) => process.sm = number(value),
                ("graphics", _) => (process.computes, process.draws) = (false, true),
                ("desktop", _) => process.draws = true,
                _ => {}
            }
        }
        // As in the driver, an ended process holds nothing.
        if Path::new(&format!("/proc/{}", process.pid)).exists() {
            gpu.used += process.memory;
            gpu.processes.push(process);
        }
    }
}

fn gpu(rest: &str, path: &str, index: usize) -> Gpu {
    let mut fields = rest.split(';').map(str::trim);
    let mut gpu = Gpu {
        name: fields.next().unwrap_or_default().to_owned(),
        // GPUs of different files are different, also for locks between programs.
        uuid: format!("GPU-{:016x}-{index}", fnv(path)),
        total: 12196 << 20,
        watts: 60,
        pcie: (3, 16),
        ..Gpu::default()
    };
    for field in fields {
        match field.split_once('=').unwrap_or((field, "")) {
            ("uuid", value) => gpu.uuid = value.to_owned(),
            ("memory", value) => gpu.total = bytes(value),
            ("used", value) => gpu.used = bytes(value),
            ("reserved", value) => gpu.reserved = bytes(value),
            ("load", value) => gpu.load = number(value),
            ("memory_load", value) => gpu.memory_load = number(value),
            ("power", value) => gpu.watts = number(value),
            ("pcie", value) => gpu.pcie = value.split_once('x').map_or((0, 0), |(g, w)| (number(g), number(w))),
            ("energy", "no") => gpu.no_energy = true,
            ("hang", value) => gpu.hang_ms = u64::from(number(value)),
            ("mig", _) => gpu.mig = true,
            ("lost", _) => gpu.lost = true,
            _ => {}
        }
    }
    gpu
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or(0)
}

fn bytes(text: &str) -> u64 {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
    let (digits, shift) = unit.unwrap_or((text, 0));
    digits.trim().parse::<u64>().unwrap_or(0) << shift
}

/// FNV-1a.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_what_there_is() {
        let me = std::process::id();
        let text = format!(
            "driver 470.1\ngpu NVIDIA TITAN Xp; memory=12196MiB; used=10MiB; load=37; pcie=2x8\ngpu B; uuid=GPU-b; lost\n\
             process 0 pid={me} memory=1GiB sm=30\nprocess GPU-b pid={me} graphics\nprocess 0 pid=999999999 memory=1GiB\nmissing nvmlX\n"
        );
        let state = State::parse(&text, "/some/file");
        assert_eq!(
            (&*state.driver, state.gpus.len(), state.has("nvmlX"), state.has("nvmlY")),
            ("470.1", 2, false, true)
        );
        let [a, b] = &state.gpus[..] else { panic!() };
        assert_eq!(
            (&*a.name, a.total, a.used, a.load, a.pcie),
            ("NVIDIA TITAN Xp", 12196 << 20, 1034 << 20, 37, (2, 8))
        );
        assert_eq!((a.processes.len(), a.processes[0].sm, b.lost, b.processes[0].draws), (1, 30, true, true));
    }
}
