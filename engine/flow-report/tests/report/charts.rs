//! Charts that an author asks for in a section, and epochs that are not epochs of a training.

use crate::common::{ResultExt, add_table, curve, input, result, run, text, timed, view, whole};
use flow_core::{BuiltinInput, BuiltinOutput, Series};
use serde_json::{Value, json};

/// A sweep of learning rate and width with its losses by epoch.
fn swept() -> BuiltinInput {
    let mut results = Vec::new();
    let mut series = Vec::new();
    for width in [1, 2] {
        for (n, lr) in [0.01, 0.1, 1.0].into_iter().enumerate() {
            let top1 = 0.5 + 0.1 * n as f64 + 0.01 * f64::from(width);
            let made = result("s", &[("width", json!(width)), ("lr", json!(lr))], 0).on_cpu();
            results.push(made.epoch_time(3.0).metric("top1", top1, "ratio").metric("val/<loss>", -0.2, ""));
            let mut of = Series::default();
            let losses = (1..=4).map(|epoch| (epoch, 0.3 - 0.1 * f64::from(epoch) * (1.0 + lr)));
            of.metrics.insert("val/<loss>".into(), curve(&losses.collect::<Vec<_>>()));
            series.push(Some(of));
        }
    }
    let mut step = view("torch/train", None, results);
    step.series = series;
    input(vec![("s", step)])
}

fn report(input: &BuiltinInput, section: Value) -> Result<BuiltinOutput, String> {
    let mut input = input.clone();
    add_table(
        &mut input,
        "t",
        json!({"from": "s", "rows": ["width", "lr"], "columns": ["epoch_time", "top1", "val/<loss>"]}),
    );
    let mut section = section;
    section["table"] = json!("t");
    run("report", json!({"languages": ["en", "zh"], "sections": [section]}), &input)
}

#[test]
fn a_chart_of_any_column_and_loss_curves_of_instances_are_a_line_each() {
    let charts = json!({"charts": ["top1", {"column": "val/<loss>", "over": "epoch"}]});
    let out = report(&swept(), charts).expect("a report");
    let shown = whole(&out, "report.md");
    let pictures: Vec<&str> = shown.lines().filter(|line| line.contains("t-chart-")).collect();
    insta::assert_snapshot!(pictures.join("\n"), @r"
    ![Top-1 over learning rate](charts/t-chart-1.en.svg)
    ![val/\<loss> over epoch](charts/t-chart-2.en.svg)\
    ![Top-1 准确率随学习率的变化](charts/t-chart-1.zh.svg)
    ![val/\<loss>随轮次的变化](charts/t-chart-2.zh.svg)\
    ");
    for (lang, axis) in [("en", "Learning rate"), ("zh", "学习率")] {
        let top1 = text(&out, &format!("charts/t-chart-1.{lang}.svg"));
        assert!(top1.contains("width=1") && top1.contains("width=2") && top1.contains(axis), "{top1}");
    }
    let loss = text(&out, "charts/t-chart-2.svg");
    assert!(loss.contains("width=1, lr=0.01") && loss.contains("lr=1"), "{loss}");
    // Names by an author or a program are plain text in a picture.
    assert!(loss.contains("val/&lt;loss&gt;") && !loss.contains("<loss>"), "{loss}");
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let said = |charts: Value| report(&swept(), json!({"charts": charts})).expect_err("wrong");
    assert_eq!(said(json!(["top_1"])), "`charts: top_1`: the table of `s` has no column `top_1`; did you mean `top1`?");
    assert_eq!(
        said(json!([{"column": "valid_loss", "over": "epoch"}])),
        "`charts: {column: valid_loss, over: epoch}`: no instance has it by epoch; there are val/<loss>"
    );
    let mut named = swept();
    let step = named.steps.get_mut("s").expect("a step");
    step.results.iter_mut().for_each(|result| {
        result.axes.insert("lr".into(), json!("low"));
    });
    step.results.truncate(1);
    step.series.truncate(1);
    step.files.truncate(1);
    assert_eq!(
        report(&named, json!({"charts": ["top1"]})).expect_err("no numbers"),
        "`charts: top1`: `low` of the rows' last axis `lr` is not a number, and a chart needs numbers"
    );
}

#[test]
fn rows_on_more_gpus_are_a_line_of_their_own() {
    let sweep = |gpus: [usize; 4], lang: &str| {
        let batches = [16, 32, 64, 128].into_iter().zip(gpus).zip([20.0, 14.0, 11.0, 6.1]);
        let of = |((batch, gpus), time)| result("s", &[("batch", json!(batch))], gpus).epoch_time(time);
        let mut input = input(vec![("s", view("torch/train", None, batches.map(of).collect()))]);
        add_table(&mut input, "t", json!({"from": "s", "rows": "batch", "columns": ["gpus", "epoch_time"]}));
        let section = json!({"table": "t", "charts": ["epoch_time"]});
        let out = run("report", json!({"languages": ["en", "zh"], "sections": [section]}), &input).expect("a report");
        ["t-epoch_time", "t-chart-1"].map(|name| text(&out, &format!("charts/{name}.{lang}.svg")))
    };
    let english = sweep([1, 1, 1, 2], "en").map(|drawn| (drawn, ["1 GPU", "2 GPUs"]));
    let chinese = sweep([1, 1, 1, 2], "zh").map(|drawn| (drawn, ["1 块 GPU", "2 块 GPU"]));
    for (drawn, [one, two]) in english.into_iter().chain(chinese) {
        assert!(drawn.contains(one) && drawn.contains(two), "{drawn}");
        // A single point gets its own marker.
        assert_eq!(drawn.matches("<circle").count(), 4, "{drawn}");
    }
    for drawn in sweep([1; 4], "en") {
        assert!(!drawn.contains("1 GPU"), "{drawn}");
    }
}

#[test]
fn the_load_is_drawn_from_the_first_epoch_on() {
    let drawn = |epochs: Vec<(u32, f64, f64)>| {
        let mut step = view("torch/train", None, vec![result("s", &[("batch", json!(16))], 1).epoch_time(5.0)]);
        let mut series = Series { epoch_times: timed(&epochs), ..Series::default() };
        let samples = (0..20).map(|t| (f64::from(t), if t < 6 { 0.1 } else { 0.9 })).collect();
        series.samples = [("cpu".to_owned(), samples)].into();
        step.series = vec![Some(series)];
        let mut input = input(vec![("s", step)]);
        add_table(&mut input, "t", json!({"from": "s", "rows": "batch", "columns": ["epoch_time"]}));
        let section = json!({"table": "t", "charts": [{"load": {"batch": 16}}]});
        let out = run("report", json!({"languages": ["en", "zh"], "sections": [section]}), &input).expect("a report");
        let model: Value = serde_json::from_str(&text(&out, "report.json")).expect("JSON");
        let svgs = ["en", "zh"].map(|lang| text(&out, &format!("charts/t-load.{lang}.svg")));
        (model["sections"][0]["loads"][0].clone(), svgs)
    };
    let (load, [english, chinese]) = drawn(vec![(1, 6.0, 11.0), (2, 11.0, 16.0)]);
    let points = load["lines"][0][1].as_array().expect("points");
    assert_eq!((&points[0], points.len()), (&json!([0.0, 90.0]), 14));
    assert_eq!(load["odd_epochs"], json!([[0.0, 5.0]]));
    assert!(english.contains("Time since the first epoch began (s)"), "{english}");
    assert!(chinese.contains("自第一轮开始的时间 (s)"), "{chinese}");
    let (load, [english, chinese]) = drawn(vec![]);
    assert_eq!(load["lines"][0][1].as_array().map(Vec::len), Some(20));
    assert!(english.contains("Time (s)") && chinese.contains("时间 (s)"), "{english}\n{chinese}");
}

/// Loads of the instances that the author names, with the share of memory and the earlier figures for the same.
#[test]
fn load_and_memory_are_drawn_of_named_instances_beside_what_was_published() {
    let of = |batch: u64, used: f64| {
        let mut result = result("s", &[("batch", json!(batch))], 1).epoch_time(5.0).gpu_load(used, 0.3);
        result.circumstances.gpu_memory_total = vec![100 << 20];
        let samples = |value: f64| (0..20).map(|t| (f64::from(t), value)).collect::<Vec<_>>();
        let samples = [("cpu", 0.1), ("gpu0_load", used), ("gpu0_memory", used * 100.0 * f64::from(1 << 20))]
            .map(|(name, value)| (name.to_owned(), samples(value)));
        let epoch_times = timed(&[(1, 0.0, 5.0), (2, 5.0, 10.0)]);
        (result, Some(Series { samples: samples.into(), epoch_times, ..Series::default() }))
    };
    let (results, series) = [of(16, 0.25), of(64, 0.5), of(256, 0.75)].into_iter().unzip();
    let mut step = view("torch/train", None, results);
    step.series = series;
    let mut input = input(vec![("s", step)]);
    let file = "batch,load_pct,memory_pct\n16,50,25\n256,90,75\n";
    input.files.insert("/somewhere/then.csv".into(), file.as_bytes().to_vec());
    let columns = json!({"gpu_load": "load_pct [%]", "gpu_memory_share": "memory_pct [%]"});
    add_table(
        &mut input,
        "t",
        json!({
            "from": "s", "rows": "batch", "columns": ["gpu_load", "gpu_memory_share"],
            "reference": {"file": "/somewhere/then.csv", "columns": columns, "label": {"en": "then"}},
        }),
    );
    let report = |charts: Value| {
        let section = json!({"table": "t", "charts": charts});
        run("report", json!({"languages": ["en"], "sections": [section]}), &input)
    };
    let out = report(json!([{"load": {"batch": 16}}, {"load": {"batch": 256}}])).expect("a report");
    let [small, large] = ["t-load", "t-load-2"].map(|name| text(&out, &format!("charts/{name}.svg")));
    for svg in [&small, &large] {
        for name in ["CPU use", "GPU utilisation", "Share of GPU memory", "GPU utilisation, then"] {
            assert!(svg.contains(name), "{name}: {svg}");
        }
    }
    let model: Value = serde_json::from_str(&text(&out, "report.json")).expect("JSON");
    let loads = &model["sections"][0]["loads"];
    assert_eq!(loads[0]["earlier"], json!([["gpu_load", 50.0], ["gpu_memory_share", 25.0]]));
    assert_eq!(loads[1]["lines"][2][1][0], json!([0.0, 75.0]));
    let wrong = report(json!([{"load": {"batch": 17}}])).expect_err("no such instance");
    assert_eq!(wrong, "`charts: {load: {batch: 17}}`: no instance of `s` is that");
}

#[test]
fn loss_curves_of_repetitions_are_their_mean_with_its_spread() {
    let (model, page) = repeated(4);
    let lines = model["sections"][0]["drawn"][0]["lines"].as_array().expect("lines");
    assert_eq!(lines.iter().map(|line| line["name"].as_str()).collect::<Vec<_>>(), [Some("lr=0.1"), Some("lr=0.2")]);
    let near = |value: &Value, expected: f64| (value.as_f64().expect("a number") - expected).abs() < 1e-9;
    assert!(near(&lines[0]["points"][0][1], 1.2) && near(&lines[0]["ends"][0][1], 1.1), "{lines:?}");
    assert!(near(&lines[0]["ends"][3][2], 0.55), "{lines:?}");
    let said = |page: &str, what: &str| page.contains(&format!("(charts/t-chart-1.svg)\\\n{what}"));
    assert!(said(&page, "Error bars: standard deviation."), "{page}");
    // With more epochs, error bars would be too dense.
    let page = repeated(20).1;
    assert!(said(&page, "Bands: standard deviation."), "{page}");
}

/// Two learning rates with three seeds each, over this many epochs: the model and the page.
fn repeated(epochs: u32) -> (Value, String) {
    let mut results = Vec::new();
    let mut series = Vec::new();
    for lr in [0.1, 0.2] {
        for seed in 0..3 {
            results.push(result("s", &[("lr", json!(lr)), ("seed", json!(seed))], 1).metric("top1", lr, "ratio"));
            let mut of = Series::default();
            let losses = (1..=epochs).map(|epoch| (epoch, 1.0 / f64::from(epoch) + lr + 0.1 * f64::from(seed)));
            of.metrics.insert("loss".into(), curve(&losses.collect::<Vec<_>>()));
            series.push(Some(of));
        }
    }
    let mut step = view("torch/train", None, results);
    step.series = series;
    let mut input = input(vec![("s", step)]);
    add_table(&mut input, "t", json!({"from": "s", "rows": "lr", "over": "seed", "columns": ["top1"]}));
    let section = json!({"table": "t", "charts": [{"column": "loss", "over": "epoch"}]});
    let out = run("report", json!({"languages": ["en"], "sections": [section]}), &input).expect("a report");
    let model = serde_json::from_str(&text(&out, "report.json")).expect("JSON");
    (model, whole(&out, "report.md"))
}

#[test]
fn earlier_figures_are_a_series_of_every_chart_of_their_column() {
    let results = [(16, 20.0), (32, 15.0), (64, 12.0)];
    let results = results.map(|(batch, time)| result("s", &[("batch", json!(batch))], 1).epoch_time(time));
    let mut input = input(vec![("s", view("torch/train", None, results.into()))]);
    input.files.insert("/somewhere/then.csv".into(), b"batch,epoch_time\n16,37\n64,19\n".to_vec());
    let reference = json!({"file": "/somewhere/then.csv", "label": {"en": "2021", "zh": "2021 年"}});
    add_table(
        &mut input,
        "t",
        json!({"from": "s", "rows": "batch", "columns": ["epoch_time"], "reference": reference}),
    );
    let section = json!({"table": "t", "charts": ["epoch_time"]});
    let out = run("report", json!({"languages": ["en", "zh"], "sections": [section]}), &input).expect("a report");
    for name in ["t-epoch_time", "t-chart-1"] {
        for (lang, named) in [("en", [">now<", ">2021<"]), ("zh", [">本次<", ">2021 年<"])] {
            let drawn = text(&out, &format!("charts/{name}.{lang}.svg"));
            assert!(named.iter().all(|name| drawn.contains(name)), "{drawn}");
            // Three current points, two earlier ones, and the one in the legend.
            assert_eq!(drawn.matches("fill=\"#ffffff\"").count(), 2, "{drawn}");
            assert_eq!(drawn.matches("<circle").count(), 3 + 2 * 2 + 1, "{drawn}");
        }
    }
}

/// The start of a PNG of 2 × 3 pixels, which is all that a report reads.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\0\x03 and what is in it";

/// A report with a picture from a step that kept these files.
fn pictured(picture: Value, files: &[(&str, &[u8])]) -> Result<BuiltinOutput, String> {
    let mut input = swept();
    let mut plot = view("torch/train", None, vec![result("plot", &[], 0).on_cpu()]);
    plot.files = vec![files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect()];
    input.steps.insert("plot".into(), plot);
    report(&input, json!({"pictures": [picture]}))
}

#[test]
fn a_picture_that_a_step_made_stands_in_the_report_and_in_the_page() {
    let title = json!({"en": "Confusion <matrix>", "zh": "混淆矩阵"});
    let out = pictured(json!({"from": "plot", "title": title}), &[("matrix", PNG)]).expect("a report");
    let shown = whole(&out, "report.md");
    assert!(shown.contains("![Confusion \\<matrix>](charts/t-picture-1.png)"), "{shown}");
    assert!(shown.contains("![混淆矩阵](charts/t-picture-1.png)"), "{shown}");
    assert_eq!(out.files["charts/t-picture-1.png"], PNG);
    let page = flow_report::Reports::new().page(|file| out.files.get(file).cloned(), None);
    let page = page.expect("a page").expect("a report");
    assert!(
        page.contains("<img alt=\"\" src=\"data:image/png;base64,iVBORw0KGg") && page.contains("混淆矩阵"),
        "{page}"
    );
}

#[test]
fn what_is_no_picture_is_refused() {
    let said = |picture: Value, files: &[(&str, &[u8])]| pictured(picture, files).expect_err("wrong");
    let from = || json!({"from": "plot"});
    let svg: &[u8] = b"<svg onload='alert(1)'></svg>";
    assert_eq!(
        said(from(), &[("plot", svg)]),
        "`pictures: {from: plot}`: its output is not a PNG, JPEG or WebP file, whatever its name; save it as one of these"
    );
    assert_eq!(
        said(from(), &[("a", PNG), ("b", PNG)]),
        "`pictures: {from: plot}`: it has several pictures, a, b; `output: NAME` says which one"
    );
    assert_eq!(
        said(from(), &[]),
        "`pictures: {from: plot}`: it has no such output that is a PNG, JPEG or WebP file of at most 4 MiB; `outputs: [plot.png]` keeps one"
    );
    assert!(pictured(json!({"from": "plot", "output": "b"}), &[("a", svg), ("b", PNG)]).is_ok());
}

#[test]
fn a_picture_that_no_reader_could_show_is_refused() {
    let png = |width: u32, height: u32| {
        [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &width.to_be_bytes(), &height.to_be_bytes()].concat()
    };
    let webp = |chunk: &[u8], rest: &[u8]| [&b"RIFF\x40\0\0\0WEBP"[..], chunk, &[40, 0, 0, 0], rest].concat();
    // A comment of two bytes, then the frame.
    let jpeg = |frame: &[u8]| [&b"\xff\xd8\xff\xfe\0\x04ab"[..], frame].concat();
    let frame = b"\xff\xc0\0\x11\x08\0\x10\0\x20\x03";
    let huge = b"\xff\xc2\0\x11\x08\xc3\x50\xc3\x50\x03";
    let fine = "";
    let broken = "the header of the picture is broken, so it cannot be shown";
    let large = "and a report shows up to 50 million; save a smaller one";
    let table: [(&str, Vec<u8>, &str); 11] = [
        ("PNG", png(800, 600), fine),
        ("PNG of 50 million", png(10_000, 5_000), fine),
        ("PNG of more", png(50_000, 50_000), large),
        ("PNG without width", png(0, 600), broken),
        ("PNG of text", b"\x89PNG\r\n\x1a\n and what is in it".to_vec(), broken),
        ("JPEG", jpeg(frame), fine),
        ("JPEG of more", jpeg(huge), large),
        ("JPEG of text", b"\xff\xd8\xff a text and no picture".to_vec(), broken),
        ("WebP with loss", webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a\x20\0\x10\0"), fine),
        ("WebP without loss", webp(b"VP8L", b"\x2f\x1f\xc0\x03\0\0"), fine),
        ("WebP of text", webp(b"VP8 ", b"a text and no picture"), broken),
    ];
    for (name, bytes, expected) in table {
        let said = pictured(json!({"from": "plot"}), &[("plot", &bytes)]).err().unwrap_or_default();
        assert!(said.ends_with(expected) && said.is_empty() == expected.is_empty(), "{name}: {said}");
    }
}
