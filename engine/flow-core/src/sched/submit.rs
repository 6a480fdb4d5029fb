//! Arrivals: tasks become nodes, linked to their needs. Tasks whose needs cannot succeed are settled at once.

use super::api::{Action, Task};
use super::demand::Demand;
use super::state::{Core, EndReason, Node, TaskState};
use crate::InstanceId;

impl Core {
    pub(super) fn submitted(&mut self, tasks: Vec<Task>, out: &mut Vec<Action>) {
        let first = self.nodes.len();
        self.nodes.reserve(tasks.len());
        for task in tasks {
            let id = InstanceId(self.nodes.len() as u32);
            if task.instance != id || task.needs.iter().any(|need| need.on >= id) {
                self.faults.push(format!("task {} is out of order", task.instance.0));
                break;
            }
            let gang = self.join_group(&task);
            self.unsettled += 1;
            self.nodes.push(Node { demand: Demand::of(&task, &self.limits.sharing), task, gang, ..Node::default() });
        }
        self.finished = false;
        let new: Vec<InstanceId> = (first..self.nodes.len()).map(|i| InstanceId(i as u32)).collect();
        for &id in &new {
            if let Some(outcome) = self.node(id).task.settled {
                let fine = self.node(id).is_fine(outcome);
                self.set(id, TaskState::Settled { outcome, fine, because: None });
            }
        }
        let mut blocked = Vec::new();
        for &id in &new {
            if self.node(id).state == TaskState::Pending {
                blocked.extend(self.link(id).map(|because| (id, because)));
            }
        }
        for &id in &new {
            let node = self.node(id);
            if node.state == TaskState::Pending && node.gang == id && node.open == 0 {
                self.to_look_up.push(id);
            }
        }
        for (id, because) in blocked {
            if self.node(id).state == TaskState::Pending {
                let skipped = self.block(id, because, out);
                skipped.into_iter().for_each(|id| self.notify_dependents(id, out));
            }
        }
        self.give_up_broken_groups(first, out);
        for &id in &new {
            self.end_after_failure(id, out);
        }
        if self.ending != EndReason::No {
            self.end_all(false, out);
        }
    }

    /// Links an arriving instance to its needs. Returns the failed instance if a need can never succeed.
    fn link(&mut self, id: InstanceId) -> Option<InstanceId> {
        let mut because = None;
        for need in self.node(id).task.needs.clone() {
            match self.node(need.on).state {
                TaskState::Settled { fine: false, because: root, .. } if !(need.list && self.limits.keep_going) => {
                    because = because.or(root).or(Some(need.on));
                }
                TaskState::Settled { .. } => {}
                _ => {
                    self.node_mut(need.on).dependents.push((id, need.list));
                    self.node_mut(id).unmet += 1;
                }
            }
        }
        if self.node(id).unmet > 0 {
            let gang = self.node(id).gang;
            self.node_mut(gang).open += 1;
        }
        because
    }
}
