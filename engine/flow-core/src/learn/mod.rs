//! Turns observations of earlier attempts into estimates of the next ones, with the number of attempts that they use,
//! and into the interference coefficient of a GPU. The driver of the scheduler, live or simulated, passes observations
//! in and events on. Reads no store and decides nothing.

#[cfg(test)]
mod changed_tests;
mod check;
mod estimate;
mod history;
mod lazy;
mod machines;
mod observation;
mod point;
mod refit;
mod sharing;
mod surface;
mod tasks;
#[cfg(test)]
mod tests;

pub use check::{HeldOutPoint, Quantity};
pub use estimate::Prediction;
pub use history::History;
pub use machines::{Length, OnModel};
pub use observation::Observation;
pub use point::points;
pub use refit::Refit;
pub use sharing::{Interference, SoloLoad, of_group};
pub use surface::PointPrediction;
pub use tasks::{Forecast, capacity, forecast, limits, settled, tasks};
