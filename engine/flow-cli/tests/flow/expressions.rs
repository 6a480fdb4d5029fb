//! Expressions that cannot be computed: an error with its place. In the middle of a run it is one
//! step's, and the others go on.

use flow_core::reason::Cause;

use crate::space;

#[test]
fn an_expression_beyond_bounds_fails_its_step_alone() {
    let space = space();
    let workflow = r#"
flow: 1
name: wild
steps:
  numbers: {run: "echo '{\"zero\": 0, \"many\": 3000000000, \"ten\": 10}' > m.json", metrics: {json: m.json}}
  division: {run: "echo ${{ steps.numbers.metrics.ten | int is divisibleby(steps.numbers.metrics.zero | int) }}"}
  repeated: {run: "echo ${{ 'a' * (steps.numbers.metrics.many | int) }}"}
  after: {run: "echo ${{ steps.numbers.metrics.ten * 2 }} > out.txt", outputs: [out.txt]}
"#;
    space.write("wild.yaml", workflow);
    let run = space.flow(["run", "wild.yaml", "-k"]).expect(1);
    let said = format!("{}{}", run.stdout(), run.stderr());
    assert!(!said.contains("panicked") && !said.contains("RUST_BACKTRACE"), "{said}");
    let events = space.journal();
    let recorded: Vec<_> = events.iter().filter(|line| line["event"] == "recorded").collect();
    assert_eq!(recorded.len(), 2, "{events:#?}");
    let causes = events.iter().filter_map(|line| serde_json::from_value::<Cause>(line["cause"].clone()).ok());
    let said = |cause| match cause {
        Cause::Unresolved { error } => format!("{error}\n"),
        other => panic!("{other:?}"),
    };
    let causes: String = causes.map(said).collect();
    for words in [
        "wild.yaml:6:29): it cannot be computed: attempt to calculate the remainder with a divisor of zero",
        "wild.yaml:7:29): repeated string is too large",
    ] {
        assert!(causes.contains(words), "{words}: {causes}");
    }
    let again = space.flow(["run", "wild.yaml", "-k"]).expect(1);
    assert!(again.stdout().contains("cached") || again.stderr().contains("cached"), "{}", again.stdout());
}

#[test]
fn a_whole_number_of_a_result_is_written_as_one() {
    let space = space();
    let said = "-${{ m.level }} ${{ m.half }} ${{ m.level / 2 }} ${{ m.level * m.half }} ${{ '%.2f' | format(m.level) }} ${{ m.level | round(1) }} ${{ m.big }}";
    let workflow = r#"
flow: 1
steps:
  best: {run: "echo '{\"level\": 9.0, \"half\": 0.5, \"big\": 1e300}' > m.json", metrics: {json: m.json}}
  next: {run: "echo SAID > said.txt", outputs: [said.txt]}
"#;
    space.write("w.yaml", &workflow.replace("SAID", &said.replace("m.", "steps.best.metrics.")));
    space.flow(["run", "w.yaml"]).expect(0);
    space.flow(["get", "next", "--to", "said.txt"]).expect(0);
    assert_eq!(space.read("said.txt"), "-9 0.5 4.5 4.5 9.00 9 1e+300\n");
}

#[test]
fn an_expression_too_deep_is_told_at_planning() {
    let space = space();
    for (expression, words) in [
        ("1+".repeat(200_000) + "1", "more than 250 operators"),
        ("(".repeat(20_000), "more than 250 operators"),
        ("not ".repeat(10_000) + "true", "more than 250 operators"),
    ] {
        space.write("deep.yaml", &format!("flow: 1\nsteps:\n  a: {{run: x, when: '{expression}'}}\n"));
        let check = space.flow(["check", "deep.yaml"]).expect(2);
        let said = check.stderr().to_owned();
        assert!(said.contains(words) && said.contains("deep.yaml:3"), "{said:.2000}");
    }
}
