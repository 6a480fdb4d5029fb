//! The test of whether two points differ. It is paired if each place among their values means the same in both (a seed,
//! a repetition), otherwise unpaired. All sentences and tables that compare two points use it. Also the sign test.

use flow_core::stats::{t_quantile, t_tail};

use crate::bounds::SIGNIFICANT;
use crate::safe;
use crate::table::{Cell, Content, Spread};
use crate::words::{Args, Locale};

/// Maximum runs that are proposed.
pub(crate) const MOST_RUNS: u32 = 200;
/// The quantile of the standard normal distribution for a power of 80%.
const POWER: f64 = 0.84;

/// The result of a test of two points.
pub(crate) struct TestResult {
    /// The probability that chance makes a difference at least as large.
    pub(crate) p: f64,
    /// Whether the t-test was paired. Otherwise it is B. L. Welch's ("The Generalization of 'Student's' Problem",
    /// Biometrika 34 (1947), 28–35).
    pub(crate) paired: bool,
    /// The number of runs of each point, or the smaller of the two numbers.
    pub(crate) runs: u32,
    difference: f64,
    error: f64,
    freedom: f64,
}

/// Whether all repetitions gave the same number, as with a program that fixes its seed. They then measured no spread.
pub(crate) fn repeats_itself(cell: &Cell) -> bool {
    match &cell.content {
        // A mean is rounded, so its spread may not be exactly zero.
        Content::Number { value, spread: Some(Spread::Sd(sd, n)), .. } => *n >= 2 && *sd <= 1e-12 * value.abs(),
        Content::Number { spread: Some(Spread::Range(least, most, n)), .. } => *n >= 2 && least == most,
        _ => false,
    }
}

/// Tests the difference of two means. `None` if one was not repeated, or if neither has a spread.
pub(crate) fn test(a: &Cell, b: &Cell) -> Option<TestResult> {
    if repeats_itself(a) && repeats_itself(b) {
        return None;
    }
    let p = |difference: f64, error: f64, freedom: f64| match error > 0.0 {
        true => t_tail(difference / error, freedom),
        false if difference == 0.0 => 1.0,
        false => 0.0,
    };
    if a.values.len() == b.values.len() && a.values.len() >= 2 {
        let differences: Vec<f64> = a.values.iter().zip(&b.values).map(|(a, b)| a - b).collect();
        let n = differences.len() as f64;
        let difference = differences.iter().sum::<f64>() / n;
        let variance = differences.iter().map(|d| (d - difference).powi(2)).sum::<f64>() / (n - 1.0);
        // Printed digits are rounded. Two rounded values differ by an error with at least this variance.
        let rounding = last_digit(a.values.iter().chain(&b.values)).powi(2) / 6.0;
        let error = (variance.max(rounding) / n).sqrt();
        let p = p(difference, error, n - 1.0);
        return Some(TestResult {
            p,
            paired: true,
            runs: differences.len() as u32,
            difference,
            error,
            freedom: n - 1.0,
        });
    }
    let of = |cell: &Cell| match &cell.content {
        Content::Number { value, spread: Some(Spread::Sd(_, n) | Spread::Range(_, _, n)), error: Some(error) }
            if *n >= 2 =>
        {
            Some((cell.mean.unwrap_or(*value), error.powi(2), *n))
        }
        _ => None,
    };
    let ((a, va, runs_of_a), (b, vb, runs_of_b)) = (of(a)?, of(b)?);
    let (na, nb) = (f64::from(runs_of_a), f64::from(runs_of_b));
    let freedom = (va + vb).powi(2) / (va.powi(2) / (na - 1.0) + vb.powi(2) / (nb - 1.0));
    let freedom = if freedom.is_finite() { freedom } else { na + nb - 2.0 };
    let (difference, error) = (a - b, (va + vb).sqrt());
    let p = p(difference, error, freedom);
    Some(TestResult { p, paired: false, runs: runs_of_a.min(runs_of_b), difference, error, freedom })
}

/// The two-sided p-value of the sign test: the probability that chance splits `rises + falls` changes at least as
/// unevenly. It is exact, by the binomial distribution; pairs without a change are left out. W. J. Dixon and A. M.
/// Mood, "The Statistical Sign Test", Journal of the American Statistical Association 41 (1946), 557–566.
pub(crate) fn sign_test(rises: usize, falls: usize) -> f64 {
    let n = (rises + falls) as f64;
    // The logarithm of the share of orders that have exactly k of the rarer sign.
    let mut share = -n * std::f64::consts::LN_2;
    let mut tail = 0.0;
    for k in 0..=rises.min(falls) {
        tail += share.exp();
        share += ((n - k as f64) / (k as f64 + 1.0)).ln();
    }
    (2.0 * tail).min(1.0)
}

/// The points that the tests do not tell from the best, and those that are worse: `a=1, b=2; the other 5 are worse by more
/// than noise`. Few points have their names.
pub(crate) fn tied_with(tied: &[String], worse: &[String], words: Locale<'_>) -> String {
    const NAMED: usize = 2;
    let named = |points: &[String], between: &str| {
        points.iter().map(|name| safe::text(name)).collect::<Vec<_>>().join(&words.word(between))
    };
    let args = Args::new().count("tied", tied.len()).count("worse", worse.len());
    let (key, args) = match (tied.len(), worse.len()) {
        (_, 0) => ("tied-all", args),
        (n, _) if n <= NAMED => ("tied-named", args.with("points", named(tied, "tied-or"))),
        (_, n) if n <= NAMED => ("tied-but", args.with("points", named(worse, "tied-and"))),
        _ => ("tied-some", args),
    };
    words.text(key, &args)
}

/// How many more runs would tell the best point from this one.
pub(crate) fn more_in_words(point: &str, more: Option<u32>, words: Locale<'_>) -> String {
    let args = Args::new().with("next", safe::text(point));
    match more {
        Some(more) => words.text("finding-winner-more", &args.count("more", more as usize)),
        None => words.text("finding-winner-most", &args.count("most", MOST_RUNS as usize)),
    }
}

/// The place value of the last decimal digit that any of these values has; 0 for whole numbers.
pub(crate) fn last_digit<'a>(values: impl Iterator<Item = &'a f64>) -> f64 {
    let decimals = |value: &f64| value.to_string().split_once('.').map_or(0, |(_, decimals)| decimals.len());
    match values.map(decimals).max().unwrap_or(0) {
        0 => 0.0,
        most => 0.1f64.powi(most as i32),
    }
}

impl TestResult {
    /// The p-value corrected for this many comparisons (Bonferroni), because a search for the best point compares all.
    pub(crate) fn of_many(&self, comparisons: usize) -> f64 {
        (self.p * comparisons as f64).min(1.0)
    }

    pub(crate) fn is_significant(&self, comparisons: usize) -> bool {
        self.of_many(comparisons) <= SIGNIFICANT
    }

    /// Half of the 95% confidence interval of the difference, as a share of the difference: more than 1 if it is not told.
    pub(crate) fn half(&self) -> f64 {
        t_quantile(SIGNIFICANT, self.freedom) * self.error / self.difference.abs()
    }

    /// How many more runs of each would confirm the difference, if it and the scatter stay the same.
    pub(crate) fn more(&self, comparisons: usize) -> Option<u32> {
        let level = SIGNIFICANT / comparisons.max(1) as f64;
        let scatter = self.error * f64::from(self.runs).sqrt();
        let freedom = |n: u32| if self.paired { n - 1 } else { 2 * n - 2 };
        more_runs(self.difference, scatter, self.runs, level, freedom)
    }
}

/// How many more runs than `runs` would confirm a difference at this level, if it and the scatter of one run stay the
/// same. `None` if it takes more than anybody makes.
pub(crate) fn more_runs(
    difference: f64,
    scatter: f64,
    runs: u32,
    level: f64,
    freedom: impl Fn(u32) -> u32,
) -> Option<u32> {
    let confirms = |n: &u32| {
        let quantile = t_quantile(level, f64::from(freedom(*n)));
        difference.abs() * f64::from(*n).sqrt() >= scatter * (quantile + POWER)
    };
    // If the points are the same, no number of runs confirms a difference.
    (runs + 1..=MOST_RUNS).filter(|_| difference != 0.0).find(confirms).map(|n| n - runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(values: &[f64], paired: bool) -> Cell {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let sd = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
        let spread = Some(Spread::Sd(sd, values.len() as u32));
        let content = Content::Number { value: mean, spread, error: Some(sd / n.sqrt()) };
        Cell { values: if paired { values.to_vec() } else { Vec::new() }, ..Cell::new(content) }
    }

    /// Seeds differ by more than the points do, so only a paired test distinguishes these.
    #[test]
    fn values_that_pair_are_tested_in_pairs() {
        let (a, b) = ([0.300, 0.500, 0.700, 0.400], [0.331, 0.530, 0.729, 0.432]);
        let paired = test(&cell(&a, true), &cell(&b, true)).expect("a test");
        let unpaired = test(&cell(&a, false), &cell(&b, false)).expect("a test");
        assert!(paired.paired && paired.p < 0.001 && paired.is_significant(4), "{}", paired.p);
        assert!(!unpaired.paired && unpaired.p > 0.5 && !unpaired.is_significant(1), "{}", unpaired.p);
    }

    /// Both seeds differ by two last digits: rounding may hide a spread.
    #[test]
    fn rounded_values_have_at_least_the_error_of_rounding() {
        let tested = test(&cell(&[0.00007, 0.00005], true), &cell(&[0.00009, 0.00007], true)).expect("a test");
        assert!((0.05..0.2).contains(&tested.p), "{}", tested.p);
        assert_eq!(last_digit([0.25, 3.0].iter()), 0.010000000000000002);
    }

    #[test]
    fn more_runs_are_those_that_decide() {
        let more = |b: &[f64], comparisons| {
            test(&cell(&[1.0, 1.1, 0.9], true), &cell(b, true)).and_then(|tested| tested.more(comparisons))
        };
        let (one, many) = (more(&[1.1, 1.3, 0.9], 1), more(&[1.1, 1.3, 0.9], 11));
        assert!(one.is_some_and(|one| (3..15).contains(&one)) && many > one, "{one:?} {many:?}");
        assert_eq!(more(&[1.001, 1.2, 0.8], 1), None, "no number of runs that anybody makes");
        assert_eq!(more(&[1.0, 1.1, 0.9], 1), None, "the same to the last digit");
    }

    /// A program that fixes its seed repeats its numbers, which does not measure noise.
    #[test]
    fn repetitions_without_a_spread_are_not_tested() {
        let (a, b) = (vec![0.862, 0.862, 0.862], vec![0.861, 0.861, 0.861]);
        for paired in [true, false] {
            assert!(test(&cell(&a, paired), &cell(&b, paired)).is_none());
            let varies = cell(&[0.851, 0.861, 0.871], paired);
            assert!(test(&cell(&a, paired), &varies).is_some_and(|tested| !tested.is_significant(1)));
        }
    }

    #[test]
    fn six_of_one_sign_are_no_chance_and_five_may_be() {
        let known = [((0, 0), 1.0), ((5, 0), 0.0625), ((0, 6), 0.03125), ((13, 1), 0.0018310546875), ((3, 4), 1.0)];
        for ((rises, falls), p) in known {
            assert!((sign_test(rises, falls) - p).abs() < 1e-12, "{rises} and {falls}: {}", sign_test(rises, falls));
        }
        assert!((sign_test(1000, 1000) - 1.0).abs() < 1e-9 && sign_test(2000, 0) < 1e-300);
    }
}
