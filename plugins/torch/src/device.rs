//! The devices of a training and its number of threads. Knows the placement, and nothing of networks.

use std::env;
use std::ffi::{CStr, c_int};

use bytesize::ByteSize;
use flow_plugin::protocol::Placement;
use flow_plugin::{Attempt, Error, Summary};
use tch::Device;

use crate::native::{self, Memory};
use crate::options::Precision;

/// The devices of an attempt.
pub(crate) struct Devices {
    /// The CPU, or GPUs.
    pub(crate) list: Vec<Device>,
    /// The memory limit for tensors on each GPU, if there is one.
    limit: Option<ByteSize>,
}

impl Devices {
    /// The GPUs of the placement, or the CPU where it has none. To be called before the first tensor.
    ///
    /// Tensors may take `limit` of each GPU, or what the placement has reserved there if that is less.
    pub(crate) fn choose(placement: &Placement, limit: Option<ByteSize>) -> Result<Self, Error> {
        let Some(gpu) = placement.gpus.first() else { return Ok(Self { list: vec![Device::Cpu], limit: None }) };
        let count = placement.gpus.len();
        start_cuda(count).map_err(|error| Error::failed(format!("{}: {error}", gpu.name)))?;
        let limits = limit.into_iter().chain(placement.gpu_memory.map(ByteSize::b));
        let totals = (0..count).map(|i| native::total_memory(i as c_int)).collect::<Result<Vec<_>, _>>()?;
        let largest = totals.into_iter().max().unwrap_or_default();
        let limit = limits.min().filter(|limit| (limit.0 as i64) < largest);
        if let Some(limit) = limit {
            native::limit_memory(limit.0 as f64 / largest as f64)?;
        }
        Ok(Self { list: (0..count).map(Device::Cuda).collect(), limit })
    }

    /// Whether they are GPUs.
    pub(crate) fn are_gpus(&self) -> bool {
        self.gpus() > 0
    }

    /// How many GPUs they are.
    pub(crate) fn gpus(&self) -> usize {
        self.list.iter().filter(|device| device.is_cuda()).count()
    }

    /// Facts for the circumstances of a result.
    pub(crate) fn facts(&self, placement: &Placement, precision: Precision) -> Vec<(&'static str, String)> {
        let device = placement.gpus.first().map_or("cpu".to_owned(), |gpu| gpu.name.clone());
        let mut facts =
            vec![("torch", TORCH.to_owned()), ("device", device), ("precision", precision.name().to_owned())];
        if self.are_gpus() {
            facts.push(("cuda", version(tch::utils::version_cudart())));
            let cudnn = tch::utils::version_cudnn();
            facts.push(("cudnn", format!("{}.{}.{}", cudnn / 10000, cudnn / 100 % 100, cudnn % 100)));
        }
        facts.extend(self.limit.map(|limit| ("memory_limit", limit.to_string())));
        facts
    }

    /// Reports the limit, and the peaks of the allocator of the GPU where they are highest, as values of a series if `number`
    /// says which.
    pub(crate) fn report_memory(&self, attempt: &Attempt, number: Option<u32>) -> Result<(), Error> {
        let of = |device: &Device| native::index(*device).map(Memory::of);
        let memory = self.list.iter().filter_map(of).collect::<Result<Vec<_>, _>>()?;
        let most = |peak: fn(&Memory) -> i64| memory.iter().map(peak).max();
        let limit = self.limit.map(|limit| limit.0 as i64);
        for (name, bytes) in [
            ("max_memory_allocated", most(|memory| memory.allocated)),
            ("max_memory_reserved", most(|memory| memory.reserved)),
            ("memory_limit", limit),
        ] {
            match (bytes, number) {
                (Some(bytes), Some(number)) => attempt.epoch_metric(name, bytes as f64, "bytes", number, Summary::Last),
                (Some(bytes), None) => attempt.metric(name, bytes as f64, "bytes"),
                (None, _) => {}
            }
        }
        Ok(())
    }
}

/// The version of libtorch that the program was built for.
const TORCH: &str = "2.11.0";

/// The command that prepares libtorch for this machine.
const SETUP: &str = concat!("python3 ", env!("CARGO_MANIFEST_DIR"), "/setup.py");

/// A version as CUDA counts: 13000 is 13.0.
fn version(number: i64) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

/// Makes CUDA ready, or says why it cannot be.
fn start_cuda(wanted: usize) -> Result<(), String> {
    let visible = env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
    let driver = Driver::load()?;
    match driver.init() {
        0 => {}
        100 => {
            return Err(format!(
                "the NVIDIA driver finds no GPU (CUDA_VISIBLE_DEVICES={visible}); nvidia-smi lists what it sees. \
                 On the CPU: `gpus: 0`"
            ));
        }
        101 => return Err(format!("CUDA_VISIBLE_DEVICES={visible} names a GPU twice, or one that is not there")),
        803 => {
            return Err("the NVIDIA driver was updated and its kernel module was not; restart the machine".to_owned());
        }
        error => {
            return Err(format!("the NVIDIA driver does not start (cuInit: error {error}); nvidia-smi may say why"));
        }
    }
    load_cuda()?;
    let (has, needs) = (driver.version(), tch::utils::version_cudart());
    if has / 1000 < needs / 1000 {
        return Err(format!(
            "the NVIDIA driver is for CUDA {} and libtorch for CUDA {}: update the driver, or install PyTorch {TORCH} for CUDA {} \
             and run {SETUP}",
            version(has),
            version(needs),
            version(has)
        ));
    }
    let found = tch::Cuda::device_count();
    if found < wanted as i64 {
        return Err(format!(
            "CUDA finds {found} of {wanted} GPUs (CUDA_VISIBLE_DEVICES={visible}); has one been lost?"
        ));
    }
    Ok(())
}

/// NVIDIA's driver, asked before libtorch: its own words tell more.
struct Driver {
    init: unsafe extern "C" fn(u32) -> c_int,
    version: unsafe extern "C" fn(*mut c_int) -> c_int,
}

#[expect(unsafe_code, reason = "the driver is there at run time or not")]
impl Driver {
    fn load() -> Result<Self, String> {
        let library = open(c"libcuda.so.1").map_err(|error| {
            format!("there is no NVIDIA driver here ({error}): install it, or train on the CPU with `gpus: 0`")
        })?;
        // SAFETY: a library that is open and never closed, and names that it has had in every version, with these types.
        unsafe {
            let (init, version) =
                (libc::dlsym(library, c"cuInit".as_ptr()), libc::dlsym(library, c"cuDriverGetVersion".as_ptr()));
            if init.is_null() || version.is_null() {
                return Err("libcuda.so.1 is no NVIDIA driver".to_owned());
            }
            Ok(Self {
                init: std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(u32) -> c_int>(init),
                version: std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(*mut c_int) -> c_int>(version),
            })
        }
    }

    fn init(&self) -> c_int {
        // SAFETY: takes flags, of which there are none.
        unsafe { (self.init)(0) }
    }

    fn version(&self) -> i64 {
        let mut version = 0;
        // SAFETY: a place to write to.
        unsafe { (self.version)(&mut version) };
        i64::from(version)
    }
}

/// Loads the CUDA half of libtorch, which registers itself.
fn load_cuda() -> Result<(), String> {
    open(c"libtorch_cuda.so")
        .map(drop)
        .map_err(|error| format!("the CUDA half of libtorch cannot be loaded ({error}); get it: {SETUP}"))
}

#[expect(
    unsafe_code,
    reason = "the program is linked with the CPU half alone, so that it starts where there is no CUDA"
)]
fn open(name: &CStr) -> Result<*mut libc::c_void, String> {
    // SAFETY: a terminated name; these libraries' constructors are made to run at any time before the first use.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if !handle.is_null() {
        return Ok(handle);
    }
    // SAFETY: after a failed dlopen this is a terminated text, valid until the next call in this thread.
    Err(unsafe { CStr::from_ptr(libc::dlerror()) }.to_string_lossy().into_owned())
}

/// How the placement's CPUs are divided between the trainer and its loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Threads {
    pub(crate) compute: usize,
    pub(crate) loader: usize,
    /// How many batches the loader runs ahead.
    pub(crate) ahead: usize,
}

impl Threads {
    /// On the CPU, trainer and loader take turns, each on all CPUs. So there are never more running threads than CPUs,
    /// and neither idles while the other is the bottleneck. With GPUs the loader runs ahead on all CPUs, far enough
    /// that small batches keep all its threads busy. Launching a recorded step takes almost no CPU.
    pub(crate) fn divide(cpus: usize, gpus: bool, batch: usize) -> Self {
        if !gpus {
            return Self { compute: cpus, loader: cpus, ahead: 0 };
        }
        Self { compute: 1, loader: cpus, ahead: (4 * cpus / batch.max(1)).max(4) }
    }
}
