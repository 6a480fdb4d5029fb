//! What flow measured of an attempt from outside.

use serde::{Deserialize, Serialize};

/// What flow itself measured of an attempt. Means cover the epochs that count, or the whole attempt if it has none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Wall time from start to exit, seconds.
    pub wall_s: f64,
    /// CPU time of the whole process tree, user and system, seconds.
    pub cpu_s: f64,
    /// Mean CPU use as a share of the whole host, 0 to 1.
    pub cpu_util: f64,
    pub cpu_util_peak: f64,
    /// Mean CPU use in cores.
    pub cpu_cores: f64,
    /// Peak of the summed resident sets, bytes.
    pub rss_peak: u64,
    /// Bytes read from storage.
    pub disk_read: u64,
    /// Bytes written to storage.
    pub disk_written: u64,
    /// One entry a GPU of the placement, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuUsage>,
    /// Energy of the GPUs of the placement, joules, where the driver tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
    /// How many samples of `/proc` this rests on.
    pub samples: u32,
    /// What measuring all that ran at the time took, as a share of one core.
    #[serde(default)]
    pub sampler_cpu: f64,
    /// How many processes it left running when it ended, which were ended then.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub swept: u32,
    /// What its wall time is made of, where it told its epochs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<Phases>,
    /// What it used before it went on, in attempts that were ended in the middle: in the totals and peaks above already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Earlier>,
}

/// What attempts used that were ended in the middle, and from whose checkpoint another one went on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Earlier {
    pub jobs: u32,
    /// Of how many of them it is not known what they used, for they were killed together with flow.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub unmeasured: u32,
    /// From start to exit of each, seconds.
    pub wall_s: f64,
    pub cpu_s: f64,
    /// The highest, bytes.
    pub rss_peak: u64,
    pub disk_read: u64,
    pub disk_written: u64,
    /// Where the driver told it of every one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
    /// The highest on each GPU of the placement, bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_memory_peak: Vec<u64>,
}

impl Earlier {
    /// With one more, whose usage has that of those before it in it.
    pub fn and(usage: &Usage) -> Earlier {
        let earlier = usage.earlier.as_ref();
        Earlier {
            jobs: earlier.map_or(0, |earlier| earlier.jobs) + 1,
            unmeasured: earlier.map_or(0, |earlier| earlier.unmeasured),
            wall_s: usage.wall_s,
            cpu_s: usage.cpu_s,
            rss_peak: usage.rss_peak,
            disk_read: usage.disk_read,
            disk_written: usage.disk_written,
            energy_j: usage.energy_j,
            gpu_memory_peak: usage.gpus.iter().map(|gpu| gpu.memory_peak).collect(),
        }
    }
}

impl Usage {
    /// It went on from an attempt that was killed together with flow: what that took is in no total.
    pub fn lacks_a_part(&self) -> bool {
        self.earlier.as_ref().is_some_and(|earlier| earlier.unmeasured > 0)
    }

    /// Totals of a job that goes on from these, before its own samples are looked at.
    pub fn after(self, earlier: Option<Earlier>) -> Usage {
        let Some(before) = &earlier else { return self };
        Usage {
            wall_s: self.wall_s + before.wall_s,
            cpu_s: self.cpu_s + before.cpu_s,
            rss_peak: self.rss_peak.max(before.rss_peak),
            earlier,
            ..self
        }
    }
}

/// What the wall time of an attempt with epochs is made of: `before_s + epochs × period_s + after_s`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    /// Start-up, seconds, with what the first epoch took longer than the others.
    pub before_s: f64,
    /// Epochs that it told.
    pub epochs: u32,
    /// From the end of one epoch to the end of the next, seconds; with what comes between them.
    pub period_s: f64,
    /// From the end of the last epoch, seconds.
    pub after_s: f64,
}

/// What flow measured on one GPU of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuUsage {
    pub uuid: String,
    /// Peak memory of the attempt's processes, bytes.
    pub memory_peak: u64,
    /// Mean memory, bytes.
    pub memory_mean: u64,
    /// Per-process figures were not to be had: the card against its state before the start.
    #[serde(default)]
    pub unverified: bool,
    /// Mean GPU load, 0 to 1: the share of time in which a kernel ran.
    pub load_mean: f64,
    /// The same from start to end, whatever counts: also what comes before the first epoch and after the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_whole: Option<f64>,
    pub load_peak: f64,
    /// Share of time with GPU load above 90 %.
    pub load_above_90: f64,
    /// Mean load of the memory controller, 0 to 1.
    pub memory_load_mean: f64,
    pub memory_load_peak: f64,
    /// Share of time with memory-controller load above 90 %.
    pub memory_load_above_90: f64,
    /// Mean power, watts, where the driver tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_mean: Option<f64>,
    /// PCIe generation and width in use under load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie: Option<(u32, u32)>,
}
