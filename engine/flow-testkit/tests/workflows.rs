//! Every workflow that the repository holds, against the plugins and built-ins that it holds: expands on machines of all sizes.

use std::{collections::BTreeMap, fs, path::Path};

use flow_core::{
    Builtins, Catalogue, CatalogueStep, Diagnostic, Digest, ExpandRequest, GpuFacts, Machine, PluginFacts, Source,
    parse_with,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Manifest {
    name: String,
    steps: BTreeMap<String, CatalogueStep>,
}

/// Adds the plugins in the folders of a folder.
fn plugins(folder: &Path, catalogue: &mut Catalogue) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(text) = fs::read_to_string(entry.path().join("plugin.yaml")) else { continue };
        let manifest: Manifest = serde_yaml::from_str(&text).unwrap_or_else(|e| panic!("{:?}: {e}", entry.path()));
        let digest = Digest::of(text.as_bytes());
        let facts = PluginFacts { version: String::new(), digest, protocol: 1, steps: manifest.steps };
        catalogue.plugins.insert(manifest.name, facts);
    }
}

fn machine(gpus: u32) -> Machine {
    let gpu = |index| GpuFacts { uuid: format!("GPU-{index}"), index, name: "GPU".into(), memory: 12 << 30 };
    Machine { gpus: (0..gpus).map(gpu).collect(), cpus: 16, memory: 64 << 30, ..Machine::default() }
}

#[test]
fn every_workflow_expands() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository");
    let mut real = Catalogue { builtins: flow_report::Reports::default().provided(), ..Catalogue::default() };
    real.builtins.insert("simulate".to_owned(), flow_sim::provided());
    plugins(&root.join("plugins"), &mut real);
    let mut folders = vec![root.join("workflows"), root.join("examples")];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        let mut catalogue = real.clone();
        plugins(&folder.join("plugins"), &mut catalogue);
        for path in fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.is_dir() && !path.ends_with("plugins") && !path.ends_with("parts") {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "yaml") {
                seen += 1;
                let text = fs::read_to_string(&path).expect("a file");
                let source = Source { path: path.display().to_string(), text };
                for gpus in [0, 1, 2, 4, 8] {
                    let here = folder.to_string_lossy();
                    let request = ExpandRequest {
                        catalogue: &catalogue,
                        machine: &machine(gpus),
                        profile: None,
                        set: &[],
                        files: &[],
                        folder: &here,
                        shell_folder: &here,
                        batch: flow_core::Batch::default(),
                    };
                    let mut read =
                        |path: &str| fs::read_to_string(path).map_err(|e| Diagnostic::new(format!("{path}: {e}")));
                    let read = parse_with(&source, &mut read);
                    let wanted = read.and_then(|workflow| workflow.expand(&request)?.targets(&[]));
                    let wrong = wanted.err().unwrap_or_default();
                    let said: Vec<String> =
                        wrong.iter().map(|d| format!("{:?}: {d}", d.line_column(&source.text))).collect();
                    assert!(said.is_empty(), "{} on {gpus} GPUs: {said:#?}", path.display());
                }
            }
        }
    }
    assert!(seen > 0);
}
