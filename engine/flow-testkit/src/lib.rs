//! A scratch workspace in which tests run the real `flow`: files to write, commands to run or to start and kill, what they
//! said, what is left alive. Knows the command line, not the crates behind it.

mod gpus;
mod running;
pub mod slurm;

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

pub use gpus::Gpus;
use nix::pty::PtyMaster;
use regex_lite::Regex;
pub use running::{RunningFlow, until};
use serde_json::Value;
use tempfile::TempDir;

/// The variable that names the folder of what runs of a machine share.
const LOCKS_VAR: &str = "FLOW_GPU_LOCKS";
/// How the names of cache folders begin.
const CACHE: &str = "flow-cache-";

/// A folder with a workspace of its own: `.flow/` lies in it, and nothing from outside reaches in.
pub struct TestSpace {
    dir: TempDir,
    /// The folder that its runs share with other runs of the machine. Spaces share one only on request.
    locks: TempDir,
    /// The user's cache folder, in which steps work.
    cache: TempDir,
    flow: PathBuf,
    env: Vec<(String, String)>,
}

impl TestSpace {
    /// An empty space for the binary at `flow`. A test of `flow-cli` passes `env!("CARGO_BIN_EXE_flow")`.
    ///
    /// # Panics
    /// No scratch folder can be made.
    pub fn new(flow: impl Into<PathBuf>) -> TestSpace {
        let dir = tempfile::Builder::new().prefix("flow-test-").tempdir().expect("a scratch folder");
        // The root of a workspace is the nearest folder with one of these.
        fs::create_dir(dir.path().join("plugins")).expect("a folder");
        let locks = tempfile::Builder::new().prefix("flow-locks-").tempdir().expect("a scratch folder");
        // Whoever a test runs as can write there, as in `/tmp`.
        let cache = tempfile::Builder::new().prefix(CACHE).tempdir().expect("a scratch folder");
        for folder in [&locks, &cache] {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).expect("a mode");
        }
        TestSpace { dir, locks, cache, flow: flow.into(), env: Vec::new() }
    }

    /// The folder of what its runs share with others of the machine.
    pub fn locks(&self) -> &Path {
        self.locks.path()
    }

    /// The user's cache folder.
    pub fn cache(&self) -> &Path {
        self.cache.path()
    }

    /// Shares the machine with another space.
    pub fn beside(&mut self, other: &TestSpace) -> &mut TestSpace {
        self.env(LOCKS_VAR, &other.locks().to_string_lossy())
    }

    /// Sets a variable for everything that is run from here on.
    pub fn env(&mut self, name: &str, value: &str) -> &mut TestSpace {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A path in it, absolute.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Writes a file, with the folders above it.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn write(&self, path: impl AsRef<Path>, text: &str) -> &TestSpace {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap_or(&path)).expect("folders");
        fs::write(&path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        self
    }

    /// Writes a file that can be executed.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn script(&self, path: impl AsRef<Path>, text: &str) -> &TestSpace {
        self.write(&path, text);
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(0o755)).expect("a mode");
        self
    }

    /// Reads a file.
    ///
    /// # Panics
    /// It cannot be read.
    pub fn read(&self, path: impl AsRef<Path>) -> String {
        let path = self.path(path);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(&self.flow);
        command
            .args(args)
            .current_dir(self.dir.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path())
            .env("XDG_CACHE_HOME", self.cache())
            .env("LC_ALL", "C.UTF-8")
            .env(LOCKS_VAR, self.locks())
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Runs `flow` to its end: `space.flow(["run", "a.yaml"])`.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn flow<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> FlowOutput {
        let output = self.command(args).output().unwrap_or_else(|e| panic!("{}: {e}", self.flow.display()));
        FlowOutput { output, root: self.dir.path().to_owned() }
    }

    /// The same, typed in a folder of the space.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn flow_in<S: AsRef<OsStr>>(&self, folder: &str, args: impl IntoIterator<Item = S>) -> FlowOutput {
        let mut command = self.command(args);
        let output = command.current_dir(self.path(folder)).output();
        let output = output.unwrap_or_else(|e| panic!("{}: {e}", self.flow.display()));
        FlowOutput { output, root: self.dir.path().to_owned() }
    }

    /// Starts `flow` in the background; its output is kept in files.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn start<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> RunningFlow {
        RunningFlow::start(self.command(args), self.dir.path())
    }

    /// The same, as `nohup` starts it.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn start_with_nohup<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> RunningFlow {
        self.start_under(&["nohup"], args)
    }

    /// Starts `flow` by another program.
    pub fn start_under<S: AsRef<OsStr>>(&self, program: &[&str], args: impl IntoIterator<Item = S>) -> RunningFlow {
        RunningFlow::start(self.under(program, args), self.dir.path())
    }

    /// The command line of `flow`, begun by another program.
    fn under<S: AsRef<OsStr>>(&self, program: &[&str], args: impl IntoIterator<Item = S>) -> Command {
        let flow = self.command(args);
        let mut command = Command::new(program[0]);
        command
            .args(&program[1..])
            .arg(flow.get_program())
            .args(flow.get_args())
            .current_dir(self.dir.path())
            .env_clear()
            .stdin(Stdio::null());
        command.envs(flow.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    }

    /// Starts `flow` on a terminal, which is there for as long as what comes with it is kept.
    ///
    /// # Panics
    /// It cannot be started, or there is no terminal to be had.
    pub fn start_on_terminal<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> (RunningFlow, PtyMaster) {
        // The tests themselves may have been started so that a terminal that closes is ignored.
        RunningFlow::on_terminal(self.under(&["env", "--default-signal=HUP"], args))
    }

    /// Processes that work in this space, or were told a path in it: whoever is left after a run.
    pub fn alive(&self) -> Vec<(i32, String)> {
        let mut alive = running::processes_in(self.dir.path());
        alive.extend(running::processes_in(self.cache()));
        alive.sort();
        alive.dedup();
        alive
    }

    /// The events of the newest run's journal, as JSON.
    ///
    /// # Panics
    /// There is no run.
    pub fn journal(&self) -> Vec<Value> {
        let runs = fs::read_dir(self.path(".flow/runs")).expect("runs").flatten();
        let newest = runs.map(|run| run.path()).max().expect("a run");
        let text = fs::read_to_string(newest.join("journal.jsonl")).expect("a journal");
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Labels of the instances that the newest run did by itself, in order of their end; `!` behind one that is not `ok`.
    pub fn ran(&self) -> Vec<String> {
        let journal = self.journal();
        let label = |event: &Value| {
            let of = journal.iter().find(|line| line["event"] == "instance" && line["instance"] == event["instance"]);
            of.and_then(|line| line["label"].as_str()).unwrap_or_default().to_owned()
        };
        let ended = journal.iter().filter(|line| line["event"] == "ended");
        ended.map(|line| label(line) + if line["outcome"] == "ok" { "" } else { "!" }).collect()
    }
}

/// Every file below a folder, links not followed, in order of path.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files_below(&entry.path())),
            _ => found.push(entry.path()),
        }
    }
    found.sort();
    found
}

/// The output and exit code of a `flow` that has ended.
pub struct FlowOutput {
    output: Output,
    root: PathBuf,
}

impl FlowOutput {
    /// Checks the exit code.
    ///
    /// # Panics
    /// It is another one; both outputs are shown then.
    #[track_caller]
    pub fn expect(self, code: i32) -> FlowOutput {
        let found = self.output.status.code();
        assert!(
            found == Some(code),
            "exit code {code} was expected, not {}\n--- stdout\n{}\n--- stderr\n{}",
            self.output.status,
            String::from_utf8_lossy(&self.output.stdout),
            String::from_utf8_lossy(&self.output.stderr),
        );
        self
    }

    /// The exit code; none if a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    /// Standard output, with what differs from run to run replaced.
    pub fn stdout(&self) -> String {
        self.normal(&self.output.stdout)
    }

    /// Standard error, with what differs from run to run replaced.
    pub fn stderr(&self) -> String {
        self.normal(&self.output.stderr)
    }

    /// Both, one after the other.
    pub fn text(&self) -> String {
        self.stdout() + &self.stderr()
    }

    /// Standard output as it is.
    pub fn raw(&self) -> &[u8] {
        &self.output.stdout
    }

    fn normal(&self, bytes: &[u8]) -> String {
        normal(&String::from_utf8_lossy(bytes), &self.root)
    }
}

/// Replaces what differs from run to run: the workspace's folder, that of its work folders, runs, digests, times, process ids.
pub fn normal(text: &str, root: &Path) -> String {
    let rules = [
        (r"/[^\s`]*/flow-cache-\w+/flow/work/[0-9a-f]{12}", "WORK"),
        (r"\b\d{8}-\d{6}-[0-9a-f]{4}\b", "RUN"),
        (r"\b[0-9a-f]{64}\b", "DIGEST"),
        (r"\b\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2})?)?", "DATE"),
        (r"\b\d{2}:\d{2}:\d{2}\b", "TIME"),
        (r"\bprocess \d+\b", "process PID"),
        (r"\b\d+(\.\d+)? ?(ms|µs|s|min|h)\b", "TIME"),
    ];
    let text = text.replace(&*root.to_string_lossy(), "ROOT");
    rules.into_iter().fold(text, |text, (pattern, word)| match Regex::new(pattern) {
        Ok(pattern) => pattern.replace_all(&text, word).into_owned(),
        Err(_) => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_replaced() {
        let text = "run 20261121-101500-3f2a in /tmp/x/a.yaml took 1.25 s (12 ms), 3 steps, by process 77 at 10:15:00 on 2026-11-21";
        let normal = normal(text, Path::new("/tmp/x"));
        assert_eq!(normal, "run RUN in ROOT/a.yaml took TIME (TIME), 3 steps, by process PID at TIME on DATE");
    }
}
