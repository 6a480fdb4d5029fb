//! Predicts a planned training on each machine that trainings ran on: its time, memory and energy. It uses trainings of
//! the same network on that machine. If there are none, it uses those of other networks and the computation of all.

use super::across::{Peer, across, leave_one_out};
use super::experiments::{Count, Experiment, Known, Part, Point};
use super::{Coordinate, Fit, MOST, Predicted, Tried, repeated};
use crate::{nearest, stats::median};

#[derive(Clone, Debug)]
pub struct Ask {
    pub model: String,
    pub batch: u32,
    /// Images that an epoch trains on.
    pub images: u64,
    pub epochs: u32,
    /// How many GPUs; else one where a machine has any.
    pub gpus: Option<u32>,
    /// Width and height of images; else what most trainings had.
    pub size: Option<u32>,
}

/// Why nothing can be said.
#[derive(Clone, Debug, PartialEq)]
pub enum PredictError {
    /// No training was measured.
    Nothing,
    /// Neither counted nor trained.
    NoModel { near: Option<String>, known: Vec<String> },
    /// They are fewer than a batch, which `torch/train` refuses.
    FewImages,
    /// A step has fewer images than there are GPUs.
    ManyGpus,
    /// No training ran on as many GPUs; on these numbers of GPUs some did.
    NoGpus { ran: Vec<u32> },
}

/// The measurements that a prediction lacks.
#[derive(Clone, Debug, PartialEq)]
pub struct Lack {
    /// It is not known what the network computes.
    pub count: bool,
    /// So many networks more are needed that were measured at such a point.
    pub models: usize,
    /// A training there, to run another like it: its workflow and step, and how long such runs took.
    pub like: Option<(String, String, f64)>,
}

/// On what an answer rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Trainings of the network itself, at so many points.
    Ran(u32),
    /// Trainings of so many others.
    Others(u32),
}

/// The prediction for a machine.
#[derive(Clone, Debug)]
pub struct Answer {
    pub basis: Basis,
    /// Seconds from start to exit.
    pub wall: Predicted,
    /// Seconds an epoch, with its validation.
    pub epoch: Predicted,
    /// Bytes on each GPU.
    pub memory: Option<Predicted>,
    /// Memory of each GPU.
    pub card: Option<u64>,
    /// Joules of all GPUs.
    pub energy: Option<Predicted>,
    /// How well seconds an image are said of what the answer rests on: each point from the others of its network, or each network
    /// from the others.
    pub tried: Vec<Tried>,
    /// So many times as wide as these intervals, as logarithms, is that of the answer, for nine of ten of these to be inside.
    pub wider: f64,
    /// The part of an epoch in which such trainings waited for data.
    pub waited: Option<f64>,
    /// The part of the CPUs that others used meanwhile.
    pub foreign: Option<f64>,
    /// Nobody told how many images validate: an epoch is its training alone.
    pub unvalidated: bool,
}

/// A machine, and what it would be there.
#[derive(Clone, Debug)]
pub struct OnMachine {
    pub machine: String,
    pub gpus: u32,
    pub answer: Result<Answer, Lack>,
}

/// The answer to all.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The size of the images, if it is known.
    pub size: Option<u32>,
    /// The network was trained or counted at that size: it takes such images.
    pub takes_size: bool,
    pub precision: String,
    pub machines: Vec<OnMachine>,
}

/// Networks on which a machine's trainings are held against each other.
const PEERS: usize = 3;

impl Known {
    /// The prediction for a training on each machine.
    ///
    /// # Errors
    /// The training is impossible, or nothing is known of it.
    pub fn plan(&self, ask: &Ask) -> Result<Planned, PredictError> {
        if self.experiments.is_empty() {
            return Err(PredictError::Nothing);
        }
        let mut models: Vec<&str> = self.experiments.iter().map(|of| &*of.model).collect();
        models.extend(self.counts.iter().map(|of| &*of.model));
        models.sort_unstable();
        models.dedup();
        if !models.contains(&&*ask.model) {
            let near = nearest(&ask.model, models.iter().copied()).map(str::to_owned);
            return Err(PredictError::NoModel { near, known: models.into_iter().map(str::to_owned).collect() });
        }
        if ask.images < u64::from(ask.batch) {
            return Err(PredictError::FewImages);
        }
        if ask.gpus.is_some_and(|gpus| gpus > ask.batch) {
            return Err(PredictError::ManyGpus);
        }
        let fits = |of: &&Experiment| ask.gpus.is_none_or(|gpus| (gpus > 0) == (of.point.gpus > 0));
        let of_model: Vec<&Experiment> = self.experiments.iter().filter(|of| of.model == ask.model).collect();
        let most = if of_model.is_empty() { self.experiments.iter().collect() } else { of_model };
        let precision = most_frequent(most.iter().map(|of| of.precision.clone())).unwrap_or_default();
        let size = ask.size.or_else(|| most_frequent(most.iter().filter_map(|of| of.point.size)));
        let trained = self.experiments.iter().map(|of| (&of.model, of.point.size));
        let counted = self.counts.iter().map(|of| (&of.model, Some(of.size)));
        let takes_size = size.is_none() || trained.chain(counted).any(|of| of == (&ask.model, size));
        let used: Vec<&Experiment> =
            self.experiments.iter().filter(fits).filter(|of| of.precision == precision).collect();
        let mut machines: Vec<&str> = used.iter().map(|of| &*of.machine).collect();
        machines.sort_unstable();
        machines.dedup();
        if machines.is_empty() {
            let mut ran: Vec<u32> = self.experiments.iter().map(|of| of.point.gpus).collect();
            ran.sort_unstable();
            ran.dedup();
            return Err(PredictError::NoGpus { ran });
        }
        let on = |machine: &&str| {
            let there: Vec<&Experiment> = used.iter().copied().filter(|of| of.machine == **machine).collect();
            let gpus = ask.gpus.unwrap_or(u32::from(there.iter().any(|of| of.point.gpus > 0)));
            let there = MachineTrainings { counts: &self.counts, of: there };
            let point = Point { batch: ask.batch, gpus, size };
            OnMachine { machine: (*machine).to_owned(), gpus, answer: there.answer(ask, point) }
        };
        Ok(Planned { size, takes_size, precision, machines: machines.iter().map(on).collect() })
    }

    /// The accuracy of predictions on each machine: seconds per image and memory of each point from the other points of
    /// its network, and of each network from the others at its point.
    pub fn check(&self) -> Vec<PartAccuracy> {
        let mut machines: Vec<(&str, &str)> =
            self.experiments.iter().map(|of| (&*of.machine, &*of.precision)).collect();
        machines.sort_unstable();
        machines.dedup();
        let mut all = Vec::new();
        for (machine, precision) in machines {
            let of = self.experiments.iter().filter(|of| of.machine == machine && of.precision == precision).collect();
            let there = MachineTrainings { counts: &self.counts, of };
            for part in [Part::Pace, Part::Memory, Part::Power] {
                let points: Vec<Tried> =
                    there.teachers().iter().flat_map(|model| there.each_point(part, model)).collect();
                let models: Vec<Tried> =
                    there.points().iter().flat_map(|point| there.each_model(part, *point)).collect();
                for (whole, tried) in [(false, points), (true, models)] {
                    if !tried.is_empty() {
                        let machine = machine.to_owned();
                        all.push(PartAccuracy { machine, part, whole_models: whole, tried });
                    }
                }
            }
        }
        all
    }
}

/// How well one part is said on a machine.
#[derive(Clone, Debug)]
pub struct PartAccuracy {
    pub machine: String,
    pub part: Part,
    /// Networks that were left out, rather than points.
    pub whole_models: bool,
    pub tried: Vec<Tried>,
}

/// The trainings of one machine.
struct MachineTrainings<'k> {
    counts: &'k [Count],
    of: Vec<&'k Experiment>,
}

impl MachineTrainings<'_> {
    fn answer(&self, ask: &Ask, point: Point) -> Result<Answer, Lack> {
        let model = &*ask.model;
        let Some((pace, tried)) = self.expect(Part::Pace, model, point) else { return Err(self.lack(model, point)) };
        let (wider, basis) = match self.values(Part::Pace, model).len() as u32 {
            0 => (widening(&tried), Basis::Others(self.peers(Part::Pace, model, point).len() as u32)),
            points => (widening(&tried), Basis::Ran(points)),
        };
        let pace = widened(pace, wider);
        let memory = self.expect(Part::Memory, model, point);
        let memory = memory.map(|(memory, tried)| widened(memory, widening(&tried)));
        // What is little beside these is not held against itself.
        let part = |part: Part| self.ran_or_peers(part, model, point).or_else(|| self.median(part));
        let longer = part(Part::Epoch);
        let trained = pace.scaled(ask.images as f64);
        let epoch = longer.map_or(trained, |longer| trained.times(&longer));
        let once = |part: Option<Predicted>| part.map(|part| (part, 1.0));
        let all = [Some((epoch, f64::from(ask.epochs))), once(part(Part::Startup)), once(part(Part::End))];
        let wall = Predicted::sum(all.into_iter().flatten()).unwrap_or(epoch);
        let others = self.teachers();
        let counts = |of: &&&Experiment| match basis {
            Basis::Ran(_) => of.model == model,
            Basis::Others(_) => others.contains(&&*of.model),
        };
        let like: Vec<&&Experiment> = self.of.iter().filter(counts).collect();
        Ok(Answer {
            basis,
            wall,
            epoch,
            memory: memory.filter(|_| point.gpus > 0),
            card: self.of.iter().filter_map(|of| of.card).min(),
            energy: part(Part::Power).filter(|_| point.gpus > 0).map(|power| power.times(&wall)),
            tried,
            wider,
            waited: median(like.iter().filter_map(|of| of.waited).collect()),
            foreign: median(like.iter().filter_map(|of| of.foreign).collect()),
            unvalidated: longer.is_none(),
        })
    }

    fn ran_or_peers(&self, part: Part, model: &str, point: Point) -> Option<Predicted> {
        let own = self.values(part, model);
        if own.is_empty() {
            return across(&self.peers(part, model, point), &self.features(part, model, point)?);
        }
        self.from(&own, part, model, point)
    }

    /// The same, and how well it is said of what it rests on.
    fn expect(&self, part: Part, model: &str, point: Point) -> Option<(Predicted, Vec<Tried>)> {
        let predicted = self.ran_or_peers(part, model, point)?;
        let tried = match self.values(part, model).is_empty() {
            true => leave_one_out(&self.peers(part, model, point)),
            false => {
                let calm = self.teachers();
                let alike = if calm.contains(&model) { calm } else { self.models() };
                alike.iter().flat_map(|model| self.each_point(part, model)).collect()
            }
        };
        Some((predicted, tried))
    }

    fn lack(&self, model: &str, point: Point) -> Lack {
        let walls = |of: &&&Experiment| of.wall_s;
        let like = self.of.iter().min_by_key(|of| of.point.batch.abs_diff(point.batch)).map(|like| {
            let of = self.of.iter().filter(|of| (&of.workflow, &of.step) == (&like.workflow, &like.step));
            (
                like.workflow.clone(),
                like.step.clone(),
                median(of.collect::<Vec<_>>().iter().map(walls).collect()).unwrap_or(0.0),
            )
        });
        let count = self.features(Part::Pace, model, point).is_none();
        Lack { count, models: PEERS.saturating_sub(self.peers(Part::Pace, model, point).len()), like }
    }

    fn models(&self) -> Vec<&str> {
        let mut models: Vec<&str> = self.of.iter().map(|of| &*of.model).collect();
        models.sort_unstable();
        models.dedup();
        models
    }

    /// Those from which something is learned: all that were left in peace, if they suffice.
    fn teachers(&self) -> Vec<&str> {
        let mut calm = self.models();
        calm.retain(|model| !self.of.iter().any(|of| of.model == *model && of.is_disturbed()));
        if calm.len() < PEERS { self.models() } else { calm }
    }

    fn points(&self) -> Vec<Point> {
        let mut points: Vec<Point> = Vec::new();
        for of in &self.of {
            if !points.contains(&of.point) {
                points.push(of.point);
            }
        }
        points
    }

    /// The measurements of a network, by point.
    fn values(&self, part: Part, model: &str) -> Vec<(Point, Vec<f64>)> {
        let mut values: Vec<(Point, Vec<f64>)> = Vec::new();
        for of in self.of.iter().filter(|of| of.model == model) {
            let Some(value) = of.parts[part as usize] else { continue };
            match values.iter_mut().find(|(point, _)| *point == of.point) {
                Some((_, known)) => known.push(value),
                None => values.push((of.point, vec![value])),
            }
        }
        values
    }

    /// The prediction for a network that ran here: from measurements at this point, else from the network's own points.
    /// If these are too few, points of other networks are added.
    fn ran(&self, part: Part, model: &str, point: Point) -> Option<Predicted> {
        self.from(&self.values(part, model), part, model, point)
    }

    fn from(&self, own: &[(Point, Vec<f64>)], part: Part, model: &str, point: Point) -> Option<Predicted> {
        if let Some((_, values)) = own.iter().find(|(at, _)| *at == point) {
            return repeated(values);
        }
        let measured = |own: &[(Point, Vec<f64>)], model: Option<&str>| {
            let all = own.iter().flat_map(|(at, values)| values.iter().map(move |value| (place(*at, model), *value)));
            all.collect::<Vec<_>>()
        };
        if own.len() >= PEERS {
            return Fit::of(&measured(own, None))?.at(&place(point, None));
        }
        if own.is_empty() {
            return None;
        }
        let mut others = Vec::new();
        for other in self.models().into_iter().filter(|other| *other != model) {
            others.extend(self.values(part, other).into_iter().map(|value| (other, value)));
        }
        // A fit takes so many; of more it would leave out what it likes.
        let away = |at: &Point| (f64::from(at.batch) / f64::from(point.batch)).ln().abs();
        others.sort_by(|(_, (a, _)), (_, (b, _))| away(a).total_cmp(&away(b)));
        let mut all = measured(own, Some(model));
        for (other, value) in others.into_iter().take(MOST - own.len()) {
            all.extend(measured(&[value], Some(other)));
        }
        Fit::of(&all)?.at(&place(point, Some(model)))
    }

    /// Other networks at a point.
    fn peers(&self, part: Part, model: &str, point: Point) -> Vec<Peer> {
        let peer = |other: &&str| {
            let value = self.ran(part, other, point).filter(|value| !value.far)?.value;
            Some(Peer { name: (*other).to_owned(), features: self.features(part, other, point)?, value })
        };
        self.teachers().iter().filter(|other| **other != model).filter_map(peer).collect()
    }

    /// The features that a part may depend on.
    fn features(&self, part: Part, model: &str, point: Point) -> Option<Vec<f64>> {
        let Count { macs, traffic, parameters, .. } = counted(self.counts, model, point.size)?;
        let share = f64::from(point.batch) / f64::from(point.gpus.max(1));
        Some(match part {
            // Each step reads and writes all weights, and begins each of its kernels.
            Part::Pace => vec![macs, traffic, parameters / f64::from(point.batch), 1.0],
            Part::Memory => vec![1.0, traffic * share, parameters],
            Part::Epoch | Part::Startup | Part::End | Part::Power => vec![1.0],
        })
    }

    /// The median over all that ran here, for parts that do not depend on the network.
    fn median(&self, part: Part) -> Option<Predicted> {
        let values: Vec<f64> = self.of.iter().filter_map(|of| of.parts[part as usize]).collect();
        repeated(&values).filter(|_| !matches!(part, Part::Pace | Part::Memory))
    }

    fn each_point(&self, part: Part, model: &str) -> Vec<Tried> {
        let own = self.values(part, model);
        let tried = |left: usize| {
            let (mut others, (point, values)) = (own.clone(), &own[left]);
            others.remove(left);
            let predicted = self.from(&others, part, model, *point).filter(|predicted| !predicted.far)?;
            Some(Tried { of: model.to_owned(), measured: median(values.clone())?, predicted })
        };
        // One of two says of the other what it likes.
        if own.len() > 2 { (0..own.len()).filter_map(tried).collect() } else { Vec::new() }
    }

    /// Each network that was measured at a point, from the others that were.
    fn each_model(&self, part: Part, point: Point) -> Vec<Tried> {
        let peer = |model: &&str| {
            let own = self.values(part, model);
            let (_, values) = own.iter().find(|(at, _)| *at == point)?;
            let features = self.features(part, model, point)?;
            Some(Peer { name: (*model).to_owned(), features, value: median(values.clone())? })
        };
        leave_one_out(&self.teachers().iter().filter_map(peer).collect::<Vec<_>>())
    }
}

/// The computation of a network per image of a size: as counted, else in proportion to the pixels.
fn counted(counts: &[Count], model: &str, size: Option<u32>) -> Option<Count> {
    let of = counts.iter().filter(|count| count.model == model);
    let Some(size) = size else { return of.max_by_key(|count| count.size).cloned() };
    let near = of.min_by_key(|count| count.size.abs_diff(size))?;
    let pixels = (f64::from(size) / f64::from(near.size)).powi(2);
    Some(Count { macs: near.macs * pixels, traffic: near.traffic * pixels, size, ..near.clone() })
}

/// How much wider intervals have to be for nine of ten to hold what was measured, and for all of fewer than nine.
fn widening(tried: &[Tried]) -> f64 {
    let need = |Tried { measured, predicted: Predicted { value, low, high, .. }, .. }: &Tried| {
        let off = (measured / value).ln();
        off.abs() / if off > 0.0 { (high / value).ln() } else { (value / low).ln() }
    };
    let mut needs: Vec<f64> = tried.iter().map(need).filter(|need| need.is_finite()).collect();
    needs.sort_by(f64::total_cmp);
    let at = (0.9 * (needs.len() as f64 + 1.0)).ceil() as usize;
    needs.get(at.min(needs.len()).saturating_sub(1)).map_or(1.0, |need| need.max(1.0))
}

fn widened(of: Predicted, times: f64) -> Predicted {
    let Predicted { value, low, high, .. } = of;
    Predicted { low: value * (low / value).powf(times), high: value * (high / value).powf(times), ..of }
}

fn place(point: Point, model: Option<&str>) -> Vec<Coordinate> {
    let number = |n: u32| match n {
        0 => Coordinate::Name(String::new()),
        n => Coordinate::Number(f64::from(n)),
    };
    let name = model.map(|model| Coordinate::Name(model.to_owned()));
    [number(point.batch), number(point.gpus), number(point.size.unwrap_or(0))].into_iter().chain(name).collect()
}

fn most_frequent<T: Ord>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    let mut runs: Vec<(usize, T)> = Vec::new();
    for value in values {
        match runs.last_mut() {
            Some((count, known)) if *known == value => *count += 1,
            _ => runs.push((1, value)),
        }
    }
    runs.into_iter().max_by_key(|(count, _)| *count).map(|(_, value)| value)
}
