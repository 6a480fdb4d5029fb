//! The dataset plugin: `source` finds or draws photographs, `prepare` makes a dataset of them. Knows no training.

mod decode;
mod folder;
mod paint;
mod prepare;
mod scene;
mod source;

use std::process::ExitCode;

use flow_plugin::{Error, Plugin};

fn main() -> ExitCode {
    Plugin::new("images", env!("CARGO_PKG_VERSION")).step("source", source::run).step("prepare", prepare::run).main()
}

/// Threads for photographs, as many as the placement has CPUs.
fn threads(cpus: usize) -> Result<rayon::ThreadPool, Error> {
    Ok(rayon::ThreadPoolBuilder::new().num_threads(cpus).build()?)
}
