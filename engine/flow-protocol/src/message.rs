//! Messages that a program sends to the engine while it runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// One line of `messages.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Seconds since 1970 when the program wrote it. Without it the engine takes the time at which it read the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<f64>,
    /// The message; its `type` says which.
    #[serde(flatten)]
    pub message: Message,
}

impl Line {
    /// Reads a line as programs write it: also with `NaN`, `Infinity` and `-Infinity`, which no JSON holds and Python writes
    /// into it.
    ///
    /// # Errors
    /// It is not of the protocol.
    pub fn read(line: &[u8]) -> serde_json::Result<Line> {
        serde_json::from_slice(line).or_else(|error| match without_bare(line) {
            Some(line) => serde_json::from_slice(&line),
            None => Err(error),
        })
    }
}

/// The line with `null` in place of what Python writes for a number that is not finite; `None` if there is none of that in it.
fn without_bare(line: &[u8]) -> Option<Vec<u8>> {
    const BARE: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];
    let (mut out, mut rest, mut quoted, mut found) = (Vec::with_capacity(line.len()), line, false, false);
    while let Some(&byte) = rest.first() {
        let length = match BARE.iter().find(|bare| !quoted && rest.starts_with(bare)) {
            Some(bare) => {
                out.extend_from_slice(b"null");
                found = true;
                bare.len()
            }
            None => {
                // Of an escape in a text the second byte means nothing by itself.
                let length = if quoted && byte == b'\\' { rest.len().min(2) } else { 1 };
                out.extend_from_slice(&rest[..length]);
                quoted ^= byte == b'"';
                length
            }
        };
        rest = &rest[length..];
    }
    found.then_some(out)
}

/// A message of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    /// The first line: who speaks, and in which version. Said again, it adds facts.
    Hello {
        /// [`crate::PROTOCOL`] of the program.
        protocol: u32,
        /// The plugin's name.
        plugin: String,
        /// The plugin's version.
        version: String,
        /// Versions and devices that belong to the circumstances of a result: `torch`, `cuda`, `device`, `precision`.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        facts: BTreeMap<String, String>,
    },
    /// How far it is; for people, never stored.
    Progress {
        /// Between 0 and 1.
        fraction: f64,
        /// A few words: `epoch 2/4, loss 0.31, 512 images/s`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// An epoch ended. Epochs that lie wholly inside the window of a co-run group are the ones that count.
    Epoch {
        /// Counted from 1.
        epoch: u32,
        /// Seconds since 1970 when it began.
        started_at: f64,
        /// Seconds since 1970 when it ended.
        ended_at: f64,
    },
    /// A number. With `epoch` it is one value of a series, without it the value of the attempt.
    Metric {
        /// `[a-z][a-z0-9_]*`, the field's standard term: `train_loss`, `top1`, `images_per_s`.
        name: String,
        /// The value. A value that JSON cannot represent, such as the loss of a diverged training, is written as `null`
        /// and read as NaN.
        #[serde(deserialize_with = "number")]
        value: f64,
        /// `s`, `images/s`, `bytes`, `ratio` (shown as per cent), or empty for a plain number.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        unit: String,
        /// The epoch it belongs to, counted from 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<u32>,
        /// How the series becomes one number.
        #[serde(default, skip_serializing_if = "Summary::is_last")]
        summary: Summary,
    },
    /// Set up and warm: the barrier of a co-run group.
    Ready,
    /// Its own epochs are done. A member of a co-run group continues until `stop`, only to keep the others company.
    Sufficed,
    /// How it went. The last one counts, together with the exit record.
    Outcome {
        /// The program's own view.
        outcome: Outcome,
        /// A sentence for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
}

/// How a series becomes one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Summary {
    /// The last epoch's value: losses, accuracy.
    #[default]
    Last,
    /// The mean over the epochs that count, without the first (warm-up) unless it is the only one: times, rates.
    Mean,
}

impl Summary {
    fn is_last(&self) -> bool {
        *self == Summary::Last
    }
}

/// Outcomes that a program can tell by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Done; the outputs are complete.
    Ok,
    /// The GPU's memory did not suffice. A result, not a crash.
    OutOfMemory,
    /// It failed.
    Failed,
}

/// A number, which has to be there, or `null`.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}
