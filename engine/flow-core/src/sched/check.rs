//! Checks that all derived data agrees with the states. Tests call it after every event.

use super::machine::Scheduler;
use super::state::{Class, Core, TaskState, Timer};
use crate::InstanceId;

impl Scheduler {
    /// The first internal error, if any: an illegal change of state, or a policy's proposal that admission refuses. It
    /// is cheap; drivers check it after every turn.
    pub fn fault(&self) -> Option<&str> {
        self.core().faults.first().map(String::as_str)
    }

    /// Checks every cross-reference: queue, timers, running attempts, resource ledgers, groups. Walks everything.
    ///
    /// # Errors
    /// The first disagreement, or an internal error: an illegal change of state, or a policy's proposal that admission
    /// refuses.
    pub fn check(&self) -> Result<(), String> {
        let core = self.core();
        if let Some(fault) = self.fault() {
            return Err(fault.to_owned());
        }
        core.feasibility.now.check()?;
        (0..core.nodes.len()).try_for_each(|i| core.check_instance(InstanceId(i as u32)))?;
        core.groups.keys().try_for_each(|&gang| core.check_group(gang))?;
        core.check_counts()
    }
}

impl Core {
    fn check_instance(&self, id: InstanceId) -> Result<(), String> {
        let node = self.node(id);
        let state = node.state;
        let wrong = |what: &str| Err(format!("instance {} is {state:?}, but {what}", id.0));
        let leads = node.gang == id;
        let waits = leads && matches!(state, TaskState::Waiting { .. });
        match node.key {
            Some(key) => {
                let alike = self.queue.classes.get(&self.class(id));
                if !waits || !self.queue.order.contains(&key) || !alike.is_some_and(|alike| alike.contains(&key)) {
                    return wrong("its place in the queue says otherwise");
                }
            }
            None if waits && !self.fresh.contains(&id) => return wrong("it is not in the queue"),
            None => {}
        }
        match state {
            TaskState::Pending => {
                let unsettled = node.task.needs.iter().filter(|need| !self.is_settled(need.on)).count();
                if unsettled != node.unmet as usize {
                    return wrong("its needs are miscounted");
                }
            }
            TaskState::Running { attempt } => {
                if self.live.get(&attempt).is_none_or(|live| live.instance != id) {
                    return wrong("its attempt is not among the running");
                }
                let ledger = &self.feasibility.now;
                let holds = ledger.holders.get(&attempt).is_some_and(|held| held.instance == id);
                let freed = self.live.get(&attempt).is_some_and(|live| live.freed.is_some());
                if (holds || ledger.queued.contains(&attempt)) == freed {
                    return wrong("its attempt does not hold what it should");
                }
            }
            TaskState::Paused { until } if !self.timers.contains(&(until, Timer::Retry(node.gang))) => {
                return wrong("no timer ends its pause");
            }
            _ => {}
        }
        Ok(())
    }

    /// All or nothing: the members of a group are in the same state, except those whose attempts ended before the
    /// others'.
    fn check_group(&self, gang: InstanceId) -> Result<(), String> {
        let kind = |id: InstanceId| match self.node(id).state {
            TaskState::Pending => 0,
            TaskState::LookingUp => 1,
            TaskState::Waiting { .. } => 2,
            TaskState::Paused { .. } => 3,
            TaskState::Running { .. } | TaskState::Ended { .. } => 4,
            TaskState::Recording { .. } | TaskState::Settled { .. } => 5,
        };
        let members = self.members(gang);
        if members.iter().any(|&m| kind(m) != kind(gang) || self.node(m).gang != gang) {
            return Err(format!("the members of the co-run group of instance {} do not stand alike", gang.0));
        }
        Ok(())
    }

    fn check_counts(&self) -> Result<(), String> {
        let count = |wanted: fn(TaskState) -> bool| self.nodes.iter().filter(|node| wanted(node.state)).count();
        let running = count(|state| matches!(state, TaskState::Running { .. }));
        let freed = self.live.values().filter(|live| live.freed.is_some()).count();
        if running != self.live.len() || running != self.feasibility.now.attempts() + freed {
            let (live, held) = (self.live.len(), self.feasibility.now.attempts());
            return Err(format!(
                "{running} instances run, {live} attempts are known, {held} hold something, {freed} do not any more"
            ));
        }
        if self.unsettled + count(|state| matches!(state, TaskState::Settled { .. })) != self.nodes.len() {
            return Err(format!("{} instances are said to be unsettled", self.unsettled));
        }
        let classed: usize = self.queue.classes.values().map(|alike| alike.len()).sum();
        let placed = self.nodes.iter().filter(|node| node.key.is_some()).count();
        if classed != self.queue.order.len() || classed != placed {
            return Err(format!("{placed} gangs wait, {classed} by class, {} in order", self.queue.order.len()));
        }
        if self.queue.classes.keys().any(|class| matches!(class, Class::Group(gang) if self.group(*gang).is_none())) {
            return Err("a group waits that is none".to_owned());
        }
        let deadlines = self.live.values().filter(|live| live.deadline.is_some()).count();
        let armed = self.timers.iter().filter(|(_, timer)| matches!(timer, Timer::Deadline(_))).count();
        if armed > deadlines {
            return Err(format!("{armed} deadlines are armed for {deadlines} attempts"));
        }
        Ok(())
    }

    pub(super) fn is_settled(&self, id: InstanceId) -> bool {
        matches!(self.node(id).state, TaskState::Settled { .. })
    }
}
