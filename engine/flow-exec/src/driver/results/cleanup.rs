//! Removes work folders and files of successful attempts. Small ones wait for the end of the run, because ext4 creates
//! files slowly while it remembers many that were just removed. Knows no attempts.

use std::{
    collections::BTreeSet,
    fs, iter,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, Sender, TryRecvError, channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use flow_core::Link;
use flow_supervisor::clock;
use nix::{
    fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2},
    sys::stat::Mode,
    unistd::{UnlinkatFlags, unlinkat},
};

/// A folder larger than this is removed at once.
const SMALL: u64 = 1 << 20;

/// How many paths of small folders are kept until the end of the run. Folders beyond them are listed again.
const LISTED: usize = 100_000;

/// How long the thread lets folders gather: to wake it for each takes longer than to look at one.
const PAUSE: Duration = Duration::from_millis(20);

/// A folder or file to be removed.
#[derive(Debug)]
pub(crate) struct Leftover {
    path: PathBuf,
    /// A work folder in it, and the places of artifacts there.
    placed: Option<(PathBuf, Vec<String>)>,
}

impl From<PathBuf> for Leftover {
    fn from(path: PathBuf) -> Leftover {
        Leftover { path, placed: None }
    }
}

impl Leftover {
    /// Names the artifacts that flow itself placed in the work folder `work` in it. To find thousands by a walk takes three
    /// times as many system calls.
    pub(crate) fn has_artifacts(&mut self, work: PathBuf, artifacts: &[Link]) {
        self.placed = Some((work, artifacts.iter().map(|link| link.path.clone()).collect()));
    }
}

/// A file or folder in a leftover.
struct ListedPath {
    /// Relative to the leftover.
    path: PathBuf,
    is_folder: bool,
}

/// Removes folders on a thread of its own, because a large one takes long.
#[derive(Default)]
pub(crate) struct FolderRemover(Option<(Sender<Leftover>, JoinHandle<()>)>);

impl FolderRemover {
    pub(crate) fn add(&mut self, leftover: impl Into<Leftover>) {
        if self.0.is_none() {
            let (to, from) = channel();
            // Without a thread, `flow gc` removes it.
            let thread = thread::Builder::new().name("cleanup".to_owned()).spawn(move || sweep(&from));
            self.0 = thread.ok().map(|thread| (to, thread));
        }
        if let Some((to, _)) = &self.0 {
            let _ = to.send(leftover.into());
        }
    }

    /// Removes the remaining folders and waits until they are gone.
    pub(crate) fn clear(&mut self) {
        if let Some((to, thread)) = self.0.take() {
            drop(to);
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// The main function of the thread.
fn sweep(leftovers: &Receiver<Leftover>) {
    let (mut small, mut listed) = (Vec::new(), 0);
    for Leftover { path: folder, placed } in iter::from_fn(|| next(leftovers)) {
        if let Some((work, places)) = placed {
            remove_placed(&work, &places);
        }
        let mut inside = Vec::new();
        // A link to a work folder outside the store has only its own size.
        if folder.is_symlink() || is_small(&folder, Path::new(""), &mut { SMALL }, &mut inside) {
            if listed + inside.len() > LISTED {
                inside.clear();
            }
            inside.shrink_to_fit();
            listed += inside.len();
            small.push((folder, inside));
        } else {
            remove(&folder);
        }
    }
    // The run mounts nothing any more: mounts are looked for once, and per folder only if there are any.
    let above = |folder: &Path| folder.ancestors().nth(2).map(Path::to_owned);
    let mut free: BTreeSet<PathBuf> = small.iter().filter_map(|(folder, _)| above(folder)).collect();
    free.retain(|above| !flow_runs::is_mounted_below(above));
    on_two_threads(&small, |(folder, inside)| match above(folder) {
        Some(above) if free.contains(&above) => remove_listed(folder, inside),
        _ => remove(folder),
    });
}

/// The next folder. If none is there, it waits for several. Once all senders are gone it does not wait.
fn next(leftovers: &Receiver<Leftover>) -> Option<Leftover> {
    let began = clock::steady();
    loop {
        match leftovers.try_recv() {
            Ok(leftover) => return Some(leftover),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => {}
        }
        let rest = PAUSE.saturating_sub(clock::since(began));
        if rest.is_zero() {
            return leftovers.recv().ok();
        }
        thread::park_timeout(rest);
    }
}

fn on_two_threads<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (one, other) = items.split_at(items.len() / 2);
    let all = |items: &[T]| items.iter().map(&work).collect::<Vec<R>>();
    thread::scope(|both| {
        let aside = thread::Builder::new().spawn_scoped(both, || all(one));
        let other = all(other);
        let one = aside.map_or_else(|_| all(one), |aside| aside.join().unwrap_or_default());
        one.into_iter().chain(other).collect()
    })
}

/// Removes artifacts by their places, and the folders that are empty then. Follows no link that a step may have put in the
/// way of one.
fn remove_placed(work: &Path, places: &[String]) {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let inside = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_XDEV;
    let Ok(work) = open(work, flags | OFlag::O_NOFOLLOW, Mode::empty()) else { return };
    let places: Vec<(&str, &str)> = places.iter().filter_map(|place| place.rsplit_once('/')).collect();
    let by_folder: Vec<&[(&str, &str)]> = places.chunk_by(|one, next| one.0 == next.0).collect();
    let opened = on_two_threads(&by_folder, |places| {
        let path = places.first()?.0;
        let folder = openat2(&work, path, OpenHow::new().flags(flags).resolve(inside)).ok()?;
        places.iter().for_each(|(_, name)| _ = unlinkat(&folder, *name, UnlinkatFlags::NoRemoveDir));
        Some(path)
    });
    let above = opened.into_iter().flatten().flat_map(|path| {
        let above = iter::successors(Some(path), |path| Some(path.rsplit_once('/')?.0));
        above.map(|path| (path.matches('/').count(), path))
    });
    let perhaps_empty: BTreeSet<(usize, &str)> = above.collect();
    let perhaps_empty: Vec<(usize, &str)> = perhaps_empty.into_iter().collect();
    for of_one_depth in perhaps_empty.chunk_by(|one, next| one.0 == next.0).rev() {
        on_two_threads(of_one_depth, |(_, path)| _ = unlinkat(&work, *path, UnlinkatFlags::RemoveDir));
    }
}

/// True if the content of a folder in `top` is at most `room` bytes. Links are not followed. `inside`: its files, and its
/// folders after what is in them, but not many more than are kept.
fn is_small(top: &Path, folder: &Path, room: &mut u64, inside: &mut Vec<ListedPath>) -> bool {
    let Ok(entries) = fs::read_dir(top.join(folder)) else { return true };
    entries.flatten().all(|entry| {
        let path = folder.join(entry.file_name());
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let is_small = if is_folder {
            is_small(top, &path, room, inside)
        } else {
            // A file takes at least one block.
            let left = entry.metadata().map(|meta| room.checked_sub(meta.len().max(4096)));
            left.map_or(true, |left| {
                *room = left.unwrap_or(0);
                left.is_some()
            })
        };
        if inside.len() <= LISTED {
            inside.push(ListedPath { path, is_folder });
        }
        is_small
    })
}

/// Removes a folder of which these paths were listed before: to list it again takes most of the time. If one of its folders
/// is a link by now, that is not followed.
fn remove_listed(folder: &Path, inside: &[ListedPath]) {
    let is_folder = |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
    let mut folders = inside.iter().filter(|listed| listed.is_folder).map(|listed| folder.join(&listed.path));
    if !inside.is_empty() && is_folder(folder) && folders.all(|path| is_folder(&path)) {
        for ListedPath { path, is_folder } in inside {
            let path = folder.join(path);
            let _ = if *is_folder { fs::remove_dir(path) } else { fs::remove_file(path) };
        }
        if fs::remove_dir(folder).is_ok() {
            return;
        }
    }
    remove_all(folder);
}

pub(crate) fn remove(folder: &Path) {
    // An empty folder has no mount in it.
    if fs::remove_dir(folder).is_ok() {
        return;
    }
    if flow_runs::is_mounted_below(folder) {
        // A mount of a step has content that is not flow's.
        return;
    }
    remove_all(folder);
}

fn remove_all(path: &Path) {
    // If it cannot be removed now, `flow gc` removes it with the run.
    let _ = fs::remove_dir_all(path).or_else(|_| fs::remove_file(path));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_link_only_the_link_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (work, link) = (dir.path().join("work"), dir.path().join("link"));
        fs::create_dir(&work).unwrap();
        std::os::unix::fs::symlink(&work, &link).unwrap();
        let mut left = FolderRemover::default();
        left.add(link.clone());
        left.clear();
        assert!(work.exists() && !link.is_symlink());
    }

    #[test]
    fn a_link_that_took_the_place_of_a_folder_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (work, elsewhere) = (dir.path().join("1"), dir.path().join("mine"));
        fs::create_dir_all(work.join("out/deep")).unwrap();
        fs::write(work.join("out/deep/best"), "").unwrap();
        let mut inside = Vec::new();
        assert!(is_small(&work, Path::new(""), &mut { SMALL }, &mut inside));
        fs::rename(work.join("out"), &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, work.join("out")).unwrap();
        remove_listed(&work, &inside);
        assert!(!work.exists() && elsewhere.join("deep/best").exists());
    }

    #[test]
    fn artifacts_are_removed_by_their_places_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (work, elsewhere) = (dir.path().join("1/work"), dir.path().join("data"));
        for place in ["in/a/x", "in/b/x", "in/b/own"] {
            fs::create_dir_all(work.join(place).parent().unwrap()).unwrap();
            fs::write(work.join(place), "").unwrap();
        }
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("x"), "mine").unwrap();
        std::os::unix::fs::symlink(&elsewhere, work.join("in/c")).unwrap();
        fs::create_dir(dir.path().join("empty")).unwrap();
        let places: Vec<String> =
            ["../../empty/x", "in/a/x", "in/b/x", "in/c/x", "in/gone/x", "../../data/x"].map(str::to_owned).into();
        remove_placed(&work, &places);
        assert!(!work.join("in/a").exists() && !work.join("in/b/x").exists());
        assert!(work.join("in/b/own").exists(), "it is the step's");
        assert!(dir.path().join("empty").exists(), "outside");
        assert_eq!(fs::read_to_string(elsewhere.join("x")).unwrap(), "mine");
    }

    #[test]
    fn small_folders_wait_for_the_end_and_large_ones_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let folder = |name: &str, bytes: usize| {
            let folder = dir.path().join(name);
            fs::create_dir_all(folder.join("in")).unwrap();
            fs::write(folder.join("in/data"), vec![0; bytes]).unwrap();
            folder
        };
        let (small, large, file) = (folder("small", 10), folder("large", 2 << 20), dir.path().join("file"));
        fs::write(&file, "seen").unwrap();
        let many = folder("many", 10);
        fs::create_dir_all(many.join("in/deep/empty")).unwrap();
        (0..20).for_each(|n| fs::write(many.join(format!("in/deep/{n}")), "").unwrap());
        let mut left = FolderRemover::default();
        left.add(small.clone());
        left.add(file.clone());
        left.add(many.clone());
        left.add(large.clone());
        while large.exists() {
            thread::yield_now();
        }
        assert!(small.exists());
        left.clear();
        assert!(!small.exists() && !file.exists() && !many.exists());
    }
}
