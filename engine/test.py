#!/usr/bin/env python3
"""Runs all tests:

    python3 engine/test.py

Arguments are passed on to `cargo test`: `python3 engine/test.py -p flow-cli --test flow slurm`.

Some tests start a Slurm of their own or use strace. If one of them is not installed and you are root on Debian or Ubuntu,
this script installs it. If it still is not, these tests do not run, and the last line says how many they are and what to
install. libtorch, which the
torch plugin needs, comes from `plugins/torch/setup.py`.

Property tests get the same inputs in every run. Set `PROPTEST_RNG_SEED` to another number to try others.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = "munged", "slurmctld", "slurmd", "sbatch", "sinfo", "strace"
INSTALL = "apt-get install -y --no-install-recommends slurmctld slurmd slurm-client strace"
MARK = b"... ignored, needs "  # printed by a test program for `#[ignore = "needs Slurm"]`


def has_programs():
    # The daemons are in /usr/sbin, which is not on every user's PATH.
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    return all(shutil.which(program, path=path) for program in PROGRAMS)


def install_programs():
    print("test.py: installing Slurm and strace", file=sys.stderr, flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in ("apt-get update", INSTALL):
        subprocess.run(command.split(), env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr)


def cargo_test(arguments, all_of_them):
    command = [sys.executable, ROOT / "plugins/torch/setup.py", "cargo", "test", "--no-fail-fast"]
    if not any(argument.startswith(("-p", "--package")) for argument in arguments):
        command.append("--workspace")
    command += arguments if "--" in arguments else [*arguments, "--"]
    if all_of_them:
        command.append("--include-ignored")
    if sys.stdout.isatty():
        command.append("--color=always")
    return command


def main():
    if not has_programs() and os.geteuid() == 0 and shutil.which("apt-get"):
        install_programs()
    command = cargo_test(sys.argv[1:], has_programs())
    # Most end-to-end tests wait more than they compute. Tests that measure take the machine alone (`quiet_space`).
    threads = str(2 * len(os.sched_getaffinity(0)))
    environment = {"PROPTEST_RNG_SEED": "1", "RUST_TEST_THREADS": threads, **os.environ}
    ignored = 0
    try:
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE) as tests:
            for line in tests.stdout:
                ignored += MARK in line
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()
    except KeyboardInterrupt:
        sys.exit(130)
    if ignored:
        print(f"{ignored} tests did not run because they need Slurm or strace. To install it: {INSTALL}", flush=True)
    sys.exit(tests.returncode if tests.returncode >= 0 else 128 - tests.returncode)


if __name__ == "__main__":
    main()
