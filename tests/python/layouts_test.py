# run_tests: /usr/bin/python3
"""Scores may lie in any order of their axes: numbers and facts are those of the axis that the softmax runs along, or there are none."""

import math
import pathlib
import sys
import unittest
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("python", "tests/support", "tests/python")]

from modules import D, GPT, HEADS, INF, T, V, FusedProjections, eager
from structures_test import UNKNOWN, Block, Model, alibi, masked, through, traced

torch.set_num_threads(1)
ATTENTION = {key: GPT[key] for key in ("attention", "n_head", "n_kv_head", "mask_value", "n_layer", "causal")}


class Laid(FusedProjections):
    """Scores as `einsum` says, e.g. "bhkq", with `put` added to their square of rows and keys; the softmax runs along the keys."""

    def __init__(self, layout, put=masked(-math.inf), fill=False, softmax=torch.softmax, along="k", product=None):
        super().__init__()
        self.layout, self.put, self.fill, self.softmax, self.along, self.product = layout, put, fill, softmax, along, product

    def square(self, t):
        """(rows, keys), as the layout has them."""
        t = t if self.layout.index("q") < self.layout.index("k") else t.t()
        first, last = sorted(self.layout.index(c) for c in "qk")
        return t.reshape(*(T if i in (first, last) else 1 for i in range(4))) if self.layout[-2:] not in ("qk", "kq") else t

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, HEADS, -1) for y in self.c_attn(x).split(D, dim=2))
        scores = torch.einsum(f"bqhd,bkhd->{self.layout}", q, k) / math.sqrt(D // HEADS)
        added = self.square(self.put(t))
        scores = scores.masked_fill(added < 0, -math.inf) if self.fill else scores + added
        p = self.softmax(scores, self.layout.index(self.along))
        if self.product:
            return self.c_proj(self.product(self.drop(p), v.transpose(1, 2)).transpose(1, 2).reshape(b, t, D))
        return self.c_proj(torch.einsum(f"{self.layout},bkhd->bqhd", p, v).reshape(b, t, D))


class Features(FusedProjections):
    """A linear attention: its softmax runs over features, of which there are as many as positions."""

    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(D, 3 * HEADS * T), nn.Linear(HEADS * T, D)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, HEADS, T).transpose(1, 2) for y in self.c_attn(x).split(HEADS * T, dim=2))
        q, k = q.softmax(-1), k.sigmoid()
        y = torch.einsum("bhqd,bhqde->bhqe", q, torch.einsum("bhtd,bhte->bhtde", k, v).cumsum(2))
        return self.c_proj(y.transpose(1, 2).reshape(b, t, HEADS * T))


class Routed(FusedProjections):
    """Ahead of its attention a softmax over as many experts as there are positions."""

    def __init__(self, softmax):
        super().__init__()
        self.router, self.softmax = nn.Linear(D, T), softmax

    def forward(self, x):
        return self.softmax(self.router(x)).amax(-1, keepdim=True) * super().forward(x)


def model(make):
    torch.manual_seed(3)
    return Model(through, h=nn.ModuleList([Block(attention=make()) for _ in range(3)]))


def without_positions(make):
    torch.manual_seed(3)
    return Model(through, embed=lambda model, idx: model.wte(idx), h=nn.ModuleList([Block(attention=make()) for _ in range(3)]))


def trace(test, made, seed=7):
    torch.manual_seed(seed)
    found, row, said = traced(test, made)
    test.assertEqual(said, [])
    return found, row["layers"]


class Layouts(unittest.TestCase):
    def same(self, layers, wanted):
        for name in ("attn_entropy", "attn_max_logit"):
            for a, b in zip(layers[name], wanted[name]):
                self.assertAlmostEqual(a, b, delta=1e-5, msg=name)

    def test_numbers_and_facts_do_not_depend_on_the_order_of_axes(self):
        for fill in (False, True):
            _, wanted = trace(self, model(lambda: Laid("bhqk", fill=fill)))
            self.assertLess(max(wanted["attn_entropy"]), 1)
            for layout in ("bhkq", "bqkh", "bkqh", "qkbh", "kqbh", "hbkq", "hbqk"):
                with self.subTest(layout=layout, fill=fill):
                    found, layers = trace(self, model(lambda: Laid(layout, fill=fill)))
                    self.assertEqual({key: found[key] for key in ATTENTION}, ATTENTION)
                    self.same(layers, wanted)

    def test_a_bias_is_one_in_any_order(self):
        for layout in ("bhqk", "bhkq", "bkqh", "qkbh"):
            with self.subTest(layout=layout):
                found, _ = trace(self, without_positions(lambda: Laid(layout, alibi)))
                self.assertEqual((found["position"], found["mask_value"]), ("bias", INF))
                found, _ = trace(self, without_positions(lambda: Laid(layout)))
                self.assertEqual((found["position"], found["mask_value"]), (UNKNOWN, INF))

    def test_as_many_samples_as_positions(self):
        """The pass that looks has two; the others' axes are known from it."""
        ids = torch.randint(V, (T, T))
        rows = []
        for layout in ("bhqk", "bkqh"):
            with mock.patch("structures_test.torch.randint", lambda *_: ids):
                rows.append(trace(self, model(lambda: Laid(layout)))[1])
        self.same(rows[1], rows[0])

    def test_a_softmax_over_heads_is_no_attention(self):
        """Which PyTorch takes where no axis is given."""
        made = model(lambda: Laid("bhqk", masked(0.0), softmax=lambda scores, _: F.softmax(scores, dim=None, _stacklevel=5)))
        torch.manual_seed(7)
        found, row, _ = traced(self, made)
        self.assertEqual((found["attention"], found["n_head"]), (UNKNOWN, UNKNOWN))
        self.assertNotIn("attn_entropy", row["layers"])

    def test_a_softmax_along_the_queries_is_no_attention(self):
        for name, options in {"einsum": {}, "matmul": {"product": torch.matmul}, "turned": {"layout": "bhkq", "product": lambda p, v: p.mT @ v}}.items():
            for fill in (False, True):
                with self.subTest(product=name, fill=fill):
                    options = {"layout": "bhqk", **options}
                    torch.manual_seed(7)
                    found, row, _ = traced(self, model(lambda: Laid(put=masked(-1e4), fill=fill, along="q", **options)))
                    self.assertEqual((found["attention"], found["n_head"], found["n_layer"]), (UNKNOWN, UNKNOWN, 3))
                    self.assertNotIn("attn_entropy", row["layers"])
                    found, layers = trace(self, model(lambda: Laid(**options)))
                    self.assertEqual({key: found[key] for key in ATTENTION}, ATTENTION)
                    self.assertIn("attn_entropy", layers)

    def test_features_as_many_as_positions_are_no_attention(self):
        found, layers = trace(self, model(Features))
        self.assertEqual((found["attention"], found["n_layer"], found["causal"]), (UNKNOWN, 3, True))
        self.assertNotIn("attn_entropy", layers)

    def test_experts_as_many_as_positions_are_no_attention(self):
        found, layers = trace(self, model(lambda: Routed(lambda y: y.softmax(-1))))
        self.assertEqual({key: found[key] for key in ATTENTION}, ATTENTION)
        self.same(layers, trace(self, model(lambda: Routed(lambda y: (y - y.logsumexp(-1, keepdim=True)).exp())))[1])


FUSED = getattr(F, "scaled_dot_product_attention", None) or F._scaled_dot_product_attention
PRIVATE = FUSED.__name__.startswith("_")  # PyTorch 1.13's: (…, dropout_p, need_attn_weights, is_causal), gives two tensors, takes masks of truth values


def call(*args, **kwargs):
    made = FUSED(*args, **kwargs)
    return made[0] if PRIVATE else made


def positional(q, k, v):
    return call(q, k, v, None, 0.0, False, True) if PRIVATE else call(q, k, v, None, 0.0, True)


def turned(q, k, v):
    return call(is_causal=True, value=v, key=k, query=q)


def asked(q, k, v):
    """A mask, and weights asked for: not causal by itself."""
    mask = torch.ones(T, T, dtype=torch.bool).tril()
    return call(q, k, v, mask, 0.0, True) if PRIVATE else call(q, k, v, mask, 0.0, False)


def open_(q, k, v):
    return call(q, k, v, None, 0.0, True) if PRIVATE else call(q, k, v, None, 0.0, False)


class Fused(unittest.TestCase):
    """Arguments by position and by name, in PyTorch 1.13's private form and in the later one."""

    def traced(self, attend):
        torch.manual_seed(3)
        made = Model(through, h=nn.ModuleList([Block(attention=FusedProjections(attend)) for _ in range(3)])).eval()
        return trace(self, made)

    def test_arguments(self):
        _, causal = self.traced(eager)
        _, free = self.traced(lambda q, k, v: (q @ k.mT / math.sqrt(D // HEADS)).softmax(-1) @ v)
        self.assertGreater(abs(causal["attn_entropy"][0] - free["attn_entropy"][0]), 1e-3)
        for attend, wanted in ((positional, causal), (turned, causal), (asked, causal), (open_, free)):
            with self.subTest(call=attend.__name__):
                found, layers = self.traced(attend)
                truth = {**ATTENTION, "attention": "sdpa"}
                if wanted is free:
                    truth.update(causal=False, mask_value=UNKNOWN)
                self.assertEqual({key: found[key] for key in truth}, truth)
                for name in ("attn_entropy", "attn_max_logit"):
                    for a, b in zip(layers[name], wanted[name]):
                        self.assertAlmostEqual(a, b, delta=1e-5)


if __name__ == "__main__":
    unittest.main()
