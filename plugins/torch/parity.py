#!/usr/bin/env python3
"""Trains the same networks from the same weights on the same batches with the plugin and with PyTorch, and compares the loss of
each of 50 steps: `python3 plugins/torch/parity.py [--program FILE] [--gpus N]`. Ends with 1 if they are not the same. `--names`
prints a digest of the names and shapes of each network's variables instead, which the plugin's own tests hold.

It needs PyTorch and torchvision for python3; without them it says so and ends with 0. The weights are those of a short training in
PyTorch: in new networks gradients explode towards the first layers and magnify rounding. What is left of that shows the last column:
how far PyTorch is from itself on images that differ in the seventh digit. With N GPUs every network is trained
on one, and on all of them with each batch divided. Each GPU normalises its part by the part's own statistics, as PyTorch's
data parallel training does; so does the reference.
"""

import argparse
import json
import struct
import sys
import tempfile
from pathlib import Path

import attempt

try:
    import torch
    import torchvision
    from PIL import Image
except ImportError as error:
    sys.exit(print(f"skipped: {error}") or 0)

BATCH, CLASSES, SEED, RATE = 32, 5, 7, 3e-4
# The networks, and the size of the images.
MODELS = {
    "alexnet": 64,
    "densenet121": 64,
    "googlenet": 64,
    "inception_v3": 299,
    "mobilenet_v2": 64,
    "mobilenet_v3_large": 64,
    "resnet18": 64,
    "resnet34": 64,
    "resnet50": 64,
    "vgg16": 64,
    "vgg19": 64,
    "vit_b_16": 64,
}
WITH_DROPOUT = {"alexnet", "googlenet", "inception_v3", "mobilenet_v2", "mobilenet_v3_large", "vgg16", "vgg19"}
# How much of the loss of each auxiliary head counts.
AUXILIARY = {"googlenet": 0.3, "inception_v3": 0.4}
MEAN, STD = [0.5, 0.4, 0.6], [0.25, 0.2, 0.3]
TOLERANCE = 1e-3
MASK = (1 << 64) - 1


def mix(value):
    """One step of the plugin's way from several numbers to a seed: SplitMix64's finaliser."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ value >> 27) * 0x94D049BB133111EB) & MASK
    return value ^ value >> 31


def shuffled(items, seed):
    """As the plugin shuffles: wyrand, numbers below n by Lemire's method."""
    items, state = list(items), seed

    def draw():
        nonlocal state
        state = (state + 0x2D358DCCAA6C78A5) & MASK
        product = state * (state ^ 0x8BB84B93962EACC9)
        return (product ^ product >> 64) & MASK

    for i in range(1, len(items)):
        n = i + 1
        product = draw() * n
        while product & MASK < ((1 << 64) - n) % n:
            product = draw() * n
        j = product >> 64
        items[i], items[j] = items[j], items[i]
    return items


def order(samples, epoch):
    seed = 0
    for part in (SEED, 2, epoch):
        seed = mix(seed ^ part)
    return shuffled(range(samples), seed)


def build(name, size):
    """The network, without dropout: two programs do not drop the same."""
    options = {"dropout": 0.0} if name in WITH_DROPOUT else {}
    options |= {"dropout_aux": 0.0} if name == "googlenet" else {}
    options |= {"init_weights": True} if name in AUXILIARY else {}
    options |= {"image_size": size} if name.startswith("vit") else {}
    return getattr(torchvision.models, name)(num_classes=CLASSES, **options)


def loss_of(name, model, pixels, labels):
    """What is minimised: with auxiliary heads a model gives its own answer first, and theirs after it."""
    own, *auxiliary = answers if isinstance(answers := model(pixels), tuple) else (answers,)
    loss = torch.nn.functional.cross_entropy(own, labels)
    return sum((torch.nn.functional.cross_entropy(other, labels) * AUXILIARY[name] for other in auxiliary), loss)


def names():
    """FNV-1a of the lines `name [shape]`, for 1000 classes; the count of batches seen is nothing that is trained."""
    for name in MODELS:
        options = {"init_weights": False} if name in AUXILIARY else {}
        with torch.device("meta"):
            state = getattr(torchvision.models, name)(**options).state_dict()
        lines = (f"{name} {list(value.shape)}\n" for name, value in sorted(state.items()) if value.dtype == torch.float32)
        digest = 0xCBF29CE484222325
        for byte in "".join(lines).encode():
            digest = (digest ^ byte) * 0x100000001B3 & MASK
        print(f"{name:20} {digest:#018x}")


def draw(label, size):
    """Smooth colours, in a finer pattern for each class."""
    coarse = torch.rand(1, 3, 3 + label, 3 + label)
    image = torch.nn.functional.interpolate(coarse, (size, size), mode="bilinear")[0].permute(1, 2, 0)
    return (255 * image).to(torch.uint8)


def normalised(images):
    pixels = torch.stack(images).permute(0, 3, 1, 2).float() / 255
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (MEAN, STD))
    return (pixels - mean) / std


def settle(name, model, size, device, steps):
    """Trains on other images of the same kind."""
    model = model.to(device).train()
    # Without normalisation a rate that suits the others explodes.
    normalises = any(isinstance(part, torch.nn.BatchNorm2d) for part in model.modules())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02 if normalises else 0.002, momentum=0.9)
    labels = torch.arange(BATCH) % CLASSES
    for _ in range(steps):
        optimizer.zero_grad()
        images = normalised([draw(int(label), size) for label in labels])
        loss_of(name, model, images.to(device), labels.to(device)).backward()
        optimizer.step()
    return model.cpu()


def dataset(folder, size):
    """As many images as a batch has: every epoch is one step, on all of them in another order."""
    torch.manual_seed(1)
    samples, images, labels = [], [], []
    for i in range(BATCH):
        label = i % CLASSES
        image = draw(label, size)
        (folder / "images").mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.numpy()).save(folder / f"images/{i:02}.png")
        samples.append([f"{i:02}.png", label])
        images.append(image)
        labels.append(label)
    manifest = {"format": 1, "version": "v11", "size": size, "classes": [str(c) for c in range(CLASSES)]}
    (folder / "dataset.json").write_text(json.dumps({**manifest, "mean": MEAN, "std": STD, "samples": samples}))
    return normalised(images), torch.tensor(labels)


def write_weights(model, file):
    """safetensors: the length of a JSON header, the header, the numbers."""
    header, data = {}, b""
    for name, tensor in model.state_dict().items():
        if tensor.dtype == torch.float32:
            numbers = tensor.contiguous().numpy().tobytes()
            header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(numbers)]}
            data += numbers
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)


def reference(name, model, images, labels, device, parts, steps):
    """The losses in PyTorch, each batch in `parts` parts."""
    model = model.to(device).train().to(memory_format=torch.channels_last)
    images, labels = images.to(device), labels.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9, weight_decay=1e-4)
    losses = []
    for step in range(steps):
        chosen = order(len(labels), step + 1)
        optimizer.zero_grad()
        total = 0.0
        for part in range(parts):
            own = chosen[part * BATCH // parts : (part + 1) * BATCH // parts]
            pixels = images[own].contiguous(memory_format=torch.channels_last)
            loss = loss_of(name, model, pixels, labels[own]) * len(own) / BATCH
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("--program", default=attempt.PROGRAM, help="the plugin's program")
    arguments.add_argument("--gpus", type=int, default=min(1, torch.cuda.device_count()), help="0 compares on the CPU")
    arguments.add_argument("--steps", type=int, default=50)
    arguments.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), metavar="MODEL")
    arguments.add_argument("--names", action="store_true", help="print what the plugin's own tests hold")
    chosen = arguments.parse_args()
    if chosen.names:
        return names()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    cards, same = attempt.visible()[: chosen.gpus], True
    if len(cards) < chosen.gpus:
        sys.exit(f"there are {len(cards)} GPUs, not {chosen.gpus}")
    places = [cards[:n] for n in sorted({min(1, chosen.gpus), chosen.gpus})]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        data = {size: dataset(folder / str(size), size) for size in {MODELS[name] for name in chosen.models}}
        print(f"{'model':20} {'on':8} {'first loss':>10} {'last':>10} {'PyTorch':>10} {'difference: first':>18} {'largest of ' + str(chosen.steps):>14} {'PyTorch, itself':>16}")
        for name in chosen.models:
            torch.manual_seed(SEED)
            size = MODELS[name]
            images, labels = data[size]
            start = settle(name, build(name, size), size, "cuda" if chosen.gpus else "cpu", 10 + chosen.steps)
            write_weights(start, folder / "weights")
            for gpus in places:
                copy = build(name, size)
                copy.load_state_dict(start.state_dict())
                parameters = {"data": "in/data", "weights": "in/weights", "model": name, "batch": BATCH, "epochs": chosen.steps}
                parameters |= {"lr": RATE, "schedule": "constant", "valid": 0, "flip": False, "dropout": 0}
                inputs = {"in/data": folder / str(size), "in/weights": folder / "weights"}
                ours = attempt.run("train", parameters, gpus=gpus, cpus=2, seed=SEED, inputs=inputs, program=chosen.program)
                losses = ours.expect_ok().metrics["train_loss"]
                theirs = reference(name, copy, images, labels, "cuda" if gpus else "cpu", max(1, len(gpus)), chosen.steps)
                copy.load_state_dict(start.state_dict())
                rounded = images * (1 + 1e-7 * torch.randn(images.shape))
                again = reference(name, copy, rounded, labels, "cuda" if gpus else "cpu", max(1, len(gpus)), chosen.steps)
                differences = [abs(a - b) for a, b in zip(losses, theirs, strict=True)]
                itself = max(abs(a - b) for a, b in zip(again, theirs, strict=True))
                first, worst = differences[0], max(differences)
                same &= worst < TOLERANCE
                on = f"{len(gpus)} GPU{'s' * (len(gpus) > 1)}" if gpus else "CPU"
                print(f"{name:20} {on:8} {losses[0]:10.5f} {losses[-1]:10.5f} {theirs[-1]:10.5f} {first:18.1e} {worst:14.1e} {itself:16.1e}", flush=True)
    sys.exit(0 if same else f"they differ by more than {TOLERANCE}")


if __name__ == "__main__":
    main()
