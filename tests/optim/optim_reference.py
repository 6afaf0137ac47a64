#!/usr/bin/env python3
"""Writes the numbers of tests/optim/reference.h: PyTorch 1.13's SGD and label smoothing, and Muon from its authors' definition.

  /usr/bin/python3 tests/optim/optim_reference.py > tests/optim/reference.h

Decoupled decay is p *= 1 - lr * decay before each step. All in float64.
"""

import math

import torch

LR, DECAY, STEPS = 0.1, 0.5, 4


def values(rows, cols, seed):
    """Numbers that a float holds, from no library's generator."""
    state, out = seed, []
    for _ in range(rows * cols):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2 ** 64
        out.append(((state >> 40) - 2 ** 23) / 2 ** 23)
    return torch.tensor(out).reshape(rows, cols)


def newton_schulz(g, steps=5):
    """zeropower_via_newtonschulz5 of https://github.com/KellerJordan/Muon, without its cast to bfloat16."""
    a, b, c = (3.4445, -4.7750, 2.0315)
    x = g
    if g.size(0) > g.size(1):
        x = x.T
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if g.size(0) > g.size(1) else x


def sgd(momentum):
    p = torch.nn.Parameter(values(2, 3, 1))
    rule = torch.optim.SGD([p], lr=LR, momentum=momentum)
    for step in range(STEPS):
        p.grad = values(2, 3, 100 + step)
        with torch.no_grad():
            p.mul_(1 - LR * DECAY)
        rule.step()
    return p.detach()


def muon(rows, cols, momentum=0.95):
    p, buf = values(rows, cols, 2), torch.zeros(rows, cols)
    for step in range(STEPS):
        g = values(rows, cols, 200 + step)
        buf.mul_(momentum).add_(g)
        update = newton_schulz(g.add(buf, alpha=momentum))
        p.mul_(1 - LR * DECAY).add_(update, alpha=-LR * 0.2 * math.sqrt(max(rows, cols)))
    return p


def smoothed():
    z = (4 * values(4, 7, 3)).requires_grad_()
    loss = torch.nn.functional.cross_entropy(z, torch.tensor([3, 0, -100, 6]), ignore_index=-100, label_smoothing=0.1)
    loss.backward()
    return loss.detach(), z.grad


def line(name, tensor):
    numbers = ", ".join(repr(float(x)) for x in tensor.reshape(-1))
    return f"inline const std::vector<double> {name}{{{numbers}}};"


def main():
    torch.set_default_dtype(torch.float64)
    loss, grad = smoothed()
    print("// Written by tests/optim/optim_reference.py; not to be edited.\n#pragma once\n#include <vector>\n")
    print("// clang-format off\nnamespace plumb::test {")
    print(line("sgd_momentum", sgd(0.9)))
    print(line("sgd_plain", sgd(0)))
    print(line("muon_wide", muon(3, 5)))
    print(line("muon_tall", muon(5, 3)))
    print(line("smoothed_loss", loss))
    print(line("smoothed_grad", grad))
    print("}  // namespace plumb::test")


if __name__ == "__main__":
    main()
