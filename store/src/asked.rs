//! The client side of the socket: a connection to the process that holds the store, with one request at a time. Does
//! not know what to do when it breaks.

use std::{
    ops::ControlFlow,
    sync::{Mutex, PoisonError},
};

use crate::{
    Holder, StoreDir,
    bytes::{json, parse},
    lock::POLL,
    socket,
    wire::{Answer, Broken, Frames, Hello, Request, decode, encode},
};

/// A connection; none after it broke.
pub(crate) struct Connection(Mutex<Option<Frames>>);

/// The other end of a connection.
pub(crate) enum Reached {
    Holder(Connection),
    /// A flow with another protocol or store format.
    Other(Holder),
    /// Nobody listens: the holder is just opening, or is an earlier flow.
    Nobody,
}

/// The caller did not want to wait longer.
pub(crate) struct GivenUp;

impl Connection {
    /// Connects to the holder of a store. While it is silent, `waits` decides every 100 ms whether to continue.
    pub(crate) fn to(
        dir: &StoreDir,
        me: &Holder,
        waits: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Reached, GivenUp> {
        let Ok(stream) = socket::connect(dir) else { return Ok(Reached::Nobody) };
        let timed = stream.set_read_timeout(Some(POLL)).and_then(|()| stream.set_write_timeout(Some(POLL)));
        if timed.is_err() {
            return Ok(Reached::Nobody);
        }
        let (mut frames, ours) = (Frames::new(stream), Hello::of(me));
        let greeted = frames.say(&json(&ours), waits).and_then(|()| frames.hear(waits));
        match greeted.map(|hello| parse::<Hello>(Some(&hello))) {
            Ok(Some(hello)) if hello.is_understood() => Ok(Reached::Holder(Connection(Mutex::new(Some(frames))))),
            Ok(Some(hello)) => Ok(Reached::Other(other(hello, &ours))),
            Ok(None) | Err(Broken::Gone) => Ok(Reached::Nobody),
            Err(Broken::GivenUp) => Err(GivenUp),
        }
    }

    /// Sends requests, and returns as many answers as fit into one frame. A broken or abandoned connection stays
    /// broken, because its answers could still arrive.
    pub(crate) fn ask(
        &self,
        requests: &[Request],
        waits: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Vec<Answer>, Broken> {
        let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut frames = line.take().ok_or(Broken::Gone)?;
        frames.say(&encode(&requests), waits)?;
        let answers: Vec<Answer> = decode(&frames.hear(waits)?).ok_or(Broken::Gone)?;
        if answers.is_empty() || answers.len() > requests.len() {
            return Err(Broken::Gone);
        }
        *line = Some(frames);
        Ok(answers)
    }
}

/// A holder with another protocol or format, described in words for the user.
fn other(hello: Hello, ours: &Hello) -> Holder {
    let since = format!("{}; {}", hello.who.since, hello.differs_from(ours));
    Holder { since, ..hello.who }
}
