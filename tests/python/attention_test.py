# run_tests: /usr/bin/python3
"""Attention statistics in tiles against plain ones, for every way in which a mask can be given; and the other numbers' definitions."""

import math
import pathlib
import sys
import unittest

import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python")]

from plumb_trace import attention, measure, norms

torch.set_num_threads(1)
INF = math.inf


def plain(scores):
    """Entropy and largest score of scores (…, keys) in which -inf is masked, row by row in double."""
    ratios, largest = [], -INF
    for row in scores.double().reshape(-1, scores.shape[-1]):
        seen = row[row > -INF]
        largest = max([largest, *seen.tolist()])
        if len(seen) >= 2:
            p = torch.softmax(seen, 0)
            ratios.append(float(-(p * p.log()).sum()) / math.log(len(seen)))
    return sum(ratios) / len(ratios), largest


class Attention(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(8)

    def same(self, stats, scores):
        entropy, largest = plain(scores)
        self.assertAlmostEqual(float(stats.entropy()), entropy, delta=1e-6)
        self.assertAlmostEqual(float(stats.max), largest, delta=1e-5 * abs(largest))

    def test_fused_calls(self):
        q, k = torch.randn(3, 4, 7, 5) * 2, torch.randn(3, 4, 7, 5) * 2
        causal = torch.full((7, 7), -INF).triu(1)
        some = torch.rand(3, 1, 7, 7) < 0.6
        some |= torch.eye(7, dtype=torch.bool)
        bias = torch.randn(4, 7, 7)
        scores = q @ k.transpose(-1, -2)
        few = torch.randn(3, 2, 7, 5)
        cases = [({"is_causal": True}, k, scores / 5 ** 0.5 + causal), ({"attn_mask": some}, k, (scores / 5 ** 0.5).masked_fill(~some, -INF)),
                 ({"attn_mask": bias + causal, "scale": 0.3}, k, scores * 0.3 + bias + causal),
                 ({"is_causal": True, "enable_gqa": True}, few, q @ few.repeat_interleave(2, 1).transpose(-1, -2) / 5 ** 0.5 + causal)]
        for tile in (attention.TILE, 150, 49, 10):
            for given, key, want in cases:
                with self.subTest(tile=tile, given=list(given)):
                    kept, attention.TILE = attention.TILE, tile
                    self.addCleanup(setattr, attention, "TILE", kept)
                    stats = attention.Stats()
                    attention.scaled_dot_product(stats, -INF, q, key, key, **given)
                    attention.TILE = kept
                    self.same(stats, want)

    def test_multi_head_attention(self):
        q, mask = torch.randn(6, 2, 8), torch.full((6, 6), -INF).triu(1)
        padding = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
        module = torch.nn.MultiheadAttention(8, 2)
        torch.nn.init.normal_(module.in_proj_bias)
        for given in ({"attn_mask": mask}, {"attn_mask": mask.bool()}, {"attn_mask": mask, "key_padding_mask": padding},
                      {"attn_mask": mask.expand(4, 6, 6)}):
            seen = []

            class See(torch.overrides.TorchFunctionMode):
                def __torch_function__(self, func, types, args=(), kwargs=None):
                    if func is F.multi_head_attention_forward:
                        seen.append((args, kwargs or {}))
                    return func(*args, **(kwargs or {}))

            with See(), torch.no_grad():
                _, weights = module(q, q, q, average_attn_weights=False, **given)
            stats = attention.Stats()
            with torch.no_grad():
                attention.multi_head(stats, -INF, *seen[0])
            ratios = []
            for row in weights.double().reshape(-1, 6):
                p = row[row > 0]
                if len(p) >= 2:
                    ratios.append(float(-(p * p.log()).sum()) / math.log(len(p)))
            self.assertAlmostEqual(float(stats.entropy()), sum(ratios) / len(ratios), delta=1e-6)

    def test_finite_masks_are_masks(self):
        scores = torch.randn(2, 3, 6, 6)
        future = torch.ones(6, 6, dtype=torch.bool).triu(1)
        for value in (-1e4, torch.finfo(torch.float32).min):
            stats = attention.Stats()
            stats.add(scores.masked_fill(future, value), value / 2)
            self.same(stats, scores.masked_fill(future, -INF))

    def test_nan_wins(self):
        scores = torch.randn(1, 4, 4)
        scores[0, 2, 1] = math.nan
        stats = attention.Stats()
        stats.add(scores)
        stats.add(torch.randn(1, 4, 4) + 99)
        self.assertTrue(math.isnan(float(stats.max)) and math.isnan(float(stats.entropy())))


class Numbers(unittest.TestCase):
    def test_adjacent_kl_in_pieces(self):
        torch.manual_seed(9)
        logits = torch.randn(3, 7, 11) * 3
        log_p = torch.log_softmax(logits.double(), -1)
        want = sum(float((log_p[b, t + 1].exp() * (log_p[b, t + 1] - log_p[b, t])).sum()) for b in range(3) for t in range(6)) / 18
        kept = measure.CHUNK
        self.addCleanup(setattr, measure, "CHUNK", kept)
        for chunk in (kept, 200, 77, 25, 11, 1):
            measure.CHUNK = chunk
            self.assertAlmostEqual(float(measure.adjacent_kl(logits)), want, delta=1e-12)
        logits[0, 3, 2] = -INF
        self.assertEqual(float(measure.adjacent_kl(logits)), INF)  # seen at t + 1, impossible at t
        self.assertIsNone(measure.adjacent_kl(logits[:, :1]))

    def test_norm_of_many_types(self):
        parts = [torch.randn(40).to(t) for t in (torch.float32, torch.float64, torch.bfloat16, torch.float32)]
        want = math.sqrt(sum(float((p.double() ** 2).sum()) for p in parts))
        self.assertAlmostEqual(float(measure.norm_of(parts)), want, delta=1e-6 * want)
        self.assertIsNone(measure.norm_of([]))


class Norms(unittest.TestCase):
    """What a module normalises is found whatever it is called and whatever its gains are."""

    def test_modules(self):
        class Made(torch.nn.Module):
            def __init__(self, function):
                super().__init__()
                self.forward = function

        nn = torch.nn
        layer = nn.LayerNorm(8)
        nn.init.normal_(layer.weight, 1, 0.5)
        nn.init.normal_(layer.bias)
        over = lambda axis: lambda x: x / (x.pow(2).mean(axis, keepdim=True) + 1e-5).sqrt()
        cases = {
            "layer": (layer, ("layer", "features")), "both": (nn.LayerNorm((6, 8)), ("group", "sample")),
            "rms": (Made(over(-1)), ("rms", "features")), "rms over positions": (Made(over(1)), ("instance", "sequence")),
            "unit": (Made(lambda x: nn.functional.normalize(x, dim=-1)), ("rms", "features")),
            "batch": (Made(lambda x: (x - x.mean((0, 1))) / x.std((0, 1))), ("batch", "batch")),
            "identity": (nn.Identity(), None), "twice": (Made(lambda x: 2 * x + 1), None), "dyt": (Made(lambda x: torch.tanh(0.5 * x)), None),
            "relu": (nn.ReLU(), None), "linear": (nn.Linear(8, 8), None), "dropout": (nn.Dropout(0.5), None),
            "softmax": (nn.Softmax(-1), None), "cumulative": (Made(lambda x: x.cumsum(1)), None)}
        for name, (module, want) in cases.items():
            with self.subTest(module=name):
                torch.manual_seed(1)
                self.assertEqual(norms.classify(module, torch.zeros(3, 6, 8)), want)


if __name__ == "__main__":
    unittest.main()
