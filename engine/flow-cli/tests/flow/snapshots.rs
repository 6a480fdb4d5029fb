//! What stood for an instance in the run before stands without a look at it. That is to be what a look at everything says:
//! `flow plan` looks at everything, and so does a run without a snapshot.

use std::{collections::BTreeMap, fs};

use flow_testkit::{TestSpace, files_below};
use serde_json::Value;

use crate::space;

/// Steps that read all of what another made, one of it, how much there is of it, its numbers, or nothing; and what reads those.
const WORKFLOW: &str = r#"flow: 1
name: w
params: {word: a}
steps:
  make:
    matrix: {n: [0, 1, 2, 3]}
    run: cp from/${{ n }} made; echo loss $(cat made)
    inputs: ["from/${{ n }}"]
    outputs: [made]
    metrics: {stdout: 'loss {loss}'}
  more: {matrix: {n: [0, 1, 2, 3]}, run: 'cat ${{ steps.make.out }} > more; echo ${{ word }}', outputs: [more]}
  count: {run: 'echo ${{ steps.make | length }} of ${{ steps.make | map(attribute="axes") | map(attribute="n") | join }}'}
  first: {run: 'cat ${{ (steps.make | where(n=0)).out }} > first', outputs: [first]}
  all: {run: 'cat ${{ steps.more | map(attribute="out") | join(" ") }} > all', outputs: [all]}
  best: {run: 'echo ${{ steps.make | map(attribute="metrics") | map(attribute="loss") | max }}'}
  behind: {run: cat tree/*, inputs: [tree], needs: [count, best]}
  sizes: {run: ls tree, inputs: [{path: tree, by: listing}], needs: [behind]}
  table: {uses: flow/table, with: {from: make, rows: n, columns: [loss]}}
  report: {uses: flow/report, with: {sections: [{table: table}]}}
publish: [{from: report, to: report.md}]
"#;

/// What was planned of each instance, with the reasons.
fn planned<'l>(lines: impl IntoIterator<Item = &'l Value>) -> BTreeMap<String, Value> {
    let instances = lines.into_iter().filter(|line| line["event"] == "instance");
    instances.map(|line| (line["label"].as_str().unwrap().to_owned(), line["plan"].clone())).collect()
}

/// Under which fingerprint each instance has its result, by the newest journal.
fn fingerprints(space: &TestSpace) -> BTreeMap<u64, String> {
    let journal = space.journal();
    let results = journal.iter().filter_map(|line| {
        let result = if line["event"] == "recorded" { &line["result"] } else { line };
        Some((line["instance"].as_u64()?, result["fingerprint"].as_str()?.to_owned()))
    });
    results.collect()
}

/// Does something to the space, and says what.
fn edit(space: &TestSpace, random: &mut fastrand::Rng) -> String {
    let n = random.u32(..4);
    match random.u32(..11) {
        // Of a few contents, so that some are as they were once.
        0..=3 => _ = space.write(format!("from/{n}"), &random.u32(..4).to_string()),
        4 => _ = space.write(format!("tree/{n}"), &random.u32(..3).to_string()),
        5 => {
            let command = ["echo of", "echo in", "echo at"][random.usize(..3)];
            space.write("w.yaml", &WORKFLOW.replace("echo ${{ word", &format!("{command} ${{{{ word")));
        }
        6 => _ = space.flow(["forget", &format!("make[n={n}]")]).expect(0),
        7 => {
            // As somebody may who makes room by hand.
            let objects: Vec<_> = files_below(&space.path(".flow/objects"));
            let object = &objects[random.usize(..objects.len())];
            fs::remove_file(object).unwrap();
            return format!("removed {}", object.display());
        }
        8 => _ = space.flow(["run", "w.yaml", "first", "sizes"]).expect(0),
        9 => {
            let other =
                WORKFLOW.replace("name: w", "name: other").replace("  more:", "  extra: {run: date +%N}\n  more:");
            space.write("other.yaml", &other).flow(["run", "other.yaml", "--no-publish"]).expect(0);
        }
        _ => _ = space.flow(["gc", "--runs", "1", "--days", "0"]).expect(0),
    }
    String::new()
}

#[test]
fn what_stands_is_what_a_look_at_everything_says() {
    let space = space();
    space.write("w.yaml", WORKFLOW);
    (0..4).for_each(|n| _ = space.write(format!("from/{n}"), "0").write(format!("tree/{n}"), "0"));
    space.flow(["run", "w.yaml"]).expect(0);
    let mut trusted = 0;
    for round in 0..8 {
        let mut random = fastrand::Rng::with_seed(round);
        let said = edit(&space, &mut random);
        let set = ["word=a", "word=b"][usize::from(random.u32(..6) == 0)];
        let plan = space.flow(["plan", "w.yaml", "--set", set, "--json"]).expect(0).stdout();
        let plan: Vec<Value> = plan.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let ran = space.flow(["run", "w.yaml", "--set", set, "--publish"]).expect(0).text();
        if !ran.contains("nothing to do") {
            trusted += 1;
            assert_eq!(planned(&space.journal()), planned(&plan), "round {round}: {said}\n{ran}");
        }
        let stood = fingerprints(&space);
        fs::remove_dir_all(space.path(".flow/snapshots")).unwrap();
        let again = space.flow(["run", "w.yaml", "--set", set, "--publish"]).expect(0).text();
        assert!(again.contains(" 0 ran") || !again.contains(" ran in "), "round {round}: {said}\n{ran}\n{again}");
        assert_eq!(fingerprints(&space), stood, "round {round}: {said}\n{ran}\n{again}");
    }
    assert!(trusted > 1, "{trusted}");
}
