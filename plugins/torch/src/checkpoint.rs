//! The state that a training needs to resume after its finished epochs. It is one file in the checkpoint folder,
//! replaced as a whole. Knows no networks.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tch::{Kind, Tensor};

use crate::weights;

/// Writing takes at most this part of the time.
const SHARE: f64 = 0.05;
const FILE: &str = "training.safetensors";
const EPOCHS: &str = "epochs";

/// How good a network was after an epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Score {
    pub(crate) train_loss: f64,
    /// Loss and share of right answers, where there is something to validate with.
    pub(crate) valid: Option<(f64, f64)>,
}

/// Writes the state of a training after epochs.
pub(crate) struct Checkpoints {
    folder: PathBuf,
    took: Duration,
    written: Instant,
}

/// A checkpoint that was read.
pub(crate) struct Checkpoint {
    pub(crate) scores: Vec<Score>,
    pub(crate) state: Vec<(String, Tensor)>,
}

impl Checkpoints {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), took: Duration::ZERO, written: Instant::now() }
    }

    /// The checkpoint of an earlier attempt. The error says why it cannot be read.
    pub(crate) fn read(&self) -> Result<Option<Checkpoint>, String> {
        let file = self.folder.join(FILE);
        if !file.exists() {
            return Ok(None);
        }
        let mut state = weights::tensors(&file)?;
        let epochs = state.iter().position(|(name, _)| name == EPOCHS);
        let epochs = epochs.map(|epochs| state.swap_remove(epochs).1);
        let is_table = |epochs: &Tensor| epochs.kind() == Kind::Double && epochs.dim() == 2 && epochs.size()[1] == 3;
        let epochs = epochs.filter(is_table).ok_or("it does not say which epochs are done")?;
        let rows = epochs.size()[0];
        let score = |row: i64| {
            let [train_loss, valid_loss, right] = [0, 1, 2].map(|column| epochs.double_value(&[row, column]));
            Score { train_loss, valid: (!right.is_nan()).then_some((valid_loss, right)) }
        };
        Ok(Some(Checkpoint { scores: (0..rows).map(score).collect(), state }))
    }

    /// Whether writing is worth its time.
    pub(crate) fn is_due(&self) -> bool {
        self.written.elapsed().as_secs_f64() * SHARE >= self.took.as_secs_f64()
    }

    /// Writes the state after the epochs that have these scores.
    pub(crate) fn write(&mut self, scores: &[Score], mut state: Vec<(String, Tensor)>) -> Result<(), String> {
        let begun = Instant::now();
        let numbers = |score: &Score| {
            let (loss, right) = score.valid.unwrap_or((f64::NAN, f64::NAN));
            [score.train_loss, loss, right]
        };
        let rows: Vec<f64> = scores.iter().flat_map(numbers).collect();
        state.push((EPOCHS.to_owned(), Tensor::from_slice(&rows).view([scores.len() as i64, 3])));
        let (file, new) = (self.folder.join(FILE), self.folder.join("new"));
        Tensor::write_safetensors(&state, &new).map_err(|error| error.to_string())?;
        fs::rename(&new, &file).map_err(|error| error.to_string())?;
        (self.took, self.written) = (begun.elapsed(), Instant::now());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let mut checkpoints = Checkpoints::new(folder.path());
        assert!(checkpoints.read().unwrap().is_none() && checkpoints.is_due());
        let first = Score { train_loss: 0.1, valid: Some((f64::NAN, 0.25)) };
        let scores = [first, Score { train_loss: f64::INFINITY, valid: None }];
        checkpoints.write(&scores, vec![("weight".to_owned(), Tensor::from_slice(&[1.0f32, 2.0]))]).unwrap();
        let read = checkpoints.read().unwrap().unwrap();
        assert_eq!(format!("{:?}", read.scores), format!("{scores:?}"));
        assert_eq!(read.state.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["weight"]);
        let file = folder.path().join(FILE);
        let whole = fs::read(&file).unwrap();
        fs::write(&file, &whole[..whole.len() - 1]).unwrap();
        let why = checkpoints.read().err().unwrap();
        assert!(why.contains("it is cut short"), "{why}");
        Tensor::write_safetensors(&[("weight", Tensor::from(1.0))], &file).unwrap();
        assert_eq!(checkpoints.read().err().unwrap(), "it does not say which epochs are done");
    }
}
