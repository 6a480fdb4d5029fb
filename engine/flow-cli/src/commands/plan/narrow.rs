//! Fits the rows of a plan into a narrow terminal.

use crate::words;

/// Where a reason begins that has a line of its own.
const INDENT: usize = 17;

/// Leaves out the basis of estimates if the terminal is narrow. Takes the reasons that still do not fit out of the rows,
/// and returns the lines below each row.
pub(super) fn narrow(rows: &mut [Vec<String>], columns: usize) -> Vec<Vec<String>> {
    let widest = |rows: &[Vec<String>], at: usize| {
        rows.iter().filter_map(|row| row.get(at)).map(|cell| words::wide(cell) + 2).max().unwrap_or(0)
    };
    let room =
        |rows: &[Vec<String>]| columns.saturating_sub(2 + [0, 1, 3].map(|at| widest(rows, at)).iter().sum::<usize>());
    if room(rows) < widest(rows, 2) {
        for cell in rows.iter_mut().filter_map(|row| row.get_mut(3)) {
            cell.truncate(cell.find(" (").unwrap_or(cell.len()));
        }
    }
    let room = room(rows);
    let below = |cell: &mut String| match words::wide(cell) > room {
        true => {
            let lines = words::wrap(&std::mem::take(cell), columns.saturating_sub(INDENT).max(1), 0);
            lines.into_iter().map(|line| format!("{:INDENT$}{line}", "")).collect()
        }
        false => Vec::new(),
    };
    rows.iter_mut().map(|row| row.get_mut(2).map(below).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_room_in_a_narrow_terminal() {
        let rows = || {
            [
                [
                    "run",
                    "train × 100",
                    "input `a-script-with-a-long-name.py` changed",
                    "1 s to 2 s each (from up to 3 earlier runs)",
                ],
                ["decided after", "table", "train", "about 5 ms, 4 ms to 9 ms (3 runs of this instance)"],
            ]
            .map(|row| row.map(str::to_owned).to_vec())
        };
        let told = |columns| {
            let mut rows = rows();
            let below = narrow(&mut rows, columns);
            words::columns(&rows).into_iter().zip(below).flat_map(|(row, below)| [vec![row], below].concat()).collect()
        };
        let told: [Vec<String>; 3] = [160, 110, 80].map(told);
        assert_eq!(told[0], words::columns(&rows()));
        assert_eq!(
            told[1],
            [
                "run            train × 100  input `a-script-with-a-long-name.py` changed  1 s to 2 s each",
                "decided after  table        train                                         about 5 ms, 4 ms to 9 ms",
            ]
        );
        assert_eq!(
            told[2],
            [
                "run            train × 100         1 s to 2 s each",
                "                 input `a-script-with-a-long-name.py` changed",
                "decided after  table        train  about 5 ms, 4 ms to 9 ms",
            ]
        );
    }
}
