//! The other side of the socket: a connection to whoever holds the store, over which one thing is asked after the other. Does not know
//! what to do when it breaks.

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

/// A connection; none any more once it broke.
pub(crate) struct Connection(Mutex<Option<Frames>>);

/// Whom a connection led to.
pub(crate) enum Reached {
    Holder(Connection),
    /// A flow that says or keeps other things than this one.
    Other(Holder),
    /// Nobody listens: it is just opening, or is an earlier flow.
    Nobody,
}

/// Whoever was asked did not want to wait longer.
pub(crate) struct GivenUp;

impl Connection {
    /// To the holder of a store. While it says nothing `waits` is asked every 100 ms whether to go on.
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

    /// Asks, and is told as many of the first answers as one frame holds. What broke, or was given up, stays broken: its answers could
    /// still come.
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

/// A holder that says or keeps other things, with that in the words by which people are told of it.
fn other(hello: Hello, ours: &Hello) -> Holder {
    let since = format!("{}; {}", hello.who.since, hello.differs_from(ours));
    Holder { since, ..hello.who }
}
