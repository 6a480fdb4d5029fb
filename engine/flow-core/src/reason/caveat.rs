//! Why numbers of a result may not be those of the whole attempt. No words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why numbers of a result may not be those of the whole attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Caveat {
    /// A series holds the first values only. The last, least and greatest value are those of all.
    FirstValues {
        /// How many it holds.
        kept: u64,
        /// How many were printed.
        printed: u64,
    },
    /// A part of the output was not read: it came too fast, or the middle of a long log was not kept.
    OutputUnread { bytes: u64 },
}
