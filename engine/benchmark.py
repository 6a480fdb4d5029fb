#!/usr/bin/env python3
"""What the engine costs: 5,000 one-file copies and one aggregate, beside ninja, make and a bare xargs; and planning
100,000 instances. One command, ratios from one run:

    python3 engine/benchmark.py

Builds flow in release mode, brings ninja with pip if it is missing, and says how far the figures are from what is
aimed at. Rounds of all tools alternate, so that a busy machine is busy for all; the best of each counts.
"""

import argparse
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
JOBS = 2


def main():
    args = arguments()
    flow = os.path.abspath(args.flow) if args.flow else build()
    with tempfile.TemporaryDirectory(prefix="flow-benchmark-", dir=args.dir) as folder:
        tools = [Flow(flow), Ninja(ninja(folder)), Make(make()), Xargs()]
        for tool in tools:
            tool.first, tool.nothing = [], []
        for number in range(args.rounds):
            for tool in tools:
                place = os.path.join(folder, f"{tool.name}-{number}")
                copies(place, args.copies)
                tool.prepare(place, args.copies)
                tool.first.append(timed(tool.command(), place)[0])
                tool.check(place, args.copies)
                # The first time of nothing to do has fresh inputs to look at; people do it again and again.
                for _ in range(3 if tool.nothing_to_do else 0):
                    tool.nothing.append(timed(tool.command(), place)[0])
                # Nothing is removed before the end: ext4 is slow to make files while it remembers many that are gone.
                print(f"round {number + 1}: {tool.name} {tool.first[-1]:.2f} s", file=sys.stderr)
        planned = planning(flow, folder, args.instances)
    return show(tools, planned, args)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=5_000, help="one-file copies (default: 5000)")
    parser.add_argument("--instances", type=int, default=100_000, help="instances to plan (default: 100000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: 3)")
    parser.add_argument("--flow", help="this binary, instead of building one")
    parser.add_argument("--dir", help="a folder on the file system to measure (default: the system's for temporary files)")
    return parser.parse_args()


def build():
    subprocess.run(["cargo", "build", "--release", "--locked", "-p", "flow-cli"], cwd=ROOT, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    return os.path.join(target, "release", "flow")


def ninja(folder):
    found = shutil.which("ninja")
    if found:
        return found
    target = os.path.join(folder, "ninja-wheel")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", target, "ninja"]
    subprocess.run(pip, check=True)
    return next(path for path in glob.glob(f"{target}/**/ninja", recursive=True) if os.access(path, os.X_OK) and os.path.isfile(path))


def make():
    if not shutil.which("make") and os.geteuid() == 0:
        subprocess.run(["apt-get", "install", "-y", "-qq", "make"], check=True)
    found = shutil.which("make")
    return found or sys.exit("make is missing: `sudo apt-get install make` brings it")


def copies(place, count):
    os.makedirs(f"{place}/from")
    os.makedirs(f"{place}/out")
    for n in range(count):
        with open(f"{place}/from/{n}.txt", "w") as file:
            file.write(f"line {n}\n")


def expected(count):
    return "".join(f"line {n}\n" for n in range(count))


def timed(command, place):
    """Wall time in seconds and the largest resident set in MiB; the output goes nowhere, for all tools alike."""
    began = time.perf_counter()
    child = subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    took = time.perf_counter() - began
    if status != 0:
        sys.exit(f"{' '.join(command)} failed\n{said.decode()[-2000:]}")
    return took, usage.ru_maxrss / 1024


class Tool:
    nothing_to_do = True

    def __init__(self, program=None):
        self.program = program

    def prepare(self, place, count):
        pass

    def check(self, place, count):
        with open(f"{place}/out/all") as file:
            assert file.read() == expected(count), f"{self.name}: out/all is wrong"


class Flow(Tool):
    name = "flow"

    def prepare(self, place, count):
        with open(f"{place}/copies.yaml", "w") as file:
            file.write(f"""flow: 1
name: copies
steps:
  copy:
    matrix: {{n: "${{{{ range({count}) }}}}"}}
    run: cp from/${{{{ n }}}}.txt out/${{{{ n }}}}.txt
    inputs: ["from/${{{{ n }}}}.txt"]
    outputs: ["out/${{{{ n }}}}.txt"]
  all:
    run: cat ${{{{ steps.copy | map(attribute='out') | join(' ') }}}} > out/all
    outputs: [out/all]
""")

    def command(self):
        return [self.program, "run", "copies.yaml", "-j", str(JOBS)]

    def check(self, place, count):
        size = len(expected(count))
        kept = (path for path in glob.glob(f"{place}/.flow/objects/*/*") if os.path.getsize(path) == size)
        assert any(open(path).read() == expected(count) for path in kept), "flow: out/all is wrong"


class Ninja(Tool):
    name = "ninja"

    def prepare(self, place, count):
        with open(f"{place}/build.ninja", "w") as file:
            file.write("rule copy\n  command = cp $in $out\nrule all\n  command = cat $in > $out\n")
            for n in range(count):
                file.write(f"build out/{n}.txt: copy from/{n}.txt\n")
            file.write(f"build out/all: all {' '.join(f'out/{n}.txt' for n in range(count))}\n")

    def command(self):
        return [self.program, f"-j{JOBS}"]


class Make(Tool):
    name = "make"

    def prepare(self, place, count):
        with open(f"{place}/Makefile", "w") as file:
            file.write("out/all: " + " ".join(f"out/{n}.txt" for n in range(count)) + "\n\tcat $^ > $@\n")
            file.write("out/%.txt: from/%.txt\n\tcp $< $@\n")

    def command(self):
        return [self.program, f"-j{JOBS}"]


class Xargs(Tool):
    name = "xargs"
    nothing_to_do = False

    def prepare(self, place, count):
        with open(f"{place}/copy.sh", "w") as file:
            file.write(f"seq 0 {count - 1} | xargs -P{JOBS} -I{{}} cp from/{{}}.txt out/{{}}.txt\n")
            file.write(f"seq -f out/%.0f.txt 0 {count - 1} | xargs cat > out/all\n")

    def command(self):
        return ["sh", "copy.sh"]


def planning(flow, folder, count):
    place = os.path.join(folder, "planning")
    os.makedirs(place)
    with open(f"{place}/many.yaml", "w") as file:
        file.write(f"""flow: 1
name: many
steps:
  one:
    matrix: {{n: "${{{{ range({count}) }}}}"}}
    run: echo ${{{{ n }}}}
""")
    return min(timed([flow, "plan", "many.yaml"], place) for _ in range(3))


def show(tools, planned, args):
    flow, ninja = tools[0], tools[1]
    print(f"\n{args.copies} one-file copies and one aggregate, {JOBS} at once, best of {args.rounds} rounds\n")
    print("| tool | first run | × ninja | nothing to do | × ninja |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for tool in tools:
        row = [tool.name, f"{min(tool.first):.2f} s", f"{min(tool.first) / min(ninja.first):.2f}"]
        if tool.nothing:
            row += [f"{min(tool.nothing) * 1e3:.0f} ms", f"{min(tool.nothing) / min(ninja.nothing):.2f}"]
        else:
            row += ["–", "–"]
        print("| " + " | ".join(row) + " |")
    seconds, memory = planned
    print(f"\nplanning {args.instances} instances: {seconds:.2f} s, {memory:.0f} MiB")
    reached = [
        ("nothing to do, at most 2 × ninja", min(flow.nothing) / min(ninja.nothing) <= 2),
        ("first run, at most 2 × ninja", min(flow.first) / min(ninja.first) <= 2),
        ("planning under 3 s and 400 MiB", seconds < 3 and memory < 400),
    ]
    for what, is_so in reached:
        print(f"{'reached' if is_so else 'MISSED '}  {what}")
    return 0 if all(is_so for _, is_so in reached) else 1


if __name__ == "__main__":
    sys.exit(main())
