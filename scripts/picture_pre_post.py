#!/usr/bin/env python3
"""Draws training and validation loss of two runs as an SVG, from their traces.

    scripts/picture_pre_post.py RUN_A LABEL_A RUN_B LABEL_B OUT.svg
"""

import json
import pathlib
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 64, 200, 20, 48
COLORS = ("#1f6fb4", "#c8442c")
WINDOW = 25  # steps that a point of the training curve is the mean of


def read(run):
    train, validation, facts = [], [], {}
    for line in (pathlib.Path(run) / "trace.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["row"] == "fact":
            facts[row["name"]] = row["value"]
        elif row["row"] == "step":
            if "loss" in row:
                train.append((row["step"], row["loss"]))
            if "val_loss" in row:
                validation.append((row["step"], row["val_loss"]))
    means = [(train[i][0], sum(l for _, l in train[i:i + WINDOW]) / len(train[i:i + WINDOW]))
             for i in range(0, len(train), WINDOW)]
    return means, validation, facts


def main():
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    runs = [(read(sys.argv[1]), sys.argv[2]), (read(sys.argv[3]), sys.argv[4])]
    facts = runs[0][0][2]
    steps = max(s for (train, val, _), _ in runs for s, _ in train + val)
    low = min(l for (train, val, _), _ in runs for _, l in train + val) - 0.15
    high = max(l for (train, _, _), _ in runs for _, l in train) + 0.1
    px = lambda s: LEFT + (WIDTH - LEFT - RIGHT) * s / steps
    py = lambda l: TOP + (HEIGHT - TOP - BOTTOM) * (high - l) / (high - low)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for i in range(int(low * 2) + 1, int(high * 2) + 1):
        y = py(i / 2)
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e4e4e4"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{i / 2:g}</text>')
    for s in range(0, steps + 1, 200):
        out.append(f'<text x="{px(s):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{s}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">updates</text>')
    out.append(f'<text x="16" y="{(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle" transform="rotate(-90 16 '
               f'{(TOP + HEIGHT - BOTTOM) / 2})">loss, nats a token</text>')
    unigram = facts["baseline_unigram"]
    out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{py(unigram):.1f}" y2="{py(unigram):.1f}" stroke="#777" '
               f'stroke-dasharray="5 4"/>')
    labels = [(unigram, f"unigram baseline {unigram:.2f}", "#777")]
    for ((train, validation, _), label), color in zip(runs, COLORS):
        path = " ".join(f"{px(s + WINDOW / 2):.1f},{py(l):.1f}" for s, l in train)
        out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.6"/>')
        for s, l in validation:
            out.append(f'<circle cx="{px(s):.1f}" cy="{py(l):.1f}" r="3.6" fill="{color}"/>')
        labels.append((validation[-1][1], f"{label}: {validation[-1][1]:.2f}", color))
    at = -1e9
    for l, text, color in sorted(labels, reverse=True):  # labels that would touch are moved apart
        at = max(py(l) + 4, at + 17)
        out.append(f'<text x="{WIDTH - RIGHT + 10}" y="{at:.1f}" fill="{color}">{text}</text>')
    out.append(f'<text x="{WIDTH - RIGHT + 10}" y="{HEIGHT - BOTTOM}" fill="#555" font-size="11">line: training, dot: validation</text>')
    out.append("</svg>")
    pathlib.Path(sys.argv[5]).write_text("\n".join(out) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
