//! The visible part of a report before anything is unfolded: the answer first, a table, a chart and a few findings, in
//! one language.

use crate::common::{ResultExt, add_table, curve, feb08, figures, first_screens, input, result, run, view, whole};
use flow_core::{BuiltinInput, CorunGpus, Outcome, StepResult};
use serde_json::{Value, json};

/// The cells of a table line.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_start_matches('|').trim_end_matches('|');
    line.replace("\\|", "/").split('|').map(|cell| cell.trim().to_owned()).collect()
}

/// The tables of a text, as rows of cells without the line below the header.
fn tables(text: &str) -> Vec<Vec<Vec<String>>> {
    let blocks = text.split("\n\n").map(|block| block.lines().filter(|line| line.starts_with('|')));
    let rows = blocks.map(|block| block.enumerate().filter(|(n, _)| *n != 1).map(|(_, line)| cells(line)).collect());
    rows.filter(|rows: &Vec<_>| !rows.is_empty()).collect()
}

/// The line without code, links and file names, which may be in any language.
fn prose(line: &str) -> String {
    let outside: String = line.split('`').step_by(2).collect();
    outside
        .replace("[中文](#中文)", "")
        .split("](")
        .map(|part| part.split_once(')').map_or(part, |(_, rest)| rest))
        .collect()
}

/// The text without numbers that count runs or points, because these are not measurements.
fn measured(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let counts =
        |next: &&str| ["other", "more", "run", "point", "are", "个", "次"].iter().any(|unit| next.starts_with(unit));
    let kept = words.iter().enumerate().filter(|(n, _)| !words.get(n + 1).is_some_and(counts));
    kept.map(|(_, word)| *word).collect::<Vec<_>>().join(" ")
}

/// Whether the line has several English words in a row that are not a name.
fn english(line: &str) -> bool {
    let word = |word: &&str| word.len() > 1 && word.chars().all(|c| c.is_ascii_lowercase());
    prose(line).split(' ').collect::<Vec<_>>().windows(3).any(|three| three.iter().all(word))
}

fn chinese(line: &str) -> bool {
    prose(line).chars().any(|c| ('\u{2e80}'..='\u{9fff}').contains(&c) || ('\u{ff00}'..='\u{ffef}').contains(&c))
}

/// The first screens of a report with these sections in both languages, after checks that apply to all.
fn screens(input: &BuiltinInput, sections: &[Value]) -> [String; 2] {
    checked(input, json!({"languages": ["en", "zh"], "sections": sections}))
}

fn checked(input: &BuiltinInput, with: Value) -> [String; 2] {
    let sections = with["sections"].as_array().map_or(0, Vec::len);
    let page = whole(&run("report", with, input).expect("a report"), "report.md");
    let (first, second) = page.split_once("\n## 中文\n").expect("two halves");
    let halves = [first, second].map(|half| tables(half).concat().concat().join(" | "));
    let screens = first_screens(&page);
    for (lang, (screen, all)) in ["en", "zh"].into_iter().zip(screens.iter().zip(&halves)) {
        let screen = screen.trim();
        let answers: Vec<&str> =
            screen.lines().filter(|line| line.starts_with("- **[") || line.starts_with("**")).collect();
        let early = screen.lines().take(10).any(|line| answers.contains(&line));
        assert!(early, "{lang}: no answer in the first ten lines of\n{screen}");
        let lines = screen.lines().count();
        assert!(lines <= 40 + 30 * sections, "{lang}: {lines} lines in\n{screen}");
        let shown = figures(all);
        for answer in answers {
            assert_eq!(answer.matches("**").count(), 2, "{lang}: bold inside of bold in {answer}");
            let answer = measured(&prose(answer));
            for figure in figures(&answer) {
                assert!(shown.contains(&figure), "{lang}: {figure} of `{answer}` is in no table of\n{page}");
            }
        }
        for table in tables(screen) {
            let columns = table[0].len();
            assert!(columns <= 6, "{lang}: {columns} columns in\n{screen}");
            let empty = (0..columns).find(|at| table.len() > 1 && table[1..].iter().all(|row| row[*at] == "—"));
            assert_eq!(empty, None, "{lang}: an empty column in\n{screen}");
        }
        // In a report with several sections, a heading precedes the findings of each.
        for section in screen.split("<a id=") {
            let findings = section.lines().filter(|line| line.starts_with("- ") && !line.starts_with("- **["));
            assert!(findings.count() <= 5, "{lang}: more than five findings in\n{section}");
        }
        let foreign = screen.lines().find(|line| if lang == "en" { chinese(line) } else { english(line) });
        assert_eq!(foreign, None, "{lang}: another language in\n{screen}");
    }
    screens.map(|screen| screen.trim().to_owned())
}

/// Learning rates and batch sizes with this many seeds: `tops[lr][batch]` is the accuracy.
fn sweep(tops: [[f64; 2]; 2], seeds: u32) -> BuiltinInput {
    let mut results = Vec::new();
    for (n, (lr, tops)) in [0.01, 0.1].into_iter().zip(tops).enumerate() {
        for (m, (batch, top)) in [32, 128].into_iter().zip(tops).enumerate() {
            for seed in 0..seeds {
                // No seed is better everywhere.
                let noise = if seeds == 1 { 0.0 } else { [0.0, 0.002, -0.0015][(seed as usize + 2 * n + m) % 3] };
                let mut axes = vec![("lr", json!(lr)), ("batch", json!(batch))];
                if seeds > 1 {
                    axes.push(("seed", json!(seed)));
                }
                let of = result("train", &axes, 1).metric("val_acc", top + noise, "ratio");
                results.push(of.metric("train_loss", 1.1 - top - noise, ""));
            }
        }
    }
    let mut input = input(vec![("train", view("torch/train", None, results))]);
    let mut table = json!({"from": "train", "rows": ["lr", "batch"], "columns": ["val_acc", "train_loss"]});
    if seeds > 1 {
        table["over"] = json!("seed");
    }
    add_table(&mut input, "t", table);
    input
}

const CLEAR: [[f64; 2]; 2] = [[0.861, 0.842], [0.913, 0.887]];
const SAME: [[f64; 2]; 2] = [[0.9; 2]; 2];
const TIED: [[f64; 2]; 2] = [[0.861, 0.842], [0.913, 0.911]];

#[test]
fn of_two_machines_of_one_workflow() {
    for input in [feb08::with_gpus(), feb08::without_gpus()] {
        checked(&input, feb08::with());
    }
}

#[test]
fn of_sweeps_with_and_without_repetitions_and_ties() {
    let answers = [(CLEAR, 3), (CLEAR, 1), (TIED, 1), (TIED, 3), (SAME, 1), (SAME, 3)].map(|(tops, seeds)| {
        let halves = screens(&sweep(tops, seeds), &[json!({"table": "t"})]);
        halves.map(|half| half.lines().find(|line| line.starts_with("**")).expect("an answer").to_owned()).join("\n")
    });
    insta::assert_snapshot!(answers.join("\n"), @r"
    **Best val_acc (mean): 91.3% at lr=0.1, batch=32, 2.6 points above the next, 88.7% at lr=0.1, batch=128; worst 84.2% at lr=0.01, batch=128. The lead is larger than the run-to-run spread (paired t-test, p = 0.014). val_acc depends most on learning rate: on average 90.0% at 0.1, 85.2% at 0.01; batch size changes it by 2.3 points.**
    **val_acc（均值）最佳为 91.3%（lr=0.1, batch=32），比其次的 88.7%（lr=0.1, batch=128）高 2.6 个百分点；最差为 84.2%（lr=0.01, batch=128）。领先幅度超出运行间波动（配对 t 检验，p = 0.014）。val_acc 受学习率影响最大：平均而言，0.1 时为 90.0%，0.01 时为 85.2%；批大小的影响为 2.3 个百分点。**
    **Best val_acc: 91.3% at lr=0.1, batch=32, 2.6 points above the next, 88.7% at lr=0.1, batch=128; worst 84.2% at lr=0.01, batch=128. Each point ran once, so the run-to-run spread is unknown: `repeat: 3` measures it. val_acc depends most on learning rate: on average 90.0% at 0.1, 85.2% at 0.01; batch size changes it by 2.3 points.**
    **val_acc 最佳为 91.3%（lr=0.1, batch=32），比其次的 88.7%（lr=0.1, batch=128）高 2.6 个百分点；最差为 84.2%（lr=0.01, batch=128）。各点仅运行一次，运行间波动未知：可用 `repeat: 3` 测出。val_acc 受学习率影响最大：平均而言，0.1 时为 90.0%，0.01 时为 85.2%；批大小的影响为 2.3 个百分点。**
    **Best val_acc: 91.3% at lr=0.1, batch=32, 0.2 points above the next, 91.1% at lr=0.1, batch=128; worst 84.2% at lr=0.01, batch=128. Each point ran once, so the run-to-run spread is unknown: `repeat: 3` measures it. val_acc depends most on learning rate: on average 91.2% at 0.1, 85.2% at 0.01; batch size changes it by 1.1 points.**
    **val_acc 最佳为 91.3%（lr=0.1, batch=32），比其次的 91.1%（lr=0.1, batch=128）高 0.2 个百分点；最差为 84.2%（lr=0.01, batch=128）。各点仅运行一次，运行间波动未知：可用 `repeat: 3` 测出。val_acc 受学习率影响最大：平均而言，0.1 时为 91.2%，0.01 时为 85.2%；批大小的影响为 1.1 个百分点。**
    **Best val_acc (mean): 91.3% at lr=0.1, batch=32, 0.2 points above the next, 91.1% at lr=0.1, batch=128; worst 84.2% at lr=0.01, batch=128. 3 runs of each cannot tell it from lr=0.1, batch=128; the other 2 are worse by more than noise (paired t-tests; next: p = 1.00). To tell it from lr=0.1, batch=128, each point needs about 24 more runs, if the difference is real. val_acc depends most on learning rate: on average 91.2% at 0.1, 85.2% at 0.01; batch size changes it by 1.1 points.**
    **val_acc（均值）最佳为 91.3%（lr=0.1, batch=32），比其次的 91.1%（lr=0.1, batch=128）高 0.2 个百分点；最差为 84.2%（lr=0.01, batch=128）。各运行 3 次，尚无法与 lr=0.1, batch=128 区分；其余 2 个点更差，且差距超出噪声（配对 t 检验；与其次者：p = 1.00）。如果差异确实存在，每个点约需再运行 24 次才能与 lr=0.1, batch=128 区分。val_acc 受学习率影响最大：平均而言，0.1 时为 91.2%，0.01 时为 85.2%；批大小的影响为 1.1 个百分点。**
    **No effect stands out.**
    **没有明显的差异。**
    **lr=0.01: val_acc does not differ with batch size by more than repetitions do: means of 90.0% (paired F-test, p = 1.00).**
    **lr=0.01：val_acc 随批大小的差异未超出重复运行的波动：均值为 90.0%（配对 F 检验，p = 1.00）。**
    ");
}

fn versions(batches: &[u32]) -> Vec<StepResult> {
    let of = |version: &str, batch: u32, factor: f64| {
        let axes = [("version", json!(version)), ("batch", json!(batch))];
        let made = result("solo", &axes, 1).noisy("epoch_time", factor * 200.0 / f64::from(batch), "s", 0.1, 3);
        made.gpu_memory(1000.0 + 20.0 * f64::from(batch)).cpu_util(0.3 * factor).metric("top1", 0.9, "ratio")
    };
    batches.iter().flat_map(|batch| [of("v7", *batch, 1.0), of("v11", *batch, 0.8)]).collect()
}

#[test]
fn of_two_versions_that_are_compared() {
    let mut input = input(vec![("solo", view("torch/train", None, versions(&[8, 16, 32, 64])))]);
    let columns = json!(["epoch_time", "gpu_memory", "cpu_util", "top1"]);
    add_table(&mut input, "t", json!({"from": "solo", "rows": "batch", "split": "version", "columns": columns}));
    let [english, _] = screens(&input, &[json!({"table": "t", "compare": "version"})]);
    let answer = english.lines().find(|line| line.starts_with("**")).expect("an answer");
    assert!(answer.contains("v7") && answer.contains("v11") && answer.contains("20%"), "{answer}");
}

#[test]
fn of_five_groups() {
    let groups = [("a", 1.0), ("b", 1.3), ("c", 1.6), ("d", 2.4), ("e", 3.1)];
    let at = |group: &str, batch: u32| [("pair", json!(group)), ("batch", json!(batch))];
    let alone =
        groups.iter().flat_map(|(group, _)| [16, 32].map(|batch| result("s", &at(group, batch), 1).epoch_time(20.0)));
    let ran = groups.iter().flat_map(|(group, factor)| {
        [16, 32].map(|batch| {
            result("g", &at(group, batch), 1).epoch_time(20.0 * factor).corun(group, CorunGpus::Shared, 2, 3)
        })
    });
    let mut input = input(vec![
        ("s", view("torch/train", None, alone.collect())),
        ("g", view("torch/train", Some("s"), ran.collect())),
    ]);
    add_table(&mut input, "t", json!({"from": "s", "rows": ["pair", "batch"], "columns": ["epoch_time"]}));
    screens(&input, &[json!({"table": "t", "corun": "g"})]);
}

#[test]
fn of_a_single_row_and_of_no_number() {
    let one = |made: StepResult| {
        let mut input = input(vec![("solo", view("torch/train", None, vec![made]))]);
        let columns = json!(["epoch_time", "gpu_memory", "top1"]);
        add_table(&mut input, "t", json!({"from": "solo", "rows": "batch", "columns": columns}));
        let halves = screens(&input, &[json!({"table": "t"})]);
        halves.map(|half| half.lines().find(|line| line.starts_with("**")).expect("an answer").to_owned())
    };
    let at = || result("solo", &[("batch", json!(16))], 1);
    let [english, chinese] = one(at().epoch_time(12.0).metric("top1", 0.9, "ratio"));
    assert_eq!(
        english,
        "**Epoch time: 12 s; Top-1: 90.0%. There is only one result, and nothing to compare it with.**"
    );
    assert_eq!(chinese, "**每轮用时：12 s；Top-1 准确率：90.0%。只有一个结果，没有可比较的对象。**");
    for none in [at(), at().outcome(Outcome::Failed)] {
        let [english, chinese] = one(none);
        assert_eq!(english, "**No result has a number to compare.**");
        assert_eq!(chinese, "**没有可比较的数值。**");
    }
    let failed = [16, 32, 64].map(|batch| result("solo", &[("batch", json!(batch))], 1).outcome(Outcome::OutOfMemory));
    let mut none = input(vec![("solo", view("torch/train", None, failed.to_vec()))]);
    add_table(&mut none, "t", json!({"from": "solo", "rows": "batch", "columns": ["epoch_time", "top1"]}));
    screens(&none, &[json!({"table": "t"})]);
}

#[test]
fn of_tables_that_are_wide_or_by_epoch() {
    // More axes and more numbers than fit.
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let at = |n: u32| {
        let axes: Vec<(&str, Value)> = names.iter().enumerate().map(|(k, name)| (*name, json!((n >> k) & 1))).collect();
        let made = result("s", &axes, 1).epoch_time(10.0 + f64::from(n)).metric(
            "val_acc",
            0.5 + 0.003 * f64::from(n),
            "ratio",
        );
        made.metric("f1", 0.4, "ratio").metric("mae", 3.0 - 0.01 * f64::from(n), "").gpu_memory(900.0)
    };
    let mut wide = input(vec![("s", view("torch/train", None, (0..128).map(at).collect()))]);
    let columns = json!(["epoch_time", "val_acc", "f1", "mae", "gpu_memory"]);
    add_table(&mut wide, "t", json!({"from": "s", "rows": names, "columns": columns}));
    let [english, _] = screens(&wide, &[json!({"table": "t"})]);
    assert!(english.contains(" | val_acc |"), "{english}");

    // More parts than fit.
    let policies = ["fifo", "easy", "sjf", "srtf", "las", "gittins", "lyapunov", "priority"];
    let of = |policy: &str, density: f64| {
        let values = [1.0, 1.1, 0.9].map(|by| by * density * (3_600.0 + 100.0 * policy.len() as f64));
        result("sim", &[("policy", json!(policy)), ("density", json!(density))], 0).seeds(
            "time_in_system",
            &values,
            "s",
        )
    };
    let results = policies.map(|policy| [0.5, 0.7, 0.9].map(|density| of(policy, density))).concat();
    let mut parts = input(vec![("sim", view("flow/simulate", None, results))]);
    add_table(
        &mut parts,
        "t",
        json!({"from": "sim", "rows": "density", "split": "policy", "columns": ["time_in_system"]}),
    );
    screens(&parts, &[json!({"table": "t"})]);

    // One training by epoch.
    let mut step = view("torch/train", None, vec![result("s", &[], 1).epoch_time(9.0)]);
    let mut series = flow_core::Series::default();
    let losses: Vec<(u32, f64)> = (1..=60).map(|epoch| (epoch, 2.0 / f64::from(epoch))).collect();
    series.metrics.insert("train_loss".into(), curve(&losses));
    step.results[0] = step.results[0].clone().metric("train_loss", 0.03, "");
    step.series = vec![Some(series)];
    let mut epochs = input(vec![("s", step)]);
    add_table(&mut epochs, "t", json!({"from": "s", "rows": "epoch", "columns": ["train_loss"]}));
    screens(&epochs, &[json!({"table": "t"})]);
}
