//! File systems mounted inside a folder. Their content does not belong to the folder, and is neither moved nor removed
//! with it. A bind mount of the same file system counts too, and has no device number of its own.

use std::{
    ffi::OsString,
    fs,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use nix::sys::stat::{major, minor};

/// The mount points below a folder, given by its real path.
pub fn below(folder: &Path) -> Vec<PathBuf> {
    // Without /proc this is unknown.
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let mounts = table.split(|byte| *byte == b'\n').filter_map(mount_point);
    mounts.filter(|mount| mount.starts_with(folder) && mount != folder).collect()
}

/// The type of the file system with this device number, such as `fuse.sshfs`.
pub(crate) fn kind(device: u64) -> Option<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
    kind_in(&table, device).map(str::to_owned)
}

fn kind_in(table: &str, device: u64) -> Option<&str> {
    let device = format!("{}:{}", major(device), minor(device));
    let line = table.lines().find(|line| line.split(' ').nth(2) == Some(&device))?;
    line.split_once(" - ")?.1.split(' ').next()
}

/// The mount point in a line of the table: `36 35 98:0 /mnt1 /mnt2 rw,noatime …`, with blanks and backslashes as
/// `\040`.
fn mount_point(line: &[u8]) -> Option<PathBuf> {
    let mut escaped = line.split(|byte| *byte == b' ').nth(4)?;
    let mut path = Vec::new();
    while let Some((byte, rest)) = escaped.split_first() {
        let digits = if *byte == b'\\' { rest.split_at_checked(3) } else { None };
        let octal = digits
            .and_then(|(digits, rest)| Some((u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()?, rest)));
        let (byte, rest) = octal.unwrap_or((*byte, rest));
        path.push(byte);
        escaped = rest;
    }
    Some(OsString::from_vec(path).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_file_system_is_read() {
        let table = "36 35 98:0 /mnt1 /mnt\\0402 rw master:1 - ext3 /dev/root rw\n\
                     412 29 0:52 / /home/me/far rw,nosuid - fuse.sshfs me@host:/home/me rw,user_id=1000\n";
        assert_eq!(kind_in(table, nix::sys::stat::makedev(0, 52)), Some("fuse.sshfs"));
        assert_eq!(kind_in(table, nix::sys::stat::makedev(0, 5)), None);
    }

    #[test]
    fn a_place_with_blanks_is_read() {
        let line =
            br"36 35 98:0 /mnt1 /home/me/my\040data\134x rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        assert_eq!(mount_point(line), Some(PathBuf::from(r"/home/me/my data\x")));
        assert_eq!(mount_point(b""), None);
    }
}
