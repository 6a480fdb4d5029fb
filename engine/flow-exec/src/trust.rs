//! Whose a file is and who else may write it: what others left somewhere, or could change, is not used unless it is named. Looks at
//! owners, modes and groups. Not looked at: access lists (a mode shows them as the group's), members that a network directory
//! does not tell, and what lies above, for who could replace that could replace the workflow too.

use std::{
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
    path::Path,
};

use nix::unistd::{Group, User, geteuid};

const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;
const GROUP_SHARES: u32 = 0o2070;
/// Nobody but who owns the folder, or what lies in it, can replace that.
const STICKY: u32 = 0o1000;

/// Owner, group and mode of what lies at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mode: u32,
}

/// What is asked of the system.
pub(crate) trait FileSystem {
    /// What is at a path, behind links.
    fn at(&self, path: &Path) -> Option<Owned>;
    /// What is at a path; of a link, the link.
    fn link(&self, path: &Path) -> Option<Owned>;
    /// The accounts that are known to be in a group.
    fn members(&self, gid: u32) -> Vec<u32>;
}

pub(crate) struct System;

/// Why something is not used, and what would have to be changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Distrust {
    pub(crate) why: String,
    /// The command that mends it; none where the owner is the reason.
    pub(crate) chmod: Option<String>,
}

/// Whom a process trusts: its own user, root, who can do everything anyway, and for root under sudo the user who called it.
pub(crate) struct Trust<L = System> {
    look: L,
    me: u32,
    caller: Option<u32>,
}

impl Trust {
    pub(crate) fn of_process() -> Trust {
        let me = geteuid().as_raw();
        let caller = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
        Trust { look: System, me, caller: caller.filter(|_| me == 0) }
    }
}

impl<L: FileSystem> Trust<L> {
    /// The nearest folder with one of these names in it, from `folder` upwards; not past one that belongs to another user than
    /// `folder` or that others may write.
    pub(crate) fn nearest<'a>(&self, folder: &'a Path, names: &[&str]) -> Option<&'a Path> {
        let owner = self.look.at(folder).map(|owned| owned.uid);
        let alike = |above: &Path| {
            let owned = self.look.at(above);
            owned.is_some_and(|owned| Some(owned.uid) == owner && self.others_that_write(owned).is_none())
        };
        let mut reached = folder.ancestors().take_while(|dir| *dir == folder || alike(dir));
        reached.find(|dir| names.iter().any(|name| self.is_there(&dir.join(name))))
    }

    /// Why not to use `path`, which `what` is the name of; of a link, because of the link or of what it points to.
    pub(crate) fn against(&self, path: &Path, what: &str) -> Option<Distrust> {
        let at = self.look.at(path);
        let owners: Vec<Owned> = self.look.link(path).into_iter().chain(at).collect();
        self.against_owner(&owners, what).or_else(|| self.against_mode(at?, path, what))
    }

    /// Why not to keep something of one's own in the folder `path`: others could put something else in its place.
    pub(crate) fn against_keeping_in(&self, path: &Path, what: &str) -> Option<Distrust> {
        let owned = self.look.at(path)?;
        let kept = |owned: &Owned| owned.mode & STICKY != 0;
        self.against_owner(&[owned], what)
            .or_else(|| if kept(&owned) { None } else { self.against_mode(owned, path, what) })
    }

    /// There is something at a path, if only a link to nowhere.
    pub(crate) fn is_there(&self, path: &Path) -> bool {
        self.look.link(path).is_some()
    }

    /// It is this user's.
    pub(crate) fn is_mine(&self, path: &Path) -> bool {
        self.look.at(path).is_some_and(|owned| owned.uid == self.me)
    }

    /// It is this user's, and others may read it or list it.
    pub(crate) fn is_mine_and_open(&self, path: &Path) -> bool {
        self.is_mine(path) && self.look.at(path).is_some_and(|owned| owned.mode & 0o077 != 0)
    }

    /// As whom flow runs.
    pub(crate) fn who(&self) -> String {
        account(self.me)
    }

    /// Whose it is, as the end of a sentence.
    pub(crate) fn owner(&self, path: &Path) -> String {
        self.look.at(path).map_or_else(String::new, |owned| format!(": it belongs to {}", account(owned.uid)))
    }

    /// The group that shares a folder, whose files are the group's as well.
    pub(crate) fn shared_with(&self, path: &Path) -> Option<String> {
        let owned = self.look.at(path)?;
        (owned.mode & GROUP_SHARES == GROUP_SHARES).then(|| group(owned.gid))
    }

    fn trusts(&self, uid: u32) -> bool {
        uid == 0 || uid == self.me || Some(uid) == self.caller
    }

    fn against_owner(&self, owners: &[Owned], what: &str) -> Option<Distrust> {
        let stranger = owners.iter().find(|owned| !self.trusts(owned.uid))?;
        let why = format!("{what} belongs to {}, and flow runs as {}", account(stranger.uid), account(self.me));
        Some(Distrust { why, chmod: None })
    }

    fn against_mode(&self, owned: Owned, path: &Path, what: &str) -> Option<Distrust> {
        let who = self.others_that_write(owned)?;
        let why = format!("{who} may write {what} (its mode is {:o})", owned.mode & 0o7777);
        Some(Distrust { why, chmod: Some(format!("chmod go-w {}", path.display())) })
    }

    fn others_that_write(&self, owned: Owned) -> Option<String> {
        if owned.mode & OTHERS_WRITE != 0 {
            return Some("everybody".into());
        }
        let shared = owned.mode & GROUP_WRITES != 0 && !self.is_private(owned);
        shared.then(|| format!("the group {}", group(owned.gid)))
    }

    /// Nobody is in the group whom this process does not trust. One of which nothing is known is the owner's own if it has the
    /// owner's number, as systems give each user a group.
    fn is_private(&self, owned: Owned) -> bool {
        let members = self.look.members(owned.gid);
        if members.is_empty() { owned.gid == owned.uid } else { members.into_iter().all(|uid| self.trusts(uid)) }
    }
}

impl FileSystem for System {
    fn at(&self, path: &Path) -> Option<Owned> {
        fs::metadata(path).ok().map(|meta| Owned::of(&meta))
    }

    fn link(&self, path: &Path) -> Option<Owned> {
        fs::symlink_metadata(path).ok().map(|meta| Owned::of(&meta))
    }

    fn members(&self, gid: u32) -> Vec<u32> {
        let named = Group::from_gid(gid.into()).ok().flatten().map(|group| group.mem).unwrap_or_default();
        let named = named.iter().filter_map(|name| Some(User::from_name(name).ok()??.uid.as_raw()));
        let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
        named.chain(accounts.lines().filter_map(|line| primary_member(line, gid))).collect()
    }
}

impl Owned {
    fn of(meta: &Metadata) -> Owned {
        Owned { uid: meta.uid(), gid: meta.gid(), mode: meta.mode() }
    }
}

/// The account of a line of `/etc/passwd`, `name:password:uid:gid:…`, if this is its group.
fn primary_member(line: &str, gid: u32) -> Option<u32> {
    let mut fields = line.split(':').skip(2);
    let uid = fields.next()?.parse().ok()?;
    (fields.next()?.parse() == Ok(gid)).then_some(uid)
}

fn account(uid: u32) -> String {
    let name = User::from_uid(uid.into()).ok().flatten().map(|user| user.name);
    name.map_or_else(|| format!("uid {uid}"), |name| format!("{name} (uid {uid})"))
}

fn group(gid: u32) -> String {
    let name = Group::from_gid(gid.into()).ok().flatten().map(|group| group.name);
    name.map_or_else(|| format!("gid {gid}"), |name| format!("`{name}`"))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::PathBuf};

    use super::*;

    /// What is there; a group's members by its number.
    #[derive(Default)]
    struct Fake {
        files: BTreeMap<PathBuf, Owned>,
        links: BTreeMap<PathBuf, Owned>,
        groups: BTreeMap<u32, Vec<u32>>,
    }

    impl FileSystem for Fake {
        fn at(&self, path: &Path) -> Option<Owned> {
            self.files.get(path).copied()
        }

        fn link(&self, path: &Path) -> Option<Owned> {
            self.links.get(path).copied().or_else(|| self.at(path))
        }

        fn members(&self, gid: u32) -> Vec<u32> {
            self.groups.get(&gid).cloned().unwrap_or_default()
        }
    }

    const ALICE: u32 = 1000;
    const BOB: u32 = 1001;
    const LAB: u32 = 50;
    const USERS: u32 = 100;

    /// Its path, uid, gid and mode.
    type File = (&'static str, u32, u32, u32);

    fn alice(files: &[File]) -> Trust<Fake> {
        let files = files
            .iter()
            .map(|(path, uid, gid, mode)| (PathBuf::from(path), Owned { uid: *uid, gid: *gid, mode: *mode }));
        let groups = BTreeMap::from([(LAB, vec![ALICE, BOB]), (ALICE, vec![ALICE]), (7, vec![0, ALICE])]);
        Trust { look: Fake { files: files.collect(), groups, ..Fake::default() }, me: ALICE, caller: None }
    }

    #[test]
    fn the_way_up_ends_where_others_begin() {
        let root = ("/", 0, 0, 0o755);
        let home = |mode, gid| ("/home/a", ALICE, gid, mode);
        let own = |path| (path, ALICE, ALICE, 0o755);
        let cases: &[(&str, &[File], Option<&str>)] = &[
            ("nothing is there", &[root, own("/home/a"), own("/home/a/w")], None),
            ("its own", &[own("/home/a/w"), own("/home/a/w/.flow")], Some("/home/a/w")),
            ("above", &[own("/home/a"), own("/home/a/w"), own("/home/a/plugins")], Some("/home/a")),
            (
                "the nearest",
                &[own("/home/a"), own("/home/a/w"), own("/home/a/w/.git"), own("/home/a/.flow")],
                Some("/home/a/w"),
            ),
            ("with umask 002", &[home(0o775, ALICE), own("/home/a/w"), own("/home/a/.git")], Some("/home/a")),
            ("a group of several", &[home(0o775, LAB), own("/home/a/w"), own("/home/a/.git")], None),
            (
                "a group of several that only reads",
                &[home(0o755, LAB), own("/home/a/w"), own("/home/a/.git")],
                Some("/home/a"),
            ),
            ("for all to write", &[home(0o777, ALICE), own("/home/a/w"), own("/home/a/.flow")], None),
            ("as /tmp", &[home(0o1777, ALICE), own("/home/a/w"), own("/home/a/plugins")], None),
            ("another's", &[("/home/a", BOB, BOB, 0o755), own("/home/a/w"), own("/home/a/.flow")], None),
            ("root's", &[("/home/a", 0, 0, 0o755), own("/home/a/w"), own("/home/a/plugins")], None),
            (
                "not past another's",
                &[own("/home"), ("/home/a", BOB, BOB, 0o755), own("/home/a/w"), own("/home/.flow")],
                None,
            ),
            (
                "the folder itself, whose ever",
                &[("/home/a/w", BOB, BOB, 0o777), own("/home/a/w/.flow")],
                Some("/home/a/w"),
            ),
            (
                "another's, all the way",
                &[("/home/a", BOB, 1, 0o755), ("/home/a/w", BOB, 1, 0o755), own("/home/a/.flow")],
                Some("/home/a"),
            ),
            ("unknown", &[], None),
        ];
        for (what, files, expected) in cases {
            let found = alice(files);
            let found = found.nearest(Path::new("/home/a/w"), &[".flow", "plugins", ".git"]);
            assert_eq!(found, expected.map(Path::new), "{what}");
        }
    }

    #[test]
    fn what_others_own_or_may_write_is_not_used() {
        let cases = [
            ((ALICE, ALICE, 0o700), None),
            ((0, 0, 0o755), None),
            ((ALICE, LAB, 0o755), None),
            ((ALICE, ALICE, 0o775), None),
            // Root is in it too.
            ((ALICE, 7, 0o775), None),
            // A group of which nothing is known.
            ((1234, 1234, 0o700), Some("it belongs to uid 1234, and flow runs as uid 1000")),
            ((ALICE, LAB, 0o775), Some("the group gid 50 may write it (its mode is 775)")),
            ((ALICE, USERS, 0o2770), Some("the group gid 100 may write it (its mode is 2770)")),
            ((ALICE, ALICE, 0o1777), Some("everybody may write it (its mode is 1777)")),
            ((0, 0, 0o702), Some("everybody may write it (its mode is 702)")),
        ];
        // Numbers that have names on this machine are told by them.
        let bare = |why: String| {
            let with = |uid| (account(uid), format!("uid {uid}"));
            let names = [with(1234), with(ALICE), (group(50), "gid 50".into()), (group(100), "gid 100".into())];
            names.into_iter().fold(why, |why, (name, number)| why.replace(&name, &number))
        };
        for ((uid, gid, mode), expected) in cases {
            let found = alice(&[("/x", uid, gid, mode)]).against(Path::new("/x"), "it");
            assert_eq!(found.map(|found| bare(found.why)).as_deref(), expected, "{uid} {gid} {mode:o}");
        }
        let nobody_is_known = Trust { look: Fake::default(), me: 5, caller: None };
        assert!(nobody_is_known.is_private(Owned { uid: 5, gid: 5, mode: 0o775 }));
        assert_eq!(alice(&[]).against(Path::new("/x"), "it"), None, "what is not there");
        let chmod = alice(&[("/x", ALICE, ALICE, 0o777)]).against(Path::new("/x"), "it").and_then(|found| found.chmod);
        assert_eq!(chmod.as_deref(), Some("chmod go-w /x"));
    }

    #[test]
    fn a_folder_of_a_group_is_told_from_one_that_it_may_read() {
        let shared = |mode| alice(&[("/x", BOB, LAB, mode)]).shared_with(Path::new("/x"));
        assert_eq!((shared(0o2770), shared(0o770), shared(0o2750)), (Some(group(LAB)), None, None));
    }

    #[test]
    fn a_link_is_its_owners_and_so_is_what_it_points_to() {
        let linked = |uid| {
            let mut alice = alice(&[("/x", ALICE, ALICE, 0o700)]);
            alice.look.links.insert("/x".into(), Owned { uid, gid: uid, mode: 0o777 });
            alice.against(Path::new("/x"), "it").is_some()
        };
        assert!(linked(BOB) && !linked(ALICE) && !linked(0));
        let mut to_nowhere = alice(&[]);
        to_nowhere.look.links.insert("/x".into(), Owned { uid: BOB, gid: BOB, mode: 0o777 });
        assert!(to_nowhere.against(Path::new("/x"), "it").is_some());
        assert!(alice(&[("/x", BOB, BOB, 0o700)]).against(Path::new("/x"), "it").is_some());
    }

    #[test]
    fn in_a_sticky_folder_nobody_replaces_what_is_ours() {
        let against = |uid, mode| alice(&[("/x", uid, uid, mode)]).against_keeping_in(Path::new("/x"), "it").is_some();
        assert!(!against(0, 0o1777) && !against(ALICE, 0o1777));
        assert!(against(0, 0o777) && against(BOB, 0o1777) && against(BOB, 0o755));
    }

    #[test]
    fn root_trusts_who_called_it() {
        let root = |caller| {
            let alice = alice(&[("/x", ALICE, ALICE, 0o700)]);
            Trust { me: 0, caller, ..alice }.against(Path::new("/x"), "it").is_some()
        };
        assert!(root(None) && root(Some(BOB)) && !root(Some(ALICE)));
    }

    #[test]
    fn members_are_named_or_have_it_for_their_own() {
        assert_eq!(primary_member("bob:x:1001:100:Bob:/home/bob:/bin/sh", 100), Some(1001));
        assert_eq!(primary_member("bob:x:1001:100:Bob:/home/bob:/bin/sh", 1001), None);
        assert_eq!(primary_member("+::::::", 100), None);
        assert!(System.members(0).contains(&0), "root's own group");
    }
}
