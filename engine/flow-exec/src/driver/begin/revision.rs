//! The current Git commit of a run's repository. Git's output is not trusted: only a hash and the presence of a change
//! are used. Without a repository, without git, or after a timeout, nothing is known.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    io::{BufRead, BufReader, Read, Take},
    path::{Path, PathBuf, absolute},
    process::{ChildStdout, Command, Stdio},
    sync::mpsc::{Receiver, sync_channel},
    thread,
    time::{Duration, Instant},
};

use flow_core::Revision;
use flow_supervisor::clock;

use crate::{driver::session::Session, paths::normal};

/// A first look at a large repository on a slow disk takes longer; then the commit stays unknown.
const PATIENCE: Duration = Duration::from_secs(2);
/// Limit of what is read from git. The commit comes first.
const READ: u64 = 1 << 16;
/// So many files are looked up in the repository; more would not fit into a command line.
const MOST_READ: usize = 4096;

/// A call of git that runs on another thread.
pub(crate) struct RevisionQuery(Option<Receiver<Option<Revision>>>, Instant);

/// Asks git for the commit of the repository around a folder, and for changes. Files `written` by flow itself do not
/// count, because a run does not measure what it publishes. A file `read` by the run that is not in the repository
/// counts. If the repository ignores it or it is elsewhere, it is no change, but the commit lacks it. Without a
/// repository no process is started, and `read` is not called.
pub(crate) fn query(folder: &Path, written: &[PathBuf], read: impl FnOnce() -> BTreeSet<PathBuf>) -> RevisionQuery {
    let asked = clock::steady();
    let Some(top) = folder.ancestors().find(|above| above.join(".git").exists()) else {
        return RevisionQuery(None, asked);
    };
    let read = read();
    // Paths outside belong to no file of the repository, and git would reject them.
    let below = |path: &PathBuf| Some(path.strip_prefix(top).ok()?.to_owned());
    let written: Vec<PathBuf> = written.iter().filter_map(below).collect();
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let real_top = real(top);
    let is_elsewhere = read.iter().any(|path| !real(path).starts_with(&real_top));
    let read: Vec<PathBuf> = read.iter().filter_map(below).take(MOST_READ).collect();
    let (tell, told) = sync_channel(1);
    let folder = folder.to_owned();
    let thread = thread::Builder::new().name("revision".into()).spawn(move || {
        let found = look(&folder, &written, &read);
        tell.send(found.map(|found| Revision { outside: found.outside || is_elsewhere, ..found }))
    });
    RevisionQuery(thread.is_ok().then_some(told), asked)
}

impl RevisionQuery {
    /// The answer of git, waited for until the timeout.
    pub(crate) fn answer(self) -> Option<Revision> {
        let left = PATIENCE.saturating_sub(clock::since(self.1));
        self.0?.recv_timeout(left).ok().flatten()
    }
}

/// The files that a workflow reads: itself, the files it includes, and the inputs of its steps.
pub(crate) fn read(session: &Session) -> BTreeSet<PathBuf> {
    let inputs = session.expansion.instances.iter().flat_map(|instance| instance.inputs.iter());
    let inputs: BTreeSet<&str> = inputs.map(|input| input.path.as_str()).collect();
    let inputs = inputs.into_iter().map(|input| normal(&session.path(input)));
    let sources = session.workflow.sources().filter_map(|source| absolute(&source.path).ok());
    inputs.chain(sources.map(|source| normal(&source))).collect()
}

fn look(folder: &Path, written: &[PathBuf], read: &[PathBuf]) -> Option<Revision> {
    let named = |how: &'static str| {
        move |path: &PathBuf| {
            let mut spec = OsString::from(how);
            spec.push(path);
            spec
        }
    };
    let mut status = git(folder);
    status.args(["status", "--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=dirty"]);
    status.args(["--", ":(top)"]).args(written.iter().map(named(":(exclude,top,literal)")));
    let revision = answer(status, parse, |told| told.as_ref().is_some_and(|told| told.dirty))??;
    if read.is_empty() {
        return Some(revision);
    }
    let has_others = |which: &[&str]| {
        let mut others = git(folder);
        others.args(["ls-files", "--others", "--exclude-standard"]).args(which).arg("--");
        others.args(read.iter().map(named(":(top,literal)"))).arg(":(top,exclude,glob)**/__pycache__/**");
        answer(others, |said| said.bytes().next().is_some(), |found| *found)
    };
    let dirty = revision.dirty || has_others(&[])?;
    Some(Revision { dirty, outside: has_others(&["--ignored"])?, ..revision })
}

/// Reads git's output. `None` if git failed, unless the part that was read is `enough`. If git had more to print, it
/// ends with an error when the pipe closes.
fn answer<T>(
    mut git: Command,
    read: impl FnOnce(BufReader<Take<ChildStdout>>) -> T,
    enough: fn(&T) -> bool,
) -> Option<T> {
    let mut git = git.spawn().ok()?;
    let told = read(BufReader::new(git.stdout.take()?.take(READ)));
    let ended = git.wait().ok()?;
    (enough(&told) || ended.success()).then_some(told)
}

fn git(folder: &Path) -> Command {
    let mut git = Command::new("git");
    // A monitor is a program that the repository names; a submodule has its own settings.
    git.arg("-C").arg(folder).args(["-c", "core.fsmonitor=false"]);
    // Use the folder's repository, not the one of the caller's environment. Write and fetch nothing.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE"] {
        git.env_remove(name);
    }
    git.envs([("GIT_OPTIONAL_LOCKS", "0"), ("GIT_NO_LAZY_FETCH", "1"), ("GIT_TERMINAL_PROMPT", "0")]);
    git.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    git
}

/// Reads the output up to the first change. Header lines begin with `#`.
fn parse(answer: impl BufRead) -> Option<Revision> {
    let mut commit = None;
    for line in answer.split(b'\n') {
        let line = line.ok()?;
        match line.strip_prefix(b"# ") {
            Some(head) => commit = commit.or(head.strip_prefix(b"branch.oid ").and_then(hash)),
            None => return Some(Revision { commit: commit?, dirty: true, outside: false }),
        }
    }
    Some(Revision { commit: commit?, dirty: false, outside: false })
}

fn hash(text: &[u8]) -> Option<String> {
    let is_hash = matches!(text.len(), 40 | 64) && text.iter().all(u8::is_ascii_hexdigit);
    is_hash.then(|| String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_hash_is_believed() {
        let commit = "1a2b3c4d".repeat(5);
        let clean = format!("# branch.oid {commit}\n# branch.head main\n");
        let dirty = format!("{clean}1 .M N... 100644 100644 100644 0 0 a.sh\n");
        let told = |text: &str| parse(text.as_bytes()).map(|told| (told.commit, told.dirty));
        assert_eq!(told(&clean), Some((commit.clone(), false)));
        assert_eq!(told(&dirty), Some((commit, true)));
        let wrong = ["", "# branch.oid (initial)\n", "# branch.oid \x1b[31m\n", "1 .M\n", "fatal: no\n"];
        for text in wrong {
            assert_eq!(told(text), None, "{text:?}");
        }
    }
}
