//! Files that a user names and that are no text: refused in words, and nobody waits for them.

use std::{fs, os::unix::fs::symlink};

use crate::space;

#[test]
fn a_file_that_is_no_text_is_refused_in_words_and_holds_nothing_up() {
    let space = space();
    nix::unistd::mkfifo(&space.path("pipe.yaml"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    symlink("/dev/zero", space.path("device.yaml")).unwrap();
    fs::File::create(space.path("large.yaml")).unwrap().set_len(10 << 30).unwrap();
    let kinds = [("pipe.yaml", "a pipe"), ("device.yaml", "a device"), ("large.yaml", "it has 10.0 GiB")];
    for (file, what) in kinds {
        let asked: [&[&str]; 2] = [&["check", file], &["simulate", "--gpus", "1x1", "--trace", file]];
        for args in asked {
            let mut flow = space.start(args);
            assert_eq!(flow.wait().code(), Some(2), "{args:?}: {}", flow.output());
            assert!(flow.output().contains(what), "{args:?}: {}", flow.output());
        }
    }
    // Nor does what a published report stands on.
    let steps = "one: {run: echo loss 3, metrics: {stdout: 'loss {loss}'}}\n  t: {uses: flow/table, with: {from: one, columns: [loss]}}\n  r: {uses: flow/report, with: {sections: [{table: t}]}}";
    space.write("r.yaml", &format!("flow: 1\nname: r\nsteps:\n  {steps}\npublish: [{{from: r, to: pipe.md}}]\n"));
    nix::unistd::mkfifo(&space.path("pipe.md"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut flow = space.start(["run", "r.yaml"]);
    assert_eq!(flow.wait().code(), Some(1), "{}", flow.output());
    assert!(
        flow.output().contains("not published `pipe.md`: it is not a regular file, but a pipe"),
        "{}",
        flow.output()
    );
}
