#!/usr/bin/env python3
"""Runs all tests:

    python3 engine/test.py

Arguments are passed on to `cargo test`: `python3 engine/test.py -p flow-cli --test flow slurm`.

Some tests start a Slurm of their own, use strace, or open a page in chromium. If one of these is not installed and you are
root on Debian or Ubuntu, this script installs it. If it still is not, these tests do not run, and the last lines say how many
they are and what to install. libtorch, which the torch plugin needs, comes from `plugins/torch/setup.py`.

Property tests get the same inputs in every run. Set `PROPTEST_RNG_SEED` to another number to try others.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
APT = "apt-get install -y --no-install-recommends "
# What some tests need, by the reason in their `#[ignore = "needs Slurm"]`: its programs, and how to install it.
NEEDS = {
    "Slurm": (("munged", "slurmctld", "slurmd", "sbatch", "sinfo"), APT + "slurmctld slurmd slurm-client"),
    "strace": (("strace",), APT + "strace"),
    "chromium": (("chromium",), APT + "chromium"),
}
IGNORED = re.compile(rb"^test (\S+) \.\.\. ignored, needs (\w+)")  # as a test program prints it


def is_missing(name):
    # Daemons are in /usr/sbin, which is not on every user's PATH.
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    return not all(shutil.which(program, path=path) for program in NEEDS[name][0])


def install(names):
    print("test.py: installing", " and ".join(names), file=sys.stderr, flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in ["apt-get update", *(NEEDS[name][1] for name in names)]:
        subprocess.run(command.split(), env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr)


def cargo_test(arguments, *options):
    command = [sys.executable, ROOT / "plugins/torch/setup.py", "cargo", "test", "--no-fail-fast"]
    if not any(argument.startswith(("-p", "--package")) for argument in arguments):
        command.append("--workspace")
    command += arguments if "--" in arguments else [*arguments, "--"]
    command += options
    if sys.stdout.isatty():
        command.append("--color=always")
    return command


def run(command, ignored):
    """Runs the tests, notes which were ignored and why, and returns the exit code."""
    # Most end-to-end tests wait more than they compute. Those that measure run apart (`quiet_space`).
    threads = str(4 * len(os.sched_getaffinity(0)))
    environment = {"PROPTEST_RNG_SEED": "1", "RUST_TEST_THREADS": threads, **os.environ}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE) as tests:
        for line in tests.stdout:
            if found := IGNORED.match(re.sub(rb"\x1b\[[0-9;]*m", b"", line)):
                test, need = (part.decode() for part in found.groups())
                ignored.setdefault(need, set()).add(test)
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    return tests.returncode if tests.returncode >= 0 else 128 - tests.returncode


def main():
    # A script's background jobs start with SIGINT ignored, and some tests interrupt flow.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    missing = [name for name in NEEDS if is_missing(name)]
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        install(missing)
        missing = [name for name in missing if is_missing(name)]
    arguments, ignored = sys.argv[1:], {}
    try:
        code = run(cargo_test(arguments, *([] if missing else ["--include-ignored"])), ignored)
        if left := sorted(test for need in ignored.keys() - missing for test in ignored[need] if need in NEEDS):
            code = run(cargo_test(arguments, "--ignored", "--exact", *left), {}) or code
    except KeyboardInterrupt:
        sys.exit(130)
    for name in missing:
        if name in ignored:
            print(f"{len(ignored[name])} tests did not run because they need {name}. To install it: {NEEDS[name][1]}", flush=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
