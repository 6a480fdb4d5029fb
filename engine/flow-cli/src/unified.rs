//! The difference of two texts as `diff -u` shows it. Prints nothing.

/// Lines around a change.
const CONTEXT: usize = 3;
/// Texts with more changes than this are shown as one removed and one added text.
const MOST_CHANGES: usize = 1000;

/// The state of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Stays,
    Goes,
    Comes,
}

/// The hunks: `@@ -1,4 +1,5 @@`, then lines that begin with a blank, `-` or `+`. None if the texts
/// are equal.
pub(crate) fn unified(before: &str, after: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let changes = changes(&old, &new);
    // The position of each change in both texts.
    let (mut places, mut at) = (Vec::with_capacity(changes.len()), (0, 0));
    for change in &changes {
        places.push(at);
        at = match change {
            Change::Stays => (at.0 + 1, at.1 + 1),
            Change::Goes => (at.0 + 1, at.1),
            Change::Comes => (at.0, at.1 + 1),
        };
    }
    let changed: Vec<usize> = (0..changes.len()).filter(|n| changes[*n] != Change::Stays).collect();
    let mut out = Vec::new();
    for near in changed.chunk_by(|a, b| b - a <= 2 * CONTEXT) {
        let from = near[0].saturating_sub(CONTEXT);
        let to = (near[near.len() - 1] + CONTEXT + 1).min(changes.len());
        let hunk = &changes[from..to];
        let count = |but: Change| hunk.iter().filter(|change| **change != but).count();
        let (olds, news) = (count(Change::Comes), count(Change::Goes));
        let side = |at: usize, lines: usize| match lines {
            0 => format!("{at},0"),
            1 => format!("{}", at + 1),
            _ => format!("{},{lines}", at + 1),
        };
        out.push(format!("@@ -{} +{} @@", side(places[from].0, olds), side(places[from].1, news)));
        out.extend((from..to).map(|n| match changes[n] {
            Change::Stays => format!(" {}", old[places[n].0]),
            Change::Goes => format!("-{}", old[places[n].0]),
            Change::Comes => format!("+{}", new[places[n].1]),
        }));
    }
    out
}

/// The state of each line, with the fewest changes (Myers).
fn changes(old: &[&str], new: &[&str]) -> Vec<Change> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (a, b) = (&old_rest[..old_rest.len() - tail], &new_rest[..new_rest.len() - tail]);
    let mut all = vec![Change::Stays; head];
    all.extend(shortest(a, b).unwrap_or_else(|| {
        let gone = std::iter::repeat_n(Change::Goes, a.len());
        gone.chain(std::iter::repeat_n(Change::Comes, b.len())).collect()
    }));
    all.extend(std::iter::repeat_n(Change::Stays, tail));
    all
}

fn shortest(a: &[&str], b: &[&str]) -> Option<Vec<Change>> {
    let most = (a.len() + b.len()).min(MOST_CHANGES);
    // How far each diagonal gets, `furthest[k + most + 1]`, with this many changes.
    let (centre, mut furthest) = (most as isize + 1, vec![0usize; 2 * most + 3]);
    let mut trace = Vec::new();
    for depth in 0..=most as isize {
        trace.push(furthest.clone());
        for k in (-depth..=depth).step_by(2) {
            let at = (k + centre) as usize;
            let down = k == -depth || k != depth && furthest[at - 1] < furthest[at + 1];
            let mut x = if down { furthest[at + 1] } else { furthest[at - 1] + 1 };
            let mut y = x as isize - k;
            while x < a.len() && (y as usize) < b.len() && a[x] == b[y as usize] {
                (x, y) = (x + 1, y + 1);
            }
            furthest[at] = x;
            if x >= a.len() && y as usize >= b.len() {
                return Some(walk_back(a.len(), b.len(), &trace, centre));
            }
        }
    }
    None
}

fn walk_back(a: usize, b: usize, trace: &[Vec<usize>], centre: isize) -> Vec<Change> {
    let (mut x, mut y) = (a as isize, b as isize);
    let mut back = Vec::new();
    for (depth, furthest) in trace.iter().enumerate().rev() {
        let (depth, k) = (depth as isize, x - y);
        let reach = |k: isize| furthest[(k + centre) as usize];
        let down = k == -depth || k != depth && reach(k - 1) < reach(k + 1);
        let from = if down { k + 1 } else { k - 1 };
        let (before_x, before_y) =
            if depth == 0 { (0, 0) } else { (reach(from) as isize, reach(from) as isize - from) };
        while x > before_x && y > before_y {
            back.push(Change::Stays);
            (x, y) = (x - 1, y - 1);
        }
        if depth > 0 {
            back.push(if down { Change::Comes } else { Change::Goes });
            (x, y) = (before_x, before_y);
        }
    }
    back.reverse();
    back
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn changes_stand_with_what_is_around_them() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n";
        let after = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11\n12\n13\n";
        let expected = [
            "@@ -2,7 +2,7 @@",
            " 2",
            " 3",
            " 4",
            "-5",
            "+five",
            " 6",
            " 7",
            " 8",
            "@@ -10,3 +10,4 @@",
            " 10",
            " 11",
            " 12",
            "+13",
        ];
        assert_eq!(unified(before, after), expected);
        assert_eq!(unified(before, before), Vec::<String>::new());
        assert_eq!(unified("", "a\n"), ["@@ -0,0 +1 @@", "+a"]);
        assert_eq!(unified("a\nb\n", ""), ["@@ -1,2 +0,0 @@", "-a", "-b"]);
    }

    #[test]
    fn texts_that_have_nothing_in_common_take_no_time() {
        let text = |prefix: &str| (0..20_000).map(|n| format!("{prefix}{n}\n")).collect::<String>();
        assert_eq!(unified(&text("a"), &text("b")).len(), 40_001);
    }

    proptest! {
        #[test]
        fn from_one_text_the_changes_lead_to_the_other(
            old in prop::collection::vec(0..4u8, 0..20),
            new in prop::collection::vec(0..4u8, 0..20),
        ) {
            let text = |of: &[u8]| of.iter().map(u8::to_string).collect::<Vec<_>>();
            let (old, new) = (text(&old), text(&new));
            let (old, new): (Vec<&str>, Vec<&str>) = (old.iter().map(|l| &**l).collect(), new.iter().map(|l| &**l).collect());
            let (mut from, mut into): (_, Vec<&str>) = (old.iter(), Vec::new());
            let mut added = new.iter();
            for change in changes(&old, &new) {
                match change {
                    Change::Stays => {
                        let line = from.next();
                        prop_assert_eq!(line, added.next());
                        into.extend(line.copied());
                    }
                    Change::Goes => drop(from.next()),
                    Change::Comes => into.extend(added.next().copied()),
                }
            }
            prop_assert!(from.next().is_none());
            prop_assert_eq!(into, new);
        }
    }
}
