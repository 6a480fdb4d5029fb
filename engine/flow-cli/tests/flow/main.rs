//! The real `flow`, end to end: what people rely on when it runs their experiments. One binary, for linking is slow.

mod accept;
mod artifacts;
mod audit;
mod bundle;
mod cache;
mod checkpoints;
mod cluster;
mod compared;
mod corun;
mod counted;
mod damage;
mod database;
mod declared;
mod detached;
mod diverged;
mod edits;
mod environments;
mod examples;
mod expressions;
mod faults;
mod gpus;
mod group;
mod hostile;
mod includes;
mod kill;
mod lies;
mod live_sources;
mod logs;
mod lost_gpus;
mod machine;
mod metrics;
mod needs;
mod out;
mod outside;
mod pages;
mod planned;
mod processes;
mod publish;
mod published;
mod reading;
mod reference;
mod renamed;
mod revision;
mod secrets;
mod served;
mod several;
mod sharing;
mod shell;
mod signals;
mod simulate;
mod slurm;
mod stands;
mod theirs;
mod together;
mod told;
mod torture;
mod trust;
mod unmeasured;
mod viewed;
mod watched;

use std::{
    cell::RefCell,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    thread,
};

use flow_testkit::TestSpace;

/// The machine: most tests wait more than they compute and share it. Tests that measure times or loads take it alone.
static MACHINE: RwLock<()> = RwLock::new(());

enum Hold {
    Shared(#[expect(dead_code, reason = "held until the thread of the test ends")] RwLockReadGuard<'static, ()>),
    Alone(#[expect(dead_code, reason = "held until the thread of the test ends")] RwLockWriteGuard<'static, ()>),
}

thread_local! {
    static HOLD: RefCell<Option<Hold>> = const { RefCell::new(None) };
}

/// One test of several cases, each in a workspace of its own and all at once: what waits, and computes next to nothing.
fn at_once<T: Send>(cases: impl IntoIterator<Item = T>, test: impl Fn(T) + Sync) {
    let test = &test;
    thread::scope(|all| cases.into_iter().for_each(|case| _ = all.spawn(move || test(case))));
}

/// An empty workspace for the binary that was built for these tests.
fn space() -> TestSpace {
    HOLD.with_borrow_mut(|hold| {
        hold.get_or_insert_with(|| Hold::Shared(MACHINE.read().unwrap_or_else(PoisonError::into_inner)));
    });
    TestSpace::new(env!("CARGO_BIN_EXE_flow"))
}

/// An empty workspace for a test that measures: no other test runs beside it.
fn quiet_space() -> TestSpace {
    // What this thread held would keep it waiting for ever.
    HOLD.take();
    HOLD.set(Some(Hold::Alone(MACHINE.write().unwrap_or_else(PoisonError::into_inner))));
    space()
}
