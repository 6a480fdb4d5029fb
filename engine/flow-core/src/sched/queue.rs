//! The queue of a machine, for people: in which order what waits is served, and when room for it is expected. What decides is
//! in the schedulers; this tells.

use super::others::{Holding, QueuePosition};

/// A run of the machine as it published itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunDemand {
    /// What its attempts hold, each until when, in milliseconds on a clock that all share; none where nobody knows.
    pub held: Vec<(Holding, Option<u64>)>,
    /// What of it waits: its place, what it asks for, and how long that is expected to take.
    pub waits: Option<(QueuePosition, Holding, Option<u64>)>,
}

/// For each party, when there is room for what of it waits, if all ends as it is expected to; none where nothing waits, or
/// nobody knows. A time that has passed means that somebody holds that room for longer than was expected.
pub fn expected(all: &Holding, parties: &[RunDemand], now: u64) -> Vec<Option<u64>> {
    let mut expected = vec![None; parties.len()];
    // What is held, until when; u64::MAX where nobody knows.
    let held = parties.iter().flat_map(|party| &party.held);
    let mut held: Vec<(Holding, u64)> = held.map(|&(holds, until)| (holds, until.unwrap_or(u64::MAX))).collect();
    let mut waiting: Vec<_> = (parties.iter().enumerate())
        .filter_map(|(i, party)| party.waits.map(|(turn, asks, takes)| (turn, i, asks, takes)))
        .collect();
    waiting.sort_by_key(|&(turn, i, ..)| (turn, i));
    // Nothing starts before who is ahead of it; what waits for GPUs is ahead of who wants some.
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
    // What waits for nobody's end has its room now.
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
        // What waits for GPUs keeps no CPUs from others, and comes before who wants GPUs too.
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
