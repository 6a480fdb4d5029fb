//! How a run hears that it is to end. `flow cancel` is a file in the run's folder, looked at by a thread of its own, which is there while
//! inputs are hashed and plugins set up, before there is a loop. Until then the process just ends, as by Ctrl-C; nothing runs that is
//! worth a grace. The loop hears of both here.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    thread::{self, JoinHandle},
    time::Duration,
};

use flow_store::{End, RunDir};
use nix::sys::signal::{Signal, raise};
use tokio::{
    signal::unix::{self, SignalKind, signal},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

use crate::{ExecError, clock};

/// How often the file is looked for.
const LOOK: Duration = Duration::from_millis(200);
/// A loop that has not heard of [`End::Now`] after this long is at something that it does not come back from soon.
const DEAF: Duration = Duration::from_secs(3);

/// Whoever may be told to end. Dropping it ends the thread; of a run that has not begun nothing stays.
pub(super) struct Cancel {
    run: RunDir,
    asked: UnboundedReceiver<End>,
    signals: Vec<unix::Signal>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    heard: AtomicBool,
    /// It has not come to the last [`End::Now`].
    pending: AtomicBool,
    stop: AtomicBool,
    /// What it has started goes on when it is killed.
    outlives: bool,
}

impl Cancel {
    /// Begins to look; of a run that `outlives` this process what it has started does.
    pub(super) fn watch(run: RunDir, outlives: bool) -> Result<Cancel, ExecError> {
        let (tell, asked) = unbounded_channel();
        let shared = Arc::new(Shared { outlives, ..Shared::default() });
        let (theirs, folder) = (Arc::clone(&shared), run.clone());
        let thread = thread::Builder::new().name("cancel".into()).spawn(move || theirs.look(&folder, &tell));
        let thread = thread.map_err(ExecError::io("start", "the thread that looks for `flow cancel`"))?;
        Ok(Cancel { run, asked, signals: Vec::new(), shared, thread: Some(thread) })
    }

    /// From here on it is the loop that ends the run, also by signals, unless it leaves its jobs (`leaves_jobs`) to the run that comes
    /// after it, however it ends.
    ///
    /// # Errors
    /// Signals cannot be received.
    pub(super) fn listen(&mut self, leaves_jobs: bool) -> Result<(), ExecError> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        // `nohup` ignores the hangup, and a terminal that closes ends nothing then.
        let kinds =
            kinds.into_iter().filter(|kind| !(leaves_jobs || *kind == SignalKind::hangup() && ignores_hangup()));
        let cannot = |e| ExecError::Fault(format!("signals cannot be received: {e}"));
        self.signals = kinds.map(signal).collect::<Result<_, _>>().map_err(cannot)?;
        self.shared.heard.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Waits until the run is told to end. Nothing is lost when the future is dropped.
    pub(super) async fn asked(&mut self) -> End {
        let signals = &mut self.signals;
        let signalled = std::future::poll_fn(|task| {
            let came = signals.iter_mut().any(|signal| matches!(signal.poll_recv(task), Poll::Ready(Some(()))));
            if came { Poll::Ready(()) } else { Poll::Pending }
        });
        tokio::select! {
            biased;
            () = signalled => End::Soon,
            Some(end) = self.asked.recv() => {
                self.shared.pending.store(false, Ordering::SeqCst);
                end
            }
        }
    }
}

impl Drop for Cancel {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
        // What came too late is not left to be taken for another's.
        self.run.unname();
    }
}

impl Shared {
    fn look(&self, run: &RunDir, tell: &UnboundedSender<End>) {
        let mut since = None;
        while !self.stop.load(Ordering::SeqCst) {
            if let Some(end) = run.take_end() {
                if !self.heard.load(Ordering::SeqCst) {
                    run.unname();
                    leave();
                }
                if end == End::Now {
                    self.pending.store(true, Ordering::SeqCst);
                    since = Some(clock::steady());
                }
                let _ = tell.send(end);
            }
            if self.pending.load(Ordering::SeqCst) && since.is_some_and(|since| clock::since(since) > DEAF) {
                if self.outlives {
                    // Who keeps what runs hears of it then.
                    let _ = run.tell_to_end(End::Now);
                }
                // A kill loses nothing that is recorded, and the keeper ends what runs.
                let _ = raise(Signal::SIGKILL);
            }
            thread::park_timeout(LOOK);
        }
    }
}

/// This process was started so that it ignores a terminal that closes.
fn ignores_hangup() -> bool {
    let ignored = || procfs::process::Process::myself()?.status().map(|status| status.sigign);
    ignored().is_ok_and(|signals| signals & 1 << (Signal::SIGHUP as i32 - 1) != 0)
}

/// Ends this process as Ctrl-C would; that is ignored where a shell started us in the background.
fn leave() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        let _ = raise(signal);
    }
}
