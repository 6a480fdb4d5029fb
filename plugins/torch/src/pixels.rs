//! The memory of one batch, which several threads fill together without a copy.

use std::slice;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tch::{Device, Kind, TchError, Tensor};

use crate::transform::Layout;

/// One slot for each picture. A slot is taken once; the tensor is given out when all of them have been.
pub(crate) struct Pixels {
    /// Contiguous, of `slots × slot` numbers; owns what `start` points to.
    memory: Tensor,
    start: *mut f32,
    slot: usize,
    layout: Layout,
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
    /// Memory for `count` pictures of three colours and this width and height.
    pub(crate) fn new(count: usize, size: u32, layout: Layout) -> Result<Self, TchError> {
        let (n, side) = (count as i64, i64::from(size));
        let shape = match layout {
            Layout::ChannelsFirst => [n, 3, side, side],
            Layout::ChannelsLast => [n, side, side, 3],
        };
        let memory = Tensor::f_empty(shape, (Kind::Float, Device::Cpu))?;
        let start = memory.data_ptr().cast();
        let taken = (0..count).map(|_| AtomicBool::new(false)).collect();
        Ok(Self { memory, start, slot: 3 * size as usize * size as usize, layout, taken, done: AtomicUsize::new(0) })
    }

    /// Lets `write` fill a slot. Errors are `write`'s own, or say that the slot was taken before.
    pub(crate) fn fill(&self, slot: usize, write: impl FnOnce(&mut [f32]) -> Result<(), String>) -> Result<(), String> {
        if self.taken.get(slot).is_none_or(|taken| taken.swap(true, Ordering::Relaxed)) {
            return Err(format!("slot {slot} of the batch is not free"));
        }
        #[expect(unsafe_code, reason = "the one place where a batch is written")]
        // SAFETY: `slot` is below the count that `memory` was made for, `taken` gives it to this call alone, and `tensor`
        // shows the memory only after the last slot is done.
        let numbers = unsafe { slice::from_raw_parts_mut(self.start.add(slot * self.slot), self.slot) };
        let written = write(numbers);
        self.done.fetch_add(1, Ordering::Release);
        written
    }

    /// The batch, N×3×H×W, once every slot is filled.
    pub(crate) fn tensor(&self) -> Result<Tensor, TchError> {
        if self.done.load(Ordering::Acquire) < self.taken.len() {
            return Err(TchError::Shape("the batch is not filled yet".to_owned()));
        }
        match self.layout {
            Layout::ChannelsFirst => Ok(self.memory.shallow_clone()),
            Layout::ChannelsLast => self.memory.f_permute([0, 3, 1, 2]),
        }
    }
}
