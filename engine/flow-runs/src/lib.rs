//! The folder of a store as its runs see it: which runs live, what they claim, their journals and status. Knows neither
//! the database nor the artifacts.
//!
//! | where | what | module |
//! | --- | --- | --- |
//! | `format` | the store's version | [`StoreDir`] |
//! | `users`, `runs/ID/alive` | locked by users of the store, and by each living run | [`StoreDir::living`] |
//! | `lock` | locked by the holder of the database, with its name | [`Holder`] |
//! | `runs/` | journal, status and attempts of each run | [`RunDir`], [`Journal`] |
//! | `claimed/` | which run executes what | [`Claims`] |
//! | `checkpoints/` | checkpoints for the next attempt of the same work | [`StoreDir::checkpoints`] |
//! | `plugins/` | the digest for which each plugin was set up | [`StoreDir::plugin`] |
//! | `news` | touched when the jobs of a dead run change | [`StoreDir::note_job_change`] |
//! | `local` | a link to a folder of this machine for `db/`, if other machines see the store | [`StoreDir`] |
#![forbid(unsafe_code)]

mod bounded;
mod claims;
mod daemon_lock;
mod dir;
pub mod error;
pub mod file;
mod forecasts;
pub mod journal;
pub mod living;
pub mod lock;
pub mod mark;
pub mod mounts;
mod process;
mod run;
mod status;
pub mod tree;
mod waits;
pub mod work;

pub use bounded::FollowLines;
pub use claims::{Claimant, Claims};
pub use daemon_lock::{Daemon, DaemonLock};
pub use dir::{STORE_FORMAT, StoreDir};
pub use error::{LIMIT, Result, StoreError};
pub use file::{read as read_regular, regular};
pub use forecasts::{ExpectedStart, FollowForecasts, Forecast, ForecastLog};
pub use journal::{Follow, Journal, UnreadableParts};
pub use living::LivingRuns;
pub use process::{Holder, Liveness, ProcessIdentity};
pub use run::{EndRequest, INPUTS_OPEN, RunDir};
pub use status::{QueuedJob, RunningStep, Status, WaitingStep};
pub use tree::is_mounted_below;
pub use waits::{FollowWaits, WaitsLine, WaitsLog};
pub use work::WorkFolders;
