//! Everything that outlives a run: results, history, artifacts, journals, the snapshot.
//!
//! | where | what | module |
//! | --- | --- | --- |
//! | `format` | the store's version | [`StoreDir`] |
//! | `users`, `runs/ID/alive` | locked by users of the store, and by each living run | [`StoreDir::living`] |
//! | `lock` | locked by the holder of the database, with its name | [`Holder`] |
//! | `db/` | results by fingerprint, last fingerprints, history; for the holder alone | [`Store`] |
//! | `index` | where the journals have them; for all others | [`Store`] |
//! | `objects/` | artifacts by digest | [`Objects`] |
//! | `runs/` | journal, status and attempts of each run | [`RunDir`], [`Journal`] |
//! | `runs/` too | results of other machines, a journal for each import | [`Import`] |
//! | `claimed/` | which run executes what | [`Claims`] |
//! | `runs/ID/inputs` | copies of inputs, during the run | [`Captures`] |
//! | `snapshots/` | what the results of a finished run depend on | [`Snapshot`], [`Inputs`] |
//! | `checkpoints/` | checkpoints for the next attempt of the same work | [`StoreDir::checkpoints`] |
//! | `plugins/` | the digest for which each plugin was set up | [`StoreDir::plugin`] |
//! | `news` | touched when the jobs of a dead run change | [`StoreDir::note_job_change`] |
//! | `local` | a link to a folder of this machine for `db/`, if other machines see the store | [`StoreDir`] |
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
mod bounded;
mod bytes;
mod capture;
mod claims;
mod commit;
mod db;
mod dir;
mod doctor;
mod error;
mod file;
mod forecasts;
mod gc;
mod group;
mod hash;
mod ignored;
mod imports;
mod index;
mod inputs;
mod journal;
mod kept;
mod limits;
mod living;
mod lock;
mod manifest;
mod mark;
mod memory;
mod objects;
mod open_database;
mod process;
mod recover;
mod replay;
mod results;
mod rings;
mod run;
mod snapshot;
mod sparse;
mod stamp;
mod status;
mod store;
mod waits;
mod work;

pub use activity::{Activity, ShownWork, WorkProgress};
pub use bounded::FollowLines;
pub use capture::{CapturedInput, Captures, InputToCapture, LeftCopy};
pub use claims::{Claimant, Claims};
pub use commit::{Commit, CommitError};
pub use db::free_space;
pub use dir::{STORE_FORMAT, StoreDir};
pub use doctor::{Diagnosis, doctor};
pub use error::{LIMIT, Result, StoreError};
pub use file::{read as read_regular, regular};
pub use forecasts::{ExpectedStart, FollowForecasts, Forecast, ForecastLog};
pub use gc::{FreedSpace, Retention, gc};
pub use group::{GroupStore, init_for_group};
pub use imports::Import;
pub use inputs::{Inputs, Listing, Tree};
pub use kept::{Daemon, DaemonLock};
pub use limits::{ALL_BYTES, ALL_FILES, CAPTURE_BYTES, CAPTURE_FILES, CopyRoom, InputSize};
pub use living::LivingRuns;

pub use journal::{Follow, Journal, UnreadableParts};
pub use manifest::{Entry, EntryKind, Manifest};
pub use objects::{ArtifactForm, LostOutput, Objects, is_mounted_below};
pub use process::{Holder, Liveness, ProcessIdentity};
pub use recover::RebuiltDatabase;
pub use replay::recorded;
pub use results::{Batch, EarlierData, HISTORY, LastFingerprint, Results, device_shape, shapes};
pub use run::{EndRequest, RunDir};
pub use snapshot::{FinishedRun, PublishedFiles, Snapshot, SnapshotResult};
pub use status::{QueuedJob, RunningStep, Status, WaitingStep};
pub use store::Store;
pub use waits::{FollowWaits, WaitsLine, WaitsLog};
pub use work::WorkFolders;
