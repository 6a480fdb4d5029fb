#!/usr/bin/env python3
"""pip.py FOLDER: a package that pip upgrades, and an editable install.

After `pip install -U`, results stay, and `plan`, `why` and a table with results of both versions say so. A step that
imports the project through `pip install -e` is refused until the sources are among its inputs. Then it imports the
copy, and an edit reruns it.
"""

import os
import subprocess
import sys
from pathlib import Path

UPGRADE = """
flow: 1
name: upgrade
params: {xs: [1, 2]}
steps:
  a:
    matrix: {x: "${{ xs }}"}
    run: "python -c 'import packaging as p; print(\\"major\\", p.__version__.split(\\".\\")[0])' ; echo ${{ x }}"
    metrics: {stdout: "major {major}"}
  t: {uses: flow/table, with: {from: a, rows: x, columns: [major]}}
  report: {uses: flow/report, with: {sections: [{table: t}]}}
"""
EDITABLE = """
flow: 1
name: editable
steps:
  train: {run: python -m toy.train 5, inputs: [%s], metrics: {stdout: "loss {loss}"}}
"""
PROJECT = """[project]
name = "toy"
version = "0.1"
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[tool.setuptools.packages.find]
where = ["src"]
"""


def main(folder):
    def sh(*command, code=0):
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        print("$", *command, "\n" + done.stdout + done.stderr, flush=True)
        assert done.returncode == code, done.returncode
        return done.stdout + done.stderr

    venv, flow = folder / "venv", os.environ["FLOW"]
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    environment = {**os.environ, "PATH": f"{venv}/bin:{os.environ['PATH']}"}
    sh("pip", "install", "--quiet", "packaging==23.0")
    (folder / "upgrade.yaml").write_text(UPGRADE)
    sh(flow, "run", "upgrade.yaml")
    sh("pip", "install", "--quiet", "-U", "packaging==26.0")
    told = "packaging 23.0 → 26.0"
    assert told in sh(flow, "plan", "upgrade.yaml")
    assert told in sh(flow, "why", "-w", "upgrade.yaml", "a")
    sh(flow, "run", "upgrade.yaml", "--set", "xs=[1, 2, 3]")
    assert "packaging 23.0 / 26.0" in sh(flow, "report", "upgrade.yaml", "--print")

    source = folder / "src/toy/train.py"
    source.parent.mkdir(parents=True)
    (source.parent / "__init__.py").touch()
    source.write_text("import sys\nprint('loss', int(sys.argv[1]) * 2)\n")
    (folder / "pyproject.toml").write_text(PROJECT)
    sh("pip", "install", "--quiet", "-e", ".")
    (folder / "editable.yaml").write_text(EDITABLE % "")
    assert "because it is an editable install" in sh(flow, "run", "editable.yaml", code=2)
    (folder / "editable.yaml").write_text(EDITABLE % "src")
    sh(flow, "run", "editable.yaml")
    source.write_text(source.read_text().replace("* 2", "* 1000"))
    assert "src/toy/train.py" in sh(flow, "plan", "editable.yaml")
    sh(flow, "run", "editable.yaml")
    assert "5,000" in sh(flow, "show", "train", "-w", "editable.yaml")


main(Path(sys.argv[1]))
