//! The head of a report: the hardware and the repository of the measurements, without any folder of the machine.

use crate::common::{ResultExt, add_table, feb08, input, result, run, text, view};
use flow_core::reason::Disturbance;
use flow_core::{Builtins, CorunGpus, GpuFacts, PublishJob, PublishWhat, Replace, Revision};
use serde_json::json;

#[test]
fn the_head_counts_the_gpus_that_were_held_at_once_and_those_that_are_there() {
    let head = |gpus: CorunGpus, there: usize| {
        let alone = [1, 2].map(|n| result("solo", &[("batch", json!(n))], n).epoch_time(1.0));
        let together = [1, 2].map(|n| {
            let mut member = result("pair", &[("batch", json!(n))], n).epoch_time(1.0).corun("all", gpus, 2, 3);
            if gpus == CorunGpus::Own && n == 1 {
                member.circumstances.gpus = vec!["GPU-2".into()];
            }
            member
        });
        let (alone, together) =
            (view("torch/train", None, alone.into()), view("torch/train", Some("solo"), together.into()));
        let mut input = input(vec![("solo", alone), ("pair", together)]);
        add_table(&mut input, "t", json!({"from": "solo", "rows": "batch", "columns": ["epoch_time"]}));
        let gpu = |index: usize| GpuFacts {
            uuid: format!("GPU-{index}"),
            index: index as u32,
            name: "NVIDIA TITAN Xp".into(),
            memory: 12196 << 20,
        };
        input.machine.gpus = (0..there).map(gpu).collect();
        // Results that several sections show ran once.
        let section = json!({"table": "t", "corun": "pair"});
        let with = json!({"languages": ["en", "zh"], "sections": [section, section, section]});
        let report = text(&run("report", with, &input).expect("a report"), "report.md");
        report.lines().find(|line| line.starts_with("- GPU")).unwrap_or_default().to_owned()
    };
    let told = [head(CorunGpus::Own, 3), head(CorunGpus::Shared, 4), head(CorunGpus::Own, 2)];
    insta::assert_snapshot!(told.join("\n"), @r"
    - GPU: 3 × NVIDIA TITAN Xp, 12196 MiB
    - GPU: 2 × NVIDIA TITAN Xp, 12196 MiB (the machine has 4)
    - GPU: 3 × NVIDIA TITAN Xp, 12196 MiB
    ");
}

#[test]
fn no_folder_of_a_machine_is_published() {
    let mut input = feb08::without_gpus();
    input.set.insert("photos".into(), json!("/home/me/my photos"));
    input.steps["solo"].results[0].disturbances =
        vec![Disturbance::InputChanged { path: "/home/me/my/photos".into(), differences: vec![] }];
    let mut with = feb08::with();
    with["setup"] = json!([{"label": "Dataset", "value": {"en": "/home/me/my photos", "zh": "/home/me/my photos"}}]);
    let files = run("report", with, &input).expect("a report").files;
    for (what, target) in [(PublishWhat::Report, "feb08.md"), (PublishWhat::WhatsNew, "NEWS.md")] {
        let (files, target, report) = (files.clone(), target.to_owned(), Some("reports/feb08.md".to_owned()));
        let whats_new = std::collections::BTreeMap::new();
        let job = PublishJob { files, what, target, existing: None, whats_new, report, replace: Replace::Always };
        let published = flow_report::Reports::new().publish(&job).expect("published").files;
        let text = String::from_utf8_lossy(&published[0].bytes);
        assert!(!text.contains("/home") && text.contains("…/my photos"), "{text}");
        // An entry has neither the set-up nor the notes.
        let whole =
            ["- Dataset: …/my photos\n", "<https://github.com/keras-team/keras/issues/9204#issuecomment-370805961>"];
        assert!(what == PublishWhat::WhatsNew || whole.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn the_head_says_at_which_commits_was_measured() {
    let at = |n: u32, commit: &str, dirty: bool| {
        let mut result = result("solo", &[("batch", json!(n))], 1).epoch_time(1.0);
        result.circumstances.revision = Some(Revision { commit: commit.repeat(8), dirty, outside: false });
        result
    };
    let results = vec![at(1, "2b3c4", true), at(2, "1a2b3", false), at(3, "1a2b3", false)];
    let mut input = input(vec![("solo", view("torch/train", None, results))]);
    add_table(&mut input, "t", json!({"from": "solo", "rows": "batch", "columns": ["epoch_time"]}));
    let with = json!({"languages": ["en", "zh"], "sections": [{"table": "t"}]});
    let report = text(&run("report", with, &input).expect("a report"), "report.md");
    let lines: Vec<&str> = report.lines().filter(|line| line.contains("`1a2b31a`")).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    - Git commit: `1a2b31a`; `2b3c42b`, with changes not committed
    - Git 提交：`1a2b31a`; `2b3c42b`，含未提交的修改
    ");
}

#[test]
fn the_head_counts_the_slurm_jobs_and_nodes_that_measured() {
    let job = |n: u32, node: &str| {
        let mut result = result("solo", &[("batch", json!(n))], 1).epoch_time(1.0);
        let facts = [("slurm_job", format!("{n}")), ("node", node.to_owned())];
        result.circumstances.facts.extend(facts.map(|(name, value)| (name.to_owned(), value)));
        result
    };
    let results = vec![job(1, "a1"), job(2, "a2"), job(3, "a2")];
    let mut input = input(vec![("solo", view("torch/train", None, results))]);
    add_table(&mut input, "t", json!({"from": "solo", "rows": "batch", "columns": ["epoch_time"]}));
    let with = json!({"languages": ["en", "zh"], "sections": [{"table": "t"}]});
    let report = text(&run("report", with, &input).expect("a report"), "report.md");
    let lines: Vec<&str> = report.lines().filter(|line| line.contains("Slurm")).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    - Slurm: 3 jobs on 2 nodes
    - Slurm：3 个作业，2 个节点
    ");
}
