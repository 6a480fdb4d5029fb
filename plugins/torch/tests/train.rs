//! The program as the engine runs it, on small pictures of stripes and discs.

use std::fs;
use std::io::BufWriter;
use std::path::Path;
use std::process::Command;

use flow_plugin::harness::{Harness, Report};
use flow_plugin::protocol::Message;

const SIZE: usize = 32;

/// Three classes: lines across, lines down, a disc; each in random colours, at random places, with noise.
fn shapes(folder: &Path, version: &str, count: usize) {
    let mut random = fastrand::Rng::with_seed(11);
    let mut samples = Vec::new();
    for index in 0..count {
        let class = index % 3;
        let (light, dark) = (random.u8(120..220), random.u8(20..100));
        let (x0, y0, step) = (random.usize(0..SIZE), random.usize(0..SIZE), random.usize(3..6));
        let mut pixels = Vec::new();
        for y in 0..SIZE {
            for x in 0..SIZE {
                let inside = match class {
                    0 => (y + y0) / step % 2 == 0,
                    1 => (x + x0) / step % 2 == 0,
                    _ => x.abs_diff(8 + x0 / 2).pow(2) + y.abs_diff(8 + y0 / 2).pow(2) < (step + 3).pow(2),
                };
                let value = if inside { light } else { dark };
                pixels.extend([0, 10, 20].map(|tint| value + tint + random.u8(0..16)));
            }
        }
        let name = format!("{class}/{index:03}.png");
        let file = folder.join("images").join(&name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let mut encoder = png::Encoder::new(BufWriter::new(fs::File::create(file).unwrap()), SIZE as u32, SIZE as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
        samples.push(serde_json::json!([name, class]));
    }
    let manifest = serde_json::json!({
        "format": 1, "version": version, "size": SIZE, "classes": ["across", "down", "disc"],
        "mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25], "samples": samples,
    });
    fs::write(folder.join("dataset.json"), manifest.to_string()).unwrap();
}

fn harness(data: &Path) -> Harness {
    let harness = Harness::new("train").output("model", "out/model.safetensors").input("in/data", data);
    harness.with("data", "in/data").with("model", "resnet18").with("batch", 16)
}

fn run(harness: Harness) -> Report {
    harness.run(Command::new(env!("CARGO_BIN_EXE_flow-torch")).env("OMP_WAIT_POLICY", "passive"))
}

#[test]
fn it_learns() {
    let data = tempfile::tempdir().unwrap();
    shapes(data.path(), "v11", 300);
    let report = run(harness(data.path()).with("epochs", 3).with("flip", false).cpus(2));
    report.expect_ok();
    let top1 = report.metric("top1").unwrap();
    assert!(top1 >= 0.9, "top-1 {top1}, train losses {:?}", report.series("train_loss"));
    assert!((report.metric("error_rate").unwrap() - (1.0 - top1)).abs() < 1e-9);
    for series in ["train_loss", "valid_loss", "top1", "error_rate", "epoch_time", "images_per_s", "data_wait"] {
        assert_eq!(report.series(series).len(), 3, "{series}");
    }
    let epochs = report.messages.iter().filter(|message| matches!(message, Message::Epoch { .. })).count();
    assert_eq!(epochs, 3);
    assert_eq!(report.facts()["device"], "cpu");
    assert_eq!(report.facts()["precision"], "fp32");
    assert_eq!(report.facts()["classes"], "3", "top-1 is held against guessing");
    let asked = ["size", "train_images", "valid_images"].map(|name| report.facts()[name].clone());
    assert_eq!(asked, [&SIZE.to_string(), "240", "60"], "what a planned training is counted by");
}

#[test]
fn every_image_is_trained_on_whatever_the_batch() {
    let data = tempfile::tempdir().unwrap();
    shapes(data.path(), "v11", 36);
    // Of thirty images the last batch has fourteen, and one.
    for batch in [16, 29] {
        let report = run(harness(data.path()).with("batch", batch).with("epochs", 2).with("lr", 0.01));
        report.expect_ok();
        let losses = report.series("train_loss");
        assert!(losses.iter().all(|loss| loss.is_finite() && *loss < 3.0), "batch {batch}: {losses:?}");
    }
}

#[test]
fn the_seed_decides() {
    let data = tempfile::tempdir().unwrap();
    shapes(data.path(), "v7", 60);
    let train = |seed| {
        let report = run(harness(data.path()).with("epochs", 2).with("model", "mobilenet_v2").cpus(2).seed(seed));
        report.expect_ok();
        (report.series("train_loss"), report.series("valid_loss"), fs::read(report.output("model")).unwrap())
    };
    let first = train(5);
    assert!(first == train(5), "the same seed gives the same losses and weights, bit for bit");
    assert!(first.0 != train(6).0, "another seed gives others");
}

#[test]
fn a_member_of_a_group_trains_on_until_stop() {
    let data = tempfile::tempdir().unwrap();
    shapes(data.path(), "v11", 36);
    let harness = harness(data.path()).with("epochs", 1).corun(2);
    harness.go();
    let stop = harness.path("../stop");
    let messages = harness.path("../messages.jsonl");
    let engine = std::thread::spawn(move || {
        while fs::read_to_string(&messages).unwrap_or_default().matches(r#""type":"epoch""#).count() < 3 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        fs::write(stop, "").unwrap();
    });
    let report = run(harness);
    engine.join().unwrap();
    report.expect_ok();
    let next = report.messages.iter().find(|message| !matches!(message, Message::Hello { .. }));
    assert!(matches!(next, Some(Message::Ready)), "{next:?}");
    assert!(report.series("epoch_time").len() >= 3);
    assert_eq!(report.series("top1").len(), 1, "only the epochs asked for say how good it is");
}

#[test]
fn a_training_goes_on_from_the_weights_of_another() {
    let data = tempfile::tempdir().unwrap();
    shapes(data.path(), "v11", 60);
    let first = run(harness(data.path()).with("epochs", 2).with("valid", 0.0));
    first.expect_ok();
    let next = |model: &str| {
        let harness = harness(data.path()).with("model", model).with("valid", 0.0).with("weights", "in/weights");
        run(harness.with("epochs", 1).with("lr", 1e-9).input("in/weights", first.output("model")))
    };
    let second = next("resnet18");
    second.expect_ok();
    let (began, ended) = (first.series("train_loss")[0], second.metric("train_loss").unwrap());
    assert!(ended < began, "from {began} to {ended}");
    let other = next("resnet34");
    let words = other.expect_failed();
    assert!(words.starts_with("the weights in weights have no `layer1.2.bn1.bias`"), "{words}");
}

#[test]
fn an_interrupted_training_goes_on_as_if_it_had_not_been() {
    let (data, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    shapes(data.path(), "v7", 60);
    // Dropout, a frozen trunk, an optimizer with a memory: all that a next epoch depends on.
    let training = || {
        let harness = harness(data.path()).with("model", "mobilenet_v2").with("optimizer", "adam").cpus(1);
        harness.with("freeze_epochs", 2).with("epochs", 2)
    };
    let whole = run(training());
    whole.expect_ok();

    let killed = training().checkpoint(kept.path());
    let (messages, pid) = (killed.path("../messages.jsonl"), killed.path("pid"));
    let killer = std::thread::spawn(move || {
        let epochs = || fs::read_to_string(&messages).unwrap_or_default().matches(r#""type":"epoch""#).count();
        while epochs() < 2 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let pid = fs::read_to_string(pid).unwrap();
        assert!(Command::new("kill").args(["-9", pid.trim()]).status().unwrap().success());
    });
    let mut shell = Command::new("sh");
    shell.args(["-c", "echo $$ > pid; exec \"$0\"", env!("CARGO_BIN_EXE_flow-torch")]);
    let killed = killed.run(shell.env("OMP_WAIT_POLICY", "passive"));
    killer.join().unwrap();
    assert!(!killed.success && killed.series("epoch_time").len() < 4);

    let resumed = run(training().checkpoint(kept.path()));
    resumed.expect_ok();
    assert!(["1", "2", "3"].contains(&&*resumed.facts()["resumed_after_epoch"]), "{:?}", resumed.facts());
    for series in ["train_loss", "valid_loss", "error_rate", "top1"] {
        assert_eq!(resumed.series(series), whole.series(series), "{series}");
    }
    assert!(resumed.series("epoch_time").len() < 4, "only its own epochs have times");
    let weights = |report: &Report| fs::read(report.output("model")).unwrap();
    assert!(weights(&resumed) == weights(&whole), "the same weights, bit for bit");
}

#[test]
fn a_training_whose_time_is_up_soon_ends_after_its_epoch_and_goes_on_from_there() {
    let (data, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    shapes(data.path(), "v7", 60);
    let training = || harness(data.path()).with("epochs", 50).cpus(1).checkpoint(kept.path());
    let warned = training();
    let (messages, pid) = (warned.path("../messages.jsonl"), warned.path("pid"));
    let warning = std::thread::spawn(move || {
        while !fs::read_to_string(&messages).unwrap_or_default().contains(r#""type":"epoch""#) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let pid = fs::read_to_string(pid).unwrap();
        assert!(Command::new("kill").args(["-USR1", pid.trim()]).status().unwrap().success());
    });
    let mut shell = Command::new("sh");
    shell.args(["-c", "echo $$ > pid; exec \"$0\"", env!("CARGO_BIN_EXE_flow-torch")]);
    let warned = warned.run(shell.env("OMP_WAIT_POLICY", "passive"));
    warning.join().unwrap();
    let done = warned.series("epoch_time").len();
    assert!(warned.expect_failed().starts_with("was told that its time is up soon, and ended after epoch "));

    let resumed = run(training().with("epochs", done + 1));
    resumed.expect_ok();
    assert_eq!(resumed.facts()["resumed_after_epoch"], done.to_string());
}

#[test]
fn a_profile_needs_no_data() {
    for copied in [false, true] {
        let harness = Harness::new("profile").with("model", "resnet18").with("batches", vec![2, 4]);
        let report = run(harness.with("size", 32).with("seconds", 0.01).with("copied", copied));
        report.expect_ok();
        assert_eq!(report.series("images_per_s").len(), 2);
    }
}

#[test]
fn a_profile_without_batches_only_counts() {
    let count = |model: &str, size| Harness::new("profile").with("model", model).with("size", size);
    let report = run(count("inception_v3", 96).with("batches", Vec::<u32>::new()));
    report.expect_ok();
    assert_eq!(report.metric("parameters"), Some(27_161_264.0));
    assert_eq!(report.metric("auxiliary_parameters"), Some(27_161_264.0 - 23_834_568.0));
    assert_eq!(report.metric("layers"), Some(95.0));
    assert!(report.metric("gmac_norm_act") > report.metric("gmac"));
    let report = run(count("inception_v3", 96));
    let words = report.expect_failed();
    assert!(words.ends_with("299×299 and more, for its auxiliary head: take another `size` or another `model`; `batches: []` only counts"), "{words}");
}

#[test]
fn what_is_wrong_is_named() {
    let data = tempfile::tempdir().unwrap();
    shapes(data.path(), "v11", 36);
    let words = |harness: Harness| run(harness).expect_failed().to_owned();
    let precision = words(harness(data.path()).with("precision", "bf16"));
    assert_eq!(precision, "`precision: bf16` needs a GPU; on the CPU only fp32 is trained");
    let limit = words(harness(data.path()).with("memory_limit", "8"));
    assert!(limit.contains("`8` is no size; write for example `8GiB`"), "{limit}");
    let key = words(harness(data.path()).with("learning_rate", 0.1));
    assert!(key.contains("unknown field `learning_rate`"), "{key}");
    let batch = words(harness(data.path()).with("batch", 64));
    assert_eq!(batch, "batch 64 is more than the 30 training images: take a smaller `batch` or more photographs");
    let small = words(harness(data.path()).with("model", "alexnet"));
    assert_eq!(
        small,
        "images of 32×32 are too small for alexnet, which takes 63×63 and more: prepare the photographs with another `size`, or take \
         another `model`"
    );
    let head = words(harness(data.path()).with("new_head", true));
    assert!(head.starts_with("`new_head: true` says what to take of `weights`"), "{head}");
    let alone = words(harness(data.path()).with("batch", 1));
    assert!(alone.contains("1 picture of 32×32, and its last layers 1 value per channel"), "{alone}");
    fs::write(data.path().join("images/0/000.png"), "no picture").unwrap();
    fs::write(data.path().join("images/0/003.png"), "no picture").unwrap();
    let broken = words(harness(data.path()).with("epochs", 1).with("valid", 0.0));
    assert!(broken.ends_with("png: neither a JPEG nor a PNG"), "{broken}");
}
