//! Secrets of steps on Slurm: on a disk only from asking for the job until the step has begun, and for nobody but their owner.

use std::{fs, os::unix::fs::MetadataExt, path::PathBuf};

use flow_testkit::until;
use nix::sys::signal::Signal;

use super::Lab;

/// Files that hold it.
fn with_the_secret(lab: &Lab) -> Vec<PathBuf> {
    let holds = |file: &PathBuf| {
        let bytes = fs::read(file).unwrap_or_default();
        bytes.windows(21).any(|part| part == b"correct-horse-battery")
    };
    let files = [lab.space.path("."), lab.cluster.folder().to_owned()];
    files.iter().flat_map(|folder| flow_testkit::files_below(folder)).filter(holds).collect()
}

#[test]
#[ignore = "needs Slurm"]
fn a_secret_is_on_no_disk_before_its_job_is_written_down() {
    let step = |name: &str, cpus: u32| format!("\n  {name}: {{cpus: {cpus}, run: 'echo $TOKEN', secrets: [TOKEN]}}");
    let mut lab = Lab::new(1, 0, &[step("a", 1), step("b", 2), step("c", 3)].concat());
    lab.space.env("TOKEN", "correct-horse-battery");
    let limit = "AssocMaxSubmitJobLimit: Job violates accounting/QOS policy";
    let full = lab.space.path("full").display().to_string();
    let script =
        format!("[ -e {full} ] || PATH=${{PATH#*:}} exec sbatch \"$@\"\necho 'sbatch: error: {limit}' >&2; exit 1\n");
    lab.first_on_the_path("sbatch", &format!("#!/bin/sh\n{script}"));
    lab.space.write("full", "");
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("they wait for room", || flow.output().contains("Slurm accepts no more of your jobs for now"));
    assert_eq!(with_the_secret(&lab).len(), 1, "of the one that was asked for");
    flow.kill();
    fs::remove_file(lab.space.path("full")).unwrap();
    lab.space.flow(["run", "w.yaml"]).expect(0);
    assert_eq!(with_the_secret(&lab), Vec::<PathBuf>::new());
}

#[test]
#[ignore = "needs Slurm"]
fn a_secret_is_on_no_disk_when_its_step_was_cancelled_before_it_began() {
    let mut lab = Lab::new(1, 0, "\n  asks: {matrix: {n: [1, 2]}, run: 'echo $TOKEN', secrets: [TOKEN]}\n");
    lab.space.env("TOKEN", "correct-horse-battery");
    lab.scontrol(["update", "nodename=node1", "state=drain", "reason=test"]);
    let waits = || {
        let flow = lab.space.start(["run", "w.yaml"]);
        until("both wait", || lab.queue().lines().count() == 2);
        let modes = with_the_secret(&lab).iter().map(|file| fs::metadata(file).unwrap().mode() & 0o777).collect();
        assert_eq!((modes, lab.queue().lines().count()), (vec![0o600, 0o600], 2));
        flow
    };
    let mut flow = waits();
    flow.signal(Signal::SIGINT);
    assert_eq!(flow.wait().code(), Some(130), "{}", flow.output());
    assert_eq!(with_the_secret(&lab), Vec::<PathBuf>::new(), "after Ctrl-C");
    waits().kill();
    lab.space.flow(["cancel"]).expect(0);
    assert_eq!(with_the_secret(&lab), Vec::<PathBuf>::new(), "of a killed run, after `flow cancel`");
    waits().kill();
    lab.space.write("w.yaml", &lab.space.read("w.yaml").replace("[1, 2]", "[3]"));
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("the third waits alone", || flow.output().contains("queued") && lab.queue().lines().count() == 1);
    assert_eq!(with_the_secret(&lab).len(), 1, "of those that an edit made useless");
    flow.kill();
}
