//! The recipes of `docs/recipes.md` on what the loggers of others really write. Each file beside this one came from a training of a
//! few seconds on a CPU, cut at its head where it only names its environment: Keras 3.15.1 on TensorFlow 2.21.0, Lightning 2.6.6,
//! transformers 5.23.0, timm 1.0.31 by its own `train.py`, scikit-learn 1.9.1, tqdm 4.70.1, and the `SummaryWriter` of PyTorch 2.15.0.
#![expect(clippy::disallowed_methods, reason = "the test reads the files beside it")]

use std::{fs, path::Path};

use flow_core::{
    Catalogue, ExpandRequest, Machine, Metrics, NumberFiles, Source,
    measure::{EpochPosition, LINE_ENDS, ReportedNumbers, gather, read_numbers},
    parse,
    reason::NoMetrics,
};

fn fixture(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/loggers").join(name)).expect(name)
}

/// What a step printed, and what it left in its work folder, by path.
struct StepOutput<'a> {
    log: &'a str,
    files: &'a [(&'a str, &'a str)],
}

impl StepOutput<'_> {
    fn fixture(&self, path: &str) -> Result<Vec<u8>, NoMetrics> {
        let unread = || NoMetrics::Unread { file: path.to_owned(), error: "it is not there".into() };
        self.files.iter().find(|(at, _)| *at == path).map(|(_, name)| fixture(name)).ok_or_else(unread)
    }
}

impl NumberFiles for StepOutput<'_> {
    fn text(&mut self, file: &str) -> Result<String, NoMetrics> {
        Ok(String::from_utf8(self.fixture(file)?).expect("a text"))
    }

    fn event_files(&mut self, folder: &str) -> Result<Vec<String>, NoMetrics> {
        let below = |(at, _): &(&str, &str)| at.strip_prefix(folder)?.strip_prefix('/').map(str::to_owned);
        Ok(self.files.iter().filter_map(below).collect())
    }

    fn bytes(&mut self, file: &str) -> Result<Vec<u8>, NoMetrics> {
        self.fixture(file)
    }
}

fn metrics(written: &serde_yaml::Value) -> Metrics {
    let json = serde_json::to_value(written).expect("JSON");
    let source = Source {
        path: "t.yaml".into(),
        text: format!("{{flow: 1, name: t, steps: {{t: {{run: x, metrics: {json}}}}}}}"),
    };
    let (catalogue, machine) = (Catalogue::default(), Machine { cpus: 1, ..Machine::default() });
    let request = ExpandRequest {
        catalogue: &catalogue,
        machine: &machine,
        profile: None,
        set: &[],
        files: &[],
        folder: "/t",
        shell_folder: "/t",
        batch: flow_core::Batch::default(),
    };
    let expansion = parse(&source).and_then(|workflow| workflow.expand(&request)).expect("a workflow");
    let metrics = expansion.steps[0].metrics.as_deref();
    metrics.expect("metrics").clone()
}

/// `name=value` of all that is found, the epochs of the first of them, and what is missing.
fn read(written: &serde_yaml::Value, left: &mut StepOutput<'_>) -> (String, usize, Option<NoMetrics>) {
    let metrics = metrics(written);
    let (mut printed, mut reported) = (EpochPosition::default(), ReportedNumbers::of(Some(&metrics)));
    let log = if left.log.is_empty() { Vec::new() } else { fixture(left.log) };
    for (n, line) in log.split(|byte| LINE_ENDS.contains(byte)).enumerate() {
        printed.read_lines(&metrics.stdout, [line].into_iter(), n as f64, &mut reported);
    }
    let problem = read_numbers(&metrics, &printed, left, true, |name| name, &mut reported);
    let gathered = gather(&reported, 0.0, 1e3, None);
    let of_program = gathered.metrics.iter().filter(|(name, _)| *name != "epoch_time");
    let numbers: Vec<String> = of_program.map(|(name, metric)| format!("{name}={:.4}", metric.value)).collect();
    let keyed = |points: &Vec<flow_core::Point>| points.iter().filter(|p| p.key != flow_core::Key::default()).count();
    // The time of the first epoch may be unknown.
    let series = gathered.series.metrics.iter().filter(|(name, _)| *name != "epoch_time");
    let epochs = series.map(|(_, points)| keyed(points)).find(|values| *values > 0).unwrap_or(0);
    (numbers.join(" "), epochs, problem)
}

#[test]
fn every_recipe_reads_what_its_logger_writes() {
    let recipes =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipes.md")).expect("recipes");
    let blocks = recipes.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let recipes: Vec<serde_yaml::Value> = blocks.map(|block| serde_yaml::from_str(block).expect("YAML")).collect();
    let mut found = Vec::new();
    for (name, log, files) in [
        ("keras", "keras-bar.log", &[][..]),
        ("keras", "keras-lines.log", &[]),
        ("keras_csv", "", &[("log.csv", "keras.csv")]),
        ("lightning", "", &[("logs/metrics.csv", "lightning.csv")]),
        ("transformers", "", &[("log.json", "transformers.json")]),
        ("transformers_log", "transformers.log", &[]),
        ("timm", "", &[("output/run/summary.csv", "timm.csv")]),
        ("sklearn", "sklearn.log", &[]),
        ("tqdm", "tqdm.log", &[]),
        (
            "tensorboard",
            "",
            &[
                ("logs/train/events.out.tfevents.1.v2", "keras-train.tfevents"),
                ("logs/validation/events.out.tfevents.2.v2", "keras-validation.tfevents"),
            ],
        ),
        ("tensorboard", "", &[("logs/events.out.tfevents.1", "torch.tfevents")]),
        ("tensorboard", "", &[("logs/events.out.tfevents.1", "lightning.tfevents")]),
    ] {
        let of_name = |recipe: &&serde_yaml::Value| recipe["name"] == *name;
        let recipe = recipes.iter().find(of_name).unwrap_or_else(|| panic!("no recipe `{name}`"));
        let steps = recipe["steps"].as_mapping().expect("steps");
        let written = &steps.values().next().expect("a step")["metrics"];
        let (numbers, epochs, problem) = read(written, &mut StepOutput { log, files });
        assert_eq!(problem, None, "{name}");
        found.push(format!("{name}, {epochs} epochs: {numbers}"));
    }
    insta::assert_snapshot!(found.join("\n"), @"
    keras, 3 epochs: accuracy=0.7333 loss=0.5873 test_accuracy=0.7312 val_accuracy=0.6875 val_loss=0.5234
    keras, 3 epochs: accuracy=0.7333 loss=0.5873 test_accuracy=0.7312 val_accuracy=0.6875 val_loss=0.5234
    keras_csv, 3 epochs: accuracy=0.7333 loss=0.5873 val_accuracy=0.6875 val_loss=0.5234
    lightning, 3 epochs: train_loss=0.2744 val_acc=0.9812 val_loss=0.2500
    transformers, 3 epochs: eval_accuracy=0.5312 eval_loss=0.6932 eval_runtime=1.0109 eval_samples_per_second=31.6540 eval_steps_per_second=3.9570 grad_norm=0.1397 learning_rate=0.0004 loss=0.6869 total_flos=18745344.0000 train_loss=0.6909 train_runtime=11.9584 train_samples_per_second=16.0560 train_steps_per_second=1.0030
    transformers_log, 3 epochs: eval_accuracy=0.5312 eval_loss=0.6932 loss=0.6869
    timm, 3 epochs: eval_loss=0.7053 eval_top1=50.0000 eval_top5=100.0000 lr=0.0100 train_loss=0.6953
    sklearn, 4 epochs: accuracy=0.3600 loss=0.7235
    tqdm, 3 epochs: acc=0.8000 loss=0.2630
    tensorboard, 3 epochs: train_epoch_accuracy=0.7333 train_epoch_learning_rate=0.0200 train_epoch_loss=0.5873 validation_epoch_accuracy=0.6875 validation_epoch_loss=0.5234 validation_evaluation_accuracy_vs_iterations=0.6875 validation_evaluation_loss_vs_iterations=0.5234
    tensorboard, 3 epochs: accuracy_val=0.8000 loss_train=0.3333
    tensorboard, 3 epochs: train_loss=0.2744 val_acc=0.9812 val_loss=0.2500
    ");
}
