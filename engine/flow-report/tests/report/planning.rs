//! Errors in a table or a report are reported at plan time, at their place in the file.

use flow_core::{Builtins, Catalogue, CatalogueStep, ExpandRequest, Machine, Source, parse};

/// All messages of planning about these steps, one per line.
fn rendered(steps: &str) -> String {
    let text = format!(
        "flow: 1
name: t
steps:
  a: {{run: 'echo', matrix: {{lr: [0.1, 0.2], v: [v7, v11]}}, metrics: {{stdout: 'Epoch {{epoch}}: loss {{train_loss}}'}}}}
  f: {{run: 'echo', repeat: 3, metrics: {{json: m.json}}}}
{steps}"
    );
    let source = Source { path: "t.yaml".into(), text };
    let mut builtins = flow_report::Reports::new().provided();
    builtins.insert(
        "simulate".into(),
        CatalogueStep { with: serde_json::json!({"type": "object"}), ..CatalogueStep::default() },
    );
    let catalogue = Catalogue { builtins, ..Catalogue::default() };
    let machine = Machine { cpus: 2, memory: 1 << 30, ..Machine::default() };
    let request = ExpandRequest {
        catalogue: &catalogue,
        machine: &machine,
        profile: None,
        set: &[],
        files: &[],
        folder: "/",
        shell_folder: "/",
        batch: flow_core::Batch::default(),
    };
    let wrong = parse(&source).and_then(|workflow| workflow.expand(&request)).err().unwrap_or_default();
    let line = |d: &flow_core::Diagnostic| {
        let excerpt = d.span.clone().and_then(|span| source.text.get(span)).unwrap_or_default();
        format!("{}\n    {d}", excerpt.lines().next().unwrap_or_default())
    };
    wrong.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_table_of_several_machines_has_an_axis_for_them() {
    let steps = "
  good: {uses: flow/table, with: {from: a, rows: [lr, v], split: machine, machines: true, baseline: {machine: H200}, columns: [wall, difference(wall)]}}
  rows: {uses: flow/table, with: {from: a, rows: [lr, v], machines: true, columns: [wall]}}
  moved: {uses: flow/table, with: {from: a, rows: lr, split: v, machines: true, columns: [wall]}}
  between: {uses: flow/table, with: {from: a, rows: lr, split: v, machines: true, columns: [difference(wall)]}}
  epochs: {uses: flow/table, with: {from: a, rows: [epoch, lr, v, machine], machines: true, columns: [wall]}}
  over: {uses: flow/table, with: {from: a, rows: [lr, v], over: machine, machines: true, columns: [wall]}}
  none: {uses: flow/table, with: {from: a, rows: [lr, v], split: machine, columns: [wall]}}
";
    insta::assert_snapshot!(rendered(steps), @"
    with
        step `a` also varies by `machine`, so several results would share a cell; add it to `rows`, make it the `split`, or take the mean `over` it
    true
        `machines: true`: results of other machines have no series, so `epoch` cannot be the rows
    true
        `over: machine`: numbers of several machines have no mean; put it into `rows`, or make it the `split`
    machine
        `split: machine`: step `a` has no such axis; its axes are lr, v
    ");
}

#[test]
fn an_order_is_compared_with_a_row_that_there_is() {
    let steps = "
  t: {uses: flow/table, with: {from: a, rows: v, where: {lr: 0.1}, columns: [wall]}}
  split: {uses: flow/table, with: {from: a, rows: lr, split: v, columns: [wall]}}
  good: {uses: flow/report, with: {sections: [{table: t, order_of: {table: split, where: {lr: 0.2}}}]}}
  none: {uses: flow/report, with: {sections: [{table: t, order_of: {table: a}}]}}
  whole: {uses: flow/report, with: {sections: [{table: t, order_of: {table: t}}]}}
  axis: {uses: flow/report, with: {sections: [{table: t, order_of: {table: split, where: {l: 0.2}}}]}}
  value: {uses: flow/report, with: {sections: [{table: t, order_of: {table: split, where: {lr: 0.3}}}]}}
";
    insta::assert_snapshot!(rendered(steps), @r"
    a
        `a` is not a table: expected a `flow/table` step
    t
        `t` is not split by `v`, which the rows here are
    0.2
        the results of `split` have no axis `l`; there are `lr`, `v`
    0.3
        `lr` has no value `0.3` in `split`; did you mean `0.1`?
    ");
}

/// Eight times as many values take about eight times as long, not sixty-four times.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test compares how long two workflows take")]
fn a_table_over_a_long_axis_is_checked_at_once() {
    let took = |n: usize| {
        let text = format!(
            "  l: {{run: echo, matrix: {{i: \"${{{{ range({n}) }}}}\"}}}}
  t: {{uses: flow/table, with: {{from: l, rows: i, columns: [wall]}}}}
"
        );
        let begin = std::time::Instant::now();
        assert_eq!(rendered(&text), "");
        begin.elapsed()
    };
    let (few, many) = (took(2500), took(20_000));
    assert!(many < few * 32, "2500 values take {few:?}, 20000 take {many:?}");
}

#[test]
fn a_table_is_checked_against_the_step_it_is_from() {
    let table = |n: usize, with: &str| format!("  t{n}: {{uses: flow/table, with: {{{with}}}}}\n");
    let tables = [
        "from: a, rows: lr, split: v, columns: [growth(, grwoth(wall), nosuchmetric, train_los, epoch_time]",
        "from: a, rows: [lr, x], split: v, columns: [wall]",
        "from: a, rows: lr, columns: [wall]",
        "from: a, rows: lr, split: v, columns: [ratio(wall)], baseline: {v: v8, lr: 0.1, y: 1}",
        "from: a, rows: lr, over: [v, seed], columns: [wall]",
        "from: a, columns: [difference(wall)]",
        "from: a, rows: lr, over: v, columns: [wall, {column: outcom, label: x}]",
        "from: a, rows: lr, split: v, columns: [wall], labels: {vv: {v7: old}}",
        "from: a, rows: lr, split: v, columns: [wall], labels: {v: {v7: {en: old, zh: v11}}}",
        "from: a, rows: lr, split: v, columns: [wall], labels: {v: {v7: old, v8: {en: new, zh: 新}}, lr: {0.1: {en: low}}}",
        // If the workflow alone does not determine the columns, the run checks them.
        "from: f, over: seed, columns: [anything, epoch_time]",
    ];
    let steps: String = tables.iter().enumerate().map(|(n, with)| table(n, with)).collect();
    insta::assert_snapshot!(rendered(&steps), @"
    growth(
        column `growth(`: `)` is missing
    grwoth(wall)
        column `grwoth(wall)`: there is no function `grwoth`; there are growth, ratio, speedup and difference
    nosuchmetric
        no result of step `a` will have `nosuchmetric`; there are `epoch_time`, `train_loss`, `lr`, `v`, `wall`, `cpu_time`, `cpu_util`, `cpu_util_peak`, `cpu_cores`, `memory`, `disk_read`, `disk_written` and 21 more; a pattern reads it from the output, such as `metrics: {stdout: 'nosuchmetric {nosuchmetric}'}`
    train_los
        no result of step `a` will have `train_los`; did you mean `train_loss`?
    rows
        `rows: x`: step `a` has no such axis; its axes are lr, v
    with
        step `a` also varies by `v`, so several results would share a cell; add it to `rows`, make it the `split`, or take the mean `over` it
    v8
        `v` has no value `v8` in step `a`; there are `v7`, `v11`
    1
        `y` is neither among the `rows` nor the `split`; there are `lr`, `v`
    over
        `over: seed`: step `a` has neither that axis nor `repeat`; its axes are lr, v
    difference(wall)
        `difference(wall)` takes the second value of the `split` minus the first; here the split has no axis
    outcom
        no result of step `a` will have `outcom`; did you mean `outcome`?
    vv
        step `a` has no axis `vv`; there are `lr`, `v`
    v
        `v11` and `v7` have the same name
    ");
}

#[test]
fn a_parameter_that_the_step_reads_is_a_column() {
    let steps = "  p: {run: 'echo ${{ passes }}', metrics: {stdout: 'loss {loss}'}}
  t: {uses: flow/table, with: {from: p, columns: [passes, loss]}}
  none: {uses: flow/table, with: {from: a, rows: [lr, v], columns: [passes]}}
params: {passes: 3}
";
    let said = rendered(steps);
    assert_eq!(said.matches("will have `passes`").count(), 1, "{said}");
    assert!(said.contains("no result of step `a` will have `passes`"), "{said}");
}

#[test]
fn a_chart_over_another_word_for_an_epoch_says_how_to_write_it() {
    let steps = "  t: {uses: flow/table, with: {from: a, rows: lr, split: v, columns: [wall]}}
  r: {uses: flow/report, with: {sections: [{table: t, charts: [{column: train_loss, over: pass}]}]}}
";
    let said = rendered(steps);
    assert!(
        said.contains(r#"expected "epoch" or "step""#) && said.contains("write its placeholder as `{epoch}`"),
        "{said}"
    );
}

#[test]
fn a_report_is_checked_against_its_tables() {
    let steps = "  t: {uses: flow/table, with: {from: a, rows: lr, split: v, columns: [wall]}}
  u: {uses: flow/table, with: {from: f, columns: [wall]}}
  r: {uses: flow/report, with: {date: yesterday, template: page.md.j2, sections: [{table: a}, {table: t, compare: zz}, {table: u, compare: v}, {table: t, corun: f}]}}
  q: {uses: flow/report, with: {sections: [{table: t, compare: v}]}}
publish:
  - {from: q, to: x.md}
  - {from: q, whats_new: ./x.md}
  - {from: q, whats_new: README.md}
  - {from: r, whats_new: README.md}
  - {from: r, to: sub/../x.md}
";
    insta::assert_snapshot!(rendered(steps), @r"
    yesterday
        `date: yesterday`: a day is written `2026-02-08`
    page.md.j2
        `page.md.j2` is a file name, not a template; write the text itself: `template: |`, and its lines below
    a
        `a` is not a table: expected a `flow/table` step; did you mean `t`?
    zz
        the table `t` is split by `v`; `compare: v` compares its two values
    v
        the table `u` has no `split`; give it `split: v`; the two values of the split are compared
    f
        `f` is not a co-run step; a step with `corun:` starts its instances together
    ./x.md
        `./x.md` is also written by another entry of `publish`; a report at `to:` replaces the whole file
    sub/../x.md
        `sub/../x.md` is also written by another entry of `publish`; a report at `to:` replaces the whole file
    ");
}

#[test]
fn what_is_of_no_known_form_is_told_what_was_expected() {
    let steps =
        "  t: {uses: flow/table, with: {from: a, rows: {x: 1}, columns: [3, {column: wall}, {name: wall, label: x}]}}
  u: {uses: flow/table, with: {from: f, columns: [wall]}}
  r:
    uses: flow/report
    with:
      setup: [{label: {fr: x}, value: 1}]
      sections:
        - {table: u, notes: {guess: {resource: cpuu, en: x}, question: 3}}
        - {table: u, notes: {guess: {reason: cpu}, hint: x}, note: x, tolerance: 2}
";
    insta::assert_snapshot!(rendered(steps), @r#"
    rows
        `rows` of `flow/table` is the mapping {"x":1}: expected a text or a list
    3
        `columns.0` of `flow/table` is the number 3: expected a text or a mapping
    {
        `columns.1` needs the parameter `label`
    {
        `columns.2` needs the parameter `column`
    name
        `columns.2` has no parameter `name`; there are `column`, `label`
    fr
        `setup.0.label` has no parameter `fr`; there are `en`, `zh`
    cpuu
        `sections.0.notes.guess.resource` of `flow/report` is the text "cpuu": expected "cpu" or "memory" or "gpu" or "gpu_memory" or "gpu_memory_traffic" or "data"
    3
        `sections.0.notes.question` of `flow/report` is the number 3: expected a text or a mapping
    reason
        `sections.1.notes.guess` has no parameter `reason`; there are `en`, `zh`
    hint
        `sections.1.notes` has no parameter `hint`; there are `guess`, `question`, `todo`
    note
        `sections.1` has no parameter `note`; did you mean `notes`?
    2
        `sections.1.tolerance` of `flow/report`: 2 is greater than the maximum of 1
    "#);
}

#[test]
fn a_schedule_is_of_one_point_of_a_simulation() {
    let steps = "  s: {uses: flow/simulate, matrix: {policy: [fifo, sjf], density: [0.9, 1.1]}}
  t: {uses: flow/table, with: {from: s, rows: [policy, density], columns: [wall]}}
  r:
    uses: flow/report
    with:
      sections:
        - table: t
          schedules:
            - {from: s, where: {policy: fifo, density: 0.9}}
            - {from: a, where: {lr: 0.1}}
            - {from: s, where: {polcy: fifo, density: 0.9}}
            - {from: s, where: {policy: fif, density: 0.8}}
            - {from: s, where: {policy: fifo}}
  q: {uses: flow/report, with: {sections: [{table: t, schedules: [{from: ss}, {step: s}, {from: s, where: fifo}]}]}}
";
    insta::assert_snapshot!(rendered(steps), @r#"
    a
        `a` is not a simulation: expected a `flow/simulate` step
    fifo
        step `s` has no axis `polcy`; did you mean `policy`?
    fif
        `policy` has no value `fif` in step `s`; did you mean `fifo`?
    0.8
        `density` has no value `0.8` in step `s`; did you mean `0.9`?
    {
        step `s` has several schedules, because it also varies by `density`; choose one: `where: {density: 0.9, …}`
    ss
        there is no step `ss`; there are `a`, `f`, `r`, `s`, `t`
    {
        `sections.0.schedules.1` needs the parameter `from`
    step
        `sections.0.schedules.1` has no parameter `step`; there are `from`, `where`
    fifo
        `sections.0.schedules.2.where` of `flow/report` is the text "fifo": expected a mapping
    "#);
}

#[test]
fn a_link_leads_to_the_web_to_mail_or_to_a_file() {
    let links = [
        "https://example.com/a?b=c&d#e",
        "mailto:lab@example.com",
        "notes/why.md",
        "JavaScript:alert(1)",
        "java\\tscript:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "//example.com",
    ];
    let links: Vec<String> = links.iter().map(|link| format!("\"{link}\"")).collect();
    let steps = format!(
        "  t: {{uses: flow/table, with: {{from: a, rows: lr, split: v, columns: [wall]}}}}
  r: {{uses: flow/report, with: {{sections: [{{table: t, see: [{}]}}]}}}}
",
        links.join(", ")
    );
    insta::assert_snapshot!(rendered(&steps), @r#"
    "JavaScript:alert(1)"
        a link cannot lead to `JavaScript:`; `see:` takes https://…, http://…, mailto:… and relative paths
    "java\tscript:alert(1)"
        the link `java\tscript:alert(1)` has blanks or control characters in it; a blank is `%20`; `see:` takes https://…, http://…, mailto:… and relative paths
    "data:text/html,x"
        a link cannot lead to `data:`; `see:` takes https://…, http://…, mailto:… and relative paths
    "vbscript:x"
        a link cannot lead to `vbscript:`; `see:` takes https://…, http://…, mailto:… and relative paths
    "//example.com"
        `//example.com` is neither an address nor a path; `see:` takes https://…, http://…, mailto:… and relative paths
    "#);
}

#[test]
fn what_is_best_is_said_where_the_name_of_the_column_does_not_tell() {
    let steps = "
  t: {uses: flow/table, with: {from: a, rows: [lr, v], columns: [train_loss, lr]}}
  named: {uses: flow/best, with: {table: t, column: train_loss}}
  said: {uses: flow/best, with: {table: t, column: lr, goal: max}}
  unknown: {uses: flow/best, with: {table: t, column: lr}}
";
    insta::assert_snapshot!(rendered(steps), @r"
    lr
        flow cannot tell whether a low or a high `lr` is better; set `goal: min` or `goal: max`
    ");
}

#[test]
fn an_estimate_and_what_it_tells_are_columns_of_the_table() {
    let steps = "
  t: {uses: flow/table, with: {from: a, rows: [lr, v], columns: [wall, train_loss]}}
  r: {uses: flow/report, with: {sections: [{table: t, estimates: {wall: train_los}}, {table: t, estimates: {wal: wall}}, {table: t, estimates: {wall: train_loss}}]}}
";
    insta::assert_snapshot!(rendered(steps), @"
    train_los
        the table `t` has no column `train_los`; did you mean `train_loss`?
    wall
        the table `t` has no column `wal`; did you mean `wall`?
    ");
}
