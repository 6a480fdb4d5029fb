#!/usr/bin/env python3
"""uv.py FOLDER: a declared environment that uv makes from a lock file.

A step runs with the locked package. After an upgrade in the lock file it runs again, and flow names the package. After a change of a comment in pyproject.toml, nothing runs.
"""

import os
import subprocess
import sys
from pathlib import Path

PROJECT = """[project]
name = "a"
version = "0"
requires-python = ">=3.9"
dependencies = ["six=={}"]
"""
WORKFLOW = """
flow: 1
name: uv
environments: {a: {uv: env}}
steps:
  show: {environment: a, run: "python -c 'import six; print(f\\"version: {six.__version__}\\")'"}
"""


def main(folder):
    def sh(*command, cwd=folder):
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
        print("$", *command, done.stdout + done.stderr, sep="\n" if done.returncode else " ", flush=True)
        assert done.returncode == 0, done.returncode
        return done.stdout

    tools = folder / "tools"
    subprocess.run([sys.executable, "-m", "venv", tools], check=True)
    environment = {**os.environ, "PATH": f"{tools}/bin:{os.environ['PATH']}"}
    sh("pip", "install", "--quiet", "uv")
    (folder / "env").mkdir()

    def lock(version, comment=""):
        (folder / "env/pyproject.toml").write_text(PROJECT.format(version) + comment)
        sh("uv", "lock", "--quiet", cwd=folder / "env")

    flow = os.environ["FLOW"]
    (folder / "uv.yaml").write_text(WORKFLOW)
    lock("1.16.0")
    sh(flow, "run", "uv.yaml")
    assert "version: 1.16.0" in sh(flow, "logs", "show")
    lock("1.16.0", "# the same packages\n")
    assert "1 cached" in sh(flow, "run", "uv.yaml")
    lock("1.17.0")
    assert "six 1.16.0 → 1.17.0" in sh(flow, "run", "uv.yaml")
    assert "version: 1.17.0" in sh(flow, "logs", "show")


main(Path(sys.argv[1]))
