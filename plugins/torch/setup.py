#!/usr/bin/env python3
"""Makes libtorch ready, then runs a command with it: `python3 setup.py cargo build --release -p flow-torch`.

libtorch is the C++ half of PyTorch. Where python3 has PyTorch of the right version installed, that one is used; else its
wheel is downloaded, without its dependencies but for the two small libraries that its CPU half names and, where there is an
NVIDIA driver, the large ones that its CUDA half names. What was downloaded is kept by version in the user's cache folder and
serves every checkout:

    $FLOW_CACHE/libtorch/2.11.0/installed/torch    a link to the installed PyTorch
                                wheel/torch        the parts of the wheel that are needed
                                wheel/nvidia       NVIDIA's libraries, where the wheel looks for them
                                */link             what LIBTORCH names: the CPU half alone, so that the program starts without CUDA

The command finds LIBTORCH (to build) and LD_LIBRARY_PATH (to start) in its environment; plugin.yaml repeats the latter.
"""

import ctypes
import fcntl
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path

VERSION = "2.11.0"  # the one that tch 0.24 is written for
# NVIDIA's libraries in the versions that torch 2.11.0 itself asks for: those that its CPU half names, and its CUDA half.
ALWAYS = "nvidia-cuda-runtime==13.0.96", "nvidia-cuda-cupti==13.0.85"
CUDA = (
    "nvidia-cublas==13.1.0.3",
    "nvidia-cuda-nvrtc==13.0.88",
    "nvidia-cudnn-cu13==9.19.0.56",
    "nvidia-cufft==12.0.0.61",
    "nvidia-cufile==1.15.1.6",
    "nvidia-curand==10.4.0.35",
    "nvidia-cusparse==12.6.3.3",
    "nvidia-cusparselt-cu13==0.8.0",
    "nvidia-nccl-cu13==2.28.9",
    "nvidia-nvjitlink==13.0.88",
    "nvidia-nvshmem-cu13==3.4.5",
)
PYTHON = "3.12"  # of the wheel: its C++ half is the same for all, so python3 itself may be older or newer
PLATFORMS = "manylinux_2_28", "manylinux_2_27", "manylinux_2_25", "manylinux_2_18", "manylinux2014"
# Those that the CPU half names; on aarch64 ARM's and NVIDIA's arithmetic too.
PARTS = r"torch/(include/.*|version\.py|lib/lib(torch_cpu|c10|gomp|arm_compute.*|nvpl_.*)\.so.*)|nvidia/cu13/lib/lib(cudart|cupti)\.so.*|.*/(LICENSE|License|NOTICE).*"
CUDA_PARTS = PARTS + r"|torch/lib/lib(torch_cuda|torch_nvshmem|c10_cuda|caffe2_nvrtc)\.so|nvidia/[^/]+/lib/.*\.so.*"
MB = 1_000_000


def say(text):
    print(text, file=sys.stderr, flush=True)


def give_up(text):
    sys.exit(f"torch: {text}")


def cache():
    if folder := os.environ.get("FLOW_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "flow"


def check_tools(command):
    if command[:1] != ["cargo"]:
        return
    # `ccache g++ -m64`: the compiler is the last word that is no option.
    compiler = [word for word in shlex.split(os.environ.get("CXX") or "c++") if not word.startswith("-")]
    if not compiler or not shutil.which(compiler[-1]):
        give_up("no C++ compiler; install one and run again: apt-get install g++")
    # libjpeg-turbo, which decodes photographs, is built with them.
    tools = ["cmake", "nasm"] if os.uname().machine == "x86_64" else ["cmake"]
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        say(f"torch: installing {' and '.join(missing)}")
        for words in (["update", "-q"], ["install", "-q", "-y", *missing]):
            subprocess.run(["apt-get", *words], stdout=sys.stderr)
    if missing := [tool for tool in missing if not shutil.which(tool)]:
        give_up(f"no {' and no '.join(missing)}; install and run again: apt-get install {' '.join(missing)}")


def has_driver():
    """Whether there is an NVIDIA driver, and so a use for the CUDA half."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return os.path.exists("/dev/nvidiactl")
    return True


def serves(torch):
    """Whether the PyTorch in a folder is of the right version, with all of its C++ half that this machine has a use for."""
    return version_of(torch) == VERSION and ((torch / "lib/libtorch_cuda.so").is_file() or not has_driver())


def version_of(torch):
    """The version of the PyTorch in a folder, if its C++ half is there too."""
    try:
        found = re.search(r"__version__ = '([^'+]+)", (torch / "version.py").read_text())
    except OSError:
        return None
    complete = (torch / "include/torch/csrc").is_dir() and (torch / "lib/libtorch_cpu.so").is_file()
    return found.group(1) if found and complete else None


def installed():
    """The folder of the PyTorch that python3 would import; importing it would take seconds."""
    spec = importlib.util.find_spec("torch")
    return Path(next(iter(spec.submodule_search_locations))) if spec and spec.submodule_search_locations else None


def pip_download(requirement, folder):
    """Downloads one wheel and tells how far it is: pip itself is silent unless it writes to a terminal."""
    name = requirement.partition("==")[0]
    platforms = [f"--platform={tag}_{os.uname().machine}" for tag in PLATFORMS]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps", "--no-cache-dir", "--quiet"]
    pip += ["--only-binary=:all:", f"--python-version={PYTHON}", *platforms, "--dest", str(folder), requirement]
    done = threading.Event()

    def watch():
        while not done.wait(2):
            size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
            say(f"torch: {size // MB} MB of {name}")

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    code = subprocess.run(pip, env={**os.environ, "TMPDIR": str(folder)}, stdout=sys.stderr).returncode
    done.set()
    watcher.join()
    if code:
        give_up(f"pip could not download {requirement}; see its words above. Once the network is there, run again")
    return next(folder.glob(f"{name.replace('-', '_')}-*.whl"))


def download(wheel):
    """Fills the folder `wheel`; it appears whole or not at all."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode:
        # A virtual environment does not see the system's.
        how = "apt-get install python3-pip" if sys.prefix == sys.base_prefix else f"{sys.executable} -m ensurepip"
        give_up(f"python3 has no pip; install it and run again: {how}")
    cuda = has_driver()
    size, why = ("2.3 GB", ", with its CUDA half, for there is an NVIDIA driver") if cuda else ("545 MB", "")
    say(f"torch: downloading libtorch {VERSION} once{why}, about {size}, to {wheel}")
    wanted = re.compile(CUDA_PARTS if cuda else PARTS)
    for killed in wheel.parent.glob("partial-*"):
        shutil.rmtree(killed)
    with tempfile.TemporaryDirectory(prefix="partial-", dir=wheel.parent) as partial:
        aside = Path(partial)
        for requirement in (f"torch=={VERSION}", *ALWAYS, *(CUDA if cuda else ())):
            packed = aside / "packed"
            packed.mkdir()
            with zipfile.ZipFile(pip_download(requirement, packed)) as archive:
                say(f"torch: unpacking {Path(archive.filename).name}")
                archive.extractall(aside / "wheel", [n for n in archive.namelist() if wanted.fullmatch(n)])
            shutil.rmtree(packed)
        make_link_folder(aside / "wheel")
        if wheel.exists():
            wheel.rename(aside / "without CUDA")
        (aside / "wheel").rename(wheel)


def make_link_folder(home):
    """What the program is linked with. Without libtorch_cuda.so, and with libtorch.so another name of the CPU half,
    nothing of CUDA becomes a requirement for starting."""
    lib = home / "link/lib"
    lib.mkdir(parents=True, exist_ok=True)
    links = {lib / name: f"../../torch/lib/{name}" for name in ("libtorch_cpu.so", "libc10.so")}
    links[lib / "libtorch.so"] = "libtorch_cpu.so"
    links[home / "link/include"] = "../torch/include"
    for link, target in links.items():
        replace_link(link, target)


def replace_link(link, target):
    new = link.with_name(f"{link.name}.new")
    new.unlink(missing_ok=True)
    new.symlink_to(target)
    new.replace(link)


def prepare(base):
    """Returns the folder of `installed` or `wheel` that is to be built with."""
    base.mkdir(parents=True, exist_ok=True)
    with open(base / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("torch: another set-up prepares libtorch; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        home, here = base / "installed", installed()
        if here and serves(here):
            home.mkdir(exist_ok=True)
            replace_link(home / "torch", here)
            make_link_folder(home)
        if serves(home / "torch"):
            say(f"torch: using the installed PyTorch in {os.path.realpath(home / 'torch')}")
            return home
        # Halves of two installations do not fit together.
        (home / "torch").unlink(missing_ok=True)
        wheel = base / "wheel"
        if not serves(wheel / "torch"):
            download(wheel)
        return wheel


def environment():
    """The variables with which the program is built and started."""
    base = cache().absolute() / "libtorch" / VERSION
    home = prepare(base)
    libraries = [str(base / name / "torch/lib") for name in ("installed", "wheel")]
    libraries += filter(None, [os.environ.get("LD_LIBRARY_PATH")])
    return {"LIBTORCH": str(home / "link"), "LD_LIBRARY_PATH": ":".join(libraries)}


def main():
    command = sys.argv[1:]
    check_tools(command)
    os.environ.update(environment())
    if command:
        try:
            os.execvp(command[0], command)
        except OSError as error:
            give_up(f"{command[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
