//! Texts and numbers on their way from the file and the command line to a command.

use std::collections::BTreeMap;

use flow_core::{Body, Diagnostic, Expansion, InstanceId, Render, Source, StepResult, parse};

use super::{expand_on, machine, shown};

fn command(e: &Expansion, id: u32) -> String {
    let none = BTreeMap::<InstanceId, StepResult>::new();
    match e.resolve(InstanceId(id), &none, Render::Paths) {
        Ok(resolved) => match resolved.body {
            Body::Command { line, .. } => line,
            other => panic!("no command: {other:?}"),
        },
        Err(fault) => panic!("{fault}"),
    }
}

/// What the only command of a workflow comes to.
fn printed(text: &str, set: &[&str]) -> Result<String, String> {
    let e = expand_on(text, &machine(0), None, set).map_err(|wrong| shown(text, &wrong))?;
    Ok(command(&e, 0))
}

#[test]
fn axes_print_and_are_selected_as_numbers() {
    let text = "flow: 1\nsteps:\n  a: {matrix: {lr: [1.0, 1e5, 0.10, '1.10']}, run: 'x ${{ lr }}'}\n";
    let e = expand_on(text, &machine(0), None, &[]).expect("a workflow");
    let labels: Vec<&str> = e.instances.iter().map(|i| &*i.label).collect();
    assert_eq!(labels, ["a[lr=1]", "a[lr=100000]", "a[lr=0.1]", "a[lr=\"1.10\"]"]);
    let commands: Vec<String> = (0..4).map(|id| command(&e, id)).collect();
    assert_eq!(commands, ["x 1", "x 100000", "x 0.1", "x 1.10"]);
    let twice = "flow: 1\nsteps:\n  a: {matrix: {lr: [1, 1.0]}, run: 'x ${{ lr }}'}\n";
    let said = shown(twice, &expand_on(twice, &machine(0), None, &[]).map(drop).expect_err("one value twice"));
    assert!(said.contains("`lr=1` is twice"), "{said}");
}

#[test]
fn a_text_stays_text_when_it_is_set() {
    let text = "flow: 1\nparams: {prompt: Say hi, tag: v1, layers: '64', tags: [a, b], opt: {name: adam, lr: 0.1}, n: 1}\nsteps:\n  a: {run: '${{ prompt }}|${{ tag }}|${{ layers }}|${{ tags }}|${{ opt.name }}|${{ opt.lr }}|${{ n }}'}\n";
    let plain = "Say hi|v1|64|[\"a\",\"b\"]|adam|0.1|1";
    for (set, was, is) in [
        (&["prompt=Answer: yes or no"][..], "Say hi", "Answer: yes or no"),
        (&["prompt=- item"], "Say hi", "- item"),
        (&["prompt=Write C # code"], "Say hi", "Write C # code"),
        (&["prompt={x: 1}"], "Say hi", "{x: 1}"),
        (&["prompt='quoted: once'"], "Say hi", "quoted: once"),
        (&["prompt=\"a\" and \"b\""], "Say hi", "\"a\" and \"b\""),
        (&["tag=1.10"], "v1", "1.10"),
        (&["tag=true"], "v1", "true"),
        (&["tag=~"], "v1", "~"),
        (&["layers=0x10"], "64", "0x10"),
        (&["tags=[1.10, yes]"], "[\"a\",\"b\"]", "[\"1.10\",\"yes\"]"),
        (&["tags+=2.50"], "[\"a\",\"b\"]", "[\"a\",\"b\",\"2.50\"]"),
        (&["opt.name=1e3"], "adam", "1e3"),
        (&["opt.lr=1e3"], "0.1", "1000"),
        (&["opt={lr: 3}"], "0.1", "3"),
        (&["n=2.0"], "|1", "|2"),
    ] {
        let expected = match plain.rsplit_once(was) {
            Some((before, behind)) => format!("{before}{is}{behind}"),
            None => panic!("{was}"),
        };
        assert_eq!(printed(text, set), Ok(expected), "{set:?}");
    }
}

fn warnings(text: &str) -> String {
    let workflow = parse(&Source { path: "t.yaml".into(), text: text.to_owned() }).expect("a workflow");
    shown(text, &workflow.warnings())
}

#[test]
fn numbers_that_lose_their_spelling_are_warned_about_once() {
    let text = "flow: 1\nparams: {py: 3.10, ok: 1e5, small: 1e-4, zero: 0.0, quoted: '1.10'}\nsteps:\n  a:\n    matrix: {v: [3.9, 3.10, 1.20], sha: [0e1, 61e9540, 12e5]}\n    run: x ${{ v }} ${{ sha }} ${{ [py, ok, small, zero, quoted] | length }}\n    env: {TAG: 2.50}\n";
    let said = warnings(text);
    assert_eq!(
        said,
        "2:14: `3.10` prints as 3.1, `1.20` prints as 1.2, `0e1` prints as 0, and 1 more; quote it to keep the text"
    );
    assert_eq!(warnings("flow: 1\nparams: {lr: 0.1, n: 1e5}\nsteps:\n  a: {run: 'x ${{ lr }} ${{ n }}'}\n"), "");
}

#[test]
fn parameters_that_nothing_reads_are_warned_about_once() {
    let said =
        warnings("flow: 1\nparams: {epochs: 3, seed: 1, lr: 1, opt: {m: 1}}\nsteps: {a: {run: 'x ${{ lr }}'}}\n");
    assert_eq!(
        said,
        "2:10: nothing in the workflow reads the parameters `epochs`, `opt`; write `${{ epochs }}` into `run`"
    );
    for read in ["x ${{ opt.m }}", "x ${{ params.opt }}", "x ${{ params | length }}"] {
        let text = format!("flow: 1\nparams: {{opt: {{m: 1}}}}\nsteps: {{a: {{run: '{read}'}}}}\n");
        assert_eq!(warnings(&text), "", "{read}");
    }
}

#[test]
fn axes_that_nothing_reads_are_warned_about() {
    let text = |steps: &str| format!("flow: 1\nsteps:\n{steps}");
    let said = warnings(&text("  a: {matrix: {lr: [1, 2]}, run: train}\n  b: {like: a, exclusive: true}\n"));
    assert_eq!(
        said,
        "3:16: nothing in `a` reads its axis `lr`, so all its values do the same; write `${{ lr }}` into `run`, or `repeat:` for repetitions"
    );
    for read in [
        "run: 'x ${{ lr }}'",
        "run: x, when: lr > 1",
        "run: x, env: {LR: '${{ lr }}'}",
        "run: x, inputs: ['f${{ lr }}']",
        "run: x, outputs: ['f${{ lr }}']",
        "run: x, cpus: '${{ lr }}'",
        "run: x, seed: '${{ lr }}'",
        "run: x, corun: {group: '${{ lr }}'}",
        "run: 'x ${{ steps.data.out }}'",
        "run: x, needs: [data]",
    ] {
        let data = "  data: {matrix: {lr: [1, 2]}, run: 'x ${{ lr }}', outputs: [o]}\n";
        assert_eq!(warnings(&text(&format!("{data}  a: {{matrix: {{lr: [1, 2]}}, {read}}}\n"))), "", "{read}");
    }
}

/// The messages about a workflow.
fn wrong(text: &str, set: &[&str]) -> String {
    let said = |wrong: Vec<Diagnostic>| shown(text, &wrong);
    expand_on(text, &machine(0), None, set).map(drop).map_err(said).err().unwrap_or_default()
}

#[test]
fn what_is_set_and_not_read_is_refused() {
    let text = "flow: 1\nparams: {lr: 0.1, lrs: [1], unread: 1, opt: {momentum: 0.9, nesterov: true}, whole: {a: 1}}\nsteps:\n  a: {run: 'x ${{ lr }} ${{ lrs }} ${{ opt.momentum }} ${{ whole | tojson }}'}\n";
    for (set, expected) in [
        ("unread=2", "-: `--set unread=2`: nothing in the workflow reads `unread`"),
        ("opt.mom=1", "-: `--set opt.mom=1`: the workflow has no parameter `opt.mom`; did you mean `opt.momentum`?"),
        (
            "opt={mom: 1}",
            "-: `--set opt={mom: 1}`: nothing in the workflow reads `opt.mom`; did you mean `opt.momentum`?",
        ),
        ("opt.nesterov=false", "-: `--set opt.nesterov=false`: nothing in the workflow reads `opt.nesterov`"),
        ("lrx=1", "-: `--set lrx=1`: the workflow has no parameter `lrx`; did you mean `lr`?"),
    ] {
        let said = wrong(text, &[set]);
        assert!(said.starts_with(expected), "{set}: {said}");
    }
    let named = "flow: 1\nparams: {opt: {lr: 1}, unread: 1}\nsteps:\n  a: {run: '${{ dict(opt=opt.lr, unread=3) | tojson if opt.lr == 1 }}'}\n";
    assert!(wrong(named, &["opt={momentum: 1}"]).contains("nothing in the workflow reads `opt.momentum`"));
    assert!(wrong(named, &["unread=5"]).contains("nothing in the workflow reads `unread`"));
    assert_eq!(wrong(named, &["opt.lr=1"]), "");
    for set in ["lr=1", "lrs=[2]", "opt.momentum=1", "opt={momentum: 1}", "whole={b: 2}", "whole.a=3"] {
        assert_eq!(wrong(text, &[set]), "", "{set}");
    }
}

#[test]
fn an_axis_is_not_set_like_a_parameter() {
    let text = "flow: 1\nparams: {batches: [4]}\nsteps:\n  a: {matrix: {lr: [1, 2], batch: '${{ batches }}'}, run: 'x ${{ lr }} ${{ batch }}'}\n";
    for (set, expected) in [
        (
            "lr=3",
            "-: `--set lr=3`: `lr` is an axis of `a`, not a parameter; 'a[lr=3]' selects its instances with this value; for other values, write `params: {lrs: [3]}` and `matrix: {lr: \"${{ lrs }}\"}`; then --set 'lrs=[3]' replaces them",
        ),
        (
            "batch=8,16",
            "-: `--set batch=8,16`: `batch` is an axis of `a`, not a parameter; --set 'batches=[8,16]' replaces its values",
        ),
    ] {
        assert_eq!(wrong(text, &[set]).trim(), expected, "{set}");
    }
}

#[test]
fn a_matrix_has_points_more_and_less() {
    let labels = |matrix: &str| {
        let text = format!(
            "flow: 1\nsteps:\n  a: {{matrix: {matrix}, run: 'x ${{{{ os | default(0) }}}} ${{{{ bs | default(0) }}}} ${{{{ extra | default(0) }}}}'}}\n"
        );
        let text = if matrix.contains("extra") { text } else { text.replace(" ${{ extra | default(0) }}", "") };
        let e = expand_on(&text, &machine(0), None, &[]).unwrap_or_else(|wrong| panic!("{}", shown(&text, &wrong)));
        let labels: Vec<String> = e.instances.iter().map(|i| i.label[1..].to_owned()).collect();
        (labels.join(" "), command(&e, e.instances.len() as u32 - 1))
    };
    for (matrix, expected, last) in [
        (
            "{os: [a, b], bs: [1, 2], exclude: [{os: a, bs: 1}], include: [{os: c, bs: 9}]}",
            "[os=a,bs=2] [os=b,bs=1] [os=b,bs=2] [os=c,bs=9]",
            "x c 9",
        ),
        ("{os: [a, b], bs: [1, 2], exclude: [{os: a}]}", "[os=b,bs=1] [os=b,bs=2]", "x b 2"),
        ("{os: [a, b], bs: [1], include: [{os: a, extra: 5}]}", "[os=a,bs=1,extra=5] [os=b,bs=1]", "x b 1 0"),
        (
            "{os: [a], bs: [1, 2], include: [{extra: 5}, {extra: 6, bs: 2}]}",
            "[os=a,bs=1,extra=5] [os=a,bs=2,extra=6]",
            "x a 2 6",
        ),
        ("{os: [a], bs: [1], include: [{os: b}, {os: b, bs: 1}, {os: b}]}", "[os=a,bs=1] [os=b] [os=b,bs=1]", "x b 1"),
        ("{include: [{os: a, bs: 1}, {os: b, bs: 2}]}", "[os=a,bs=1] [os=b,bs=2]", "x b 2"),
        ("{os: [a, b], bs: ['${{ 1 + 1 }}', 1.0], exclude: [{bs: 2.0, os: b}, {bs: 1}]}", "[os=a,bs=2]", "x a 2"),
    ] {
        assert_eq!(labels(matrix), (expected.to_owned(), last.to_owned()), "{matrix}");
    }
}

#[test]
fn points_of_two_steps_agree() {
    let text = "flow: 1\nsteps:\n  a: {matrix: {os: [a, b], bs: [1, 2], exclude: [{os: a, bs: 1}], include: [{os: c, bs: 9}]}, run: 'x ${{ os }} ${{ bs }}', outputs: [o]}\n  b: {matrix: {os: [a, b, c]}, run: 'x ${{ os }} ${{ steps.a | length }}'}\n";
    let e = expand_on(text, &machine(0), None, &[]).expect("a workflow");
    let needs = |label: &str| {
        let instance = e.instances.iter().find(|i| *i.label == *label).expect(label);
        let of = |need: &flow_core::Need| e.instances[need.on.index()].label.to_string();
        instance.needs.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(needs("b[os=a]"), ["a[os=a,bs=2]"]);
    assert_eq!(needs("b[os=b]"), ["a[os=b,bs=1]", "a[os=b,bs=2]"]);
    assert_eq!(needs("b[os=c]"), ["a[os=c,bs=9]"]);
}
