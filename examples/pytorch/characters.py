"""Learns to write Python from Python's own library, character by character, a hundred batches an epoch; it knows nothing of flow."""

import argparse
import pathlib
import sysconfig
import time

import torch


class Characters(torch.nn.Module):
    def __init__(self, of):
        super().__init__()
        self.embedding = torch.nn.Embedding(of, 256)
        self.recurrent = torch.nn.GRU(256, 512, num_layers=2, batch_first=True)
        self.head = torch.nn.Linear(512, of)

    def forward(self, text):
        return self.head(self.recurrent(self.embedding(text))[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=100, help="an epoch")
    parser.add_argument("--length", type=int, default=128, help="characters of an example")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    library = sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py"))
    text = torch.frombuffer(bytearray(b"".join(file.read_bytes() for file in library)), dtype=torch.uint8).to(device)
    model = Characters(256).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    along = torch.arange(args.length + 1, device=device)
    for epoch in range(1, args.epochs + 1):
        start, total = time.perf_counter(), 0.0
        for _ in range(args.iterations):
            begin = torch.randint(len(text) - args.length, (args.batch, 1), device=device)
            part = text[begin + along].long()
            loss = torch.nn.functional.cross_entropy(model(part[:, :-1]).flatten(0, 1), part[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: {time.perf_counter() - start:.3f} s, loss {total / args.iterations:.4f}", flush=True)


if __name__ == "__main__":
    main()
