#!/usr/bin/env python3
"""What flow survives: kills at any moment, mutated workflows and expressions, damaged stores, full disks, another user on the
same machine. One command runs the tests that do so with many more cases than the suite has, and counts:

    python3 engine/torture.py

Takes long, the mutations longest. `--only corruptions` runs one part, `--scale 0.1` a tenth of all cases. Mounting small
disks and being a second user needs root; without it these parts say that they were skipped.
"""

import argparse
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Part, cases, the variable that says how many, and the tests: package, target, names.
PARTS = [
    ("kills", 2_000, "FLOW_TEST_KILLS", "flow-cli", "flow", ["database::killed"]),
    ("takeovers", 500, "FLOW_TEST_STORE_KILLS", "flow-store", "store", ["processes::three_that_record"]),
    ("runs", 500, "FLOW_TEST_RUN_KILLS", "flow-cli", "flow", ["several::any_of_three"]),
    ("mutations", 1_000_000, "FLOW_TEST_MUTATIONS", "flow-core", "language", ["fuzz::"]),
    ("corruptions", 500, "FLOW_TEST_CORRUPTIONS", "flow-cli", "flow", ["torture::whatever_becomes"]),
    ("full-disks", 50, "FLOW_TEST_FULL_DISKS", "flow-cli", "flow", ["torture::wherever_the_disk"]),
    ("users", 1, None, "flow-cli", "flow", ["trust::", "group::", "_user_", "a_permission_that_is_missing", "a_users_"]),
]


def main():
    args = arguments()
    failed = False
    for name, count, variable, package, target, tests in PARTS:
        if args.only and name not in args.only:
            continue
        began = time.monotonic()
        variables = {variable: str(max(1, int(count * args.scale)))} if variable else {}
        code, said = run(package, target, tests, variables)
        failed |= code != 0
        show(name, code, said, time.monotonic() - began)
    return 1 if failed else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[part[0] for part in PARTS], help="this part alone")
    parser.add_argument("--scale", type=float, default=1.0, help="so many times the cases (default: 1)")
    return parser.parse_args()


def run(package, target, tests, variables):
    """Exit code, and all that the tests printed."""
    # As fast as it gets, with every check of a development build.
    checks = {"CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS": "true", "CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS": "true"}
    command = ["cargo", "test", "--release", "--locked", "-p", package, "--test", target, "--", "--nocapture", *tests]
    child = subprocess.run(
        command, cwd=ROOT, env=os.environ | checks | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    return child.returncode, child.stdout


def show(part, code, said, seconds):
    """The lines that count, and all of what failed."""
    counts = [line for line in said.splitlines() if re.match(r"\d+ \w|skipped|test result", line)]
    print(f"{part}: {'passed' if code == 0 else 'FAILED'} in {seconds:.0f} s")
    for line in counts if code == 0 else said.splitlines():
        print(f"    {line}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
