#!/usr/bin/env python3
"""digits.py FOLDER: handwritten digits, prepared and trained on by both plugins in a workflow.

Three epochs of resnet18 read at least 95% of the digits that were not trained on.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORKFLOW = """
flow: 1
name: digits
steps:
  source: {uses: images/source, with: {folder: mnist}}
  dataset: {uses: images/prepare, with: {photos: "${{ steps.source.out }}", version: v11, size: 32}}
  train:   # digits must not be mirrored
    uses: torch/train
    with: {data: "${{ steps.dataset.out }}", model: resnet18, batch: 64, epochs: 3, flip: false}
"""


def main(folder):
    subprocess.run([sys.executable, HERE / "mnist.py", folder / "mnist"], check=True)
    (folder / "digits.yaml").write_text(WORKFLOW)
    flow = [os.environ["FLOW"], "--plugin-dir", HERE.parents[1] / "plugins"]
    subprocess.run([*flow, "run", "digits.yaml"], cwd=folder, check=True)
    results = subprocess.run([*flow, "results", "train", "--json"], cwd=folder, check=True, capture_output=True)
    top1 = json.loads(results.stdout)["top1"]
    print(f"top-1 {top1:.1%}")
    assert top1 >= 0.95, top1


main(Path(sys.argv[1]))
