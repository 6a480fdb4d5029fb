//! Statements of a report are supported by its figures: along an axis, by repetitions, by epochs that are long enough
//! and numerous enough.

use crate::common::{ResultExt, add_table, bullets, input, remarks, reported, result, view};
use flow_core::{Outcome, StepResult};
use serde_json::json;

#[test]
fn it_is_said_how_far_off_an_estimate_was() {
    let of = |model: &str, estimated: f64, measured: f64| {
        let one = result("s", &[("model", json!(model))], 1);
        one.metric("estimated", estimated, "s").metric("measured", measured, "s")
    };
    let said = |results: Vec<StepResult>| {
        let mut input = input(vec![("s", view("torch/train", None, results))]);
        add_table(&mut input, "t", json!({"from": "s", "rows": "model", "columns": ["estimated", "measured"]}));
        let report = reported(&input, json!({"table": "t", "estimates": {"estimated": "measured"}}));
        bullets(&report).concat().join("\n")
    };
    // As measured on two cores.
    let told =
        [("alexnet", 9.53, 13.11), ("resnet18", 6.53, 7.41), ("googlenet", 6.11, 6.16), ("densenet121", 10.85, 10.53)];
    let told = said(told.map(|(model, estimated, measured)| of(model, estimated, measured)).to_vec());
    insta::assert_snapshot!(told + "\n" + &said(vec![of("alexnet", 9.53, 13.11)]), @r"
    - estimated differs from measured by −27.3% to +3.0% (median absolute difference 7.5%).
    - estimated 相对 measured 的误差为 −27.3% 至 +3.0%（绝对误差的中位数为 7.5%）。
    - estimated differs from measured by −27.3%.
    - estimated 相对 measured 的误差为 −27.3%。
    ");
    // A measured value of 0 has no share.
    let none = [("alexnet", 2.5, 0.0), ("resnet18", 5.0, 6.0)];
    let none = none.map(|(model, estimated, measured)| of(model, estimated, measured));
    insta::assert_snapshot!(said(none.to_vec()), @r"
    - estimated differs from measured by −1.0 to +2.5 s (median absolute difference 1.8 s).
    - estimated 相对 measured 的误差为 −1.0 至 +2.5 s（绝对误差的中位数为 1.8 s）。
    ");
}

#[test]
fn that_memory_is_not_flat_is_said_of_small_values_only() {
    let sweep = |points: &[(u32, f64)]| {
        let of = |(batch, mib): &(u32, f64)| result("s", &[("batch", json!(batch))], 1).gpu_memory(*mib);
        let mut input = input(vec![("s", view("torch/train", None, points.iter().map(of).collect()))]);
        add_table(&mut input, "t", json!({"from": "s", "columns": ["gpu_memory"]}));
        bullets(&reported(&input, json!({"table": "t"}))).concat().join("\n")
    };
    // resnet18 on an H200.
    let measured = [(1, 1216.0), (2, 1254.0), (4, 1332.0), (8, 1486.0)];
    let flat = [(1, 1216.0), (2, 1240.0), (4, 1232.0), (8, 1486.0), (16, 1848.0)];
    let (larger, line) =
        ([(8, 1486.0), (16, 1848.0), (32, 2754.0)], [1_u32, 2, 4, 8, 16].map(|n| (n, f64::from(900 + 20 * n))));
    assert!(!sweep(&larger).contains("flat") && sweep(&larger).contains("rises"), "{}", sweep(&larger));
    insta::assert_snapshot!([sweep(&measured), sweep(&flat), sweep(&line)].join("\n\n"), @r"
    - GPU memory is not flat at small batch size: 1216 MiB at 1, 1332 MiB at 4.
    - 批大小较小时，显存并非不变：1 时为 1216 MiB，4 时为 1332 MiB。

    - Up to batch size 4, GPU memory hardly changes: 1216 to 1240 MiB.
    - 批大小不超过 4 时，显存几乎不变：1216 至 1240 MiB。

    - GPU memory is linear in batch size: 900 MiB + 20.00 MiB × batch size, R² = 1.000.
    - 显存与批大小成线性关系：900 MiB + 20.00 MiB × 批大小，R² = 1.000。
    ");
}

#[test]
fn a_sweep_whose_first_row_is_the_fastest_says_so() {
    let sweep = |times: &[f64]| {
        let batches = (3..).map(|n| 1 << n);
        let results = batches.zip(times).map(|(b, t)| result("s", &[("batch", json!(b))], 0).epoch_time(*t));
        let mut input = input(vec![("s", view("torch/train", None, results.collect()))]);
        add_table(&mut input, "t", json!({"from": "s", "columns": ["epoch_time"]}));
        bullets(&reported(&input, json!({"table": "t"}))).concat().join("\n")
    };
    let told = [[6.46, 6.45, 7.03], [6.4, 7.1, 6.3], [6.4, 7.1, 5.9], [6.4, 9.1, 8.3]].map(|times| sweep(&times));
    // A time that rises slightly does not "hardly fall".
    assert!(sweep(&[8.13, 6.13, 6.26]).contains("- Epoch time stops falling at batch size 16 (6.13 s)."));
    assert!(sweep(&[8.13, 6.13, 6.08]).contains("- Epoch time hardly falls beyond batch size 16 (6.13 s)."));
    insta::assert_snapshot!(told.join("\n\n"), @r"
    - From batch size 8 (6.46 s) on, epoch time does not fall, and it rises to 7.03 s at 32.
    - 批大小超过 8（6.46 s）后，每轮用时不再下降，到 32 时升至 7.03 s。

    - Epoch time varies with batch size, without a trend: 6.3 to 7.1 s.
    - 每轮用时随批大小时升时降，没有趋势：6.3 至 7.1 s。

    - Epoch time varies with batch size, without a trend: 5.9 to 7.1 s.
    - 每轮用时随批大小时升时降，没有趋势：5.9 至 7.1 s。

    - Epoch time rises and falls with batch size: shortest at 8 (6.4 s), longest at 16 (9.1 s).
    - 每轮用时随批大小时升时降：8 时最短（6.4 s），16 时最长（9.1 s）。
    ");
    // A recurrent network on an H100: the library has other kernels for some batch sizes.
    insta::assert_snapshot!(sweep(&[1.141, 1.482, 1.366, 1.085, 1.397, 1.459, 1.572, 1.759, 1.498, 2.146]), @r"
    - Epoch time rises and falls with batch size: shortest at 64 (1.09 s), longest at 4096 (2.15 s).
    - 每轮用时随批大小时升时降：64 时最短（1.09 s），4096 时最长（2.15 s）。
    ");
}

#[test]
fn what_bears_little_is_remarked() {
    let remarked = |results: Vec<StepResult>| {
        let mut input = input(vec![("s", view("torch/train", None, results))]);
        add_table(&mut input, "t", json!({"from": "s", "columns": ["epoch_time"]}));
        let report = reported(&input, json!({"table": "t"}));
        remarks(&report).concat().into_iter().map(|line| line.to_owned() + "\n").collect::<String>()
    };
    let at = |batch: u32, time: f64, epochs: u32, top1: f64| {
        let mut result = result("s", &[("batch", json!(batch))], 1);
        result.params.insert("classes".into(), json!(10));
        result.noisy("epoch_time", time, "s", 0.01, epochs).metric("top1", top1, "ratio")
    };
    assert_eq!(remarked(vec![at(8, 5.0, 3, 0.9), at(16, 6.0, 3, 0.9)]), "");
    let one = remarked(vec![at(8, 5.0, 3, 0.9), at(16, 0.53, 1, 0.1)]);
    let several = remarked(vec![at(8, 4.99, 2, 0.105), at(16, 0.53, 2, 0.1)]);
    let mut told = at(8, 9.0, 3, 0.1);
    told.params.remove("classes");
    assert!(remarked(vec![told.clone()]).is_empty());
    assert!(
        remarked(vec![told.metric("classes", 10.0, "")]).contains("a guess among 10 classes"),
        "a metric tells it too"
    );
    // A limit that nothing reached needs no remark.
    let limited = |batch: u32| at(batch, 9.0, 3, 0.9).metric("memory_limit", 10.0 * 1024_f64.powi(3), "bytes");
    assert_eq!(remarked(vec![limited(8), limited(16)]), "");
    let limit = remarked(vec![limited(8), at(16, 9.0, 3, 0.9).outcome(Outcome::OutOfMemory)]);
    assert_eq!(
        limit.lines().filter(|line| line.contains("memory_limit")).collect::<Vec<_>>().join("\n"),
        "GPU memory was limited to 10240 MiB (`memory_limit`). A run that exceeds the limit may still fit into the GPU's memory.\n\
         显存曾被限制为 10240 MiB（`memory_limit`）：超出该上限的运行，显卡的显存也许仍放得下。"
    );
    insta::assert_snapshot!([one, several].join("\n"), @r"
    An epoch of `s[batch=16]` takes 530 ms on average, less than 5 s: overhead and chance matter much in so short a time.
    The time of `s[batch=16]` is the mean of only 1 epoch, so the spread between epochs is hardly known.
    `s[batch=16]` is at chance level: its top-1 is 10.0%, and a guess among 10 classes gives about as much.
    `s[batch=16]` 的每轮平均用时只有 530 ms，不足 5 s：时间过短，一轮首尾的开销和随机波动影响较大。
    `s[batch=16]` 的用时只由 1 轮得出：各轮之间的波动难以估计。
    `s[batch=16]` 与随机猜测无异：Top-1 准确率 10.0% 不高于或仅略高于在 10 类中随机猜测的水平。

    In at least 2 results an epoch takes less than 5 s on average, the shortest 530 ms (`s[batch=16]`): overhead and chance matter much in so short a time.
    The times of 2 results are means of fewer than 3 epochs, the fewest 2 (`s[batch=16]`), so the spread between epochs is hardly known.
    2 results are at chance level, among them `s[batch=16]`: its top-1 is 10.0%, and a guess among 10 classes gives about as much.
    至少 2 个结果的每轮平均用时不足 5 s，最短为 530 ms（`s[batch=16]`）：时间过短，一轮首尾的开销和随机波动影响较大。
    有 2 个结果的用时由不足 3 轮得出，最少 2 轮（`s[batch=16]`）：各轮之间的波动难以估计。
    有 2 个结果与随机猜测无异，其中有 `s[batch=16]`：Top-1 准确率 10.0% 不高于或仅略高于在 10 类中随机猜测的水平。
    ");
}

#[test]
fn who_computes_with_what_is_shown_gets_what_is_shown() {
    // 0.41 to 0.35 s would be −15%, and 8.3% to 3.1% −5.2 points.
    let at = |version: &str, batch: u32, time: f64, cpu: f64| {
        result("s", &[("version", json!(version)), ("batch", json!(batch))], 1).epoch_time(time).cpu_util(cpu)
    };
    let results = vec![
        at("v7", 128, 0.4134, 0.0834),
        at("v7", 256, 0.3473, 0.105),
        at("v11", 128, 0.4134, 0.0308),
        at("v11", 256, 0.3473, 0.034),
    ];
    let mut input = input(vec![("s", view("torch/train", None, results))]);
    let columns = json!(["epoch_time", "growth(epoch_time)", "cpu_util"]);
    add_table(&mut input, "t", json!({"from": "s", "rows": "batch", "split": "version", "columns": columns}));
    let report = reported(&input, json!({"table": "t", "compare": "version"}));
    let tables: Vec<&str> = report.lines().filter(|line| line.starts_with("|  ")).collect();
    insta::assert_snapshot!(tables.join("\n"), @r"
    |        128 |                 413 |          — |                  413 |           — |       8.34% |        3.08% |
    |        256 |                 347 |       −16% |                  347 |        −16% |      10.50% |        3.40% |
    |        128 |         0% |             −5.3 |
    |        256 |         0% |             −7.1 |
    |    128 |               413 |          — |                413 |           — |          8.34% |           3.08% |
    |    256 |               347 |       −16% |                347 |        −16% |         10.50% |           3.40% |
    |    128 |       0% |                  −5.3 |
    |    256 |       0% |                  −7.1 |
    ");
}

#[test]
fn means_over_seeds_are_told_apart_by_a_test_or_not() {
    let seeds = [0.0, 0.006, -0.005, 0.002];
    let told = |gains: [f64; 3]| {
        let mut results = Vec::new();
        for (batch, gain) in [16, 32, 64].into_iter().zip(gains) {
            for (seed, noise) in seeds.into_iter().enumerate() {
                // Seeds do not have the same order everywhere, or they would cancel out.
                let noise = noise * if batch == 32 { -1.0 } else { 1.0 };
                let at = [("batch", json!(batch)), ("seed", json!(seed))];
                results
                    .push(result("s", &at, 1).metric("top1", 0.7 + gain + noise, "ratio").metric("images", 500.0, ""));
            }
        }
        let mut input = input(vec![("s", view("torch/train", None, results))]);
        let with = json!({"from": "s", "rows": "batch", "over": "seed", "columns": ["top1", "images"]});
        add_table(&mut input, "t", with);
        let report = reported(&input, json!({"table": "t"}));
        bullets(&report).concat().join("\n")
    };
    insta::assert_snapshot!([told([0.0, 0.002, 0.003]), told([0.0, 0.02, 0.04])].join("\n\n"), @r"
    - images does not depend on batch size: 500.
    - Best top-1 (mean): 70.4% at batch=64, 0.3 points above the next, 70.1% at batch=32; worst 70.1% at batch=16. 4 runs of each cannot tell it from batch=32; the other one is worse by more than noise (paired t-tests; next: p = 1.00). To tell it from batch=32, each point needs about 126 more runs, if the difference is real.
    - images 不随批大小变化，均为 500。
    - Top-1 准确率（均值）最佳为 70.4%（batch=64），比其次的 70.1%（batch=32）高 0.3 个百分点；最差为 70.1%（batch=16）。各运行 4 次，尚无法与 batch=32 区分；其余 1 个点更差，且差距超出噪声（配对 t 检验；与其次者：p = 1.00）。如果差异确实存在，每个点约需再运行 126 次才能与 batch=32 区分。

    - images does not depend on batch size: 500.
    - Best top-1 (mean): 74.1% at batch=64, 2.2 points above the next, 71.9% at batch=32; worst 70.1% at batch=16. The lead is larger than the run-to-run spread (paired t-test, p = 0.036).
    - images 不随批大小变化，均为 500。
    - Top-1 准确率（均值）最佳为 74.1%（batch=64），比其次的 71.9%（batch=32）高 2.2 个百分点；最差为 70.1%（batch=16）。领先幅度超出运行间波动（配对 t 检验，p = 0.036）。
    ");
}

#[test]
fn a_time_of_which_only_noise_is_known_goes_no_way() {
    let told = |noise: f64| {
        let mut results = Vec::new();
        for (batch, mean) in [(16, 10.0), (32, 9.0), (64, 8.0)] {
            for (seed, sign) in [(0, -1.0), (1, 1.0)] {
                let at = [("batch", json!(batch)), ("seed", json!(seed))];
                // Seeds do not have the same order everywhere, or they would cancel out.
                let sign = if batch == 32 { -sign } else { sign };
                results.push(result("s", &at, 1).epoch_time(mean + sign * noise));
            }
        }
        let mut input = input(vec![("s", view("torch/train", None, results))]);
        add_table(&mut input, "t", json!({"from": "s", "rows": "batch", "over": "seed", "columns": ["epoch_time"]}));
        bullets(&reported(&input, json!({"table": "t"}))).concat().join("\n")
    };
    let falls = |told: &str| told.contains("still falls up to batch size 64");
    let (clear, noisy) = (told(0.1), told(2.0));
    assert!(falls(&clear) && clear.contains("Epoch time differs with batch size"), "{clear}");
    assert!(!falls(&noisy) && noisy.contains("Epoch time does not differ with batch size"), "{noisy}");
}

#[test]
fn the_load_of_epochs_that_are_over_at_once_is_not_told() {
    let of = |batch: u32, time: f64, load: Option<f64>| {
        let result = result("s", &[("batch", json!(batch))], 1).noisy("epoch_time", time, "s", 0.01, 4);
        let mut result = result.gpu_load(0.0, 0.1).cpu_util(0.1);
        result.usage.gpus[0].load_mean = load;
        result
    };
    let mut input = input(vec![("s", view("torch/train", None, vec![of(16, 2.0, Some(0.97)), of(256, 0.1, None)]))]);
    add_table(
        &mut input,
        "t",
        json!({"from": "s", "rows": "batch", "columns": ["epoch_time", "gpu_load", "cpu_util"]}),
    );
    let report = reported(&input, json!({"table": "t"}));
    let rows: Vec<&str> = report.lines().filter(|line| line.contains("97.0") || line.contains(" 256 ")).collect();
    assert!(rows[0].contains("97.0%") && rows[1].contains(" — ") && !rows[1].contains(" 0.0%"), "{report}");
    assert!(
        report.contains("shows no load if all epochs together take less") && report.contains("不足一秒"),
        "{report}"
    );
}
