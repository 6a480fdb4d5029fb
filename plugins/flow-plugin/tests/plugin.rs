//! A plugin as its author writes one, run by the harness: what the engine would see.

use std::collections::BTreeMap;
use std::process::Command;

use flow_plugin::harness::Harness;
use flow_plugin::protocol::{Message, Outcome};
use flow_plugin::{Attempt, Error, Plugin, Summary, now};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Train {
    epochs: u32,
    #[serde(default)]
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
struct Layer {
    #[serde(rename = "width")]
    _width: u32,
}

fn plugin() -> Plugin {
    Plugin::new("toy", "1.2.3")
        .step("train", |with: Train, attempt: &Attempt| {
            attempt.hello([("device", "cpu")]);
            drop(with.layers);
            attempt.wait_for_go();
            for epoch in 1..=with.epochs {
                let start = now();
                attempt.epoch_metric("train_loss", 1.0 / f64::from(epoch), "", epoch, Summary::Last);
                attempt.epoch_metric("valid_loss", f64::NAN, "", epoch, Summary::Last);
                attempt.epoch(epoch, start, now());
                attempt.progress(f64::from(epoch) / f64::from(with.epochs), format!("epoch {epoch}"));
                if attempt.stopped() {
                    break;
                }
            }
            std::fs::write(attempt.output("out")?, "weights")?;
            Ok(())
        })
        .step("panic", |_: Train, _: &Attempt| panic!("index {} out of range", 7))
        .step("memory", |_: Train, _: &Attempt| Err(Error::out_of_memory("CUDA out of memory")))
        .step("missing", |_: Train, attempt: &Attempt| {
            attempt.output("model")?;
            Ok(())
        })
}

#[test]
fn a_step_that_goes_well() {
    let report = Harness::new("train").with("epochs", 3).output("out", "out/model").run_in_process(&plugin());
    report.expect_ok();
    assert_eq!(report.facts(), BTreeMap::from([("device".to_owned(), "cpu".to_owned())]));
    assert_eq!(report.series("train_loss"), [1.0, 0.5, 1.0 / 3.0]);
    assert!(report.series("valid_loss").iter().all(|loss| loss.is_nan()), "a loss that diverged is told");
    assert_eq!(report.series("valid_loss").len(), 3);
    assert_eq!(std::fs::read_to_string(report.output("out")).unwrap(), "weights");
    let progress: Vec<_> = report.messages.iter().filter(|m| matches!(m, Message::Progress { .. })).collect();
    assert_eq!(progress.len(), 2, "the first and the last: {progress:?}");
    assert!(!report.messages.contains(&Message::Ready), "no barrier outside a group");
}

#[test]
fn failures_in_the_words_of_the_engine() {
    let run = |step: &str, epochs: serde_json::Value| {
        let report = Harness::new(step).with("epochs", epochs).run_in_process(&plugin());
        assert!(!report.success);
        let (outcome, message) = report.outcome();
        format!("{outcome:?}: {}", message.unwrap_or("-"))
    };
    insta::assert_snapshot!(run("panic", 1.into()), @"Failed: the plugin panicked: index 7 out of range (the log says where)");
    insta::assert_snapshot!(run("memory", 1.into()), @"OutOfMemory: CUDA out of memory");
    insta::assert_snapshot!(run("missing", 1.into()), @"Failed: the request of missing has no output `model`: is it in plugin.yaml?");
    insta::assert_snapshot!(run("trian", 1.into()), @"Failed: plugin toy has no step `trian`; it has memory, missing, panic, train");
    insta::assert_snapshot!(run("train", "four".into()), @r#"Failed: with.epochs of train: invalid type: string "four", expected u32"#);
}

#[test]
fn a_wrong_parameter_is_named_with_its_place() {
    let run = |harness: Harness| harness.with("epochs", 1).run_in_process(&plugin()).expect_failed().to_owned();
    let layers = serde_json::json!([{"width": 8}, {"width": -1}]);
    insta::assert_snapshot!(run(Harness::new("train").with("layers", layers)), @"with.layers[1].width of train: invalid value: integer `-1`, expected u32");
    insta::assert_snapshot!(run(Harness::new("train").with("epoch", 2)), @"with.epoch of train: unknown field `epoch`, expected `epochs` or `layers`");
}

#[test]
fn a_group_waits_for_go_and_ends_at_stop() {
    let harness = Harness::new("train").with("epochs", 1000).output("out", "out/model").corun(2);
    harness.stop();
    let (started, go) = (now(), harness.path("../go"));
    let engine = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(60));
        std::fs::write(go, now().to_string()).unwrap();
    });
    let report = harness.run_in_process(&plugin());
    engine.join().unwrap();
    report.expect_ok();
    assert!(now() - started >= 0.06, "it did not wait");
    assert_eq!(report.messages[1], Message::Ready);
    assert_eq!(report.series("train_loss"), [1.0], "the epoch at hand is the last one");
}

#[test]
fn a_program_without_a_word_has_failed() {
    let report = Harness::new("train").run(&mut Command::new("true"));
    assert_eq!(report.outcome(), (Outcome::Failed, Some("ended without an outcome")));
}
