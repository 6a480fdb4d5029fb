#!/usr/bin/env python3
"""What the engine costs: 5,000 one-file copies and one aggregate, beside ninja, make and a bare xargs; planning 100,000
instances; each way in which a sweep of copies is used, at several sizes, beside ninja, and what is asked about it while another
run has the store, beside the same without; and eight runs at once on one store beside one run of as many copies. One command, ratios from one run:

    python3 engine/benchmark.py

Builds flow in release mode, brings ninja with pip if it is missing, and says how far the figures are from what is
aimed at. Rounds of all tools alternate, so that a busy machine is busy for all; the best of each counts. The uses are
gone through once at each of `--sizes`; `--sizes 1000,20000,100000` takes an hour, `--only-uses` leaves out the rest.
"""

import argparse
import contextlib
import glob
import os
import shutil
import signal
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
        # Nothing else is removed with this folder.
        os.environ["XDG_CACHE_HOME"] = os.path.join(folder, "cache")
        tools = [Flow(flow), Ninja(ninja(folder)), *([] if args.only_uses else [Make(make()), Xargs()])]
        reached = [] if args.only_uses else compared(flow, tools, folder, args)
        reached += used(tools[:2], folder, args.sizes)
        reached += [] if args.only_uses else at_once(flow, folder, args.each, args.rounds)
    for what, is_so in reached:
        print(f"{'reached' if is_so else 'MISSED '}  {what}")
    return 0 if all(is_so for _, is_so in reached) else 1


def compared(flow, tools, folder, args):
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
    return show(tools, planning(flow, folder, args.instances), args)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=5_000, help="one-file copies (default: 5000)")
    parser.add_argument("--instances", type=int, default=100_000, help="instances to plan (default: 100000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: 3)")
    sizes = lambda text: sorted(int(size) for size in text.split(","))
    parser.add_argument("--sizes", type=sizes, default=[500, 2_000], help="sizes of the sweep that is used (default: 500,2000)")
    parser.add_argument("--each", type=int, default=1_000, help="copies of each of eight runs at once (default: 1000)")
    parser.add_argument("--only-uses", action="store_true", help="only how a sweep is used")
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
    write(place, range(count), "line")


def write(place, numbers, word):
    for n in numbers:
        with open(f"{place}/from/{n}.txt", "w") as file:
            file.write(f"{word} {n}\n")


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

    def asks(self, question, size):
        return None

    def __init__(self, program=None):
        self.program = program

    def prepare(self, place, count):
        pass

    def check(self, place, count):
        with open(f"{place}/out/all") as file:
            assert file.read() == expected(count), f"{self.name}: out/all is wrong"


class Flow(Tool):
    name = "flow"

    def prepare(self, place, count, gather="cat ${{ steps.copy | map(attribute='out') | join(' ') }}"):
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
    run: {gather} > out/all
    outputs: [out/all]
""")

    def sweep(self, place, count):
        """As it is prepared, but for the list of files, which no command line holds of many."""
        self.prepare(place, count, "echo ${{ steps.copy | length }}")

    def asks(self, question, size):
        one = f"copy[n={size // 2}]"
        return [self.program] + {
            "plan, one changed": ["plan", "copies.yaml"],
            "plan, half of it there": ["plan", "copies.yaml"],
            "why": ["why", one],
            "why, all": ["why", "copy", "-w", "copies.yaml"],
            "show": ["show", one],
            "show, all": ["show", "copy", "-w", "copies.yaml"],
            "results": ["results", "-w", "copies.yaml"],
            "logs": ["logs", one],
            "logs, all": ["logs", "copy"],
            "status": ["status"],
            "doctor": ["doctor"],
        }[question]

    def command(self):
        return [self.program, "run", "copies.yaml", "-j", str(JOBS)]

    def check(self, place, count):
        size = len(expected(count))
        kept = (path for path in glob.glob(f"{place}/.flow/objects/*/*") if os.path.getsize(path) == size)
        assert any(open(path).read() == expected(count) for path in kept), "flow: out/all is wrong"


class Ninja(Tool):
    name = "ninja"

    def sweep(self, place, count):
        self.prepare(place, count, f"echo {count}")

    def prepare(self, place, count, gather="cat $in"):
        with open(f"{place}/build.ninja", "w") as file:
            file.write(f"rule copy\n  command = cp $in $out\nrule all\n  command = {gather} > $out\n")
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
    return [
        ("nothing to do, at most 1.2 × ninja", min(flow.nothing) / min(ninja.nothing) <= 1.2),
        ("first run, at most 1.5 × ninja", min(flow.first) / min(ninja.first) <= 1.5),
        ("planning under 3 s and 400 MiB", seconds < 3 and memory < 400),
    ]


# What is done to a sweep, one after the other, and what flow is asked about it on the way.
USES = ["first run", "nothing", "one changed", "all changed", "new axis value", "resumed after a kill"]
AT_MOST = {"first run": 1.5, "nothing": 1.2, "one changed": 2}
QUESTIONS = ["plan, one changed", "plan, half of it there", "why", "why, all", "show", "show, all", "results", "logs", "status", "logs, all", "doctor"]
# What is asked of whoever has the store, too, while another run does.
BESIDE = [(question, f"{question}, beside a run") for question in ("plan, one changed", "why, all", "show, all", "results")]


def used(tools, folder, sizes):
    took = {}
    for size in sizes:
        for tool in tools:
            place = os.path.join(folder, f"{tool.name}-used-{size}")
            copies(place, size + 1)
            tool.sweep(place, size)
            for use, seconds in use_all(tool, place, size):
                took[tool.name, use, size] = min(seconds, took.get((tool.name, use, size), seconds))
            print(f"used: {tool.name}, {size} copies", file=sys.stderr)
    def table(beside, uses):
        print("\n| a sweep of | " + " | ".join(f"{size} | × {beside}" for size in sizes) + " |")
        print("| --- |" + " ---: | ---: |" * len(sizes))
        for use, other in uses:
            cells = []
            for size in sizes:
                own, than = took["flow", use, size], took.get((*other, size))
                cells += [f"{own:.2f} s", f"{own / than:.2f}" if than else "–"]
            print(f"| {use} | " + " | ".join(cells) + " |")

    table("ninja", [(use, ("ninja", use)) for use in USES + QUESTIONS])
    table("alone", [(beside, ("flow", question)) for question, beside in BESIDE])
    print()
    reached = []
    for use, most in AT_MOST.items():
        ratio = max(took["flow", use, size] / took["ninja", use, size] for size in sizes)
        reached.append((f"used, {use}: at most {most} × ninja, is {ratio:.2f}", ratio <= most))
    for question, beside in BESIDE:
        ratio = max(took["flow", beside, size] / took["flow", question, size] for size in sizes)
        reached.append((f"{beside}: at most 2 × alone, is {ratio:.2f}", ratio <= 2))
    # What goes with the square of the size takes as many times as long for each copy as there are more of them.
    least, most = sizes[0], sizes[-1]
    for use in (USES + QUESTIONS + [beside for _, beside in BESIDE]) if most >= 4 * least else []:
        growth = (took["flow", use, most] + 0.1) / (took["flow", use, least] + 0.1) / (most / least)
        reached.append((f"linear: {use}", growth < 2))
    return reached


def at_once(flow, folder, each, rounds):
    """Eight runs of `each` copies on one store, and one run of all of them: on the same CPUs, which are one ledger."""
    runs = 8
    took = {1: [], runs: []}
    for number in range(rounds):
        for several in took:
            place = os.path.join(folder, f"at-once-{several}-{number}")
            copies(place, runs * each)
            size = runs * each // several
            for run in range(several):
                with open(f"{place}/part{run}.yaml", "w") as file:
                    file.write(f"""flow: 1
name: part{run}
steps:
  copy{run}:
    matrix: {{n: "${{{{ range({run * size}, {run * size + size}) }}}}"}}
    run: cp from/${{{{ n }}}}.txt out/${{{{ n }}}}.txt
    inputs: ["from/${{{{ n }}}}.txt"]
    outputs: ["out/${{{{ n }}}}.txt"]
""")
            began = time.perf_counter()
            command = lambda run: [flow, "run", f"part{run}.yaml", "-j", str(JOBS)]
            children = [subprocess.Popen(command(run), cwd=place, stdout=subprocess.DEVNULL) for run in range(several)]
            if any(child.wait() for child in children):
                sys.exit(f"one of {several} runs at once failed")
            took[several].append(time.perf_counter() - began)
            print(f"at once: {several} of {size} copies {took[several][-1]:.2f} s", file=sys.stderr)
    one, eight = min(took[1]), min(took[runs])
    print(f"{runs} runs of {each} copies on one store: {eight:.2f} s; one run of {runs * each}: {one:.2f} s\n")
    return [(f"{runs} runs at once, at most 1 × one run of all, is {eight / one:.2f}", eight <= one)]


def use_all(tool, place, size):
    """Goes through the uses of a sweep; yields each with the seconds that it took."""
    run = lambda: timed(tool.command(), place)[0]
    # Several times where it is quick.
    asked = lambda question: [(question, timed(tool.asks(question, size), place)[0]) for _ in range(2) if tool.asks(question, size)]
    yield "first run", run()
    for _ in range(3):
        yield "nothing", run()
    write(place, [size // 2], "changed")
    yield from asked("plan, one changed")
    yield from asked("why")
    yield "one changed", run()
    write(place, [size // 3], "changed")
    yield "one changed", run()
    for question in ["show", "logs", "status", "logs, all", "doctor"]:
        yield from asked(question)
    write(place, [size // 4], "changed")
    for question, _ in BESIDE:
        yield from asked(question)
    with a_run(tool, place) if tool.asks("why", size) else contextlib.nullcontext():
        for question, beside in BESIDE:
            yield from ((beside, seconds) for _, seconds in asked(question))
    tool.sweep(place, size + 1)
    yield "new axis value", run()
    write(place, range(size + 1), "changed all")
    whole = run()
    yield "all changed", whole
    write(place, range(size + 1), "changed again")
    killed(tool.command(), place, whole / 2)
    yield from asked("plan, half of it there")
    yield "resumed after a kill", run()


@contextlib.contextmanager
def a_run(tool, place):
    """Another workflow runs, and has the store."""
    with open(f"{place}/other.yaml", "w") as file:
        file.write(f"flow: 1\nname: other\nsteps: {{sleep: {{run: touch {place}/.began; sleep 1000}}}}\n")
    child = subprocess.Popen([tool.program, "run", "other.yaml"], cwd=place, stdout=subprocess.DEVNULL)
    while not os.path.exists(f"{place}/.began"):
        if child.poll() is not None:
            sys.exit("the other run failed")
        time.sleep(0.01)
    try:
        yield
    finally:
        child.send_signal(signal.SIGINT)
        child.wait()
    # What is asked for next is about the first workflow again.
    os.remove(f"{place}/other.yaml")


def killed(command, place, seconds):
    """Runs for so long, and is killed."""
    child = subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    child.send_signal(signal.SIGKILL)
    child.wait()


if __name__ == "__main__":
    sys.exit(main())
