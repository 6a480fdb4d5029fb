//! Follows `messages.jsonl` while the program appends to it. Trusts nothing: invalid lines are counted.

use std::io;

use flow_core::reason::Refusal;
use flow_protocol::{Line, Message, PROTOCOL};

use super::{Folder, lines::Lines};

/// The result of one look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PollResult {
    /// Messages in the order of the file, each with its time.
    pub lines: Vec<Line>,
    /// The reason why the program is refused. Reported once; nothing is read after it.
    pub refused: Option<Refusal>,
    /// There may be more to read right now.
    pub more: bool,
}

/// Reads the messages of one attempt as they arrive.
#[derive(Debug)]
pub struct Follower {
    lines: Lines,
    greeted: bool,
    refused: bool,
    ignored: u64,
}

impl Follower {
    /// A follower from the start of the file, which need not exist yet.
    pub fn new(folder: &Folder) -> Follower {
        Follower { lines: Lines::new(folder.messages(), b"\n"), greeted: false, refused: false, ignored: 0 }
    }

    /// A follower of messages that arrive through a pipe.
    ///
    /// # Errors
    /// The file for the messages cannot be created.
    pub fn of_pipe(folder: &Folder) -> io::Result<Follower> {
        // Kept open from here on: at the end it is renamed to the pipe's name.
        let lines = Lines::of(folder.open_pipe_target()?, folder.pipe_target(), b"\n");
        Ok(Follower { lines, greeted: false, refused: false, ignored: 0 })
    }

    /// New messages since the last look, or a bounded part of them. A message without a time gets `now`, in seconds
    /// since 1970.
    ///
    /// # Errors
    /// The file exists and cannot be read, or is not a regular file.
    pub fn poll(&mut self, now: f64) -> io::Result<PollResult> {
        let mut polled = PollResult::default();
        if self.refused {
            return Ok(polled);
        }
        let Some(lines) = self.lines.poll()? else { return Ok(polled) };
        polled.more = true;
        for line in lines {
            match read_line(&line) {
                Some(line) => {
                    if let Err(refused) = check(&line.message, &mut self.greeted) {
                        self.refused = true;
                        polled.refused = Some(refused);
                        return Ok(polled);
                    }
                    polled.lines.push(Line { at: line.at.or(Some(now)), ..line });
                }
                None if line.iter().all(u8::is_ascii_whitespace) => {}
                None => self.ignored += 1,
            }
        }
        Ok(polled)
    }

    /// The program has ended: skips to the end if much is unread. Returns how many bytes are skipped.
    ///
    /// # Errors
    /// As [`Follower::poll`].
    pub fn hasten(&mut self) -> io::Result<u64> {
        self.lines.hasten()
    }

    /// Number of lines that were not valid messages.
    pub fn ignored(&self) -> u64 {
        self.ignored + self.lines.passed_over()
    }
}

/// Checks that a `hello` of our version comes first. Only the `ready` of a plain program may precede it, because `flow
/// ready` writes it and has this same version.
fn check(message: &Message, greeted: &mut bool) -> Result<(), Refusal> {
    match message {
        Message::Hello { protocol, plugin, version, .. } if *protocol != PROTOCOL => {
            let plugin = format!("{plugin} {version}");
            Err(Refusal::OtherProtocol { plugin, theirs: *protocol, ours: PROTOCOL })
        }
        Message::Hello { .. } => {
            *greeted = true;
            Ok(())
        }
        Message::Ready => Ok(()),
        _ if *greeted => Ok(()),
        _ => Err(Refusal::NoHello { protocol: PROTOCOL }),
    }
}

/// A line with a valid message and plausible content.
fn read_line(line: &[u8]) -> Option<Line> {
    let line = Line::read(line).ok()?;
    let sound = match &line.message {
        Message::Metric { name, .. } => {
            name.starts_with(|c: char| c.is_ascii_lowercase())
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        }
        Message::Epoch { epoch, started_at, ended_at } => *epoch > 0 && started_at <= ended_at,
        _ => true,
    };
    sound.then_some(line)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        io::Write,
    };

    use flow_protocol::file;

    use super::*;

    const HELLO: &str = r#"{"type":"hello","protocol":1,"plugin":"torch","version":"0.1.0"}"#;

    fn follow(content: &str) -> (PollResult, u64) {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::create(dir.path().to_owned()).unwrap();
        fs::write(dir.path().join(file::MESSAGES), content).unwrap();
        let mut follower = Follower::new(&folder);
        let mut polled = follower.poll(9.0).unwrap();
        while polled.more {
            let next = follower.poll(9.0).unwrap();
            polled.lines.extend(next.lines);
            polled.more = next.more;
        }
        (polled, follower.ignored())
    }

    #[test]
    fn a_line_counts_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::create(dir.path().to_owned()).unwrap();
        let mut follower = Follower::new(&folder);
        assert_eq!(follower.poll(1.0).unwrap(), PollResult::default());
        let mut file = File::create(dir.path().join(file::MESSAGES)).unwrap();
        write!(file, "{HELLO}\n{{\"type\":\"rea").unwrap();
        assert_eq!(follower.poll(2.0).unwrap().lines.len(), 1);
        assert_eq!(follower.poll(3.0).unwrap().lines, []);
        writeln!(file, "dy\"}}").unwrap();
        assert_eq!(follower.poll(4.0).unwrap().lines, [Line { at: Some(4.0), message: Message::Ready }]);
        assert_eq!(follower.ignored(), 0);
    }

    #[test]
    fn what_is_not_of_the_protocol_is_counted() {
        let long = "x".repeat(3 << 20);
        let (polled, ignored) = follow(&format!(
            "{HELLO}\nnoise\n\n{{\"type\":\"future\"}}\n{long}\n{{\"type\":\"metric\",\"name\":\"Top 1\",\"value\":1}}\n\
             {{\"type\":\"metric\",\"name\":\"top1\"}}\n{{\"type\":\"epoch\",\"epoch\":1,\"started_at\":3,\"ended_at\":2}}\n\
             {{\"type\":\"metric\",\"name\":\"top1\",\"value\":0.5,\"at\":7,\"later\":1}}\n",
        ));
        assert_eq!(ignored, 6);
        assert_eq!(polled.refused, None);
        assert_eq!(polled.lines.len(), 2);
    }

    #[test]
    fn another_version_is_refused() {
        let (polled, _) =
            follow("{\"type\":\"hello\",\"protocol\":9,\"plugin\":\"t\",\"version\":\"2\"}\n{\"type\":\"ready\"}\n");
        assert_eq!(polled.lines, []);
        let other = Refusal::OtherProtocol { plugin: "t 2".into(), theirs: 9, ours: PROTOCOL };
        assert_eq!(polled.refused, Some(other));
        let (polled, _) = follow("{\"type\":\"progress\",\"fraction\":0.5}\n");
        assert_eq!(polled.refused, Some(Refusal::NoHello { protocol: PROTOCOL }));
        let (polled, _) = follow("{\"type\":\"ready\"}\n");
        assert_eq!((polled.lines.len(), polled.refused), (1, None), "the barrier of a script");
    }
}
