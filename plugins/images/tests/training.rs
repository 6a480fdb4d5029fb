//! Photographs to a trained network, through both plugins as their `plugin.yaml` sets them up and starts them. Downloads libtorch
//! if it is not there yet, builds both plugins, and trains for less than a minute.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use flow_plugin::harness::{Harness, Report};
use serde_json::{Value, json};

/// A plugin of this repository, set up.
struct Plugin {
    folder: PathBuf,
    manifest: Value,
    cache: String,
}

impl Plugin {
    fn set_up(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).canonicalize().unwrap();
        let text = std::fs::read_to_string(folder.join("plugin.yaml")).unwrap();
        let cache = env::var("FLOW_CACHE").unwrap_or_else(|_| {
            let home = env::var("XDG_CACHE_HOME").unwrap_or_else(|_| format!("{}/.cache", env::var("HOME").unwrap()));
            format!("{home}/flow")
        });
        let plugin = Self { folder, manifest: serde_yaml::from_str(&text).unwrap(), cache };
        for line in plugin.manifest["setup"].as_array().unwrap() {
            let line = line.as_str().unwrap();
            let mut command = Command::new("sh");
            command.args(["-c", line]).current_dir(&plugin.folder).env("FLOW_CACHE", &plugin.cache);
            // `start` names a place in the repository's own target folder.
            let status = command.env_remove("CARGO_TARGET_DIR").status().unwrap();
            assert!(status.success(), "{name}: `{line}` failed");
        }
        plugin
    }

    fn run(&self, step: &str, with: Value) -> Report {
        let outputs = self.manifest["steps"][step]["outputs"].as_object().unwrap();
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        let mut harness = Harness::new(step).cpus(cpus);
        for (name, value) in with.as_object().unwrap() {
            harness = harness.with(name, value.clone());
        }
        for (name, path) in outputs {
            harness = harness.output(name, path.as_str().unwrap());
        }
        let mut command = Command::new(self.folder.join(self.manifest["start"][0].as_str().unwrap()));
        for (name, value) in self.manifest.get("env").and_then(Value::as_object).into_iter().flatten() {
            command.env(name, value.as_str().unwrap().replace("${FLOW_CACHE}", &self.cache));
        }
        let report = harness.run(&mut command);
        report.expect_ok();
        report
    }
}

/// Source, dataset and training; the accuracy after each epoch on photographs that were not trained on.
fn top1(source: Value, version: &str, size: u32, train: Value) -> Vec<f64> {
    let (images, torch) = (Plugin::set_up("images"), Plugin::set_up("torch"));
    let photos = images.run("source", source);
    let dataset = images.run("prepare", json!({"photos": photos.output("out"), "version": version, "size": size}));
    let mut with = train;
    with["data"] = json!(dataset.output("out"));
    torch.run("train", with).series("top1")
}

#[test]
fn the_synthetic_set_is_learnt_but_not_at_once() {
    let train = json!({"model": "mobilenet_v2", "batch": 16, "epochs": 3});
    let top1 = top1(json!({"classes": 5, "count": 600, "seed": 8}), "v11", 64, train);
    println!("top-1 after each epoch: {top1:?}, chance is 0.2");
    assert!((0.4..0.98).contains(&top1[2]), "{top1:?}");
}
