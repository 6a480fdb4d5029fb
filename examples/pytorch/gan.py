"""A generator and a discriminator of small pictures, after the tutorials on DCGAN; the pictures lie in the host's memory; it knows nothing of flow."""

import argparse
import time

import torch
from torch import nn
from torchvision import transforms
from torchvision.datasets import ImageFolder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("photos")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    steps = [transforms.Resize(64), transforms.CenterCrop(64), transforms.ToTensor(), transforms.Normalize(0.5, 0.5)]
    pictures = torch.stack([picture for picture, _ in ImageFolder(args.photos, transforms.Compose(steps))])
    widths, up, down = [512, 256, 128, 64], [], []
    for wide, narrow in zip([100, *widths], [*widths, 3]):
        up += [nn.ConvTranspose2d(wide, narrow, 4, *((1, 0) if wide == 100 else (2, 1)), bias=False)]
        up += [nn.Tanh()] if narrow == 3 else [nn.BatchNorm2d(narrow), nn.ReLU(True)]
    for narrow, wide in zip([3, *widths[::-1]], widths[::-1]):
        down += [nn.Conv2d(narrow, wide, 4, 2, 1, bias=False)]
        down += [nn.LeakyReLU(0.2, True)] if narrow == 3 else [nn.BatchNorm2d(wide), nn.LeakyReLU(0.2, True)]
    generator = nn.Sequential(*up).to(device)
    discriminator = nn.Sequential(*down, nn.Conv2d(512, 1, 4), nn.Flatten(0)).to(device)
    of_generator, of_discriminator = (torch.optim.Adam(m.parameters(), lr=2e-4, betas=(0.5, 0.999)) for m in (generator, discriminator))
    how_real = nn.functional.binary_cross_entropy_with_logits
    for epoch in range(1, args.epochs + 1):
        start, total = time.perf_counter(), 0.0
        for of in torch.randperm(len(pictures)).split(args.batch):
            real = pictures[of].to(device)
            ones, zeros = torch.ones(len(of), device=device), torch.zeros(len(of), device=device)
            drawn = generator(torch.randn(len(of), 100, 1, 1, device=device))
            of_discriminator.zero_grad()
            loss = how_real(discriminator(real), ones) + how_real(discriminator(drawn.detach()), zeros)
            loss.backward()
            of_discriminator.step()
            of_generator.zero_grad()
            how_real(discriminator(drawn), ones).backward()
            of_generator.step()
            total += loss.item() * len(of)
        print(f"epoch {epoch}: {time.perf_counter() - start:.3f} s, loss {total / len(pictures):.4f}", flush=True)


if __name__ == "__main__":
    main()
