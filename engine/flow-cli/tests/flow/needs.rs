//! What is said of steps that come after others without reading anything of them.

use crate::space;

#[test]
fn that_a_step_does_not_follow_what_it_only_comes_after_is_said_where_it_happens() {
    let space = space();
    let workflow = |plot: &str| {
        let steps = format!(
            "  train: {{run: cp x.txt o.txt, inputs: [x.txt], outputs: [o.txt]}}\n  plot: {{matrix: {{n: [1, 2]}}, run: '{plot}', needs: [train]}}\n"
        );
        space.write("w.yaml", &format!("flow: 1\nname: w\nsteps:\n{steps}"));
    };
    let told = |args: &[&str]| {
        let text = space.flow(args).expect(0).text();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let count = words.matches("`plot` reads nothing of `train` through flow").count();
        assert!(count == 0 || words.contains("with `${{ steps.train.out }}` in it"), "{text}");
        count
    };
    workflow("echo ${{ n }}");
    space.write("x.txt", "1");
    assert_eq!(told(&["plan", "w.yaml"]), 0, "it never ran");
    assert_eq!(told(&["run", "w.yaml", "-v"]), 0, "both ran");
    assert_eq!((told(&["plan"]), told(&["why", "plot"])), (0, 1), "nothing runs");
    space.write("x.txt", "2");
    assert_eq!((told(&["plan"]), told(&["why", "plot"])), (1, 1));
    assert_eq!(told(&["run", "w.yaml", "-v"]), 1);
    assert_eq!(space.ran(), ["train"]);
    space.write("x.txt", "3");
    assert_eq!(told(&["run", "w.yaml"]), 0, "in short nothing is said of it");
    workflow("echo ${{ n }} ${{ steps.train.out }}");
    space.flow(["run", "w.yaml"]).expect(0);
    space.write("x.txt", "4");
    assert_eq!((told(&["plan"]), told(&["why", "plot"]), told(&["run", "w.yaml", "-v"])), (0, 0, 0));
    assert_eq!(space.ran().len(), 3);
}
