"""A small GPT that learns to write Python from Python's own library, in bfloat16, a fixed number of iterations an epoch; it knows nothing of flow."""

import argparse
import pathlib
import sysconfig
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.attention(self.before_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.before_mlp(x))


class GPT(nn.Module):
    def __init__(self, of, length, width=384, heads=6, layers=6):
        super().__init__()
        self.characters, self.positions = nn.Embedding(of, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, of))

    def forward(self, text):
        return self.head(self.blocks(self.characters(text) + self.positions.weight[: text.shape[1]]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=100, help="an epoch")
    parser.add_argument("--length", type=int, default=256, help="characters of an example")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    library = sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py"))
    text = torch.frombuffer(bytearray(b"".join(file.read_bytes() for file in library)), dtype=torch.uint8).to(device)
    model = GPT(256, args.length).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    along = torch.arange(args.length + 1, device=device)
    for epoch in range(1, args.epochs + 1):
        start, total = time.perf_counter(), 0.0
        for _ in range(args.iterations):
            begin = torch.randint(len(text) - args.length, (args.batch, 1), device=device)
            part = text[begin + along].long()
            with torch.autocast(device, torch.bfloat16):
                loss = F.cross_entropy(model(part[:, :-1]).flatten(0, 1), part[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: {time.perf_counter() - start:.3f} s, loss {total / args.iterations:.4f}", flush=True)


if __name__ == "__main__":
    main()
