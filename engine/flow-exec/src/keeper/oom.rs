//! Detects whether the kernel has just killed a process for lack of memory. The kernel reports counts without names:
//! those of the control group of keeper and steps, or else those of the host, which include other people's programs.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use procfs::{
    ProcessCGroup,
    process::{MountInfo, Process},
};

use walkdir::WalkDir;

use crate::clock;

/// The host's count covers all processes: only a recent rise is attributed to a step.
const OF_THE_HOST: (&str, Duration) = ("/proc/vmstat", Duration::from_secs(1));
/// A program with much memory takes a while to end when it is killed.
const OF_THE_GROUP: Duration = Duration::from_secs(10);

/// The file of a control group v1.
const OF_VERSION_1: &str = "memory.oom_control";

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

    /// Nothing ran for a while: earlier kills do not belong to any step.
    pub(super) fn forget(&mut self) {
        self.counts = [count(&self.file).unwrap_or(0); 2];
        self.looked = clock::steady();
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

/// All files have the same format. A v1 group does not include kills in groups below it, which a step may have made.
fn count(file: &Path) -> Option<u64> {
    let own = own_count(file)?;
    match (file.file_name(), file.parent()) {
        (Some(name), Some(group)) if name == OF_VERSION_1 => Some(own + below(group)),
        _ => Some(own),
    }
}

fn own_count(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

fn below(group: &Path) -> u64 {
    /// A tree with more groups does not belong to a step.
    const MOST_GROUPS: usize = 1000;
    let walk = WalkDir::new(group).min_depth(1).into_iter().filter_entry(|entry| entry.file_type().is_dir());
    let groups = walk.take(MOST_GROUPS).flatten();
    groups.filter_map(|group| own_count(&group.path().join(OF_VERSION_1))).sum()
}

/// The file of our own group, v1 or v2, if it can be read and has counts.
fn own_file() -> Option<PathBuf> {
    let me = Process::myself().ok()?;
    let (groups, mounts) = (me.cgroups().ok()?, me.mountinfo().ok()?);
    let files = groups.0.iter().flat_map(|group| mounts.0.iter().filter_map(|mount| file_of(group, mount)));
    files.into_iter().find(|file| count(file).is_some())
}

/// In a container the mount's root differs: the group's path is the host's.
fn file_of(group: &ProcessCGroup, mount: &MountInfo) -> Option<PathBuf> {
    let has = |controller: &str| mount.super_options.contains_key(controller);
    let name = match (group.controllers.as_slice(), mount.fs_type.as_str()) {
        ([], "cgroup2") => "memory.events",
        (controllers, "cgroup") if has("memory") && controllers.iter().any(|c| c == "memory") => OF_VERSION_1,
        _ => return None,
    };
    let below = Path::new(&group.pathname).strip_prefix(&mount.root).ok()?;
    Some(mount.mount_point.join(below).join(name))
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
    fn kills_in_groups_that_a_step_made_count() {
        let dir = tempfile::tempdir().unwrap();
        let write = |group: &str, name: &str, kills: u64| {
            let group = dir.path().join(group);
            fs::create_dir_all(&group).unwrap();
            fs::write(group.join(name), format!("oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n")).unwrap();
        };
        for name in [OF_VERSION_1, "memory.events"] {
            write("", name, 1);
            write("step", name, 2);
            write("step/train", name, 4);
        }
        assert_eq!(count(&dir.path().join(OF_VERSION_1)), Some(7));
        // Version 2 includes the groups below.
        assert_eq!(count(&dir.path().join("memory.events")), Some(1));
        fs::remove_dir_all(dir.path().join("step")).unwrap();
        assert_eq!(count(&dir.path().join(OF_VERSION_1)), Some(1), "of a group that is gone nothing is known");
        assert_eq!(count(&dir.path().join("gone").join(OF_VERSION_1)), None);
    }

    #[test]
    fn the_group_is_found_where_it_is_mounted() {
        const V1: &str = "35 31 0:32 ROOT /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";
        const V2: &str = "41 31 0:38 ROOT /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n";
        const CPU: &str = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n";
        let table = [
            ("0::/user.slice/job\n", V2, "/", Some("/sys/fs/cgroup/user.slice/job/memory.events")),
            ("0::/\n", V2, "/", Some("/sys/fs/cgroup/memory.events")),
            ("4:memory:/docker/abc\n", V1, "/docker/abc", Some("/sys/fs/cgroup/memory/memory.oom_control")),
            ("4:memory:/a/b\n", V1, "/", Some("/sys/fs/cgroup/memory/a/b/memory.oom_control")),
            ("4:memory:/docker/abc\n", V1, "/docker/other", None),
            ("0::/\n", V1, "/", None),
            ("1:name=systemd:/\n", V2, "/", None),
            ("4:memory:/\n", CPU, "/", None),
        ];
        for (group, mount, root, file) in table {
            let groups = procfs::ProcessCGroups::from_read(group.as_bytes()).unwrap();
            let mounts = procfs::process::MountInfos::from_read(mount.replace("ROOT", root).as_bytes()).unwrap();
            assert_eq!(file_of(&groups.0[0], &mounts.0[0]), file.map(PathBuf::from), "{group} {mount} {root}");
        }
    }
}
