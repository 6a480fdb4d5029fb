//! `flow view` says what it cannot show. The page itself has its tests in `flow-view`.

use crate::space;

#[test]
fn what_is_not_there_is_named() {
    let space = space();
    let fails = |arguments: &[&str], why: &str| {
        let said = space.flow(arguments).expect(2).stderr();
        assert!(said.contains(why), "{said}");
    };
    fails(&["view"], "nothing has run here yet");
    fails(&["view", "h200.bundle"], "there is no bundle `h200.bundle`");
    fails(&["view", "runs/h200"], "there is no bundle `runs/h200`");
    space.write("w.yaml", "flow: 1\nname: w\nsteps: {a: {run: 'true'}}\n");
    space.flow(["run", "w.yaml"]).expect(0);
    fails(&["view", "zzzz"], "there is no run `zzzz`");
    fails(&["view", "--port", "70000"], "70000");
}
