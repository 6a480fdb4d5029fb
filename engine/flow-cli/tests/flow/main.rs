//! The real `flow`, end to end: what people rely on when it runs their experiments. One binary, for linking is slow.

mod accept;
mod alone;
mod artifacts;
mod audit;
mod authors_files;
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
mod messages;
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
mod revision;
mod secrets;
mod served;
mod several;
mod shell;
mod signals;
mod simulate;
mod slurm;
mod snapshots;
mod together;
mod torture;
mod trust;
mod unmeasured;
mod viewed;
mod watched;

use std::{
    cell::RefCell,
    sync::{Condvar, Mutex, PoisonError},
    thread,
};

use flow_testkit::TestSpace;

/// How many tests of each kind run: ordinary ones, and quiet ones that measure times or loads. Tests of one kind run at the same
/// time, because most of them wait more than they compute. No ordinary test runs beside a quiet one, and none begins while a
/// quiet one waits.
static RUNNING: Mutex<[usize; 2]> = Mutex::new([0; 2]);
static ENDED: Condvar = Condvar::new();
const ORDINARY: usize = 0;
const QUIET: usize = 1;

/// A running test of this kind.
struct Hold(usize);

impl Hold {
    /// Waits until no test of the other kind runs.
    fn of(kind: usize) -> Hold {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        // A quiet test counts while it waits.
        if kind == QUIET {
            running[kind] += 1;
        }
        let running = ENDED.wait_while(running, |running| running[1 - kind] > 0);
        let mut running = running.unwrap_or_else(PoisonError::into_inner);
        if kind == ORDINARY {
            running[kind] += 1;
        }
        Hold(kind)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner)[self.0] -= 1;
        ENDED.notify_all();
    }
}

thread_local! {
    /// Until the thread of the test ends.
    static KIND: RefCell<Option<Hold>> = const { RefCell::new(None) };
}

/// One test of several cases, each in a workspace of its own and all at once: what waits, and computes next to nothing.
fn at_once<T: Send>(cases: impl IntoIterator<Item = T>, test: impl Fn(T) + Sync) {
    let test = &test;
    thread::scope(|all| cases.into_iter().for_each(|case| _ = all.spawn(move || test(case))));
}

/// An empty workspace for the binary that was built for these tests.
fn space() -> TestSpace {
    KIND.with_borrow_mut(|hold| _ = hold.get_or_insert_with(|| Hold::of(ORDINARY)));
    TestSpace::new(env!("CARGO_BIN_EXE_flow"))
}
