//! `machines:` of a table: results of other machines appear next to the own ones, and are never averaged with them.

use crate::common::{ResultExt, add_table, input, reported, result, run, text, view, whole};
use flow_core::{Digest, Foreign, ForeignProcess, KeptInput, KeptOutput, Outcome, StepResult};
use serde_json::{Value, json};

fn own(batch: u32, seconds: f64) -> StepResult {
    result("solo", &[("batch", json!(batch))], 1).epoch_time(seconds)
}

fn on_h200(batch: u32, seconds: f64) -> Foreign {
    let mut result = own(batch, seconds);
    result.circumstances.gpu_models = vec!["NVIDIA H200".into()];
    Foreign { host: "lab4".into(), result }
}

fn table(with: Value, imported: Vec<Foreign>) -> Result<(String, String), String> {
    let mut view = view("torch/train", None, vec![own(16, 8.0), own(32, 4.0)]);
    view.imported = imported;
    let mut all = json!({"from": "solo", "machines": true, "columns": ["epoch_time"]});
    all.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
    let out = run("table", all, &input(vec![("solo", view)]))?;
    Ok((text(&out, "table.csv"), text(&out, "table.en.md")))
}

#[test]
fn each_machine_is_a_value_of_an_axis() {
    let theirs = || vec![on_h200(16, 2.0), on_h200(32, 1.0), on_h200(64, 0.5)];
    let (csv, _) =
        table(json!({"columns": ["epoch_time", "growth(epoch_time)"], "rows": "batch", "split": "machine"}), theirs())
            .unwrap();
    insta::assert_snapshot!(csv, @"
    batch,epoch_time NVIDIA TITAN Xp [s],growth(epoch_time) NVIDIA TITAN Xp [%],epoch_time NVIDIA H200 (lab4) [s],growth(epoch_time) NVIDIA H200 (lab4) [%]
    16,8,NA,2,NA
    32,4,-50,1,-50
    64,NA,NA,0.5,-50
    ");
    let (csv, _) = table(json!({}), theirs()).unwrap();
    insta::assert_snapshot!(csv, @"
    batch,machine,epoch_time [s]
    16,NVIDIA TITAN Xp,8
    16,NVIDIA H200 (lab4),2
    32,NVIDIA TITAN Xp,4
    32,NVIDIA H200 (lab4),1
    64,NVIDIA H200 (lab4),0.5
    ");
    let (csv, _) = table(json!({"rows": ["machine", "batch"]}), theirs()).unwrap();
    insta::assert_snapshot!(csv, @"
    machine,batch,epoch_time [s]
    NVIDIA TITAN Xp,16,8
    NVIDIA TITAN Xp,32,4
    NVIDIA H200 (lab4),16,2
    NVIDIA H200 (lab4),32,1
    NVIDIA H200 (lab4),64,0.5
    ");
}

#[test]
fn two_machines_share_no_cell() {
    let (csv, _) = table(json!({"rows": "batch"}), vec![on_h200(16, 2.0)]).unwrap();
    assert_eq!(csv, "batch,epoch_time NVIDIA TITAN Xp [s],epoch_time NVIDIA H200 (lab4) [s]\n16,8,2\n32,4,NA\n");
    let mut elsewhere = on_h200(16, 2.0);
    elsewhere.host = "lab5".into();
    let (csv, _) = table(json!({}), vec![on_h200(16, 2.0), elsewhere]).unwrap();
    assert_eq!(csv.matches("NVIDIA H200").count(), 2, "of one model, and of two machines: {csv}");
}

#[test]
fn what_was_asked_for_otherwise_is_told() {
    let mut longer = on_h200(16, 2.0);
    longer.result.params.insert("epochs".into(), json!(8));
    longer.result.params.insert("data".into(), json!("…/photos"));
    let (_, markdown) = table(json!({}), vec![longer]).unwrap();
    assert!(markdown.contains("On NVIDIA H200 (lab4), `epochs` was 8; here it is 4"), "{markdown}");
    assert!(!markdown.contains("photos"), "{markdown}");
    let mut other = on_h200(16, 2.0);
    other.result.axes.insert("version".into(), json!("v7"));
    let (_, markdown) = table(json!({}), vec![other]).unwrap();
    assert!(
        markdown.contains("There are no results of another machine"),
        "another matrix is another experiment: {markdown}"
    );
}

#[test]
fn of_several_results_of_a_point_of_a_machine_the_newest_counts() {
    let at = |ended_at, seconds, n: u32| {
        let mut foreign = on_h200(16, seconds);
        foreign.result.ended_at = ended_at;
        foreign.result.circumstances.params.insert("n".into(), json!(n));
        foreign
    };
    let mut view = view("torch/train", None, vec![own(16, 8.0)]);
    view.results[0].circumstances.params.insert("n".into(), json!(160));
    view.imported = vec![at(2, 1.0, 160), at(3, 4.0, 640), at(1, 2.0, 160)];
    let with = json!({"from": "solo", "machines": true, "columns": ["epoch_time"]});
    let out = run("table", with, &input(vec![("solo", view)])).unwrap();
    assert!(text(&out, "table.csv").contains("NVIDIA H200 (lab4),4\n"), "{}", text(&out, "table.csv"));
    let markdown = text(&out, "table.en.md");
    assert!(markdown.contains("On NVIDIA H200 (lab4), `n` was 640; here it is 160"), "{markdown}");
}

/// Without a place for the machines, each gets a column, and the report compares the two.
#[test]
fn two_machines_are_compared_without_a_word_of_the_workflow() {
    let trained = |lr: f64, batch: u32, seconds: f64| {
        result("solo", &[("lr", json!(lr)), ("batch", json!(batch))], 1).epoch_time(seconds)
    };
    let all = |by: f64| {
        [(0.1, 16, 8.0), (0.1, 32, 4.0), (0.2, 16, 8.0), (0.2, 32, 4.0)]
            .map(|(lr, batch, seconds)| trained(lr, batch, seconds * by))
    };
    let answer = |imported: bool| {
        let mut view = view("command", None, all(1.0).into());
        let on_lab4 = |mut result: StepResult| {
            result.circumstances.gpu_models = vec!["NVIDIA H200".into()];
            Foreign { host: "lab4".into(), result }
        };
        view.imported = if imported { all(0.25).map(on_lab4).into() } else { Vec::new() };
        let mut input = input(vec![("solo", view)]);
        let with = json!({"from": "solo", "rows": "batch", "split": "lr", "machines": true, "columns": ["epoch_time"]});
        add_table(&mut input, "t", with);
        input.steps.get_mut("solo").unwrap().imported.clear();
        reported(&input, json!({"table": "t", "compare": "lr"}))
    };
    let both = answer(true);
    assert!(both.contains("From NVIDIA TITAN Xp to NVIDIA H200 (lab4)"), "{both}");
    assert!(both.contains("75%"), "{both}");
    let own = answer(false);
    assert!(own.contains("lr=0.1") && !own.contains("lab4"), "{own}");
}

/// Another version of the program does not hide that all points differ. Without repetitions, only a sign test decides.
#[test]
fn machines_with_other_programs_are_compared_and_the_answer_says_so() {
    let losses = [
        (0.02, 16, 0.00019, 0.00007),
        (0.02, 64, 0.01051, 0.01034),
        (0.05, 16, 0.00067, 0.00024),
        (0.05, 64, 0.0002, 0.0001),
        (0.1, 16, 0.00169, 0.00061),
        (0.1, 64, 0.00035, 0.00013),
    ];
    let with_fit = |result: StepResult, file: &[u8]| {
        let input = KeptInput { digest: Digest::of(file), bytes: 1, text: true };
        let inputs = [("fit.py".to_owned(), input)].into();
        let attempt = Digest::of(b"the same");
        let kept = KeptOutput { attempt, record: None, log: None, files: [].into(), absent: [].into(), inputs, cut: 0 };
        StepResult { kept: Some(kept), ..result }
    };
    let answer = |points: usize| {
        let of = |lr: f64, batch: u32, loss: f64| {
            let point = result("solo", &[("lr", json!(lr)), ("batch", json!(batch))], 1);
            point.epoch_time(1.0).metric("val_loss", loss, "")
        };
        let own = losses[..points].iter().map(|(lr, batch, loss, _)| with_fit(of(*lr, *batch, *loss), b"one"));
        let mut view = view("command", None, own.collect());
        let theirs = losses[..points].iter().map(|(lr, batch, _, loss)| {
            let mut result = with_fit(of(*lr, *batch, *loss), b"two");
            result.circumstances.gpu_models = vec!["NVIDIA H200".into()];
            Foreign { host: "lab4".into(), result }
        });
        view.imported = theirs.collect();
        let mut input = input(vec![("solo", view)]);
        let with = json!({"from": "solo", "rows": "batch", "split": "lr", "machines": true, "columns": ["val_loss"]});
        add_table(&mut input, "t", with);
        input.steps.get_mut("solo").unwrap().imported.clear();
        let report = whole(&run("report", json!({"sections": [{"table": "t"}]}), &input).unwrap(), "report.md");
        report.lines().find(|line| line.starts_with("**")).unwrap_or_default().to_owned()
    };
    insta::assert_snapshot!([6, 4].map(answer).join("\n"), @"
    **From NVIDIA TITAN Xp to NVIDIA H200 (lab4), val_loss falls by 2% to 64% in every row (sign test over 6 pairs, p = 0.031). NVIDIA H200 (lab4) used another version of `fit.py`. The difference may come from this file, not from the machine.**
    **From NVIDIA TITAN Xp to NVIDIA H200 (lab4), val_loss falls by 2% to 64% in every row. One run on each side, so no test was made. NVIDIA H200 (lab4) used another version of `fit.py`. The difference may come from this file, not from the machine.**
    ");
}

/// Another program is not a point of the sweep, and nothing is averaged over machines.
#[test]
fn results_of_another_program_are_not_ranked_with_ones_own() {
    let trained = |lr: f64, batch: u32, acc: f64, epochs: u32| {
        let mut result = result("solo", &[("lr", json!(lr)), ("batch", json!(batch))], 1).metric("acc", acc, "");
        result.circumstances.params.insert("epochs".into(), json!(epochs));
        result
    };
    let all = |by: f64, epochs| {
        [(0.1, 16, 0.5), (0.1, 32, 0.6), (0.2, 16, 0.7), (0.2, 32, 0.8)]
            .map(|(lr, batch, acc)| trained(lr, batch, acc + by, epochs))
    };
    let answer = |epochs| {
        let mut view = view("command", None, all(0.0, 10).into());
        let on_lab4 = |mut result: StepResult| {
            result.circumstances.gpu_models = vec!["NVIDIA H200".into()];
            Foreign { host: "lab4".into(), result }
        };
        view.imported = all(0.1, epochs).map(on_lab4).into();
        let mut input = input(vec![("solo", view)]);
        let with =
            json!({"from": "solo", "rows": ["lr", "batch"], "split": "machine", "machines": true, "columns": ["acc"]});
        add_table(&mut input, "t", with);
        input.steps.get_mut("solo").unwrap().imported.clear();
        reported(&input, json!({"table": "t"}))
    };
    let (same, other) = (answer(10), answer(20));
    assert!(same.contains("Best acc: 0.9 at lr=0.2, batch=32, NVIDIA H200 (lab4)"), "{same}");
    assert!(!same.contains("depends most"), "{same}");
    assert!(!other.contains("Best acc"), "{other}");
    assert!(other.contains("On NVIDIA H200 (lab4), `epochs` was 20; here it is 10."), "{other}");
}

#[test]
fn a_file_that_is_unknown_there_is_not_said_to_differ() {
    let with = |result: StepResult, digest: Option<&[u8]>| {
        let input = |digest| KeptInput { digest: Digest::of(digest), bytes: 1, text: true };
        let inputs = digest.map(|digest| ("fit.py".to_owned(), input(digest))).into_iter().collect();
        let attempt = Digest::of(b"the same");
        let kept = KeptOutput { attempt, record: None, log: None, files: [].into(), absent: [].into(), inputs, cut: 0 };
        StepResult { kept: Some(kept), ..result }
    };
    let said = |theirs: Option<&[u8]>| {
        let mut view = view("command", None, vec![with(own(16, 8.0), Some(b"one"))]);
        let foreign = on_h200(16, 2.0);
        view.imported = vec![Foreign { result: with(foreign.result, theirs), ..foreign }];
        let with = json!({"from": "solo", "machines": true, "columns": ["epoch_time"]});
        text(&run("table", with, &input(vec![("solo", view)])).unwrap(), "table.en.md")
    };
    let note = "used another version of `fit.py`";
    assert!(said(Some(b"two")).contains(note), "{}", said(Some(b"two")));
    for theirs in [Some(&b"one"[..]), None] {
        assert!(!said(theirs).contains(note), "{}", said(theirs));
    }
}

#[test]
fn what_ran_out_of_memory_there_is_a_row() {
    let mut full = on_h200(64, 1.0);
    full.result = full.result.outcome(Outcome::OutOfMemory);
    let (csv, _) = table(json!({}), vec![full]).unwrap();
    assert!(csv.lines().any(|line| line.contains("64") && line.contains("out_of_memory")), "{csv}");
}

#[test]
fn what_was_seen_beside_their_results_is_said_as_of_ones_own() {
    let mut disturbed = on_h200(16, 2.0);
    disturbed.result = disturbed.result.cpu_util(0.1).foreign_cpu(0.4);
    let circumstances = &mut disturbed.result.circumstances;
    circumstances.unwatched = true;
    circumstances.gpu_shared = Some(0.3);
    // As in a bundle.
    circumstances.foreign_processes =
        vec![ForeignProcess { pid: 0, name: String::new(), gpu: String::new(), memory: 1 }];
    let mut view = view("torch/train", None, vec![own(16, 8.0), own(32, 4.0)]);
    view.imported = vec![disturbed, on_h200(32, 1.0)];
    let report = |with: Value| {
        let mut input = input(vec![("solo", view.clone())]);
        add_table(&mut input, "t", with);
        // A report gets no imported results. It knows them only from the table.
        input.steps.get_mut("solo").unwrap().imported.clear();
        reported(&input, json!({"table": "t"}))
    };
    let both = report(
        json!({"from": "solo", "rows": "batch", "split": "machine", "machines": true, "columns": ["epoch_time"]}),
    );
    insta::assert_snapshot!(both.lines().filter(|line| line.contains("lab4)`")).collect::<Vec<_>>().join("\n"), @r"
    `solo[batch=16] (lab4)` ran while other programs used 40.0% of the CPU.
    While `solo[batch=16] (lab4)` ran, flow could not see the steps of other runs on its machine.
    `solo[batch=16] (lab4)` shared its GPU with other programs.
    `solo[batch=16] (lab4)` shared its GPU: others used 30.0% of its time.
    - From NVIDIA TITAN Xp to NVIDIA H200 (lab4), epoch time falls by 75% at both values of batch size. Other programs used 40.0% of the CPU during `solo[batch=16] (lab4)`, which may explain this finding.
    | CPU use of other programs during `solo[batch=16] (lab4)` | 40.0% |
    `solo[batch=16] (lab4)` 运行时，其他程序占用了 40.0% 的 CPU。
    `solo[batch=16] (lab4)` 运行时，flow 无法得知该机器上的其他运行是否同时执行了步骤。
    `solo[batch=16] (lab4)` 运行时，其所用的 GPU 上还有其他程序。
    `solo[batch=16] (lab4)` 运行时与其他进程共用 GPU：其他进程占用了 30.0% 的 GPU 时间。
    - 从 NVIDIA TITAN Xp 到 NVIDIA H200 (lab4)，每轮用时在两个批大小下均下降 75%。`solo[batch=16] (lab4)` 运行时，其他程序占用了 40.0% 的 CPU，这一结论可能受其影响。
    | `solo[batch=16] (lab4)` 运行时其他程序的 CPU 利用率 | 40.0% |
    ");
    let quiet = report(
        json!({"from": "solo", "machines": true, "rows": ["batch", "machine"], "where": {"batch": 32}, "columns": ["epoch_time"]}),
    );
    assert!(!quiet.contains("lab4)`"), "what is not shown is not told of: {quiet}");
}
