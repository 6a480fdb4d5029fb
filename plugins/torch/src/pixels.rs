//! The memory of one batch, which several threads fill together without a copy.

use std::slice;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tch::{Device, Kind, TchError, Tensor};

use crate::native;

/// One slot for each picture. A slot is taken once; the tensor is given out when all of them have been.
pub(crate) struct Pixels {
    /// Bytes, N×H×W×3; owns what `start` points to.
    memory: Tensor,
    start: *mut u8,
    slot: usize,
    taken: Vec<AtomicBool>,
    done: AtomicUsize,
}

#[expect(
    unsafe_code,
    reason = "the memory is the tensor's own, which no thread touches but through the slots it has taken"
)]
// SAFETY: `start` points into `memory`, which lives as long; see `fill` and `tensor` for who may touch it when.
unsafe impl Send for Pixels {}
#[expect(unsafe_code, reason = "as above")]
// SAFETY: as above.
unsafe impl Sync for Pixels {}

impl Pixels {
    /// Memory for `count` pictures of three colours and this width and height; `pinned` for a GPU to copy from.
    pub(crate) fn new(count: usize, size: u32, pinned: bool) -> Result<Self, TchError> {
        let side = i64::from(size);
        let shape = [count as i64, side, side, 3];
        let memory = if pinned { native::pinned(&shape) } else { Tensor::f_empty(shape, (Kind::Uint8, Device::Cpu)) }?;
        let start = memory.data_ptr().cast();
        let taken = (0..count).map(|_| AtomicBool::new(false)).collect();
        Ok(Self { memory, start, slot: 3 * size as usize * size as usize, taken, done: AtomicUsize::new(0) })
    }

    /// Lets `write` fill a slot. Errors are `write`'s own, or say that the slot was taken before.
    pub(crate) fn fill(&self, slot: usize, write: impl FnOnce(&mut [u8]) -> Result<(), String>) -> Result<(), String> {
        if self.taken.get(slot).is_none_or(|taken| taken.swap(true, Ordering::Relaxed)) {
            return Err(format!("slot {slot} of the batch is not free"));
        }
        #[expect(unsafe_code, reason = "the one place where a batch is written")]
        // SAFETY: `slot` is below the count that `memory` was made for, `taken` gives it to this call alone, and `tensor`
        // shows the memory only after the last slot is done.
        let bytes = unsafe { slice::from_raw_parts_mut(self.start.add(slot * self.slot), self.slot) };
        let written = write(bytes);
        self.done.fetch_add(1, Ordering::Release);
        written
    }

    /// The batch, bytes of shape N×H×W×3, once every slot is filled.
    pub(crate) fn tensor(&self) -> Result<Tensor, TchError> {
        if self.done.load(Ordering::Acquire) < self.taken.len() {
            return Err(TchError::Shape("the batch is not filled yet".to_owned()));
        }
        Ok(self.memory.shallow_clone())
    }
}
