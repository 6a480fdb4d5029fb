//! Analyses of tables: published and made-up figures, the sentences in both languages, and the tables that support
//! them.

use crate::common::analyses::{add, metric, reported, said};
use crate::common::{ResultExt, add_table, bullets, input, number, published, result, text, view};
use flow_core::BuiltinInput;
use serde_json::json;

/// Published epoch times, converted to times of iterations, by batch size and model.
fn iterations() -> BuiltinInput {
    let rows = published(include_str!("published/epoch-by-batch.csv"));
    let of = |model: &str| {
        let column = format!("{model}_s");
        let results = rows.iter().rev().filter_map(move |row| {
            let batch: f64 = number(row, "batch")?;
            let axes = [("model", json!(model)), ("batch", json!(batch as u32))];
            Some(result("s", &axes, 1).metric("iteration_time", number(row, &column)? * batch / 60_000.0, "s"))
        });
        results.collect::<Vec<_>>()
    };
    let results = ["alexnet", "resnet18", "vgg16"].map(of).concat();
    let mut input = input(vec![("s", view("torch/train", None, results))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": ["model", "batch"], "columns": ["iteration_time"]}));
    input
}

#[test]
fn published_iteration_times_bend_and_no_parabola_says_it() {
    let mut input = iterations();
    let out = add(&mut input, "fit", "line", json!({"table": "t", "y": "iteration_time"}));
    assert!(metric(&out, "r2") > 0.99 && !out.metrics.contains_key("slope"), "there are three curves");
    let [english, chinese] = said(&input, &["line"]);
    assert!(english.contains("resnet18: Iteration time bends at batch size 18.5"), "{english}");
    assert!(
        english.contains("alexnet: Iteration time bends at batch size 25: per unit of batch size it changes by 0.151 ± 0.018 ms before"),
        "{english}"
    );
    assert!(chinese.contains("18.5 处转折"), "{chinese}");
}

#[test]
fn epoch_times_are_a_cost_of_images_and_one_of_iterations() {
    // Made up: 2 s for the images, 40 ms per iteration over 10,000 images in batches, and 2% of noise.
    let noise = [0.01, -0.02, 0.02, 0.0, -0.01, 0.02, -0.02, 0.01, 0.0, -0.01];
    let made_up = (0..10).map(|n| {
        let batch = 1_u32 << n;
        let time = (2.0 + 400.0 / f64::from(batch)) * (1.0 + noise[n as usize]);
        result("s", &[("model", json!("made_up")), ("batch", json!(batch))], 1).epoch_time(time)
    });
    let of_published = published(include_str!("published/epoch-by-batch.csv")).into_iter().filter_map(|row| {
        let batch = number(&row, "batch")? as u32;
        let axes = [("model", json!("resnet18")), ("batch", json!(batch))];
        Some(result("s", &axes, 1).epoch_time(number(&row, "resnet18_s")?))
    });
    let mut input = input(vec![("s", view("torch/train", None, made_up.chain(of_published).collect()))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": ["model", "batch"], "columns": ["epoch_time"]}));
    add(&mut input, "fit", "line", json!({"table": "t", "y": "epoch_time"}));
    let both = said(&input, &["line"]).map(|said| {
        let of_fit = |line: &&str| line.contains("R²");
        said.lines().filter(of_fit).collect::<Vec<_>>().join("\n")
    });
    insta::assert_snapshot!(both.join("\n"), @r"
    - made_up: Epoch time is 1.985 ± 0.076 s + 400.7 ± 6.2 s / batch size: one part is constant, the other is divided by batch size. R² is 0.999775 over 10 points; the largest error is 2.2%. A straight line is not enough: its AICc is 77.4 above the minimum.
    - resnet18: Epoch time is 8.6 ± 4.3 s + 707 ± 12 s / batch size: one part is constant, the other is divided by batch size. R² is 0.999583 over 10 points; the largest error is 35.8%. A straight line is not enough: its AICc is 76.1 above the minimum.
    - made_up：每轮用时 = 1.985 ± 0.076 s + 400.7 ± 6.2 s / 批大小：一部分固定，另一部分与批大小成反比。R² 为 0.999775，共 10 个点，最大偏差为 2.2%。线性拟合不足：其 AICc 比最优模型高 77.4。
    - resnet18：每轮用时 = 8.6 ± 4.3 s + 707 ± 12 s / 批大小：一部分固定，另一部分与批大小成反比。R² 为 0.999583，共 10 个点，最大偏差为 35.8%。线性拟合不足：其 AICc 比最优模型高 76.1。
    ");
}

#[test]
fn a_line_is_told_with_its_interval_and_handed_on() {
    // 85 W, 0.12 W for each unit of work, and a little noise.
    let noise = [0.3, -0.5, 0.1, 0.4, -0.2, -0.4, 0.5, 0.0, -0.3, 0.2];
    let results = (0..10).map(|n| {
        let work = 50.0 * f64::from(n + 1);
        let power = 85.0 + 0.12 * work + noise[n as usize];
        result("s", &[("batch", json!(n + 1))], 1).metric("work", work, "GMAC").metric("power", power, "W")
    });
    let mut input = input(vec![("s", view("torch/train", None, results.collect()))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": "batch", "columns": ["work", "power"]}));
    let out = add(&mut input, "fit", "line", json!({"table": "t", "y": "power", "x": "work"}));
    assert!((metric(&out, "slope") - 0.12).abs() < 0.002 && (metric(&out, "intercept") - 85.0).abs() < 0.7);
    let [english, chinese] = said(&input, &["line"]);
    assert!(english.contains("power rises by 0.1") && english.contains("a parabola adds nothing"), "{english}");
    assert!(chinese.contains("增加 0.1") && chinese.contains("直线已足够"), "{chinese}");
}

#[test]
fn jumps_stand_out_and_models_are_compared_by_their_fluctuation() {
    let noise = |n: usize| ((n * 7919 % 101) as f64 / 50.0 - 1.0) * 0.7;
    let of = |model: &str, jump: f64, wild: f64| {
        let model = model.to_owned();
        (1..=70_usize).map(move |batch| {
            let time = 20.0 + 1.5 * batch as f64 + jump * ((batch - 1) / 16) as f64 + wild * noise(batch);
            let axes = [("model", json!(model)), ("batch", json!(batch))];
            result("s", &axes, 1).metric("iteration_time", time / 1000.0, "s")
        })
    };
    let results = of("vgg16", 12.0, 1.0).chain(of("mobilenet", 0.0, 8.0)).collect();
    let mut input = input(vec![("s", view("torch/train", None, results))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": ["model", "batch"], "columns": ["iteration_time"]}));
    let out = add(&mut input, "jumps", "jumps", json!({"table": "t", "y": "iteration_time"}));
    assert_eq!(metric(&out, "jumps"), 4.0);
    assert!(
        text(&out, "analysis.en.md").contains("Jumps of iteration time along batch size"),
        "no capital in the middle"
    );
    let [english, chinese] = said(&input, &["jumps"]);
    assert!(english.contains("vgg16: Iteration time jumps up at batch size 17 (+14.1 ms), 33 (+12.7 ms)"), "{english}");
    assert!(english.contains("at the multiples of 16") && english.contains("No jump of iteration time"), "{english}");
    assert!(chinese.contains("均位于 16 的倍数处") && chinese.contains("的相对波动存在显著差异"), "{chinese}");
    assert!(english.contains("differs (Brown–Forsythe test, p < 0.0001): from") && english.contains("(mobilenet)."));

    // The same noise at other places differs only by chance.
    let shifted = |model: &str, by: usize| {
        let model = model.to_owned();
        (1..=70_usize).map(move |batch| {
            let axes = [("model", json!(model)), ("batch", json!(batch))];
            let time = 20.0 + 1.5 * batch as f64 + noise(batch + by);
            result("s", &axes, 1).metric("iteration_time", time / 1000.0, "s")
        })
    };
    let results = shifted("vgg16", 0).chain(shifted("vgg19", 31)).chain(shifted("mobilenet", 57)).collect();
    input.steps.insert("s".into(), view("torch/train", None, results));
    add_table(&mut input, "t", json!({"from": "s", "rows": ["model", "batch"], "columns": ["iteration_time"]}));
    add(&mut input, "jumps", "jumps", json!({"table": "t", "y": "iteration_time"}));
    let [english, chinese] = said(&input, &["jumps"]);
    assert!(english.contains("does not differ significantly (Brown–Forsythe test, p = 0."), "{english}");
    assert!(chinese.contains("没有显著差异"), "{chinese}");
}

/// The two sweeps differ by a few tenths of a percent, and jump at the same places except one.
#[test]
fn two_sweeps_side_by_side_are_compared_point_by_point_and_jump_by_jump() {
    let noise = |n: usize| ((n * 7919 % 101) as f64 / 50.0 - 1.0) * 0.1;
    let results = ["device", "link"].into_iter().flat_map(|images| {
        (1..=60_usize).map(move |batch| {
            let more = if images == "link" { 1.004 + 0.001 * (batch % 3) as f64 } else { 1.0 };
            let jumps = usize::from(batch > 24) + usize::from(batch > 41) + usize::from(images == "link" && batch > 50);
            let time = (20.0 + 1.5 * batch as f64 + noise(batch)) * more + 9.0 * jumps as f64;
            let axes = [("images", json!(images)), ("batch", json!(batch))];
            result("s", &axes, 1).metric("iteration_time", time / 1000.0, "s")
        })
    });
    let mut input = input(vec![("s", view("torch/train", None, results.collect()))]);
    let with = json!({"from": "s", "rows": ["batch"], "split": "images", "columns": ["iteration_time"]});
    add_table(&mut input, "t", with);
    let out = add(&mut input, "jumps", "jumps", json!({"table": "t", "y": "iteration_time"}));
    assert_eq!([metric(&out, "jumps"), metric(&out, "difference_jumps")], [5.0, 1.0]);
    let [english, chinese] = said(&input, &["jumps"]);
    let told = "The difference of iteration time between device and link jumps at 1 place along batch size.";
    assert!(english.contains(told), "{english}");
    assert!(chinese.contains("每次迭代用时在 device 与 link 之间的差值随批大小有 1 处跳变。"), "{chinese}");
}

#[test]
fn points_off_the_curve_are_a_fall_and_a_rise() {
    let noise = |n: usize| ((n * 7919 % 101) as f64 / 50.0 - 1.0) * 0.3;
    let results = (1..=40_usize).map(|batch| {
        let off = if matches!(batch, 32 | 20 | 21) { -6.0 } else { 0.0 };
        let time = 20.0 + 1.5 * batch as f64 + off + noise(batch);
        result("s", &[("batch", json!(batch))], 1).metric("iteration_time", time / 1000.0, "s")
    });
    let mut input = input(vec![("s", view("torch/train", None, results.collect()))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": ["batch"], "columns": ["iteration_time"]}));
    let out = add(&mut input, "jumps", "jumps", json!({"table": "t", "y": "iteration_time", "multiple": 8}));
    assert_eq!(metric(&out, "jumps"), 4.0);
    assert!(text(&out, "analysis.en.md").contains("| 19 → 20 "));
    let [english, chinese] = said(&input, &["jumps"]);
    let told =
        "Iteration time falls at batch size 20 (−4.9 ms) and 32 (−4.3 ms), and rises at 22 (+7.7 ms) and 33 (+7.1 ms).";
    assert!(english.contains(told), "{english}");
    assert!(chinese.contains("的下降位于批大小 20（−4.9 ms）和 32（−4.3 ms）"), "{chinese}");
    // Five of 39 differences lead to a multiple of 8: 1 − (34/39)² is 0.24.
    let told = "Falls to multiples of 8 are not more frequent than by chance: 1 of 2, against 0.3 by chance (p = 0.24, if all were independent).";
    assert!(english.contains(told), "{english}");
}

#[test]
fn a_line_with_jumps_is_told_no_bend_and_jumps_elsewhere_than_at_multiples_are_said_to_be() {
    let of = |places: &[usize]| {
        let noise = |n: usize| ((n * 7919 % 101) as f64 / 50.0 - 1.0) * 0.05;
        let results = (1..=60_usize).map(|n| {
            let jumps = places.iter().filter(|place| n > **place).count();
            let time = 2.0 + 0.5 * n as f64 + 4.0 * jumps as f64 + noise(n);
            result("s", &[("n", json!(n))], 1).metric("iteration_time", time, "s")
        });
        let mut input = input(vec![("s", view("torch/train", None, results.collect()))]);
        add_table(&mut input, "t", json!({"from": "s", "rows": ["n"], "columns": ["iteration_time"]}));
        add(&mut input, "fit", "line", json!({"table": "t", "y": "iteration_time"}));
        add(&mut input, "jumps", "jumps", json!({"table": "t", "y": "iteration_time"}));
        reported(&input, &["line", "jumps"])
    };
    let said = |places: &[usize]| bullets(&of(places)).map(|bullets| bullets.join("\n"));
    let [english, chinese] = said(&[16, 32, 48]);
    assert!(!english.contains("bends") && !chinese.contains("转折"), "{english}\n{chinese}");
    assert!(english.contains("Without the jumps, a straight line suffices"), "{english}");
    assert!(chinese.contains("去除跳变后，直线即已足够"), "{chinese}");
    // The table contains the curve of that sentence: its line rises by 0.5.
    let report = of(&[16, 32, 48]);
    for title in ["| without its jumps, line: a + b x", "| 去除跳变后，直线：a + b x"] {
        let row = report.lines().find(|line| line.contains(title));
        assert!(row.is_some_and(|row| row.contains("b = 0.49996 ± 0.00043")), "{report}");
    }
    assert!(english.contains("at the multiples of 16"), "{english}");
    // Any two places are multiples of some number.
    for places in [&[7, 29, 50][..], &[16, 32]] {
        let [english, chinese] = said(places);
        assert!(english.contains("jumps up at n") && !english.contains("at the multiples"), "{english}");
        assert!(chinese.contains("的上升位于") && !chinese.contains("的倍数处"), "{chinese}");
    }
}

#[test]
fn slopes_and_heights_of_percentages_are_in_points_and_levels_in_per_cent() {
    let of = |accuracies: &[f64]| {
        let of = accuracies.iter().enumerate();
        let of = of.map(|(x, acc)| result("s", &[("x", json!(x + 1))], 1).metric("acc", *acc, "ratio"));
        let mut input = input(vec![("s", view("torch/train", None, of.collect()))]);
        add_table(&mut input, "t", json!({"from": "s", "rows": "x", "columns": ["acc"]}));
        input
    };
    let mut line = of(&[0.501, 0.519, 0.542, 0.559, 0.581]);
    add(&mut line, "fit", "fit", json!({"table": "t", "y": "acc"}));
    let [english, chinese] = said(&line, &["fit"]);
    let told = "acc rises by 2.00 ± 0.16 points per unit of x; the intercept is 48.04 ± 0.52%.";
    assert!(english.contains(told), "{english}");
    let told = "x 每增加一个单位，acc 增加 2.00 ± 0.16 个百分点；截距为 48.04 ± 0.52%。";
    assert!(chinese.contains(told), "{chinese}");

    let noise = |n: usize| ((n * 7919 % 101) as f64 / 50.0 - 1.0) * 0.05;
    let stairs = |n: u8| 0.4 + if n > 16 { 0.1 } else { 0.0 } + noise(n.into()) / 100.0;
    let mut stairs = of(&(1..=40).map(stairs).collect::<Vec<_>>());
    add(&mut stairs, "jumps", "jumps", json!({"table": "t", "y": "acc"}));
    let report = reported(&stairs, &["jumps"]);
    let [english, chinese] = bullets(&report).map(|bullets| bullets.join("\n"));
    assert!(english.contains("acc jumps up at x 17 (+10.0 points)"), "{english}");
    assert!(chinese.contains(" 个百分点）"), "{chinese}");
    assert!(report.contains(" points |") && report.contains(" 个百分点 |"), "{report}");
    assert!(!english.contains("%)"), "{report}");
}

#[test]
fn one_point_is_too_few() {
    let one = vec![result("s", &[("x", json!(1))], 1).metric("q", 7.5, "")];
    let mut input = input(vec![("s", view("torch/train", None, one))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": "x", "columns": ["q"]}));
    add(&mut input, "fit", "fit", json!({"table": "t", "y": "q"}));
    add(&mut input, "jumps", "jumps", json!({"table": "t", "y": "q"}));
    let [english, _] = said(&input, &["fit", "jumps"]);
    assert!(english.contains("1 point is too few to choose a curve of q over x."), "{english}");
    assert!(english.contains("1 point is too few to detect jumps of q along x."), "{english}");
}

#[test]
fn power_that_rises_with_every_batch_size_follows_from_it() {
    // Power of resnet18 in W, as measured on an H200; then stairs, which no curve resembles.
    let power = [242.0, 293.0, 372.0, 430.0, 483.0, 530.0, 561.0, 596.0, 604.0, 614.0];
    let results = (0..10).map(|n| {
        let step = [1.0, 2.0, 3.0, 400.0, 410.0, 420.0, 430.0, 440.0, 450.0, 3000.0][n as usize];
        result("s", &[("batch", json!(1 << n))], 1).metric("power", power[n as usize], "W").metric("steps", step, "")
    });
    let mut input = input(vec![("s", view("torch/train", None, results.collect()))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": "batch", "columns": ["power", "steps"]}));
    let out = add(&mut input, "fit", "line", json!({"table": "t", "y": "power"}));
    assert!(metric(&out, "r2") > 0.99 && metric(&out, "line_r2") < 0.5);
    add(&mut input, "fit", "other", json!({"table": "t", "y": "steps"}));
    let [english, chinese] = said(&input, &["line", "other"]);
    let saturates =
        "rises with batch size and saturates: from 192 ± 18 W by 417 ± 25 W in total, half of it at batch size 6.3.";
    assert!(english.contains(saturates), "{english}");
    assert!(english.contains("steps rises with batch size from each point to the next, but no"), "{english}");
    assert!(chinese.contains("上升并趋于饱和") && chinese.contains("都不合其形状"), "{chinese}");
}

#[test]
fn noise_and_constants_depend_on_nothing() {
    // The hyperbola is chosen for this noise, with a `b` that cannot be distinguished from 0.
    let noise = [100.9, 99.2, 100.4, 99.7, 100.1, 99.6, 100.3, 99.9, 100.2, 99.8];
    let results = (0..10).map(|n| {
        let one = result("s", &[("batch", json!(n + 1))], 1).metric("noise", noise[n], "");
        one.metric("same", 7.0, "")
    });
    let mut input = input(vec![("s", view("torch/train", None, results.collect()))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": "batch", "columns": ["noise", "same"]}));
    add(&mut input, "fit", "of_noise", json!({"table": "t", "y": "noise"}));
    add(&mut input, "fit", "of_same", json!({"table": "t", "y": "same"}));
    let [english, chinese] = said(&input, &["of_noise", "of_same"]);
    assert!(english.contains("noise neither rises nor falls significantly with batch size"), "{english}");
    assert!(english.contains("same is the same at all 10 points."), "{english}");
    assert!(chinese.contains("在全部 10 个点上都相同"), "{chinese}");
    let report = reported(&input, &["of_noise"]);
    assert!(
        !report.contains('✓') && report.contains("If no slope differs from 0 significantly, no curve is chosen"),
        "{report}"
    );
}

#[test]
fn what_ran_on_two_gpus_is_on_no_curve_with_what_ran_on_one() {
    let results = (0..12).map(|n| {
        let (gpus, batch) = (1 + n / 6, 8 * (n + 1));
        let one = result("s", &[("batch", json!(batch))], gpus);
        one.metric("loss", (gpus * (100 + batch)) as f64, "")
    });
    let mut input = input(vec![("s", view("torch/train", None, results.collect()))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": "batch", "columns": ["loss"]}));
    add(&mut input, "fit", "line", json!({"table": "t", "y": "loss"}));
    let [english, _] = said(&input, &["line"]);
    assert!(english.contains("gpus=1: loss rises by 1.00"), "{english}");
    assert!(english.contains("gpus=2: loss rises by 2.00"), "{english}");
}

#[test]
fn points_on_no_curve_are_not_called_proportional() {
    // Epoch times of six networks over their work, as measured on one GPU. The speed differs between models.
    let points = [(27.27, 0.49), (69.64, 1.28), (156.95, 4.03), (57.5, 1.77), (108.79, 4.13), (593.9, 6.6)];
    let models = ["alexnet", "resnet18", "resnet50", "googlenet", "densenet121", "vgg16"];
    let results = models.iter().zip(points).map(|(model, (work, time))| {
        result("s", &[("model", json!(model))], 1).metric("work", work, "").metric("time", time, "s")
    });
    let mut input = input(vec![("s", view("torch/train", None, results.collect()))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": "model", "columns": ["work", "time"]}));
    add(&mut input, "fit", "line", json!({"table": "t", "y": "time", "x": "work"}));
    let [english, chinese] = said(&input, &["line"]);
    assert!(english.contains("does not follow from work alone: the chosen curve has R² = 0.2"), "{english}");
    assert!(!english.contains("proportional") && !english.contains("suffices"), "{english}");
    assert!(chinese.contains("还有噪声或其他因素"), "{chinese}");
}

#[test]
fn what_few_points_take_for_proportional_has_the_intercept_that_they_leave_possible() {
    let of = |points: &[(u32, f64)]| {
        let results =
            points.iter().map(|(x, y)| result("s", &[("n", json!(x))], 1).on_cpu().metric("pages", *y, "MiB"));
        let mut input = input(vec![("s", view("torch/train", None, results.collect()))]);
        add_table(&mut input, "t", json!({"from": "s", "rows": "n", "columns": ["pages"]}));
        add(&mut input, "fit", "line", json!({"table": "t", "y": "pages"}));
        let report = reported(&input, &["line"]);
        let both = bullets(&report).map(|bullets| bullets.join("\n"));
        both.join("\n")
    };
    let exact: Vec<(u32, f64)> = (1..=5).map(|n| (n, 3.0 * f64::from(n))).collect();
    let scattered = [(1, 3.3), (2, 5.7), (3, 9.6), (4, 11.4), (5, 15.3)];
    insta::assert_snapshot!([of(&scattered), of(&exact)].join("\n\n"), @r"
    - pages is proportional to n: 3.01 ± 0.19 MiB per unit. The intercept of a line, 0.2 ± 1.9 MiB, does not differ from 0 over 5 points. R² is 0.9890 over 5 points; the largest error is 8.8%. A straight line suffices: a parabola adds nothing (F-test, p = 0.75).
    - 就 5 个点而言，pages 与 n 成正比（直线的截距 0.2 ± 1.9 MiB 与 0 无显著差异）：每单位 3.01 ± 0.19 MiB。R² 为 0.9890，共 5 个点，最大偏差为 8.8%。直线已足够：二次项没有贡献（F 检验，p = 0.75）。

    - pages is proportional to n: 3 ± 0 MiB per unit. R² is 1.000 over 5 points; the largest error is 0.0%. A straight line suffices: a parabola adds nothing (F-test, p = 1.00).
    - pages 与 n 成正比：每单位 3 ± 0 MiB。R² 为 1.000，共 5 个点，最大偏差为 0.0%。直线已足够：二次项没有贡献（F 检验，p = 1.00）。
    ");
}

#[test]
fn what_four_points_do_not_tell_is_not_told() {
    // Epoch times of two networks, as measured on two cores with foreign load.
    let times = [("alexnet", [59.77, 23.21, 6.84, 3.42]), ("resnet18", [23.81, 14.36, 6.90, 3.23])];
    let results = times.into_iter().flat_map(|(model, times)| {
        times.into_iter().zip([1, 4, 16, 64]).map(move |(time, batch)| {
            result("s", &[("model", json!(model)), ("batch", json!(batch))], 1).epoch_time(time)
        })
    });
    let mut input = input(vec![("s", view("torch/train", None, results.collect()))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": ["model", "batch"], "columns": ["epoch_time"]}));
    let out = add(&mut input, "fit", "line", json!({"table": "t", "y": "epoch_time"}));
    let shown = text(&out, "analysis.en.md");
    let above = |curve: &str| {
        let row = shown.lines().find(|line| line.contains(curve)).expect("a row");
        row.split('|').nth(8).unwrap_or_default().trim().to_owned()
    };
    assert_eq!(["line through 0", "hyperbola"].map(above), ["—", "0.0"], "{shown}");
    let [english, chinese] = said(&input, &["line"]);
    // A point that deviates by more than half of its value is not on the curve.
    let far = "resnet18: No compared curve fits epoch time over batch size: the best, a hyperbola: a + b / x, \
               is off by up to 88.4%.";
    assert!(english.contains(far), "{english}");
    assert!(chinese.contains("不符合所比较的任何曲线") && chinese.contains("88.4%"), "{chinese}");
}
