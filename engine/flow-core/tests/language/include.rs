//! What a workflow includes: whose parts are whose, and what is said where that cannot be told.

use std::collections::BTreeMap;

use flow_core::{Diagnostic, Expansion, Source, Workflow, parse_with};

use super::{expand_workflow, machine};

/// Files by path, of which the first is the workflow.
fn read(files: &[(&str, &str)]) -> Result<Workflow, Vec<Diagnostic>> {
    let all: BTreeMap<&str, &str> = files.iter().copied().collect();
    let (path, text) = files[0];
    let source = Source { path: path.into(), text: text.into() };
    parse_with(&source, &mut |path| {
        let text = all.get(path).map(|text| (*text).to_owned());
        text.ok_or_else(|| Diagnostic::new(format!("there is no file `{path}`")).help("look again"))
    })
}

fn expand(files: &[(&str, &str)]) -> Result<Expansion, Vec<Diagnostic>> {
    expand_workflow(&read(files)?, &machine(2), None, &[])
}

/// Each with its file, line and column.
fn said(files: &[(&str, &str)]) -> String {
    let wrong = expand(files).expect_err("something wrong");
    let line = |d: &Diagnostic| {
        let main = Source { path: files[0].0.into(), text: files[0].1.into() };
        let source = d.source.as_deref().unwrap_or(&main);
        let (line, column) = d.line_column(&source.text).unwrap_or_default();
        format!("{}:{line}:{column}: {d}", source.path)
    };
    wrong.iter().map(line).collect::<Vec<_>>().join("\n")
}

const COMMON: &str = "flow: 1\nparams: {epochs: 3}\nsteps:\n  data: {run: echo 1 > d, outputs: [d]}\n";

#[test]
fn parts_of_included_files_are_parts_of_the_workflow() {
    let workflow = "flow: 1\nname: own\ninclude: parts/common.yaml\nsteps:\n  train: {run: 'cat ${{ steps.data.out }} ${{ epochs }}', inputs: [here.txt]}\n";
    let split = expand(&[("lab/w.yaml", workflow), ("lab/parts/common.yaml", COMMON)]).expect("a workflow");
    let names: Vec<&str> = split.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!((split.workflow.as_str(), names), ("own", vec!["data", "train"]));
    // An include is a way to write it, and changes nothing of what it says.
    let whole = "flow: 1\nname: own\nparams: {epochs: 3}\nsteps:\n  data: {run: echo 1 > d, outputs: [d]}\n  train: {run: 'cat ${{ steps.data.out }} ${{ epochs }}', inputs: [here.txt]}\n";
    let whole = expand(&[("lab/w.yaml", whole)]).expect("a workflow");
    assert_eq!(format!("{:?}", split.instances), format!("{:?}", whole.instances));
    assert_eq!(split.params, whole.params);
}

#[test]
fn a_file_that_is_included_on_two_ways_counts_once() {
    let files = [
        ("w.yaml", "flow: 1\ninclude: [a/a.yaml, b.yaml]\n"),
        ("a/a.yaml", "flow: 1\ninclude: ../common.yaml\nsteps: {a: {run: a, needs: data}}\n"),
        ("b.yaml", "flow: 1\ninclude: [./common.yaml]\nsteps: {b: {run: b, needs: data}}\n"),
        ("common.yaml", COMMON),
    ];
    let names: Vec<String> = expand(&files).expect("a workflow").steps.iter().map(|step| step.name.clone()).collect();
    assert_eq!(names, ["data", "a", "b"]);
}

#[test]
fn what_is_wrong_is_said_where_it_stands() {
    let own = |text: &str| format!("flow: 1\ninclude: common.yaml\n{text}");
    let twice = own("params: {epochs: 4}\nsteps:\n  data: {run: echo}\n  more: {run: echo}\n");
    let told = [
        said(&[("w.yaml", &twice), ("common.yaml", COMMON)]),
        said(&[("lab/w.yaml", "flow: 1\ninclude:\n  - comon.yaml\nsteps: {a: {run: a}}\n")]),
        said(&[
            ("w.yaml", &own("steps: {a: {run: a}}\n")),
            ("common.yaml", "flow: 1\ntitle: Mine\nsteps:\n  b: {run: x, frob: 1}\n  c: {run: 'y ${{ oops }}'}\n"),
        ]),
        said(&[
            ("w.yaml", "flow: 1\ninclude: a.yaml\nsteps: {a: {run: a}}\n"),
            ("a.yaml", "flow: 1\n\ninclude: [b.yaml]\n"),
            ("b.yaml", "flow: 1\ninclude: a.yaml\n"),
        ]),
        said(&[("w.yaml", "flow: 1\ninclude: ./w.yaml\nsteps: {a: {run: a}}\n")]),
        said(&[("w.yaml", &own("")), ("common.yaml", "flow: 1\nparams: {x: 1}\n")]),
        said(&[("w.yaml", &own("")), ("common.yaml", "- a\n")]),
        said(&[("w.yaml", "flow: 1\ninclude: [/etc/common.yaml, 3]\nsteps: {a: {run: a}}\n")]),
        said(&[("w.yaml", "flow: 1\ninclude: '${{ x }}'\nsteps: {a: {run: a}}\n")]),
    ];
    insta::assert_snapshot!(told.join("\n\n"), @r"
    w.yaml:3:10: the parameter `epochs` is in two files: here and at common.yaml:2; rename or remove one of them: no file overrides another
    w.yaml:5:3: the step `data` is in two files: here and at common.yaml:4; rename or remove one of them: no file overrides another

    lab/w.yaml:3:5: there is no file `lab/comon.yaml`; look again

    common.yaml:2:1: `title` belongs into the workflow, not into a file that it includes; leave it out here
    common.yaml:4:15: a step has no key `frob`; there are `uses`, `run`, `shell`, `with`, `like`, `matrix`, `needs`, `when`, `inputs`, `outputs`, `metrics`, `gpus` and 18 more
    common.yaml:5:19: unknown name `oops`; there is `machine`

    b.yaml:2:10: the files include each other in a cycle: a.yaml:3 → b.yaml:2 → a.yaml; put the shared part into another file, and include that in each

    w.yaml:2:10: the files include each other in a cycle: w.yaml:2 → w.yaml; put the shared part into another file, and include that in each

    w.yaml:1:1: neither the file nor what it includes has `steps`

    common.yaml:1:1: the file is not a workflow: expected a mapping, `key: value`; `flow init` writes one to start from

    w.yaml:2:29: a value of `include` is the number 3: expected a text

    w.yaml:2:15: `include` takes no `${{ }}`: its value is plain
    ");
}
