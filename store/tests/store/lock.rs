//! Having a store alone: others wait or are told who has it, and a dead process has nothing. The other process is this test itself.

use std::{
    env,
    io::{BufRead, BufReader},
    ops::ControlFlow,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use flow_runs::{StoreDir, StoreError};
use flow_store::Store;

use crate::common::{me, open, scratch};

/// Not a test: has the store alone until it is killed.
#[test]
#[ignore = "run by the other tests"]
fn holder() {
    let Some(path) = env::var_os("STORE") else { return };
    let store = Store::open_alone(path.as_ref(), &me("flow run b.yaml"), |_| ControlFlow::Break(()));
    println!("\n{}", if store.is_ok() { "held" } else { "refused" });
    thread::sleep(Duration::from_secs(60));
}

fn other_process(dir: &std::path::Path) -> Child {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "lock::holder", "--ignored", "--nocapture"])
        .env("STORE", dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "held"));
    child
}

#[test]
fn a_second_process_is_told_who_holds_the_store() {
    let dir = scratch();
    let mut child = other_process(dir.path());
    let error = open(dir.path()).err().unwrap();
    let text =
        error.to_string().replace(&*dir.path().to_string_lossy(), "STORE").replace(&child.id().to_string(), "PID");
    insta::assert_snapshot!(text, @"the store `STORE` is in use by process PID (`flow run b.yaml`, run 20260208-153012-3f2a, since 15:30:12); wait for it, `flow cancel` it if it is yours, or choose another one with --store");
    let holder = StoreDir::existing(dir.path()).unwrap().unwrap().holder().unwrap().unwrap();
    assert_eq!((holder.process.pid, holder.doing.as_str()), (child.id(), "flow run b.yaml"));

    // Whoever waits gets it when the other is gone; and a killed one needs no help.
    let mut asked = 0;
    let store = Store::open(dir.path(), &me("flow run a.yaml"), |_| {
        asked += 1;
        if asked == 3 {
            child.kill().unwrap();
        }
        ControlFlow::Continue(())
    });
    assert!(store.is_ok() && asked >= 3, "{asked}");
    child.wait().unwrap();
}

#[test]
fn the_lock_of_a_dead_process_heals_without_a_question() {
    let dir = scratch();
    for _ in 0..5 {
        let mut child = other_process(dir.path());
        child.kill().unwrap();
        let begin = Instant::now();
        // The child may not even be reaped.
        assert!(open(dir.path()).is_ok(), "after {:?}", begin.elapsed());
        child.wait().unwrap();
    }
}

#[test]
fn a_store_given_back_has_no_holder() {
    let dir = scratch();
    let alone = || Store::open_alone(dir.path(), &me("flow gc"), |_| ControlFlow::Break(()));
    let store = open(dir.path()).unwrap();
    assert!(matches!(alone(), Err(StoreError::Held { .. })));
    let folder = store.dir().clone();
    assert_eq!(folder.holder().unwrap().unwrap().doing, "flow run a.yaml");
    drop(store);
    assert_eq!(folder.holder().unwrap(), None);
    let store = alone().unwrap();
    assert!(matches!(open(dir.path()), Err(StoreError::Held { holder, .. }) if holder.doing == "flow gc"));
    assert!(matches!(alone(), Err(StoreError::Held { .. })));
    drop(store);
    assert!(open(dir.path()).is_ok());
}
