//! Results with the figures of published pages, as the store would contain them.

use std::collections::BTreeMap;

use flow_core::{BuiltinInput, CorunGpus, Mode, Series, StepResult, StepView};
use serde_json::{Value, json};

use super::analyses::add;
use super::{With, add_table, curve, input, number, published, result, timed, view};

const GIB: u64 = 1 << 30;

/// A page: the results, and the parameters of its report.
pub(crate) struct Page {
    pub(crate) input: BuiltinInput,
    pub(crate) with: Value,
}

impl Page {
    fn new(mut input: BuiltinInput, title: [&str; 2], sections: Value) -> Page {
        let [en, zh] = title.map(str::to_owned);
        input.title = BTreeMap::from([("en".to_owned(), en), ("zh".to_owned(), zh)]);
        Page { input, with: json!({"languages": ["en", "zh"], "sections": sections}) }
    }
}

/// The result on a current machine with `host` CPUs, of which the step has `own`.
fn on(mut result: StepResult, model: &str, gpu: &str, [host, own]: [u32; 2]) -> StepResult {
    let gpus = result.usage.gpus.len();
    let seen = &mut result.circumstances;
    seen.gpu_models = vec![gpu.to_owned(); gpus];
    seen.gpu_memory_total = vec![140 * GIB; gpus];
    (seen.host_cpus, seen.cpus) = (host, own);
    seen.cpu_model = "Intel(R) Xeon(R) Processor".into();
    result.ended_at = result.started_at + 60_000;
    result.params.insert("model".into(), json!(model));
    result
}

fn file(input: &mut BuiltinInput, name: &str, text: &str) -> String {
    let path = format!("/published/{name}");
    input.files.insert(path.clone(), text.as_bytes().to_vec());
    path
}

/// resnet34 on one H200, by batch size.
pub(crate) fn feb07() -> Page {
    let rows = [
        (16, 2112.0, 10.12, 0.978, 0.980),
        (32, 2968.0, 8.09, 0.968, 0.977),
        (64, 4528.0, 6.65, 0.966, 0.975),
        (128, 8292.0, 6.16, 0.900, 0.970),
        (256, 14376.0, 5.87, 0.738, 0.968),
        (512, 29804.0, 5.70, 0.593, 0.964),
    ];
    let made = rows.map(|(batch, memory, time, top1, load)| {
        let of = result("train", &[("batch", json!(batch))], 1).noisy("epoch_time", time, "s", 0.01, 4);
        let of = of.metric("top1", top1, "ratio").gpu_memory(memory).gpu_load(load, 0.4).cpu_util(0.07);
        on(of, "resnet34", "NVIDIA H200", [16, 16])
    });
    let mut input = input(vec![("train", view("torch/train", None, made.to_vec()))]);
    let columns = json!(["gpus", "gpu_memory", "growth(gpu_memory)", "epoch_time", "growth(epoch_time)", "top1"]);
    add_table(&mut input, "table", json!({"from": "train", "rows": "batch", "columns": columns}));
    let question = json!({
        "en": "A larger batch pays as long as the time of an epoch falls faster than memory grows. Up to which batch size is that so?",
        "zh": "只要每轮用时的下降快过显存的增长，增大批大小就划算。这一点到多大的批大小为止成立？"});
    let title = ["One training over all there is: which batch size?", "一个训练任务使用全部资源：批大小取多少？"];
    Page::new(input, title, json!([{"table": "table", "notes": {"question": question}}]))
}

/// mobilenet_v2 on four H200 and 12 CPUs: v7 against v11, alone and three together.
pub(crate) fn feb08() -> Page {
    // Version, batch, GPUs, memory, then alone: CPU use, CPU time, epoch, top-1, load; together: epoch, CPU use, waiting.
    let rows = [
        ("v7", 32, 1, 4240.0, [0.4182, 133.6, 6.3277, 0.9788, 0.97], [7.3160, 0.312, 0.2]),
        ("v7", 64, 1, 7426.0, [0.4774, 131.4, 5.4487, 0.9783, 0.979], [6.6147, 0.340, 0.3]),
        ("v7", 128, 2, 7428.0, [0.8125, 128.2, 3.0117, 0.9750, 0.88], [6.5204, 0.345, 0.84]),
        ("v11", 32, 1, 4240.0, [0.1562, 51.8, 6.1870, 0.9903, 0.966], [6.2621, 0.146, 0.01]),
        ("v11", 64, 1, 7426.0, [0.1745, 50.8, 5.2779, 0.9863, 0.995], [5.2862, 0.161, 0.01]),
        ("v11", 128, 2, 7428.0, [0.3221, 51.3, 2.6857, 0.9888, 0.98], [2.7280, 0.310, 0.01]),
    ];
    let at = |step: &str, version: &str, batch: i32, gpus: usize| {
        result(step, &[("version", json!(version)), ("batch", json!(batch))], gpus)
    };
    let mut solo = Vec::new();
    let mut together = Vec::new();
    for (version, batch, gpus, memory, [cpu, cpu_time, epoch, top1, load], [all, cpu_all, waiting]) in rows {
        let of =
            at("solo", version, batch, gpus).noisy("epoch_time", epoch, "s", 0.01, 3).metric("top1", top1, "ratio");
        let waits = if version == "v7" && batch == 128 { 0.15 } else { 0.01 };
        let of = of.metric("data_wait", waits * epoch, "s").gpu_memory(memory).gpu_load(load, 0.4).cpu_util(cpu);
        let mut of = on(of, "mobilenet_v2", "NVIDIA H200", [12, 12]);
        of.usage.cpu_s = Some(cpu_time);
        solo.push(of);
        let of = at("together", version, batch, gpus).noisy("epoch_time", all, "s", 0.02, 3).cpu_util(cpu_all);
        let of = of.metric("data_wait", waiting * all, "s").gpu_load(0.8, 0.3).corun(version, CorunGpus::Own, 3, 3);
        together.push(on(of, "mobilenet_v2", "NVIDIA H200", [12, 12]));
    }
    let mut input = input(vec![
        ("solo", view("torch/train", None, solo)),
        ("together", view("torch/train", Some("solo"), together)),
    ]);
    let text = include_str!("../../../../workflows/published/feb08-mobilenet_v2-per-gpu.csv");
    let path = file(&mut input, "feb08-mobilenet_v2-per-gpu.csv", text);
    let columns = json!({"gpu_memory v7": "mem_per_gpu_mib [MiB]", "gpu_memory v11": "mem_per_gpu_mib [MiB]",
        "cpu_util v7": "cpu_util_v7_pct [%]", "cpu_util v11": "cpu_util_v11_pct [%]", "epoch_time v7": "epoch_v7_s",
        "epoch_time v11": "epoch_v11_s", "epoch_time together v7": "epoch_together_v7_s"});
    let reference = json!({"file": path, "columns": columns, "label": {"en": "published 2021", "zh": "2021 年发表"}});
    let shown = json!(["gpus", "gpu_memory", "cpu_util", "cpu_time", "epoch_time", "top1"]);
    let table = json!({"from": "solo", "rows": "batch", "split": "version", "columns": shown, "reference": reference});
    add_table(&mut input, "solo_table", table);
    let section = json!({"table": "solo_table", "corun": "together", "compare": "version",
        "title": {"en": "Dataset v7 against v11, one training alone and three together",
                  "zh": "数据集 v7 与 v11 的对比：单独训练与三个任务同时训练"},
        "notes": {"question": {
            "en": "What does it save to crop and resize once, for a training alone? And do three at once then run as fast as alone?",
            "zh": "裁剪、缩放只做一次，单独训练能节省什么？三个任务同时训练时，是否因此与单独训练一样快？"}}});
    let title =
        ["mobilenet_v2: batch size, and dataset v7 against v11", "mobilenet_v2：批大小，以及数据集 v7 与 v11 的对比"];
    Page::new(input, title, json!([section]))
}

/// mobilenet_v3_large on one H100: alone, and two on one GPU.
pub(crate) fn feb13() -> Page {
    let rows = [
        (16, 2138.0, 9.912, 0.124, 0.947, 0.182, 0.994),
        (32, 3212.0, 7.151, 0.162, 0.966, 0.325, 0.991),
        (64, 5370.0, 5.995, 0.188, 0.989, 0.487, 0.991),
        (128, 9810.0, 5.430, 0.199, 0.987, 0.584, 0.965),
    ];
    let gpu = |of| on(of, "mobilenet_v3_large", "NVIDIA H100 80GB HBM3", [16, 16]);
    let alone = |(batch, memory, time, cpu, load, traffic, top1): (i32, f64, f64, f64, f64, f64, f64)| {
        let of = result("solo", &[("batch", json!(batch))], 1).noisy("epoch_time", time, "s", 0.01, 4);
        let of = of.metric("data_wait", 0.001 * time, "s").metric("top1", top1, "ratio");
        gpu(of.gpu_memory(memory).gpu_load(load, traffic).cpu_util(cpu))
    };
    let pair = |batch: i32, time: f64, cpu: f64| {
        let of = result("pair", &[("batch", json!(batch))], 1).noisy("epoch_time", time, "s", 0.02, 4);
        let of = of.metric("data_wait", 0.001 * time, "s").gpu_load(1.0, 0.253).cpu_util(cpu);
        gpu(of.corun("pair", CorunGpus::Shared, 2, 4))
    };
    let again = |mut of: StepResult| {
        of.repetition = Some(1);
        of
    };
    let mut solo = view("torch/train", None, rows.map(alone).to_vec());
    solo.again = vec![
        again(alone((16, 2138.0, 9.87, 0.124, 0.947, 0.182, 0.994))),
        again(alone((32, 3212.0, 7.19, 0.162, 0.966, 0.325, 0.991))),
    ];
    let mut both = view("torch/train", Some("solo"), vec![pair(16, 21.15, 0.065), pair(32, 15.13, 0.081)]);
    both.again = vec![again(pair(16, 21.17, 0.065)), again(pair(32, 15.15, 0.081))];
    let mut input = input(vec![("solo", solo), ("pair", both)]);
    let path = file(
        &mut input,
        "feb13-mobilenet_v3_large-v11.csv",
        include_str!("../published/feb13-mobilenet_v3_large-v11.csv"),
    );
    let columns = json!({"gpu_memory": "mem_per_gpu_mib [MiB]", "cpu_util": "cpu_util_v11_pct [%]",
        "epoch_time": "epoch_s", "epoch_time together": "epoch_two_on_one_gpu_s"});
    let reference = json!({"file": path, "columns": columns, "label": {"en": "published 2021", "zh": "2021 年发表"}});
    let shown = json!([
        "gpus",
        "gpu_memory",
        "gpu_load",
        "gpu_memory_load",
        "cpu_util",
        "epoch_time",
        "growth(epoch_time)",
        "top1"
    ]);
    let table = json!({"from": "solo", "rows": "batch", "columns": shown, "reference": reference});
    add_table(&mut input, "solo_table", table);
    let section = json!({"table": "solo_table", "corun": "pair",
        "title": {"en": "One training alone, and two at once", "zh": "单独训练与两个任务同时运行"},
        "notes": {"question": {
            "en": "Do two trainings share one GPU without loss, when their memory together is less than the card's and the CPUs have time?",
            "zh": "两个训练任务的显存之和小于整卡显存、CPU 也有余量时，能否共用一块 GPU 而互不拖慢？"},
            "guess": {"resource": "gpu_memory_traffic", "en": "They queue for the video memory.", "zh": "两者在访问显存时相互排队。"}}});
    Page::new(
        input,
        ["mobilenet_v3_large: two trainings at once", "mobilenet_v3_large：两个训练任务同时运行"],
        json!([section]),
    )
}

/// Time of a step at every batch size from 1 to 70, with images on the device and over the link.
pub(crate) fn jumps() -> Page {
    let rows = published(include_str!("../published/jumps-1xH200.csv"));
    let mut sweep = StepView::default();
    for model in ["vgg16", "vgg19", "mobilenet_v1", "resnet50"] {
        for images in ["device", "link"] {
            let of = rows.iter().filter(|row| row["model"] == model);
            let times = of.filter_map(|row| {
                let batch: u32 = row["batch"].parse().ok()?;
                Some((batch, number(row, &format!("{images}_ms"))? / 1_000.0))
            });
            let times: Vec<(u32, f64)> = times.collect();
            let epochs: Vec<(u32, f64, f64)> =
                times.iter().map(|(n, _)| (*n, f64::from(*n), f64::from(*n) + 0.5)).collect();
            let metrics = BTreeMap::from([("step_time".to_owned(), curve(&times))]);
            let at = [("model", json!(model)), ("images", json!(images))];
            let of = on(result("sweep", &at, 1).metric("step_time", times[69].1, "s"), model, "NVIDIA H200", [16, 16]);
            let one = view("torch/profile", None, vec![of]);
            sweep.results.extend(one.results);
            sweep.files.extend(one.files);
            sweep.series.push(Some(Series { metrics, epoch_times: timed(&epochs), ..Series::default() }));
        }
    }
    for result in &mut sweep.results {
        result.params.remove("model");
    }
    sweep.uses = Some("torch/profile".into());
    let mut input = input(vec![("sweep", sweep)]);
    let columns = json!([{"column": "epoch", "label": {"en": "Batch size", "zh": "批大小"}},
        {"column": "step_time", "label": {"en": "Time of a step", "zh": "单步用时"}}]);
    let table = json!({"from": "sweep", "where": {"images": "device"}, "rows": ["model", "epoch"], "columns": columns});
    add_table(&mut input, "table", table);
    let both = json!({"from": "sweep", "rows": ["model", "epoch"], "split": "images", "columns": columns});
    add_table(&mut input, "both", both);
    add(&mut input, "fit", "line", json!({"table": "table", "y": "step_time"}));
    add(&mut input, "jumps", "jumps", json!({"table": "table", "y": "step_time", "multiple": 16}));
    add(&mut input, "jumps", "both_jumps", json!({"table": "both", "y": "step_time"}));
    let sections = json!([
        {"table": "table", "analyses": ["line", "jumps"],
         "title": {"en": "Images that are on the device already", "zh": "图像已在设备上"},
         "notes": {"question": {"en": "Is the time of a step linear in the batch size, and does it jump at multiples of 16?",
                                "zh": "单步用时与批大小是否成线性关系？在 16 的倍数处是否跳变？"}}},
        {"table": "both", "compare": "images", "analyses": ["both_jumps"],
         "title": {"en": "The same with images that each step fetches over the PCIe link", "zh": "每步经 PCIe 链路读取图像时的对比"},
         "notes": {"question": {"en": "Do the jumps come from the PCIe link?", "zh": "跳变是否来自 PCIe 链路？"}}}]);
    let title = [
        "Time of a training step at every batch size: where does it jump?",
        "批大小逐一变化时的单步训练用时：何处跳变？",
    ];
    Page::new(input, title, sections)
}

/// Fine-tuning on one H200: several batch sizes, and GPU against CPU.
pub(crate) fn bird() -> Page {
    // Batch, memory, load, CPU use, epoch time, losses, error rate.
    let rows = [
        (16, 2212.0, 0.983, 0.063, 9.26, [0.023598, 0.01585, 0.0050]),
        (32, 3120.0, 0.976, 0.070, 7.42, [0.012118, 0.01131, 0.0036]),
        (64, 4826.0, 0.975, 0.082, 6.12, [0.009501, 0.01093, 0.0036]),
        (128, 8810.0, 0.974, 0.079, 5.69, [0.013275, 0.01505, 0.0045]),
        (256, 15296.0, 0.963, 0.081, 5.41, [0.019215, 0.01971, 0.0055]),
    ];
    let learned = |of: StepResult, [train, valid, error]: [f64; 3]| {
        of.metric("train_loss", train, "").metric("valid_loss", valid, "").metric("error_rate", error, "ratio")
    };
    let tune = rows.map(|(batch, memory, load, cpu, time, last)| {
        let of = result("tune", &[("batch", json!(batch))], 1).noisy("epoch_time", time, "s", 0.005, 3);
        on(learned(of, last).gpu_memory(memory).gpu_load(load, 0.4).cpu_util(cpu), "resnet34", "NVIDIA H200", [16, 16])
    });
    // Device, GPUs, the times of the frozen epoch and of the next, and the metrics that both learned.
    let devices = [
        ("gpu", 1, [2.44, 6.12], [[0.13755, 0.02538, 0.0068], [0.02837, 0.01811, 0.0050]]),
        ("cpu", 0, [105.0, 239.68], [[0.13761, 0.02558, 0.0068], [0.02846, 0.01818, 0.0050]]),
    ];
    let mut steps = view("torch/train", None, Vec::new());
    for (device, gpus, times, [first, last]) in devices {
        let of = result("devices", &[("device", json!(device)), ("batch", json!(64))], gpus);
        let of =
            learned(of.noisy("epoch_time", times[1], "s", 0.0, 1), last).cpu_util(if gpus > 0 { 0.08 } else { 0.98 });
        let of = if gpus > 0 { of.gpu_load(0.962, 0.4) } else { of };
        steps.results.push(on(of, "resnet34", "NVIDIA H200", [16, 16]));
        steps.files.push(BTreeMap::new());
        let both = |at: usize| curve(&[(1, first[at]), (2, last[at])]);
        let mut metrics = BTreeMap::from([
            ("train_loss".to_owned(), both(0)),
            ("valid_loss".to_owned(), both(1)),
            ("error_rate".to_owned(), both(2)),
        ]);
        metrics.insert("epoch_time".to_owned(), curve(&[(1, times[0]), (2, times[1])]));
        let epoch_times = timed(&[(1, 0.0, times[0]), (2, times[0], times[0] + times[1])]);
        steps.series.push(Some(Series { metrics, epoch_times, ..Series::default() }));
    }
    let mut input = input(vec![("tune", view("torch/train", None, tune.to_vec())), ("devices", steps)]);
    let label = json!({"en": "published", "zh": "已发表"});
    let path = file(&mut input, "bird-batches.csv", include_str!("../../../../workflows/published/bird-batches.csv"));
    let columns = json!({"epoch_time": "time_s", "gpu_load": "gpu_load_pct [%]", "error_rate": "error_rate [ratio]"});
    let reference = json!({"file": path, "columns": columns, "label": label});
    let shown = json!(["epoch_time", "gpu_load", "gpu_memory", "cpu_util", "train_loss", "valid_loss", "error_rate"]);
    add_table(
        &mut input,
        "by_batch",
        json!({"from": "tune", "rows": "batch", "columns": shown, "reference": reference}),
    );
    let path = file(&mut input, "bird-epochs.csv", include_str!("../../../../workflows/published/bird-epochs.csv"));
    let columns = json!({"epoch": "epoch_with_frozen", "epoch_time": "time_s", "error_rate": "error_rate [ratio]"});
    let reference = json!({"file": path, "columns": columns, "label": label});
    let shown = json!(["train_loss", "valid_loss", "error_rate", "epoch_time"]);
    add_table(
        &mut input,
        "by_device",
        json!({"from": "devices", "rows": ["batch", "epoch"], "split": "device", "columns": shown, "reference": reference}),
    );
    let sections = json!([
        {"table": "by_batch", "title": {"en": "Which batch size", "zh": "批大小的选择"},
         "notes": {"question": {"en": "Does a larger batch use the GPU better, and is an epoch shorter for it?",
                                "zh": "批大小增大后，GPU 的利用率是否更高，每轮用时是否更短？"}}},
        {"table": "by_device", "compare": "device", "title": {"en": "On the GPU, and on the CPUs alone", "zh": "用 GPU 与只用 CPU 的对比"},
         "notes": {"question": {"en": "How much longer does an epoch take on the CPUs, and do both learn the same?",
                                "zh": "只用 CPU 时，每轮用时增加多少？两者的训练效果是否相同？"}}}]);
    let title =
        ["Fine-tuning a classifier: which batch size, and on which device", "微调图像分类器：批大小与计算设备的选择"];
    Page::new(input, title, sections)
}

/// A training, its batch size, its durations alone and packed, and its epoch time and load alone.
type Packing = (&'static str, i32, [f64; 2], [f64; 2]);

/// Twelve trainings on one H200, alone and packed.
pub(crate) fn packing() -> Page {
    let rows = [
        ("mobilenet_v2", 16, [8.101, 14.068], [0.37, 0.935]),
        ("mobilenet_v2", 32, [6.550, 8.754], [0.22, 0.707]),
        ("mobilenet_v2", 64, [6.021, 7.120], [0.15, 0.658]),
        ("mobilenet_v3_large", 16, [9.541, 15.978], [0.42, 0.856]),
        ("mobilenet_v3_large", 32, [8.114, 14.404], [0.25, 0.837]),
        ("mobilenet_v3_large", 64, [7.887, 12.205], [0.17, 0.789]),
        ("resnet18", 16, [4.500, 5.798], [0.33, 0.909]),
        ("resnet18", 32, [3.308, 4.620], [0.22, 0.852]),
        ("resnet18", 64, [2.972, 4.176], [0.16, 0.625]),
        ("resnet34", 16, [7.376, 9.807], [0.60, 0.859]),
        ("resnet34", 32, [5.254, 6.530], [0.39, 0.911]),
        ("resnet34", 64, [4.061, 5.000], [0.26, 0.830]),
    ];
    let of = |step: &str, at: usize| -> Vec<StepResult> {
        let make = |(n, (model, batch, walls, [epoch, load])): (usize, Packing)| {
            let of = result(step, &[("model", json!(model)), ("batch", json!(batch))], 1);
            let slower = walls[at] / walls[0];
            let of =
                of.noisy("epoch_time", epoch * slower, "s", 0.002, 7).gpu_load(if at == 0 { load } else { 0.97 }, 0.2);
            let mut of = on(of.gpu_memory(1144.0 + 30.0 * n as f64), model, "NVIDIA H200", [16, 1]);
            of.params.remove("model");
            of.usage.wall_s = Some(walls[at]);
            of.ended_at = of.started_at + 8_000;
            of
        };
        rows.into_iter().enumerate().map(make).collect()
    };
    let mut packed = of("packed", 1);
    for (n, result) in packed.iter_mut().enumerate() {
        result.circumstances.mode = Mode::Plain;
        result.circumstances.corunners = vec!["packed[model=resnet18,batch=16]".into()];
        result.circumstances.gpu_shared = Some(0.8);
        result.ended_at = result.started_at + 36_100 * (n as u64 + 1) / 12;
    }
    let mut input = input(vec![
        ("alone", view("torch/train", None, of("alone", 0))),
        ("packed", view("torch/train", Some("alone"), packed)),
    ]);
    for step in ["packed", "alone"] {
        add_table(
            &mut input,
            &format!("{step}_table"),
            json!({"from": step, "columns": ["epoch_time", "gpu_load", "gpu_memory"]}),
        );
    }
    let sections = json!([
        {"table": "packed_table", "title": {"en": "Packed: several at once, as flow finds room", "zh": "同卡混部：由 flow 安排若干任务同时运行"},
         "notes": {"question": {"en": "How much sooner are all done than one after another, and how much slower is each?",
                                "zh": "与串行执行相比，全部完成能提前多少？各任务又会慢多少？"}}},
        {"table": "alone_table", "title": {"en": "Each alone", "zh": "各任务单独运行"}}]);
    Page::new(
        input,
        ["Twelve trainings: one after another, or packed", "十二个训练任务：串行执行还是同卡混部"],
        sections,
    )
}
