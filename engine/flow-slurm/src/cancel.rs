//! The arguments of `scancel`. Does not know why a job is to end.

use std::collections::{BTreeMap, BTreeSet};

use crate::Row;

/// No call names its jobs with more characters: systems take 128 KiB for one argument.
const LONGEST: usize = 64 << 10;

/// The arguments of the `scancel` calls that end the wanted rows. `rows` are all unfinished jobs of the queue. An array
/// is named as a whole if all its tasks are wanted.
///
/// The arguments contain job numbers only, no name and no user. With such a filter, `scancel` of Slurm 22.05 ends all
/// waiting tasks of an array if one of them is named.
pub fn scancel<'r>(rows: impl IntoIterator<Item = &'r Row>, wanted: impl Fn(&Row) -> bool) -> Vec<Vec<String>> {
    let mut jobs: BTreeMap<u32, (BTreeSet<u32>, bool)> = BTreeMap::new();
    for row in rows {
        let (tasks, goes_on) = jobs.entry(row.id.job).or_default();
        match (wanted(row), row.id.task) {
            (true, task) => tasks.extend(task),
            (false, _) => *goes_on = true,
        }
    }
    let mut calls: Vec<Vec<String>> = Vec::new();
    let mut room = 0;
    for (job, (tasks, goes_on)) in jobs {
        for name in if goes_on { ranges(job, &tasks) } else { vec![job.to_string()] } {
            if calls.is_empty() || room < name.len() {
                calls.push(vec!["--quiet".to_owned()]);
                room = LONGEST;
            }
            room = room.saturating_sub(name.len() + 1);
            calls.last_mut().into_iter().for_each(|call| call.push(name.clone()));
        }
    }
    calls
}

/// Tasks of an array as `scancel` reads them, `12_[0-3,7]`, in pieces of a bounded length.
fn ranges(job: u32, tasks: &BTreeSet<u32>) -> Vec<String> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &task in tasks {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(task) => *last = task,
            _ => ranges.push((task, task)),
        }
    }
    let mut pieces: Vec<String> = Vec::new();
    for (first, last) in ranges {
        let range = if first == last { first.to_string() } else { format!("{first}-{last}") };
        match pieces.last_mut() {
            Some(piece) if piece.len() + range.len() < LONGEST - 32 => *piece += &format!(",{range}"),
            _ => pieces.push(range),
        }
    }
    pieces.into_iter().map(|piece| format!("{job}_[{piece}]")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Exit, JobId};

    fn row(id: &str) -> Row {
        let text = |text: &str| text.to_owned();
        let id = JobId::parse(id).unwrap();
        Row { id, key: text("flow-a"), state: text("PENDING"), reason: text(""), exit: Exit::default(), node: text("") }
    }

    fn array(job: u32, tasks: impl Iterator<Item = u32>) -> Vec<Row> {
        tasks.map(|task| row(&format!("{job}_{task}"))).collect()
    }

    #[test]
    fn tasks_are_named_as_ranges_and_an_array_of_which_nothing_goes_on_as_a_whole() {
        let rows = [array(12, 0..1000), array(13, 5..8), vec![row("14"), row("15")]].concat();
        let wanted = |row: &Row| match (row.id.job, row.id.task) {
            (12, Some(task)) => task < 100 || [200, 202, 203].contains(&task),
            (job, _) => job != 15,
        };
        assert_eq!(scancel(&rows, wanted), [["--quiet", "12_[0-99,200,202-203]", "13", "14"]]);
        assert!(scancel(&rows, |_| false).is_empty());
        assert!(scancel(&[], |_| true).is_empty());
    }

    #[test]
    fn eight_thousand_tasks_take_one_call_and_more_than_an_argument_holds_take_several() {
        let rows: Vec<Row> = (1..=8).flat_map(|job| array(job, 0..1000)).collect();
        assert_eq!(scancel(&rows, |_| true), [["--quiet", "1", "2", "3", "4", "5", "6", "7", "8"]]);
        let half = |row: &Row| row.id.task.is_some_and(|task| task % 2 == 0);
        assert_eq!(scancel(&rows, half).len(), 1);
        let many = array(1, 0..100_000);
        let calls = scancel(&many, half);
        assert!(calls.iter().flatten().all(|argument| argument.len() < LONGEST), "{} calls", calls.len());
        let ids = || calls.iter().flatten().filter_map(|argument| argument.strip_prefix("1_[")?.strip_suffix(']'));
        let named: BTreeSet<u32> = ids().flat_map(|ids| ids.split(',')).map(|task| task.parse().unwrap()).collect();
        assert_eq!(named, (0..100_000).step_by(2).collect());
        assert!(calls.len() > 1);
    }
}
