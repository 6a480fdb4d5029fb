//! Outside measurements of an attempt.

use std::ops::Add;

use serde::{Deserialize, Serialize};

/// Measurements of an attempt by flow. Means cover the counted epochs, or the whole attempt if there are none. `None`
/// means not measured; a 0 was measured. JSON omits `None`, so expressions see it as undefined.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Wall time from start to exit, seconds.
    pub wall_s: Option<f64>,
    /// CPU time of the whole process tree, user and system, seconds.
    pub cpu_s: Option<f64>,
    /// Mean CPU use as a share of the whole host, 0 to 1.
    pub cpu_util: Option<f64>,
    pub cpu_util_peak: Option<f64>,
    /// Mean CPU use in cores.
    pub cpu_cores: Option<f64>,
    /// Peak of the summed resident sets, bytes.
    pub rss_peak: Option<u64>,
    /// Bytes read from storage.
    pub disk_read: Option<u64>,
    /// Bytes written to storage.
    pub disk_written: Option<u64>,
    /// One entry for each sampled GPU of the placement, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuUsage>,
    /// Energy of the GPUs of the placement, joules.
    pub energy_j: Option<f64>,
    /// Number of samples of `/proc` behind these values.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub samples: u32,
    /// Share of one core used for measuring everything that ran at the time.
    pub sampler_cpu: Option<f64>,
    /// Number of processes that still ran at its end and were killed then.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub swept: u32,
    /// The parts of its wall time, if it reported epochs.
    pub phases: Option<Phases>,
    /// Usage of the interrupted attempts before it resumed; the totals and peaks above include it.
    pub earlier: Option<EarlierUsage>,
}

/// Usage of interrupted attempts, from whose checkpoint another one resumed.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EarlierUsage {
    pub jobs: u32,
    /// Number of attempts with unknown usage, because they were killed together with flow.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub unmeasured: u32,
    /// From start to exit, summed, seconds.
    pub wall_s: Option<f64>,
    pub cpu_s: Option<f64>,
    /// The maximum, bytes.
    pub rss_peak: Option<u64>,
    pub disk_read: Option<u64>,
    pub disk_written: Option<u64>,
    /// Only if the driver reported it for each of them.
    pub energy_j: Option<f64>,
    /// The maximum on each GPU of the placement, bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_memory_peak: Vec<Option<u64>>,
}

impl EarlierUsage {
    /// Adds an attempt, whose usage already includes the earlier ones.
    pub fn and(usage: &Usage) -> EarlierUsage {
        let earlier = usage.earlier.as_ref();
        EarlierUsage {
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
    /// Whether it resumed an attempt that was killed together with flow, whose usage is missing in the totals.
    pub fn lacks_a_part(&self) -> bool {
        self.earlier.as_ref().is_some_and(|earlier| earlier.unmeasured > 0)
    }

    /// Mean CPU use in cores: over the counted epochs, or else from start to exit.
    pub fn cores(&self) -> Option<f64> {
        self.cpu_cores.or_else(|| self.cores_of_whole())
    }

    pub(crate) fn cores_of_whole(&self) -> Option<f64> {
        let wall_s = self.wall_s.filter(|wall| *wall > 0.0)?;
        Some(self.cpu_s? / wall_s)
    }

    /// Totals of an attempt that resumes earlier ones, before its own samples are read.
    pub fn after(self, earlier: Option<EarlierUsage>) -> Usage {
        // Unmeasured attempts add nothing.
        let Some(before) = earlier.as_ref().filter(|earlier| earlier.jobs > earlier.unmeasured) else {
            return Usage { earlier, ..self };
        };
        Usage {
            wall_s: sum(self.wall_s, before.wall_s),
            cpu_s: sum(self.cpu_s, before.cpu_s),
            rss_peak: self.rss_peak.max(before.rss_peak),
            disk_read: sum(self.disk_read, before.disk_read),
            disk_written: sum(self.disk_written, before.disk_written),
            earlier,
            ..self
        }
    }
}

/// A sum is known only if both parts are.
fn sum<N: Add<Output = N>>(one: Option<N>, other: Option<N>) -> Option<N> {
    one.zip(other).map(|(one, other)| one + other)
}

/// The parts of the wall time of an attempt with epochs: `before_s + epochs × period_s + after_s`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    /// Start-up, seconds, including the extra time of the first epoch.
    pub before_s: f64,
    /// Number of reported epochs.
    pub epochs: u32,
    /// From the end of one epoch to the end of the next, seconds, including any time between them.
    pub period_s: f64,
    /// From the end of the last epoch, seconds.
    pub after_s: f64,
}

/// Measurements on one GPU of an attempt.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuUsage {
    pub uuid: String,
    /// Peak memory of the attempt's processes, bytes.
    pub memory_peak: Option<u64>,
    /// Mean memory, bytes.
    pub memory_mean: Option<u64>,
    /// The driver reports no memory per process: the GPU's memory minus that before the start.
    #[serde(default)]
    pub unverified: bool,
    /// Mean GPU load, 0 to 1: the share of time in which a kernel ran.
    pub load_mean: Option<f64>,
    /// The same from start to end, including the time before the first epoch and after the last.
    pub load_whole: Option<f64>,
    pub load_peak: Option<f64>,
    /// Share of time with GPU load above 90%.
    pub load_above_90: Option<f64>,
    /// Mean load of the memory controller, 0 to 1.
    pub memory_load_mean: Option<f64>,
    pub memory_load_peak: Option<f64>,
    /// Share of time with memory-controller load above 90%.
    pub memory_load_above_90: Option<f64>,
    /// Mean power, watts.
    pub power_mean: Option<f64>,
    /// PCIe generation and width in use under load.
    pub pcie: Option<(u32, u32)>,
}

impl GpuUsage {
    /// Mean GPU load over the counted epochs, or from start to end if these were too short for the driver.
    pub fn load(&self) -> Option<f64> {
        self.load_mean.or(self.load_whole)
    }

    /// Removes the means over epochs that were too short for the driver.
    pub(crate) fn forget_loads(&mut self) {
        (self.load_mean, self.load_above_90, self.memory_load_mean, self.memory_load_above_90) = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_of_several_attempts_is_known_if_each_part_is() {
        let own =
            Usage { wall_s: Some(2.0), cpu_s: Some(1.0), rss_peak: Some(7), disk_read: Some(1), ..Usage::default() };
        let after = |earlier| own.clone().after(Some(earlier));
        let before = EarlierUsage { jobs: 1, wall_s: Some(3.0), rss_peak: Some(9), ..EarlierUsage::default() };
        let both = after(before.clone());
        assert_eq!((both.wall_s, both.cpu_s, both.rss_peak, both.disk_read), (Some(5.0), None, Some(9), None));
        // It was killed together with flow: the totals lack its usage, and report that.
        let killed = after(EarlierUsage { jobs: 1, unmeasured: 1, ..EarlierUsage::default() });
        assert_eq!((killed.wall_s, killed.cpu_s, killed.lacks_a_part()), (Some(2.0), Some(1.0), true));
        let one_of_two = after(EarlierUsage { jobs: 2, unmeasured: 1, ..before });
        assert_eq!((one_of_two.wall_s, one_of_two.cpu_s), (Some(5.0), None));
    }

    #[test]
    fn what_is_not_known_is_not_written() {
        assert_eq!(serde_json::to_string(&Usage::default()).unwrap(), "{}");
        assert_eq!(serde_json::from_str::<Usage>("{}").unwrap(), Usage::default());
        let nothing = Usage { disk_written: Some(0), ..Usage::default() };
        assert_eq!(serde_json::to_string(&nothing).unwrap(), r#"{"disk_written":0}"#, "a measured 0 is one");
        assert_eq!(serde_json::from_str::<Usage>(r#"{"cpu_s": null}"#).unwrap(), Usage::default());
    }
}
