//! From what earlier attempts did to what is expected of the next ones: estimates with the number of attempts that they rest on,
//! and the interference coefficient of a GPU. Whoever drives the scheduler, live or simulated, hands observations in and events on; reads
//! no store, and decides nothing.

#[cfg(test)]
mod changed_tests;
mod check;
mod estimate;
mod history;
mod machines;
mod made;
mod observation;
mod point;
mod refit;
mod sharing;
mod surface;
mod tasks;
#[cfg(test)]
mod tests;

pub use check::{Checked, Quantity};
pub use estimate::Prediction;
pub use history::History;
pub use machines::{Length, OnModel};
pub use observation::Observation;
pub use point::points;
pub use refit::Refit;
pub use sharing::{Alone, Interference, of_group};
pub use surface::Expected;
pub use tasks::{Forecast, capacity, forecast, limits, settled, tasks};
