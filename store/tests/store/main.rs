//! The store as its users see it: in one binary, for each links the database anew.

mod artifacts;
mod capture;
mod common;
mod damage;
mod faults;
mod gc;
mod inputs;
mod kill;
mod lock;
mod order;
mod processes;
mod results;
mod runs;
mod theirs;
mod together;
