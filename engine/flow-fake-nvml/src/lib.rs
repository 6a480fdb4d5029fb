//! A stand-in for NVIDIA's management library, for tests: cards, memory, processes and losses as a text file tells them, which is
//! read again at each call. Knows nothing of flow.
//!
//! The file is named by `FAKE_NVML`:
//!
//! ```text
//! driver 580.95.05                     or: init 9, the code that the start of the library returns
//! gpu NVIDIA TITAN Xp; memory=12196MiB; used=10MiB; load=37; memory_load=12; power=120
//! gpu NVIDIA H200; memory=143771MiB; lost
//! process 0 pid=4711 memory=1GiB sm=30
//! missing nvmlDeviceGetMemoryInfo_v2
//! ```
//!
//! A `process` names its card by index or UUID and is there while a process of that id is alive; its memory counts as used.
//! A `missing` call is one that the driver does not have. More of a card: `uuid=`, `reserved=`, `pcie=3x16`, `mig`, `energy=no`
//! (no energy counter), `hang=5000` (milliseconds that a question about memory takes). A process with `graphics` draws, one with
//! `desktop` draws and computes.

mod abi;
mod state;

/// The variable that names the file.
pub const STATE_VAR: &str = "FAKE_NVML";
