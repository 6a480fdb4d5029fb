//! Host memory, and the limits that control groups (v1 or v2) set on it.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Usable bytes. `root` is the folder that contains `/proc` and `/sys`.
pub(super) fn memory(root: &Path) -> u64 {
    let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
    let total = total(&read(root.join("proc/meminfo")));
    let groups = read(root.join("proc/self/cgroup"));
    let limits = limit_files(&groups).into_iter().filter_map(|file| limit(&read(root.join(file))));
    limits.chain([total]).min().unwrap_or(total)
}

fn total(meminfo: &str) -> u64 {
    let kib =
        meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.map_or(0, |kib: u64| kib * 1024)
}

/// No limit is written as `max`, or as a number larger than any machine.
fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|bytes| *bytes < 1 << 62)
}

/// The files that may hold a limit: of the process's own group and of each group above it, if visible. In a container
/// the path is the host's and does not exist; the top then has the container's limit.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let (tops, name): (&[&str], _) = match controllers {
            "" => (&["sys/fs/cgroup", "sys/fs/cgroup/unified"], "memory.max"),
            c if c.split(',').any(|c| c == "memory") => (&["sys/fs/cgroup/memory"], "memory.limit_in_bytes"),
            _ => continue,
        };
        for top in tops {
            for above in Path::new(group.trim_start_matches('/')).ancestors() {
                files.push(Path::new(top).join(above).join(name));
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn the_tightest_limit_counts() {
        let meminfo = ("proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\n");
        let v2 = ("proc/self/cgroup", "0::/user.slice/job\n");
        let v1 = ("proc/self/cgroup", "5:memory:/docker/abc\n1:cpu,cpuacct:/docker/abc\n0::/\n");
        let table: &[(&[(&str, &str)], u64)] = &[
            (&[meminfo], 16 << 20),
            (&[meminfo, v2, ("sys/fs/cgroup/user.slice/job/memory.max", "max\n")], 16 << 20),
            (&[meminfo, v2, ("sys/fs/cgroup/user.slice/job/memory.max", "4194304\n")], 4 << 20),
            (&[meminfo, v2, ("sys/fs/cgroup/user.slice/memory.max", "2097152\n")], 2 << 20),
            (&[meminfo, v1, ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576\n")], 1 << 20),
            (
                &[meminfo, v1, ("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n")],
                16 << 20,
            ),
        ];
        for (files, expected) in table {
            assert_eq!(memory(root(files).path()), *expected, "{files:?}");
        }
    }
}
