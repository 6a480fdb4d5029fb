//! Earlier figures next to the current ones: the reading of a CSV file, the computed columns, and the findings about
//! both.

use crate::common::{ResultExt, add_table, bullets, honest, input, result, run, text, view};
use flow_core::{BuiltinInput, BuiltinOutput, CorunGpus, Outcome, StepView};
use serde_json::{Value, json};

const PUBLISHED: &str = include_str!("published/feb08-mobilenet_v2-4gpu.csv");

/// A current sweep, whose times stop falling at another place than the published ones.
fn now(file: &str) -> BuiltinInput {
    let figures = [(16, 1500.0, 20.0), (32, 1900.0, 11.0), (64, 2800.0, 7.0), (128, 4600.0, 5.0), (256, 8200.0, 4.0)];
    let mut results: Vec<_> = figures
        .iter()
        .map(|(batch, memory, time)| result("s", &[("batch", json!(batch))], 4).gpu_memory(*memory).epoch_time(*time))
        .collect();
    results.push(result("s", &[("batch", json!(512))], 4).outcome(Outcome::OutOfMemory));
    let mut input = input(vec![("s", view("torch/train", None, results))]);
    input.files.insert("/somewhere/published.csv".into(), file.as_bytes().to_vec());
    input
}

fn table(file: &str, reference: Value) -> Result<BuiltinOutput, String> {
    let mut with = json!({"from": "s", "rows": "batch",
        "columns": ["gpu_memory", "growth(gpu_memory)", "epoch_time", "growth(epoch_time)"]});
    with["reference"] = reference;
    with["reference"]["file"] = json!("/somewhere/published.csv");
    run("table", with, &now(file))
}

fn columns() -> Value {
    json!({"columns": {"epoch_time": "epoch_s", "gpu_memory": "mem_mib [MiB]"}})
}

#[test]
fn published_figures_stand_beside_those_of_now_with_their_growth() {
    let out = table(PUBLISHED, columns()).expect("a table");
    let text = text(&out, "table.en.md");
    assert!(text.contains("Epoch time, earlier (s)") && text.contains("out of GPU memory"), "{text}");
    // From 37.4 s to 19.6 s, as published.
    assert!(text.contains("37.4") && text.contains("−48%"), "{text}");
}

#[test]
fn a_report_says_which_findings_hold() {
    let mut input = now(PUBLISHED);
    let mut with =
        json!({"from": "s", "rows": "batch", "columns": ["gpu_memory", "epoch_time"], "reference": columns()});
    with["reference"]["file"] = json!("/somewhere/published.csv");
    add_table(&mut input, "t", with);
    let with = json!({"languages": ["en", "zh"], "sections": [{"table": "t"}]});
    let report = text(&run("report", with, &input).expect("a report"), "report.md");
    honest(&report);
    assert_eq!(bullets(&report)[0].len(), bullets(&report)[1].len());
    for [yes, no] in [["| yes ", "| no, different "], ["| 是 ", "| 否，不同 "]] {
        let held = report.lines().filter(|line| line.contains(yes) || line.contains(no));
        assert!(held.count() >= 2, "{report}");
    }
}

#[test]
fn a_table_of_flow_is_a_reference_as_it_is() {
    let first = table(PUBLISHED, columns()).expect("a table");
    let csv: String = text(&first, "table.csv").lines().map(|line| line.to_owned() + "\n").collect();
    let again = table(&csv, json!({})).expect("a table");
    let text = text(&again, "table.csv");
    // The current figures became earlier ones.
    assert!(text.lines().nth(1).is_some_and(|line| line.starts_with("16,1500,1500,")), "{text}");
}

#[test]
fn lines_that_are_no_row_are_said_and_empty_cells_are_nothing() {
    let out = table("batch,epoch_s\n16,37.4\n48,9\n32,NA\n1024,\n", json!({"columns": {"epoch_time": "epoch_s"}}));
    let text = text(&out.expect("a table"), "table.en.md");
    assert!(
        text.contains("2 lines of `published.csv` match no row here and are left out; the first is batch=48."),
        "{text}"
    );
    assert!(text.contains("Epoch time, earlier (s)") && text.contains("37.4"), "{text}");
}

#[test]
fn a_row_that_comes_twice_is_said() {
    let out = table("batch,epoch_time\n16,37.4\n32,20\n16,35.4\n", json!({})).expect("a table");
    let said = text(&out, "table.en.md");
    let twice = "A line of `published.csv` has the same row as an earlier one, and the two are combined: batch=16.";
    assert!(said.contains(twice), "{said}");
}

#[test]
fn what_is_wrong_in_a_file_is_said_with_its_line() {
    let said = |file: &str, reference: Value| table(file, reference).expect_err("wrong");
    let cases = [
        (
            said(PUBLISHED, json!({"columns": {"epoch_time": "epoch"}})),
            "`reference`: published.csv has no column `epoch`; it has batch, mem_mib, mem_growth_pct, epoch_s, epoch_growth_pct, outcome",
        ),
        (
            said("batch,epoch_time\n16,37.4\n32,fast\n", json!({})),
            "`reference`: published.csv:3: `epoch_time` is `fast`, not a number",
        ),
        (
            said("bs,epoch_time\n16,37.4\n", json!({})),
            "`reference`: published.csv has no column `batch`, by which rows are matched; it has bs, epoch_time. `columns: {batch: NAME}` names it",
        ),
        (
            said("batch,epoch_time\n16\n", json!({})),
            "`reference`: published.csv: line 2 has 1 cells, but the first line names 2 columns",
        ),
        (
            said("batch,outcome,epoch_time\n16,bad,1\n", json!({})),
            "`reference`: published.csv:2: `bad` is not an outcome; expected such as `ok`, `out_of_memory`, `failed`",
        ),
    ];
    for (said, expected) in cases {
        assert_eq!(said, expected);
    }
}

const FEB13: &str = include_str!("published/feb13-mobilenet_v3_large-v11.csv");

/// Two trainings alone and together on one GPU, as measured on a GPU that one of them fills.
fn pair(reference: Value, looks: u32) -> Result<BuiltinOutput, String> {
    let figures = [(16, 1.16, 2.54), (32, 0.83, 1.72)];
    let point = |step: &str, batch: i32, time: f64| {
        let made = result(step, &[("batch", json!(batch))], 1).noisy("epoch_time", time, "s", 0.004, 4);
        made.gpu_memory(2000.0 + 32.0 * f64::from(batch)).gpu_load(0.97, 0.2).cpu_util(0.1)
    };
    let runs = |step: &str, repetition: u32| {
        let of = |(batch, alone, both): &(i32, f64, f64)| {
            let time = if step == "solo" { *alone } else { *both } * (1.0 + 0.001 * f64::from(repetition));
            let made = point(step, *batch, time);
            let mut made = if step == "solo" { made } else { made.corun("pair", CorunGpus::Shared, 2, 4) };
            made.repetition = (repetition > 0).then_some(repetition);
            made
        };
        figures.iter().map(of).collect::<Vec<_>>()
    };
    let step = |step: &str, like: Option<&str>| StepView {
        again: (1..looks).flat_map(|repetition| runs(step, repetition)).collect(),
        ..view("torch/train", like, runs(step, 0))
    };
    let mut input = input(vec![("solo", step("solo", None)), ("pair", step("pair", Some("solo")))]);
    input.files.insert("/somewhere/feb13.csv".into(), FEB13.as_bytes().to_vec());
    let mut with = json!({"from": "solo", "rows": "batch", "columns": ["gpus", "gpu_memory", "epoch_time"]});
    with["reference"] = reference;
    with["reference"]["file"] = json!("/somewhere/feb13.csv");
    add_table(&mut input, "t", with);
    run("report", json!({"languages": ["en", "zh"], "sections": [{"table": "t", "corun": "pair"}]}), &input)
}

#[test]
fn the_verdict_of_a_group_is_held_against_that_of_earlier_figures() {
    let reference = json!({"label": {"en": "published", "zh": "已发表"}, "columns": {"epoch_time": "epoch_s",
        "epoch_time together": "epoch_two_on_one_gpu_s", "gpu_memory": "mem_per_gpu_mib [MiB]"}});
    let report = text(&pair(reference.clone(), 3).expect("a report"), "report.md");
    honest(&report);
    let line = |start: &str| report.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{report}"));
    // 21.5 s alone and 32.5 s together, 13.6 s and 23.1 s: 1.25 times the work of one after another then, and 0.94
    // times now.
    let group = line("| pair ");
    assert!(group.contains("| only concurrent ") && group.contains("1.25×"), "{group}");
    assert!(group.contains("| slower than serial ") && group.contains("0.938× ± 0.005"), "{group}");
    let held = line("| Together (pair): **only concurrent**. The members take 1.51 to 1.70 times as long");
    assert!(
        held.contains("1.25 times") && held.contains("**slower than serial**") && held.contains("0.938 ± 0.005"),
        "{held}"
    );
    assert!(held.ends_with("| no, different |"), "{held}");
    // One run of each decides nothing now, so it does not refute the earlier verdict.
    let once = text(&pair(reference, 1).expect("a report"), "report.md");
    assert!(once.contains("| undecided |") && !once.contains("| no, different"), "{once}");
    assert!(
        report.contains("Alone and together, published") && report.contains("单独运行与同时运行，已发表"),
        "{report}"
    );
    assert!(report.contains("32.5") && report.contains("1.51×") && report.contains("1.70×"), "{report}");
}

#[test]
fn figures_that_are_not_meant_here_are_left_out_and_said() {
    let report = text(&pair(json!({"when": false}), 1).expect("a report"), "report.md");
    assert!(report.contains("Not compared with `feb13.csv`: `reference.when` is false on this machine."), "{report}");
    assert!(!report.contains("| Reproduced") && !report.contains("32.5"), "{report}");
}

#[test]
fn findings_are_held_against_each_other_over_the_rows_that_both_have() {
    // Published up to 64, where the time still fell; the current sweep goes up to 512.
    let with = json!({"columns": {"epoch_time": "epoch_s"}});
    let file = "batch,epoch_s\n16,40\n32,20\n64,12\n";
    let mut input = now(file);
    let mut with = json!({"from": "s", "rows": "batch", "columns": ["epoch_time"], "reference": with});
    with["reference"]["file"] = json!("/somewhere/published.csv");
    add_table(&mut input, "t", with);
    let report = text(&run("report", json!({"sections": [{"table": "t"}]}), &input).expect("a report"), "report.md");
    let held =
        report.lines().find(|line| line.starts_with("| Epoch time still falls up to batch size 64 (12")).unwrap_or("");
    assert!(held.contains("| Epoch time still falls up to batch size 64 (7") && held.contains("| yes"), "{report}");
    assert!(report.contains("\n- Epoch time still falls up to batch size 256"), "{report}");
}

#[test]
fn of_a_file_only_the_lines_and_columns_that_are_meant_are_taken() {
    let file = "device,batch,epoch_time,gpu_memory\ncpu,16,400,1\ngpu,16,40,2\ngpu,32,20,3\n";
    let with = json!({"where": {"device": "gpu"}, "columns": {"gpu_memory": null}});
    let out = text(&table(file, with).expect("a table"), "table.csv");
    assert!(out.contains(",40,") && !out.contains("400"), "{out}");
    assert!(!out.lines().next().is_some_and(|heads| heads.contains("gpu_memory earlier")), "{out}");
    let said = |with: Value| table(file, with).expect_err("wrong");
    assert_eq!(
        said(json!({"columns": {"epoch_tme": "epoch_time", "gpu_memory": null}})),
        "`reference`: `columns:` names `epoch_tme`, which this table does not have; did you mean `epoch_time`?"
    );
    assert_eq!(
        said(json!({"where": {"card": "gpu"}, "columns": {"gpu_memory": null}})),
        "`reference`: published.csv has no column `card`, which `where:` names; it has device, batch, epoch_time, gpu_memory"
    );
}

#[test]
fn a_column_that_agrees_is_said_and_nothing_is_made_up_of_earlier_figures() {
    let counts = [("a", 0.7147), ("b", 2.8812), ("c", 1.5081)];
    let results = counts.map(|(model, gmac)| {
        let result = result("s", &[("model", json!(model))], 1).metric("alpha", gmac, "");
        result.metric("near", gmac * 0.985, "").metric("plain", gmac * 0.9, "").epoch_time(1.0)
    });
    let mut input = input(vec![("s", view("torch/train", None, results.into()))]);
    let csv = "model,alpha,near,plain\na,0.71,0.71,0.71\nb,2.88,2.88,2.88\nc,1.51,1.48,1.51\n";
    input.files.insert("/somewhere/published.csv".into(), csv.into());
    let with = json!({"from": "s", "rows": "model", "columns": ["alpha", "near", "plain", "cpu_time", "wall"],
        "reference": {"file": "/somewhere/published.csv"}});
    add_table(&mut input, "t", with);
    let with = json!({"languages": ["en", "zh"], "sections": [{"table": "t"}]});
    let report = text(&run("report", with, &input).expect("a report"), "report.md");
    honest(&report);
    let [english, chinese] = bullets(&report);
    assert_eq!(
        english,
        [
            "- alpha agrees with the earlier figures within 0.66%; 3 of 3 are the same to the last digit.",
            "- near agrees with the earlier figures within 1.5%; 0 of 3 are the same to the last digit.",
        ],
        "{report}"
    );
    assert_eq!(chinese[0], "- alpha 与先前数值相差不超过 0.66%；3 个中有 3 个在给出的位数内完全一致。");
    assert_eq!(report.matches(", earlier").count(), 3, "of alpha, near and plain: {report}");
}

#[test]
fn earlier_figures_keep_the_digits_that_they_were_given_with() {
    let counts = [("a", 15.4838), ("b", 2.8812), ("c", 1.5081)];
    let of = |(model, gmac)| result("s", &[("model", json!(model))], 1).metric("alpha", gmac, "");
    let mut input = input(vec![("s", view("torch/train", None, counts.map(of).into()))]);
    input.files.insert("/somewhere/published.csv".into(), "model,alpha\na,15.5\nb,2.88\nc,1.50\n".into());
    let with = json!({"from": "s", "rows": "model", "columns": ["alpha"],
        "reference": {"file": "/somewhere/published.csv"}});
    add_table(&mut input, "t", with);
    let with = json!({"languages": ["en", "zh"], "sections": [{"table": "t"}]});
    let report = text(&run("report", with, &input).expect("a report"), "report.md");
    honest(&report);
    let earlier = |row: &str| {
        let line =
            report.lines().find(|line| line.starts_with(&format!("| {row} "))).unwrap_or_else(|| panic!("{report}"));
        line.trim_end_matches('|').rsplit('|').next().map(|cell| cell.trim().to_owned())
    };
    assert_eq!(["a", "b", "c"].map(|row| earlier(row).unwrap_or_default()), ["15.5", "2.88", "1.50"], "{report}");
    // 15.48 reads as 15.5, but 1.508 does not read as 1.50.
    assert!(report.contains("2 of 3 are the same to the last digit"), "{report}");
}

#[test]
fn earlier_rows_on_unlike_numbers_of_gpus_are_not_compared_with_and_without_a_split() {
    // As published: batch size 128 had two GPUs.
    let file = include_str!("published/feb08-mobilenet_v2-per-gpu.csv");
    let times = [(16, 8.53), (32, 6.61), (64, 5.62), (128, 5.25)];
    let at = |version: &str| {
        times.map(|(batch, time)| {
            result("s", &[("version", json!(version)), ("batch", json!(batch))], 1).epoch_time(time)
        })
    };
    let results = [at("v7"), at("v11")].concat();
    let mut input = input(vec![("s", view("torch/train", None, results))]);
    input.files.insert("/somewhere/published.csv".into(), file.as_bytes().to_vec());
    let told = |columns: Value, split: bool| {
        let mut input = input.clone();
        let file = json!("/somewhere/published.csv");
        let mut with = json!({"from": "s", "rows": "batch", "columns": columns});
        if split {
            let columns = json!({"epoch_time v7": "epoch_v7_s", "epoch_time v11": "epoch_v11_s"});
            with["split"] = json!("version");
            with["reference"] = json!({"file": file, "columns": columns});
        } else {
            with["where"] = json!({"version": "v7"});
            with["reference"] = json!({"file": file, "columns": {"epoch_time": "epoch_v7_s"}});
        }
        add_table(&mut input, "t", with);
        let with = json!({"languages": ["en", "zh"], "sections": [{"table": "t"}]});
        let report = text(&run("report", with, &input).expect("a report"), "report.md");
        honest(&report);
        report
    };
    for split in [true, false] {
        for columns in
            [json!(["gpus", "epoch_time", "growth(epoch_time)"]), json!(["epoch_time", "growth(epoch_time)"])]
        {
            let report = told(columns.clone(), split);
            let held = report.lines().find(|line| line.contains("Epoch time still falls up to batch size 64 (15.4"));
            assert!(
                held.is_some_and(|line| line.contains("up to batch size 64 (5.6")),
                "{split}, {columns}:\n{report}"
            );
            assert!(
                !report.contains("up to batch size 128 (11.3") && report.contains("1→2"),
                "{split}, {columns}:\n{report}"
            );
        }
    }
    assert!(told(json!(["gpus", "epoch_time"]), true).contains("| GPUs, earlier |"));
}

/// The table if the current `m` is in `unit` and the file has 1.5 under this header.
fn beside(unit: &str, head: &str) -> Result<String, String> {
    let mut now = result("s", &[("x", json!(1))], 0);
    if unit != "none" {
        now = now.metric("m", 1.0, unit);
    }
    let mut input = input(vec![("s", view("torch/train", None, vec![now]))]);
    input.files.insert("/old.csv".into(), format!("x,{head}\n1,1.5\n").into_bytes());
    let with = json!({"from": "s", "rows": "x", "columns": ["m"], "reference": {"file": "/old.csv"}});
    let table = text(&run("table", with, &input)?, "table.csv");
    Ok(table.lines().nth(1).expect("a row").to_owned())
}

#[test]
fn units_of_one_kind_are_converted_and_no_others() {
    let cases = [
        ("ms", "m [s]", "1,1,1500"),
        ("MB", "m [GB]", "1,1,1500"),
        // A metric that was not measured has the unit that the file gives.
        ("none", "m [GB]", "1,NA,1.5"),
    ];
    for (unit, head, expected) in cases {
        assert_eq!(beside(unit, head).as_deref(), Ok(expected), "{head} for {unit}");
    }
    let refused = [
        (
            beside("ms", "m [GB]"),
            "`reference`: old.csv: `m` is in ms here and in GB there, and flow does not convert these units: convert the numbers of the file, or leave that column out, `columns: {m: null}`",
        ),
        (
            beside("", "m [s]"),
            "`reference`: old.csv: `m` has no unit here and is in s there: give it its unit where it is measured, or leave that column out, `columns: {m: null}`",
        ),
    ];
    for (said, expected) in refused {
        assert_eq!(said, Err(expected.to_owned()));
    }
}

/// Four H200 with a limit of 10 GiB: running out of memory at 512 says nothing about these GPUs.
#[test]
fn an_end_of_memory_that_a_limit_forced_reproduces_nothing() {
    let figures = [
        (16, 1418.0, 5.847),
        (32, 1862.0, 3.392),
        (64, 2708.0, 2.291),
        (128, 4244.0, 1.767),
        (256, 7430.0, 1.441),
        (512, 0.0, 0.0),
    ];
    let held = |limited: bool| {
        let of = |(batch, memory, time): (i32, f64, f64)| {
            let of = result("s", &[("batch", json!(batch))], 4);
            let of = if limited { of.metric("memory_limit", 10.0 * 1024_f64.powi(3), "bytes") } else { of };
            if time > 0.0 { of.gpu_memory(memory).epoch_time(time) } else { of.outcome(Outcome::OutOfMemory) }
        };
        let mut input = input(vec![("s", view("torch/train", None, figures.map(of).to_vec()))]);
        input.files.insert("/somewhere/published.csv".into(), PUBLISHED.as_bytes().to_vec());
        let mut with =
            json!({"from": "s", "rows": "batch", "columns": ["gpu_memory", "epoch_time"], "reference": columns()});
        with["reference"]["file"] = json!("/somewhere/published.csv");
        add_table(&mut input, "t", with);
        let with = json!({"languages": ["en", "zh"], "sections": [{"table": "t"}]});
        let report = text(&run("report", with, &input).expect("a report"), "report.md");
        let row = report.lines().find(|line| line.starts_with("| Batch size 512 runs out")).expect("a row");
        row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap_or_default().trim().to_owned()
    };
    assert_eq!([held(false), held(true)], ["yes", "undecided"]);
}
