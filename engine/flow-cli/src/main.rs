//! The `flow` command: arguments, words, exit codes, and all printing. Decides nothing about work.

mod args;
mod builtins;
mod commands;
mod diagnostics;
mod error;
mod output;
mod place;
mod reasons;
mod screen;
mod terminal;
mod unified;
mod words;

use std::process::ExitCode;

/// Reading and planning are mostly small allocations: half as long again with the system's allocator (glibc 2.36, 110,000 steps).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    output::say_panics();
    commands::main()
}
