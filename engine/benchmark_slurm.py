#!/usr/bin/env python3
"""What flow costs on Slurm: trivial steps, each a job of a throw-away Slurm, beside the same jobs submitted by hand, one `sbatch`
after the other, and beside one array of them; then the same workflow with nothing to do, with one step changed, and killed half-way
and run again. One command, ratios from one run:

    python3 engine/benchmark_slurm.py

Builds flow in release mode, starts the cluster of engine/slurm.sh, and says how far the ratio is from what is aimed at. Rounds
alternate, so that a busy machine is busy for all; the median of each counts. A large sweep, whose jobs are all on this machine, is
`--steps 10000 --nodes 100 --cpus 1 --rounds 1`: no more than so many CPUs as there are nodes run at once.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from benchmark import build, timed

HERE = os.path.dirname(os.path.abspath(__file__))
AT_MOST = 1.5


def main():
    args = arguments()
    flow = os.path.abspath(args.flow) if args.flow else build()
    rows = {}
    for steps in args.steps:
        took, memory = measured(flow, steps, args)
        seconds = {name: statistics.median(times) for name, times in took.items()}
        for name, median in seconds.items():
            rows.setdefault(name, []).append(f"{median:.2f} | {median / seconds['by hand']:.2f}")
        rows.setdefault("flow's memory, MiB", []).append(f"{memory:.0f} | ")
        ratio = seconds["flow"] / seconds["by hand"]
        print(f"{steps} steps: {ratio:.2f} × sbatch by hand", file=sys.stderr)
        if steps == args.steps[0]:
            first = ratio
    print(f"\nTrivial steps on {args.nodes} nodes of a throw-away Slurm, medians of {args.rounds} rounds\n")
    print("| seconds | " + " | ".join(f"{steps} steps | × by hand" for steps in args.steps) + " |")
    print("| --- |" + " ---: | ---: |" * len(args.steps))
    for name, cells in rows.items():
        print(f"| {name} | " + " | ".join(cells) + " |")
    print(f"\n{'reached' if first <= AT_MOST else 'MISSED '}  at most {AT_MOST} × sbatch by hand, is {first:.2f}")
    return 0 if first <= AT_MOST else 1


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, nargs="+", default=[200, 1000], help="how many (default: 200 and 1000)")
    parser.add_argument("--nodes", type=int, default=3, help="nodes that are not there (default: 3)")
    parser.add_argument("--cpus", type=int, default=8, help="CPUs of each (default: 8)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: 3)")
    parser.add_argument("--flow", help="this binary, instead of building one")
    return parser.parse_args()


def measured(flow, steps, args):
    took, memory = {}, 0
    with tempfile.TemporaryDirectory(prefix="flow-slurm-benchmark-") as folder:
        for number in range(args.rounds):
            for name, use in [("by hand", by_hand), ("array by hand", array), ("flow", with_flow)]:
                # A cluster of its own for each: jobs that have ended are still known, and slow the next ones down.
                cluster = Cluster(os.path.join(folder, f"slurm-{number}-{name.replace(' ', '-')}"), steps, args)
                try:
                    if use is with_flow:
                        place = os.path.join(folder, f"flow-{number}")
                        for use_name, seconds, used in with_flow(flow, place, steps):
                            took.setdefault(use_name, []).append(seconds)
                            memory = max(memory, used)
                    else:
                        took.setdefault(name, []).append(use(cluster, steps))
                finally:
                    cluster.down()
                print(f"round {number + 1}: {name} {took[name][-1]:.2f} s", file=sys.stderr)
    return took, memory


class Cluster:
    def __init__(self, folder, steps, args):
        self.folder = folder
        # As many jobs as there are to be: what is measured is not the limit of the controller's memory.
        extra = f"MaxJobCount={10 * steps + 1000}\nMaxArraySize={steps + 1}"
        cpus = str(args.cpus)
        environment = {**os.environ, "SLURM_EXTRA": extra, "SLURM_CPUS": cpus, "SLURM_OWNER": str(os.getpid())}
        up = [os.path.join(HERE, "slurm.sh"), "up", folder, str(args.nodes), "0"]
        subprocess.run(up, env=environment, stdout=subprocess.DEVNULL, check=True)
        os.environ["SLURM_CONF"] = os.path.join(folder, "slurm.conf")

    def sbatch(self, *options):
        command = ["sbatch", "--parsable", "--output=/dev/null", *options, "--wrap=true"]
        subprocess.run(command, cwd=self.folder, stdout=subprocess.DEVNULL, check=True)

    def wait(self):
        while subprocess.run(["squeue", "--noheader"], stdout=subprocess.PIPE, check=True).stdout.strip():
            time.sleep(0.1)

    def down(self):
        subprocess.run([os.path.join(HERE, "slurm.sh"), "down", self.folder], check=True)


def by_hand(cluster, steps):
    began = time.perf_counter()
    for _ in range(steps):
        cluster.sbatch()
    cluster.wait()
    return time.perf_counter() - began


def array(cluster, steps):
    began = time.perf_counter()
    cluster.sbatch(f"--array=0-{steps - 1}")
    cluster.wait()
    return time.perf_counter() - began


def with_flow(flow, place, steps):
    """What each use of one workflow takes: its name, seconds and MiB."""
    os.makedirs(place)
    run = [flow, "run", "trivial.yaml"]
    write(place, steps, "echo all")
    whole, memory = timed(run, place)
    yield "flow", whole, memory
    yield "flow, nothing to do", *timed(run, place)
    write(place, steps, "echo all", changed=steps // 2)
    yield "flow, one changed", *timed(run, place)
    write(place, steps, "echo again")
    child = subprocess.Popen(run, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(whole / 2)
    child.send_signal(signal.SIGKILL)
    child.wait()
    yield "flow, the rest after a kill half-way", *timed(run, place)


def write(place, steps, command, changed=None):
    with open(f"{place}/trivial.yaml", "w") as file:
        file.write(f"""flow: 1
name: trivial
on: slurm
slurm: {{jobs: {steps}}}
steps:
  one:
    matrix: {{n: "${{{{ range({steps}) }}}}"}}
    run: "{command} ${{{{ n }}}} ${{{{ 'other' if n == {-1 if changed is None else changed} else '' }}}}"
""")


if __name__ == "__main__":
    sys.exit(main())
