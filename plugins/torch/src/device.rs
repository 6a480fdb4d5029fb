//! Where a training runs, and on how many threads. Knows the placement, and nothing of networks.

use std::env;

use flow_plugin::Error;
use flow_plugin::protocol::Placement;
use tch::Device;

/// Chooses the device of a placement: its GPU, or the CPU where it has none. To be called before the first tensor.
pub(crate) fn choose(placement: &Placement) -> Result<Device, Error> {
    match placement.gpus.as_slice() {
        [] => Ok(Device::Cpu),
        [gpu] => {
            load_cuda().map_err(|error| Error::failed(format!("{}: {error}", gpu.name)))?;
            if !tch::Cuda::is_available() {
                let visible = env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
                return Err(Error::failed(format!("{}: CUDA finds no GPU (CUDA_VISIBLE_DEVICES={visible})", gpu.name)));
            }
            Ok(Device::Cuda(0))
        }
        gpus => Err(Error::failed(format!("{} GPUs: this plugin trains on one GPU; ask for `gpus: 1`", gpus.len()))),
    }
}

/// Loads the CUDA half of libtorch, which registers itself.
#[expect(
    unsafe_code,
    reason = "the program is linked with the CPU half alone, so that it starts where there is no CUDA"
)]
fn load_cuda() -> Result<(), String> {
    // SAFETY: a constant, terminated name; the library's constructors are made to run at any time before the first use.
    let handle = unsafe { libc::dlopen(c"libtorch_cuda.so".as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if !handle.is_null() {
        return Ok(());
    }
    // SAFETY: after a failed dlopen this is a terminated text, valid until the next call in this thread.
    let reason = unsafe { std::ffi::CStr::from_ptr(libc::dlerror()) }.to_string_lossy().into_owned();
    Err(format!(
        "the CUDA half of libtorch cannot be loaded ({reason}); it comes with PyTorch: pip install torch==2.11.0"
    ))
}

/// How the placement's CPUs are divided between the trainer and its loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Threads {
    /// Of libtorch.
    pub(crate) compute: usize,
    /// Of the loader.
    pub(crate) loader: usize,
    /// How many batches the loader runs ahead.
    pub(crate) ahead: usize,
}

impl Threads {
    /// On the CPU, trainer and loader take turns and each has all CPUs in its turn: never more threads run than CPUs are held,
    /// and neither idles while the other one is the bottleneck. Beside a GPU the loader runs ahead, on all CPUs but the one that
    /// feeds the GPU.
    pub(crate) fn divide(cpus: usize, device: Device) -> Self {
        match device {
            Device::Cpu => Self { compute: cpus, loader: cpus, ahead: 0 },
            _ => Self { compute: 1, loader: cpus.saturating_sub(1).max(1), ahead: 4 },
        }
    }
}
