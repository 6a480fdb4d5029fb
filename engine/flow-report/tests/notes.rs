//! Notes below tables: they count what they say that they count.

mod common;

use std::collections::BTreeMap;

use common::{With, input, result, run, text, view};
use flow_core::Series;
use flow_core::reason::{Cause, NoMetrics};
use serde_json::json;

/// Rows of epochs are of one result.
#[test]
fn a_note_counts_results_and_no_epochs() {
    let of = |batch: u32| {
        let mut one = result("tune", &[("batch", json!(batch))], 1).metric("loss", 0.2, "");
        one.cause = Some(Cause::NoMetrics { problem: NoMetrics::NoneInFile { file: "bad.csv".into() } });
        one.accepted = Some("a comment".into());
        one
    };
    let epochs = BTreeMap::from([("loss".to_owned(), vec![(1, 0.5), (2, 0.3), (3, 0.2)])]);
    let series = Some(Series { epochs, epoch_times: Vec::new(), samples: BTreeMap::new() });
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
