//! The safe side of `native.cpp`: what tch lacks of libtorch. Knows tensors and devices, and nothing of networks or data.

#![expect(unsafe_code, reason = "calls of native.cpp, each with pointers that live at least as long as the call")]

use std::ffi::{CStr, c_char, c_int};
use std::marker::PhantomData;
use std::ptr;

use tch::{Device, TchError, Tensor};

/// An object that C++ owns.
#[repr(C)]
struct Opaque {
    _private: [u8; 0],
}

type Pointer = *mut Opaque;
/// Null, or the words of an error, to be freed.
type Failure = *mut c_char;

unsafe extern "C" {
    fn flow_use_device(device: c_int) -> Failure;
    fn flow_tf32(allowed: bool) -> Failure;
    fn flow_autocast(on: bool) -> Failure;
    fn flow_memory(device: c_int, allocated: *mut i64, reserved: *mut i64, refused: *mut i64) -> Failure;
    fn flow_total_memory(device: c_int, total: *mut i64) -> Failure;
    fn flow_forget_memory(device: c_int) -> Failure;
    fn flow_limit_memory(part: f64) -> Failure;
    fn flow_pinned(shape: *const i64, dimensions: usize, out: *mut Pointer) -> Failure;
    fn flow_optimizer_new(
        weights: *const Pointer,
        count: usize,
        adam: bool,
        momentum: f64,
        decay: f64,
        out: *mut Pointer,
    ) -> Failure;
    fn flow_optimizer_gather(optimizer: Pointer) -> Failure;
    fn flow_optimizer_gradient(optimizer: Pointer, out: *mut Pointer) -> Failure;
    fn flow_optimizer_state(optimizer: Pointer, number: usize, out: *mut Pointer) -> Failure;
    fn flow_optimizer_rate(optimizer: Pointer, rate: f64) -> Failure;
    fn flow_optimizer_update(optimizer: Pointer) -> Failure;
    fn flow_optimizer_free(optimizer: Pointer);
    fn flow_feed_new(device: c_int, out: *mut Pointer) -> Failure;
    fn flow_feed_put(feed: Pointer, from: *const Pointer, to: *const Pointer, count: usize) -> Failure;
    fn flow_feed_free(feed: Pointer);
    fn flow_graph_begin(device: c_int, out: *mut Pointer) -> Failure;
    fn flow_graph_end(graph: Pointer) -> Failure;
    fn flow_graph_replay(graph: Pointer) -> Failure;
    fn flow_graph_free(graph: Pointer);
}

fn check(failure: Failure) -> Result<(), TchError> {
    if failure.is_null() {
        return Ok(());
    }
    // SAFETY: native.cpp gives a terminated text that is the caller's to free.
    let words = unsafe {
        let words = CStr::from_ptr(failure).to_string_lossy().into_owned();
        libc::free(failure.cast());
        words
    };
    Err(TchError::Torch(words))
}

fn made(failure: Failure, out: Pointer) -> Result<Tensor, TchError> {
    check(failure)?;
    // SAFETY: without a failure `out` is a new tensor, which the result owns.
    Ok(unsafe { Tensor::from_ptr(out.cast()) })
}

fn pointers(tensors: &[&Tensor]) -> Vec<Pointer> {
    tensors.iter().map(|tensor| tensor.as_ptr().cast_mut().cast()).collect()
}

/// The number of a GPU; nothing for the CPU.
pub(crate) fn index(device: Device) -> Option<c_int> {
    match device {
        Device::Cuda(index) => c_int::try_from(index).ok(),
        _ => None,
    }
}

/// Makes a GPU the calling thread's device.
pub(crate) fn use_device(device: Device) -> Result<(), TchError> {
    // SAFETY: no pointers.
    index(device).map_or(Ok(()), |index| check(unsafe { flow_use_device(index) }))
}

/// Lets GPUs multiply fp32 as tf32, in the whole process.
pub(crate) fn allow_tf32(allowed: bool) -> Result<(), TchError> {
    // SAFETY: no pointers.
    check(unsafe { flow_tf32(allowed) })
}

/// While it lives, the calling thread computes in bf16 on GPUs where that loses little.
pub(crate) struct Autocast {
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl Autocast {
    pub(crate) fn bf16() -> Result<Self, TchError> {
        // SAFETY: no pointers.
        check(unsafe { flow_autocast(true) }).map(|()| Self { _thread: PhantomData })
    }
}

impl Drop for Autocast {
    fn drop(&mut self) {
        // SAFETY: no pointers. Switching off what was switched on does not fail.
        let _ = check(unsafe { flow_autocast(false) });
    }
}

/// Statistics of the allocator for one GPU, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    /// The peak of what tensors held.
    pub(crate) allocated: i64,
    /// The peak of what was taken from the driver.
    pub(crate) reserved: i64,
    /// The number of failed allocations.
    pub(crate) refused: i64,
}

impl Memory {
    /// Reads the statistics of a GPU that has already held a tensor.
    pub(crate) fn of(index: c_int) -> Result<Self, TchError> {
        let mut memory = Self::default();
        let Self { allocated, reserved, refused } = &mut memory;
        // SAFETY: three places to write to.
        check(unsafe { flow_memory(index, allocated, reserved, refused) })?;
        Ok(memory)
    }
}

/// How much memory the card has.
pub(crate) fn total_memory(index: c_int) -> Result<i64, TchError> {
    let mut total = 0;
    // SAFETY: a place to write to.
    check(unsafe { flow_total_memory(index, &mut total) })?;
    Ok(total)
}

/// Releases the GPU's cached memory and resets its peaks.
pub(crate) fn forget_memory(index: c_int) -> Result<(), TchError> {
    // SAFETY: no pointers.
    check(unsafe { flow_forget_memory(index) })
}

/// The part of each card's memory that tensors may take; before the first tensor on any.
pub(crate) fn limit_memory(part: f64) -> Result<(), TchError> {
    // SAFETY: no pointers.
    check(unsafe { flow_limit_memory(part) })
}

/// Bytes of this shape in page-locked memory, from which a GPU copies by itself.
pub(crate) fn pinned(shape: &[i64]) -> Result<Tensor, TchError> {
    let mut out = ptr::null_mut();
    // SAFETY: the shape outlives the call.
    made(unsafe { flow_pinned(shape.as_ptr(), shape.len(), &mut out) }, out)
}

/// An object of native.cpp, and the function that frees it. It belongs to no thread, and is used by one at a time.
struct Handle(Pointer, unsafe extern "C" fn(Pointer));

// SAFETY: as above.
unsafe impl Send for Handle {}

impl Handle {
    /// `make` puts a new object into its place.
    fn new(free: unsafe extern "C" fn(Pointer), make: impl FnOnce(*mut Pointer) -> Failure) -> Result<Self, TchError> {
        let mut out = ptr::null_mut();
        check(make(&mut out))?;
        Ok(Self(out, free))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: made by the function that belongs to this one, freed once.
        unsafe { (self.1)(self.0) }
    }
}

/// SGD with momentum, or Adam, over all weights at once.
pub(crate) struct Optimizer(Handle);

impl Optimizer {
    pub(crate) fn new(weights: &[&Tensor], adam: bool, momentum: f64, decay: f64) -> Result<Self, TchError> {
        let weights = pointers(weights);
        let (list, count) = (weights.as_ptr(), weights.len());
        // SAFETY: the list outlives the call, which copies its handles.
        let make = |out| unsafe { flow_optimizer_new(list, count, adam, momentum, decay, out) };
        Handle::new(flow_optimizer_free, make).map(Self)
    }

    /// Takes the gradients from the weights.
    pub(crate) fn gather(&mut self) -> Result<(), TchError> {
        // SAFETY: the object lives.
        check(unsafe { flow_optimizer_gather(self.0.0) })
    }

    /// The gathered gradients, one after the other.
    pub(crate) fn gradient(&self) -> Result<Tensor, TchError> {
        let mut out = ptr::null_mut();
        // SAFETY: the object lives.
        made(unsafe { flow_optimizer_gradient(self.0.0, &mut out) }, out)
    }

    /// All that it remembers from step to step, always in the same order.
    pub(crate) fn state(&self) -> Result<Vec<Tensor>, TchError> {
        let mut state = Vec::new();
        loop {
            let mut out = ptr::null_mut();
            // SAFETY: the object lives, and there is a place to write to; past the end it stays null.
            check(unsafe { flow_optimizer_state(self.0.0, state.len(), &mut out) })?;
            if out.is_null() {
                return Ok(state);
            }
            state.push(made(ptr::null_mut(), out)?);
        }
    }

    /// Sets the learning rate.
    pub(crate) fn set_rate(&mut self, rate: f64) -> Result<(), TchError> {
        // SAFETY: the object lives.
        check(unsafe { flow_optimizer_rate(self.0.0, rate) })
    }

    /// Changes the weights by the gathered gradients.
    pub(crate) fn update(&mut self) -> Result<(), TchError> {
        // SAFETY: the object lives.
        check(unsafe { flow_optimizer_update(self.0.0) })
    }
}

/// Copies batches to a GPU while it computes.
pub(crate) struct Feed(Handle);

impl Feed {
    pub(crate) fn new(index: c_int) -> Result<Self, TchError> {
        // SAFETY: a place to write to.
        Handle::new(flow_feed_free, |out| unsafe { flow_feed_new(index, out) }).map(Self)
    }

    /// Puts these tensors into those, in the order of the GPU's work. Waits if the GPU is two batches behind.
    pub(crate) fn put(&mut self, from: &[&Tensor], to: &[&Tensor]) -> Result<(), TchError> {
        debug_assert_eq!(from.len(), to.len());
        let (from, to) = (pointers(from), pointers(to));
        // SAFETY: the lists outlive the call and are of one length.
        check(unsafe { flow_feed_put(self.0.0, from.as_ptr(), to.as_ptr(), to.len().min(from.len())) })
    }
}

/// GPU work that was recorded once and is launched as one from then on.
pub(crate) struct Graph(Handle);

impl Graph {
    /// Records what `work` launches in the calling thread; none of it is done.
    pub(crate) fn record<E: From<TchError>>(index: c_int, work: impl FnOnce() -> Result<(), E>) -> Result<Self, E> {
        // SAFETY: a place to write to.
        let graph = Handle::new(flow_graph_free, |out| unsafe { flow_graph_begin(index, out) })?;
        let worked = work();
        // SAFETY: the object lives. It must end also when the work failed, whose error then says more.
        let ended = check(unsafe { flow_graph_end(graph.0) });
        worked?;
        ended?;
        Ok(Self(graph))
    }

    pub(crate) fn replay(&mut self) -> Result<(), TchError> {
        // SAFETY: the object lives.
        check(unsafe { flow_graph_replay(self.0.0) })
    }
}
