//! Texts and numbers on their way from the file and the command line to a command.

use std::collections::BTreeMap;

use flow_core::{Body, Expansion, InstanceId, Render, StepResult};

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
fn whole_numbers_print_without_point_or_exponent() {
    for (run, expected) in [
        ("${{ total }}", "100000"),
        ("${{ 10 / 2 }} ${{ half * 2 }} ${{ 7 / 2 }}", "5 1 3.5"),
        ("${{ total | sh }} ${{ many }} ${{ many | join(' ') }}", "100000 [1000,2.5] 1000 2.5"),
        ("${{ total ~ 'k' }} ${{ (10 / 2) ~ 'k' }} ${{ 1e3 | string }}", "100000k 5k 1000"),
        (
            "${{ big }} ${{ '%.1f' | format(total) }} ${{ [1e2, {'a':1e2}] }}",
            "1000000000000000000 100000.0 [100,{\"a\":100}]",
        ),
    ] {
        let params = "{total: 1e5, many: [1e3, 2.5], half: 0.5, big: 1e18}";
        let text = format!("flow: 1\nparams: {params}\nsteps:\n  a:\n    run: x {run}\n");
        assert_eq!(printed(&text, &[]), Ok(format!("x {expected}")), "{run}");
    }
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
    assert!(said.contains("`lr=1` stands twice"), "{said}");
}
