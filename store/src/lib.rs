//! Results, history, artifacts and snapshots: what a later run can use. `flow-runs` has the other files of a store.
//!
//! | where | what | module |
//! | --- | --- | --- |
//! | `db/` | results by fingerprint, last fingerprints, history; for the holder alone | [`Store`] |
//! | `index` | where the journals have them; for all others | [`Store`] |
//! | `objects/` | artifacts by digest | [`Objects`] |
//! | `runs/` too | results of other machines, a journal for each import | [`Import`] |
//! | `runs/ID/inputs` | copies of inputs, during the run | [`Captures`] |
//! | `snapshots/` | what the results of a finished run depend on | [`Snapshot`], [`Inputs`] |
//!
//! Order of writes: an attempt's artifacts in `objects/`, then the line in the journal, then its result in `db/`; the
//! first two are synced. A kill in between loses what follows, never what came before, and nothing refers to missing
//! data. The next opening adds to `db/` what only the journal has, so a lost database is rebuilt from the journals.
//! A process that does not hold the database reads the index and the ends of journals that it does not cover. The
//! holder reads the journals of other living runs in the same way.
//!
//! Nothing here decides whether a result may be reused, knows how steps run, or prints. Time is an argument.
#![forbid(unsafe_code)]

mod activity;
mod bytes;
mod capture;
mod commit;
mod db;
mod doctor;
mod gc;
mod group;
mod hash;
mod ignored;
mod imports;
mod index;
mod inputs;
mod limits;
mod manifest;
mod memory;
mod mutex;
mod objects;
mod open_database;
mod recover;
mod replay;
mod results;
mod rings;
mod snapshot;
mod sparse;
mod stamp;
mod store;

pub use activity::{Activity, ShownWork, WorkProgress};
pub use capture::{CapturedInput, Captures, InputToCapture, OrphanedCopy};
pub use commit::{Commit, CommitError};
pub use db::free_space;
pub use doctor::{Diagnosis, doctor};
pub use gc::{FreedSpace, Retention, gc};
pub use group::{GroupStore, init_for_group};
pub use imports::Import;
pub use inputs::{Inputs, Listing, Tree};
pub use limits::{ALL_BYTES, ALL_FILES, CAPTURE_BYTES, CAPTURE_FILES, CopyRoom, InputSize};

pub use manifest::{Entry, EntryKind, Manifest};
pub use objects::{ArtifactForm, LostOutput, Objects};
pub use recover::RebuiltDatabase;
pub use replay::recorded;
pub use results::{Batch, EarlierData, HISTORY, LastFingerprint, device_shape, shapes};
pub use snapshot::{FinishedRun, Snapshot, SnapshotResult};
pub use store::Store;
