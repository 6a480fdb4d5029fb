//! The holder's side of the socket: greets clients, and answers their requests. Decides nothing; the socket's mode
//! controls who may connect.

use std::{
    collections::HashMap,
    net::Shutdown,
    ops::ControlFlow,
    os::unix::net::{UnixListener, UnixStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use flow_core::{RunId, reason::StoreAction};

use crate::{
    Holder, Result, StoreDir, StoreError,
    bytes::{json, parse},
    open_database::OpenDatabase,
    socket,
    wire::{Answer, Failure, Frames, Hello, Request, decode, encode},
};

/// Time limit for a client's greeting.
const GREETING: Duration = Duration::from_secs(5);
/// Limit of connections. No honest use needs more.
const MOST: usize = 512;

/// Answers other processes until it is stopped.
pub(crate) struct Server {
    dir: StoreDir,
    shared: Arc<Shared>,
    listener: UnixListener,
    accepting: JoinHandle<()>,
}

struct Shared {
    core: Arc<OpenDatabase>,
    hello: Hello,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    is_ending: bool,
    next: u64,
    /// Connections, kept so that they can be ended.
    streams: HashMap<u64, UnixStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Starts to answer.
    ///
    /// # Errors
    /// No socket or thread can be created.
    pub(crate) fn start(core: &Arc<OpenDatabase>, me: &Holder) -> Result<Server> {
        let dir = core.dir.clone();
        let listener = socket::listen(&dir)?;
        let fails = || StoreError::io(StoreAction::MakeSocket, dir.path());
        let shared = Arc::new(Shared { core: Arc::clone(core), hello: Hello::of(me), open: Mutex::default() });
        let (theirs, accepts) = (Arc::clone(&shared), listener.try_clone().map_err(fails())?);
        let accept = move || Shared::accept(&theirs, &accepts);
        let accepting = thread::Builder::new().name("store".into()).spawn(accept).map_err(fails())?;
        Ok(Server { dir, shared, listener, accepting })
    }

    /// Ends all connections. Clients repeat unanswered requests to the next holder.
    pub(crate) fn stop(self) {
        self.shared.open().is_ending = true;
        socket::close(&self.dir, self.listener);
        let _ = self.accepting.join();
        let threads = {
            let mut open = self.shared.open();
            open.streams.values().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
            std::mem::take(&mut open.threads)
        };
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(shared: &Arc<Shared>, listener: &UnixListener) {
        loop {
            let stream = listener.accept();
            let mut open = shared.open();
            if open.is_ending {
                return;
            }
            open.threads.retain(|thread| !thread.is_finished());
            let Ok((stream, _)) = stream else {
                // For example, no descriptors are left, which may pass.
                drop(open);
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            let Some(kept) = stream.try_clone().ok().filter(|_| open.streams.len() < MOST) else { continue };
            let number = open.next;
            open.next += 1;
            open.streams.insert(number, kept);
            let theirs = Arc::clone(shared);
            let serve = move || {
                theirs.serve(stream);
                theirs.open().streams.remove(&number);
            };
            match thread::Builder::new().name("store".into()).spawn(serve) {
                Ok(thread) => open.threads.push(thread),
                Err(_) => _ = open.streams.remove(&number),
            }
        }
    }

    /// The main function of a connection.
    fn serve(&self, stream: UnixStream) {
        let Ok(timed) = stream.try_clone() else { return };
        let _ = timed.set_read_timeout(Some(GREETING));
        let mut frames = Frames::new(stream);
        let give_up = &mut || ControlFlow::Break(());
        let go_on = &mut || ControlFlow::Continue(());
        let Ok(greeting) = frames.hear(give_up) else { return };
        let Some(greeting) = parse::<Hello>(Some(&greeting)) else { return };
        if frames.say(&json(&self.hello), give_up).is_err() || !greeting.is_understood() {
            return;
        }
        let _ = timed.set_read_timeout(None);
        let mut of = None;
        while let Ok(frame) = frames.hear(go_on) {
            let Some(requests) = decode::<Vec<Request>>(&frame).filter(|requests| !requests.is_empty()) else { break };
            for request in &requests {
                if let Request::Begin(run) | Request::Record { run, .. } = request {
                    of = Some(RunId(run.clone()));
                }
            }
            let answers = self.core.answer(&requests);
            let answers = answers.unwrap_or_else(|error| vec![Answer::Failed(Failure::from(&error))]);
            if frames.say(&encode(&answers), go_on).is_err() {
                break;
            }
        }
        // The run ended, or was killed before it reported its last journal lines.
        if let Some(run) = of
            && !self.open().is_ending
        {
            let _ = self.core.take_in_rest(&run);
        }
    }
}
