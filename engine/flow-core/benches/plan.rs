//! What planning costs: a sweep of 100,000 trainings, from the text of the workflow to the reasons for which each is to run.
//! The aim is 3 s and 400 MiB for all of it. And what estimates cost, where each other instance has run before.

use std::collections::BTreeMap;

use divan::{AllocProfiler, Bencher};
use flow_core::{
    Catalogue, Digest, ExpandRequest, Expansion, GpuFacts, Input, Instance, Machine, Mode, Outcome, PluginFacts,
    Provided, RunId, Source, StepId, StepResult,
    fingerprint::{Parts, Tree},
    learn::{self, History, Observation},
    parse,
    plan::{Context, Force, Lookup, plan},
    reason::Fault,
    why::Listed,
};
use serde_json::json;

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

const SWEEP: &str = r#"
flow: 1
params: {batches: 500, rates: 100, photos: ./photos}
steps:
  source: {uses: images/source, with: {folder: "${{ photos }}"}}
  dataset: {matrix: {version: [v7, v11]}, uses: images/prepare, with: {photos: "${{ steps.source.out }}", version: "${{ version }}"}}
  train:
    matrix: {version: [v7, v11], batch: "${{ range(1, batches + 1) }}", rate: "${{ range(rates) }}"}
    uses: torch/train
    with: {data: "${{ steps.dataset.out }}", batch: "${{ batch }}", lr: "${{ 0.001 * (rate + 1) }}", model: resnet18}
    gpus: ${{ 2 if batch >= 128 else 1 }}
    record: [out_of_memory]
    timeout: 2h
  best: {run: "best ${{ steps.train | length }}"}
"#;

/// A command for each, as in a sweep of a script.
const COMMANDS: &str = r#"
flow: 1
steps:
  train:
    matrix: {batch: "${{ range(1000) }}", rate: "${{ range(100) }}"}
    run: python train.py --batch ${{ batch }} --rate ${{ 0.001 * (rate + 1) }} --seed ${{ seed }}
    inputs: [train.py]
    outputs: [model.pt]
"#;

fn text(name: &str) -> &'static str {
    if name == "sweep" { SWEEP } else { COMMANDS }
}

fn catalogue() -> Catalogue {
    let provided = |with, outputs: &[&str]| Provided {
        with,
        outputs: outputs.iter().map(|o| ((*o).to_owned(), format!("out/{o}"))).collect(),
        ..Provided::default()
    };
    let path = json!({"type": "string", "x-flow": "path"});
    let source = json!({"type": "object", "additionalProperties": false, "properties": {"folder": path}});
    let prepare = json!({"type": "object", "additionalProperties": false, "required": ["photos", "version"],
        "properties": {"photos": path, "version": {"enum": ["v7", "v11"]}, "size": {"type": "integer", "default": 224}}});
    let train = json!({"type": "object", "additionalProperties": false, "required": ["data"], "properties": {
        "data": path, "batch": {"type": "integer", "minimum": 1}, "lr": {"type": "number", "exclusiveMinimum": 0},
        "model": {"enum": ["resnet18", "resnet34"]}, "epochs": {"type": "integer", "default": 4}}});
    let plugin = |steps: BTreeMap<String, Provided>| PluginFacts {
        version: "1".to_owned(),
        digest: Digest::of(b"plugin"),
        protocol: 1,
        steps,
    };
    let images = [("source", provided(source, &["out"])), ("prepare", provided(prepare, &["out"]))];
    let torch = [("train", provided(train, &["model"]))];
    let named = |steps: Vec<(&str, Provided)>| steps.into_iter().map(|(n, p)| (n.to_owned(), p)).collect();
    Catalogue {
        builtins: BTreeMap::new(),
        plugins: BTreeMap::from([
            ("images".to_owned(), plugin(named(images.into()))),
            ("torch".to_owned(), plugin(named(torch.into()))),
        ]),
    }
}

fn machine() -> Machine {
    let gpu = |index| GpuFacts { uuid: format!("GPU-{index}"), index, name: "GPU".into(), memory: 12 << 30 };
    Machine { gpus: (0..4).map(gpu).collect(), cpus: 32, memory: 128 << 30, ..Machine::default() }
}

fn expand(text: &str, catalogue: &Catalogue) -> Expansion {
    let source = Source { path: "bench.yaml".into(), text: text.to_owned() };
    let request = ExpandRequest {
        catalogue,
        machine: &machine(),
        profile: None,
        set: &[],
        files: &[],
        folder: "/lab",
        shell_folder: "/lab",
        batch: flow_core::Batch::default(),
    };
    parse(&source).and_then(|workflow| workflow.expand(&request)).expect("a workflow that is right")
}

/// An empty store and inputs that are there.
struct Nothing;

impl Lookup for Nothing {
    fn input(&mut self, input: &Input) -> Result<Tree, Fault> {
        Ok(Tree { digest: Digest::of(input.path.as_bytes()), manifest: None })
    }
    fn result(&mut self, _: &Digest) -> Result<Option<StepResult>, Fault> {
        Ok(None)
    }
    fn last(&mut self, _: &str) -> Option<Parts> {
        None
    }
    fn listed(&mut self, _: &Digest) -> Option<Listed> {
        None
    }
}

#[divan::bench(args = ["sweep", "commands"], sample_count = 3, sample_size = 1)]
fn expanding(bencher: Bencher<'_, '_>, name: &str) {
    let (text, catalogue) = (text(name), catalogue());
    bencher.bench(|| expand(text, &catalogue));
}

#[divan::bench(args = ["sweep", "commands"], sample_count = 3, sample_size = 1)]
fn planning(bencher: Bencher<'_, '_>, name: &str) {
    let (text, catalogue) = (text(name), catalogue());
    bencher.bench(|| {
        let expansion = expand(text, &catalogue);
        let wanted = expansion.targets(&[]).expect("everything");
        let plan =
            plan(&Context { expansion: &expansion, catalogue: &catalogue }, &wanted, &mut Nothing, &Force::default());
        (expansion, plan)
    });
}

/// Of every other instance, so that each second one is estimated from the others.
#[divan::bench(args = ["sweep", "commands"], sample_count = 3, sample_size = 1)]
fn estimating(bencher: Bencher<'_, '_>, name: &str) {
    let expansion = expand(text(name), &catalogue());
    let wanted = expansion.targets(&[]).expect("everything");
    let observation = |instance: &Instance| Observation {
        label: instance.label.to_string(),
        run: RunId("r".to_owned()),
        at: u64::from(instance.id.0),
        outcome: Outcome::Ok,
        mode: Mode::Plain,
        wall_s: 10.0,
        cpu_cores: Some(1.0),
        rss_peak: Some(1),
        gpu_memory: 1 << 30,
        gpu_load: 0.5,
        gpu_load_whole: None,
        gpus: None,
        gpu_model: Some("GPU".to_owned()),
        program: None,
        point: instance.axes.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        epoch_s: Some(1.0),
        beside: false,
        undisturbed: true,
        energy_j: None,
        lacks_a_part: false,
        images_per_s: None,
        phases: None,
        sharing: None,
    };
    bencher.bench(|| {
        let mut history = History::new(&expansion, &expansion.instances);
        for (step, of) in expansion.steps.iter().enumerate() {
            let seen = expansion.instances[of.instances.start as usize..of.instances.end as usize].iter().step_by(2);
            history.remember(StepId(step as u32), seen.map(observation).collect());
        }
        learn::tasks(&wanted, &BTreeMap::new(), &history)
    });
}

fn main() {
    divan::main();
}
