//! The free GPUs of hypothetical nodes.

use flow_core::GpuId;

use crate::Cluster;

/// Which GPUs are free.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    free: Vec<Vec<GpuId>>,
    /// How many nodes have so many free.
    with: Vec<usize>,
    /// How many attempts hold each.
    holders: Vec<u32>,
    pub(crate) idle: u32,
    pub(crate) gpus: u32,
}

impl Nodes {
    pub(crate) fn new(cluster: Cluster) -> Nodes {
        let node = |n: u32| (0..cluster.gpus).rev().map(|gpu| GpuId(n * cluster.gpus + gpu)).collect();
        let mut with = vec![0; cluster.gpus as usize + 1];
        with[cluster.gpus as usize] = cluster.nodes as usize;
        Nodes {
            free: (0..cluster.nodes).map(node).collect(),
            with,
            holders: vec![0; cluster.total() as usize],
            idle: cluster.total(),
            gpus: cluster.total(),
        }
    }

    /// Most that one node has free.
    pub(crate) fn max_free(&self) -> u32 {
        self.with.iter().rposition(|&nodes| nodes > 0).unwrap_or(0) as u32
    }

    /// So many of one node: of the fullest that has them, so that wide jobs find one.
    pub(crate) fn take(&mut self, count: u32) -> Option<Vec<GpuId>> {
        let count = count as usize;
        if count == 0 {
            return Some(Vec::new());
        }
        let enough = self.free.iter_mut().filter(|free| free.len() >= count);
        let free = enough.min_by_key(|free| free.len())?;
        let mut gpus = free.split_off(free.len() - count);
        gpus.sort_unstable();
        self.with[free.len() + count] -= 1;
        self.with[free.len()] += 1;
        self.idle -= count as u32;
        Some(gpus)
    }

    /// One more attempt holds these.
    pub(crate) fn hold(&mut self, gpus: &[GpuId]) {
        gpus.iter().for_each(|gpu| self.holders[gpu.index()] += 1);
    }

    /// One attempt fewer does; the last one frees them.
    pub(crate) fn give_back(&mut self, gpus: &[GpuId]) {
        for &gpu in gpus {
            let holders = &mut self.holders[gpu.index()];
            *holders = holders.saturating_sub(1);
            if *holders == 0 {
                let free = &mut self.free[gpu.index() / (self.with.len() - 1)];
                self.with[free.len()] -= 1;
                free.push(gpu);
                self.with[free.len()] += 1;
                self.idle += 1;
            }
        }
    }
}
