//! The language as people meet it: what a workflow expands to, what its expressions give, and what is said when it is wrong.

mod errors;
mod expansion;
mod fuzz;
mod include;
mod late;
mod schema;
mod text;

use std::{collections::BTreeMap, sync::LazyLock};

use flow_core::{
    Catalogue, CatalogueStep, Diagnostic, Digest, ExpandRequest, Expansion, GpuFacts, Machine, PluginFacts, Source,
    Workflow, parse_with,
};
use serde::Deserialize;

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct File {
        builtins: BTreeMap<String, CatalogueStep>,
        plugins: BTreeMap<String, BTreeMap<String, CatalogueStep>>,
    }
    let file: File = serde_yaml::from_str(include_str!("catalogue.yaml")).expect("a catalogue");
    let facts = |steps| PluginFacts { version: "1".into(), digest: Digest::of(b"plugin"), protocol: 1, steps };
    Catalogue {
        builtins: file.builtins,
        plugins: file.plugins.into_iter().map(|(name, steps)| (name, facts(steps))).collect(),
    }
});

/// A machine with so many GPUs of 12 GiB, 8 CPUs and 64 GiB.
fn machine(gpus: u32) -> Machine {
    let gpu = |index| GpuFacts { uuid: format!("GPU-{index}"), index, name: "TITAN Xp".into(), memory: 12 << 30 };
    Machine { gpus: (0..gpus).map(gpu).collect(), cpus: 8, memory: 64 << 30, ..Machine::default() }
}

/// Expands a text on a machine.
fn expand_on(text: &str, machine: &Machine, profile: Option<&str>, set: &[&str]) -> Result<Expansion, Vec<Diagnostic>> {
    let source = Source { path: "test.yaml".into(), text: text.to_owned() };
    let mut read = |path: &str| match path {
        "parts/photographs.yaml" => Ok(include_str!("../../../../workflows/parts/photographs.yaml").to_owned()),
        _ => Err(Diagnostic::new(format!("{path}: not found"))),
    };
    expand_workflow(&parse_with(&source, &mut read)?, machine, profile, set)
}

fn expand_workflow(
    workflow: &Workflow,
    machine: &Machine,
    profile: Option<&str>,
    set: &[&str],
) -> Result<Expansion, Vec<Diagnostic>> {
    let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
    workflow.expand(&ExpandRequest {
        catalogue: &CATALOGUE,
        machine,
        profile,
        set: &set,
        files: &[],
        folder: "/lab/workflows",
        shell_folder: "/lab/shell",
        batch: flow_core::Batch::default(),
    })
}

/// Expands a text that is right.
fn expand(text: &str) -> Expansion {
    expand_on(text, &machine(2), None, &[]).unwrap_or_else(|wrong| panic!("{}", shown(text, &wrong)))
}

/// A workflow of these steps, indented as they are.
fn steps(steps: &str) -> String {
    format!("flow: 1\nname: t\nparams: {{model: resnet18, photos: null, sizes: [1, 2], nothing: []}}\nsteps:\n{steps}")
}

/// Diagnostics, one a line: `line:column: message: expected; help`.
fn shown(text: &str, wrong: &[Diagnostic]) -> String {
    let line = |d: &Diagnostic| {
        let place = d.line_column(text).map_or("-".to_owned(), |(line, column)| format!("{line}:{column}"));
        format!("{place}: {d}")
    };
    wrong.iter().map(line).collect::<Vec<_>>().join("\n")
}
