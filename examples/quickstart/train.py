"""Trains a small network on points inside and outside a ring. It knows nothing of flow."""

import argparse
import math
import random

HIDDEN = 16

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.3)
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()


def draw():
    x, y = random.uniform(-1, 1), random.uniform(-1, 1)
    return x, y, 1.0 if 0.2 < x * x + y * y < 0.8 else 0.0


random.seed(1)
test, train = [draw() for _ in range(1000)], [draw() for _ in range(4000)]
random.seed(args.seed)
layer = [[random.gauss(0, 2) for _ in range(3)] for _ in range(HIDDEN)]
last = [random.gauss(0, 0.5) for _ in range(HIDDEN)] + [0.0]


def forward(x, y):
    hidden = [math.tanh(a * x + b * y + c) for a, b, c in layer]
    total = last[-1] + sum(w * h for w, h in zip(last, hidden))
    return hidden, 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))


def learn(batch):
    rate = args.lr / math.sqrt(len(batch))
    steps = []
    for x, y, label in batch:
        hidden, guess = forward(x, y)
        steps.append((guess - label, x, y, hidden))
    for error, x, y, hidden in steps:
        for i, h in enumerate(hidden):
            back = rate * error * last[i] * (1 - h * h)
            last[i] -= rate * error * h
            layer[i][0] -= back * x
            layer[i][1] -= back * y
            layer[i][2] -= back
        last[-1] -= rate * error


for epoch in range(1, args.epochs + 1):
    random.shuffle(train)
    for start in range(0, len(train), args.batch):
        learn(train[start : start + args.batch])
    loss = right = 0.0
    for x, y, label in test:
        _, guess = forward(x, y)
        loss -= math.log(guess if label else 1 - guess) / len(test)
        right += (guess > 0.5) == (label > 0.5)
    print(f"[{epoch}/{args.epochs}] loss {loss:.4f}, acc {right / len(test):.1%}", flush=True)
