//! The losses beside PyTorch's, where python3 has PyTorch; on the CPU, and for fewer steps than `parity.py` takes by itself.

use std::process::Command;

#[test]
fn losses_are_pytorchs() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/parity.py");
    let mut python = Command::new("python3");
    python.args([script, "--gpus", "0", "--steps", "10", "--models", "resnet18"]);
    let output = python.args(["--program", env!("CARGO_BIN_EXE_flow-torch")]).output().expect("python3");
    let words = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    println!("{words}");
    assert!(output.status.success(), "{words}");
}
