//! The torch plugin: trains image classifiers with libtorch. The only user of tch.
//!
//! `setup.py` makes libtorch ready and runs a command with it. Everything that builds, starts or tests this crate goes through it:
//!
//! ```text
//! python3 plugins/torch/setup.py cargo test --release -p flow-torch
//! ```

mod checkpoint;
mod dataset;
mod deadline;
mod decode;
mod device;
mod epochs;
mod loader;
mod model;
mod native;
mod options;
mod pixels;
mod profile;
mod random;
mod replica;
mod train;
mod trainer;
mod transform;
mod trouble;
mod weights;

use std::process::ExitCode;

use flow_plugin::Plugin;

fn main() -> ExitCode {
    Plugin::new("torch", env!("CARGO_PKG_VERSION")).step("train", train::train).step("profile", profile::profile).main()
}
