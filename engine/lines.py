#!/usr/bin/env python3
"""Counts lines of Rust, source and tests apart:

    python3 engine/lines.py

Source is every `*.rs` file that Git tracks, less tests, the test crates (`flow-testkit`, `flow-fake-nvml`) and the
test modules inside source files. Blank lines and comments count.
"""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEST_FOLDERS = {"tests", "flow-testkit", "flow-fake-nvml"}
TEST_FILE = re.compile(r"(^|_)tests\.rs$")
TEST_MODULE = re.compile(r"^( *)#\[cfg\(test\)\]\n(?: *#\[.*\n)* *(?:pub(?:\(\w+\))? )?mod \w+ \{\n(?:.*\n)*?\1\}\n", re.M)


def tracked():
    listed = subprocess.run(["git", "ls-files", "*.rs"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [Path(name) for name in listed.stdout.splitlines()]


def main():
    crates = {}
    for path in tracked():
        text = (ROOT / path).read_text()
        is_test = TEST_FOLDERS.intersection(path.parts) or TEST_FILE.search(path.name)
        source = 0 if is_test else TEST_MODULE.sub("", text).count("\n")
        counts = crates.setdefault("/".join(path.parts[: 1 if path.parts[0] == "store" else 2]), [0, 0])
        counts[0] += source
        counts[1] += text.count("\n") - source
    crates["all"] = [sum(column) for column in zip(*crates.values())]
    print(f"{'':24}{'source':>8}{'tests':>8}")
    for name, (source, tests) in crates.items():
        print(f"{name:24}{source:8}{tests:8}")


if __name__ == "__main__":
    main()
