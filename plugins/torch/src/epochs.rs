//! The epochs of a training: steps, validation, messages and checkpoints. Knows neither files of weights nor how a
//! training begins.

use std::time::Instant;

use fastrand::Rng;
use flow_plugin::{Attempt, Error, Summary, now};

use crate::checkpoint::{Checkpoints, Score};
use crate::dataset::Split;
use crate::deadline;
use crate::loader::Loader;
use crate::options::Options;
use crate::random;
use crate::trainer::{self, Trainer};

/// A training that is about to make its first step, or the first after those that an earlier attempt has made.
pub(crate) struct Epochs<'a> {
    pub(crate) trainer: Trainer,
    pub(crate) loader: &'a Loader,
    pub(crate) split: &'a Split,
    pub(crate) options: &'a Options,
    pub(crate) attempt: &'a Attempt,
    /// The scores of the finished epochs.
    pub(crate) scores: Vec<Score>,
    /// The checkpoints for the next attempt, if any are written.
    pub(crate) checkpoints: Option<Checkpoints>,
}

impl Epochs<'_> {
    /// Trains the requested epochs and writes the weights. In a co-run group it then continues to keep the others
    /// company.
    pub(crate) fn run(mut self) -> Result<(), Error> {
        let (attempt, last, grouped) =
            (self.attempt, self.options.all_epochs(), self.attempt.request().corun.is_some());
        for (epoch, score) in (1..).zip(&self.scores) {
            report(attempt, epoch, score);
        }
        let first = self.scores.len() as u32 + 1;
        if first > 1 {
            attempt.log(format!("goes on from epoch {first}: those before it are done"));
        }
        for epoch in first.. {
            if epoch > last && (!grouped || attempt.stopped()) {
                break;
            }
            let Some(score) = self.epoch(epoch)? else { break };
            if epoch > last {
                continue;
            }
            self.scores.push(score);
            if epoch == self.options.freeze_epochs {
                self.trainer.freeze(false)?;
                self.trainer.record()?;
            }
            if epoch < last {
                let warned = deadline::is_near();
                self.keep(warned);
                if warned {
                    return Err(Error::failed(format!(
                        "was told that its time is up soon, and ended after epoch {epoch}"
                    )));
                }
                continue;
            }
            self.trainer.save(&attempt.output("model")?)?;
            if grouped {
                attempt.sufficed();
            }
        }
        Ok(())
    }

    /// Trains and reports one epoch. `None` if it had to end in the middle.
    fn epoch(&mut self, epoch: u32) -> Result<Option<Score>, Error> {
        let Self { loader, split, options, attempt, .. } = *self;
        let (request, all) = (attempt.request(), options.all_epochs());
        let (started, clock) = (now(), Instant::now());
        let seed = |purpose| random::seed([request.seed, purpose, u64::from(epoch)]);
        let mut order = split.train.clone();
        Rng::with_seed(seed(random::ORDER)).shuffle(&mut order);
        let (images, steps) = (order.len(), order.len().div_ceil(options.batch));
        // Pictures of the last batch that count.
        let counting = images - (steps - 1) * options.batch;
        let filled = self.trainer.takes_whole_batches() || counting == 1;
        if filled {
            order.extend_from_within(..steps * options.batch - images);
        }

        // By itself, so that a training that was interrupted goes on as if it had not been.
        tch::manual_seed(seed(random::DROPOUT) as i64);
        let frozen = if epoch <= options.freeze_epochs { ", trunk frozen" } else { "" };
        let said = self.scores.last().map(Score::words).unwrap_or_default();
        let (mut pass, mut step) = (loader.pass(order, options.batch, Some(seed(random::AUGMENT))), 0_u32);
        while let Some(batch) = pass.next()? {
            if epoch > all && attempt.stopped() {
                // Half an epoch more is of no use to anybody.
                return Ok(None);
            }
            let done = f64::from(epoch - 1) + f64::from(step) / steps as f64;
            step += 1;
            if filled && step as usize == steps {
                trainer::count_only(&batch, counting);
            }
            self.trainer.load(&batch)?;
            self.trainer.step(options.lr_after(done))?;
            let rate = images.min(step as usize * options.batch) as f64 / clock.elapsed().as_secs_f64();
            let text = format!("epoch {epoch}/{all}{frozen}{said}, {rate:.0} images/s");
            attempt.progress((done / f64::from(all)).min(1.0), text);
        }
        let train_loss = self.trainer.take_sums()?.loss / images as f64;
        let (rate, mut waited) = (images as f64 / clock.elapsed().as_secs_f64(), pass.waited());
        drop(pass);

        self.trainer.agree()?;
        let mut pass = loader.pass(split.valid.clone(), options.batch, None);
        while let Some(batch) = pass.next()? {
            self.trainer.validate(&batch)?;
        }
        let sums = self.trainer.take_sums()?;
        waited += pass.waited();

        for (name, value, unit) in [
            ("epoch_time", clock.elapsed().as_secs_f64(), "s"),
            ("images_per_s", rate, "images/s"),
            ("data_wait", waited.as_secs_f64(), "s"),
        ] {
            attempt.epoch_metric(name, value, unit, epoch, Summary::Mean);
        }
        let count = split.valid.len() as f64;
        let score = Score { train_loss, valid: (count > 0.0).then(|| (sums.loss / count, sums.right / count)) };
        if epoch <= all {
            report(attempt, epoch, &score);
        }
        attempt.epoch(epoch, started, now());
        attempt.log(format!("epoch {epoch}/{all}{frozen}{}, {rate:.0} images/s", score.words()));
        Ok(Some(score))
    }

    /// Writes a checkpoint if one is due, or `in_any_case`. If that fails, the training continues without checkpoints.
    fn keep(&mut self, in_any_case: bool) {
        let due = |checkpoints: &&mut Checkpoints| in_any_case || checkpoints.is_due();
        let Some(checkpoints) = self.checkpoints.as_mut().filter(due) else { return };
        let state = self.trainer.state().map_err(|error| error.to_string());
        if let Err(error) = state.and_then(|state| checkpoints.write(&self.scores, state)) {
            self.attempt.log(format!("no checkpoint could be written, and no more are: {error}"));
            self.checkpoints = None;
        }
    }
}

/// How good the network was after an epoch.
fn report(attempt: &Attempt, epoch: u32, score: &Score) {
    let metric = |name: &str, value: f64, unit: &str| attempt.epoch_metric(name, value, unit, epoch, Summary::Last);
    metric("train_loss", score.train_loss, "");
    if let Some((loss, right)) = score.valid {
        metric("valid_loss", loss, "");
        metric("error_rate", 1.0 - right, "ratio");
        metric("top1", right, "ratio");
    }
}

impl Score {
    fn words(&self) -> String {
        let loss = format!(", loss {:.2}", self.train_loss);
        match self.valid {
            Some((_, right)) => format!("{loss}, top1 {:.1} %", 100.0 * right),
            None => loss,
        }
    }
}
