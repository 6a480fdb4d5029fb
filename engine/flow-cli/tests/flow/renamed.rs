//! Steps that do under another name what was done before.

use crate::space;

#[test]
fn a_step_that_was_renamed_is_expected_by_the_results_that_it_still_has() {
    let space = space();
    let sweep = |step: &str, batches: &str| {
        let run = "sleep 0.3; echo ${{ batch }}";
        format!("flow: 1\nname: w\nsteps:\n  {step}: {{matrix: {{batch: [{batches}]}}, run: '{run}'}}\n")
    };
    space.write("w.yaml", &sweep("train", "16, 32"));
    space.flow(["run", "w.yaml"]).expect(0);
    space.write("w.yaml", &sweep("learn", "16, 32, 64"));
    let plan = space.flow(["plan", "w.yaml"]).expect(0).stdout();
    assert!(plan.contains("cached") && !plan.contains("never ran"), "{plan}");
    for (point, samples) in [("learn[batch=16]", 1), ("learn[batch=64]", 2), ("learn/batch=24", 2)] {
        let told = space.flow(["predict", point, "--json"]).expect(0).stdout();
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["samples"], samples, "{told}");
        assert!(told["wall_s"].as_f64().is_some_and(|wall| wall >= 0.2), "{told}");
    }
    space.flow(["run", "w.yaml"]).expect(0);
    let told = space.flow(["predict", "learn/batch=24", "--json"]).expect(0).stdout();
    assert!(told.contains("\"samples\":3"), "also when it ran under its new name: {told}");
}
