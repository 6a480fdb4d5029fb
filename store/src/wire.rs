//! What two flows say to each other about one store: a greeting, then requests and answers, each in a frame of bounded size. Knows no
//! database, nor who answers. What does not make sense is an error, and ends the connection.
//!
//! A frame is its length, four bytes, the least first, and so many bytes. A greeting is JSON, for flows of all versions have to
//! understand it; what follows is for two of the same protocol alone: a list of requests, and a list of answers to as many of them,
//! from the first on, as one frame is to hold. The rest is asked for anew.

use std::{
    io::{self, Read, Write},
    ops::ControlFlow,
    os::unix::net::UnixStream,
    path::PathBuf,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use flow_core::reason::StoreAction;

use crate::{Holder, Result, STORE_FORMAT, StoreError};

/// The version of what is said here.
const PROTOCOL: u32 = 3;
/// Longer frames are refused. The largest are pages, and what is written at once.
const FRAME: usize = 64 << 20;
/// So many bytes are in a frame of answers, about, and in an answer to a scan.
pub(crate) const PAGE: usize = 4 << 20;
/// So many requests are in a frame: those that its answers leave over are said again.
pub(crate) const AT_ONCE: usize = 4096;

/// What Linux adds to the name of a program whose file is gone.
const REPLACED: &str = " (deleted)";

/// Who greets: versions first, then who it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) protocol: u32,
    pub(crate) format: u32,
    pub(crate) flow: String,
    /// The file of its program; an earlier flow does not say.
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

    /// Which build it is, for people: two of one version number can differ.
    fn build(&self) -> String {
        let exe = self.exe.strip_suffix(REPLACED).unwrap_or(&self.exe);
        let exe = if exe.is_empty() { String::new() } else { format!(" `{exe}`") };
        format!("flow {}{exe}", self.flow)
    }

    /// Nobody can start this program again.
    fn was_replaced(&self) -> bool {
        self.exe.ends_with(REPLACED)
    }

    /// What keeps two flows from sharing a store, and what to do.
    pub(crate) fn differs_from(&self, ours: &Hello) -> String {
        let (what, theirs, own) = match self.format == ours.format {
            true => ("protocol", self.protocol, ours.protocol),
            false => ("store format", self.format, ours.format),
        };
        let way_out = match (self.was_replaced(), ours.was_replaced()) {
            (true, _) => "its program was replaced since it started; wait for its run, or end it",
            (false, true) => "this one's program was replaced since it started; end it, and start it anew",
            (false, false) => "start both from one of these programs, and they share it",
        };
        format!(
            "it is {}, with {what} {theirs}, and this is {}, with {what} {own}: such two use a store one after the other; \
             {way_out}",
            self.build(),
            ours.build()
        )
    }

    /// It says and keeps the same things as this flow.
    pub(crate) fn is_understood(&self) -> bool {
        (self.protocol, self.format) == (PROTOCOL, STORE_FORMAT)
    }
}

pub(crate) type Entry = (Vec<u8>, Vec<u8>);

/// What is asked of the holder. All can be asked twice.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// The first of these keys under which something lies.
    First(Vec<Vec<u8>>),
    /// Runs have ended: what they have in their journals and told nobody of is to be taken in.
    TakeInEnded,
    /// What begins with `prefix`, behind a key.
    Scan { prefix: Vec<u8>, after: Option<Vec<u8>> },
    /// Values by key, none where it is to go; synced.
    Write(Vec<(Vec<u8>, Option<Vec<u8>>)>),
    /// A run has its name, and will have a journal.
    Begin(String),
    /// The journal of a run is on the disk up to a byte.
    Record { run: String, to: u64 },
}

/// What the holder says.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// Which key it was, and the value.
    First(Option<(usize, Vec<u8>)>),
    Page {
        entries: Vec<Entry>,
        more: bool,
    },
    Done,
    Failed(Failure),
}

impl Answer {
    /// How many bytes it brings, about.
    pub(crate) fn size(&self) -> usize {
        match self {
            Answer::First(found) => found.as_ref().map_or(0, |(_, value)| value.len()),
            Answer::Page { entries, .. } => entries.iter().map(|(key, value)| key.len() + value.len()).sum(),
            Answer::Done | Answer::Failed(_) => 0,
        }
    }
}

/// An error of the holder, of the same kind for who asked.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Failure {
    path: String,
    /// The system's number, where it was the system's.
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

/// One end of a connection. A read or a write that takes longer than the stream's time limit asks whether to go on.
pub(crate) struct Frames {
    stream: UnixStream,
    /// What came, and is no whole frame yet.
    came: Vec<u8>,
}

/// Why there is no frame.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The other end is gone, or says what makes no sense.
    Gone,
    /// Whoever was asked did not want to wait longer.
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
    // Numbers, texts and bytes: there is nothing in them that has no form.
    postcard::to_stdvec(message).unwrap_or_default()
}

/// `None` for what is no such message.
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
        insta::assert_snapshot!(build(4, 2, "/opt/flow").differs_from(&ours), @"it is flow 0.1.0 `/opt/flow`, with protocol 4, and this is flow 0.1.0 `/home/b/flow`, with protocol 3: such two use a store one after the other; start both from one of these programs, and they share it");
        insta::assert_snapshot!(build(4, 2, "/home/b/flow (deleted)").differs_from(&ours), @"it is flow 0.1.0 `/home/b/flow`, with protocol 4, and this is flow 0.1.0 `/home/b/flow`, with protocol 3: such two use a store one after the other; its program was replaced since it started; wait for its run, or end it");
        insta::assert_snapshot!(build(3, 1, "").differs_from(&ours), @"it is flow 0.1.0, with store format 1, and this is flow 0.1.0 `/home/b/flow`, with store format 2: such two use a store one after the other; start both from one of these programs, and they share it");
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
