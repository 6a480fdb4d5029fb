//! Small memory pages for flow itself, which touches small parts of much memory. Zeroing huge pages would take a third
//! of the time of a run in which one of a thousand instances changed, and of a job with nothing to do. Programs of
//! steps keep the setting that flow inherited.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::prctl::{get_thp_disable, set_thp_disable};

/// This process has turned huge pages off.
static OFF: AtomicBool = AtomicBool::new(false);

/// Turns huge pages off for this process. A failure changes nothing.
pub(crate) fn keep_small() {
    if get_thp_disable() == Ok(false) && set_thp_disable(true).is_ok() {
        OFF.store(true, Ordering::Relaxed);
    }
}

/// Starts a process with the setting that this process inherited.
pub(crate) fn as_given<T>(start: impl FnOnce() -> T) -> T {
    if !OFF.load(Ordering::Relaxed) {
        return start();
    }
    // In between, another thread gets huge pages at worst.
    let _ = set_thp_disable(false);
    let started = start();
    let _ = set_thp_disable(true);
    started
}
