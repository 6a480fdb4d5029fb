//! NVIDIA's management library: which cards there are, and how each stands at an instant. Knows no attempt and no scheduler.
//!
//! Every figure is optional: drivers lack calls, cards lack counters. A call can block for seconds on a sick card, so that nobody
//! but a thread of its own may ask; [`survey`] brings one.

mod library;
mod survey;

use serde::Serialize;

pub(crate) use library::{Handle, Library, Query};
pub use survey::{Card, Survey, survey};

/// The environment variable that names another library to load.
pub const LIBRARY_VAR: &str = "FLOW_NVML_LIB";

/// One card at one instant. `None` is what the driver does not tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Look {
    /// Memory of the card.
    pub memory: Option<Memory>,
    /// Share of time in which a kernel ran, 0 to 1, over the driver's last sample period.
    pub load: Option<f64>,
    /// Share of time in which device memory was read or written, 0 to 1.
    pub memory_load: Option<f64>,
    pub watts: Option<f64>,
    /// The card's energy counter.
    #[serde(skip)]
    pub joules: Option<f64>,
    /// PCIe generation and width in use. A card at rest lowers both.
    pub pcie: Option<(u32, u32)>,
    /// Processes with a compute context.
    pub processes: Option<Vec<Process>>,
}

/// Memory of a card, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    pub total: u64,
    /// In use, without what the driver keeps for itself where it tells that apart.
    pub used: u64,
    pub free: u64,
}

/// A process on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Its id as the driver tells it: in a container often that of the host, or none at all.
    pub pid: u32,
    /// Its memory, bytes.
    pub memory: Option<u64>,
}

/// The name of a process, where it can be read.
pub fn process_name(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).map_or_else(|_| "?".to_owned(), |name| name.trim().to_owned())
}
