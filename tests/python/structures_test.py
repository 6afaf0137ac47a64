# run_tests: /usr/bin/python3
"""Models that are built in less usual ways: what is found of them is right, or unknown where nothing shows it."""

import math
import pathlib
import random
import sys
import tempfile
import unittest
import warnings

import torch
import torch.nn.functional as F
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("python", "tests/support", "tests/python")]

import plumb_trace
from modules import D, GPT, HEADS, INF, T, V, FusedProjections, Gpt, mlp
from trace_rows import check_file, facts_of, steps_of

torch.set_num_threads(1)
UNKNOWN = "unknown"


class Model(nn.Module):
    """A Gpt of other blocks: `run(model, x)` takes the stream through them."""

    def __init__(self, run, embed=lambda model, idx: model.wte(idx) + model.wpe(torch.arange(idx.shape[1])), **parts):
        super().__init__()
        self.wte, self.wpe, self.ln_f, self.lm_head = nn.Embedding(V, D), nn.Embedding(T + 2, D), nn.LayerNorm(D), nn.Linear(D, V, bias=False)
        self.lm_head.weight = self.wte.weight
        for name, part in parts.items():
            setattr(self, name, part)
        self.run, self.embed = run, embed

    def forward(self, idx):
        return self.lm_head(self.ln_f(self.run(self, self.embed(self, idx))))


class Block(nn.Module):
    """x + attention, x + feed-forward, by whatever `join(x, branch)` does."""

    def __init__(self, join=lambda x, f: x + f, attention=None, mixer=None):
        super().__init__()
        self.ln_1, self.ln_2, self.mlp, self.join = nn.LayerNorm(D), nn.LayerNorm(D), mlp(), join
        self.attn = mixer or attention or FusedProjections()

    def forward(self, x):
        y = self.attn(self.ln_1(x))
        x = self.join(x, y[0] if isinstance(y, tuple) else y)
        return self.join(x, self.mlp(self.ln_2(x)))


class Pre(nn.Module):
    def __init__(self, inner, skip=False):
        super().__init__()
        self.norm, self.inner, self.skip = nn.LayerNorm(D), inner, skip

    def forward(self, x):
        return x + self.inner(self.norm(x)) if self.skip else self.inner(self.norm(x))


class Einsum(FusedProjections):
    """Heads stay behind positions."""

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, HEADS, -1) for y in self.c_attn(x).split(D, dim=2))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(D // HEADS)
        p = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), -math.inf).softmax(-1)
        return self.c_proj(torch.einsum("bhqk,bkhd->bqhd", p, v).reshape(b, t, D))


class Added(FusedProjections):
    """A mask (or a bias) that is added to the scores."""

    def __init__(self, added):
        super().__init__()
        self.added = added

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, HEADS, -1).transpose(1, 2) for y in self.c_attn(x).split(D, dim=2))
        p = (q @ k.transpose(-2, -1) / math.sqrt(D // HEADS) + self.added(t)).softmax(-1)
        return self.c_proj((p @ v).transpose(1, 2).reshape(b, t, D))


def masked(low):
    return lambda t: torch.zeros(t, t).masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), low)


def alibi(t):
    distance = torch.arange(t)[:, None] - torch.arange(t)
    return -0.1 * distance + masked(-math.inf)(t)


def through(model, x):
    for block in model.h:
        x = block(x)
    return x


def plain(**options):
    return Model(through, h=nn.ModuleList([Block(**options) for _ in range(3)]))


def hybrid():
    """One block of three has an attention."""
    return Model(through, h=nn.ModuleList([Block(mixer=None if i % 3 == 2 else nn.GRU(D, D, batch_first=True)) for i in range(6)]))


def outside(model, x):
    for attn, ff in model.layers:
        x = attn(x) + x
        x = ff(x) + x
    return x


def parallel_lists(model, x):
    for attn, ff in zip(model.attns, model.ffs):
        x = x + attn(x)
        x = x + ff(x)
    return x


def norms_apart(model, x):
    for n1, attn, n2, ff in zip(model.n1, model.attns, model.n2, model.ffs):
        x = x + attn(n1(x))
        x = x + ff(n2(x))
    return x


def layers(make):
    return nn.ModuleList([make() for _ in range(3)])


def dropping(model, x):
    for block in model.h:
        x = block(x) if random.random() < 0.7 else x
    return x


def two_streams(model, x):
    h, r = x, None
    for block in model.h:
        h, r = block(h, r)
    return h + r


class Fused(Block):
    def forward(self, h, r):
        r = h if r is None else h + r
        r = r + self.attn(self.ln_1(r))
        return self.mlp(self.ln_2(r)), r


class Wide(Block):
    """Its norm reads two streams side by side."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.narrow = nn.LayerNorm(2 * D), nn.Linear(2 * D, D)

    def forward(self, x, first):
        x = x + self.attn(self.narrow(self.ln_1(torch.cat([x, first], -1))))
        return x + self.mlp(self.ln_2(x))


class Decoder(Block):
    def __init__(self):
        super().__init__()
        self.cross = FusedProjections()

    def forward(self, x, memory):
        return super().forward(x) + self.cross(memory)


def encoder_decoder(model, x):
    memory = x
    for block in model.encoder:
        memory = block(memory)
    for block in model.decoder:
        x = block(x, memory)
    return x


def wide(model, x):
    first = x
    for block in model.h:
        x = block(x, first)
    return x


def scrambled(x, f):
    b, t, d = x.shape
    return x.transpose(1, 2).reshape(b, t, d) + f


KNOWN = {key: GPT[key] for key in ("n_layer", "norm", "placement", "final_norm", "residual", "skip_after_norm", "tied", "position", "n_head")}
NO_WAY = {"residual": UNKNOWN, "placement": UNKNOWN}
# name: (module, what is true of it, whether blocks can be measured)
MODELS = {
    "blocks without attention": (hybrid, {**KNOWN, "n_layer": 6, "causal": True, "mask_value": INF}, True),
    "sums in the parent": (lambda: Model(outside, layers=layers(lambda: nn.ModuleList([Pre(FusedProjections()), Pre(mlp())]))), KNOWN, False),
    "parallel lists": (lambda: Model(parallel_lists, attns=layers(lambda: Pre(FusedProjections())), ffs=layers(lambda: Pre(mlp()))), KNOWN, False),
    "norms in lists of their own": (lambda: Model(norms_apart, n1=layers(lambda: nn.LayerNorm(D)), attns=layers(FusedProjections),
                                                  n2=layers(lambda: nn.LayerNorm(D)), ffs=layers(mlp)), KNOWN, False),
    "sub-layers in one list": (lambda: Model(through, h=nn.ModuleList(
        [Pre(part(), skip=True) for _ in range(3) for part in (FusedProjections, mlp)])), KNOWN, True),
    "dropped blocks": (lambda: Model(dropping, h=layers(Block)), {**KNOWN, "n_layer": UNKNOWN}, True),
    "heads behind positions": (lambda: plain(attention=Einsum()), {**KNOWN, "n_kv_head": 4}, True),
    "two streams": (lambda: Model(two_streams, h=layers(Fused)), NO_WAY, True),
    "a norm of two streams": (lambda: Model(wide, h=layers(Wide)), NO_WAY, True),
    "an encoder beside": (lambda: Model(encoder_decoder, encoder=layers(Block), decoder=layers(Decoder)), {
        "n_layer": UNKNOWN, "causal": UNKNOWN, "tied": True, **NO_WAY}, False),
    "skip of one half": (lambda: plain(join=lambda x, f: 0.5 * x + f), KNOWN, True),
    "skip of nothing": (lambda: plain(join=lambda x, f: 0.0 * x + f), {"residual": "none"}, True),
    "skip turned": (lambda: plain(join=lambda x, f: f - x), NO_WAY, True),
    "skip without gradient": (lambda: plain(join=lambda x, f: x.detach() + f), NO_WAY, True),
    "skip dropped": (lambda: plain(join=lambda x, f: F.dropout(x, 0.5) + f), NO_WAY, True),
    "skip scrambled": (lambda: plain(join=scrambled), NO_WAY, True),
    "skip through other axes": (lambda: plain(join=lambda x, f: (x.transpose(0, 1) + f.transpose(0, 1)).transpose(0, 1)), KNOWN, True),
    "branch subtracted": (lambda: plain(join=lambda x, f: x - f), KNOWN, True),
    "changed in place": (lambda: plain(join=lambda x, f: x.clone().add_(f)), KNOWN, True),
    "a mask that is added": (lambda: Model(through, embed=lambda model, idx: model.wte(idx), h=layers(lambda: Block(attention=Added(masked(-100.0))))), {
        **KNOWN, "position": UNKNOWN, "mask_value": -100}, True),
    "a weak mask that is added": (lambda: Model(through, embed=lambda model, idx: model.wte(idx), h=layers(
        lambda: Block(attention=Added(masked(-30.0))))), {**KNOWN, "position": UNKNOWN}, True),
    "a bias that is added": (lambda: Model(through, embed=lambda model, idx: model.wte(idx), h=layers(lambda: Block(attention=Added(alibi)))), {
        **KNOWN, "position": "bias", "mask_value": INF}, True),
}


def traced(test, model):
    ids = torch.randint(V, (3, T))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with plumb_trace.attach(model, f"{folder}/trace.jsonl") as trace:
            output = model(ids)
            logits = output["logits"] if isinstance(output, dict) else output
            loss = F.cross_entropy(logits.reshape(-1, V), ids.reshape(-1))
            loss.backward()
            trace.step(loss, torch.optim.SGD(model.parameters(), lr=0.1))
        rows = check_file(test, f"{folder}/trace.jsonl")
    said = [str(w.message) for w in caught if issubclass(w.category, RuntimeWarning)]
    return facts_of(rows), steps_of(rows)[0], said


class Structures(unittest.TestCase):
    def test_models(self):
        for name, (make, truth, measured) in MODELS.items():
            with self.subTest(model=name):
                torch.manual_seed(3)
                random.seed(8)
                found, row, said = traced(self, make())
                self.assertEqual({key: found.get(key) for key in truth}, truth)
                self.assertEqual("act_std" in row["layers"], measured)
                self.assertEqual(len(said), 0 if measured else 1, said)
                self.assertIn("logit_std", row)

    def test_blocks_are_numbered_as_their_list_is(self):
        """Also where one was dropped in the pass that looks."""
        for seed in range(8):
            random.seed(seed)
            torch.manual_seed(3)
            _, row, _ = traced(self, Model(dropping, h=layers(Block)))
            random.seed(seed)
            called = [random.random() < 0.7 for _ in range(3)]
            if sum(called) in (1, 2):
                self.assertEqual([v != "NaN" for v in row["layers"]["act_std"]], called)
                break
        else:
            self.fail("no seed drops a block")

    def test_an_auxiliary_head_is_not_taken_for_the_head(self):
        class Auxiliary(Gpt):
            def __init__(self):
                super().__init__(n_layer=2)
                self.aux = nn.Linear(D, V)

            def forward(self, idx):
                x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
                early = self.h[0](x)
                return {"aux": self.aux(early), "logits": self.lm_head(self.ln_f(self.h[1](early)))}

        found, row, _ = traced(self, Auxiliary())
        self.assertEqual((found["tied"], found["final_norm"]), (True, True))
        self.assertIn("logit_std", row)

        class Unnamed(Auxiliary):
            """Both heads read the last block, and no name tells which is the model's."""

            def forward(self, idx):
                x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
                x = self.ln_f(self.h[1](self.h[0](x)))
                return self.aux(x), self.lm_head(x)

        self.assertEqual(plumb_trace.preflight(Unnamed(), torch.randint(V, (2, T))).facts["tied"], UNKNOWN)


if __name__ == "__main__":
    unittest.main()
