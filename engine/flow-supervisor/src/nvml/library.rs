//! The calls of the library, one function each. The only file that uses the wrapper; reports why it cannot be used.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    mem::{ManuallyDrop, MaybeUninit},
};

use flow_core::{GpuFacts, reason::GpuFault};
use nvml_wrapper::{
    Device, Nvml,
    enums::device::UsedGpuMemory,
    error::{NvmlError, nvml_try},
};

use super::{LIBRARY_VAR, Look, Memory, Process};

/// The loaded library. Never shut down while the process lives, because GPUs that nothing else keeps awake would fall
/// asleep between two queries. The wrapper also panics on drop if the library lacks that call.
pub(crate) struct Library(ManuallyDrop<Nvml>);

/// Why the library is unavailable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NvmlUnavailable {
    /// It does not exist: no NVIDIA driver is installed.
    Absent,
    /// It exists and cannot be used.
    Trouble(GpuFault),
}

impl NvmlUnavailable {
    pub(crate) fn words(&self) -> String {
        match self {
            NvmlUnavailable::Absent => "there is no NVIDIA driver (libnvidia-ml.so.1) on this machine".to_owned(),
            NvmlUnavailable::Trouble(fault) => fault.to_string(),
        }
    }
}

/// A GPU no longer answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GpuLost;

/// Optional queries besides the load. Each is a call and takes time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Query {
    pub(crate) memory: bool,
    pub(crate) energy: bool,
    pub(crate) link: bool,
}

impl Library {
    /// Loads and starts the library: NVIDIA's own, or the one named by `FLOW_NVML_LIB`.
    pub(crate) fn open() -> Result<Library, NvmlUnavailable> {
        let named: Option<OsString> = env::var_os(LIBRARY_VAR).filter(|name| !name.is_empty());
        let opened = match &named {
            Some(name) => Nvml::builder().lib_path(name).init(),
            None => Nvml::init(),
        };
        opened.map(|nvml| Library(ManuallyDrop::new(nvml))).map_err(|error| closed(&error, named.as_deref()))
    }

    pub(crate) fn driver(&self) -> Option<String> {
        self.0.sys_driver_version().ok()
    }

    /// The newest CUDA version that this driver supports, such as `13.0`.
    pub(crate) fn cuda(&self) -> Option<String> {
        let version = self.0.sys_cuda_driver_version().ok()?;
        Some(format!("{}.{}", version / 1000, version % 1000 / 10))
    }

    pub(crate) fn count(&self) -> Result<u32, String> {
        self.0.device_count().map_err(|error| error.to_string())
    }

    /// The GPU with an index.
    pub(crate) fn gpu(&self, index: u32) -> Result<Handle<'_>, GpuFault> {
        match self.0.device_by_index(index) {
            Ok(device) => Ok(Handle { library: self, device, index }),
            Err(error) => Err(no_answer(index, &error)),
        }
    }
}

/// A GPU that can be queried.
pub(crate) struct Handle<'a> {
    library: &'a Library,
    device: Device<'a>,
    index: u32,
}

impl Handle<'_> {
    /// The constant facts about this GPU.
    ///
    /// # Errors
    /// The reason why it cannot be used.
    pub(crate) fn facts(&self) -> Result<GpuFacts, GpuFault> {
        let answered = |error| no_answer(self.index, &error);
        let name = self.device.name().map_err(answered)?;
        let uuid = self.device.uuid().map_err(answered)?;
        let memory = self.memory().map_err(answered)?.total;
        Ok(GpuFacts { uuid, index: self.index, name, memory })
    }

    /// True if the GPU is partitioned (MIG). flow does not allocate partitions.
    pub(crate) fn is_divided(&self) -> bool {
        self.device.mig_mode().is_ok_and(|mode| mode.current == 1)
    }

    /// The maximum PCIe generation and width of GPU and slot together.
    pub(crate) fn max_link(&self) -> Option<(u32, u32)> {
        Some((self.device.max_pcie_link_gen().ok()?, self.device.max_pcie_link_width().ok()?))
    }

    /// The present state of the GPU.
    ///
    /// # Errors
    /// It no longer answers. A call that is missing, or not supported by this GPU, is not an error.
    pub(crate) fn look(&self, ask: Query) -> Result<Look, GpuLost> {
        let load = optional(self.device.utilization_rates())?;
        let memory = if ask.memory { optional(self.memory())? } else { None };
        let joules = if ask.energy { optional(self.device.total_energy_consumption())? } else { None };
        // The energy counter is slow (4.4 ms on an H200, a hundred times as long as power), so most looks read power.
        let watts = optional(self.device.power_usage())?;
        let pcie = if ask.link {
            optional(self.device.current_pcie_link_gen())?.zip(optional(self.device.current_pcie_link_width())?)
        } else {
            None
        };
        Ok(Look {
            memory,
            load: load.as_ref().map(|load| share(load.gpu)),
            memory_load: load.as_ref().map(|load| share(load.memory)),
            watts: watts.map(|milliwatts| f64::from(milliwatts) / 1e3),
            joules: joules.map(|millijoules| millijoules as f64 / 1e3),
            pcie,
            processes: None,
        })
    }

    /// Processes with a compute context; `None` if the driver does not report them.
    ///
    /// # Errors
    /// The GPU no longer answers.
    pub(crate) fn processes(&self, memory: Option<Memory>) -> Result<Option<Vec<Process>>, GpuLost> {
        optional(self.computing(memory))
    }

    /// Processes that use this GPU for graphics, such as a desktop.
    pub(crate) fn drawing(&self) -> Vec<u32> {
        self.device
            .running_graphics_processes()
            .map_or_else(|_| Vec::new(), |list| list.iter().map(|p| p.pid).collect())
    }

    /// The share of multiprocessors (0 to 1) that each process used since `since`, and the value for the next call.
    /// Empty if no process computed, or if the driver does not report shares.
    pub(crate) fn shares(&self, since: u64) -> (Vec<(u32, f64)>, u64) {
        // The driver answers `NotFound` if no process computed.
        let Ok(list) = self.device.process_utilization_stats(since) else { return (Vec::new(), since) };
        let last = list.iter().map(|sample| sample.timestamp).max().unwrap_or(since);
        let mut by_process: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for sample in list.iter().filter(|sample| sample.timestamp > since) {
            let (sum, count) = by_process.entry(sample.pid).or_default();
            (*sum, *count) = (*sum + share(sample.sm_util), *count + 1.0);
        }
        (by_process.into_iter().map(|(pid, (sum, count))| (pid, sum / count)).collect(), last.max(since))
    }

    fn memory(&self) -> Result<Memory, NvmlError> {
        match self.device.memory_info() {
            Ok(info) => Ok(Memory { total: info.total, used: info.used, free: info.free }),
            Err(error) if is_absent(&error) => self.memory_before_510(),
            Err(error) => Err(error),
        }
    }

    /// The call of drivers before 510, which the wrapper lacks.
    #[expect(unsafe_code, reason = "a call of the library that the wrapper only loads")]
    fn memory_before_510(&self) -> Result<Memory, NvmlError> {
        let call = self.library.0.lib().nvmlDeviceGetMemoryInfo.as_ref();
        let call = call.map_err(|error| NvmlError::FailedToLoadSymbol(error.to_string()))?;
        let mut info = MaybeUninit::zeroed();
        // SAFETY: the handle lives as long as its library, and all-zero bits are a valid value, which a success
        // replaces.
        let info = unsafe {
            nvml_try(call(self.device.handle(), info.as_mut_ptr()))?;
            info.assume_init()
        };
        Ok(Memory { total: info.total, used: info.used, free: info.free })
    }

    fn computing(&self, memory: Option<Memory>) -> Result<Vec<Process>, NvmlError> {
        let mut list = match self.device.running_compute_processes() {
            Err(error) if is_absent(&error) => self.device.running_compute_processes_v2()?,
            list => list?,
        };
        // Clients of a shared CUDA server (MPS) have a list of their own.
        list.extend(self.device.mps_running_compute_processes().unwrap_or_default());
        list.sort_by_key(|process| process.pid);
        list.dedup_by_key(|process| process.pid);
        let total = memory.map_or(u64::MAX, |memory| memory.total);
        let process = |info: nvml_wrapper::struct_wrappers::device::ProcessInfo| Process {
            pid: info.pid,
            // Some drivers report nonsense.
            memory: match info.used_gpu_memory {
                UsedGpuMemory::Used(bytes) if bytes > 0 && bytes <= total => Some(bytes),
                UsedGpuMemory::Used(_) | UsedGpuMemory::Unavailable => None,
            },
        };
        Ok(list.into_iter().map(process).collect())
    }
}

fn share(percent: u32) -> f64 {
    f64::from(percent.min(100)) / 100.0
}

/// A missing or unsupported call returns nothing; a GPU that fell off the bus is lost.
fn optional<T>(answer: Result<T, NvmlError>) -> Result<Option<T>, GpuLost> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(NvmlError::GpuLost | NvmlError::ResetRequired) => Err(GpuLost),
        Err(_) => Ok(None),
    }
}

fn is_absent(error: &NvmlError) -> bool {
    matches!(error, NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound)
}

fn no_answer(gpu: u32, error: &NvmlError) -> GpuFault {
    match error {
        NvmlError::GpuLost | NvmlError::ResetRequired => GpuFault::GpuOffTheBus { gpu },
        NvmlError::NoPermission => GpuFault::GpuForbidden { gpu },
        error => GpuFault::GpuUnknown { gpu, message: error.to_string() },
    }
}

fn closed(error: &NvmlError, named: Option<&OsStr>) -> NvmlUnavailable {
    NvmlUnavailable::Trouble(match (error, named) {
        (NvmlError::LibloadingError(_), None) => return NvmlUnavailable::Absent,
        (NvmlError::LibloadingError(error), Some(named)) => GpuFault::LibraryNotLoaded {
            variable: LIBRARY_VAR.to_owned(),
            path: named.to_string_lossy().into_owned(),
            message: chain(error),
        },
        (NvmlError::DriverNotLoaded, _) => GpuFault::DriverNotLoaded,
        (NvmlError::LibRmVersionMismatch, _) => GpuFault::DriverOfOtherVersion,
        (NvmlError::NoPermission, _) => GpuFault::DriverForbidden,
        (error, _) => GpuFault::LibraryNotStarted { message: error.to_string() },
    })
}

fn chain(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(Some(error), |error| error.source());
    sources.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
