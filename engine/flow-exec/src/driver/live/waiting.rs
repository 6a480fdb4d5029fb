//! The reasons why instances wait, as values for the status file. Decides nothing.

use flow_core::{
    InstanceId, Time,
    reason::{Labels, Resource, ResourceShortage, Waits},
    sched::{Scheduler, Shortage, WaitState},
};
use flow_runs::WaitingStep as Told;
use flow_supervisor::clock;

use crate::driver::{
    begin::context::RunResults,
    decide::deferred::DeferredGangs,
    machine::{peers::PeerRuns, run_gpus::RunGpus},
    session::Session,
};

/// Limit of reported instances: `flow why` finds its step among them, the screen shows a few.
const MAX_REPORTED: usize = 100;
/// Limit of unsettled instances that are examined.
const LOOKED_AT: usize = 500;

/// The first instances that lack only resources or other runs' work, and what they lack.
pub(crate) fn of(
    scheduler: &Scheduler,
    now: Time,
    session: &Session,
    known: &RunResults,
    (gpus, peers, deferred): (&RunGpus, &PeerRuns, &DeferredGangs),
) -> Vec<Told> {
    let asker = WaitExplainer { session, gpus, peers, now, unix: clock::unix_millis() };
    let unsettled = session.expansion.instances.iter().filter(|instance| !known.is_settled(instance.id));
    unsettled
        .take(LOOKED_AT)
        .filter_map(|instance| {
            let reason = match scheduler.explain(now, instance.id) {
                WaitState::LookUp => deferred.who(instance.id)?.clone(),
                waiting => asker.waits(&waiting)?,
            };
            Some(Told { label: instance.label.to_string(), reason })
        })
        .take(MAX_REPORTED)
        .collect()
}

struct WaitExplainer<'a> {
    session: &'a Session,
    gpus: &'a RunGpus,
    peers: &'a PeerRuns,
    now: Time,
    /// The same time in milliseconds since 1970.
    unix: u64,
}

impl WaitExplainer<'_> {
    /// `None` if the instance runs, is settled, or waits for others to be settled, which is the workflow's own order.
    fn waits(&self, waiting: &WaitState) -> Option<Waits> {
        Some(match waiting {
            WaitState::Resources(short) => {
                Waits::Resources { short: short.iter().map(|shortage| self.scarce(shortage)).collect() }
            }
            WaitState::Others(ids) => Waits::Others { running: self.labels(ids)? },
            WaitState::Exclusive(ids) => Waits::Exclusive { running: self.labels(ids)? },
            WaitState::OtherRuns(how) => Waits::OtherRuns { how: *how, runs: self.peers.who(*how) },
            WaitState::Reserved(id) => Waits::Reserved { label: self.label(*id) },
            WaitState::Turn(Some(id)) => Waits::Turn { label: self.label(*id) },
            WaitState::Retry { at, failures } => Waits::Retry { at: self.unix(*at), failures: *failures },
            WaitState::Barrier { missing, .. } => Waits::Barrier { missing: self.labels(missing)? },
            _ => return None,
        })
    }

    fn scarce(&self, shortage: &Shortage) -> ResourceShortage {
        let gpus = &self.session.expansion.machine.gpus;
        let occupant = match shortage.resource {
            Resource::GpuMemory(gpu) if shortage.foreign > 0 => self.gpus.occupant(gpu.index()),
            _ => None,
        };
        // The first holder to end releases first.
        let until = shortage.held_by.iter().filter_map(|holder| holder.until).min().filter(|until| *until > self.now);
        ResourceShortage {
            resource: shortage.resource.map(|gpu| gpus.get(gpu.index()).map_or(gpu.0, |facts| facts.index)),
            requested: shortage.requested,
            available: shortage.available,
            held_by: Labels::of(shortage.held_by.iter().map(|holder| self.label(holder.instance))),
            until: until.map(|until| self.unix(until)),
            foreign: shortage.foreign,
            occupant,
            other_runs: shortage.other_runs,
            ahead: shortage.ahead,
            runs: self.peers.holders().filter(|_| shortage.other_runs > 0 || shortage.ahead > 0),
        }
    }

    fn label(&self, id: InstanceId) -> String {
        self.session.expansion.instances[id.index()].label.to_string()
    }

    fn labels(&self, ids: &[InstanceId]) -> Option<Labels> {
        Labels::of(ids.iter().map(|id| self.label(*id)))
    }

    fn unix(&self, at: Time) -> u64 {
        self.unix + (at - self.now).0 / 1_000
    }
}
