//! Whether a folder lies on another machine's disk.

use std::{io, path::Path};

use nix::sys::statfs::{FsType, statfs};

/// Magic numbers of file systems that lie elsewhere, as the kernel documents them, and their names.
const ELSEWHERE: &[(u32, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xfe53_4d42, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x5346_414f, "AFS"),
];

/// The name of the network file system on which a path lies, or its nearest ancestor that exists; `None` on a disk.
///
/// # Errors
/// The path cannot be looked at.
pub fn network_filesystem(path: &Path) -> io::Result<Option<&'static str>> {
    let there = path.ancestors().find(|p| p.exists()).unwrap_or(Path::new("."));
    let there = if there.as_os_str().is_empty() { Path::new(".") } else { there };
    let FsType(kind) = statfs(there)?.filesystem_type();
    Ok(name(kind as u32))
}

fn name(kind: u32) -> Option<&'static str> {
    ELSEWHERE.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_no_network() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(network_filesystem(&dir.path().join("not/there/yet")).unwrap(), None);
        assert_eq!((name(0x6969), name(0xff53_4d42), name(0xef53)), (Some("NFS"), Some("CIFS"), None));
    }
}
