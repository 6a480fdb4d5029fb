#!/usr/bin/env python3
"""How fast the plugin trains beside PyTorch, on one GPU and in one run: `python3 plugins/torch/benchmark.py [--program FILE]`.

First on random images that are already on the GPU: the same model, batch, precision and memory format in the plugin and in
PyTorch (eager). Then from JPEG photographs, which v7 crops and resizes in every epoch and v11 did once, beside a DataLoader of
as many workers as there are CPUs.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import attempt

try:
    import torch
    import torchvision
    from PIL import Image
except ImportError as error:
    sys.exit(print(f"skipped: {error}") or 0)

SIZE, MEAN, STD = 224, [0.5, 0.5, 0.5], [0.25, 0.25, 0.25]
# Name: precision, channels last.
FORMATS = {"fp32": ("fp32", False), "fp32 channels-last": ("fp32", True), "tf32": ("tf32", True), "bf16": ("bf16", True)}


class Eager:
    """A training in PyTorch as its own examples write it."""

    def __init__(self, name, classes, precision, channels_last):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
        self.memory = torch.channels_last if channels_last else torch.contiguous_format
        self.model = getattr(torchvision.models, name)(num_classes=classes).cuda().train().to(memory_format=self.memory)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)
        self.bf16 = precision == "bf16"

    def step(self, images, labels):
        self.optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=self.bf16):
            loss = torch.nn.functional.cross_entropy(self.model(images), labels)
        loss.backward()
        self.optimizer.step()


def eager_on_gpu(name, precision, channels_last, batch, seconds):
    training = Eager(name, 1000, precision, channels_last)
    images = torch.randn(batch, 3, SIZE, SIZE, device="cuda").contiguous(memory_format=training.memory)
    labels = torch.randint(1000, (batch,), device="cuda")

    def steps(count):
        start = time.perf_counter()
        for _ in range(count):
            training.step(images, labels)
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / count

    steps(5)
    rate = batch / steps(max(1, int(seconds / steps(5))))
    torch.cuda.empty_cache()
    return rate


def on_gpu(options, card):
    print(f"{'model':14} {'format':20} {'batch':>6} {'flow':>8} {'PyTorch':>8} images/s  {'ratio':>6}")
    worst = {}
    for name in options.models:
        for form in options.formats:
            precision, channels_last = FORMATS[form]
            parameters = {"model": name, "precision": precision, "channels_last": channels_last}
            parameters |= {"batches": options.batches, "seconds": options.seconds}
            ours = attempt.run("profile", parameters, gpus=[card], program=options.program).expect_ok()
            for batch, rate in zip(options.batches, ours.metrics["images_per_s"], strict=True):
                theirs = eager_on_gpu(name, precision, channels_last, batch, options.seconds)
                worst[form] = min(worst.get(form, 9.0), rate / theirs)
                print(f"{name:14} {form:20} {batch:6} {rate:8.0f} {theirs:8.0f} {rate / theirs:16.2f}", flush=True)
    print("least ratio: " + ", ".join(f"{form} {ratio:.2f}" for form, ratio in worst.items()))


class Photos(torch.utils.data.Dataset):
    def __init__(self, files, transform):
        self.files, self.transform = files, transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return self.transform(Image.open(self.files[index]).convert("RGB")), index % 10


def draw(folder, count):
    """Photographs of ImageNet's usual size, and each cut to its middle in the size of training."""
    torch.manual_seed(3)
    for i in range(count):
        coarse = torch.rand(1, 3, 24, 32)
        image = torch.nn.functional.interpolate(coarse, (375, 500), mode="bicubic")[0].clamp(0, 1)
        image = (image + 0.08 * torch.randn_like(image)).clamp(0, 1)
        photo = Image.fromarray((255 * image).byte().permute(1, 2, 0).numpy())
        for version, picture in (("v7", photo), ("v11", photo.crop((62, 0, 437, 375)).resize((SIZE, SIZE)))):
            (folder / version / "images").mkdir(parents=True, exist_ok=True)
            picture.save(folder / version / f"images/{i:03}.jpg", quality=92)


def eager_from_photos(version, files, precision, batch, workers):
    from torchvision import transforms as t

    crop = [t.RandomResizedCrop(SIZE, scale=(0.35, 1.0))] if version == "v7" else []
    transform = t.Compose([*crop, t.RandomHorizontalFlip(), t.ToTensor(), t.Normalize(MEAN, STD)])
    loader = torch.utils.data.DataLoader(
        Photos(files, transform), batch, shuffle=True, num_workers=workers, pin_memory=True, drop_last=True
    )
    training, seen, start = Eager("mobilenet_v2", 10, precision, True), 0, 0.0
    for number, (images, labels) in enumerate(loader):
        if number == 2 * workers // 3 + 5:  # The workers have begun, and what they had ready is used up.
            torch.cuda.synchronize()
            seen, start = 0, time.perf_counter()
        images = images.cuda(non_blocking=True).contiguous(memory_format=torch.channels_last)
        training.step(images, labels.cuda(non_blocking=True))
        seen += batch
    torch.cuda.synchronize()
    return seen / (time.perf_counter() - start)


def from_photos(options, card):
    cpus, batch = len(os.sched_getaffinity(0)), 128
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        draw(folder, 420)
        size = sum(f.stat().st_size for f in (folder / "v7/images").iterdir()) / 420
        print(f"\nmobilenet_v2, batch {batch}, 420 photographs of 500×375 ({size / 1000:.0f} KB), {cpus} CPUs, images/s")
        print(f"{'dataset':8} {'format':8} {'flow':>8} {'waiting':>8} {'PyTorch':>8} {'ratio':>6} {'on the GPU':>11} {'share':>6}")
        for precision in ("fp32", "bf16"):
            parameters = {"model": "mobilenet_v2", "precision": precision, "classes": 10, "batches": [batch]}
            limit = attempt.run("profile", parameters, gpus=[card], program=options.program).expect_ok()
            limit = limit.metrics["images_per_s"][0]
            for version in ("v7", "v11"):
                names = sorted(f.name for f in (folder / version / "images").iterdir())
                repeat = int(options.seconds * 2 * limit) // len(names) + 1
                samples = [[n, i % 10] for i, n in enumerate(names * repeat)]
                manifest = {"format": 1, "version": version, "size": SIZE, "classes": [str(c) for c in range(10)]}
                manifest |= {"mean": MEAN, "std": STD, "samples": samples}
                (folder / version / "dataset.json").write_text(json.dumps(manifest))
                parameters = {"data": "in/data", "precision": precision, "batch": batch, "epochs": 2, "valid": 0}
                ours = attempt.run(
                    "train", parameters, gpus=[card], cpus=cpus, inputs={"in/data": folder / version}, program=options.program
                ).expect_ok()
                rate, waited = ours.metrics["images_per_s"][-1], ours.metrics["data_wait"][-1]
                files = [folder / version / "images" / n for n in names] * (repeat // 2 + 1)
                theirs = eager_from_photos(version, files, precision, batch, cpus)
                wait = waited / ours.metrics["epoch_time"][-1]
                print(
                    f"{version:8} {precision:8} {rate:8.0f} {wait:8.0%} {theirs:8.0f} {rate / theirs:6.2f} {limit:11.0f} {rate / limit:6.2f}",
                    flush=True,
                )


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("--program", default=attempt.PROGRAM, help="the plugin's program")
    arguments.add_argument("--models", nargs="*", default=["mobilenet_v2", "resnet34", "resnet50"])
    arguments.add_argument("--formats", nargs="*", default=["fp32", "bf16"], choices=FORMATS)
    arguments.add_argument("--batches", nargs="*", type=int, default=[16, 32, 64, 128, 256, 512])
    arguments.add_argument("--seconds", type=float, default=1.0, help="for each point")
    arguments.add_argument("--no-photos", action="store_true", help="only what is on the GPU already")
    options = arguments.parse_args()
    cards = attempt.visible()
    if not cards or not torch.cuda.is_available():
        sys.exit(print("skipped: there is no GPU") or 0)
    print(f"{cards[0]['name']}, PyTorch {torch.__version__}, torchvision {torchvision.__version__}")
    if options.models and options.formats:
        on_gpu(options, cards[0])
    if not options.no_photos:
        from_photos(options, cards[0])


if __name__ == "__main__":
    main()
