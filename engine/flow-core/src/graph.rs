//! The graph of the steps: a deterministic order, or the cycles that forbid one. All algorithms are iterative, so that a
//! chain of a hundred thousand steps cannot overflow the stack.

use std::{cmp::Reverse, collections::BinaryHeap};

use petgraph::{
    Direction,
    algo::{astar, kosaraju_scc},
    graph::{DiGraph, NodeIndex},
    visit::Reversed,
};

/// A cycle as text; a long one without its middle.
pub(crate) fn around(names: &[&str]) -> String {
    const SHOWN: usize = 20;
    match names.len().saturating_sub(SHOWN) {
        0 => names.join(" → "),
        more => {
            let (first, last) = (names[..SHOWN / 2].join(" → "), names[names.len() - SHOWN / 2..].join(" → "));
            format!("{first} → … {more} more … → {last}")
        }
    }
}

/// Edges go from a needed step to the step that needs it, with the place of the need.
#[derive(Debug)]
pub(crate) struct StepGraph<E>(DiGraph<(), E>);

impl<E> StepGraph<E> {
    pub(crate) fn new(steps: usize) -> Self {
        let mut graph = DiGraph::with_capacity(steps, steps * 2);
        for _ in 0..steps {
            graph.add_node(());
        }
        StepGraph(graph)
    }

    /// `after` needs `before`.
    pub(crate) fn needs(&mut self, after: usize, before: usize, why: E) {
        self.0.add_edge(NodeIndex::new(before), NodeIndex::new(after), why);
    }

    /// All steps, each after its needs; of several possible next steps, the first in the file. Shorter than the number
    /// of steps if and only if there is a cycle.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut waiting: Vec<usize> =
            self.0.node_indices().map(|n| self.0.edges_directed(n, Direction::Incoming).count()).collect();
        let mut ready: BinaryHeap<Reverse<usize>> =
            (0..waiting.len()).filter(|n| waiting[*n] == 0).map(Reverse).collect();
        let mut order = Vec::with_capacity(waiting.len());
        while let Some(Reverse(step)) = ready.pop() {
            order.push(step);
            for next in self.0.neighbors_directed(NodeIndex::new(step), Direction::Outgoing) {
                waiting[next.index()] -= 1;
                if waiting[next.index()] == 0 {
                    ready.push(Reverse(next.index()));
                }
            }
        }
        order
    }

    /// One cycle for each group of steps that need each other, a shortest one through its first step; each step needs
    /// the next. With the reason for the first of these needs.
    pub(crate) fn cycles(&self) -> Vec<(Vec<usize>, &E)> {
        let mut cycles = Vec::new();
        let mut groups = kosaraju_scc(&self.0);
        groups.iter_mut().for_each(|g| g.sort());
        groups.sort();
        for group in groups {
            let Some(&first) = group.first() else { continue };
            // Backwards along the edges, so that the cycle reads "needs".
            let is_last = |step| self.0.contains_edge(first, step);
            if group.len() == 1 && !is_last(first) {
                continue;
            }
            let Some((_, mut cycle)) = astar(Reversed(&self.0), first, is_last, |_| 1, |_| 0) else { continue };
            cycle.push(first);
            let edge = self.0.find_edge(cycle[1], cycle[0]).and_then(|e| self.0.edge_weight(e));
            if let Some(why) = edge {
                cycles.push((cycle.into_iter().map(NodeIndex::index).collect(), why));
            }
        }
        cycles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(steps: usize, edges: &[(usize, usize)]) -> StepGraph<usize> {
        let mut graph = StepGraph::new(steps);
        for (n, (after, before)) in edges.iter().enumerate() {
            graph.needs(*after, *before, n);
        }
        graph
    }

    #[test]
    fn orders_by_needs_then_by_file() {
        assert_eq!(graph(5, &[(0, 3), (1, 0), (4, 3)]).order(), [2, 3, 0, 1, 4]);
        assert_eq!(graph(3, &[]).order(), [0, 1, 2]);
    }

    #[test]
    fn shows_cycles_whole() {
        let cycles = |g: &StepGraph<usize>| g.cycles().into_iter().map(|(c, why)| (c, *why)).collect::<Vec<_>>();
        assert_eq!(cycles(&graph(4, &[(0, 1), (1, 2), (2, 0), (3, 0)])), [(vec![0, 1, 2, 0], 0)]);
        assert_eq!(cycles(&graph(2, &[(1, 1)])), [(vec![1, 1], 0)]);
        // The shorter of two cycles, and one per group.
        let two = graph(6, &[(0, 1), (1, 2), (2, 0), (0, 2), (4, 5), (5, 4)]);
        assert_eq!(cycles(&two), [(vec![0, 2, 0], 3), (vec![4, 5, 4], 4)]);
        assert!(cycles(&graph(3, &[(1, 0), (2, 1)])).is_empty());
    }

    #[test]
    fn a_long_chain_is_no_reason_to_overflow() {
        let edges: Vec<_> = (1..200_000).map(|n| (n, n - 1)).collect();
        assert_eq!(graph(200_000, &edges).order().len(), 200_000);
        let mut round = edges;
        round.push((0, 199_999));
        assert_eq!(graph(200_000, &round).cycles()[0].0.len(), 200_001);
    }
}
