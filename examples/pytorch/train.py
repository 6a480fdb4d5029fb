"""Fine-tunes a classifier on a folder of class folders, as in PyTorch's tutorials; it knows nothing of flow."""

import argparse
import time

import torch
from torch.utils.data import DataLoader
from torchvision import models, transforms
from torchvision.datasets import ImageFolder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("photos")
    parser.add_argument("--model", default="resnet34")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", type=int, default=4, help="processes that load images")
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    photos = ImageFolder(
        args.photos,
        transforms.Compose([transforms.RandomResizedCrop(args.size), transforms.RandomHorizontalFlip(), transforms.ToTensor()]),
    )
    # With workers, batches come from other processes through /dev/shm.
    loader = DataLoader(
        photos, args.batch, shuffle=True, num_workers=args.workers, pin_memory=device == "cuda", persistent_workers=args.workers > 0
    )
    model = models.get_model(args.model, num_classes=len(photos.classes)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(1, args.epochs + 1):
        start, total = time.perf_counter(), 0.0
        for images, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(labels)
        print(f"epoch {epoch}: {time.perf_counter() - start:.3f} s, loss {total / len(photos):.4f}", flush=True)


if __name__ == "__main__":
    main()
