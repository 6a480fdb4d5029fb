//! Shows the progress of slow work before the event loop exists.

use std::{
    panic::resume_unwind,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use flow_store::Activity;

use crate::{
    ExecError,
    driver::{
        attempts::state::{SLOW, progress},
        updates::Update,
    },
};

/// Runs `work` on another thread while this one shows its progress. Before the loop exists, nothing else could show it.
pub(super) fn with_progress<T: Send>(
    activity: &Activity,
    observe: &mut dyn FnMut(Update),
    work: impl FnOnce(&mut dyn FnMut(Update)) -> Result<T, ExecError> + Send,
) -> Result<T, ExecError> {
    const LOOK: Duration = Duration::from_secs(1);
    /// Hashing or copying is shown after this many seconds.
    const SHOW: u32 = SLOW as u32;
    /// The size of the main thread's stack.
    const STACK: usize = 8 << 20;
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        // Its end, in whatever way, drops the sender.
        let work = move || work(&mut |update| _ = tell.send(update));
        let work = thread::Builder::new().name("plan".to_owned()).stack_size(STACK).spawn_scoped(scope, work);
        let work = work.map_err(ExecError::io("start", "the thread that plans"))?;
        let mut seconds = 0;
        loop {
            match told.recv_timeout(LOOK) {
                Ok(update) => observe(update),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    seconds += 1;
                    if seconds % SHOW == 0
                        && let Some(doing) = activity.doing()
                    {
                        observe(Update::Doing(progress(&doing)));
                    }
                }
            }
        }
        work.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}
