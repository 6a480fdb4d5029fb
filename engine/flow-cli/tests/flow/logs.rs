//! Logs stay within their bounds, and are read where they stand.

use std::{fs, os::unix::fs::MetadataExt, process::Command};

use flow_testkit::{files_below, until};

use crate::space;

#[test]
fn a_program_that_prints_and_prints_keeps_to_the_bounds_of_its_log() {
    let space = space();
    let line = "x".repeat(4000);
    let run = format!("echo first; (yes {line} || true) | head -c 400000000; echo; echo last; sleep 1");
    space.write("w.yaml", &format!("flow: 1\nsteps: {{a: {{run: '{run}'}}}}\n"));
    let mut flow = space.start(["run", "w.yaml"]);
    until("it has printed all", || !flow.is_alive());
    assert!(flow.wait().success(), "{}", flow.output());
    let log = files_below(&space.path(".flow/runs")).into_iter().find(|file| file.ends_with("log")).unwrap();
    let meta = fs::metadata(&log).unwrap();
    assert!(meta.len() > 400_000_000, "{}", meta.len());
    space.write("probe", "x");
    let punch = ["--punch-hole", "--offset", "0", "--length", "1", "probe"];
    if !Command::new("fallocate").args(punch).current_dir(space.path("")).status().is_ok_and(|status| status.success())
    {
        eprintln!("skipped: this file system gives nothing back");
        return;
    }
    assert!(meta.blocks() * 512 < (64 + 192 + 64) << 20, "{}", meta.blocks());
    let said = space.flow(["logs", "a"]).expect(0);
    let text = String::from_utf8_lossy(said.raw());
    assert!(text.starts_with("first\n") && text.ends_with("\nlast\n"));
    assert_eq!(text.matches("MiB are missing here: flow keeps the first 64 MiB and the last 192 MiB").count(), 1);
    assert!(!text.contains('\0'), "nothing that was left out is printed");
    drop(said);
    let followed = space.flow(["logs", "a", "-f"]).expect(0);
    let text = String::from_utf8_lossy(followed.raw());
    assert!(text.contains("are missing here") && text.ends_with("\nlast\n") && !text.contains('\0'));
}

#[test]
fn all_attempts_of_a_run_are_followed() {
    let space = space();
    let run = "test -e $HOME/again && echo second || { touch $HOME/again; echo first; exit 1; }";
    space.write("w.yaml", &format!("flow: 1\nsteps: {{a: {{run: '{run}', retries: 1}}}}\n"));
    space.flow(["run", "w.yaml"]).expect(0);
    assert_eq!(space.flow(["logs", "a", "-f"]).expect(0).stdout(), "first\nsecond\n");
}
