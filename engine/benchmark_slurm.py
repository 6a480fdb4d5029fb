#!/usr/bin/env python3
"""What flow costs on Slurm: trivial steps, each a job of a throw-away Slurm, beside the same jobs submitted by hand, one `sbatch`
after the other, and beside one array of them. One command, ratios from one run:

    python3 engine/benchmark_slurm.py

Builds flow in release mode, starts the cluster of engine/slurm.sh, and says how far the ratio is from what is aimed at. Rounds
alternate, so that a busy machine is busy for all; the best of each counts. `--steps 10000 --nodes 100 --rounds 1` is a large sweep.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

from benchmark import build, timed

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    args = arguments()
    flow = os.path.abspath(args.flow) if args.flow else build()
    took = {}
    memory = 0
    with tempfile.TemporaryDirectory(prefix="flow-slurm-benchmark-") as folder:
        for number in range(args.rounds):
            for name, submit in [("by hand", by_hand), ("array by hand", array), ("flow", None)]:
                # A cluster of its own for each: jobs that have ended are still known, and slow the next ones down.
                cluster = Cluster(os.path.join(folder, f"slurm-{number}-{len(took)}-{name.replace(' ', '-')}"), args)
                try:
                    if submit:
                        seconds = submit(cluster, args.steps)
                    else:
                        seconds, used = with_flow(flow, os.path.join(folder, f"flow-{number}"), args.steps)
                        memory = max(memory, used)
                finally:
                    cluster.down()
                took.setdefault(name, []).append(seconds)
                print(f"round {number + 1}: {name} {seconds:.2f} s", file=sys.stderr)
    best = {name: min(times) for name, times in took.items()}
    print(f"\n{args.steps} trivial steps on {args.nodes} nodes of a throw-away Slurm, best of {args.rounds} rounds\n")
    print("| | seconds | × sbatch by hand |")
    print("| --- | ---: | ---: |")
    for name, seconds in best.items():
        print(f"| {name} | {seconds:.2f} | {seconds / best['by hand']:.2f} |")
    print(f"\nflow itself: {memory:.0f} MiB")
    ratio = best["flow"] / best["by hand"]
    print(f"{'reached' if ratio <= 1.5 else 'MISSED '}  at most 1.5 × sbatch by hand, is {ratio:.2f}")
    return 0 if ratio <= 1.5 else 1


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="how many (default: 200)")
    parser.add_argument("--nodes", type=int, default=3, help="nodes of 8 CPUs that are not there (default: 3)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: 3)")
    parser.add_argument("--flow", help="this binary, instead of building one")
    return parser.parse_args()


class Cluster:
    def __init__(self, folder, args):
        self.folder = folder
        # As many jobs as there are to be: what is measured is not the limit of the controller's memory.
        extra = f"MaxJobCount={10 * args.steps + 1000}\nMaxArraySize={args.steps + 1}"
        environment = {**os.environ, "SLURM_EXTRA": extra, "SLURM_OWNER": str(os.getpid())}
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
    os.makedirs(place)
    with open(f"{place}/trivial.yaml", "w") as file:
        file.write(f"""flow: 1
name: trivial
on: slurm
slurm: {{jobs: {steps}}}
steps:
  one:
    matrix: {{n: "${{{{ range({steps}) }}}}"}}
    run: "true"
""")
    return timed([flow, "run", "trivial.yaml"], place)


if __name__ == "__main__":
    sys.exit(main())
