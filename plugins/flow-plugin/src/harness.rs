//! Runs a step in a temporary folder like the engine does, for a plugin's own tests. Knows no cache and no schedule.
//!
//! ```no_run
//! # use flow_plugin::{Attempt, Error, Plugin, harness::Harness};
//! # fn count(with: serde_json::Value, attempt: &Attempt) -> Result<(), Error> { Ok(()) }
//! let harness = Harness::new("count").with("folder", "in/photos").output("out", "out/count.txt");
//! std::fs::create_dir_all(harness.path("in/photos")).unwrap();
//! let report = harness.run_in_process(&Plugin::new("counter", "0.1.0").step("count", count));
//! report.expect_ok();
//! assert_eq!(report.metric("files"), Some(0.0));
//! ```
//!
//! Errors of the harness itself (no temporary folder) are panics with a message.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use flow_protocol::{ATTEMPT_VAR, Corun, Line, Message, Outcome, PROTOCOL, Placement, Request, file};
use serde_json::{Map, Value};

use crate::Plugin;

/// An attempt's folder about to be run. It is removed with the value.
#[derive(Debug)]
pub struct Harness {
    folder: tempfile::TempDir,
    request: Request,
}

impl Harness {
    /// An attempt of the step `step`, on one CPU and no GPU, with seed 0.
    pub fn new(step: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir_all(folder.path().join(file::WORK).join("out")).expect("a work folder");
        fs::create_dir_all(folder.path().join("checkpoint")).expect("a checkpoint folder");
        let request = Request {
            protocol: PROTOCOL,
            step: step.to_owned(),
            instance: step.to_owned(),
            with: Map::new(),
            outputs: BTreeMap::new(),
            checkpoint: "../checkpoint".to_owned(),
            placement: Placement { cpus: 1, ..Placement::default() },
            seed: 0,
            corun: None,
        };
        Self { folder, request }
    }

    /// Sets a parameter.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.request.with.insert(name.to_owned(), value.into());
        self
    }

    /// Declares an output.
    pub fn output(mut self, name: &str, path: &str) -> Self {
        self.request.outputs.insert(name.to_owned(), path.to_owned());
        self
    }

    /// Sets the number of CPUs.
    pub fn cpus(mut self, cpus: u32) -> Self {
        self.request.placement.cpus = cpus;
        self
    }

    /// Sets the seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.request.seed = seed;
        self
    }

    /// Puts the attempt into a co-run group of this size.
    pub fn corun(mut self, members: u32) -> Self {
        self.request.corun = Some(Corun { members });
        self
    }

    /// Sets the checkpoint folder. Several attempts in turn resume from its content.
    pub fn checkpoint(mut self, folder: impl AsRef<Path>) -> Self {
        self.request.checkpoint = folder.as_ref().display().to_string();
        self
    }

    /// Shows an artifact or a folder of another attempt at `path` in the work folder.
    pub fn input(self, path: &str, from: impl AsRef<Path>) -> Self {
        let to = self.path(path);
        fs::create_dir_all(to.parent().expect("a path inside the work folder")).expect("a folder for inputs");
        std::os::unix::fs::symlink(from.as_ref(), to).expect("a link to the input");
        self
    }

    /// A path inside the work folder.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(file::WORK).join(path)
    }

    /// Releases the barrier; may be called before the run.
    pub fn go(&self) {
        fs::write(self.folder.path().join(file::GO), crate::now().to_string()).expect("`go` can be written");
    }

    /// Tells a step that trains on to end; may be called before the run.
    pub fn stop(&self) {
        fs::write(self.folder.path().join(file::STOP), "").expect("`stop` can be written");
    }

    /// Runs the step in this process. Its log goes to this process's standard error.
    pub fn run_in_process(self, plugin: &Plugin) -> Report {
        self.write_request();
        let code = plugin.run(self.folder.path());
        let success = code == ExitCode::SUCCESS;
        self.report(success)
    }

    /// Runs the step in a program of its own, as the engine does.
    pub fn run(self, program: &mut Command) -> Report {
        self.write_request();
        let log = fs::File::create(self.folder.path().join(file::LOG)).expect("a log");
        let status = program
            .current_dir(self.path(""))
            .env(ATTEMPT_VAR, self.folder.path())
            .stdout(log.try_clone().expect("a second handle on the log"))
            .stderr(log)
            .status()
            .unwrap_or_else(|error| panic!("cannot start {program:?}: {error}"));
        self.report(status.success())
    }

    fn write_request(&self) {
        let text = serde_json::to_vec_pretty(&self.request).expect("a request is JSON");
        fs::write(self.folder.path().join(file::REQUEST), text).expect("the request can be written");
    }

    fn report(self, success: bool) -> Report {
        let text = fs::read_to_string(self.folder.path().join(file::MESSAGES)).unwrap_or_default();
        let lines: Vec<_> = text.lines().map(|line| Line::read(line.as_bytes())).collect();
        let foreign = lines.iter().filter(|line| line.is_err()).count();
        let messages = lines.into_iter().flatten().map(|line| line.message).collect();
        let log = fs::read_to_string(self.folder.path().join(file::LOG)).unwrap_or_default();
        Report { harness: self, messages, foreign, log, success }
    }
}

/// What came of an attempt. Its folder is removed with the value.
#[derive(Debug)]
pub struct Report {
    harness: Harness,
    /// The messages, in order.
    pub messages: Vec<Message>,
    /// Lines that are not of the protocol.
    pub foreign: usize,
    /// Standard output and error of a program; empty for a step run in process.
    pub log: String,
    /// The exit code was 0.
    pub success: bool,
}

impl Report {
    /// The step's outcome as the engine would see it, with its sentence.
    pub fn outcome(&self) -> (Outcome, Option<&str>) {
        let last = self.messages.iter().rev().find_map(|message| match message {
            Message::Outcome { outcome, message } => Some((*outcome, message.as_deref())),
            _ => None,
        });
        match last {
            Some((Outcome::Ok, _)) if !self.success => (Outcome::Failed, Some("exited with a failure after `ok`")),
            Some(outcome) => outcome,
            None => (Outcome::Failed, Some("ended without an outcome")),
        }
    }

    /// Panics unless the step said `ok`, kept to the protocol and wrote every output.
    pub fn expect_ok(&self) {
        assert_eq!(self.outcome(), (Outcome::Ok, None), "log:\n{}", self.log);
        assert_eq!(self.foreign, 0, "lines that are not of the protocol");
        assert!(matches!(self.messages.first(), Some(Message::Hello { .. })), "the first message is `hello`");
        for message in &self.messages {
            if let Message::Metric { name, .. } = message {
                let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
                assert!(plain && name.starts_with(|c: char| c.is_ascii_lowercase()), "metric `{name}`: not a_name");
            }
        }
        for name in self.harness.request.outputs.keys() {
            assert!(self.output(name).exists(), "output `{name}` was not written");
        }
    }

    /// The sentence of a step that failed; panics if it did not fail.
    pub fn expect_failed(&self) -> &str {
        match self.outcome() {
            (Outcome::Failed, message) => message.unwrap_or_default(),
            other => panic!("expected a failure, got {other:?}; log:\n{}", self.log),
        }
    }

    /// The last value of the metric `name`.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.series(name).last().copied()
    }

    /// All values of the metric `name`, in order.
    pub fn series(&self, name: &str) -> Vec<f64> {
        let values = self.messages.iter().filter_map(|message| match message {
            Message::Metric { name: other, value, .. } if other == name => Some(*value),
            _ => None,
        });
        values.collect()
    }

    /// All facts of `hello`.
    pub fn facts(&self) -> BTreeMap<String, String> {
        let facts = self.messages.iter().filter_map(|message| match message {
            Message::Hello { facts, .. } => Some(facts.clone()),
            _ => None,
        });
        facts.flatten().collect()
    }

    /// The path that the output `name` was to be written to.
    pub fn output(&self, name: &str) -> PathBuf {
        let path = self.harness.request.outputs.get(name).unwrap_or_else(|| panic!("output `{name}` was not declared"));
        self.harness.path(path)
    }

    /// A path inside the work folder.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.harness.path(path)
    }
}
