//! Identifiers. Dense numbers inside a run, words that sort by time outside of it.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! dense_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The position in a vector indexed by this identifier.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

dense_id! {
    /// An instance of a plan: its position in the plan's topological, deterministic order.
    InstanceId
}
dense_id! {
    /// A step of a workflow: its position in the file.
    StepId
}
dense_id! {
    /// One execution of an instance, counted over a whole run. A start carries it, and so does every event about the
    /// attempt, so that late events of an earlier attempt can be dropped.
    AttemptId
}
dense_id! {
    /// A co-run group of a plan.
    GroupId
}
dense_id! {
    /// A GPU: its position in the capacity's list.
    GpuId
}

/// A run; sorts by time: `20260208-153012-3f2a`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub String);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
