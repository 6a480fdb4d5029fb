//! How a run learns that it must end. `flow cancel` writes a file into the run's folder, and a thread looks for it. The
//! thread also runs while inputs are hashed and plugins are set up, before the loop exists. Until then the process just
//! ends, as with Ctrl-C, because nothing runs that needs a grace period.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    thread::{self, JoinHandle},
    time::Duration,
};

use flow_runs::{EndRequest, RunDir};
use flow_supervisor::clock;
use nix::sys::signal::{Signal, raise};
use tokio::{
    signal::unix::{self, SignalKind, signal},
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
};

use crate::ExecError;

/// Interval between two looks at the file.
const LOOK: Duration = Duration::from_millis(200);
/// If the loop does not react to [`EndRequest::Now`] within this time, it is blocked.
const DEAF: Duration = Duration::from_secs(3);

/// Waits for a request to end the run. Dropping it ends the thread and removes the folder of a run that has not begun.
pub(super) struct Cancel {
    run: RunDir,
    requests: UnboundedReceiver<EndRequest>,
    kinds: Vec<SignalKind>,
    signals: Vec<unix::Signal>,
    shared: Arc<CancelState>,
    thread: Option<JoinHandle<()>>,
}

/// While it exists, a signal ends this process.
pub(super) struct SignalGuard {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for SignalGuard {
    fn drop(&mut self) {
        self.stop.take();
        self.thread.take().map(JoinHandle::join);
    }
}

#[derive(Default)]
struct CancelState {
    received: AtomicBool,
    /// The loop has not received the last [`EndRequest::Now`].
    pending: AtomicBool,
    stop: AtomicBool,
    /// Attempts of the run survive when this process is killed.
    detached: bool,
}

impl Cancel {
    /// Starts to look. `detached`: the run's attempts survive this process.
    pub(super) fn watch(run: RunDir, detached: bool) -> Result<Cancel, ExecError> {
        let (tell, asked) = unbounded_channel();
        let shared = Arc::new(CancelState { detached, ..CancelState::default() });
        let (theirs, folder) = (Arc::clone(&shared), run.clone());
        let thread = thread::Builder::new().name("cancel".into()).spawn(move || theirs.look(&folder, &tell));
        let thread = thread.map_err(ExecError::io("start", "the thread that looks for `flow cancel`"))?;
        Ok(Cancel { run, requests: asked, kinds: Vec::new(), signals: Vec::new(), shared, thread: Some(thread) })
    }

    /// From here on the loop ends the run, also on signals. Exception: if the run leaves its jobs to the next run
    /// (`leaves_jobs`), a signal just ends this process.
    ///
    /// # Errors
    /// Signals cannot be received.
    pub(super) fn listen(&mut self, leaves_jobs: bool) -> Result<(), ExecError> {
        self.kinds = if leaves_jobs { Vec::new() } else { heeded() };
        let cannot = |e| ExecError::Fault(format!("signals cannot be received: {e}"));
        self.signals = self.kinds.iter().map(|kind| signal(*kind)).collect::<Result<_, _>>().map_err(cannot)?;
        self.shared.received.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// All results are recorded and the loop is over. While the returned value lives, a signal ends this process.
    pub(super) fn loop_is_over(&mut self) -> SignalGuard {
        self.shared.received.store(false, Ordering::SeqCst);
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
        // Without such a thread the process ends a bit later, by itself.
        SignalGuard { stop: Some(stay), thread: thread::Builder::new().name("signals".into()).spawn(wait).ok() }
    }

    /// Waits for a request to end the run. Dropping the future loses nothing.
    pub(super) async fn next_request(&mut self) -> EndRequest {
        tokio::select! {
            biased;
            () = first(&mut self.signals) => EndRequest::Soon,
            Some(end) = self.requests.recv() => {
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
        // A request that came too late must not be taken for one of another run.
        self.run.unname();
    }
}

impl CancelState {
    fn look(&self, run: &RunDir, tell: &UnboundedSender<EndRequest>) {
        let mut since = None;
        while !self.stop.load(Ordering::SeqCst) {
            if let Some(end) = run.take_end() {
                if !self.received.load(Ordering::SeqCst) {
                    run.unname();
                    leave();
                }
                if end == EndRequest::Now {
                    self.pending.store(true, Ordering::SeqCst);
                    since = Some(clock::steady());
                }
                let _ = tell.send(end);
            }
            if self.pending.load(Ordering::SeqCst) && since.is_some_and(|since| clock::since(since) > DEAF) {
                if self.detached {
                    // The supervisor of the running attempts hears of it then.
                    let _ = run.request_end(EndRequest::Now);
                }
                // A kill loses no recorded result, and the keeper ends the running programs.
                let _ = raise(Signal::SIGKILL);
            }
            thread::park_timeout(LOOK);
        }
    }
}

/// Waits for the first of these signals.
async fn first(signals: &mut [unix::Signal]) {
    std::future::poll_fn(|task| {
        let came = signals.iter_mut().any(|signal| matches!(signal.poll_recv(task), Poll::Ready(Some(()))));
        if came { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// The signals that end a run, without those that were ignored at the start: `nohup` ignores the hangup, and a shell
/// without job control ignores Ctrl-C for background processes.
fn heeded() -> Vec<SignalKind> {
    let ignored = procfs::process::Process::myself().and_then(|me| me.status()).map_or(0, |status| status.sigign);
    let kinds = [SignalKind::interrupt(), SignalKind::hangup()].into_iter();
    let kinds = kinds.filter(|kind| ignored & 1 << (kind.as_raw_value() - 1) == 0);
    kinds.chain([SignalKind::terminate()]).collect()
}

/// Ends this process as Ctrl-C would, with stronger signals in case a shell started it with that one ignored.
fn leave() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        let _ = raise(signal);
    }
}
