//! The checkpoint folder of an instance, in the store, from which the next attempt continues. Tracks whether it has
//! changed, the resources used so far, and the log. Does not know the content.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    ops::Range,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, OpenOptionsExt, symlink},
    },
    path::{Path, PathBuf},
};

use flow_core::{
    Digest, EarlierUsage, Usage,
    measure::{LINE_ENDS, LONGEST_LINE, PART_ENDS},
    reason::NoResumeReason,
};
use flow_runs::StoreDir;
use flow_supervisor::attempt::{FIRST, Folder, NEWEST, open_log, write_atomically};
use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

use super::{cleanup, keep};

/// The checkpoint folder of an instance.
pub(crate) struct Checkpoint(PathBuf);

/// A note beside the folder about an interrupted attempt whose work continues.
#[derive(Serialize, Deserialize)]
struct CheckpointNote {
    /// The digest of the folder's content at that time.
    content: Digest,
    earlier: EarlierUsage,
}

impl Checkpoint {
    pub(crate) fn at(folder: PathBuf) -> Checkpoint {
        Checkpoint(folder)
    }

    /// By the fingerprint of the attempt, so a new reading of its metrics keeps it. `run`: empty if runs share it.
    pub(crate) fn of(dir: &StoreDir, attempt: &Digest, label: &str, run: &str) -> Checkpoint {
        let name = Digest::of(format!("{attempt} {label} {run}").as_bytes());
        Checkpoint::at(dir.checkpoints().join(name.to_string()))
    }

    pub(crate) fn folder(&self) -> &PathBuf {
        &self.0
    }

    /// True if it holds a file.
    pub(crate) fn is_there(&self) -> bool {
        WalkDir::new(&self.0).into_iter().flatten().any(|entry| !entry.file_type().is_dir())
    }

    fn note(&self) -> PathBuf {
        self.0.with_extension("json")
    }

    /// The logs of all attempts that left something here, in order.
    fn log(&self) -> PathBuf {
        self.0.with_extension("log")
    }

    /// A link to the folder of the attempt that continues from it, or did last.
    fn attempt(&self) -> PathBuf {
        self.0.with_extension("attempt")
    }

    /// The recorded environments of the attempts that left something here, and of the one that uses it.
    fn environments_file(&self) -> PathBuf {
        self.0.with_extension("environments")
    }

    pub(crate) fn environments(&self) -> Vec<Digest> {
        let read = fs::read(self.environments_file()).ok();
        read.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Notes the environment of an attempt that uses it, in case that flow is killed with the attempt.
    pub(crate) fn is_used_in(&self, environment: Digest) {
        let mut all = self.environments();
        if !all.contains(&environment) {
            all.push(environment);
            let written = serde_json::to_vec(&all).map(|all| write_atomically(&self.environments_file(), &all));
            // Without the note, a later result has no caveat.
            drop(written);
        }
    }

    fn noted(&self) -> Option<CheckpointNote> {
        serde_json::from_slice(&fs::read(self.note()).ok()?).ok()
    }

    /// Resources used before the next attempt.
    pub(crate) fn earlier(&self) -> Option<EarlierUsage> {
        self.noted().map(|noted| noted.earlier)
    }

    /// Called when an attempt was interrupted. `used` includes earlier attempts. Ok if another attempt can continue
    /// from here, which requires that this one made progress.
    ///
    /// # Errors
    /// The reason why no attempt continues. An unreadable folder is no checkpoint.
    pub(crate) fn continues(&self, used: &Usage, log: &Path) -> Result<(), NoResumeReason> {
        let content = self.content().map_err(|_| NoResumeReason::NoCheckpoint)?.ok_or(NoResumeReason::NoCheckpoint)?;
        if self.noted().is_some_and(|noted| noted.content == content) {
            return Err(NoResumeReason::NoProgress);
        }
        let noted =
            serde_json::to_vec(&CheckpointNote { content, earlier: EarlierUsage::and(used) }).unwrap_or_default();
        self.append_log(log);
        // Without the note, a later attempt could not tell whether there was progress.
        write_atomically(&self.note(), &noted).map_err(|_| NoResumeReason::NoCheckpoint)
    }

    /// Called before an attempt starts: true if it has something to continue from. A state without a note comes from an
    /// attempt that was killed together with flow: its time is unknown.
    pub(crate) fn found(&self) -> bool {
        let Ok(Some(content)) = self.content() else {
            // An attempt that was killed left notes, but nothing to continue from.
            if fs::remove_file(self.environments_file()).is_ok() {
                self.remove_notes();
            }
            return false;
        };
        let noted = self.noted();
        if noted.as_ref().is_some_and(|noted| noted.content == content) {
            return true;
        }
        self.append_log(&Folder::at(self.attempt()).log());
        let mut earlier = noted.map(|noted| noted.earlier).unwrap_or_default();
        earlier.jobs += 1;
        earlier.unmeasured += 1;
        earlier.energy_j = None;
        let noted = serde_json::to_vec(&CheckpointNote { content, earlier }).unwrap_or_default();
        let _ = write_atomically(&self.note(), &noted);
        true
    }

    /// Links to the folder of the attempt, so that the next attempt finds its log even if flow is killed with it.
    pub(crate) fn is_used_by(&self, folder: &Folder) {
        let _ = fs::remove_file(self.attempt());
        let _ = symlink(folder.path(), self.attempt());
    }

    /// Gives the attempt the log of the attempts it continues from, so that its metrics cover them.
    ///
    /// # Errors
    /// The log cannot be linked or copied.
    pub(crate) fn give_log(&self, folder: &Folder) -> io::Result<()> {
        let linked = fs::hard_link(self.log(), folder.earlier());
        match linked.or_else(|_| fs::copy(self.log(), folder.earlier()).map(drop)) {
            // There is none, or it belongs to another member of a group, who alone may read it.
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => Ok(()),
            given => given,
        }
    }

    /// The attempt has ended. An empty folder is removed; otherwise the next attempt continues from it.
    pub(crate) fn release(&self) {
        if fs::remove_dir(&self.0).is_ok() {
            self.remove_notes();
        }
    }

    /// Appends the log of an attempt to the earlier ones. If that fails, its numbers are lost and the training
    /// continues.
    fn append_log(&self, log: &Path) {
        let new = self.0.with_extension("log.tmp");
        let written = self.joined(log, &new).and_then(|any| if any { fs::rename(&new, self.log()) } else { Ok(()) });
        if written.is_err() {
            let _ = fs::remove_file(new);
        }
    }

    /// Returns whether the attempt has printed anything. All parts together are kept up to the limit of one log.
    fn joined(&self, log: &Path, new: &Path) -> io::Result<bool> {
        let own = open_log(log)?;
        let length = own.metadata()?.len();
        if length == 0 {
            return Ok(false);
        }
        let mut to = File::options().write(true).create(true).truncate(true).mode(0o600).open(new)?;
        match open_log(&self.log()) {
            Ok(before) => {
                let cut = too_much(before.metadata()?.len(), length);
                copy_lines(before, cut, &mut to)?;
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        let cut = keep::middle(&own);
        copy_lines(own, cut, &mut to)?;
        writeln!(to, "{PART_ENDS}")?;
        Ok(true)
    }

    /// Removes it when nothing continues from it any more.
    pub(crate) fn remove(&self) {
        cleanup::remove(&self.0);
        self.remove_notes();
    }

    fn remove_notes(&self) {
        let files = [self.note(), self.log(), self.attempt(), self.environments_file()];
        files.iter().for_each(|file| _ = fs::remove_file(file));
    }

    /// A digest of all its files, or none if there are none.
    fn content(&self) -> io::Result<Option<Digest>> {
        let (mut all, mut files) = (blake3::Hasher::new(), 0);
        for entry in WalkDir::new(&self.0).sort_by_file_name() {
            let entry = entry?;
            let bytes = match entry.file_type() {
                kind if kind.is_file() => {
                    let mut file = blake3::Hasher::new();
                    file.update_reader(fs::File::open(entry.path())?)?;
                    *file.finalize().as_bytes()
                }
                kind if kind.is_symlink() => Digest::of(fs::read_link(entry.path())?.as_os_str().as_bytes()).0,
                _ => continue,
            };
            files += 1;
            let path = entry.path().as_os_str().as_bytes();
            all.update(&(path.len() as u64).to_le_bytes()).update(path).update(&bytes);
        }
        Ok((files > 0).then(|| Digest(*all.finalize().as_bytes())))
    }
}

/// The range to drop from the earlier parts when one of this length is appended.
fn too_much(earlier: u64, own: u64) -> Option<Range<u64>> {
    let room = NEWEST.saturating_sub(own);
    (earlier > FIRST + room).then(|| FIRST..earlier - room)
}

/// Copies all whole lines except those in the range, because a line that was cut may hold half a number.
fn copy_lines(mut from: File, cut: Option<Range<u64>>, to: &mut File) -> io::Result<()> {
    let (mut at, end) = (0, back_to_line(&from, from.metadata()?.len())?);
    if let Some(cut) = cut {
        io::copy(&mut (&from).take(back_to_line(&from, cut.start)?), to)?;
        writeln!(to, "[flow: {} MiB are missing here]", (cut.end - cut.start).div_ceil(1 << 20))?;
        at = on_to_line(&from, cut.end)?;
    }
    from.seek(SeekFrom::Start(at))?;
    io::copy(&mut from.take(end.saturating_sub(at)), to).map(drop)
}

/// The end of the last whole line before this offset.
fn back_to_line(file: &File, at: u64) -> io::Result<u64> {
    let from = at.saturating_sub(LONGEST_LINE as u64);
    let mut bytes = vec![0; (at - from) as usize];
    file.read_exact_at(&mut bytes, from)?;
    Ok(bytes.iter().rposition(|byte| LINE_ENDS.contains(byte)).map_or(from, |end| from + end as u64 + 1))
}

/// The start of the first whole line after this offset.
fn on_to_line(file: &File, at: u64) -> io::Result<u64> {
    let mut bytes = vec![0; LONGEST_LINE];
    let read = file.read_at(&mut bytes, at)?;
    let end = bytes[..read].iter().position(|byte| LINE_ENDS.contains(byte));
    Ok(at + end.map_or(read, |end| end + 1) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_has_left_more_than_there_was() {
        let dir = tempfile::tempdir().unwrap();
        let (checkpoint, log) = (Checkpoint::at(dir.path().join("ab12")), dir.path().join("none"));
        let part = |wall_s| Usage { wall_s: Some(wall_s), energy_j: Some(wall_s), ..Usage::default() };
        assert_eq!(checkpoint.continues(&part(1.0), &log), Err(NoResumeReason::NoCheckpoint));
        fs::create_dir_all(checkpoint.folder().join("deep")).unwrap();
        assert_eq!(checkpoint.continues(&part(1.0), &log), Err(NoResumeReason::NoCheckpoint));
        fs::write(checkpoint.folder().join("deep/epoch"), "1").unwrap();
        assert_eq!(checkpoint.continues(&part(1.0), &log), Ok(()));
        // Written again with the same content.
        fs::write(checkpoint.folder().join("deep/epoch"), "1").unwrap();
        assert_eq!(checkpoint.continues(&part(2.0), &log), Err(NoResumeReason::NoProgress));
        fs::write(checkpoint.folder().join("deep/epoch"), "2").unwrap();
        let used = part(2.0).after(checkpoint.earlier());
        assert_eq!(checkpoint.continues(&used, &log), Ok(()));
        let earlier = checkpoint.earlier().unwrap();
        assert_eq!((earlier.jobs, earlier.wall_s), (2, Some(3.0)));
        checkpoint.found();
        assert_eq!(checkpoint.earlier(), Some(earlier.clone()), "all of it is noted");
        fs::write(checkpoint.folder().join("deep/epoch"), "3").unwrap();
        checkpoint.found();
        let found = checkpoint.earlier().unwrap();
        assert_eq!((found.jobs, found.unmeasured, found.wall_s), (3, 1, Some(3.0)));
        assert_eq!(found.energy_j, None, "that of one part is not known");
        let used = part(1.0).after(Some(found));
        fs::write(checkpoint.folder().join("deep/epoch"), "4").unwrap();
        assert_eq!(checkpoint.continues(&used, &log), Ok(()));
        assert_eq!(checkpoint.earlier().map(|earlier| (earlier.jobs, earlier.unmeasured)), Some((4, 1)));
        fs::remove_dir_all(checkpoint.folder().join("deep")).unwrap();
        checkpoint.release();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn environments_are_noted_while_something_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let checkpoint = Checkpoint::at(dir.path().join("ab12"));
        let [one, other] = ["one", "other"].map(|name| Digest::of(name.as_bytes()));
        let start = |environment| {
            checkpoint.found();
            checkpoint.is_used_in(environment);
            checkpoint.environments()
        };
        assert_eq!(start(one), [one]);
        assert_eq!(start(other), [other], "the first attempt left nothing");
        fs::create_dir_all(checkpoint.folder()).unwrap();
        fs::write(checkpoint.folder().join("epoch"), "1").unwrap();
        assert_eq!((start(other), start(one)), (vec![other], vec![other, one]));
        checkpoint.remove();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_was_printed_is_kept_in_parts_and_no_half_line_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let checkpoint = Checkpoint::at(dir.path().join("ab12"));
        let attempt = |n: u32, printed: &str| {
            let folder = Folder::create(dir.path().join(n.to_string())).unwrap();
            if checkpoint.found() {
                checkpoint.give_log(&folder).unwrap();
            }
            checkpoint.is_used_by(&folder);
            fs::write(folder.log(), printed).unwrap();
            folder
        };
        let earlier = |folder: &Folder| fs::read_to_string(folder.earlier()).unwrap_or_default();
        let leave = |epoch: &str| {
            fs::create_dir_all(checkpoint.folder()).unwrap();
            fs::write(checkpoint.folder().join("epoch"), epoch).unwrap();
        };
        let first = attempt(1, "epoch 1\nepo");
        assert_eq!(earlier(&first), "");
        leave("1");
        // Killed together with flow: its end was never recorded.
        let second = attempt(2, "epoch 2\n");
        let of_first = format!("epoch 1\n{PART_ENDS}\n");
        assert_eq!(earlier(&second), of_first);
        leave("2");
        assert_eq!(checkpoint.continues(&Usage::default(), &second.log()), Ok(()));
        let third = attempt(3, "epoch 3 without a checkpoint\n");
        let of_both = format!("{of_first}epoch 2\n{PART_ENDS}\n");
        assert_eq!(earlier(&third), of_both);
        assert_eq!(checkpoint.continues(&Usage::default(), &third.log()), Err(NoResumeReason::NoProgress));
        let fourth = attempt(4, "");
        assert_eq!(earlier(&fourth), of_both, "what left nothing is done again");
        checkpoint.remove();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4, "their own folders");
        assert_eq!(earlier(&fourth), of_both);
    }

    #[test]
    fn of_a_log_only_whole_lines_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let copied = |text: &str, cut: Option<Range<u64>>| {
            let (from, to) = (dir.path().join("from"), dir.path().join("to"));
            fs::write(&from, text).unwrap();
            copy_lines(File::open(&from).unwrap(), cut, &mut File::create(&to).unwrap()).unwrap();
            fs::read_to_string(to).unwrap()
        };
        assert_eq!(copied("one\ntwo\r\n10%\r50", None), "one\ntwo\r\n10%\r");
        assert_eq!((copied("half", None), copied("", None)), (String::new(), String::new()));
        let cut = copied("one\ntwo\nthree\nfour\nfi", Some(5..10));
        assert_eq!(cut, "one\n[flow: 1 MiB are missing here]\nfour\n");
        assert_eq!(copied("one\ntwo\nthree", Some(1..9)), "[flow: 1 MiB are missing here]\n");
    }

    #[test]
    fn of_all_parts_no_more_is_kept_than_of_a_log() {
        assert_eq!(too_much(FIRST + NEWEST, 0), None);
        assert_eq!(too_much(FIRST + NEWEST, 10), Some(FIRST..FIRST + 10));
        assert_eq!(too_much(FIRST, NEWEST * 2), None);
        assert_eq!(too_much(FIRST + 10, NEWEST * 2), Some(FIRST..FIRST + 10));
    }
}
