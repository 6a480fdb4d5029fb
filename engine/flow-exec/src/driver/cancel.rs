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
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
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
    kinds: Vec<SignalKind>,
    signals: Vec<unix::Signal>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A signal ends this process as long as it is kept.
pub(super) struct Leaving {
    stay: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.stay.take();
        self.thread.take().map(JoinHandle::join);
    }
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
        Ok(Cancel { run, asked, kinds: Vec::new(), signals: Vec::new(), shared, thread: Some(thread) })
    }

    /// From here on it is the loop that ends the run, also by signals, unless it leaves its jobs (`leaves_jobs`) to the run that comes
    /// after it, however it ends.
    ///
    /// # Errors
    /// Signals cannot be received.
    pub(super) fn listen(&mut self, leaves_jobs: bool) -> Result<(), ExecError> {
        self.kinds = if leaves_jobs { Vec::new() } else { heeded() };
        let cannot = |e| ExecError::Fault(format!("signals cannot be received: {e}"));
        self.signals = self.kinds.iter().map(|kind| signal(*kind)).collect::<Result<_, _>>().map_err(cannot)?;
        self.shared.heard.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// The loop is over and all results are recorded: as long as the answer is kept, a signal ends this process at once.
    pub(super) fn loop_is_over(&mut self) -> Leaving {
        self.shared.heard.store(false, Ordering::SeqCst);
        self.signals.clear();
        let kinds = std::mem::take(&mut self.kinds);
        let (stay, stays) = oneshot::channel();
        let wait = move || {
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
            runtime.block_on(async {
                let signals: Result<Vec<_>, _> = kinds.into_iter().map(signal).collect();
                let Ok(mut signals) = signals else { return };
                tokio::select! {
                    _ = stays => {}
                    () = first(&mut signals) => leave(),
                }
            });
        };
        // Without such a thread it ends by itself, later.
        Leaving { stay: Some(stay), thread: thread::Builder::new().name("signals".into()).spawn(wait).ok() }
    }

    /// Waits until the run is told to end. Nothing is lost when the future is dropped.
    pub(super) async fn asked(&mut self) -> End {
        tokio::select! {
            biased;
            () = first(&mut self.signals) => End::Soon,
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

/// The first of these signals.
async fn first(signals: &mut [unix::Signal]) {
    std::future::poll_fn(|task| {
        let came = signals.iter_mut().any(|signal| matches!(signal.poll_recv(task), Poll::Ready(Some(()))));
        if came { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// The signals that end a run. `nohup` ignores the hangup, and a shell without job control ignores Ctrl-C in what it starts in the
/// background: what was ignored at the start stays ignored.
fn heeded() -> Vec<SignalKind> {
    let ignored = procfs::process::Process::myself().and_then(|me| me.status()).map_or(0, |status| status.sigign);
    let kinds = [SignalKind::interrupt(), SignalKind::hangup()].into_iter();
    let kinds = kinds.filter(|kind| ignored & 1 << (kind.as_raw_value() - 1) == 0);
    kinds.chain([SignalKind::terminate()]).collect()
}

/// Ends this process as Ctrl-C would; that is ignored where a shell started us in the background.
fn leave() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        let _ = raise(signal);
    }
}
