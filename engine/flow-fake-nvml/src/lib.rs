//! A fake of NVIDIA's management library for tests. A text file describes GPUs, memory, processes and losses. Each call
//! reads it again. Knows nothing of flow.
//!
//! The variable `FAKE_NVML` names the file:
//!
//! ```text
//! driver 580.95.05                     or: init 9, the code that the start of the library returns
//! gpu NVIDIA TITAN Xp; memory=12196MiB; used=10MiB; load=37; memory_load=12; power=120
//! gpu NVIDIA H200; memory=143771MiB; lost
//! process 0 pid=4711 memory=1GiB sm=30
//! missing nvmlDeviceGetMemoryInfo_v2
//! ```
//!
//! A `process` names its GPU by index or UUID. It exists while a process with that id is alive, and its memory counts as
//! used. A `missing` call is one that the driver does not have. More keys of a GPU: `uuid=`, `reserved=`, `pcie=3x16`, `mig`,
//! `energy=no` (no energy counter), `hang=5000` (a query of memory takes that many milliseconds). A process with `graphics`
//! draws; one with `desktop` draws and computes.

mod abi;
mod state;

/// The variable that names the file.
pub const STATE_VAR: &str = "FAKE_NVML";
