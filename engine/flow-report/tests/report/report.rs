//! `flow/report`: complete reports in both languages, and the properties of every report.

use crate::common::{
    ResultExt, add_table, bullets, feb08, honest, input, number, published, remarks, result, run, text, view, whole,
};
use flow_core::Outcome;
use flow_core::reason::{Cause, Disturbance};
use serde_json::{Value, json};

#[test]
fn feb08_without_gpus() {
    let out = run("report", feb08::with(), &feb08::without_gpus()).expect("a report");
    insta::assert_snapshot!(whole(&out, "report.md"));
}

#[test]
fn a_file_for_each_language() {
    let mut with = feb08::with();
    with["split"] = json!(true);
    with["date"] = json!("2026-02-08");
    let out = run("report", with, &feb08::without_gpus()).expect("a report");
    let (english, chinese) = (whole(&out, "report.md"), whole(&out, "report.zh.md"));
    assert!(english.starts_with("# mobilenet_v2: batch size") && english.contains("[中文](report.zh.md)"), "{english}");
    assert!(chinese.starts_with("# mobilenet_v2：批大小") && chinese.contains("[English](report.md)"), "{chinese}");
    assert!(!english.contains("批大小") && !chinese.contains("Batch size"), "{english}{chinese}");
}

#[test]
fn every_figure_of_the_prose_is_in_a_table() {
    for input in [feb08::with_gpus(), feb08::without_gpus()] {
        let out = run("report", feb08::with(), &input).expect("a report");
        let (report, entry) = (text(&out, "report.md"), text(&out, "entry.md"));
        honest(&report);
        // The report contains the figures behind those of an entry.
        let tables: Vec<&str> = report.lines().chain(entry.lines()).filter(|line| line.starts_with('|')).collect();
        let (english, chinese): (Vec<&str>, Vec<&str>) =
            entry.lines().filter(|line| line.starts_with("- ")).partition(|line| !line.contains('：'));
        assert!(!english.is_empty(), "{entry}");
        let (english, chinese) = (english.join("\n"), chinese.join("\n"));
        honest(&format!("\n## {}\n{english}\n## 中文\n\n## \n{chinese}", tables.join("\n")));
    }
}

#[test]
fn a_finding_rests_on_most_rows_and_a_frontier_on_what_ran() {
    let at = |v: &str, batch: u32| result("s", &[("v", json!(v)), ("batch", json!(batch))], 1);
    let mut results = Vec::new();
    for v in ["v1", "v2"] {
        results.push(at(v, 8).epoch_time(3.0).metric("train_loss", 0.5, ""));
        let one = at(v, 16).epoch_time(2.5);
        results.push(if v == "v1" { one.metric("train_loss", 0.4, "") } else { one });
        results.push(at(v, 32).epoch_time(2.0).metric("train_loss", f64::NAN, ""));
        results.push(at(v, 48).outcome(Outcome::Failed));
        results.push(at(v, 64).outcome(Outcome::OutOfMemory));
    }
    let mut input = input(vec![("s", view("torch/train", None, results))]);
    let with = json!({"from": "s", "rows": "batch", "split": "v", "columns": ["train_loss", "epoch_time"]});
    add_table(&mut input, "t", with);
    let with = json!({"sections": [{"table": "t", "compare": "v"}]});
    let report = text(&run("report", with, &input).expect("a report"), "report.md");
    insta::assert_snapshot!(bullets(&report).concat().join("\n"), @r"
    - v1: Epoch time still falls up to batch size 32 (2.0 s).
    - v1: Batch size 64 runs out of GPU memory; 32 still fits.
    - v2: Epoch time still falls up to batch size 32 (2.0 s).
    - v2: Batch size 64 runs out of GPU memory; 32 still fits.
    - From v1 to v2, epoch time is unchanged (differences below 1%).
    ");
}

#[test]
fn what_costs_more_of_anything_is_not_free() {
    let told = |memory: f64, gpus: usize| {
        let point = |version: &str, batch: u32, gpus: usize, time: f64, memory: f64| {
            let axes = [("version", json!(version)), ("batch", json!(batch))];
            [0, 1].map(|n| {
                let top1 = 0.9 + f64::from(n) / 1000.0;
                let mut result = result("solo", &axes, gpus).epoch_time(time).gpu_memory(memory);
                result.repetition = Some(n);
                result.metric("top1", top1, "ratio")
            })
        };
        let rows = [16, 32].map(|batch| [point("v1", batch, 1, 4.0, 1000.0), point("v2", batch, gpus, 2.0, memory)]);
        let mut input = input(vec![("solo", view("torch/train", None, rows.concat().concat()))]);
        let columns = json!(["epoch_time", "gpu_memory", "top1"]);
        add_table(&mut input, "t", json!({"from": "solo", "rows": "batch", "split": "version", "columns": columns}));
        let with = json!({"sections": [{"table": "t", "compare": "version"}]});
        text(&run("report", with, &input).expect("a report"), "report.md").contains("Cost-free")
    };
    assert!(told(1000.0, 1), "half the time for nothing");
    assert!(!told(2000.0, 1), "for twice the memory");
    assert!(!told(1000.0, 2), "on twice the GPUs");
}

#[test]
fn what_others_computed_on_the_gpu_is_not_taken_for_its_own() {
    let told = |times: [f64; 3], shared: Option<f64>| {
        let results = [16, 32, 64].iter().zip(times).map(|(batch, time)| {
            let mut result = result("train", &[("batch", json!(batch))], 1).epoch_time(time).gpu_load(0.97, 0.3);
            result.circumstances.mode = flow_core::Mode::Plain;
            result.circumstances.gpu_shared = shared;
            result
        });
        let mut input = input(vec![("train", view("torch/train", None, results.collect()))]);
        add_table(&mut input, "t", json!({"from": "train", "rows": "batch", "columns": ["epoch_time", "gpu_load"]}));
        let report =
            text(&run("report", json!({"sections": [{"table": "t"}]}), &input).expect("a report"), "report.md");
        (report.contains("still falls"), report.contains("GPU-bound: "))
    };
    assert_eq!(told([4.0, 3.0, 2.0], None), (true, true));
    assert_eq!(told([4.0, 3.0, 2.0], Some(0.3)), (false, false));
    assert_eq!(told([3.0, 4.0, 2.0], None), (false, true), "up and down is not falling");
}

#[test]
fn what_nobody_could_watch_is_said() {
    let told = |unwatched: usize| {
        let results = [16, 32, 64].iter().enumerate().map(|(n, batch)| {
            let mut result = result("train", &[("batch", json!(batch))], 1).epoch_time(9.0);
            result.circumstances.unwatched = n < unwatched;
            result
        });
        let mut input = input(vec![("train", view("torch/train", None, results.collect()))]);
        add_table(&mut input, "t", json!({"from": "train", "rows": "batch", "columns": ["epoch_time"]}));
        let with = json!({"languages": ["en", "zh"], "sections": [{"table": "t"}]});
        let report = text(&run("report", with, &input).expect("a report"), "report.md");
        report.lines().filter(|l| l.contains("could not see") || l.contains("无法得知")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(told(0), "");
    insta::assert_snapshot!([told(1), told(2)].join("\n"), @r"
    While `train[batch=16]` ran, flow could not see the steps of other runs on its machine.
    `train[batch=16]` 运行时，flow 无法得知该机器上的其他运行是否同时执行了步骤。
    While 2 results were measured, flow could not see the steps of other runs on their machine; one of them is `train[batch=16]`.
    有 2 个结果（其中有 `train[batch=16]`）在测量时，flow 无法得知该机器上的其他运行是否同时执行了步骤。
    ");
}

#[test]
fn a_guess_is_confirmed_refuted_or_left_open() {
    let told = |resource: &str, alone: Option<f64>| {
        let mut input = feb08::with_gpus();
        // If the use alone changes, the use together is not known.
        if let Some(alone) = alone {
            input.steps["solo"].results.iter_mut().for_each(|result| result.usage.cpu_util = Some(alone));
            input.steps["together"].results.iter_mut().for_each(|result| result.usage.cpu_util = None);
        }
        let mut with = feb08::with();
        with["sections"][1]["notes"]["guess"] = json!({"resource": resource, "en": "so I think", "zh": "我这样想"});
        let report = text(&run("report", with, &input).expect("a report"), "report.md");
        report.lines().filter(|l| l.contains("Guess") || l.contains("猜测")).collect::<Vec<_>>().join("\n")
    };
    let all = [("cpu", None), ("gpu", None), ("cpu", Some(0.31)), ("cpu", Some(0.1)), ("data", None)];
    insta::assert_snapshot!(all.map(|(resource, alone)| told(resource, alone)).join("\n"), @r"
    - Guess: so I think. **Confirmed**: CPU limits v7, and v11, which has enough of it, runs in parallel.
    - 猜测：我这样想。**已证实**：v7 的瓶颈正是 CPU；而该资源充足的 v11 可以并行。
    - Guess: so I think. **Not supported**: according to the figures, GPU does not limit v7.
    - 猜测：我这样想。**数据不支持**：按其数值，v7 的瓶颈不是 GPU。
    - Guess: so I think. **Open**: the figures neither confirm nor refute that CPU is the limit.
    - 猜测：我这样想。**未定**：现有数据既不能证实也不能否定原因是 CPU。
    - Guess: so I think. **Not supported**: according to the figures, CPU does not limit v7.
    - 猜测：我这样想。**数据不支持**：按其数值，v7 的瓶颈不是 CPU。
    - Guess: so I think. **Confirmed**: waiting for data limits v7, and v11, which hardly waits, runs in parallel.
    - 猜测：我这样想。**已证实**：v7 的瓶颈正是等待数据；而几乎无需等待的 v11 可以并行。
    ");
}

#[test]
fn findings_of_published_and_drawn_curves() {
    let told = |axis: &str, name: &str, unit: &str, points: Vec<(u32, f64, f64)>| {
        let results = points
            .iter()
            .map(|(x, time, memory)| result("s", &[(axis, json!(x))], 1).metric(name, *time, unit).gpu_memory(*memory));
        let mut input = input(vec![("s", view("torch/train", None, results.collect()))]);
        add_table(&mut input, "t", json!({"from": "s", "columns": [name, "gpu_memory"]}));
        let out =
            run("report", json!({"languages": ["en", "zh"], "sections": [{"table": "t"}]}), &input).expect("a report");
        let report = text(&out, "report.md");
        honest(&report);
        bullets(&report).concat().join("\n")
    };
    let feb07: Vec<_> = published(include_str!("published/feb07-resnet34-4gpu.csv"))
        .iter()
        .map(|r| (number(r, "batch").unwrap() as u32, number(r, "epoch_s").unwrap(), number(r, "mem_mib").unwrap()))
        .collect();
    // The times of a sweep from 1 to 70, in milliseconds, with a jump after every sixteenth.
    let sweep = (1..=70_u32).map(|b| {
        let ripple = f64::from((b * 37) % 11) / 50.0;
        (b, (20.0 + 1.5 * f64::from(b) + 12.0 * f64::from((b - 1) / 16) + ripple) / 1000.0, 900.0 + 20.0 * f64::from(b))
    });
    insta::assert_snapshot!(told("batch", "epoch_time", "s", feb07), @r"
    - Epoch time stops falling at batch size 128 (11.4 s) and rises to 12.8 s at 512.
    - If memory is scarce (memory × time), no step beyond batch size 64 pays: at 128, GPU memory grows by 58% and epoch time falls by only 7%.
    - GPU memory is linear in batch size: 979 MiB + 17.50 MiB × batch size, R² = 1.000.
    - 批大小达到 128 后，每轮用时不再下降（11.4 s），到 512 时回升至 12.8 s。
    - 若显存紧张（按显存 × 用时衡量），批大小超过 64 后不再划算：到 128 时，显存增加 58%，每轮用时只减少 7%。
    - 显存与批大小成线性关系：979 MiB + 17.50 MiB × 批大小，R² = 1.000。
    ");
    insta::assert_snapshot!(told("batch", "iteration_time", "s", sweep.collect()), @r"
    - GPU memory is linear in batch size: 900 MiB + 20.00 MiB × batch size, R² = 1.000.
    - Iteration time rises with batch size, from 21.6 ms at 1 to 173.1 ms at 70.
    - 显存与批大小成线性关系：900 MiB + 20.00 MiB × 批大小，R² = 1.000。
    - 每次迭代用时随批大小上升：1 时为 21.6 ms，70 时为 173.1 ms。
    ");
}

#[test]
fn whose_cpus_a_share_is_of_is_said_where_runs_had_fewer_than_the_host() {
    let results = [8, 16].map(|batch| {
        let mut result = result("s", &[("batch", json!(batch))], 0).epoch_time(6.0);
        (result.circumstances.cpus, result.circumstances.host_cpus) = (1, 2);
        (result.usage.cpu_cores, result.usage.cpu_util) = (Some(0.99), Some(0.495));
        result
    });
    let mut input = input(vec![("s", view("torch/train", None, results.into()))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": "batch", "columns": ["epoch_time", "cpu_util"]}));
    let out =
        run("report", json!({"languages": ["en", "zh"], "sections": [{"table": "t"}]}), &input).expect("a report");
    let said = bullets(&text(&out, "report.md")).concat().join("\n");
    assert!(said.contains("are in use (1 of 2; CPU use is a share of all 2)."), "{said}");
    assert!(said.contains("分得 1 个，主机共 2 个"), "{said}");
}

#[test]
fn other_programs_are_told_only_beside_times() {
    let results = [8, 16].map(|batch| {
        let mut result = result("s", &[("batch", json!(batch))], 0).epoch_time(6.0);
        result.circumstances.foreign_cpu = Some(0.4);
        result
    });
    let mut input = input(vec![("s", view("torch/train", None, results.into()))]);
    for (column, is_told) in [("epoch_time", true), ("wall", true), ("top1", false)] {
        add_table(&mut input, "t", json!({"from": "s", "rows": "batch", "columns": [column]}));
        let out = run("report", json!({"languages": ["en"], "sections": [{"table": "t"}]}), &input).expect("a report");
        assert_eq!(text(&out, "report.md").contains("while other programs used"), is_told, "{column}");
    }
}

#[test]
fn all_parameters_of_the_results_are_in_the_details() {
    let mut results = vec![result("s", &[("batch", json!(16))], 0)];
    for (name, value) in
        [("hidden", json!(8)), ("epochs", json!(4)), ("batch", json!(1)), ("text", json!("x".repeat(90)))]
    {
        results[0].circumstances.params.insert(name.into(), value);
    }
    let mut input = input(vec![("s", view("torch/train", None, results))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": "batch", "columns": ["wall"]}));
    let with = json!({"languages": ["en", "zh"], "sections": [{"table": "t"}]});
    let report = text(&run("report", with, &input).expect("a report"), "report.md");
    let listed = format!("`hidden=8`, `text={}…`\n", "x".repeat(39));
    for line in [format!("- Epochs: 4\n- Other parameters: {listed}"), format!("- 其他参数：{listed}")] {
        assert!(report.contains(&line), "{report}");
    }
}

#[test]
fn what_is_not_there_is_said() {
    let mut input = feb08::without_gpus();
    input.steps["together"].results.clear();
    input.steps["together"].absent = Some(Cause::EmptyAxis { axis: "trio".into() });
    input.steps["solo"].results[0].accepted = Some("a comment changed".into());
    input.steps["solo"].results[4].accepted = Some("a comment changed".into());
    input.steps["solo"].results[1].disturbances =
        vec![Disturbance::InputChanged { path: "photos".into(), differences: vec![] }];
    input.steps["solo"].results[1].circumstances.fake_gpus = true;
    input.steps["solo"].results[2].circumstances.foreign_cpu = Some(0.17);
    let foreign = flow_core::ForeignProcess { pid: 7, name: "python3".into(), gpu: "GPU-0".into(), memory: 1 << 30 };
    input.steps["solo"].results[3].circumstances.foreign_processes = vec![foreign];
    let table = input.steps["solo_table"].with.clone();
    add_table(&mut input, "solo_table", Value::Object(table));
    let out = run("report", feb08::with(), &input).expect("a report");
    let report = text(&out, "report.md");
    insta::assert_snapshot!(remarks(&report).concat().join("\n\n"), @r"
    The GPUs of this report were declared, not real.

    `solo[version=v7,batch=32]` ran while other programs used 17.0% of the CPU. On a quiet machine, `flow run -f 'solo[version=v7,batch=32]'` measures again.

    `solo[version=v11,batch=8]` shared its GPU with other programs: python3.

    In at least 2 results an epoch takes less than 5 s on average, the shortest 3.15 s (`solo[version=v11,batch=32]`): overhead and chance matter much in so short a time.

    The times of 6 results are means of fewer than 3 epochs, the fewest 2 (`solo[version=v11,batch=16]`), so the spread between epochs is hardly known.

    `solo[version=v11,batch=16]` and 1 more are earlier results, kept although their dependencies have changed: a comment changed

    Left out: `four_table` (`machine.gpus >= 4` is false).

    Left out: `together` (its axis `trio` is empty).

    本报告中的 GPU 是声明的，并非真实设备。

    `solo[version=v7,batch=32]` 运行时，其他程序占用了 17.0% 的 CPU。机器空闲时，可用 `flow run -f 'solo[version=v7,batch=32]'` 重新测量。

    `solo[version=v11,batch=8]` 运行时，其所用的 GPU 上还有其他程序：python3。

    至少 2 个结果的每轮平均用时不足 5 s，最短为 3.15 s（`solo[version=v11,batch=32]`）：时间过短，一轮首尾的开销和随机波动影响较大。

    有 6 个结果的用时由不足 3 轮得出，最少 2 轮（`solo[version=v11,batch=16]`）：各轮之间的波动难以估计。

    `solo[version=v11,batch=16]` 及另外 1 个实例沿用了以前的结果，尽管其依赖已有变化：a comment changed

    未包含：`four_table`（条件 `machine.gpus >= 4` 不满足）。

    未包含：`together`（轴 `trio` 为空）。
    ");
}

#[test]
fn a_template_of_the_authors_and_its_mistakes() {
    let mut with = feb08::with();
    with["template"] = json!("{% for s in sections %}* {{ s.title }}\n{% endfor %}");
    let out = run("report", with.clone(), &feb08::with_gpus()).expect("a report");
    insta::assert_snapshot!(whole(&out, "report.md"), @r"
    * `four` by batch size
    * `solo` by batch size

    ---

    ## 中文

    * `four`：不同批大小下的结果
    * `solo`：不同批大小下的结果
    ");
    with["template"] = json!("{{ section.title }}");
    insta::assert_snapshot!(run("report", with, &feb08::with_gpus()).expect_err("refused"), @"the template of the report: undefined value: `section` is undefined (in template:1)");
    let told = [
        json!({"sections": [{"table": "solo"}]}),
        json!({"sections": [{"table": "solo_table", "compare": "batch"}]}),
        json!({"sections": [{"table": "four_table", "compare": "version"}]}),
        json!({"sections": [{"table": "solo_table", "corun": "solo"}]}),
        json!({"sections": [{"table": "solo_table"}], "date": "8 Feb"}),
        json!({"sections": [{"table": "solo_table"}], "languages": ["fr"]}),
        json!({"sections": [{"table": "solo_table", "notes": {"guess": {"resorce": "cpu"}}}]}),
    ];
    let told = told.map(|with| run("report", with, &feb08::with_gpus()).expect_err("refused"));
    insta::assert_snapshot!(told.join("\n"), @r#"
    `table: solo`: that step is not a flow/table
    `compare: batch`: the table of `solo` is split by `version`
    `compare: version`: the table of `four` has no split; give it `split: version`
    `corun: solo`: it is not `like` another step, so there are no runs alone to compare with
    `date: 8 Feb`: a day is written `2026-02-08`
    `with`: unknown variant `fr`, expected `en` or `zh`
    `with`: a guess is a text, or `{resource: cpu, en: …, zh: …}`
    "#);
}

#[test]
fn a_report_is_put_into_another_language_without_its_results() {
    let of = |langs: Value| {
        let mut with = feb08::with();
        with["languages"] = langs;
        run("report", with, &feb08::with_gpus()).expect("a report")
    };
    let builtins = flow_report::Reports::new();
    let both = of(json!(["en", "zh"]));
    let read = |file: &str| both.files.get(file).cloned();
    for lang in ["en", "zh"] {
        let one = whole(&of(json!([lang])), "report.md");
        let told = builtins.text(read, Some(lang)).expect("a text").expect("a report");
        assert!(!told.contains("!["), "charts are not beside it: {told}");
        // Without charts, their captions, and folds.
        let left_out =
            ["![", "Lines that differ", "相差不到", "<details>", "</details>", "<a id=", "[data](", "[数据]("];
        let words = |text: &str| {
            let others = text.lines().filter(|l| !l.is_empty() && !left_out.iter().any(|start| l.starts_with(start)));
            others.collect::<Vec<_>>().join("\n").replace("<summary>", "**").replace("</summary>", "**")
        };
        assert_eq!(words(&told), words(&one));
    }
    let refused = builtins.text(read, Some("fr")).expect_err("no such language");
    assert_eq!(refused, "unknown language `fr`; there are en and zh");
    assert_eq!(builtins.text(|_| None, Some("en")), Ok(None));
}

#[test]
fn the_same_results_give_the_same_files() {
    let once = run("report", feb08::with(), &feb08::without_gpus()).expect("a report");
    let again = run("report", feb08::with(), &feb08::without_gpus()).expect("a report");
    assert_eq!(once, again);
    let charts: Vec<&String> = once.files.keys().filter(|path| path.ends_with(".svg")).collect();
    insta::assert_debug_snapshot!(charts, @r#"
    [
        "charts/solo_table-epoch_time.en.svg",
        "charts/solo_table-epoch_time.zh.svg",
        "charts/solo_table-together.en.svg",
        "charts/solo_table-together.zh.svg",
    ]
    "#);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]

    /// Whatever the results are, the prose of both languages has the same figures, and tables contain all of them.
    #[test]
    fn generated_reports_are_honest(
        factors in proptest::collection::vec((0.2..3.0_f64, 0.5..2.0_f64, 0.0..1.3_f64, -0.05..0.05_f64), 14),
        ends in proptest::collection::vec(0..12_u8, 14),
    ) {
        let mut input = feb08::with_gpus();
        for step in ["four", "solo", "together"] {
            let results = &mut input.steps[step].results;
            for (result, ((time, memory, cpu, top1), end)) in results.iter_mut().zip(factors.iter().zip(&ends)) {
                for (name, factor) in [("epoch_time", *time), ("data_wait", *time * *cpu)] {
                    if let Some(metric) = result.metrics.get_mut(name) {
                        metric.value *= factor;
                    }
                }
                if let Some(metric) = result.metrics.get_mut("top1") {
                    metric.value += top1;
                }
                result.usage.cpu_util = result.usage.cpu_util.map(|share| share * cpu);
                for gpu in &mut result.usage.gpus {
                    gpu.memory_peak = gpu.memory_peak.map(|bytes| (bytes as f64 * memory) as u64);
                    gpu.load_mean = gpu.load_mean.map(|load| load * cpu);
                }
                match end {
                    0 => result.outcome = Outcome::OutOfMemory,
                    1 => result.disturbances = vec![Disturbance::OtherRuns { attempts: 2 }],
                    2 => result.outcome = Outcome::TimedOut,
                    _ => {}
                }
            }
        }
        for name in ["four_table", "solo_table"] {
            let with = Value::Object(input.steps[name].with.clone());
            add_table(&mut input, name, with);
        }
        honest(&text(&run("report", feb08::with(), &input).expect("a report"), "report.md"));
    }
}

/// An axis with one value is in no table, so the set-up has it.
#[test]
fn constant_axes_are_in_the_set_up() {
    let of = |lr: f64| result("s", &[("lr", json!(lr)), ("dropout", json!(0.1))], 1).metric("loss", lr, "");
    let mut input = input(vec![("s", view("command", None, vec![of(0.1), of(0.2)]))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": "lr", "columns": ["loss"]}));
    let report = whole(&run("report", json!({"sections": [{"table": "t"}]}), &input).expect("a report"), "report.md");
    assert!(report.contains("- Other parameters: `dropout=0.1`"), "{report}");
    assert!(!report.contains("lr=0.1`"), "{report}");
    assert!(!report.contains("Parallel:"), "no sentence of this report has the word: {report}");
}
