//! `flow hw`: the machine's hardware and the state of its GPUs.

use clap::Args;
use flow_core::Machine;
use flow_exec::ExecError;
use flow_supervisor::{
    hardware,
    nvml::{GpuSurvey, Survey, process_name},
};
use serde::Serialize;

use super::{CommandResult, cluster};
use crate::error::CliError;
use crate::output::Output;
use crate::words;

/// Arguments of `flow hw`.
#[derive(Debug, Args)]
#[command(after_help = "\
CUDA_VISIBLE_DEVICES and --gpus restrict the GPUs that flow may use. FLOW_FAKE_GPUS='4 x TITAN Xp, 12196 MiB' plans \
for GPUs that are not here; further models follow after a comma. FLOW_NVML_LIB loads another NVIDIA management library. \
The flow processes of a machine lock each GPU with a file, /tmp/flow-UUID.lock. FLOW_GPU_LOCKS selects another folder \
for them, for containers that share GPUs but not /tmp. `flow queue` shows who holds which resources.")]
pub(crate) struct Hw {
    /// Only these GPUs, by index: 0,1
    #[arg(long, value_name = "LIST")]
    gpus: Option<String>,
    /// Show a cluster's hardware and what is free, instead of this machine: `slurm`
    #[arg(long, value_name = "PLACE", value_parser = ["local", "slurm"], conflicts_with = "gpus")]
    on: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` prints: the machine as in journals, and its present state.
#[derive(Serialize)]
struct HardwareJson<'a> {
    #[serde(flatten)]
    machine: &'a Machine,
    #[serde(skip_serializing_if = "Option::is_none")]
    cuda: Option<&'a String>,
    devices: &'a [GpuSurvey],
}

impl Hw {
    pub(crate) fn execute(self, output: &mut Output) -> CommandResult {
        if self.on.as_deref() == Some("slurm") {
            return cluster::show(self.json, output);
        }
        let examined = hardware::examine(self.gpus.as_deref());
        let (machine, survey) = examined.map_err(|e| CliError::from(ExecError::Usage(e)))?;
        match self.json {
            true => {
                output.json(&HardwareJson { machine: &machine, cuda: survey.cuda.as_ref(), devices: &survey.gpus })?;
            }
            false => output.lines(render(&machine, &survey))?,
        }
        Ok(())
    }
}

fn render(machine: &Machine, survey: &Survey) -> Vec<String> {
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
        _ => rows.push(row("GPUs", machine.gpus.len().to_string())),
    }
    let mut lines = words::columns(&rows);
    if !survey.gpus.is_empty() {
        lines.push(String::new());
        lines.extend(table(&survey.gpus));
        lines.extend(processes(&survey.gpus));
    }
    lines
}

fn table(gpus: &[GpuSurvey]) -> Vec<String> {
    let heads =
        ["GPU", "model", "memory", "free", "GPU load", "memory-controller load", "power", "PCIe now", "PCIe", "UUID"];
    let mut rows = vec![heads.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    let told = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
    let link = |link: Option<(u32, u32)>| told(link.map(|(generation, width)| format!("{generation}.0 x{width}")));
    let share = |share: Option<f64>| told(share.map(|share| format!("{:.0}%", share * 100.0)));
    for gpu in gpus {
        let now = &gpu.now;
        rows.push(vec![
            gpu.facts.index.to_string(),
            gpu.facts.name.clone(),
            words::bytes(gpu.facts.memory),
            told(now.memory.map(|memory| words::bytes(memory.free))),
            share(now.load),
            share(now.memory_load),
            told(now.watts.map(|watts| format!("{watts:.0} W"))),
            link(now.pcie),
            link(gpu.pcie_max),
            gpu.facts.uuid.clone(),
        ]);
    }
    words::columns(&rows)
}

/// Processes on the GPUs.
fn processes(gpus: &[GpuSurvey]) -> Vec<String> {
    let mut lines = Vec::new();
    for gpu in gpus {
        for process in gpu.now.processes.iter().flatten() {
            let memory = process.memory.map_or_else(|| "memory unknown".to_owned(), words::bytes);
            let name = process_name(process.pid);
            lines.push(format!("GPU {}: process {} ({name}), {memory}", gpu.facts.index, process.pid));
        }
    }
    lines
}
