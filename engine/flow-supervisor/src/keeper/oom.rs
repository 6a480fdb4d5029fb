//! Detects whether the kernel has just killed a process for lack of memory. The kernel reports counts without names:
//! those of the control group (v2) of keeper and steps, or else those of the host, which include other people's programs.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use procfs::{
    ProcessCGroup,
    process::{MountInfo, Process},
};

use crate::clock;

/// The host's count covers all processes: only a recent rise is attributed to a step.
const OF_THE_HOST: (&str, Duration) = ("/proc/vmstat", Duration::from_secs(1));
/// A program with much memory takes a while to end when it is killed.
const OF_THE_GROUP: Duration = Duration::from_secs(10);

/// The recent counts.
pub(super) struct OomKills {
    file: PathBuf,
    /// Interval of looks. A rise is believed for one to two intervals.
    every: Duration,
    looked: Instant,
    /// At the last look but one, and at the last.
    counts: [u64; 2],
}

impl OomKills {
    pub(super) fn new() -> OomKills {
        let (file, every) = own_file().map_or((OF_THE_HOST.0.into(), OF_THE_HOST.1), |file| (file, OF_THE_GROUP));
        let count = count(&file).unwrap_or(0);
        OomKills { file, every, looked: clock::steady(), counts: [count; 2] }
    }

    /// When to look again, while something runs.
    pub(super) fn next_look(&self) -> Instant {
        self.looked + self.every
    }

    /// Nothing ran for a while: earlier kills do not belong to any step. Within an interval, a look is recent enough.
    pub(super) fn forget(&mut self) {
        if self.next_look() <= clock::steady() {
            self.counts[1] = count(&self.file).unwrap_or(0);
            self.looked = clock::steady();
        }
        self.counts[0] = self.counts[1];
    }

    /// Looks, if it is time to.
    pub(super) fn look(&mut self) {
        if self.next_look() <= clock::steady() {
            self.counts = [self.counts[1], count(&self.file).unwrap_or(0)];
            self.looked = clock::steady();
        }
    }

    /// A step was killed: true if the kernel may have done it. Each kill is attributed to one step.
    pub(super) fn take(&mut self) -> bool {
        take(&mut self.counts, count(&self.file).unwrap_or(0))
    }
}

fn take(counts: &mut [u64; 2], now: u64) -> bool {
    let rose = now > counts[0];
    if rose {
        *counts = counts.map(|count| (count + 1).min(now));
    }
    rose
}

/// Both files have the same format.
fn count(file: &Path) -> Option<u64> {
    // The kernel writes all of it at each read, and it fits into one.
    let mut text = String::with_capacity(16 << 10);
    File::open(file).ok()?.read_to_string(&mut text).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// The file of our own group, if it can be read and has counts.
fn own_file() -> Option<PathBuf> {
    let me = Process::myself().ok()?;
    let (groups, mounts) = (me.cgroups().ok()?, me.mountinfo().ok()?);
    let files = groups.0.iter().flat_map(|group| mounts.0.iter().filter_map(|mount| file_of(group, mount)));
    files.into_iter().find(|file| count(file).is_some())
}

/// In a container the mount's root differs: the group's path is the host's.
fn file_of(group: &ProcessCGroup, mount: &MountInfo) -> Option<PathBuf> {
    let is_its = group.controllers.is_empty() && mount.fs_type == "cgroup2";
    let below = Path::new(&group.pathname).strip_prefix(&mount.root).ok()?;
    is_its.then(|| mount.mount_point.join(below).join("memory.events"))
}

#[cfg(test)]
mod tests {
    use procfs::FromRead;

    use super::*;

    #[test]
    fn a_kill_is_of_a_step_that_ended_soon_after_and_of_one_only() {
        let mut counts = [3, 3];
        assert!(!take(&mut counts, 3), "days ago");
        assert!(take(&mut counts, 4) && !take(&mut counts, 4));
        assert!(take(&mut counts, 6) && take(&mut counts, 6) && !take(&mut counts, 6), "two at once");
        // The kill happened between the last two looks, or before them.
        assert!(take(&mut [6, 7], 7) && !take(&mut [7, 7], 7));
    }

    #[test]
    fn the_group_is_found_where_it_is_mounted() {
        const V2: &str = "41 31 0:38 ROOT /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n";
        const V1: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";
        let table = [
            ("0::/user.slice/job\n", V2, "/", Some("/sys/fs/cgroup/user.slice/job/memory.events")),
            ("0::/\n", V2, "/", Some("/sys/fs/cgroup/memory.events")),
            ("0::/docker/abc\n", V2, "/docker/abc", Some("/sys/fs/cgroup/memory.events")),
            ("0::/docker/abc\n", V2, "/docker/other", None),
            ("1:name=systemd:/\n", V2, "/", None),
            ("4:memory:/\n", V1, "/", None),
        ];
        for (group, mount, root, file) in table {
            let groups = procfs::ProcessCGroups::from_read(group.as_bytes()).unwrap();
            let mounts = procfs::process::MountInfos::from_read(mount.replace("ROOT", root).as_bytes()).unwrap();
            assert_eq!(file_of(&groups.0[0], &mounts.0[0]), file.map(PathBuf::from), "{group} {mount} {root}");
        }
    }
}
