//! How runs of a machine wake each other: who makes room rings for those that wait for some. A ring says nothing, and may get lost: who
//! waits looks by itself too, only later. So whoever can ring may. Its name is in no folder, for the kernel takes it back with the
//! process, however that ends, and what a kill left in `/tmp` only its owner could remove. Nobody can guess it and be there first.

use std::{
    future,
    hash::{BuildHasher, RandomState},
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram as Sender},
    },
};

use tokio::net::UnixDatagram;

use super::slot::Slot;

/// The bell of a run.
#[derive(Debug)]
pub(crate) struct Bell(UnixDatagram);

impl Bell {
    /// A new one, and its name, which is to be told to those who are to ring.
    pub(crate) fn new() -> Option<(Bell, u64)> {
        let name = RandomState::new().hash_one(std::process::id());
        let socket = Sender::bind_addr(&address(name).ok()?).ok()?;
        socket.set_nonblocking(true).ok()?;
        Some((UnixDatagram::from_std(socket).ok().map(Bell)?, name))
    }

    /// Returns when it was rung, and forgets how often.
    pub(crate) async fn rung(bell: Option<&Bell>) {
        let Some(Bell(socket)) = bell else { return future::pending().await };
        // It is bound, and never shut down: where it cannot be heard nobody is waited for.
        let _ = socket.recv(&mut [0]).await;
        while socket.try_recv(&mut [0]).is_ok() {}
    }
}

/// Rings for these runs.
pub(crate) fn ring<'s>(slots: impl Iterator<Item = &'s Slot>) {
    let Ok(sender) = Sender::unbound() else { return };
    // Who has heard so many rings need not hear one more.
    let _ = sender.set_nonblocking(true);
    for slot in slots {
        // An older flow has none, nor has who is of another network namespace.
        let _ = address(slot.bell).and_then(|address| sender.send_to_addr(&[0], &address));
    }
}

fn address(name: u64) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("flow-bell-{name:016x}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn who_waits_hears_each_ring_once() {
        let (bell, name) = Bell::new().unwrap();
        let slot = Slot { bell: name, ..Slot::default() };
        assert_ne!(Bell::new().unwrap().1, name, "another one has another name");
        let heard = async || tokio::time::timeout(Duration::from_millis(50), Bell::rung(Some(&bell))).await.is_ok();
        assert!(!heard().await);
        for _ in 0..100 {
            ring([&slot, &Slot::default()].into_iter());
        }
        assert!(heard().await);
        assert!(!heard().await, "all of them were one");
        drop(bell);
        ring([&slot].into_iter());
        // A process that another test begins just then has its file descriptors until its program begins.
        let gone = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            Sender::bind_addr(&address(name).unwrap()).is_ok()
        });
        assert!(gone, "its name goes with it");
    }
}
