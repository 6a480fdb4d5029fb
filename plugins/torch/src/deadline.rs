//! Whether the time that a training has is up soon: a batch system says so with SIGUSR1. Knows nothing of trainings.

#![expect(unsafe_code, reason = "a handler for a signal, which does nothing but set a flag")]

use std::sync::atomic::{AtomicBool, Ordering};

static NEAR: AtomicBool = AtomicBool::new(false);

/// From here on the signal is heard. A process that does not listen to it is ended in another way.
pub(crate) fn listen() {
    let heard = note as extern "C" fn(libc::c_int);
    // SAFETY: the handler stores to an atomic, which is all that may be done in one.
    unsafe { libc::signal(libc::SIGUSR1, heard as libc::sighandler_t) };
}

extern "C" fn note(_: libc::c_int) {
    NEAR.store(true, Ordering::Relaxed);
}

/// The signal has come.
pub(crate) fn is_near() -> bool {
    NEAR.load(Ordering::Relaxed)
}
