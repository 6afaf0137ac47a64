# run_tests: /usr/bin/python3
"""Attention's numbers are those of the weights that values are summed with: where these are not the softmax's own, there are none."""

import math
import pathlib
import sys
import unittest

import torch
import torch.nn.functional as F
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("python", "tests/support", "tests/python")]

from plumb_trace.isolate import inside
from modules import D, HEADS, T, FusedProjections
from structures_test import Block, Model, through, traced

torch.set_num_threads(1)
FUTURE = torch.ones(T, T, dtype=torch.bool).triu(1)
NUMBERS = ("attn_entropy", "attn_max_logit")


class Weighted(FusedProjections):
    """`use(weights, v)` sums the values, `gate` is a parameter that changes nothing yet."""

    def __init__(self, use, future=FUTURE, gate=None):
        super().__init__(self.attend)
        self.use, self.future = use, future
        self.gate = nn.Parameter(torch.ones(HEADS, 1, 1)) if gate is None else gate

    def attend(self, q, k, v):
        scores = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).masked_fill(self.future, -math.inf)
        return self.use(self, F.softmax(scores, dim=-1), v)


def of(*uses, run=through, **options):
    torch.manual_seed(3)
    return Model(run, h=nn.ModuleList([Block(attention=Weighted(use, **options)) for use in uses]))


def numbers(test, model):
    torch.manual_seed(7)
    _, row, said = traced(test, model)
    return row["layers"], said


def plain(_, w, v):
    return w @ v


def squared(_, w, v):
    return w ** 2 @ v


def in_place(_, w, v):
    w = w.clone()
    w.detach().view(-1).mul_(0.5)
    return w @ v


def twice_used(_, w, v):
    return w @ v + 0.5 * (w.sqrt() @ v)


def summed_by_hand(_, w, v):
    return (w.unsqueeze(-1) * v.unsqueeze(-3)).sum(-2)


class Doubled(torch.autograd.Function):
    """No torch function shows what it does."""

    @staticmethod
    def forward(_, w):
        return w * 2

    @staticmethod
    def backward(_, g):
        return g * 2


def eye():
    mixing = nn.Linear(HEADS, HEADS, bias=False)
    nn.init.eye_(mixing.weight)
    return mixing


class Weights(unittest.TestCase):
    def test_dropout_casts_and_views_leave_them_what_they_are(self):
        wanted, said = numbers(self, of(plain))
        self.assertEqual(said, [])
        uses = {
            "dropout": lambda _, w, v: F.dropout(w, 0.5) @ v,
            "a cast": lambda _, w, v: (w.double() @ v.double().to(w.double())).to(v),
            "dropout and a cast": lambda _, w, v: (F.dropout(w, 0.5).to(torch.bfloat16) @ v.bfloat16()).to(v),
            "one dim less": lambda _, w, v: torch.bmm(F.dropout(w, 0.5).reshape(-1, T, T), v.reshape(-1, T, D // HEADS)).view_as(v),
            "turned": lambda _, w, v: (v.mT @ w.mT).mT,
            "einsum": lambda _, w, v: torch.einsum("bhqk,bhkd->bhqd", w.contiguous(), v),
            "head by head": lambda _, w, v: torch.stack([p @ y for p, y in zip(w.unbind(1), v.unbind(1))], 1),
            "also looked at": lambda self, w, v: setattr(self, "seen", (w * w.clamp(min=1e-9).log()).sum()) or w @ v,
        }
        for name, use in uses.items():
            with self.subTest(name):
                layers, said = numbers(self, of(use))
                self.assertEqual(said, [])
                for number in NUMBERS:
                    self.assertAlmostEqual(layers[number][0], wanted[number][0], delta=1e-5)

    def none(self, model, blocks="h.0"):
        layers, said = numbers(self, model)
        self.assertEqual([n for n in NUMBERS if n in layers], [])
        self.assertIn("act_std", layers)
        self.assertEqual(said, [f"plumb_trace leaves out attn_entropy and attn_max_logit: TraceError: what the softmax gives in {blocks} is changed before "
                                "values are summed with it, or that sum does not show"])

    def test_what_is_changed_has_no_numbers(self):
        uses = {
            "squared": squared, "in place": in_place, "twice used": twice_used, "summed by hand": summed_by_hand,
            "renormalised": lambda _, w, v: w / (w.sum(-1, keepdim=True) + 1e-6) @ v,
            "dropped and renormalised": lambda _, w, v: F.normalize(F.dropout(w, 0.5), p=1, dim=-1) @ v,
            "a gate": lambda self, w, v: (w * self.gate) @ v,
            "the largest": lambda _, w, v: w.masked_fill(w < w.topk(3, -1).values[..., -1:], 0) @ v,
            "scattered": lambda _, w, v: torch.zeros_like(w).scatter(-1, w.topk(3, -1).indices, w.topk(3, -1).values) @ v,
            "less another": lambda self, w, v: (w - 0.1 * F.softmax(self.gate * w, -1)) @ v,
            "a part of the heads": lambda _, w, v: torch.cat([w[:, :2] @ v[:, :2]] * 2, 1),
            "a part of the keys": lambda _, w, v: w[..., 1:] @ v[..., 1:, :],
            "not to be seen": lambda _, w, v: Doubled.apply(w) @ v,
        }
        for name, use in uses.items():
            with self.subTest(name):
                self.none(of(use))

    def test_masked_afterwards(self):
        self.none(of(lambda _, w, v: w.masked_fill(FUTURE, 0) @ v, future=torch.zeros(T, T, dtype=torch.bool)))
        self.none(of(lambda _, w, v: w * ~FUTURE @ v, future=torch.zeros(T, T, dtype=torch.bool)))

    def test_heads_that_are_mixed_though_by_nothing_yet(self):
        self.none(of(lambda self, w, v: self.gate(w.permute(0, 2, 3, 1)).permute(0, 3, 1, 2) @ v, gate=eye()))
        self.none(of(lambda self, w, v: torch.einsum("bhqk,gh->bgqk", w, self.gate.weight) @ v, gate=eye()))
        self.none(of(lambda self, w, v: F.conv2d(w, self.gate.weight[..., None, None]) @ v, gate=eye()))

    def test_one_block_of_several(self):
        wanted, _ = numbers(self, of(plain, plain, plain))
        layers, said = numbers(self, of(plain, plain, squared))
        self.assertIn(" h.2 ", *said)
        for number in NUMBERS:
            self.assertEqual(layers[number][2], "NaN")
            for a, b in zip(layers[number][:2], wanted[number]):
                self.assertAlmostEqual(a, b, delta=1e-6)

    def test_a_block_that_the_pass_which_looks_dropped(self):
        """It is taken to be like the others of its class."""
        def late(model, x):
            for block in model.h[1 if inside() else 0:]:
                x = block(x)
            return x

        layers, said = numbers(self, of(plain, plain, run=late))
        self.assertEqual((said, len(layers["attn_entropy"]), "NaN" in layers["attn_entropy"]), ([], 2, False))
        self.none(of(squared, squared, run=late), "h.0, h.1")


if __name__ == "__main__":
    unittest.main()
