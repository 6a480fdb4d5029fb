"""One attempt of a step of this plugin, run as flow runs it, for the scripts beside this file. Knows no cache and no schedule."""

import functools
import json
import os
import subprocess
import tempfile
from pathlib import Path

import setup

PROGRAM = Path(__file__).resolve().parents[2] / "target/release/flow-torch"


class Attempt:
    """What came of it: the outcome with its words, the facts, and each metric as a list of its values."""

    def __init__(self, messages, log):
        self.facts, self.metrics, self.outcome, self.words, self.log = {}, {}, "failed", "ended without a word", log
        for message in messages:
            if message["type"] == "hello":
                self.facts.update(message.get("facts", {}))
            elif message["type"] == "metric":
                self.metrics.setdefault(message["name"], []).append(message["value"])
            elif message["type"] == "outcome":
                self.outcome, self.words = message["outcome"], message.get("message")

    def expect_ok(self):
        if self.outcome != "ok":
            raise SystemExit(f"{self.outcome}: {self.words}\n{self.log}")
        return self


def visible():
    """The GPUs that a program started here would see, as flow names them."""
    query = ["nvidia-smi", "--query-gpu=index,uuid,name", "--format=csv,noheader"]
    try:
        lines = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().splitlines()
    except (OSError, subprocess.CalledProcessError):
        return []
    cards = [line.split(", ") for line in lines]
    return [{"index": int(index), "uuid": uuid, "name": name} for index, uuid, name in cards]


@functools.cache
def environment():
    return setup.environment()


def run(step, parameters, *, gpus=(), cpus=1, seed=0, inputs=None, program=PROGRAM, env=None):
    """Runs a step. `inputs` maps paths in the work folder to what is to be found there."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for part in ("work/out", "work/in", "checkpoint"):
            (folder / part).mkdir(parents=True)
        for path, target in (inputs or {}).items():
            (folder / "work" / path).symlink_to(Path(target).resolve())
        request = {
            "protocol": 1,
            "step": step,
            "instance": step,
            "with": parameters,
            "outputs": {"model": "out/model.safetensors"},
            "checkpoint": "../checkpoint",
            "placement": {"gpus": list(gpus), "cpus": cpus},
            "seed": seed,
        }
        (folder / "request.json").write_text(json.dumps(request))
        variables = {**os.environ, **environment(), "OMP_WAIT_POLICY": "passive", **(env or {})}
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(gpu["uuid"] for gpu in gpus)
        variables["FLOW_ATTEMPT"] = str(folder)
        done = subprocess.run([Path(program).resolve()], cwd=folder / "work", env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        messages = folder / "messages.jsonl"
        lines = messages.read_text().splitlines() if messages.exists() else []
        attempt = Attempt(map(json.loads, lines), done.stdout.decode(errors="replace"))
        if done.returncode and attempt.outcome == "ok":
            attempt.outcome, attempt.words = "failed", f"exit code {done.returncode} after ok"
        return attempt
