"""Squeezes photographs through 128 numbers, with a DataLoader of processes; it knows nothing of flow."""

import argparse
import time

import torch
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("photos")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--workers", type=int, default=8, help="processes that load images")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    photos = ImageFolder(args.photos, transforms.Compose([transforms.Resize(64), transforms.CenterCrop(64), transforms.ToTensor()]))
    loader = DataLoader(
        photos, args.batch, shuffle=True, num_workers=args.workers, pin_memory=device == "cuda", persistent_workers=args.workers > 0
    )
    widths, layers = [3, 64, 128, 256, 256], []
    for narrow, wide in zip(widths, widths[1:]):
        layers += [torch.nn.Conv2d(narrow, wide, 3, stride=2, padding=1), torch.nn.ReLU()]
    layers += [torch.nn.Flatten(), torch.nn.Linear(256 * 16, 128), torch.nn.Linear(128, 256 * 16), torch.nn.Unflatten(1, (256, 4, 4))]
    for wide, narrow in zip(widths[::-1], widths[-2::-1]):
        layers += [torch.nn.ReLU(), torch.nn.ConvTranspose2d(wide, narrow, 4, stride=2, padding=1)]
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(1, args.epochs + 1):
        start, total = time.perf_counter(), 0.0
        for images, _ in loader:
            images = images.to(device, non_blocking=True)
            loss = torch.nn.functional.mse_loss(model(images), images)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(images)
        print(f"epoch {epoch}: {time.perf_counter() - start:.3f} s, loss {total / len(photos):.4f}", flush=True)


if __name__ == "__main__":
    main()
