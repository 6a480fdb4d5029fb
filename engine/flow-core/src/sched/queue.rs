//! The queue of a machine, for people: the order of service, and when each request is expected to get its room. The
//! schedulers decide; this module only reports.

use super::others::{Holding, QueuePosition};

/// A run on the machine as it published itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunDemand {
    /// Holdings of its attempts, each with its expected end in milliseconds on a shared clock; `None` if unknown.
    pub held: Vec<(Holding, Option<u64>)>,
    /// Its waiting request: its place, the resources, and its expected duration.
    pub waits: Option<(QueuePosition, Holding, Option<u64>)>,
}

/// When the waiting request of each party gets its room, if everything ends as expected. `None` if nothing waits, or if
/// it is unknown. A time in the past means that a holder exceeds its estimate.
pub fn expected(all: &Holding, parties: &[RunDemand], now: u64) -> Vec<Option<u64>> {
    let mut expected = vec![None; parties.len()];
    // Holdings and their end; u64::MAX if unknown.
    let held = parties.iter().flat_map(|party| &party.held);
    let mut held: Vec<(Holding, u64)> = held.map(|&(holds, until)| (holds, until.unwrap_or(u64::MAX))).collect();
    let mut waiting: Vec<_> = (parties.iter().enumerate())
        .filter_map(|(i, party)| party.waits.map(|(turn, asks, takes)| (turn, i, asks, takes)))
        .collect();
    waiting.sort_by_key(|&(turn, i, ..)| (turn, i));
    // Nothing starts before the requests ahead of it. One that waits only for GPUs precedes only others that need GPUs.
    let (mut earliest, mut earliest_gpu) = (0, Some(0));
    for (_, i, asks, takes) in waiting {
        let only_gpus = asks.gpus > 0 && !asks.exclusive && (asks.cpu_milli, asks.memory) == (0, 0);
        let from = if asks.gpus > 0 { earliest_gpu.map(|gpu| gpu.max(earliest)) } else { Some(earliest) };
        let mut times: Vec<u64> = held.iter().map(|(_, until)| *until).filter(|&until| from < Some(until)).collect();
        times.extend(from);
        times.sort_unstable();
        let fits = |at: &u64| {
            let there: Vec<&Holding> = held.iter().filter(|(_, until)| until > at).map(|(holds, _)| holds).collect();
            let sum = |of: fn(&Holding) -> u64| there.iter().fold(0u64, |sum, holds| sum.saturating_add(of(holds)));
            let exclusive = there.iter().any(|holds| holds.exclusive) || asks.exclusive && !there.is_empty();
            let cpus = sum(|holds| holds.cpu_milli).saturating_add(asks.cpu_milli) <= all.cpu_milli;
            let gpus = asks.gpus == 0 || sum(|holds| holds.gpus.into()) + u64::from(asks.gpus) <= all.gpus.into();
            let memory = sum(|holds| holds.memory).saturating_add(asks.memory) <= all.memory;
            !exclusive && (cpus || asks.exclusive) && memory && gpus
        };
        expected[i] = from.and_then(|_| times.into_iter().find(fits)).filter(|at| *at < u64::MAX);
        earliest_gpu = if asks.gpus > 0 { expected[i] } else { earliest_gpu };
        match expected[i] {
            Some(at) => held.push((asks, takes.map_or(u64::MAX, |takes| at.max(now).saturating_add(takes)))),
            None if only_gpus => {}
            None => break,
        }
        earliest = expected[i].filter(|_| !only_gpus).unwrap_or(earliest);
    }
    // A request that waits for no end has its room now.
    expected.into_iter().map(|at| at.map(|at| if at == 0 { now } else { at })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(cpus: u64, exclusive: bool) -> Holding {
        Holding { cpu_milli: cpus * 1_000, attempts: 1, exclusive, ..Holding::default() }
    }

    fn party(held: &[(u64, Option<u64>)], waits: Option<(u64, u64, bool, Option<u64>)>) -> RunDemand {
        let waits =
            waits.map(|(since, cpus, alone, takes)| (QueuePosition::new(0, since, 0), holding(cpus, alone), takes));
        RunDemand { held: held.iter().map(|&(cpus, until)| (holding(cpus, false), until)).collect(), waits }
    }

    #[test]
    fn room_is_expected_in_the_order_of_turns() {
        // Four CPUs: three are held until 50, one until 90.
        let parties = [
            party(&[(3, Some(50)), (1, Some(90))], None),
            party(&[], Some((7, 2, false, Some(100)))),
            party(&[], Some((5, 1, true, Some(10)))),
        ];
        let all = Holding { cpu_milli: 4_000, gpus: 2, ..Holding::default() };
        assert_eq!(expected(&all, &parties, 10), [None, Some(100), Some(90)], "who waits longer is first, alone");
        let unknown =
            [party(&[(1, None)], None), party(&[], Some((1, 1, true, None))), party(&[], Some((2, 1, false, None)))];
        assert_eq!(expected(&all, &unknown, 10), [None; 3], "nobody knows when that ends");
        let room = [party(&[(1, None)], None), party(&[], Some((1, 3, false, None)))];
        assert_eq!(expected(&all, &room, 10), [None, Some(10)], "it is due");
        let late = [
            party(&[(3, Some(50))], None),
            party(&[], Some((1, 2, false, Some(5)))),
            party(&[], Some((2, 3, false, None))),
        ];
        assert_eq!(expected(&all, &late, 80), [None, Some(50), Some(85)], "it holds that for longer than was expected");
        assert!(expected(&all, &[], 0).is_empty());
        // A request for GPUs keeps no CPUs from others, and precedes other requests for GPUs.
        let gpus = |gpus: u32, cpus: u64| Holding { gpus, ..holding(cpus, false) };
        let on_gpus = |until: Option<u64>| {
            let head = |since, asks| Some((QueuePosition::new(0, since, 0), asks, Some(10)));
            let holds = RunDemand { held: vec![(gpus(2, 1), until)], waits: None };
            let waits = [head(1, gpus(1, 0)), head(2, gpus(0, 2)), head(3, gpus(2, 0))];
            let waits = waits.map(|waits| RunDemand { held: Vec::new(), waits });
            expected(&all, &[vec![holds], waits.to_vec()].concat(), 10)
        };
        assert_eq!(on_gpus(Some(50)), [None, Some(50), Some(10), Some(60)]);
        assert_eq!(on_gpus(None), [None, None, Some(10), None]);
    }
}
