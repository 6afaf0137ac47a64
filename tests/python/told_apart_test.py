# run_tests: /usr/bin/python3
"""Models whose parts look like something else: the facts are right, or unknown."""

import math
import pathlib
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
from modules import D, INF, T, V, EncoderStack, FusedProjections, Gpt, eager, mlp
from structures_test import UNKNOWN, Added, Block, Model, Pre, layers, masked, outside, through, traced
from trace_rows import check_file, steps_of

torch.set_num_threads(1)


class Scaled(nn.Module):
    """Divides by some measure of the features' size."""

    def __init__(self, size, centred=False):
        super().__init__()
        self.gain, self.size, self.centred = nn.Parameter(torch.linspace(0.5, 1.5, D)), size, centred

    def forward(self, x):
        x = x - x.mean(-1, keepdim=True) if self.centred else x
        return self.gain * x / (self.size(x) + 1e-6)


class Heads(FusedProjections):
    def __init__(self, heads, low=-math.inf):
        super().__init__()
        self.heads, self.low = heads, low

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.c_attn(x).split(D, dim=2))
        return self.c_proj(eager(q, k, v, self.low).transpose(1, 2).reshape(b, t, D))


def lower_and_upper(model, x):
    for block in (*model.lower, *model.upper):
        x = block(x)
    return x


class TwoLosses(Gpt):
    """Gives nothing but the sum of two heads' losses."""

    def __init__(self, again=False):
        super().__init__(n_layer=2)
        self.aux, self.again = nn.Linear(D, V), again

    def forward(self, idx):
        x = self.ln_f(self.h[1](self.h[0](self.wte(idx) + self.wpe(torch.arange(idx.shape[1])))))
        logits = self.lm_head(x)
        other = logits if self.again else self.aux(x)
        return F.cross_entropy(logits.view(-1, V), idx.reshape(-1)) + F.cross_entropy(other.view(-1, V), idx.flip(1).reshape(-1))


class TwoHeads(Gpt):
    def __init__(self):
        super().__init__(n_layer=2)
        self.early = nn.Linear(D, V)

    def forward(self, idx):
        first = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        return self.early(first) + self.lm_head(self.ln_f(self.h[1](self.h[0](first))))


class Narrow(nn.Module):
    """Its embedding is narrower than its stream."""

    def __init__(self):
        super().__init__()
        self.embed, self.up, self.h, self.head = nn.Embedding(V, 16), nn.Linear(16, D), layers(Block), nn.Linear(D, V)

    def forward(self, idx):
        return self.head(through(self, self.up(self.embed(idx))))


class Headless(Model):
    """Gives the stream; sums stand in the parent."""

    def forward(self, idx):
        return self.run(self, self.embed(self, idx))


class Weights(Headless):
    """Gives the stream, and the weights of its attention."""

    def __init__(self):
        super().__init__(None, attn=nn.MultiheadAttention(D, 4, batch_first=True), norm=nn.LayerNorm(D), mlp=mlp())

    def forward(self, idx):
        x = self.embed(self, idx)
        y, weights = self.attn(self.norm(x), self.norm(x), self.norm(x), attn_mask=torch.ones(T, T, dtype=torch.bool).triu(1))
        return x + y, weights


class LogProbabilities(Model):
    """Behind its head a function that hides it."""

    def forward(self, idx):
        return F.log_softmax(super().forward(idx), -1)


class Open(EncoderStack):
    """A mask of truth values that hides nothing."""

    def forward(self, idx):
        return self.head(self.stack(self.embed(idx) * math.sqrt(D) + self.table[:T], torch.zeros(T, T, dtype=torch.bool)))


def two_masks(t):
    """Causal and a window of six, each lowered by itself, and three hidden keys."""
    past = torch.arange(t)[:, None] - torch.arange(t)
    mask = masked(-1e4)(t) + torch.zeros(t, t).masked_fill(past > 5, -1e4)
    mask[:, :3] -= 1e4
    return mask


def only(attentions):
    return Model(through, h=nn.ModuleList([Block(attention=a) for a in attentions]))


def sums_in_parent(kind):
    return kind(outside, layers=layers(lambda: nn.ModuleList([Pre(FusedProjections()), Pre(mlp())])))


NO_HEADS = {"tied": UNKNOWN, "final_norm": UNKNOWN}
PRE = {"placement": "pre", "residual": "add", "n_layer": 3}
MODELS = {
    "mean of magnitudes": (lambda: Gpt(norm=lambda: Scaled(lambda x: x.abs().mean(-1, keepdim=True))), {"norm": UNKNOWN, "norm_axis": "features"}),
    "largest magnitude": (lambda: Gpt(norm=lambda: Scaled(lambda x: x.abs().amax(-1, keepdim=True))), {"norm": UNKNOWN, "placement": "pre"}),
    "centred magnitudes": (lambda: Gpt(norm=lambda: Scaled(lambda x: x.abs().mean(-1, keepdim=True), True)), {"norm": UNKNOWN}),
    "root of squares": (lambda: Gpt(norm=lambda: Scaled(lambda x: x.pow(2).mean(-1, keepdim=True).sqrt())), {"norm": "rms"}),
    "centred squares": (lambda: Gpt(norm=lambda: Scaled(lambda x: x.pow(2).mean(-1, keepdim=True).sqrt(), True)), {"norm": "layer"}),
    "mixers of two lists": (lambda: Model(lower_and_upper, lower=layers(lambda: Block(mixer=nn.GRU(D, D, batch_first=True))), upper=layers(Block)), {
        "n_layer": UNKNOWN}),
    "feed-forwards of another list": (lambda: Model(lower_and_upper, lower=layers(lambda: Pre(mlp(), skip=True)), upper=layers(Block)), {"n_layer": 3}),
    "heads that differ": (lambda: only([Heads(2), Heads(4), Heads(4)]), {"n_head": "mixed", "n_kv_head": "mixed", "mask_value": INF}),
    "masks that differ": (lambda: only([Heads(4), Heads(4, -1e4)]), {"n_head": 4, "mask_value": "mixed"}),
    "two losses": (TwoLosses, NO_HEADS),
    "two losses of one head": (lambda: TwoLosses(again=True), {"tied": True, "final_norm": True}),
    "two heads in a sum": (TwoHeads, {"tied": UNKNOWN}),
    "a narrow embedding": (Narrow, {"d_model": UNKNOWN}),
    "no head": (lambda: sums_in_parent(Headless), PRE),
    "a hidden head": (lambda: sums_in_parent(LogProbabilities), {"n_layer": 3, "placement": UNKNOWN, "residual": UNKNOWN}),
    "weights of an attention": (Weights, {"placement": "pre", "residual": "add"}),
    "a mask of nothing": (Open, {"mask_value": UNKNOWN, "causal": False}),
    "masks that add up": (lambda: Model(through, embed=lambda model, idx: model.wte(idx), h=layers(lambda: Block(attention=Added(two_masks)))), {
        "position": UNKNOWN}),
}


class ToldApart(unittest.TestCase):
    def test_models(self):
        for name, (make, truth) in MODELS.items():
            with self.subTest(model=name):
                torch.manual_seed(3)
                found = plumb_trace.preflight(make(), torch.randint(V, (3, T))).facts
                found = {key: INF if found[key] == -math.inf else found[key] for key in truth}
                self.assertEqual(found, truth)

    def row(self, model):
        ids = torch.randint(V, (3, T))
        with tempfile.TemporaryDirectory() as folder:
            with plumb_trace.attach(model, f"{folder}/trace.jsonl") as trace:
                output = model(ids)
                loss = output if output.dim() == 0 else output[0].pow(2).mean()
                loss.backward()
                trace.step(loss)
            return steps_of(check_file(self, f"{folder}/trace.jsonl"))[0]

    def test_logits_are_those_of_one_loss(self):
        self.assertNotIn("logit_std", self.row(TwoLosses()))
        self.assertIn("logit_std", self.row(TwoLosses(again=True)))

    def test_losses_that_cannot_be_compared_are_told_as_such(self):
        class Nowhere(torch.Tensor):
            def data_ptr(self):
                raise RuntimeError("no storage")

        class Marked(nn.LayerNorm):
            def forward(self, x):
                return super().forward(x).as_subclass(Nowhere)

        model = TwoLosses(again=True)
        model.ln_f = Marked(D)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            row = self.row(model)
        self.assertEqual([str(w.message) for w in caught if issubclass(w.category, RuntimeWarning)],
                         ["plumb_trace leaves out logits: RuntimeError: no storage"])
        self.assertNotIn("logit_std", row)
        self.assertIn("attn_entropy", row["layers"])

    def test_each_mask_counts_where_masks_differ(self):
        torch.manual_seed(3)
        first = only([Heads(4), Heads(4)])
        second = only([Heads(4), Heads(4, -1e4)])
        second.load_state_dict(first.state_dict())
        found = []
        for model in (first, second):
            torch.manual_seed(4)
            found.append(traced(self, model.eval())[1]["layers"])
        for name in ("attn_entropy", "attn_max_logit"):
            for a, b in zip(found[0][name], found[1][name]):
                self.assertAlmostEqual(a, b, delta=1e-6)


if __name__ == "__main__":
    unittest.main()
