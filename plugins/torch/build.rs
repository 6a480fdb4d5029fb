//! Compiles `src/native.cpp` with the headers of the libtorch that setup.py names in `LIBTORCH`.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=src/native.cpp");
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    let Some(libtorch) = env::var_os("LIBTORCH").map(PathBuf::from) else {
        println!(
            "cargo::error=LIBTORCH is not set; build through setup.py: python3 plugins/torch/setup.py cargo build -p flow-torch"
        );
        return;
    };
    // libtorch's headers warn under stricter settings.
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .warnings(false)
        .opt_level(2)
        .include(libtorch.join("include"))
        .file("src/native.cpp")
        .compile("flow_torch_native");
}
