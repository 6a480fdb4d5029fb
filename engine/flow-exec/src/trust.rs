//! Who owns a folder. A store or plugin is used if its folder belongs to this user or to root; any other has to be named. This is the
//! rule of git's `safe.directory`. Modes, groups and access lists do not count.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use nix::unistd::{Group, User, geteuid};

const GROUP_SHARES: u32 = 0o2070;
const OTHERS_SEE: u32 = 0o077;

/// Why not to use `path`: it belongs to another user, or it is a link of another user or to something of another user. `what` is its
/// name in the sentence.
pub(crate) fn against(path: &Path, what: &str) -> Option<String> {
    let link = fs::symlink_metadata(path).ok().map(|meta| meta.uid());
    let owner = link.into_iter().chain(owner(path)).find(|uid| *uid != 0 && *uid != me())?;
    Some(format!("{what} belongs to {}, and flow runs as {}", account(owner), user()))
}

/// The nearest folder with one of these names in it, from `folder` upwards. A folder of another owner ends the search. Above `folder`
/// the names that other users put there do not count.
pub(crate) fn nearest<'a>(folder: &'a Path, names: &[&str]) -> Option<&'a Path> {
    let is_here = names.iter().any(|name| is_there(&folder.join(name)));
    if is_here { Some(folder) } else { nearest_above(folder, names, owner) }
}

fn nearest_above<'a>(folder: &'a Path, names: &[&str], owner: impl Fn(&Path) -> Option<u32>) -> Option<&'a Path> {
    let of_folder = owner(folder);
    let counts = |path: &Path| owner(path).is_some_and(|uid| uid == 0 || Some(uid) == of_folder);
    let mut reached = folder.ancestors().skip(1).take_while(|above| owner(above) == of_folder);
    reached.find(|above| names.iter().any(|name| counts(&above.join(name))))
}

/// There is something at a path, if only a link to nowhere.
pub(crate) fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// It belongs to this user.
pub(crate) fn is_mine(path: &Path) -> bool {
    owner(path) == Some(me())
}

/// It belongs to this user, and others may read, list or write it.
pub(crate) fn is_mine_and_open(path: &Path) -> bool {
    is_mine(path) && fs::metadata(path).is_ok_and(|meta| meta.mode() & OTHERS_SEE != 0)
}

/// As whom flow runs.
pub(crate) fn user() -> String {
    account(me())
}

/// The owner of a file.
pub(crate) fn owner_of(path: &Path) -> Option<String> {
    owner(path).map(account)
}

/// The group that shares a folder and the files that its members create there.
pub(crate) fn shared_with(path: &Path) -> Option<String> {
    let meta = fs::metadata(path).ok().filter(|meta| meta.mode() & GROUP_SHARES == GROUP_SHARES)?;
    let group = Group::from_gid(meta.gid().into()).ok().flatten();
    Some(group.map_or_else(|| format!("gid {}", meta.gid()), |group| format!("`{}`", group.name)))
}

/// The number of this user.
pub(crate) fn me() -> u32 {
    geteuid().as_raw()
}

/// The owner of the target, if `path` is a link.
fn owner(path: &Path) -> Option<u32> {
    fs::metadata(path).ok().map(|meta| meta.uid())
}

fn account(uid: u32) -> String {
    let name = User::from_uid(uid.into()).ok().flatten().map(|user| user.name);
    name.map_or_else(|| format!("uid {uid}"), |name| format!("{name} (uid {uid})"))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::PathBuf};

    use super::*;

    const ALICE: u32 = 1000;
    const BOB: u32 = 1001;

    /// Its path and its owner.
    type File = (&'static str, u32);

    #[test]
    fn the_search_upwards_ends_at_a_folder_of_another_owner() {
        let cases: &[(&str, &[File], Option<&str>)] = &[
            ("nothing is there", &[("/", 0), ("/home/a", ALICE), ("/home/a/w", ALICE)], None),
            ("above", &[("/home/a", ALICE), ("/home/a/w", ALICE), ("/home/a/plugins", ALICE)], Some("/home/a")),
            (
                "the nearest",
                &[
                    ("/home", ALICE),
                    ("/home/a", ALICE),
                    ("/home/a/w", ALICE),
                    ("/home/a/.git", ALICE),
                    ("/home/.flow", ALICE),
                ],
                Some("/home/a"),
            ),
            ("another's", &[("/home/a", BOB), ("/home/a/w", ALICE), ("/home/a/.flow", ALICE)], None),
            ("root's, as /tmp", &[("/home/a", 0), ("/home/a/w", ALICE), ("/home/a/plugins", ALICE)], None),
            (
                "not past another's",
                &[("/home", ALICE), ("/home/a", BOB), ("/home/a/w", ALICE), ("/home/.flow", ALICE)],
                None,
            ),
            ("what another put there", &[("/home/a", ALICE), ("/home/a/w", ALICE), ("/home/a/.flow", BOB)], None),
            ("what root put there", &[("/home/a", ALICE), ("/home/a/w", ALICE), ("/home/a/.git", 0)], Some("/home/a")),
            (
                "another's, all the way",
                &[("/home/a", BOB), ("/home/a/w", BOB), ("/home/a/.flow", BOB)],
                Some("/home/a"),
            ),
            ("unknown", &[], None),
        ];
        for (what, files, expected) in cases {
            let files: BTreeMap<PathBuf, u32> = files.iter().map(|(path, uid)| (path.into(), *uid)).collect();
            let found =
                nearest_above(Path::new("/home/a/w"), &[".flow", "plugins", ".git"], |path| files.get(path).copied());
            assert_eq!(found, expected.map(Path::new), "{what}");
        }
    }
}
