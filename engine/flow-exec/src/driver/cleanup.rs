//! What attempts left that succeeded, work folders and files: nobody needs it any more. What is small waits for the end of the run, for
//! ext4 takes long to make a file while it remembers many that were just removed. Knows no attempts.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, Sender, channel},
    thread::{self, JoinHandle},
};

/// A folder with more than this in it is removed at once.
const SMALL: u64 = 1 << 20;

/// Folders to remove, on a thread of their own: a large one takes its time.
#[derive(Default)]
pub(crate) struct FolderRemover(Option<(Sender<PathBuf>, JoinHandle<()>)>);

impl FolderRemover {
    /// A folder, or a file, that is not needed any more.
    pub(crate) fn add(&mut self, folder: PathBuf) {
        if self.0.is_none() {
            let (to, from) = channel();
            // Without a thread it is left to `flow gc`.
            let thread = thread::Builder::new().name("cleanup".to_owned()).spawn(move || sweep(&from));
            self.0 = thread.ok().map(|thread| (to, thread));
        }
        if let Some((to, _)) = &self.0 {
            let _ = to.send(folder);
        }
    }

    /// Removes what is left, and returns when it is gone.
    pub(crate) fn clear(&mut self) {
        if let Some((to, thread)) = self.0.take() {
            drop(to);
            let _ = thread.join();
        }
    }
}

/// The life of the thread.
fn sweep(folders: &Receiver<PathBuf>) {
    let mut small = Vec::new();
    for folder in folders {
        if is_small(&folder, &mut { SMALL }) {
            small.push(folder);
        } else {
            remove(&folder);
        }
    }
    // The run has ended, and mounts nothing any more: they are looked for once in all attempts, and in each only where there are some.
    let attempts = |folder: &Path| folder.ancestors().nth(2).map(Path::to_owned);
    let mut free: BTreeSet<PathBuf> = small.iter().filter_map(|folder| attempts(folder)).collect();
    free.retain(|attempts| !flow_store::is_mounted_below(attempts));
    let remove = |folder: &PathBuf| match attempts(folder) {
        Some(attempts) if free.contains(&attempts) => remove_all(folder),
        _ => remove(folder),
    };
    let (one, other) = small.split_at(small.len() / 2);
    thread::scope(|both| {
        let aside = || one.iter().for_each(remove);
        let started = thread::Builder::new().spawn_scoped(both, aside).is_ok();
        if !started {
            aside();
        }
        other.iter().for_each(remove);
    });
}

/// Does what is in the folder fit in the room? Links are not followed.
fn is_small(folder: &Path, room: &mut u64) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return true };
    entries.flatten().all(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => is_small(&entry.path(), room),
        // A file takes a block at least.
        Ok(meta) => {
            let left = room.checked_sub(meta.len().max(4096));
            *room = left.unwrap_or(0);
            left.is_some()
        }
        Err(_) => true,
    })
}

pub(super) fn remove(folder: &Path) {
    // One with nothing in it has no mount in it either.
    if fs::remove_dir(folder).is_ok() {
        return;
    }
    if flow_store::is_mounted_below(folder) {
        // What a step mounted there is somebody else's.
        return;
    }
    remove_all(folder);
}

fn remove_all(path: &Path) {
    // What cannot be removed now `flow gc` removes with the run.
    let _ = fs::remove_dir_all(path).or_else(|_| fs::remove_file(path));
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut left = FolderRemover::default();
        left.add(small.clone());
        left.add(file.clone());
        left.add(large.clone());
        while large.exists() {
            thread::yield_now();
        }
        assert!(small.exists());
        left.clear();
        assert!(!small.exists() && !file.exists());
    }
}
