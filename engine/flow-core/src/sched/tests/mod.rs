//! Table tests of the scheduler: what arrives, and line by line what happens and what must be done then.

mod batch;
mod dsl;
mod ends;
mod groups;
mod joins;
mod learns;
mod others;
mod places;
mod waits;
