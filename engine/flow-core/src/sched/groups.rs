//! Co-run groups: their members start at one instant with nothing else of this run, and wait for each other at a
//! barrier. A group is looked up, retried, timed out and settled as one. This module does not know placements.

use super::api::{Action, Answer, Task};
use super::state::{Core, EndReason, Group, TaskState, Window};
use crate::{AttemptId, InstanceId, Outcome};

impl Core {
    /// The gang of an arriving task: its group's first member, or itself.
    pub(super) fn join_group(&mut self, task: &Task) -> InstanceId {
        let id = task.instance;
        let Some((group, mode)) = task.corun.filter(|_| task.settled.is_none()) else { return id };
        if let Some(&gang) = self.group_gangs.get(&group) {
            if self.nodes[gang.index()].state == TaskState::Pending
                && let Some(known) = self.groups.get_mut(&gang)
            {
                known.members.push(id);
                return gang;
            }
            self.faults.push(format!("instance {} is late for its co-run group", id.0));
        }
        let window = Window::Ahead;
        self.group_gangs.insert(group, id);
        self.groups.insert(id, Group { mode, members: vec![id], answers: Default::default(), window });
        id
    }

    /// If one member does not fit by itself, the group does not: fewer members would be another experiment.
    pub(super) fn give_up_broken_groups(&mut self, first: usize, out: &mut Vec<Action>) {
        for index in first..self.nodes.len() {
            let task = &self.nodes[index].task;
            let Some((group, _)) = task.corun.filter(|_| task.settled == Some(Outcome::DoesNotFit)) else { continue };
            let Some(&gang) = self.group_gangs.get(&group) else { continue };
            if self.node(gang).state == TaskState::Pending {
                let members = self.members(gang).to_vec();
                self.give_up(&members, Outcome::DoesNotFit, None, out);
            }
        }
    }

    /// Handles a lookup of a group: all members hit, or all run. If one cannot run, none does.
    pub(super) fn group_answered(
        &mut self,
        gang: InstanceId,
        instance: InstanceId,
        answer: Answer,
        out: &mut Vec<Action>,
    ) {
        let Some(group) = self.groups.get_mut(&gang) else { return };
        group.answers.insert(instance, answer);
        if group.answers.len() < group.members.len() {
            return;
        }
        let answers = std::mem::take(&mut group.answers);
        let refused = answers.iter().find(|(_, answer)| matches!(answer, Answer::Refused(_)));
        if let Some((&culprit, _)) = refused {
            for (member, answer) in answers {
                match answer {
                    Answer::Refused(outcome) => self.settle(&[member], outcome, None, out),
                    Answer::Hit(_) | Answer::Miss | Answer::Orphaned | Answer::NotNeeded => {
                        self.give_up(&[member], Outcome::Skipped, Some(culprit), out);
                    }
                }
            }
        } else if answers.values().all(|answer| *answer == Answer::Orphaned) {
            self.adopt(gang, out);
        } else if answers.values().any(|answer| matches!(answer, Answer::Miss | Answer::Orphaned)) {
            self.wait(gang, out);
        } else {
            for (member, answer) in answers {
                match answer {
                    Answer::NotNeeded => self.leave_out(member, out),
                    Answer::Hit(outcome) => self.settle(&[member], outcome, None, out),
                    Answer::Miss | Answer::Orphaned | Answer::Refused(_) => {}
                }
            }
        }
    }

    /// A member waits at the barrier.
    pub(super) fn ready(&mut self, attempt: AttemptId, out: &mut Vec<Action>) {
        let Some(live) = self.live.get_mut(&attempt) else { return };
        live.ready = true;
        let instance = live.instance;
        self.release(self.node(instance).gang, out);
    }

    /// A member has its own epochs and keeps running for the others.
    pub(super) fn sufficed(&mut self, attempt: AttemptId, out: &mut Vec<Action>) {
        let Some(live) = self.live.get_mut(&attempt) else { return };
        live.sufficed = true;
        let instance = live.instance;
        self.stop_sufficed(self.node(instance).gang, out);
    }

    /// A member ended. Before the release this ends the group; afterwards it ends the co-run window.
    pub(super) fn member_ended(&mut self, gang: InstanceId, outcome: Outcome, out: &mut Vec<Action>) {
        if self.members(gang).iter().all(|&m| matches!(self.node(m).state, TaskState::Ended { .. })) {
            return self.conclude(gang, out);
        }
        let before_release = self.group(gang).is_some_and(|group| group.window == Window::Ahead);
        if before_release && outcome == Outcome::Ok {
            // It did all its work without the barrier. The others need not wait for it, and no epoch will overlap.
            return self.release(gang, out);
        }
        let once_more = self.retries_left(gang) || self.node(gang).lost;
        let again = outcome == Outcome::Failed && self.ending == EndReason::No && once_more;
        if before_release || again {
            // Its outcome is its own; the others did nothing wrong.
            return self.kill_gang(gang, Outcome::Cancelled, out);
        }
        if let Some(group) = self.groups.get_mut(&gang) {
            group.window = Window::Over;
        }
        self.stop_sufficed(gang, out);
    }

    /// Releases the barrier once every member is there.
    fn release(&mut self, gang: InstanceId, out: &mut Vec<Action>) {
        let Some(group) = self.group(gang).filter(|group| group.window == Window::Ahead) else { return };
        let mut attempts = Vec::new();
        let mut window = Window::Open;
        for &member in &group.members {
            match self.node(member).state {
                TaskState::Running { attempt } if self.live[&attempt].is_at_barrier() => attempts.push(attempt),
                TaskState::Ended { outcome: Outcome::Ok, .. } => window = Window::Over,
                _ => return,
            }
        }
        if let Some(group) = self.groups.get_mut(&gang) {
            group.window = window;
        }
        out.push(Action::Release { attempts });
        self.stop_sufficed(gang, out);
    }

    /// Stops members that keep running although no other needs it: all have their epochs, or the window is over.
    fn stop_sufficed(&mut self, gang: InstanceId, out: &mut Vec<Action>) {
        let Some(group) = self.group(gang) else { return };
        let mut running = Vec::new();
        let mut all = true;
        for &member in &group.members {
            match self.node(member).state {
                TaskState::Running { attempt } if self.live[&attempt].sufficed => running.push(attempt),
                _ => all = false,
            }
        }
        if group.window == Window::Over || group.window == Window::Open && all {
            running.retain(|attempt| !self.live[attempt].stopped && self.live[attempt].is_running());
            running.iter().for_each(|attempt| {
                if let Some(live) = self.live.get_mut(attempt) {
                    live.stopped = true;
                }
            });
            if !running.is_empty() {
                out.push(Action::Stop { attempts: running });
            }
        }
    }
}
