//! Keeps a traced program on the CPU of its tracer while one CPU is enough for it. Each traced call wakes the other of
//! the two; from one sleeping CPU to the next that takes four times as long.

use flow_supervisor::keeper;
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use procfs::process::Process;

/// So many looks in a row must find several tasks that could compute.
const LOOKS: u32 = 5;

/// A program on one CPU.
pub(crate) struct OneCpu {
    program: i32,
    all: CpuSet,
    crowded: u32,
}

/// Starts a program on one of the CPUs that this thread may use. Where that is not possible, on all of them.
pub(crate) fn start<T>(start: impl FnOnce() -> T, id: impl FnOnce(&T) -> i32) -> (T, Option<OneCpu>) {
    let own = Pid::from_raw(0);
    let all = sched_getaffinity(own).ok();
    let last = |all: &CpuSet| (0..CpuSet::count()).rev().find(|cpu| all.is_set(*cpu) == Ok(true));
    let mut one = CpuSet::new();
    let is_one =
        all.as_ref().and_then(last).is_some_and(|cpu| one.set(cpu).is_ok()) && sched_setaffinity(own, &one).is_ok();
    let started = start();
    match all.filter(|_| is_one) {
        Some(all) => {
            // As before: these are the CPUs that it had.
            let _ = sched_setaffinity(own, &all);
            let program = id(&started);
            (started, Some(OneCpu { program, all, crowded: 0 }))
        }
        None => (started, None),
    }
}

impl OneCpu {
    /// Returns false when the program needs more than one CPU, and has all of them from now on.
    pub(crate) fn is_enough(&mut self) -> bool {
        let processes: Vec<Process> =
            keeper::below(self.program).into_iter().filter_map(|pid| Process::new(pid).ok()).collect();
        let tasks = || processes.iter().filter_map(|process| process.tasks().ok()).flatten().flatten();
        let computing = tasks().filter(|task| task.stat().is_ok_and(|stat| stat.state == 'R')).count();
        self.crowded = if computing > 1 { self.crowded + 1 } else { 0 };
        if self.crowded < LOOKS {
            return true;
        }
        for id in tasks().map(|task| task.tid).chain([self.program]) {
            // It may have ended.
            let _ = sched_setaffinity(Pid::from_raw(id), &self.all);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn cpus(pid: i32) -> usize {
        let set = sched_getaffinity(Pid::from_raw(pid)).unwrap();
        (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu) == Ok(true)).count()
    }

    #[test]
    fn a_program_has_one_cpu_until_it_needs_more() {
        let all = cpus(0);
        for (text, is_enough) in
            [("sleep 60 & wait", true), ("for i in 1 2; do while :; do :; done & done; wait", false)]
        {
            let spawn = || Command::new("sh").args(["-c", text]).spawn().unwrap();
            let (mut child, one) = start(spawn, |child| child.id().cast_signed());
            assert_eq!(cpus(0), all);
            let (pid, mut one) = (child.id().cast_signed(), one.unwrap());
            assert_eq!(cpus(pid), 1);
            let looks = (0..200).map(|_| {
                std::thread::sleep(std::time::Duration::from_millis(5));
                one.is_enough()
            });
            let found = looks.take(if is_enough { 20 } else { 200 }).find(|enough| !enough);
            assert_eq!((found.is_none(), cpus(pid)), (is_enough, if is_enough { 1 } else { all }));
            keeper::kill_below(pid);
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}
