//! What people read of a recorded run: every line, the bars' words, and the summary.

use flow_core::{AttemptId, JournalLine};
use serde_json::{Value, json};

use super::{
    Length, RunEndDetails, View, estimate, event_line, idle::IdleNotice, lines, live, step_progress::StepProgress,
    summary,
};

const BEGAN: u64 = 1_770_564_612_000;

/// A run with something of everything.
fn journal() -> Vec<JournalLine> {
    let machine = json!({
        "gpus": [{"uuid": "GPU-a", "index": 0, "name": "TITAN Xp", "memory": 12_884_901_888_u64}],
        "cpus": 32, "cpu_model": "AMD EPYC 7571", "memory": 1, "fake_gpus": false,
    });
    let digest = "0".repeat(64);
    let result = |label: &str, outcome: &str, more: Value| {
        let mut result = json!({
            "fingerprint": digest, "workflow": "feb08", "step": "solo", "label": label, "axes": {},
            "outcome": outcome, "run": "20260208-153012-3f2a",
            "started_at": BEGAN + 1000, "ended_at": BEGAN + 42_000,
        });
        result.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        result
    };
    let why = |of: &str| match of {
        "first" => json!({"first": [{"kind": "never_ran"}]}),
        _ => {
            let batch = json!({"kind": "parameter", "name": "batch", "was": 8, "is": 16});
            json!({"first": [{"kind": "value", "of": batch}]})
        }
    };
    let condition = || json!({"kind": "condition_false", "expression": "machine.gpus >= 4"});
    let code_1 = || json!({"kind": "exited", "end": {"kind": "code", "code": 1}});
    let plan = |state: &str| match state {
        "run" => json!({"state": "run", "why": why("first")}),
        "after" => json!({"state": "after", "steps": ["solo"]}),
        "skipped" => json!({"state": "skipped", "cause": condition()}),
        _ => json!({"state": "cached"}),
    };
    let instance = |id: u32, step: &str, label: &str, state: &str| json!({"event": "instance", "instance": id, "step": step, "label": label, "plan": plan(state)});
    let started = |id: u32, attempt: u32, of: &str, gpus: Value| {
        json!({"event": "started", "instance": id, "attempt": attempt, "folder": format!("runs/r/attempts/{attempt}"),
            "why": why(of), "gpus": gpus, "cpus": 4})
    };
    let events = [
        (
            0,
            json!({"event": "run_started", "format": 2, "run": "20260208-153012-3f2a", "flow": "0.1.0",
            "file": "workflows/feb08.yaml", "workflow": "feb08", "profile": ["one_gpu", {"kind": "holds", "expression": "machine.gpus == 1"}],
            "params": {}, "policy": "critical-path", "machine": machine, "instances": 6, "pid": 1}),
        ),
        (0, instance(0, "dataset", "dataset", "cached")),
        (0, instance(1, "solo", "solo[batch=16]", "run")),
        (0, instance(2, "solo", "solo[batch=32]", "run")),
        (0, instance(3, "solo", "solo[batch=512]", "run")),
        (0, instance(4, "four", "four[batch=16]", "skipped")),
        (0, instance(5, "table", "table", "after")),
        (100, json!({"event": "cached", "instance": 0, "fingerprint": digest, "outcome": "ok", "from": "20260207-1"})),
        (120, json!({"event": "settled", "instance": 4, "outcome": "skipped", "cause": condition()})),
        (1000, started(1, 0, "batch", json!(["GPU-a"]))),
        (1000, json!({"event": "ready", "attempt": 0})),
        (1100, json!({"event": "released", "attempts": [0], "gpus": "own"})),
        (
            11_000,
            json!({"event": "epoch", "attempt": 0, "epoch": 1, "metrics": {"top1": 0.78, "train_loss": 0.31},
            "units": {"top1": "ratio"}}),
        ),
        (42_000, json!({"event": "ended", "instance": 1, "attempt": 0, "outcome": "ok"})),
        (
            42_000,
            json!({"event": "recorded", "instance": 1, "parts": {}, "result": result("solo[batch=16]", "ok",
            json!({"metrics": {"top1": {"value": 0.78, "unit": "ratio"}, "epoch_time": {"value": 9.8, "unit": "s"}}}))}),
        ),
        (43_000, started(2, 1, "first", json!([]))),
        (44_000, json!({"event": "ended", "instance": 2, "attempt": 1, "outcome": "failed", "cause": code_1()})),
        (44_000, json!({"event": "again", "instance": 2, "because": {"kind": "failed", "cause": code_1()}})),
        (45_000, started(2, 2, "first", json!([]))),
        (46_000, json!({"event": "ended", "instance": 2, "attempt": 2, "outcome": "failed", "cause": code_1()})),
        (46_000, json!({"event": "settled", "instance": 2, "outcome": "failed", "cause": code_1()})),
        (47_000, started(3, 3, "first", json!(["GPU-a"]))),
        (48_000, json!({"event": "ended", "instance": 3, "attempt": 3, "outcome": "out_of_memory"})),
        (
            48_000,
            json!({"event": "recorded", "instance": 3, "parts": {}, "result": result("solo[batch=512]",
            "out_of_memory", json!({
                "cause": {"kind": "out_of_memory", "memory": "gpu", "message": "CUDA out of memory"},
                "disturbances": [{"kind": "foreign_process", "pid": 7, "name": "python", "gpu": "0"}],
            }))}),
        ),
        (48_500, json!({"event": "notice", "instance": 3, "text": "a foreign process came to GPU 0"})),
        (
            49_000,
            json!({"event": "settled", "instance": 5, "outcome": "skipped",
            "cause": {"kind": "need_failed", "label": "solo[batch=32]"}}),
        ),
        (49_500, json!({"event": "published", "path": "reports/feb08.md", "changed": true})),
        (50_000, json!({"event": "run_ended", "exit": 1, "counts": {}})),
    ];
    let line = |(at, mut event): (u64, Value)| {
        event["at"] = json!(BEGAN + at);
        serde_json::from_value(event).unwrap()
    };
    events.into_iter().map(line).collect()
}

fn plain(text: &str) -> String {
    crate::terminal::plain(text)
}

/// The end of a run.
fn ended(run: &str) -> RunEndDetails {
    RunEndDetails { run: run.into(), ..Default::default() }
}

#[test]
fn one_line_an_event() {
    let mut view = View::default();
    let mut out = Vec::new();
    for line in journal() {
        view.event(&line);
        out.extend(event_line(&view, &line).map(|words| plain(&words)));
    }
    out.extend(lines::plan_line(&view));
    insta::assert_snapshot!(out.join("\n"), @r"
    feb08 run 20260208-153012-3f2a, profile one_gpu (`machine.gpus == 1` is true)
       0:00  cached         dataset
       0:00  skipped        four[batch=16]: `machine.gpus >= 4` is false
       0:01  started        solo[batch=16] on GPU 0, 4 CPUs: `batch` was 8, is 16
       0:01  ready          solo[batch=16]
       0:01  released       solo[batch=16]
       0:11  epoch          solo[batch=16] 1  top1 78%, train_loss 0.31
       0:42  done           solo[batch=16] in 41 s: top1 78%, epoch_time 9.8 s
       0:43  started        solo[batch=32] on 4 CPUs: its first run
       0:44  note           solo[batch=32]: ended with exit code 1; it is retried
       0:45  started        solo[batch=32] on 4 CPUs: its first run
       0:46  failed         solo[batch=32]: ended with exit code 1
       0:47  started        solo[batch=512] on GPU 0, 4 CPUs: its first run
       0:48  out of memory  solo[batch=512] in 41 s: CUDA out of memory; a foreign process, 7 (python), computed on GPU 0 during the run
       0:48  note           solo[batch=512]: a foreign process came to GPU 0
       0:49  skipped        table: solo[batch=32] did not succeed
       0:49  published      reports/feb08.md
    plan: 1 cached, 3 to run, 1 after them if needed, 1 not run
    ");
}

#[test]
fn the_summary() {
    let mut view = View::default();
    journal().iter().for_each(|line| view.event(line));
    let published = [
        ("reports/feb08.md", true),
        ("reports/feb08/a.svg", true),
        ("reports/feb08/b.svg", false),
        ("README.md", false),
    ];
    view.published = published.map(|(path, changed)| (path.to_owned(), changed)).to_vec();
    let ended = RunEndDetails { made: vec!["report".into()], ..ended("20260208-153012-3f2a") };
    let words = summary(&view, &ended, Length::default(), &|folder| vec![format!("last line in {folder}")]);
    let words: Vec<String> = words.iter().map(|line| plain(line)).collect();
    insta::assert_snapshot!(words.join("\n"), @r"
    failed: 1 cached, 2 ran, 1 failed, 2 skipped in 50 s (run 20260208-153012-3f2a)
      failed solo[batch=32] after 2 attempts: ended with exit code 1
        | last line in runs/r/attempts/2
        flow logs 'solo[batch=32]' shows all of it
      ran       solo[batch=16]: `batch` was 8, is 16
      ran       solo[batch=512], out of memory: its first run
      skipped   four[batch=16]: `machine.gpus >= 4` is false
      skipped   table: solo[batch=32] did not succeed
      published reports/feb08.md
      published 1 file in reports/feb08/, unchanged: b.svg
      unchanged README.md
    ");
    let short = summary(&view, &ended, Length { short: true, columns: None }, &|_| Vec::new());
    assert!(short.len() < words.len());
}

#[test]
fn a_step_that_wrote_into_its_input_is_named_with_the_remedy() {
    let mut view = View::default();
    view.started_at = BEGAN;
    let mut event = |mut event: Value| {
        event["at"] = json!(BEGAN);
        view.event(&serde_json::from_value(event).unwrap());
    };
    let written = |path: &str, folder: Value| json!({"kind": "input_written", "path": path, "folder": folder});
    let itself = |path: &str| json!({"kind": "input_written", "path": path, "itself": true});
    let changed = json!({"kind": "input_changed", "path": "raw/c"});
    let ends = [
        ("a", "ok", json!([written("data/x", json!("data"))])),
        ("b", "ok", json!([written("data/y", json!(null)), changed])),
        ("c", "ok", json!([written("data/y", json!(null))])),
        ("d", "ok", json!([written("data/z", json!("data"))])),
        ("e", "failed", json!([written("data/z", json!("data"))])),
        ("f", "ok", json!([{"kind": "gpu_silent", "gpu": "0", "seconds": 3}])),
        ("g", "ok", json!([itself("own/x")])),
        ("h", "ok", json!([itself("own/y")])),
        ("i", "ok", json!([itself("own/y")])),
        ("j", "ok", json!([itself("own/z")])),
        ("k", "failed", json!([itself("own/z")])),
    ];
    for (n, (step, outcome, disturbed)) in ends.into_iter().enumerate() {
        let why = json!({"first": [{"kind": "never_ran"}]});
        let plan = json!({"state": "run", "why": why});
        event(json!({"event": "instance", "instance": n, "step": step, "label": step, "plan": plan}));
        event(
            json!({"event": "started", "instance": n, "attempt": n, "folder": "", "why": why, "gpus": [], "cpus": 1}),
        );
        event(json!({"event": "ended", "instance": n, "attempt": n, "outcome": outcome, "disturbances": disturbed}));
        let result = json!({
            "fingerprint": "0".repeat(64), "workflow": "w", "step": step, "label": step, "axes": {},
            "outcome": outcome, "run": "1", "started_at": BEGAN, "ended_at": BEGAN, "disturbances": disturbed,
        });
        match outcome {
            "ok" => event(json!({"event": "recorded", "instance": n, "parts": {}, "result": result})),
            _ => event(json!({"event": "settled", "instance": n, "outcome": outcome})),
        }
    }
    view.exit = Some(1);
    let ended = ended("1");
    let short = Length { short: true, columns: None };
    let words: Vec<String> = summary(&view, &ended, short, &|_| Vec::new()).iter().map(|line| plain(line)).collect();
    insta::assert_snapshot!(words.join("\n"), @r"
    failed: 1 ran, 8 not kept, 2 failed in 0 ms (run 1)
      failed e: failed
      failed k: failed
      not kept  b: `raw/c` changed while it ran; run again, with `copy: true` for this input if the step itself writes there
      not kept  a: it wrote into the read-only copy of `data/x`; `{path: data, copy: true}` under `inputs:` gives a step a copy that it may change
      not kept  b, c: at least one of them wrote into the read-only copy of `data/y`
      not kept  d: a step wrote into the read-only copy of `data/z`; `{path: data, copy: true}` under `inputs:` gives a step a copy that it may change
      not kept  g: it wrote into the read-only copy of `own/x`
      not kept  h, i: each of them wrote into the read-only copy of `own/y`
      not kept  j: it wrote into the read-only copy of `own/z`
    ");
}

#[test]
fn the_bars_words_and_the_estimate() {
    let mut view = View::default();
    for line in journal().iter().take_while(|line| line.at < BEGAN + 40_000) {
        view.event(line);
    }
    assert_eq!(estimate::remaining(&view), None, "nothing is known of any step");
    view.progress(AttemptId(0), Some(0.5), "epoch 2/4, loss 0.31".into());
    view.now = BEGAN + 21_000;
    assert_eq!(estimate::remaining(&view), Some((20.0, true)), "half of it took 20 s; the others are unknown");
    view.waiting = vec![
        ("solo[batch=32]".into(), "for the machine".into()),
        ("solo[batch=512]".into(), "for the machine".into()),
        ("table".into(), "for solo".into()),
    ];
    insta::assert_snapshot!(live::lines(&view, 79, 16).iter().map(|line| plain(line)).collect::<Vec<_>>().join("\n"), @r"
    solo[batch=16] ━━━━━─────  50%   0:20  epoch 2/4, loss 0.31 · GPU 0, 4 CPUs
    3 waiting: 2 (for the machine), table (for solo)
    ━━━─────── 2 of 6 instances · 0:21 · at least 20 s left
    ");
    // What does not fit is left out as a whole.
    let narrow = |columns| plain(&live::lines(&view, columns, 16)[0]);
    assert_eq!(narrow(59), "solo[batch=16] ━━━━━─────  50%   0:20  epoch 2/4, loss 0.31");
    assert_eq!(narrow(58), "solo[batch=16] ━━━━━─────  50%   0:20  epoch 2/4");
    assert_eq!(narrow(45), "solo[batch=16] ━━━━━─────  50%   0:20  epoch…");
    // The expected end stands for the progress that a program does not report.
    let mut by_estimate = |ends_at: u64| {
        let attempt = view.attempts.get_mut(&AttemptId(0)).unwrap();
        (attempt.fraction, attempt.ends_at) = (None, Some(ends_at));
        attempt.text.clear();
        (plain(&live::lines(&view, 79, 16)[0]), estimate::remaining(&view))
    };
    let line = "solo[batch=16] ━━━━━───── ≈50%   0:20  ≈ 20 s left · GPU 0, 4 CPUs";
    assert_eq!(by_estimate(BEGAN + 41_000), (line.to_owned(), Some((20.0, true))));
    let late = "solo[batch=16] ━━━━━━━━━─ ≈99%   0:20  GPU 0, 4 CPUs";
    assert_eq!(by_estimate(BEGAN + 20_000).0, late, "it takes longer than expected");
}

#[test]
fn waiting_steps_take_as_long_as_their_like() {
    let mut view = View::default();
    for line in journal().iter().take_while(|line| line.at < BEGAN + 43_000) {
        view.event(line);
    }
    // Two more of `solo`, which took 41 s; `table` is unknown.
    assert_eq!(estimate::remaining(&view), Some((82.0, true)));
}

/// Puts `by` before every text of the run that is none of a fixed kind.
fn stain(value: &mut Value, key: &str, by: &str) {
    const FIXED: [&str; 10] =
        ["event", "fingerprint", "outcome", "state", "mode", "from", "uuid", "gpus", "kind", "memory"];
    match value {
        Value::String(text) if !FIXED.contains(&key) => *text = format!("{by}{text}"),
        Value::Array(all) => all.iter_mut().for_each(|one| stain(one, key, by)),
        Value::Object(map) => map.iter_mut().for_each(|(key, one)| stain(one, key, by)),
        _ => {}
    }
}

#[test]
fn whatever_a_journal_holds_a_run_looks_the_same() {
    let screen = |by: &str| {
        let mut view = View::default();
        let mut out = Vec::new();
        for line in journal() {
            let mut json = serde_json::to_value(&line).unwrap();
            stain(&mut json, "", by);
            let line = serde_json::from_value(json).unwrap();
            view.event(&line);
            view.progress(AttemptId(0), Some(0.5), format!("{by}epoch"));
            view.waiting = vec![(format!("{by}a"), format!("{by}for b"))];
            out.extend(event_line(&view, &line));
            out.extend(live::lines(&view, 400, 16));
        }
        view.published = vec![(format!("{by}README.md"), true)];
        out.extend(summary(&view, &ended(by), Length::default(), &|folder| vec![format!("{by}{folder}")]));
        out.iter().map(|line| crate::terminal::painted(line)).collect::<Vec<_>>()
    };
    let colours = |line: &str| line.matches('\x1b').count();
    let plain: Vec<usize> = screen("x").iter().map(|line| colours(line)).collect();
    for by in ["\x1b[31m", "\u{9b}2J", "a\nerror: b\r", "\x1b]0;title\x07", "\u{202e}\0\u{2028}", "\x1b[0m"] {
        let out = screen(by);
        let hidden = out.iter().flat_map(|line| line.chars()).find(|c| *c != '\x1b' && flow_core::is_hidden(*c));
        assert_eq!(hidden, None, "{by:?}");
        assert_eq!(out.iter().map(|line| colours(line)).collect::<Vec<_>>(), plain, "{by:?}");
        assert!(out.iter().any(|line| line.contains(&*flow_core::visible(by))), "{by:?} is seen");
    }
}

#[test]
fn where_nothing_runs_for_a_while_it_is_said_once_what_is_waited_for() {
    let mut view = View::default();
    (view.started_at, view.waiting) = (BEGAN, vec![("train".into(), "run 7 (feb08) of ada goes first".into())]);
    let (mut still, mut out) = (IdleNotice::default(), Vec::new());
    let mut at = |view: &mut View, second: u64| {
        view.now = BEGAN + second * 1_000;
        out.extend(still.line(view).map(|line| plain(&line)));
    };
    (0..20).for_each(|second| at(&mut view, second));
    let waiting = std::mem::take(&mut view.waiting);
    at(&mut view, 20);
    view.waiting = waiting;
    (21..30).for_each(|second| at(&mut view, second));
    let mut waiting = std::mem::take(&mut view.waiting);
    at(&mut view, 30);
    waiting[0].1 = "there is no free CPU".into();
    view.waiting = waiting;
    (31..90).for_each(|second| at(&mut view, second));
    assert_eq!(
        out,
        [
            "   0:05  waits          train: run 7 (feb08) of ada goes first",
            "   0:36  waits          train: there is no free CPU"
        ],
        "the same reason not again within a minute"
    );
}

/// What is told of a run of `train`, a hundred instances, one a second: the first `cached` are, and the last fails, or is recorded as
/// out of memory.
fn sweep(cached: u32, recorded: bool) -> String {
    let mut view = View::default();
    view.started_at = BEGAN;
    let (mut crowds, mut out) = (StepProgress::default(), Vec::new());
    let mut event = |at: u32, mut event: Value| {
        event["at"] = json!(BEGAN + u64::from(at) * 1_000);
        let line: JournalLine = serde_json::from_value(event).unwrap();
        view.event(&line);
        let (tells, whole) = (crowds.shows(&view, &line), crowds.whole(&view, &line));
        let own = event_line(&view, &line).filter(|_| tells);
        own.iter().for_each(|_| crowds.note_shown(line.at));
        out.extend(own.into_iter().chain(whole).map(|words| plain(&words)));
    };
    let digest = "0".repeat(64);
    let (label, first) = (|n: u32| format!("train[n={n}]"), json!({"first": [{"kind": "never_ran"}]}));
    event(0, json!({"event": "notice", "text": "begins"}));
    for n in 0..100 {
        let plan = json!({"state": if n < cached { "cached" } else { "run" }, "why": first});
        event(0, json!({"event": "instance", "instance": n, "label": label(n), "step": "train", "plan": plan}));
    }
    for n in 0..cached {
        event(0, json!({"event": "cached", "instance": n, "fingerprint": digest, "outcome": "ok", "from": "r"}));
    }
    for n in cached..100 {
        let folder = format!("runs/r/attempts/{n}");
        event(
            n,
            json!({"event": "started", "instance": n, "attempt": n, "folder": folder, "why": first, "gpus": [], "cpus": 1}),
        );
        let result = json!({
            "fingerprint": digest, "workflow": "w", "step": "train", "label": label(n), "axes": {},
            "outcome": if n == 99 { "out_of_memory" } else { "ok" },
            "run": "r", "started_at": BEGAN, "ended_at": BEGAN + 1_000,
        });
        event(n, json!({"event": "notice", "instance": n, "text": format!("`acc` was 0.{n}, is 1")}));
        event(
            n + 1,
            match n {
                99 if !recorded => json!({"event": "settled", "instance": n, "outcome": "failed"}),
                _ => json!({"event": "recorded", "instance": n, "parts": {}, "result": result}),
            },
        );
    }
    out.join("\n")
}

#[test]
fn a_sweep_is_told_in_few_lines() {
    insta::assert_snapshot!(sweep(100, false), @r"
       0:00  note           begins
       0:00  cached         train × 100
    ");
    insta::assert_snapshot!(sweep(60, false), @r"
       0:00  note           begins
       1:00  note           train[n=60]: `acc` was 0.60, is 1
       1:10  done           train[n=69] in 1.0 s
       1:20  done           train[n=79] in 1.0 s
       1:30  done           train[n=89] in 1.0 s
       1:40  failed         train[n=99]: failed
       1:40  failed         train × 100: 39 ran, 60 cached, 1 failed
    ");
    // What `record:` keeps is a result and no failure.
    insta::assert_snapshot!(sweep(97, true), @r"
       0:00  note           begins
       1:37  note           train[n=97]: `acc` was 0.97, is 1
       1:40  done           train × 100: 2 ran, 1 out of memory, 97 cached
    ");
}

#[test]
fn that_no_profile_applies_is_not_said_of_a_run() {
    let remark = json!({"kind": "no_profile", "profiles": [["no_gpu", "machine.gpus == 0"]]});
    let line: JournalLine =
        serde_json::from_value(json!({"at": BEGAN, "event": "remarked", "remark": remark})).unwrap();
    assert!(!StepProgress::default().shows(&View::default(), &line));
    let verbose = event_line(&View::default(), &line).map(|line| plain(&line)).unwrap();
    assert!(
        verbose.ends_with("note           no profile applies here: no_gpu is for `machine.gpus == 0`"),
        "{verbose}"
    );
}

/// What is said while and after `train`, a hundred instances, fails for one of the reasons `why`, in turn.
fn failing(why: &[&str]) -> String {
    let mut view = View::default();
    view.started_at = BEGAN;
    let (mut crowds, mut out) = (StepProgress::default(), Vec::new());
    let mut event = |mut event: Value| {
        event["at"] = json!(BEGAN);
        let line: JournalLine = serde_json::from_value(event).unwrap();
        view.event(&line);
        let (tells, whole) = (crowds.shows(&view, &line), crowds.whole(&view, &line));
        let own = event_line(&view, &line).filter(|_| tells);
        out.extend(own.into_iter().chain(whole).map(|words| plain(&words)));
    };
    for n in 0..100 {
        let plan = json!({"state": "after", "steps": []});
        event(
            json!({"event": "instance", "instance": n, "label": format!("train[n={n}]"), "step": "train", "plan": plan}),
        );
    }
    for n in 0..100 {
        let cause = json!({"kind": "need_failed", "label": why[n % why.len()]});
        event(json!({"event": "settled", "instance": n, "outcome": "failed", "cause": cause}));
    }
    view.exit = Some(1);
    let ended = |all| RunEndDetails { all, ..ended("r") };
    let all = summary(&view, &ended(true), Length::default(), &|_| Vec::new());
    assert!(all.len() > 100, "`flow status` lists each: {all:?}");
    out.extend(summary(&view, &ended(false), Length::default(), &|_| Vec::new()).iter().map(|line| plain(line)));
    out.join("\n")
}

#[test]
fn what_fails_alike_is_told_once() {
    insta::assert_snapshot!(failing(&["data", "weights"]), @r"
       0:00  failed         train[n=0]: data did not succeed
       0:00  failed         train[n=1]: weights did not succeed
       0:00  failed         train × 100
    failed: 100 failed in 0 ms (run r)
      failed train × 50: data did not succeed
      failed train × 50: weights did not succeed
    ");
}
