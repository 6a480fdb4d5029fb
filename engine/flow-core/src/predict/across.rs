//! Predicts a network that was not measured from networks that were. A quantity is a weighted sum of features of the
//! network: computation, data movement and parameters. Leave-one-out errors select the features and their weights.
//! Knows no store.

use super::{Predicted, Tried};
use crate::stats::{least_squares, t_quantile};

/// The part of all that is to lie outside of an interval.
const OUTSIDE: f64 = 0.1;
/// How far beyond the networks that were measured one is not to be relied on.
const FAR: f64 = 2.0;
/// Nothing is known better than this.
const LEAST: f64 = 0.02;

/// A network that was measured: what it is made of, and what it came to.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) name: String,
    pub(super) features: Vec<f64>,
    pub(super) value: f64,
}

/// So many networks tell so many terms; fewer than three tell nothing.
fn terms(peers: usize) -> usize {
    match peers {
        0..=2 => 0,
        3..=4 => 1,
        5..=6 => 2,
        _ => 3,
    }
}

/// Terms with their weights, and how far off they are of networks that they were not fitted to, as the deviation of a logarithm.
struct Law {
    terms: Vec<usize>,
    weights: Vec<f64>,
    off: f64,
    freedom: f64,
}

impl Law {
    fn at(&self, features: &[f64]) -> f64 {
        self.terms.iter().zip(&self.weights).map(|(&term, weight)| weight * features[term]).sum()
    }

    /// The best of all.
    fn of(peers: &[Peer]) -> Option<Law> {
        let count = peers.first()?.features.len();
        let most = terms(peers.len());
        let subsets = (1_u32..1 << count).filter(|set| set.count_ones() as usize <= most);
        let law = |set: u32| {
            let terms: Vec<usize> = (0..count).filter(|term| set & (1 << term) != 0).collect();
            let weights = weights(&terms, peers.iter())?;
            let mut squares = 0.0;
            for left in 0..peers.len() {
                let others = peers.iter().enumerate().filter(|(at, _)| *at != left).map(|(_, peer)| peer);
                let law = Law { weights: self::weights(&terms, others)?, terms: terms.clone(), off: 0.0, freedom: 0.0 };
                squares += (law.at(&peers[left].features) / peers[left].value).ln().powi(2);
            }
            let freedom = (peers.len() - terms.len()) as f64;
            // Terms that are there by choice are paid for.
            Some(Law { terms, weights, off: (squares / freedom).sqrt().max(LEAST), freedom })
        };
        subsets.filter_map(law).min_by(|a, b| a.off.total_cmp(&b.off))
    }
}

/// By relative least squares. `None` if a weight would not be above 0.
fn weights<'p>(terms: &[usize], peers: impl Iterator<Item = &'p Peer>) -> Option<Vec<f64>> {
    let peers: Vec<&Peer> = peers.collect();
    let shares = |term: usize| peers.iter().map(|peer| peer.features[term] / peer.value).collect::<Vec<f64>>();
    // In units of their own, because they differ by ten orders of magnitude.
    let scaled = |&term: &usize| {
        let column = shares(term);
        let unit = column.iter().sum::<f64>() / column.len() as f64;
        (unit.is_finite() && unit > 0.0).then(|| (unit, column.iter().map(|share| share / unit).collect()))
    };
    let (units, columns): (Vec<f64>, Vec<Vec<f64>>) =
        terms.iter().map(scaled).collect::<Option<Vec<_>>>()?.into_iter().unzip();
    let solved = least_squares(&columns, &vec![1.0; peers.len()])?;
    let weight = |(value, unit): (f64, f64)| (value > 1e-6).then_some(value / unit);
    solved.values().zip(units).map(weight).collect()
}

/// The prediction for a network. `None` if too few networks were measured, or if no law fits them.
pub(super) fn across(peers: &[Peer], features: &[f64]) -> Option<Predicted> {
    let law = Law::of(peers)?;
    let value = law.at(features);
    let factor = (t_quantile(OUTSIDE, law.freedom) * law.off).exp();
    let out = |term: &usize| {
        let of = || peers.iter().map(|peer| peer.features[*term]);
        let (least, most) = of().fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), x| (least.min(x), most.max(x)));
        (features[*term] / most).max(least / features[*term])
    };
    let out = law.terms.iter().map(out).fold(0.0, f64::max);
    let points = peers.len() as u32;
    (value > 0.0).then_some(Predicted {
        value,
        low: value / factor,
        high: value * factor,
        points,
        beyond: out > 1.0 + 1e-9,
        far: out > FAR,
    })
}

/// Each network as the others say it.
pub(super) fn leave_one_out(peers: &[Peer]) -> Vec<Tried> {
    let tried = |left: usize| {
        let (mut others, peer) = (peers.to_vec(), &peers[left]);
        others.remove(left);
        let predicted = across(&others, &peer.features)?;
        Some(Tried { of: peer.name.clone(), measured: peer.value, predicted })
    };
    (0..peers.len()).filter_map(tried).collect()
}
