//! `flow status --watch`: on a terminal a list that changes in place, elsewhere lines, until the run ends.

use std::{fs::File, io::Read, os::fd::OwnedFd, sync::mpsc, thread};

use flow_testkit::{TestSpace, until};
use nix::{pty::PtyMaster, sys::signal::Signal};

use crate::space;

/// A run in the background that waits for the file `go`: `first` of two instances, and `last` after them.
fn begin(space: &TestSpace) {
    let go = space.path("go");
    let wait = format!(
        "for i in 1 2 3; do echo \"epoch $i: loss 0.$i\"; done; while [ ! -e {} ]; do sleep 0.05; done\n",
        go.display()
    );
    space.write("wait.sh", &wait);
    space.write(
        "long.yaml",
        "flow: 1\nname: long\nsteps:\n  first: {matrix: {n: [1, 2]}, run: sh wait.sh, inputs: [wait.sh], metrics: {stdout: \
         'epoch {epoch}: loss {loss}'}}\n  last: {run: 'true', needs: [first]}\n",
    );
    space.flow(["run", "long.yaml", "--detach"]).expect(0);
    until("the steps run", || space.flow(["status"]).expect(0).stdout().contains("running"));
}

/// All that a terminal was told, once nobody holds it.
fn screen(terminal: PtyMaster) -> mpsc::Receiver<String> {
    let (told, said) = mpsc::channel();
    thread::spawn(move || {
        let mut master = File::from(OwnedFd::from(terminal));
        let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(n @ 1..) = master.read(&mut buffer) {
            all.extend_from_slice(&buffer[..n]);
        }
        told.send(String::from_utf8_lossy(&all).into_owned())
    });
    said
}

/// The lines without their styles and movements.
fn lines(screen: &str) -> Vec<String> {
    let mut out = String::new();
    for (at, part) in screen.split("\u{1b}[").enumerate() {
        let end =
            if at == 0 { 0 } else { part.find(|c: char| c.is_ascii_alphabetic()).map_or(part.len(), |end| end + 1) };
        out.push_str(&part[end..]);
    }
    out.lines().map(|line| line.trim_end_matches('\r').to_owned()).collect()
}

#[test]
fn on_a_terminal_a_list_changes_in_place_until_the_run_ends() {
    let space = space();
    begin(&space);
    let (mut flow, terminal) = space.start_on_terminal(["status", "--watch"]);
    let said = screen(terminal);
    thread::sleep(std::time::Duration::from_secs(2));
    assert!(flow.is_alive());
    space.write("go", "");
    assert_eq!(flow.wait().code(), Some(0));
    drop(flow);
    let said = said.recv().expect("its words");
    let lines = lines(&said);
    assert!(lines[0].starts_with("long run "), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("first[n=1]") && line.contains("epoch 3")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("0 of 3 instances")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("done: 3 ran")), "{lines:#?}");
    let wide = lines.iter().find(|line| line.chars().count() > 80 && !line.starts_with("long run "));
    assert_eq!(wide, None, "a terminal without a size has 80 columns");
    assert!(said.contains("\u{1b}[2K"), "lines are drawn in place: {said:?}");
    // Two seconds without news are few frames, and each writes only its clocks.
    assert!(said.matches("instances ·").count() < 12, "{said}");
}

#[test]
fn ctrl_c_ends_the_watching_and_not_the_run() {
    let space = space();
    begin(&space);
    let mut flow = space.start(["status", "--watch"]);
    until("it shows the run", || flow.output().contains("running"));
    flow.signal(Signal::SIGINT);
    flow.wait();
    assert!(space.flow(["status"]).expect(0).stdout().contains("running"));
    space.write("go", "");
    until("the run ends", || space.alive().is_empty());
    let ended = space.flow(["status", "--watch"]).expect(0).stdout();
    assert!(ended.starts_with("done: 3 ran"), "the last run, as without --watch: {ended}");
}

#[test]
fn elsewhere_it_prints_the_state_and_then_a_line_per_change() {
    let space = space();
    begin(&space);
    let mut flow = space.start(["status", "--watch"]);
    until("it shows the run", || flow.output().contains("running"));
    space.write("go", "");
    assert_eq!(flow.wait().code(), Some(0));
    let said = flow.output();
    assert!(!said.contains('\u{1b}'), "{said:?}");
    let places = ["long run ", "0 of 3 instances", "running  first[n=1]", "done           first[n=1]", "done: 3 ran"];
    let places = places.map(|part| said.find(part).unwrap_or_else(|| panic!("{part}: {said}")));
    assert!(places.is_sorted(), "{said}");
    assert!(!said.contains("started        first"), "it began before: {said}");
}
