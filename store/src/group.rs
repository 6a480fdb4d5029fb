//! A store that a group of users shares: all of them may write what is created in it, whatever their umask. Private
//! files, attempts and logs, are restricted where they are created.

use std::{
    fs::{self, File, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use nix::unistd::{Gid, Group, chown};
use rustix::fs::{XattrFlags, setxattr};

use flow_core::reason::StoreAction;

use flow_runs::{Result, StoreDir, StoreError};

/// New folders belong to the folder's group, and the group may write.
const MODE: u32 = 0o2770;
/// The kernel's name of the default access list for new files in a folder, which replaces the umask.
const DEFAULT_LIST: &str = "system.posix_acl_default";

/// A store that was made for a group.
#[derive(Debug)]
pub struct GroupStore {
    pub dir: StoreDir,
    /// The file system has no access lists: the group may write only what members create with a umask such as 002.
    pub needs_umask: bool,
}

/// Creates a store for a group, in a folder that does not exist or is empty.
///
/// # Errors
/// There is no such group, or the user is not in it; the folder is not empty; it cannot be created.
pub fn init_for_group(path: &Path, group: &str) -> Result<GroupStore> {
    let refuse = |why: String| StoreError::io(StoreAction::MakeStore, path)(io::Error::other(why));
    let found = Group::from_name(group).map_err(|e| StoreError::io(StoreAction::LookForGroup, path)(e.into()))?;
    let Some(found) = found else {
        return Err(refuse(format!("there is no group `{group}`; `getent group` lists them")));
    };
    match fs::read_dir(path).map(|mut entries| entries.next().is_some()) {
        Ok(true) => {
            return Err(refuse(
                "it is not empty; choose a new folder, because an existing store cannot be shared".into(),
            ));
        }
        Ok(false) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(path).map_err(StoreError::io(StoreAction::Create, path))?;
        }
        Err(e) => return Err(StoreError::io(StoreAction::Read, path)(e)),
    }
    chown(path, None, Some(Gid::from_raw(found.gid.as_raw()))).map_err(|errno| match errno {
        nix::errno::Errno::EPERM => {
            refuse(format!("only a member of the group `{group}` can share it with that group"))
        }
        errno => StoreError::io(StoreAction::GiveAway, path)(errno.into()),
    })?;
    let folder = File::open(path).map_err(StoreError::io(StoreAction::Open, path))?;
    folder.set_permissions(Permissions::from_mode(MODE)).map_err(StoreError::io(StoreAction::OpenToGroup, path))?;
    let needs_umask = match setxattr(path, DEFAULT_LIST, &default_list(), XattrFlags::empty()) {
        Ok(()) => false,
        Err(rustix::io::Errno::OPNOTSUPP) => true,
        Err(errno) => return Err(StoreError::io(StoreAction::OpenToGroup, path)(errno.into())),
    };
    // The default list is set before anything is created in the store.
    Ok(GroupStore { dir: StoreDir::create(path)?, needs_umask })
}

/// Full access for owner and group, none for others, in the kernel's format, version 2: each entry has a tag, rights
/// and an id.
fn default_list() -> Vec<u8> {
    const VERSION: u32 = 2;
    const NOBODY_IN_PARTICULAR: u32 = u32::MAX;
    let (owner, group, others) = (0x01_u16, 0x04_u16, 0x20_u16);
    let mut list = VERSION.to_le_bytes().to_vec();
    for (tag, rights) in [(owner, 0o7_u16), (group, 0o7), (others, 0)] {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(NOBODY_IN_PARTICULAR.to_le_bytes());
    }
    list
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn what_is_made_in_a_groups_store_is_the_groups() {
        let folder = tempfile::tempdir().unwrap();
        let own = Group::from_gid(nix::unistd::Gid::effective()).unwrap().unwrap();
        let path = folder.path().join("lab");
        let made = init_for_group(&path, &own.name).unwrap();
        if made.needs_umask {
            println!("skipped: this file system keeps no access lists");
            return;
        }
        let mode = |below: &str| fs::metadata(path.join(below)).unwrap().mode() & 0o7777;
        assert_eq!([mode(""), mode("runs"), mode("format")].map(|mode| format!("{mode:o}")), ["2770", "2770", "660"]);
        fs::create_dir(path.join("runs/attempt")).unwrap();
        fs::set_permissions(path.join("runs/attempt"), Permissions::from_mode(0o700)).unwrap();
        assert_eq!(mode("runs/attempt") & 0o777, 0o700, "what is for one alone stays so");

        let again = init_for_group(&path, &own.name).unwrap_err().to_string();
        assert!(again.contains("it is not empty"), "{again}");
        let nobody = init_for_group(&folder.path().join("other"), "no-such-group").unwrap_err().to_string();
        assert!(nobody.contains("there is no group `no-such-group`"), "{nobody}");
    }
}
