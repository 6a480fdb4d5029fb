//! NVIDIA's management library (NVML): the GPUs of this machine, and their present state. Knows no attempt and no
//! scheduler.
//!
//! Every figure is optional, because drivers lack calls and GPUs lack counters. A call can block for seconds on a
//! broken GPU, so it needs a thread of its own; [`survey`] has one.

mod library;
mod survey;

use serde::Serialize;

pub(crate) use library::{Handle, Library, Query};
pub use survey::{GpuSurvey, Survey, survey};

/// The environment variable that names the library to load instead of NVIDIA's.
pub const LIBRARY_VAR: &str = "FLOW_NVML_LIB";

/// The state of one GPU at one moment. `None` if the driver does not report a value.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Look {
    /// Memory of the GPU.
    pub memory: Option<Memory>,
    /// Share of time in which a kernel ran, 0 to 1, over the driver's last sample period.
    pub load: Option<f64>,
    /// Share of time in which device memory was read or written, 0 to 1 (memory-controller utilisation).
    pub memory_load: Option<f64>,
    pub watts: Option<f64>,
    /// The GPU's energy counter, joules.
    #[serde(skip)]
    pub joules: Option<f64>,
    /// Current PCIe generation and width. An idle GPU lowers both.
    pub pcie: Option<(u32, u32)>,
    /// Processes with a compute context.
    pub processes: Option<Vec<Process>>,
}

/// Memory of a GPU, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    pub total: u64,
    /// Used memory, without the driver's own if the driver reports that separately.
    pub used: u64,
    pub free: u64,
}

/// A process on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Its id as the driver reports it: in a container often the host's id, or none at all.
    pub pid: u32,
    /// Its memory, bytes.
    pub memory: Option<u64>,
}

/// The name of a process, if it is readable.
pub fn process_name(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).map_or_else(|_| "?".to_owned(), |name| name.trim().to_owned())
}
