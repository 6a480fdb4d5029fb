//! Tracks which attempts run at the same time, and selects the epochs of an attempt that lie wholly next to the same
//! co-runners. These are compared with its epochs alone. Arithmetic over time stamps; predicts nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::windows::Window;
use crate::{AttemptId, GpuId, InstanceId};

/// Every running attempt, and its co-runners.
#[derive(Clone, Debug, Default)]
pub struct CoRunners(BTreeMap<AttemptId, Member>);

#[derive(Clone, Debug)]
struct Member {
    instance: InstanceId,
    gpus: Vec<GpuId>,
    others: BTreeMap<AttemptId, CoRunner>,
}

/// Another attempt that ran at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct CoRunner {
    pub instance: InstanceId,
    /// The span in which both were there; its end is infinite while both still are.
    pub there: Window,
    /// The span of its measured work ([`super::ReportedNumbers::at_work`]), if known.
    pub at_work: Option<Window>,
    /// GPUs that both used.
    pub gpus: Vec<GpuId>,
}

impl CoRunners {
    /// An attempt begins: it and all running attempts become co-runners.
    pub fn join(&mut self, attempt: AttemptId, instance: InstanceId, gpus: &[GpuId], at: f64) {
        let mut others = BTreeMap::new();
        for (&id, other) in &mut self.0 {
            let both: Vec<GpuId> = gpus.iter().filter(|gpu| other.gpus.contains(gpu)).copied().collect();
            let corunner = |instance, gpus| CoRunner { instance, there: (at, f64::INFINITY), at_work: None, gpus };
            others.insert(id, corunner(other.instance, both.clone()));
            other.others.insert(attempt, corunner(instance, both));
        }
        self.0.insert(attempt, Member { instance, gpus: gpus.to_vec(), others });
    }

    /// An attempt has ended, with the span of its measured work. Returns its co-runners.
    pub fn leave(&mut self, attempt: AttemptId, at: f64, at_work: Option<Window>) -> BTreeMap<AttemptId, CoRunner> {
        for corunner in self.0.values_mut().filter_map(|other| other.others.get_mut(&attempt)) {
            (corunner.there.1, corunner.at_work) = (at, at_work);
        }
        self.0.remove(&attempt).map(|member| member.others).unwrap_or_default()
    }

    /// The co-runners of a running attempt.
    pub fn of(&self, attempt: AttemptId) -> impl Iterator<Item = &CoRunner> + Clone {
        self.0.get(&attempt).into_iter().flat_map(|member| member.others.values())
    }
}

/// An epoch; seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epoch {
    pub began: f64,
    pub ended: f64,
    /// Its duration, as reported by its program.
    pub took: f64,
}

/// Comparable epochs.
#[derive(Clone, Debug, PartialEq)]
pub struct Overlap {
    /// The attempts on the same GPUs, at work during all of these epochs.
    pub who: BTreeSet<AttemptId>,
    pub epochs: u32,
    /// Mean seconds of one epoch.
    pub took: f64,
}

/// The epochs of an attempt that show the cost of its co-runners; if there were several sets, of the one with most
/// epochs.
///
/// The first epoch is warm-up. An epoch counts under two conditions. Every attempt that shares a GPU in any part of it
/// is there and at work in all of it. The CPU suffices: all other attempts on the host, in any part of it, keep at most
/// `cores` busy; `alone` has the cores that each of them keeps busy alone.
pub fn largest_overlap(
    epochs: &[Epoch],
    others: &BTreeMap<AttemptId, CoRunner>,
    alone: &BTreeMap<AttemptId, f64>,
    cores: f64,
) -> Option<Overlap> {
    let mut companies: BTreeMap<BTreeSet<AttemptId>, Vec<f64>> = BTreeMap::new();
    for epoch in epochs.iter().skip(1) {
        let present = || others.iter().filter(|(_, other)| other.there.0 < epoch.ended && epoch.began < other.there.1);
        let sharing = || present().filter(|(_, other)| !other.gpus.is_empty());
        let covers = |(from, to): Window| from <= epoch.began && epoch.ended <= to;
        let throughout = |(_, other): (&AttemptId, &CoRunner)| covers(other.there) && other.at_work.is_some_and(covers);
        if sharing().all(throughout) && present().filter_map(|(id, _)| alone.get(id)).sum::<f64>() <= cores {
            companies.entry(sharing().map(|(id, _)| *id).collect()).or_default().push(epoch.took);
        }
    }
    // Epochs alone have no co-run cost.
    companies.remove(&BTreeSet::new());
    let (who, times) = companies.into_iter().max_by_key(|(_, times)| times.len())?;
    Some(Overlap { who, epochs: times.len() as u32, took: times.iter().sum::<f64>() / times.len() as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten epochs of a second from 0 on, the first being warm-up. Others as `name from-to from-to`: there, and at work;
    /// `name/cores` for one on another GPU.
    fn seen(others: &'static str) -> Option<(String, u32)> {
        let epochs: Vec<Epoch> =
            (0..10).map(|i| Epoch { began: f64::from(i), ended: f64::from(i + 1), took: 1.0 }).collect();
        let span = |word: &str| {
            let (from, to) = word.split_once('-').unwrap();
            (from.parse().unwrap(), if to.is_empty() { f64::INFINITY } else { to.parse().unwrap() })
        };
        let other = |text: &'static str| {
            let words: Vec<&str> = text.split_whitespace().collect();
            let (who, cores) = words[0].split_once('/').map_or((words[0], None), |(who, cores)| (who, Some(cores)));
            let corunner = CoRunner {
                instance: InstanceId(0),
                there: span(words[1]),
                at_work: words.get(2).map(|word| span(word)),
                gpus: cores.map_or(vec![GpuId(0)], |_| Vec::new()),
            };
            (who, corunner, cores.map_or(1.0, |cores| cores.parse().unwrap()))
        };
        let others: Vec<_> = others.split(';').filter(|other| !other.is_empty()).map(other).collect();
        let ids = || (0..).map(AttemptId);
        let corunners = ids().zip(others.iter().map(|(_, corunner, _)| corunner.clone())).collect();
        let alone = ids().zip(others.iter().map(|(.., cores)| *cores)).collect();
        let found = largest_overlap(&epochs, &corunners, &alone, 4.0)?;
        let names: Vec<&str> = found.who.into_iter().map(|id| others[id.index()].0).collect();
        Some((names.join("+"), found.epochs))
    }

    #[test]
    fn epochs_count_that_lie_wholly_in_one_company() {
        let cases: &[(&str, Option<(&str, u32)>)] = &[
            ("", None),
            // The first is warm-up, whatever others do.
            ("a 0- 0-", Some(("a", 9))),
            ("a 0-1.5 0-1.5", None),
            // It comes and goes in the middle of an epoch.
            ("a 2.5-7.5 2.5-7.5", Some(("a", 4))),
            // It is there from the start, but works only part of that time.
            ("a 0-9 4-6.5", Some(("a", 2))),
            // It never reports when it works.
            ("a 0-9", None),
            // Mostly next to b. Epochs with both have another set of co-runners; those with a change do not count.
            ("a 0-4.5 0-4.5;b 3-10 3-10", Some(("b", 5))),
            ("a 0- 0-;b 5- 5-", Some(("a+b", 5))),
            ("a 0-3 0-3;b 0- 0-;c 8- 8-", Some(("b", 5))),
            ("b 0- 0-;a 4-6 4-6", Some(("b", 7))),
            // On another GPU: no co-runner, unless it takes the CPU.
            ("c/3 0-", None),
            ("a 0- 0-;c/3 0-", Some(("a", 9))),
            ("a 0- 0-;c/3.5 4.5-6.5", Some(("a", 6))),
            ("a 0- 0-;c/4 0-", None),
        ];
        for (others, expected) in cases {
            let seen = seen(others);
            assert_eq!(seen.as_ref().map(|(who, epochs)| (&**who, *epochs)), *expected, "beside {others}");
        }
    }

    #[test]
    fn the_mean_is_that_of_the_epochs_that_count() {
        let epoch = |began: f64, took: f64| Epoch { began, ended: began + took, took };
        let epochs = [epoch(0.0, 9.0), epoch(9.0, 2.0), epoch(11.0, 3.0), epoch(14.0, 1.0)];
        let (there, at_work) = ((1.0, 14.0), Some((2.0, 14.0)));
        let other = CoRunner { instance: InstanceId(7), there, at_work, gpus: vec![GpuId(0)] };
        let found = largest_overlap(&epochs, &[(AttemptId(7), other)].into(), &BTreeMap::new(), 0.0).unwrap();
        assert_eq!((found.epochs, found.took), (2, 2.5));
    }

    #[test]
    fn who_was_there_at_any_time_is_company() {
        let (mut corunners, gpu) = (CoRunners::default(), [GpuId(0)]);
        corunners.join(AttemptId(0), InstanceId(0), &[GpuId(0), GpuId(1)], 1.0);
        corunners.join(AttemptId(1), InstanceId(1), &gpu, 2.0);
        assert!(corunners.leave(AttemptId(1), 3.0, Some((2.5, 3.0))).contains_key(&AttemptId(0)));
        corunners.join(AttemptId(2), InstanceId(2), &[], 4.0);
        let one =
            CoRunner { instance: InstanceId(1), there: (2.0, 3.0), at_work: Some((2.5, 3.0)), gpus: gpu.to_vec() };
        let two = CoRunner { instance: InstanceId(2), there: (4.0, f64::INFINITY), at_work: None, gpus: vec![] };
        assert_eq!(corunners.of(AttemptId(0)).collect::<Vec<_>>(), [&one, &two]);
        assert_eq!(
            corunners.leave(AttemptId(2), 5.0, None).len(),
            1,
            "who had left is not in the corunners of who came later"
        );
    }
}
