//! The `flow` command: arguments, words, exit codes, and all printing. Decides nothing about work.

mod allocator;
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
mod unified;
mod words;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

fn main() -> ExitCode {
    output::say_panics();
    commands::main()
}
