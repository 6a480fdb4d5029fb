//! Table tests of the scheduler: arrivals, and line by line the events and the expected actions.

mod batch;
mod dsl;
mod ends;
mod forecast;
mod groups;
mod joins;
mod learns;
mod others;
mod places;
mod waits;
