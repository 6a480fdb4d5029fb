//! From observations of an attempt to the numbers of its result: which epochs count, its usage during them, and its
//! co-runners. Samples and epochs carry their times, so that flow can decide what counts when everything is known. This
//! module knows no processes or GPUs, and reads no clock.

mod corunners;
mod epoch_position;
mod epochs;
mod gpus;
mod host;
mod numbers;
mod reading;
mod record;
mod windows;

pub use corunners::{CoRunner, CoRunners, Epoch, Overlap, largest_overlap};
pub use epoch_position::{EndedEpoch, EpochPosition, PART_ENDS, read_numbers};
pub use epochs::{CountedMetrics, MOST_EPOCHS, ReportedNumbers, Row, gather};
pub use gpus::{GpuFigures, GpuLook, GpuSamples};
pub use host::{HostLoad, HostSamples, HostUsage};
pub use reading::{AttemptSamples, read_again, sum_up};
pub use record::{LINE_ENDS, LONGEST_LINE, Looks, Record, is_read, kept_time};
pub use windows::Window;
