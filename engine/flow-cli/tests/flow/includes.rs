//! A workflow in several files: what is run, what is run again, and what is said.

use crate::space;

const COMMON: &str = "flow: 1\nparams: {word: hello}\nsteps:\n  data:\n    run: 'cat word.txt > data.txt; echo ${{ word }} >> data.txt'\n    \
     inputs: [word.txt]\n    outputs: [data.txt]\n";
const OWN: &str =
    "flow: 1\nname: lab\ninclude: ../parts/common.yaml\nsteps:\n  count: {run: 'wc -w < ${{ steps.data.out }}'}\n";

#[test]
fn a_step_is_the_same_in_whatever_file_it_stands() {
    let space = space();
    space.write("parts/common.yaml", COMMON).write("lab/w.yaml", OWN);
    // Inputs lie beside the workflow that is run.
    space.write("lab/word.txt", "one two");
    let said = space.flow(["run", "lab/w.yaml"]).expect(0).text();
    assert!(said.contains("2 ran"), "{said}");
    // Times of files that were written just now are not believed yet.
    let soon = (0..50).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        space.flow(["run", "lab/w.yaml"]).expect(0).text().contains("nothing to do")
    });
    assert!(soon, "a look at files is enough");
    // In the included file something changes, as in any other.
    space.write("parts/common.yaml", &COMMON.replace("hello", "bye"));
    let plan = space.flow(["plan", "-w", "lab/w.yaml"]).expect(0).text();
    assert!(plan.contains("data") && !plan.contains("nothing to do"), "{plan}");
    space.flow(["run", "lab/w.yaml"]).expect(0);
    // Moved into the workflow itself it is what it was.
    let (head, steps) = COMMON.split_once("steps:\n").expect("steps");
    let own = OWN.replace("steps:\n", &format!("steps:\n{steps}"));
    space.write("parts/common.yaml", &head.replace("hello", "bye"));
    space.write("lab/w.yaml", &own);
    let said = space.flow(["run", "lab/w.yaml"]).expect(0).text();
    assert!(said.contains("nothing to do") || said.contains("2 cached"), "{said}");
}
