//! The dataset plugin: `source` finds or draws photographs, `prepare` makes a dataset of them. Knows no training.

mod decode;
mod folder;
mod paint;
mod prepare;
mod scene;
mod source;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use flow_plugin::{Attempt, Error, Plugin};
use rayon::prelude::*;

fn main() -> ExitCode {
    Plugin::new("images", env!("CARGO_PKG_VERSION")).step("source", source::run).step("prepare", prepare::run).main()
}

/// Does the work of each photograph, on as many threads as the placement has CPUs, and reports its progress as
/// `3/10 photographs{suffix}`. An error ends it.
fn each<T: Send>(
    attempt: &Attempt,
    total: usize,
    suffix: &str,
    work: impl Fn(usize) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let count = AtomicUsize::new(0);
    let work = |index: usize| {
        let result = work(index)?;
        let n = count.fetch_add(1, Ordering::Relaxed) + 1;
        attempt.progress(n as f64 / total as f64, format!("{n}/{total} photographs{suffix}"));
        Ok(result)
    };
    let threads = rayon::ThreadPoolBuilder::new().num_threads(attempt.cpus()).build()?;
    threads.install(|| (0..total).into_par_iter().map(work).collect())
}
