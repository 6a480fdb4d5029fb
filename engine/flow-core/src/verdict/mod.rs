//! The verdict about a co-run group from times alone and together, and whether these are certain enough. Numbers in, a
//! verdict out; `runs` takes the numbers from results.
//!
//! The unit is a run: epochs of one run share whatever differs between runs, so they do not measure it. Until something
//! is repeated, that difference is unknown, and a gain or a loss must exceed the noise of a noisy machine
//! (`UNREPEATED`). From the second run on, the spread of all repeated times is pooled, relative to each mean, with
//! Student's t.
//!
//! After each repetition flow looks whether the times decide, and each look may err. Look `k` may err with a
//! probability of `ERROR / (k (k + 1))`. The sum is at most `ERROR` for any number of looks: Bonferroni's inequality,
//! spent as K. K. G. Lan and D. L. DeMets do ("Discrete sequential boundaries for clinical trials", Biometrika 70
//! (1983), 659–663). No bound on the number of looks is needed, so a verdict does not change when more are allowed. The
//! probability decreases so slowly that more runs always help more than the extra looks cost, whatever the scatter.

mod runs;

#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use runs::{FOREIGN_CPU, Group, GroupJudgement, Refusal, Runs, Verdict, groups};

use crate::stats::t_quantile;

/// A member that is slower than alone by at most this share still counts as parallel, unless a report sets another
/// value.
pub const TOLERANCE: f64 = 0.10;
/// Maximum runs of a group, and of its members alone, by default.
pub const AT_MOST: u32 = 3;

/// The probability of finding a gain or a loss that does not exist. It is below the documented 5%, because Student's t
/// is slightly off for ratios of few times.
const ERROR: f64 = 0.04;
/// If half the interval of the gain is at most this, no gain is a result.
const NARROW: f64 = 0.05;
/// The assumed relative standard deviation between runs until something is repeated.
pub const UNREPEATED: f64 = 0.08;
/// The usual relative deviation of an undisturbed program. It is enough to call a group parallel that is as fast as
/// alone, which claims neither gain nor loss.
pub const USUAL: f64 = 0.02;
/// How many usual standard errors a difference must exceed.
const SIGMAS: f64 = 2.0;
/// Maximum useful number of further repetitions.
const MANY: u32 = 100;

/// The times of a member of a group, one per run, all above 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    pub alone: Vec<f64>,
    pub together: Vec<f64>,
    /// The relative standard error of one run against one run, from the scatter of their epochs.
    pub epochs: Option<f64>,
}

/// The verdict about a co-run group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// As fast as alone, within the tolerance.
    Parallel,
    /// Slower than alone, but more work is done than one after another.
    OnlyConcurrent,
    /// Slower than alone, and as much work is done as one after another.
    NoGain,
    /// Less work is done than one after another.
    SlowerThanOneAfterAnother,
    /// The times are not certain enough.
    Undecided,
}

/// A call with its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct CallFigures {
    pub call: Call,
    /// Whether a member is slower than the tolerance allows, beyond the noise.
    pub slower: bool,
    /// Work done together, in units of one job running alone: above 1 is a gain compared with one after another.
    pub gain: f64,
    /// Half the interval of the gain.
    pub half: f64,
    /// Half the interval of each member's speed, relative to it; from its epochs until something is repeated.
    pub speeds: Vec<f64>,
    /// Whether the difference between runs was measured.
    pub repeated: bool,
}

/// Judges a group with these members after look number `look`.
pub fn call(members: &[Times], look: u32, tolerance: f64) -> CallFigures {
    let pooled = pooled(members);
    let bounds = match pooled {
        None => Bounds::unrepeated(members, look),
        Some((sd, freedom)) => Bounds::of(members, |of| of.error(sd), t_quantile(allowed(look), f64::from(freedom))),
    };
    CallFigures { repeated: pooled.is_some(), ..bounds.call(members, tolerance) }
}

/// The relative standard deviation between runs and its degrees of freedom; `None` if nothing was measured twice.
fn pooled(members: &[Times]) -> Option<(f64, u32)> {
    let series = members.iter().flat_map(|member| [&member.alone, &member.together]);
    let (squares, freedom) = series.fold((0.0, 0), |(squares, freedom), times| {
        (squares + spread(times), freedom + times.len().saturating_sub(1) as u32)
    });
    (freedom > 0).then(|| ((squares / f64::from(freedom)).sqrt(), freedom))
}

/// The allowed probability of an error at this look; the first is 1.
fn allowed(look: u32) -> f64 {
    let look = f64::from(look.max(1));
    ERROR / (look * (look + 1.0))
}

/// How many more repetitions would decide an undecided comparison if the times stay the same; `None` if more than
/// `MANY`. The scatter and the gain are themselves uncertain after few runs. So the scatter counts as one standard
/// error larger, and the gain as one standard error nearer to none. The number is then enough in most cases.
pub fn more(members: &[Times], look: u32, tolerance: f64) -> Option<u32> {
    let made = members.iter().map(|member| member.together.len() as u32).max().unwrap_or(1);
    let first = |sd: f64, nearer: f64| {
        (1..=MANY).find(|more| {
            let runs = made + more;
            let error = sd * (2.0 / f64::from(runs)).sqrt();
            let freedom = (members.len() as u32 * 2 * (runs - 1)).max(1);
            let bounds = Bounds::of(members, |_| error, t_quantile(allowed(look + more), f64::from(freedom)));
            let CallFigures { call, gain, half, .. } = bounds.call(members, tolerance);
            match call {
                Call::Undecided => false,
                Call::Parallel => true,
                _ => half <= NARROW || (gain - 1.0).abs() - nearer >= half,
            }
        })
    };
    let (sd, larger) = match pooled(members) {
        None => (USUAL, USUAL),
        Some((sd, freedom)) => (sd, sd * (1.0 + 1.0 / f64::from(2 * freedom).sqrt())),
    };
    let wary = first(larger, Bounds::of(members, |of| of.error(larger), 1.0).gain);
    // `None` only if even the optimistic estimate exceeds `MANY`.
    wary.or_else(|| first(sd, 0.0).map(|_| MANY))
}

impl Times {
    /// Speed of the member together; 1 is as fast as alone.
    fn speed(&self) -> f64 {
        typical(&self.alone) / typical(&self.together)
    }

    /// The relative standard error of the speed if runs deviate by `sd`.
    fn error(&self, sd: f64) -> f64 {
        sd * (1.0 / self.alone.len() as f64 + 1.0 / self.together.len() as f64).sqrt()
    }
}

/// The geometric mean, which is the correct mean for ratios.
pub fn typical(times: &[f64]) -> f64 {
    if let [one] = times {
        return *one;
    }
    (times.iter().map(|time| time.ln()).sum::<f64>() / times.len().max(1) as f64).exp()
}

/// The sum of squared relative deviations of times from their mean.
fn spread(times: &[f64]) -> f64 {
    let mean = typical(times).ln();
    times.iter().map(|time| (time.ln() - mean).powi(2)).sum()
}

/// The uncertainty of the gain and of each member's speed.
struct Bounds {
    gain: f64,
    speeds: Vec<f64>,
}

impl Bounds {
    fn of(members: &[Times], error: impl Fn(&Times) -> f64, quantile: f64) -> Bounds {
        let squares: f64 = members.iter().map(|of| (of.speed() * error(of)).powi(2)).sum();
        Bounds { gain: quantile * squares.sqrt(), speeds: members.iter().map(|of| quantile * error(of)).collect() }
    }

    fn unrepeated(members: &[Times], look: u32) -> Bounds {
        let both = std::f64::consts::SQRT_2;
        let reckoned = |of: &Times| of.epochs.unwrap_or(0.0).max(both * UNREPEATED);
        let usual = |of: &Times| SIGMAS * of.epochs.unwrap_or(both * USUAL);
        // With this many degrees of freedom it is nearly the normal distribution.
        Bounds {
            speeds: members.iter().map(usual).collect(),
            ..Bounds::of(members, reckoned, t_quantile(allowed(look), 100.0))
        }
    }

    fn call(&self, members: &[Times], tolerance: f64) -> CallFigures {
        let gain: f64 = members.iter().map(Times::speed).sum();
        // A member is slower by 1/speed − 1. The slowest member counts.
        let slow = |sign: f64| {
            let slower = members.iter().zip(&self.speeds).map(|(of, off)| (1.0 + sign * off) / of.speed());
            slower.fold(0.0, f64::max)
        };
        let bound = 1.0 + tolerance;
        let slower = slow(-1.0) > bound;
        let call = if slow(0.0) <= bound && slow(1.0) <= bound + tolerance {
            Call::Parallel
        } else if !slower {
            Call::Undecided
        } else if (gain - 1.0).abs() < self.gain {
            if self.gain <= NARROW { Call::NoGain } else { Call::Undecided }
        } else if gain > 1.0 {
            Call::OnlyConcurrent
        } else {
            Call::SlowerThanOneAfterAnother
        };
        CallFigures { call, slower, gain, half: self.gain, speeds: self.speeds.clone(), repeated: false }
    }
}
