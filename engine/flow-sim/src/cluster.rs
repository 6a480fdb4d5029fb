//! A hypothetical cluster of nodes with GPUs.

use flow_core::reason::BuiltinFault;
use flow_core::sched::{Capacity, GpuState};

/// Nodes with equally many GPUs each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    pub nodes: u32,
    pub gpus: u32,
}

impl Cluster {
    /// Most GPUs that make sense to simulate.
    const MOST: u32 = 100_000;

    /// Reads `NODESxGPUS`, as `8x8`; a bare number is one node.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(text: &str) -> Result<Cluster, BuiltinFault> {
        let (nodes, gpus) = text.split_once(['x', '×']).unwrap_or(("1", text));
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|n| (1..=Self::MOST).contains(n));
        match (number(nodes), number(gpus)) {
            (Some(nodes), Some(gpus)) if nodes.saturating_mul(gpus) <= Self::MOST => Ok(Cluster { nodes, gpus }),
            _ => Err(BuiltinFault::NotACluster { text: text.to_owned(), most: Self::MOST }),
        }
    }

    pub fn total(self) -> u32 {
        self.nodes * self.gpus
    }

    /// The capacity of the cluster: only GPUs are limited.
    pub fn capacity(self) -> Capacity {
        let gpu = GpuState { memory: 1 << 40, foreign: 0, alive: true };
        Capacity { gpus: vec![gpu; self.total() as usize], cpus: u32::MAX, memory: u64::MAX, jobs: None, batch: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_nodes_times_gpus() {
        assert_eq!(Cluster::parse("8x4"), Ok(Cluster { nodes: 8, gpus: 4 }));
        assert_eq!(Cluster::parse("3"), Ok(Cluster { nodes: 1, gpus: 3 }));
        for wrong in ["", "x", "0x8", "8x0", "8x8x8", "-1x8", "99999x99999", "8 of 8"] {
            let error = Cluster::parse(wrong).unwrap_err();
            assert!(error.to_string().contains("expected NODESxGPUS"), "{error}");
        }
    }
}
