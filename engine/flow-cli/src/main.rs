//! The `flow` command: arguments, words, exit codes, and all printing. Decides nothing about work.

mod args;
mod builtins;
mod commands;
mod diagnostics;
mod error;
mod output;
mod place;
mod screen;
mod words;

use std::{panic, process::ExitCode};

fn main() -> ExitCode {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        // What is caught is said in our words.
        if !flow_core::is_guarded() {
            tell(panicked);
        }
    }));
    commands::main()
}
