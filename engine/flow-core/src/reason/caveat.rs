//! Why the numbers of a result may not cover the whole attempt. No words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why the numbers of a result may not cover the whole attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Caveat {
    /// A series holds only the first values. Last, min and max cover all values.
    FirstValues {
        /// Number of values kept.
        kept: u64,
        /// Number of values printed.
        printed: u64,
    },
    /// Part of the output was not read: it came too fast, or the middle of a long log was freed.
    OutputUnread { bytes: u64 },
}
