//! From what was seen of an attempt to the numbers of its result: which epochs count, what it used while they lasted, and who ran
//! beside it. Looks and epochs come with their times, so that what counts can be decided when all is known. Knows neither
//! processes nor cards, and asks no clock.

mod corunners;
mod epochs;
mod gpus;
mod host;
mod news;
mod numbers;
mod printed;
mod reading;
mod record;
mod windows;

pub use corunners::{CoRunner, CoRunners, Epoch, Other, Overlap, beside};
pub use epochs::{Gathered, MOST_EPOCHS, Reported, Row, gather};
pub use gpus::{GpuFigures, GpuLook, GpuSamples};
pub use host::{HostLoad, HostSamples, Used};
pub use news::Known;
pub use printed::{EndedEpoch, PART_ENDS, Printed, read_numbers};
pub use reading::{Seen, read_again, sum_up};
pub use record::{LINE_ENDS, LONGEST_LINE, Looks, Record, is_read, kept_time};
pub use windows::Window;
