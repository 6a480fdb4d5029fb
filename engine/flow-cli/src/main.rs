//! The `flow` command: arguments, messages, exit codes and all printing. It decides nothing about
//! work.

mod args;
mod at_hand;
mod builtins;
mod commands;
mod diagnostics;
mod error;
mod output;
mod place;
mod reasons;
mod screen;
mod terminal;
mod words;

use std::process::ExitCode;

/// Reading and planning make mostly small allocations. They take half as long again with the
/// system's allocator (glibc 2.36, 110,000 steps).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    output::report_panics();
    commands::main()
}
