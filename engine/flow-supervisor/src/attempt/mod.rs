//! The attempt's folder from the engine's side: the request, the program's messages, `go` and `stop`, the exit record, the
//! log. Does not start anything and knows no scheduler.

mod follow;
mod leftover;
mod lines;
mod log;
mod memory;
mod outcome;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink},
    path::{Path, PathBuf},
};

use flow_core::Program;
use flow_protocol::{Request, file};

pub use follow::Follower;
pub use leftover::leftover;
pub use lines::Lines;
pub use log::Bound;
pub use log::{FIRST, NEWEST, left_out, open_log};
pub use outcome::signal_name;
pub use outcome::{EndFacts, ProgramReport, conclude};

/// Where the program's messages are while `messages.jsonl` is a pipe that hides secrets.
const PIPE_TARGET: &str = "heard.jsonl";
/// The output of the attempts whose checkpoint this one continues from.
const EARLIER: &str = "earlier.log";
/// The variables of the program, for `flow shell`.
const VARIABLES: &str = "variables.json";
/// Its own copies of input folders, if it runs as root. The files in the work folder are hard links to them.
const INPUTS: &str = "inputs";
/// The same next to a work folder outside the store, whose file system may be another one.
const INPUTS_OUTSIDE: &str = ".inputs";

/// The folder of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
    work: PathBuf,
}

impl Folder {
    /// Creates the folder, accessible to its owner alone from the start, with an empty work folder. `path` is its real
    /// path, so that a link put in the way later is noticed.
    ///
    /// # Errors
    /// The folders cannot be created.
    pub fn create(path: PathBuf) -> io::Result<Folder> {
        make_private(&path)?;
        let work = path.join(file::WORK);
        // The work folder gets the user's default mode, because a container that uses it may run as another user.
        fs::create_dir_all(&work)?;
        Ok(Folder { path, work })
    }

    /// The same with the work folder in another folder of its own, `outside`, given by its real path. The link of the run
    /// leads there.
    ///
    /// # Errors
    /// The folders cannot be created.
    pub fn create_outside(path: PathBuf, outside: &Path) -> io::Result<Folder> {
        make_private(&path)?;
        // Somebody may have cleared that place during the run.
        make_private(outside)?;
        let work = outside.join(file::WORK);
        fs::create_dir(&work)?;
        Ok(Folder { path, work })
    }

    /// Puts a link to a work folder outside in its place in the store, for plugins and for people.
    ///
    /// # Errors
    /// The link cannot be made.
    pub fn link_work(&self) -> io::Result<()> {
        if !self.is_work_outside() {
            return Ok(());
        }
        match symlink(&self.work, self.work_in_store()) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
            _ => Ok(()),
        }
    }

    /// An existing folder.
    pub fn at(path: PathBuf) -> Folder {
        let work = work_outside(&path).unwrap_or_else(|| path.join(file::WORK));
        Folder { path, work }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The program's working directory.
    pub fn work(&self) -> PathBuf {
        self.work.clone()
    }

    /// The work folder, or the link to it, by a path in the store.
    pub fn work_in_store(&self) -> PathBuf {
        self.path.join(file::WORK)
    }

    /// True if the work folder is in another place.
    pub fn is_work_outside(&self) -> bool {
        !self.work.starts_with(&self.path)
    }

    /// Everything to remove when the work folder is no longer needed.
    pub fn all_of_work(&self) -> Vec<PathBuf> {
        match self.work.parent() {
            // What the program wrote next to its work folder goes too.
            Some(outside) if self.is_work_outside() => {
                let link = self.work_in_store();
                let link = link.is_symlink().then_some(link);
                [outside.to_owned()].into_iter().chain(link).collect()
            }
            _ => vec![self.work()],
        }
    }

    /// The folder of its own copies of input folders.
    pub fn inputs(&self) -> PathBuf {
        if self.is_work_outside() { self.work.with_file_name(INPUTS_OUTSIDE) } else { self.path.join(INPUTS) }
    }

    /// The program's standard output and error.
    pub fn log(&self) -> PathBuf {
        self.path.join(file::LOG)
    }

    /// The output of the attempts whose checkpoint it continues from; missing if it starts from scratch.
    pub fn earlier(&self) -> PathBuf {
        self.path.join(EARLIER)
    }

    /// The file, or the pipe in its place, to which the program writes messages.
    pub fn messages(&self) -> PathBuf {
        self.path.join(file::MESSAGES)
    }

    /// The file behind that pipe, until the attempt has ended.
    pub fn pipe_target(&self) -> PathBuf {
        self.path.join(PIPE_TARGET)
    }

    /// Opens the file behind the pipe, and creates it if needed.
    ///
    /// # Errors
    /// It cannot be created.
    pub(crate) fn open_pipe_target(&self) -> io::Result<fs::File> {
        fs::File::options().read(true).append(true).create(true).mode(0o600).open(self.pipe_target())
    }

    /// Writes `request.json`, before the start.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_request(&self, request: &Request) -> io::Result<()> {
        fs::write(self.path.join(file::REQUEST), serde_json::to_vec(request)?)
    }

    /// Keeps the variables that the program got in addition to its user's. One without a value was removed.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_variables(&self, variables: &BTreeMap<String, Option<String>>) -> io::Result<()> {
        fs::write(self.path.join(VARIABLES), serde_json::to_vec(variables)?)
    }

    /// These variables; empty if there are none.
    pub fn variables(&self) -> BTreeMap<String, Option<String>> {
        let text = fs::read(self.path.join(VARIABLES)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Releases the barrier: `go` appears complete, with the time in seconds since 1970.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn go(&self, at: f64) -> io::Result<()> {
        write_atomically(&self.path.join(file::GO), format!("{at:.6}\n").as_bytes())
    }

    /// True if its barrier was released.
    pub fn is_released(&self) -> bool {
        self.path.join(file::GO).exists()
    }

    /// When its barrier was released.
    pub fn released(&self) -> Option<f64> {
        fs::read_to_string(self.path.join(file::GO)).ok()?.trim().parse().ok()
    }

    /// Asks a program that trains only for its group to stop after the current epoch.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn stop(&self) -> io::Result<()> {
        write_atomically(&self.path.join(file::STOP), b"")
    }

    /// The last lines of the log without line ends, at most `lines` and 64 KiB. Invalid UTF-8 is replaced. The last
    /// state of a line redrawn with carriage returns counts. Colours are removed.
    ///
    /// # Errors
    /// The log exists and cannot be read.
    pub fn log_tail(&self, lines: usize) -> io::Result<Vec<String>> {
        let plain = |line: &String| Program::default().text(line.as_bytes());
        Ok(tail(&self.log(), lines)?.iter().map(plain).collect())
    }
}

/// Creates a folder, and those above it, that are accessible to their owner alone.
///
/// # Errors
/// One of them cannot be created.
pub fn make_private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// The work folder `…/N/work` of the attempt `RUN/attempts/N`, if the link `RUN/work` leads to the folder of the run in
/// another place. A program may have put another link there.
fn work_outside(attempt: &Path) -> Option<PathBuf> {
    let run = attempt.ancestors().nth(2)?;
    if fs::symlink_metadata(attempt.join(file::WORK)).is_ok_and(|work| work.is_dir()) {
        return None;
    }
    let target = fs::read_link(run.join(file::WORK)).ok()?;
    target.ends_with(run.file_name()?).then(|| target.join(attempt.file_name().unwrap_or_default()).join(file::WORK))
}

/// The last lines of a file that may still grow; none if it does not exist.
///
/// # Errors
/// The file exists and cannot be read, or is not a regular file.
pub fn tail(path: &Path, lines: usize) -> io::Result<Vec<String>> {
    const BYTES: u64 = 64 << 10;
    let mut file = match open_log(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let length = file.metadata()?.len();
    let start = length.saturating_sub(BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(BYTES).read_to_end(&mut bytes)?;
    if start > 0 {
        // The first line is incomplete.
        let cut = bytes.iter().position(|b| *b == b'\n').map_or(0, |n| n + 1);
        bytes.drain(..cut);
    }
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().map(last_drawn).collect();
    Ok(all[all.len().saturating_sub(lines)..].iter().map(|line| (*line).to_owned()).collect())
}

/// The last state of a line that a progress bar redrew.
pub fn last_drawn(line: &str) -> &str {
    line.trim_end_matches('\r').rsplit('\r').next().unwrap_or(line)
}

/// Writes a file so that readers see all of it or nothing. Not synced: it survives the process, and after a power cut
/// the attempt counts as lost anyway.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let new = || fs::File::create_new(&temporary);
    let file = new().or_else(|_| {
        // Something that a program put there, such as a pipe, must not block or redirect the writer.
        let _ = fs::remove_file(&temporary);
        new()
    });
    let mut file = file?;
    let written = file.write_all(content).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // On a full disk, others need the space.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// The same, synced: readers see all of it or nothing even after a power cut.
pub(crate) fn write_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = fs::File::options().write(true).create(true).truncate(true).open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    path.parent().map_or(Ok(()), |folder| fs::File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_whole_lines_as_last_drawn() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::create(dir.path().join("1")).unwrap();
        assert_eq!(folder.log_tail(3).unwrap(), Vec::<String>::new());
        fs::write(folder.log(), b"one\r\ntwo\n10%\r50%\r100%\r\nbad \xff\n\x1b[31mopen\x1b[0m").unwrap();
        assert_eq!(folder.log_tail(4).unwrap(), ["two", "100%", "bad \u{fffd}", "open"]);
        let long: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
        fs::write(folder.log(), long).unwrap();
        let all = folder.log_tail(usize::MAX).unwrap();
        assert!(all[0].starts_with("line 1") && all.len() < 10_000, "{}", all[0]);
        assert_eq!(all.last().unwrap(), "line 19999");
    }

    #[test]
    fn a_work_folder_outside_is_found_by_the_link_of_the_run_alone() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (attempt, outside) = (top.join("runs/r/attempts/7"), top.join("cache/r/7"));
        let folder = Folder::create_outside(attempt.clone(), &outside).unwrap();
        symlink(top.join("cache/r"), top.join("runs/r/work")).unwrap();
        let work = outside.join("work");
        assert_eq!((folder.work(), folder.all_of_work()), (work.clone(), vec![outside.clone()]));
        assert_eq!(Folder::at(attempt.clone()), folder);
        folder.link_work().and_then(|()| folder.link_work()).unwrap();
        assert_eq!(Folder::at(attempt.clone()), folder);
        assert_eq!(fs::read_link(attempt.join("work")).unwrap(), work);
        assert_eq!(folder.all_of_work(), [outside, attempt.join("work")]);
        fs::remove_dir_all(top.join("cache")).unwrap();
        assert_eq!(Folder::at(attempt.clone()).work(), work, "the path is known after the folder is gone");
        // A program may put a link to the author's files in its place, which must be neither collected nor removed.
        fs::remove_file(top.join("runs/r/work")).unwrap();
        symlink(dir.path(), top.join("runs/r/work")).unwrap();
        assert_eq!(Folder::at(attempt.clone()).all_of_work(), [attempt.join("work")]);
        let inside = Folder::create(top.join("runs/r/attempts/8")).unwrap();
        assert_eq!(inside.all_of_work(), [top.join("runs/r/attempts/8/work")]);
    }

    #[test]
    fn an_attempt_without_a_record_has_not_ended() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::create(dir.path().join("1")).unwrap();
        folder.go(12.5).unwrap();
        folder.stop().unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("go")).unwrap(), "12.500000\n");
        assert!(folder.path().join("stop").exists());
        nix::unistd::mkfifo(&folder.path().join("go.tmp"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        folder.go(13.5).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("go")).unwrap(), "13.500000\n");
    }
}
