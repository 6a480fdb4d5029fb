//! What flow measured of an attempt from outside.

use std::ops::Add;

use serde::{Deserialize, Serialize};

/// What flow itself measured of an attempt. Means cover the epochs that count, or the whole attempt if it has none. `None` means that
/// nobody measured it: a 0 is always a measured one. JSON leaves it out, so expressions see it as undefined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Wall time from start to exit, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_s: Option<f64>,
    /// CPU time of the whole process tree, user and system, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// Mean CPU use as a share of the whole host, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_util: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_util_peak: Option<f64>,
    /// Mean CPU use in cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_cores: Option<f64>,
    /// Peak of the summed resident sets, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_peak: Option<u64>,
    /// Bytes read from storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_read: Option<u64>,
    /// Bytes written to storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_written: Option<u64>,
    /// One entry for each GPU of the placement that was looked at, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuUsage>,
    /// Energy of the GPUs of the placement, joules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
    /// Number of samples of `/proc` behind these values.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub samples: u32,
    /// The share of one core that measuring took, for everything that ran at the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampler_cpu: Option<f64>,
    /// How many processes it left running when it ended, which were ended then.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub swept: u32,
    /// What its wall time is made of, where it told its epochs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phases: Option<Phases>,
    /// What it used before it went on, in attempts that were ended in the middle: in the totals and peaks above already.
    #[serde(skip_serializing_if = "Option::is_none")]
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// The highest, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_peak: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_read: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_written: Option<u64>,
    /// Where the driver told it of every one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
    /// The highest on each GPU of the placement, bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_memory_peak: Vec<Option<u64>>,
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

    /// Mean CPU use in cores: over the epochs that count, or else from start to exit.
    pub fn cores(&self) -> Option<f64> {
        self.cpu_cores.or_else(|| self.cores_of_whole())
    }

    pub(crate) fn cores_of_whole(&self) -> Option<f64> {
        let wall_s = self.wall_s.filter(|wall| *wall > 0.0)?;
        Some(self.cpu_s? / wall_s)
    }

    /// Totals of a job that goes on from these, before its own samples are looked at.
    pub fn after(self, earlier: Option<Earlier>) -> Usage {
        // Attempts that nobody measured add nothing.
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

/// A sum is known if both parts are.
fn sum<N: Add<Output = N>>(one: Option<N>, other: Option<N>) -> Option<N> {
    one.zip(other).map(|(one, other)| one + other)
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_peak: Option<u64>,
    /// Mean memory, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mean: Option<u64>,
    /// Per-process figures were not to be had: the card against its state before the start.
    #[serde(default)]
    pub unverified: bool,
    /// Mean GPU load, 0 to 1: the share of time in which a kernel ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_mean: Option<f64>,
    /// The same from start to end, whatever counts: also what comes before the first epoch and after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_whole: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_peak: Option<f64>,
    /// Share of time with GPU load above 90 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_above_90: Option<f64>,
    /// Mean load of the memory controller, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_load_mean: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_load_peak: Option<f64>,
    /// Share of time with memory-controller load above 90 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_load_above_90: Option<f64>,
    /// Mean power, watts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_mean: Option<f64>,
    /// PCIe generation and width in use under load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie: Option<(u32, u32)>,
}

impl GpuUsage {
    /// Mean GPU load over the epochs that count, or from start to end if these are too short to tell.
    pub fn load(&self) -> Option<f64> {
        self.load_mean.or(self.load_whole)
    }

    /// Forgets the means over epochs that were too short for the driver to tell.
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
        let before = Earlier { jobs: 1, wall_s: Some(3.0), rss_peak: Some(9), ..Earlier::default() };
        let both = after(before.clone());
        assert_eq!((both.wall_s, both.cpu_s, both.rss_peak, both.disk_read), (Some(5.0), None, Some(9), None));
        // It was killed together with flow: the totals are those of the rest, and say that a part is missing.
        let killed = after(Earlier { jobs: 1, unmeasured: 1, ..Earlier::default() });
        assert_eq!((killed.wall_s, killed.cpu_s, killed.lacks_a_part()), (Some(2.0), Some(1.0), true));
        let one_of_two = after(Earlier { jobs: 2, unmeasured: 1, ..before });
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
