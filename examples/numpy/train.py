"""Trains a small network on digits that it draws itself. Knows nothing of flow."""
import argparse

import numpy as np

# Five columns and seven rows for each digit, a bit a dot.
GLYPHS = """0E11131519110E 040C040404040E 0E11010204081F 1F02040201110E 02060A121F0202
            1F101E0101110E 0608101E11110E 1F010204080808 0E11110E11110E 0E11110F01020C""".split()


def draw(count, random):
    """Digits of 7 × 5 dots, each dot 2 pixels wide, somewhere in 20 × 16 pixels, faint or bold, with noise."""
    rows = np.array([list(bytes.fromhex(glyph)) for glyph in GLYPHS])
    dots = np.kron(rows[:, :, None] >> np.arange(4, -1, -1) & 1, np.ones((1, 2, 2)))
    labels = random.integers(10, size=count)
    images = random.normal(0, 0.45, (count, 20, 16))
    for image, label, x, y in zip(images, labels, random.integers(7, size=count), random.integers(7, size=count)):
        image[y : y + 14, x : x + 10] += dots[label] * random.uniform(0.6, 1.2)
    return images.reshape(count, -1), labels


def softmax(logits):
    exp = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exp / exp.sum(axis=1, keepdims=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--bs", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()

    random = np.random.default_rng(0)
    (x, y), (x_valid, y_valid) = draw(20000, random), draw(2000, random)
    w1, b1 = random.normal(0, 0.05, (x.shape[1], 256)), np.zeros(256)
    w2, b2 = random.normal(0, 0.05, (256, 10)), np.zeros(10)

    for epoch in range(1, args.epochs + 1):
        losses = []
        for batch in np.array_split(random.permutation(len(x)), len(x) // args.bs):
            hidden = np.maximum(x[batch] @ w1 + b1, 0)
            output = softmax(hidden @ w2 + b2)
            picked = np.arange(len(batch)), y[batch]
            losses.append(-np.log(output[picked] + 1e-12).mean())
            output[picked] -= 1
            output /= len(batch)
            back = (output @ w2.T) * (hidden > 0)
            w2 -= args.lr * hidden.T @ output
            b2 -= args.lr * output.sum(axis=0)
            w1 -= args.lr * x[batch].T @ back
            b1 -= args.lr * back.sum(axis=0)
        guess = (np.maximum(x_valid @ w1 + b1, 0) @ w2 + b2).argmax(axis=1)
        print(f"Epoch {epoch}: loss {np.mean(losses):.2f}, acc {100 * (guess == y_valid).mean():.1f}%", flush=True)


if __name__ == "__main__":
    main()
