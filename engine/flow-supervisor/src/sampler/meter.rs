//! One look at `/proc`: what each attempt has used since the last look, and the load of the host in the same time.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fs,
    path::PathBuf,
};

use flow_core::{AttemptId, measure::HostUsage};
use procfs::{CurrentSI, KernelStats, process::Process};

use crate::keeper::tree;

/// The result of one look.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// Seconds since 1970.
    pub at: f64,
    /// Seconds since the last look; `None` at the first.
    pub since_last: Option<f64>,
    /// Share of the host's CPUs that were busy, and the part of it that was not ours.
    pub host: Option<(f64, f64)>,
    /// By attempt, for living attempts.
    pub attempts: BTreeMap<AttemptId, HostUsage>,
    /// The interpreters that attempts run now.
    pub programs: BTreeMap<AttemptId, BTreeSet<String>>,
}

#[derive(Debug)]
struct LastReading {
    parent: i32,
    attempt: Option<AttemptId>,
    /// CPU time: its own, and that of children that it reaped.
    ticks: u64,
}

pub(super) struct Meter {
    me: i32,
    /// The parent process, if it belongs to this run too.
    engine: Option<i32>,
    keeper: i32,
    ticks_per_second: f64,
    page: u64,
    /// Processes that are known to be foreign. They are not read again, because no process becomes our descendant
    /// later.
    foreign: HashSet<i32>,
    ours: HashMap<i32, LastReading>,
    last: Option<Host>,
}

#[derive(Clone, Copy, Debug)]
struct Host {
    at: f64,
    idle_s: f64,
    cpus: f64,
    ours_s: f64,
}

impl Meter {
    pub(super) fn new(keeper: u32, engine: Option<u32>) -> Meter {
        Meter {
            me: std::process::id().cast_signed(),
            engine: engine.map(u32::cast_signed),
            keeper: keeper.cast_signed(),
            ticks_per_second: procfs::ticks_per_second() as f64,
            page: procfs::page_size(),
            foreign: HashSet::new(),
            ours: HashMap::new(),
            last: None,
        }
    }

    /// Time will pass without a look: process ids may be reused.
    pub(super) fn forget(&mut self) {
        self.foreign.clear();
        self.ours.clear();
        self.last = None;
    }

    pub(super) fn look(&mut self, roots: &BTreeMap<i32, AttemptId>, at: f64) -> Reading {
        // After its death, its number is free or belongs to another process.
        self.engine = self.engine.filter(|engine| nix::unistd::getppid().as_raw() == *engine);
        let now = self.read(roots);
        let mut reading = Reading { at, ..Reading::default() };
        let mut totals: BTreeMap<AttemptId, (u64, u64)> = BTreeMap::new();
        let mut ours_ticks = 0;
        for (pid, (seen, rss)) in &now {
            ours_ticks += seen.ticks;
            let Some(attempt) = seen.attempt else { continue };
            if let Some(program) = interpreter(*pid) {
                reading.programs.entry(attempt).or_default().insert(program);
            }
            let (sum, rss_sum) = totals.entry(attempt).or_default();
            *sum += seen.ticks;
            *rss_sum += rss * self.page;
        }
        // The totals of an ended process are now with the parent that reaped it. If that was the keeper, they have left
        // the attempt.
        let mut before: BTreeMap<AttemptId, u64> = BTreeMap::new();
        for (pid, seen) in &self.ours {
            let Some(attempt) = seen.attempt else { continue };
            if now.contains_key(pid) || seen.parent != self.keeper {
                *before.entry(attempt).or_default() += seen.ticks;
            }
        }
        for (attempt, (sum, rss)) in totals {
            let was = before.get(&attempt).copied().unwrap_or_default();
            let cpu_s = sum.saturating_sub(was) as f64 / self.ticks_per_second;
            reading.attempts.insert(attempt, HostUsage { cpu_s, rss });
        }
        self.ours = now.into_iter().map(|(pid, (seen, _))| (pid, seen)).collect();
        let host = self.host(at, ours_ticks as f64 / self.ticks_per_second);
        if let (Some(was), Some(is)) = (self.last, host) {
            let span = is.at - was.at;
            if span > 0.0 {
                let capacity = span * is.cpus;
                let busy = (1.0 - (is.idle_s - was.idle_s) / capacity).clamp(0.0, 1.0);
                let ours = ((is.ours_s - was.ours_s) / capacity).max(0.0);
                reading.since_last = Some(span);
                reading.host = Some((busy, (busy - ours).max(0.0)));
            }
        }
        self.last = host;
        reading
    }

    fn host(&self, at: f64, ours_s: f64) -> Option<Host> {
        let stats = KernelStats::current().ok()?;
        let idle = stats.total.idle + stats.total.iowait.unwrap_or(0);
        Some(Host { at, idle_s: idle as f64 / self.ticks_per_second, cpus: stats.cpu_time.len() as f64, ours_s })
    }

    /// Our living processes, with their resident pages.
    fn read(&mut self, roots: &BTreeMap<i32, AttemptId>) -> HashMap<i32, (LastReading, u64)> {
        let mut foreign = HashSet::with_capacity(self.foreign.len());
        let mut stats = HashMap::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
            if self.foreign.contains(&pid) {
                foreign.insert(pid);
            } else if let Ok(stat) = Process::new(pid).and_then(|p| p.stat()) {
                stats.insert(pid, stat);
            }
        }
        let mut ours = HashMap::new();
        for (pid, stat) in &stats {
            let Some(below_keeper) = self.descent(*pid, |pid| Some(stats.get(&pid)?.ppid)) else {
                foreign.insert(*pid);
                continue;
            };
            let attempt = below_keeper.and_then(|top| {
                // A process that lost its parent is directly below the keeper and is not a root.
                roots.get(&top).copied().or_else(|| match self.ours.get(&top) {
                    Some(seen) => seen.attempt,
                    None => tree::attempt_of(top, self.keeper.cast_unsigned()),
                })
            });
            let reaped = stat.cutime.max(0) + stat.cstime.max(0);
            let ticks = stat.utime + stat.stime + reaped.cast_unsigned();
            ours.insert(*pid, (LastReading { parent: stat.ppid, attempt, ticks }, stat.rss));
        }
        self.foreign = foreign;
        ours
    }

    /// `None` for a foreign process. For one of ours, its ancestor (or itself) directly below the keeper, if it is
    /// below it.
    fn descent(&self, pid: i32, parent: impl Fn(i32) -> Option<i32>) -> Option<Option<i32>> {
        let (mut at, mut top) = (pid, None);
        // Process ids that are reused while they are read could form a cycle; no tree is this deep.
        for _ in 0..10_000 {
            if at == self.me || Some(at) == self.engine {
                return Some(top);
            }
            let above = parent(at)?;
            if above == self.keeper {
                top = Some(at);
            }
            at = above;
        }
        None
    }
}

/// The real path of a process's program, if that is a Python.
fn interpreter(pid: i32) -> Option<String> {
    let path: PathBuf = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let name = path.file_name()?.to_str()?;
    let is_one = ["python", "pypy"].iter().any(|begin| name.starts_with(begin));
    is_one.then(|| path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use nix::sys::{
        resource::{UsageWho, getrusage},
        time::TimeValLike,
    };

    use super::*;

    fn thread_cpu_us() -> i64 {
        let usage = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
        usage.user_time().num_microseconds() + usage.system_time().num_microseconds()
    }

    #[test]
    fn a_look_names_interpreters() {
        let mut meter = Meter::new(std::process::id(), None);
        let mut child = Command::new("python3").args(["-c", "import time; time.sleep(60)"]).spawn().unwrap();
        let roots = BTreeMap::from([(child.id() as i32, AttemptId(7))]);
        let is_seen = |reading: &Reading| {
            let mut programs = reading.programs.get(&AttemptId(7)).into_iter().flatten();
            programs.any(|path| path.starts_with('/') && path.contains("/python"))
        };
        // A wrapper may start it.
        let seen = (0..200).any(|n| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            is_seen(&meter.look(&roots, f64::from(n)))
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen);
        assert_eq!(interpreter(std::process::id().cast_signed()), None);
    }

    #[test]
    fn a_look_sees_our_processes_and_reads_foreign_ones_once() {
        // This process also acts as the keeper.
        let mut meter = Meter::new(std::process::id(), None);
        let mut children: Vec<_> = (0..50).map(|_| Command::new("sleep").arg("60").spawn().unwrap()).collect();
        let roots: BTreeMap<i32, AttemptId> =
            children.iter().zip(0..).map(|(child, n)| (child.id() as i32, AttemptId(n / 10))).collect();
        let first = meter.look(&roots, 0.0);
        assert_eq!(first.attempts.len(), 5);
        assert!(first.attempts[&AttemptId(0)].rss > 10 * 100_000, "{first:?}");
        assert_eq!((first.since_last, first.host), (None, None));
        let foreign = meter.foreign.len();
        let begun = thread_cpu_us();
        for n in 1..=20 {
            assert_eq!(meter.look(&roots, f64::from(n)).since_last, Some(1.0));
        }
        let each = (thread_cpu_us() - begun) / 20;
        assert!(each < 50_000, "{each} µs of CPU a look at 50 processes of ours beside {foreign} foreign ones");
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(meter.look(&roots, 21.0).attempts.is_empty());
    }
}
