//! One attempt: what was asked, where to read and write, and what to tell the engine. Decides nothing about the outcome.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use flow_protocol::{Line, Message, Outcome, PROTOCOL, Request, Summary, file};
use serde_json::Value;

use crate::Error;

/// Progress is for eyes: one is written at most this often, and the last one always.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);
/// How often a member of a co-run group looks for its start; members start this close together.
const GO_EVERY: Duration = Duration::from_millis(2);

/// Seconds since 1970, the clock of every message.
pub fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// The handle of a step on its attempt. All methods take `&self`, so that worker threads may share it.
///
/// A message cannot fail for the step: if one could not be written (a full disk), the attempt as a whole ends as failed.
#[derive(Debug)]
pub struct Attempt {
    folder: PathBuf,
    request: Request,
    plugin: String,
    version: String,
    sink: Mutex<Sink>,
}

#[derive(Debug)]
struct Sink {
    messages: File,
    greeted: bool,
    ready: bool,
    progress: Option<Instant>,
    error: Option<io::Error>,
}

impl Attempt {
    /// Opens the attempt in `folder` for the plugin of this name and version.
    pub(crate) fn open(folder: &Path, plugin: &str, version: &str) -> Result<Self, Error> {
        let path = folder.join(file::REQUEST);
        let cannot = |error: &dyn std::fmt::Display| Error::failed(format!("cannot read {}: {error}", path.display()));
        let text = std::fs::read(&path).map_err(|error| cannot(&error))?;
        let value: Value = serde_json::from_slice(&text).map_err(|error| cannot(&error))?;
        // The version first: the rest of another version's request may be anything.
        let protocol = value.get("protocol").cloned().unwrap_or_default();
        if protocol != PROTOCOL {
            return Err(Error::failed(format!(
                "plugin {plugin} {version} speaks protocol {PROTOCOL}, this flow speaks {protocol}: \
                 use a plugin and a flow of the same release"
            )));
        }
        let request: Request = serde_json::from_value(value).map_err(|error| cannot(&error))?;
        let messages = OpenOptions::new().create(true).append(true).open(folder.join(file::MESSAGES))?;
        Ok(Self {
            folder: folder.to_owned(),
            request,
            plugin: plugin.to_owned(),
            version: version.to_owned(),
            sink: Mutex::new(Sink { messages, greeted: false, ready: false, progress: None, error: None }),
        })
    }

    /// The request: step, instance, placement, seed.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Threads and workers together stay within this number; at least 1.
    pub fn cpus(&self) -> usize {
        self.request.placement.cpus.max(1) as usize
    }

    /// A path of the request (a parameter such as `in/dataset`) as one that can be opened.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.folder.join(file::WORK).join(path)
    }

    /// The path to write an output to. Its parent folder exists; the path itself does not.
    pub fn output(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.request.outputs.get(name).ok_or_else(|| {
            Error::failed(format!("the request of {} has no output `{name}`: is it in plugin.yaml?", self.request.step))
        })?;
        Ok(self.path(path))
    }

    /// The checkpoint folder, which outlives this attempt until there is a result. The next attempt with the same
    /// fingerprint finds its content, in this run or a later one. After a success it is removed.
    pub fn checkpoint(&self) -> PathBuf {
        self.path(&self.request.checkpoint)
    }

    /// Says who speaks, with the facts that belong to the circumstances of every result: versions, device, precision.
    /// Say it first; a step that has no facts need not say it at all.
    pub fn hello<K: Into<String>, V: Into<String>>(&self, facts: impl IntoIterator<Item = (K, V)>) {
        let facts = facts.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        self.greet(&mut self.sink(), facts);
    }

    /// How far it is, between 0 and 1, with a few words for people. May be called as often as is handy.
    pub fn progress(&self, fraction: f64, text: impl Into<String>) {
        let mut sink = self.sink();
        let due = sink.progress.is_none_or(|last| last.elapsed() >= PROGRESS_EVERY);
        if (due || fraction >= 1.0) && fraction.is_finite() {
            sink.progress = Some(Instant::now());
            let text = Some(text.into()).filter(|text| !text.is_empty());
            self.send(&mut sink, Message::Progress { fraction: fraction.clamp(0.0, 1.0), text });
        }
    }

    /// An epoch ended; epochs count from 1, times are [`now`]'s.
    pub fn epoch(&self, epoch: u32, started_at: f64, ended_at: f64) {
        self.send(&mut self.sink(), Message::Epoch { epoch, started_at, ended_at });
    }

    /// A number of the whole attempt. Units are `s`, `images/s`, `bytes`, `ratio`, or empty. Values that are not finite
    /// are allowed; tables show them as NaN.
    pub fn metric(&self, name: &str, value: f64, unit: &str) {
        self.number(name, value, unit, None, Summary::Last);
    }

    /// A number of one epoch, and how the series becomes one number.
    pub fn epoch_metric(&self, name: &str, value: f64, unit: &str, epoch: u32, summary: Summary) {
        self.number(name, value, unit, Some(epoch), summary);
    }

    /// The barrier of a co-run group: says that the step is set up and warm, and returns when all members are.
    /// Outside a group it returns at once, and so it does where the engine cannot be told: the attempt ends as failed then.
    pub fn wait_for_go(&self) {
        if self.request.corun.is_none() {
            return;
        }
        let mut sink = self.sink();
        if !sink.ready {
            sink.ready = true;
            self.send(&mut sink, Message::Ready);
        }
        if sink.error.is_some() {
            return;
        }
        drop(sink);
        while !self.folder.join(file::GO).exists() {
            thread::sleep(GO_EVERY);
        }
    }

    /// Says that this member of a co-run group has done its own epochs. Call it once, then continue until
    /// [`Attempt::stopped`] to keep the others company. Outside a group, end instead.
    pub fn sufficed(&self) {
        self.send(&mut self.sink(), Message::Sufficed);
    }

    /// Whether a step that continues for its group must end after the current epoch. Also true if its messages can no
    /// longer be written.
    pub fn stopped(&self) -> bool {
        self.sink().error.is_some() || self.folder.join(file::STOP).exists()
    }

    /// A line of the attempt's log.
    pub fn log(&self, text: impl std::fmt::Display) {
        // Standard error is the log; nobody is left to tell when it is gone.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// The last message. False if it, or one before it, could not be written.
    pub(crate) fn outcome(&self, outcome: Outcome, message: Option<String>) -> bool {
        let mut sink = self.sink();
        self.send(&mut sink, Message::Outcome { outcome, message });
        if let Some(error) = sink.error.take() {
            drop(sink);
            self.log(format_args!("cannot write {}: {error}", self.folder.join(file::MESSAGES).display()));
            return false;
        }
        true
    }

    fn number(&self, name: &str, value: f64, unit: &str, epoch: Option<u32>, summary: Summary) {
        let (name, unit) = (name.to_owned(), unit.to_owned());
        self.send(&mut self.sink(), Message::Metric { name, value, unit, epoch, summary });
    }

    fn sink(&self) -> MutexGuard<'_, Sink> {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn greet(&self, sink: &mut Sink, facts: BTreeMap<String, String>) {
        sink.greeted = true;
        let (plugin, version) = (self.plugin.clone(), self.version.clone());
        self.send(sink, Message::Hello { protocol: PROTOCOL, plugin, version, facts });
    }

    /// One message, one line, one `write`: in append mode lines of several threads and processes stay whole.
    fn send(&self, sink: &mut Sink, message: Message) {
        if !sink.greeted {
            self.greet(sink, BTreeMap::new());
        }
        let line = Line { at: Some(now()), message };
        let written = serde_json::to_vec(&line).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            sink.messages.write_all(&line)
        });
        if let Err(error) = written {
            sink.error.get_or_insert(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_cannot_say_that_it_is_ready_does_not_wait() {
        let folder = tempfile::tempdir().unwrap();
        let request = r#"{"protocol": 1, "step": "a", "instance": "a", "with": {}, "outputs": {}, "checkpoint": "../c",
            "placement": {"gpus": [], "cpus": 1}, "corun": {"members": 2}, "seed": 0}"#;
        std::fs::write(folder.path().join(file::REQUEST), request).unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.path().join(file::MESSAGES)).unwrap();
        let attempt = Attempt::open(folder.path(), "toy", "1.2.3").unwrap();
        attempt.wait_for_go();
        assert!(attempt.stopped(), "nobody will ever tell it to end");
        assert!(!attempt.outcome(Outcome::Ok, None));
    }

    #[test]
    fn another_protocol_is_refused_whatever_else_the_request_holds() {
        let folder = tempfile::tempdir().unwrap();
        let open = |request: &str| {
            std::fs::write(folder.path().join(file::REQUEST), request).unwrap();
            let error = Attempt::open(folder.path(), "toy", "1.2.3").unwrap_err().to_string();
            error.replace(&*folder.path().to_string_lossy(), "ATTEMPT")
        };
        insta::assert_snapshot!(open(r#"{"protocol": 2, "stage": 7}"#), @"plugin toy 1.2.3 speaks protocol 1, this flow speaks 2: use a plugin and a flow of the same release");
        insta::assert_snapshot!(open(r#"{"protocol": 1}"#), @"cannot read ATTEMPT/request.json: missing field `step`");
        assert!(!folder.path().join(file::MESSAGES).exists(), "nothing is said to an engine of another protocol");
    }
}
