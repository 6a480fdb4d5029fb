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
