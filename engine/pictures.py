#!/usr/bin/env python3
"""Takes the pictures of `flow view` in the documentation, from published runs. Needs chromium:

    python3 engine/pictures.py
"""

import re
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Each picture: its bundle or two, what the page shows, the size of the window, and whether it is dark.
PICTURES = {
    "docs/pictures/view.png": ("feb08-2xH200", "#lang=en", "1280,2090", False),
    "docs/pictures/view-compared.png": (("feb08-2xH200", "feb08-1xH200"), "#lang=en&step=solo&form=parallel", "1280,2050", False),
    "docs/pictures/view-card.png": ("feb08-2xH200", "#lang=en&card=9&at=140", "1280,900", True),
}


def take(file, bundles, shows, size, dark):
    bundles = [bundles] if isinstance(bundles, str) else bundles
    viewer = [ROOT / "target/release/flow-view", *(ROOT / f"examples/runs/{bundle}.bundle" for bundle in bundles)]
    with subprocess.Popen(viewer, stdout=subprocess.PIPE, text=True) as server, tempfile.TemporaryDirectory() as profile:
        try:
            link = re.search(r"http\S+", server.stdout.readline()).group() + shows
            browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=5000"]
            browser += [f"--user-data-dir={profile}", f"--window-size={size}", f"--screenshot={ROOT / file}"]
            browser += ["--blink-settings=preferredColorScheme=0"] if dark else []
            subprocess.run([*browser, link], check=True, stderr=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin", "TZ": "UTC"})
        finally:
            server.kill()
    print(file)


def main():
    subprocess.run(["cargo", "build", "--release", "-p", "flow-view"], cwd=ROOT, check=True)
    for file, picture in PICTURES.items():
        take(file, *picture)


if __name__ == "__main__":
    main()
