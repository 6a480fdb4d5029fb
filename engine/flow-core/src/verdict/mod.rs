//! What running together comes to, out of times measured alone and together, and whether that is known well enough. Numbers in,
//! a verdict out; `runs` takes the numbers from results.
//!
//! The unit is a run: epochs of one run share what differs from run to run, and say nothing of it. As long as nothing was repeated
//! nobody knows how much that is, and a gain or a loss has to exceed what a noisy machine does (`UNREPEATED`). From the second run
//! on the spread of all times that were measured more than once is pooled, relative to each mean, with Student's t.
//!
//! flow looks after each repetition whether that will do, and each look is a chance to err. So look `k` may err with a probability of
//! `ERROR / (k (k + 1))`, which comes to no more than `ERROR` however often it looks: Bonferroni's inequality, spent as K. K. G. Lan and
//! D. L. DeMets spend it ("Discrete sequential boundaries for clinical trials", Biometrika 70 (1983), 659–663). It needs no bound on the
//! number of looks, so that a verdict stays what it is when more are allowed; and it is spent slowly enough that what more runs tell
//! outweighs that they are looked at, however much the times differ from run to run.

mod runs;

#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use runs::{FOREIGN_CPU, Group, Judged, Refusal, Runs, Verdict, groups};

use crate::interval::student;

/// Slower than alone by up to this is still parallel, unless a report says otherwise.
pub const TOLERANCE: f64 = 0.10;
/// How often a group and its runs alone run at most where nothing else is said.
pub const AT_MOST: u32 = 3;

/// How often at most a gain or a loss is found where there is none, less than the 5 % that are promised: of ratios of few times Student's
/// t is off by a little.
const ERROR: f64 = 0.04;
/// A gain is known to be none where half its interval is no wider.
const NARROW: f64 = 0.05;
/// The relative standard deviation from run to run that is reckoned with while nothing was repeated.
pub const UNREPEATED: f64 = 0.08;
/// What an undisturbed program is usually off by: enough to call what is as fast as alone parallel, which is no gain and no loss.
pub const USUAL: f64 = 0.02;
/// How many standard errors of the usual one a difference must exceed.
const SIGMAS: f64 = 2.0;
/// Nobody repeats anything as often as this to know.
const MANY: u32 = 100;

/// The times of a member of a group, one a run, all above 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    pub alone: Vec<f64>,
    pub together: Vec<f64>,
    /// The relative standard error of one run against one run, as their epochs have it.
    pub epochs: Option<f64>,
}

/// What running together comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// As fast as alone, up to the tolerance.
    Parallel,
    /// Slower, yet more work done than one after another.
    OnlyConcurrent,
    /// Slower, and as much work done as one after another.
    NoGain,
    /// Less work done than one after another.
    SlowerThanOneAfterAnother,
    /// Not known well enough.
    Undecided,
}

/// A call with its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Called {
    pub call: Call,
    /// A member is slower than the tolerance allows, beyond the noise.
    pub slower: bool,
    /// Work done together, in units of one job running alone: above 1 is a gain over one after another.
    pub gain: f64,
    /// Half the interval of the gain.
    pub half: f64,
    /// Half the interval of each member's speed, relative to it. While nothing was repeated, as its epochs have it.
    pub speeds: Vec<f64>,
    /// How much runs differ was measured.
    pub repeated: bool,
}

/// Calls a group with members, after this look.
pub fn call(members: &[Times], look: u32, tolerance: f64) -> Called {
    let speeds: Vec<Speed> = members.iter().map(Speed::of).collect();
    let pooled = pooled(members);
    let bounds = match pooled {
        None => Bounds::unrepeated(&speeds, look),
        Some((sd, freedom)) => {
            let error = |speed: &Speed| sd * (1.0 / speed.alone + 1.0 / speed.together).sqrt();
            Bounds::of(&speeds, error, student(allowed(look), freedom))
        }
    };
    Called { repeated: pooled.is_some(), ..bounds.call(&speeds, tolerance) }
}

/// The relative standard deviation from run to run, with its degrees of freedom; none where nothing was measured twice.
fn pooled(members: &[Times]) -> Option<(f64, u32)> {
    let series = members.iter().flat_map(|member| [&member.alone, &member.together]);
    let (squares, freedom) = series.fold((0.0, 0), |(squares, freedom), times| {
        (squares + spread(times), freedom + times.len().saturating_sub(1) as u32)
    });
    (freedom > 0).then(|| ((squares / f64::from(freedom)).sqrt(), freedom))
}

/// How likely this look may err, from the first on.
fn allowed(look: u32) -> f64 {
    let look = f64::from(look.max(1));
    ERROR / (look * (look + 1.0))
}

/// How many more repetitions would decide an undecided comparison if the times stayed as they are; `None` if more than
/// `MANY`. That is so in most cases: what differs from run to run is itself known from few runs, and so is the gain, so the one is
/// reckoned a standard error larger, and the other that much nearer to none.
pub fn more(members: &[Times], look: u32, tolerance: f64) -> Option<u32> {
    let speeds: Vec<Speed> = members.iter().map(Speed::of).collect();
    let made = members.iter().map(|member| member.together.len() as u32).max().unwrap_or(1);
    let first = |sd: f64, nearer: f64| {
        (1..=MANY).find(|more| {
            let runs = made + more;
            let error = sd * (2.0 / f64::from(runs)).sqrt();
            let freedom = (members.len() as u32 * 2 * (runs - 1)).max(1);
            let bounds = Bounds::of(&speeds, |_| error, student(allowed(look + more), freedom));
            let Called { call, gain, half, .. } = bounds.call(&speeds, tolerance);
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
    let error = |speed: &Speed| larger * (1.0 / speed.alone + 1.0 / speed.together).sqrt();
    let wary = first(larger, Bounds::of(&speeds, error, 1.0).gain);
    // Only what would not do by any reckoning is said not to.
    wary.or_else(|| first(sd, 0.0).map(|_| MANY))
}

/// Speed of a member together, 1 being as fast as alone.
struct Speed {
    of: f64,
    alone: f64,
    together: f64,
    epochs: Option<f64>,
}

impl Speed {
    fn of(times: &Times) -> Speed {
        Speed {
            of: typical(&times.alone) / typical(&times.together),
            alone: times.alone.len() as f64,
            together: times.together.len() as f64,
            epochs: times.epochs,
        }
    }
}

/// The geometric mean: of ratios it is the honest one.
pub fn typical(times: &[f64]) -> f64 {
    if let [one] = times {
        return *one;
    }
    (times.iter().map(|time| time.ln()).sum::<f64>() / times.len().max(1) as f64).exp()
}

/// The sum of squared relative deviations from their mean.
fn spread(times: &[f64]) -> f64 {
    let mean = typical(times).ln();
    times.iter().map(|time| (time.ln() - mean).powi(2)).sum()
}

/// How far off the gain, and the speed of each member, may be.
struct Bounds {
    gain: f64,
    speeds: Vec<f64>,
}

impl Bounds {
    fn of(speeds: &[Speed], error: impl Fn(&Speed) -> f64, quantile: f64) -> Bounds {
        let squares: f64 = speeds.iter().map(|speed| (speed.of * error(speed)).powi(2)).sum();
        Bounds { gain: quantile * squares.sqrt(), speeds: speeds.iter().map(|speed| quantile * error(speed)).collect() }
    }

    fn unrepeated(speeds: &[Speed], look: u32) -> Bounds {
        let both = std::f64::consts::SQRT_2;
        let reckoned = |speed: &Speed| speed.epochs.unwrap_or(0.0).max(both * UNREPEATED);
        let usual = |speed: &Speed| SIGMAS * speed.epochs.unwrap_or(both * USUAL);
        // Of so many degrees of freedom it is all but the normal distribution.
        Bounds {
            speeds: speeds.iter().map(usual).collect(),
            ..Bounds::of(speeds, reckoned, student(allowed(look), 100))
        }
    }

    fn call(&self, speeds: &[Speed], tolerance: f64) -> Called {
        let gain: f64 = speeds.iter().map(|speed| speed.of).sum();
        // A member is slower by 1/speed − 1; what counts is the one that suffers most.
        let slow = |sign: f64| {
            let slower = speeds.iter().zip(&self.speeds).map(|(speed, off)| (1.0 + sign * off) / speed.of);
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
        Called { call, slower, gain, half: self.gain, speeds: self.speeds.clone(), repeated: false }
    }
}
