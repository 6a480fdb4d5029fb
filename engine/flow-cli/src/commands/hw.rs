//! `flow hw`: the machine's hardware, the state of its GPUs, and the bandwidth to their memory.

use std::process::ExitCode;

use clap::Args;
use flow_core::Machine;
use flow_exec::{
    ExecError,
    hardware::{self, Probe, Rate},
    nvml::{Card, Survey, process_name},
};
use serde::Serialize;

use super::{Done, cluster};
use crate::error::CliError;
use crate::output::Output;
use crate::words;

/// Arguments of `flow hw`.
#[derive(Debug, Args)]
#[command(after_help = "\
CUDA_VISIBLE_DEVICES and --gpus restrict the GPUs that flow may use. FLOW_FAKE_GPUS='4 x TITAN Xp, 12196 MiB' plans
for GPUs that are not here; further models follow after a comma. FLOW_NVML_LIB loads another NVIDIA management library.
The flow processes of a machine lock each GPU with a file, /tmp/flow-UUID.lock. FLOW_GPU_LOCKS selects another folder
for them, for containers that share GPUs but not /tmp. `flow queue` shows who holds which resources.")]
pub(crate) struct Hw {
    /// Only these GPUs, by index: 0,1
    #[arg(long, value_name = "LIST")]
    gpus: Option<String>,
    /// Measure the bandwidth of page-locked memory to and from each GPU, in GB/s
    #[arg(long)]
    probe: bool,
    /// Show a cluster's hardware and what is free, instead of this machine: `slurm`
    #[arg(long, value_name = "PLACE", value_parser = ["local", "slurm"], conflicts_with_all = ["gpus", "probe"])]
    on: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` prints: the machine as in journals, and its present state.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    machine: &'a Machine,
    #[serde(skip_serializing_if = "Option::is_none")]
    cuda: Option<&'a String>,
    cards: &'a [Card],
    #[serde(skip_serializing_if = "Option::is_none")]
    rates: Option<&'a [Rate]>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    not_measured: &'a [String],
}

impl Hw {
    pub(crate) fn execute(self, output: &mut Output) -> Done {
        if self.on.as_deref() == Some("slurm") {
            return cluster::show(self.json, output);
        }
        let examined = hardware::examine(self.gpus.as_deref());
        let (machine, survey) = examined.map_err(|e| CliError::from(ExecError::Usage(e)))?;
        let mut probe = self.probe.then(hardware::probe);
        if let Some(probe) = &mut probe {
            // CUDA uses what its own variable leaves; `--gpus` is flow's.
            probe.rates.retain(|rate| machine.gpus.iter().any(|gpu| gpu.uuid == rate.uuid));
        }
        if self.json {
            output.json(&Shown {
                machine: &machine,
                cuda: survey.cuda.as_ref(),
                cards: &survey.cards,
                rates: probe.as_ref().map(|probe| &*probe.rates),
                not_measured: probe.as_ref().map(|probe| &*probe.troubles).unwrap_or_default(),
            })?;
        } else {
            for line in render(&machine, &survey, probe.as_ref()) {
                output.line(line)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn render(machine: &Machine, survey: &Survey, probe: Option<&Probe>) -> Vec<String> {
    let row = |name: &str, text: String| vec![name.to_owned(), text];
    let mut rows = vec![
        row("CPUs", format!("{} × {}", machine.cpus, machine.cpu_model)),
        row("memory", words::bytes(machine.memory)),
    ];
    if let Some(driver) = &machine.driver {
        let cuda = survey.cuda.as_ref().map(|cuda| format!(", for CUDA up to {cuda}")).unwrap_or_default();
        rows.push(row("driver", format!("{driver}{cuda}")));
    }
    rows.extend(survey.troubles.iter().map(|trouble| row("trouble", trouble.to_string())));
    match &machine.gpus[..] {
        [] if machine.driver.is_none() && survey.troubles.is_empty() => {
            rows.push(row("GPUs", "none: there is no NVIDIA driver (libnvidia-ml.so.1) on this machine".to_owned()));
        }
        [] => rows.push(row("GPUs", "none that flow may use".to_owned())),
        gpus if machine.fake_gpus => rows.extend(gpus.iter().map(|gpu| {
            let memory = words::bytes(gpu.memory);
            row(&format!("GPU {}", gpu.index), format!("{}, {memory}, declared by FLOW_FAKE_GPUS", gpu.name))
        })),
        _ => rows.push(row("GPUs", words::count(machine.gpus.len(), "card"))),
    }
    let mut lines = words::columns(&rows);
    if !survey.cards.is_empty() {
        lines.push(String::new());
        lines.extend(table(&survey.cards, probe.map(|probe| &*probe.rates)));
        lines.extend(processes(&survey.cards));
    }
    lines.extend(probe.iter().flat_map(|probe| &probe.troubles).map(|trouble| format!("not measured: {trouble}")));
    lines
}

fn table(cards: &[Card], rates: Option<&[Rate]>) -> Vec<String> {
    let mut heads =
        vec!["GPU", "model", "memory", "free", "GPU load", "memory-controller load", "power", "PCIe now", "PCIe"];
    if rates.is_some() {
        heads.extend(["to GPU", "to host"]);
    }
    heads.push("UUID");
    let mut rows = vec![heads.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    let told = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
    let link = |link: Option<(u32, u32)>| told(link.map(|(generation, width)| format!("{generation}.0 x{width}")));
    let share = |share: Option<f64>| told(share.map(|share| format!("{:.0}%", share * 100.0)));
    for card in cards {
        let now = &card.now;
        let mut row = vec![
            card.facts.index.to_string(),
            card.facts.name.clone(),
            words::bytes(card.facts.memory),
            told(now.memory.map(|memory| words::bytes(memory.free))),
            share(now.load),
            share(now.memory_load),
            told(now.watts.map(|watts| format!("{watts:.0} W"))),
            link(now.pcie),
            link(card.pcie_largest),
        ];
        if let Some(rates) = rates {
            let rate = rates.iter().find(|rate| rate.uuid == card.facts.uuid);
            let shown =
                |value: fn(&Rate) -> f64| rate.map_or_else(|| "—".to_owned(), |r| format!("{:.1} GB/s", value(r)));
            row.extend([shown(|r| r.to_device), shown(|r| r.to_host)]);
        }
        row.push(card.facts.uuid.clone());
        rows.push(row);
    }
    words::columns(&rows)
}

/// Processes on the GPUs: they share a rate that was measured meanwhile.
fn processes(cards: &[Card]) -> Vec<String> {
    let mut lines = Vec::new();
    for card in cards {
        for process in card.now.processes.iter().flatten() {
            let memory = process.memory.map_or_else(|| "memory unknown".to_owned(), words::bytes);
            let name = process_name(process.pid);
            lines.push(format!("GPU {}: process {} ({name}), {memory}", card.facts.index, process.pid));
        }
    }
    lines
}
