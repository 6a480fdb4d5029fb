//! Notes below tables count exactly what they claim to count.

use std::collections::BTreeMap;

use crate::common::{ResultExt, curve, input, result, run, text, view};
use flow_core::reason::{Cause, Disturbance, NoMetrics};
use flow_core::{EarlierUsage, Outcome, Series, StepResult};
use serde_json::json;

/// Rows of epochs belong to one result.
#[test]
fn a_note_counts_results_and_no_epochs() {
    let of = |batch: u32| {
        let mut one = result("tune", &[("batch", json!(batch))], 1).metric("loss", 0.2, "");
        one.cause = Some(Cause::NoMetrics { problem: NoMetrics::NoneInFile { file: "bad.csv".into() } });
        one.accepted = Some("a comment".into());
        one
    };
    let metrics = BTreeMap::from([("loss".to_owned(), curve(&[(1, 0.5), (2, 0.3), (3, 0.2)]))]);
    let series = Some(Series { metrics, epoch_times: Vec::new(), samples: BTreeMap::new() });
    let said = |batches: &[u32]| {
        let mut tune = view("torch/train", None, batches.iter().copied().map(of).collect());
        tune.series = vec![series.clone(); batches.len()];
        let with = json!({"from": "tune", "rows": ["batch", "epoch"], "columns": ["loss"]});
        let out = run("table", with, &input(vec![("tune", tune)])).expect("a table");
        (text(&out, "table.en.md"), text(&out, "table.zh.md"))
    };
    let (english, chinese) = said(&[16]);
    assert!(english.contains("`tune[batch=16]` lacks metrics") && !english.contains("more"), "{english}");
    assert!(english.contains("`tune[batch=16]` is an earlier result") && !chinese.contains("另外"), "{chinese}");
    let (english, chinese) = said(&[16, 32]);
    assert!(english.contains("`tune[batch=16]` and 1 more lack metrics"), "{english}");
    assert!(english.contains("`tune[batch=16]` and 1 more are earlier results"), "{english}");
    assert!(chinese.contains("及另外 1 个结果缺少指标"), "{chinese}");
}

#[test]
fn a_missing_epoch_time_says_that_start_up_is_in_it() {
    let mut one = result("train", &[("batch", json!(16))], 1).metric("loss", 0.2, "");
    one.usage.phases = serde_json::from_value(json!({"before_s": 0, "epochs": 1, "period_s": 2, "after_s": 0})).ok();
    let with = json!({"from": "train", "rows": "batch", "columns": ["loss", "epoch_time"]});
    let out = run("table", with, &input(vec![("train", view("torch/train", None, vec![one]))])).expect("a table");
    let english = text(&out, "table.en.md");
    assert!(english.contains("includes start-up, so it is not an `epoch_time`"), "{english}");
    assert!(english.contains("`{epoch_time:s}` in the pattern") && !english.contains("no column"), "{english}");
}

#[test]
fn repetitions_that_did_not_end_well_are_said_to_have_failed() {
    let of = |n: u32| {
        let mut one = result("s", &[("batch", json!(16))], 1).epoch_time(16.0 + f64::from(n));
        (one.repetition, one.label) = (Some(n), format!("s[batch=16,repetition={n}]"));
        one
    };
    let ended = |n: u32, outcome: Outcome| StepResult { metrics: BTreeMap::new(), ..of(n).outcome(outcome) };
    let said = |results: Vec<StepResult>| {
        let with = json!({"from": "s", "rows": "batch", "columns": ["epoch_time"]});
        let out = run("table", with, &input(vec![("s", view("torch/train", None, results))])).expect("a table");
        ["table.en.md", "table.zh.md"].map(|path| text(&out, path))
    };
    let [english, chinese] = said(vec![of(0), of(1), ended(2, Outcome::Failed)]);
    assert!(english.contains("(a) 2 of 3 results count; 1 failed.  \n"), "{english}");
    assert!(chinese.contains("(a) 3 个结果中有 2 个计入，1 个失败。  \n"), "{chinese}");
    // The epochs of one were too short to be timed.
    let without = StepResult { metrics: BTreeMap::new(), ..of(2) };
    let [english, _] = said(vec![of(0), of(1), without]);
    assert!(english.contains("(a) 2 of 3 results count; the rest have no reliable number.  \n"), "{english}");
    let mut disturbed = of(6);
    disturbed.disturbances = vec![Disturbance::OtherRuns { attempts: 2 }];
    let bad = [(2, Outcome::Failed), (3, Outcome::OutOfMemory), (4, Outcome::Failed), (5, Outcome::TimedOut)];
    let bad = bad.map(|(n, outcome)| ended(n, outcome));
    let [english, chinese] = said([of(0), of(1)].into_iter().chain(bad).chain([disturbed]).collect());
    let told = "2 of 7 results count; 2 failed, 1 out of GPU memory, 1 timed out, the rest have no reliable number.";
    assert!(english.contains(told), "{english}");
    let told = "7 个结果中有 2 个计入，2 个失败，1 个显存不足，1 个超时，其余没有可信的数值。";
    assert!(chinese.contains(told), "{chinese}");
}

#[test]
fn what_resumed_from_a_checkpoint_is_told_where_its_wall_time_is_shown() {
    let of = |batch: u32, unmeasured: u32| {
        let mut one = result("s", &[("batch", json!(batch))], 1).epoch_time(16.0);
        one.usage.wall_s = Some(100.0);
        one.usage.earlier = Some(EarlierUsage { jobs: 1, unmeasured, ..EarlierUsage::default() });
        one
    };
    let said = |results: Vec<StepResult>, column: &str| {
        let with = json!({"from": "s", "rows": "batch", "columns": [column]});
        let out = run("table", with, &input(vec![("s", view("torch/train", None, results))])).expect("a table");
        ["table.en.md", "table.zh.md"].map(|path| text(&out, path))
    };
    let [english, chinese] = said(vec![of(16, 0), of(32, 0)], "wall");
    let told = "The wall times of `s[batch=16]` and 1 more cover several attempts and start-ups";
    assert!(english.contains(told), "{english}");
    assert!(chinese.contains("`s[batch=16]` 及另外 1 个实例的总用时由多次尝试相加而得"), "{chinese}");
    let [english, _] = said(vec![of(16, 0)], "epoch_time");
    assert!(!english.contains("attempt"), "an epoch's time is of one attempt: {english}");
    let [english, _] = said(vec![of(16, 1), of(32, 0)], "wall");
    assert!(english.contains("The times of `s[batch=16]` are incomplete"), "{english}");
    assert!(english.contains("The wall time of `s[batch=32]` covers several attempts"), "{english}");
}
