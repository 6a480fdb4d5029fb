//! A keeper, for the tests of setup commands.

use std::{env, process::ExitCode};

fn main() -> ExitCode {
    // Its arguments are `__keeper RECORD`.
    env::args_os().nth(2).map_or(ExitCode::from(2), |record| flow_supervisor::keeper::serve(record.as_ref()))
}
