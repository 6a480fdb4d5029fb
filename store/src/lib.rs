//! Everything that outlives a run: results, history, artifacts, journals, the snapshot.
//!
//! | where | what | module |
//! | --- | --- | --- |
//! | `format` | the store's version | [`StoreDir`] |
//! | `users`, `runs/ID/alive` | locked by who uses the store, and by each run that lives | [`StoreDir::living`] |
//! | `lock` | locked by who has the database; who that is | [`Holder`] |
//! | `db/` | results by fingerprint, last fingerprints, history; for who has it alone | [`Store`] |
//! | `db.sock` | where who has the database answers all others | [`Store`] |
//! | `objects/` | artifacts by digest | [`Objects`] |
//! | `runs/` | journal, status and attempts of each run | [`RunDir`], [`Journal`] |
//! | `runs/` too | results of other machines, a journal for each file that was taken in | [`Import`] |
//! | `claimed/` | who runs what, among runs | [`Claims`] |
//! | `runs/ID/inputs` | copies of inputs, while the run goes on | [`Captures`] |
//! | `snapshots/` | what a finished run rested on | [`Snapshot`], [`Inputs`] |
//! | `checkpoints/` | what an attempt leaves for the next one that does the same | [`StoreDir::checkpoints`] |
//! | `plugins/` | for which digest each plugin was set up | [`StoreDir::plugin`] |
//! | `news` | touched when there is something among the jobs of a dead run | [`StoreDir::has_news`] |
//! | `local` | a link to a folder of this machine that has `db/`, where other machines see the store | [`StoreDir`] |
//!
//! Order of writing: an attempt's artifacts are in `objects/`, then the line in the journal, each synced before the next is
//! written, then its result in `db/`. A kill between any two loses what follows, never what came before, and nothing points at what is
//! not there; what the journal has and the database has not, the next opening puts there. So the database can be lost: it is made
//! anew from the journals. Reading commands take no lock: they read objects, journals, status files and snapshots, and [`Replay`]
//! in place of the database.
//!
//! Nothing here decides whether a result may be reused, knows how steps run, or prints. Time is an argument.
#![forbid(unsafe_code)]

mod activity;
mod ahead;
mod asked;
mod bytes;
mod capture;
mod claims;
mod commit;
mod db;
mod dir;
mod doctor;
mod error;
mod file;
mod gc;
mod group;
mod hash;
mod ignored;
mod imports;
mod inputs;
mod journal;
mod kept;
mod link;
mod living;
mod lock;
mod manifest;
mod mark;
mod objects;
mod open_database;
mod process;
mod recover;
mod replay;
mod results;
mod rings;
mod run;
mod serve;
mod snapshot;
mod socket;
mod sparse;
mod stamp;
mod status;
mod store;
mod wire;

pub use activity::{Activity, Begun, Doing};
pub use ahead::Ahead;
pub use capture::{CAPTURE_FILES, Captured, Captures, Wanted};
pub use claims::{Claimant, Claims};
pub use commit::{Commit, Unapplied};
pub use dir::{STORE_FORMAT, StoreDir};
pub use doctor::{Diagnosis, doctor};
pub use error::{LIMIT, Result, StoreError};
pub use file::regular;
pub use gc::{Freed, Keep, gc};
pub use group::{GroupStore, init_for_group};
pub use imports::Import;
pub use inputs::{Inputs, Tree};
pub use kept::{DaemonLock, DaemonState};
pub use link::Silent;
pub use living::LivingRuns;

pub use journal::{Follow, Journal, Unread};
pub use manifest::{Entry, EntryKind, Manifest};
pub use mark::is_record;
pub use objects::{Lost, Materialised, Objects, is_mounted_below};
pub use process::{Holder, Liveness, ProcessIdentity};
pub use recover::Rebuilt;
pub use replay::{Replay, recorded};
pub use results::{Batch, Earlier, HISTORY, Last, Results, device_shape, shapes};
pub use run::{End, RunDir};
pub use snapshot::{FinishedRun, Snapshot, Stood};
pub use status::{Queued, Running, Status, Waiting};
pub use store::Store;
