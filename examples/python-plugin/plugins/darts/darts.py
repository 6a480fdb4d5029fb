#!/usr/bin/env python3
"""Estimates pi by throwing darts: a whole plugin of flow, on Python's standard library."""
import json
import os
import random
import time

attempt = os.environ["FLOW_ATTEMPT"]  # the folder that is the whole interface
with open(f"{attempt}/request.json") as file:
    request = json.load(file)


def tell(kind, **fields):
    """Appends one message: one line, one write."""
    with open(f"{attempt}/messages.jsonl", "a") as file:
        file.write(json.dumps({"at": time.time(), "type": kind, **fields}) + "\n")


def estimate(out, darts=100000, rounds=4):
    dice, hits = random.Random(request["seed"]), 0
    for round in range(1, rounds + 1):
        started = time.time()
        hits += sum(dice.random() ** 2 + dice.random() ** 2 < 1 for _ in range(darts))
        pi = 4 * hits / (darts * round)
        tell("metric", name="pi", value=pi, epoch=round)
        tell("epoch", epoch=round, started_at=started, ended_at=time.time())
        tell("progress", fraction=round / rounds, text=f"round {round}/{rounds}, pi {pi:.4f}")
    with open(out, "w") as file:  # paths are relative to the current folder, which is the attempt's `work`
        file.write(f"{pi}\n")


tell("hello", protocol=1, plugin="darts", version="0.1.0")
estimate(request["outputs"]["out"], **request["with"])
tell("outcome", outcome="ok")  # an exception before this line is a failure, and its words are in the log
