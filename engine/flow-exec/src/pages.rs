//! Memory in small pages, for flow itself: it touches a little of much, and where huge pages are to be had zeroing them takes a third
//! of the time of a run in which one of a thousand instances changed, and of a job with nothing to do. What runs for a step has the pages that flow was given.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::prctl::{get_thp_disable, set_thp_disable};

/// This process turned huge pages off.
static OFF: AtomicBool = AtomicBool::new(false);

/// Turns huge pages off for this process. Where that is refused all goes on as it was.
pub(crate) fn keep_small() {
    if get_thp_disable() == Ok(false) && set_thp_disable(true).is_ok() {
        OFF.store(true, Ordering::Relaxed);
    }
}

/// Starts a process, which inherits the setting, as if this one had left it alone.
pub(crate) fn as_given<T>(start: impl FnOnce() -> T) -> T {
    if !OFF.load(Ordering::Relaxed) {
        return start();
    }
    // Between the two calls another thread gets huge pages at worst.
    let _ = set_thp_disable(false);
    let started = start();
    let _ = set_thp_disable(true);
    started
}
