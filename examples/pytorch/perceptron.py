"""Learns a function of 32 columns from a million rows, all of them on the GPU; it knows nothing of flow."""

import argparse
import time

import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rows", type=int, default=1_000_000)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = torch.randn(args.rows, 32, device=device)
    target = torch.sin(rows[:, :8]).sum(1, keepdim=True) + rows[:, 8:9] * rows[:, 9:10]
    model = torch.nn.Sequential(
        torch.nn.Linear(32, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1)
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(1, args.epochs + 1):
        start, total = time.perf_counter(), torch.zeros((), device=device)
        for of in torch.randperm(args.rows, device=device).split(args.batch):
            loss = torch.nn.functional.mse_loss(model(rows[of]), target[of])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(of)
        loss = total.item() / args.rows
        print(f"epoch {epoch}: {time.perf_counter() - start:.3f} s, loss {loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
