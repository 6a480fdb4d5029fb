//! The `flow` command: arguments, messages, exit codes and all printing. It decides nothing about
//! work.

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
