//! `flow hw`.

use std::process::ExitCode;

use clap::Args;
use flow_core::Machine;
use flow_exec::{ExecError, hardware};

use super::Done;
use crate::error::CliError;
use crate::output::Output;
use crate::words;

/// Arguments of `flow hw`.
#[derive(Debug, Args)]
#[command(after_help = "\
CUDA_VISIBLE_DEVICES and --gpus restrict what flow may use. FLOW_FAKE_GPUS='4 x TITAN Xp, 12196 MiB' plans for
cards that are not there.")]
pub(crate) struct Hw {
    /// Only these GPUs, by index: 0,1
    #[arg(long, value_name = "LIST")]
    gpus: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Hw {
    pub(crate) fn execute(self, output: &mut Output) -> Done {
        let machine = hardware::machine(self.gpus.as_deref()).map_err(|e| CliError::from(ExecError::Usage(e)))?;
        if self.json {
            output.json(&machine)?;
        } else {
            for line in render(&machine) {
                output.line(line)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn render(machine: &Machine) -> Vec<String> {
    let mut rows = vec![
        vec!["CPUs".to_owned(), format!("{} × {}", machine.cpus, machine.cpu_model)],
        vec!["memory".to_owned(), words::bytes(machine.memory)],
    ];
    for gpu in &machine.gpus {
        let fake = if machine.fake_gpus { ", declared by FLOW_FAKE_GPUS" } else { "" };
        rows.push(vec![
            format!("GPU {}", gpu.index),
            format!("{}, {}, {}{fake}", gpu.name, words::bytes(gpu.memory), gpu.uuid),
        ]);
    }
    if machine.gpus.is_empty() {
        rows.push(vec!["GPUs".to_owned(), "none".to_owned()]);
    }
    if let Some(driver) = &machine.driver {
        rows.push(vec!["driver".to_owned(), driver.clone()]);
    }
    words::columns(&rows)
}
