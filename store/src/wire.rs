//! The protocol between two flows about one store: a greeting, then requests and answers, in frames of bounded size.
//! Knows no database, and not the other side. An invalid message is an error and ends the connection.
//!
//! A frame is its length in four bytes, little-endian, and that many bytes. The greeting is JSON, because flows of all
//! versions must understand it. The rest needs the same protocol: a list of requests, then answers to the first of
//! them, as many as fit into one frame. The client repeats the other requests.

use std::{
    io::{self, Read, Write},
    ops::ControlFlow,
    os::unix::net::UnixStream,
    path::PathBuf,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use flow_core::reason::StoreAction;

use crate::{Holder, Result, STORE_FORMAT, StoreError};

/// The version of the protocol.
const PROTOCOL: u32 = 3;
/// Longer frames are rejected. The largest are pages and batches of writes.
const FRAME: usize = 64 << 20;
/// Approximate size of a frame of answers, and of a page of a scan.
pub(crate) const PAGE: usize = 4 << 20;
/// Number of requests in a frame. Unanswered ones are sent again.
pub(crate) const AT_ONCE: usize = 4096;

/// The suffix that Linux adds to the path of a program whose file was removed.
const REPLACED: &str = " (deleted)";

/// A greeting: first versions, then the sender.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) protocol: u32,
    pub(crate) format: u32,
    pub(crate) flow: String,
    /// The path of its program; empty from an earlier flow.
    #[serde(default)]
    pub(crate) exe: String,
    pub(crate) who: Holder,
}

impl Hello {
    pub(crate) fn of(who: &Holder) -> Hello {
        let flow = env!("CARGO_PKG_VERSION").to_owned();
        let exe = std::env::current_exe().map(|exe| exe.display().to_string()).unwrap_or_default();
        Hello { protocol: PROTOCOL, format: STORE_FORMAT, flow, exe, who: who.clone() }
    }

    /// The build, for display: two builds of one version may differ.
    fn build(&self) -> String {
        let exe = self.exe.strip_suffix(REPLACED).unwrap_or(&self.exe);
        let exe = if exe.is_empty() { String::new() } else { format!(" `{exe}`") };
        format!("flow {}{exe}", self.flow)
    }

    /// True if its program file was replaced.
    fn was_replaced(&self) -> bool {
        self.exe.ends_with(REPLACED)
    }

    /// Why two flows cannot share a store, and what to do.
    pub(crate) fn differs_from(&self, ours: &Hello) -> String {
        let (what, theirs, own) = match self.format == ours.format {
            true => ("protocol", self.protocol, ours.protocol),
            false => ("store format", self.format, ours.format),
        };
        let way_out = match (self.was_replaced(), ours.was_replaced()) {
            (true, _) => "its program was replaced since it started; wait for its run, or end it",
            (false, true) => "this one's program was replaced since it started; end it, and start it again",
            (false, false) => "start both from one of these programs, and they share it",
        };
        format!(
            "it is {}, with {what} {theirs}, and this is {}, with {what} {own}: they cannot use a store at the same time; {way_out}",
            self.build(),
            ours.build()
        )
    }

    /// True if its protocol and store format are this flow's.
    pub(crate) fn is_understood(&self) -> bool {
        (self.protocol, self.format) == (PROTOCOL, STORE_FORMAT)
    }
}

pub(crate) type Entry = (Vec<u8>, Vec<u8>);

/// A request to the holder. Every request can be repeated.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// The first of these keys that has a value.
    First(Vec<Vec<u8>>),
    /// Runs have ended: apply what their journals have and nobody reported.
    TakeInEnded,
    /// The entries with `prefix` after a key.
    Scan { prefix: Vec<u8>, after: Option<Vec<u8>> },
    /// Values by key, none to delete; synced.
    Write(Vec<(Vec<u8>, Option<Vec<u8>>)>),
    /// A run has its id, and will have a journal.
    Begin(String),
    /// The journal of a run is on disk up to this byte.
    Record { run: String, to: u64 },
}

/// An answer of the holder.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// The index of the key, and the value.
    First(Option<(usize, Vec<u8>)>),
    Page {
        entries: Vec<Entry>,
        more: bool,
    },
    Done,
    Failed(Failure),
}

impl Answer {
    /// Its approximate size in bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Answer::First(found) => found.as_ref().map_or(0, |(_, value)| value.len()),
            Answer::Page { entries, .. } => entries.iter().map(|(key, value)| key.len() + value.len()).sum(),
            Answer::Done | Answer::Failed(_) => 0,
        }
    }
}

/// An error of the holder, which becomes the same kind of error for the client.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Failure {
    path: String,
    /// The system's error number, if it was a system error.
    code: Option<i32>,
    is_disk_full: bool,
    is_damaged: bool,
    words: String,
}

impl From<&StoreError> for Failure {
    fn from(error: &StoreError) -> Failure {
        let mut failure = Failure {
            path: String::new(),
            code: None,
            is_disk_full: error.is_disk_full(),
            is_damaged: false,
            words: error.to_string(),
        };
        match error {
            StoreError::Io { path, source, .. } => {
                failure.path = path.display().to_string();
                failure.code = source.raw_os_error();
                failure.words = source.to_string();
            }
            StoreError::Damaged { path, detail } => {
                failure.path = path.display().to_string();
                failure.is_damaged = true;
                failure.words.clone_from(detail);
            }
            _ => {}
        }
        failure
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> StoreError {
        let path = PathBuf::from(failure.path);
        if failure.is_damaged {
            return StoreError::Damaged { path, detail: failure.words };
        }
        let source = match failure.code {
            Some(code) => io::Error::from_raw_os_error(code),
            None if failure.is_disk_full => io::Error::new(io::ErrorKind::StorageFull, failure.words),
            None => io::Error::other(failure.words),
        };
        StoreError::Io { what: StoreAction::UseByHolder, path, source }
    }
}

/// One end of a connection. If a read or write exceeds the stream's time limit, `waits` decides whether to continue.
pub(crate) struct Frames {
    stream: UnixStream,
    /// Received bytes that are not a whole frame yet.
    came: Vec<u8>,
}

/// Why there is no frame.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The other end is gone, or its message is invalid.
    Gone,
    /// The caller did not want to wait longer.
    GivenUp,
}

type Waits<'a> = &'a mut dyn FnMut() -> ControlFlow<()>;

impl Frames {
    pub(crate) fn new(stream: UnixStream) -> Frames {
        Frames { stream, came: Vec::new() }
    }

    pub(crate) fn say(&mut self, frame: &[u8], waits: Waits<'_>) -> Result<(), Broken> {
        let length = u32::try_from(frame.len()).ok().filter(|_| frame.len() <= FRAME).ok_or(Broken::Gone)?;
        let mut rest = &[&length.to_le_bytes()[..], frame].concat()[..];
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(0) => return Err(Broken::Gone),
                Ok(written) => rest = &rest[written..],
                Err(error) => wait(&error, waits)?,
            }
        }
        Ok(())
    }

    pub(crate) fn hear(&mut self, waits: Waits<'_>) -> Result<Vec<u8>, Broken> {
        let mut piece = vec![0; 64 << 10];
        loop {
            if let Some((length, rest)) = self.came.split_first_chunk::<4>() {
                let length = u32::from_le_bytes(*length) as usize;
                if length > FRAME {
                    return Err(Broken::Gone);
                }
                if rest.len() >= length {
                    let frame = rest[..length].to_vec();
                    self.came.drain(..4 + length);
                    return Ok(frame);
                }
            }
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(Broken::Gone),
                Ok(read) => self.came.extend_from_slice(&piece[..read]),
                Err(error) => wait(&error, waits)?,
            }
        }
    }
}

fn wait(error: &io::Error, waits: Waits<'_>) -> Result<(), Broken> {
    match error.kind() {
        io::ErrorKind::Interrupted => Ok(()),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => match waits() {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Broken::GivenUp),
        },
        _ => Err(Broken::Gone),
    }
}

pub(crate) fn encode(message: &impl Serialize) -> Vec<u8> {
    // Numbers, texts and bytes can always be encoded.
    postcard::to_stdvec(message).unwrap_or_default()
}

/// `None` if it is not a valid message.
pub(crate) fn decode<T: DeserializeOwned>(frame: &[u8]) -> Option<T> {
    match postcard::take_from_bytes(frame) {
        Ok((message, [])) => Some(message),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_is_said_is_heard_and_nonsense_ends_it() {
        let (a, b) = UnixStream::pair().unwrap();
        let (mut a, mut b) = (Frames::new(a), Frames::new(b));
        let no = &mut || ControlFlow::Break(());
        let request = Request::Write(vec![(b"k".to_vec(), Some(vec![0; 100_000])), (b"l".to_vec(), None)]);
        let said = encode(&request);
        let sender = std::thread::spawn(move || {
            a.say(&said, &mut || ControlFlow::Continue(())).unwrap();
            a.say(b"nonsense", &mut || ControlFlow::Continue(())).unwrap();
            a.stream.write_all(&[0xff; 16]).unwrap();
        });
        assert_eq!(decode(&b.hear(no).unwrap()), Some(request));
        assert_eq!(decode::<Request>(&b.hear(no).unwrap()), None);
        assert!(matches!(b.hear(no), Err(Broken::Gone)), "a frame of 4 GiB");
        sender.join().unwrap();
        let (_kept, b) = UnixStream::pair().unwrap();
        b.set_read_timeout(Some(std::time::Duration::from_millis(1))).unwrap();
        assert!(matches!(Frames::new(b).hear(no), Err(Broken::GivenUp)));
    }

    #[test]
    fn two_builds_of_one_version_are_told_by_what_differs() {
        let process = crate::ProcessIdentity { pid: 7, boot: String::new(), namespace: String::new(), started: 0 };
        let who = Holder { process, doing: "flow run a.yaml".into(), run: None, since: "15:30".into() };
        let build = |protocol, format, exe: &str| Hello {
            protocol,
            format,
            flow: "0.1.0".to_owned(),
            exe: exe.to_owned(),
            who: who.clone(),
        };
        let ours = build(3, 2, "/home/b/flow");
        insta::assert_snapshot!(build(4, 2, "/opt/flow").differs_from(&ours), @"it is flow 0.1.0 `/opt/flow`, with protocol 4, and this is flow 0.1.0 `/home/b/flow`, with protocol 3: they cannot use a store at the same time; start both from one of these programs, and they share it");
        insta::assert_snapshot!(build(4, 2, "/home/b/flow (deleted)").differs_from(&ours), @"it is flow 0.1.0 `/home/b/flow`, with protocol 4, and this is flow 0.1.0 `/home/b/flow`, with protocol 3: they cannot use a store at the same time; its program was replaced since it started; wait for its run, or end it");
        insta::assert_snapshot!(build(3, 1, "").differs_from(&ours), @"it is flow 0.1.0, with store format 1, and this is flow 0.1.0 `/home/b/flow`, with store format 2: they cannot use a store at the same time; start both from one of these programs, and they share it");
    }

    #[test]
    fn an_error_keeps_its_kind() {
        let over = |error: StoreError| StoreError::from(decode::<Failure>(&encode(&Failure::from(&error))).unwrap());
        let full = || io::Error::new(io::ErrorKind::StorageFull, "less than 1024 KiB are free");
        assert!(over(StoreError::io(StoreAction::Open, Path::new("/a"))(full())).is_disk_full());
        assert!(
            over(StoreError::io(StoreAction::Open, Path::new("/a"))(io::Error::from_raw_os_error(28))).is_disk_full()
        );
        let damaged = StoreError::Damaged { path: "/a".into(), detail: "torn".into() };
        assert!(matches!(over(damaged), StoreError::Damaged { detail, .. } if detail == "torn"));
        let refused = over(StoreError::io(StoreAction::Open, Path::new("/a"))(io::Error::from_raw_os_error(13)));
        assert!(refused.to_string().contains("Permission denied") && !refused.is_disk_full(), "{refused}");
    }
}
