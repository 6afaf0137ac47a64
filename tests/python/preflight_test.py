# run_tests: /usr/bin/python3
"""preflight passes right models, and each of its checks fails on a model that is broken for it and no other check does."""

import copy
import io
import pathlib
import random
import sys
import unittest

import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("python", "tests/python")]

import plumb_trace
from modules import D, MORE, RIGHT, T, V, WRONG, Gpt, mlp
from plumb_trace.finite import first_non_finite
from plumb_trace.isolate import beside

torch.set_num_threads(1)
PERTURBED, BY_GRADIENT = "causal, by changing later tokens", "causal, by gradient"


def batch():
    return torch.randint(V, (3, T)), torch.randint(V, (3, T))


def groups(model, weight_decay=0.1):
    two, one = [p for p in model.parameters() if p.dim() >= 2], [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW([{"params": two, "weight_decay": weight_decay}, {"params": one, "weight_decay": 0.0}], lr=1e-3)


class Passes(unittest.TestCase):
    def test_right_models(self):
        for name, (make, _) in RIGHT.items():
            with self.subTest(model=name):
                torch.manual_seed(2)
                model = make()
                if name == "post-LN of PyTorch's layers":  # its default start is not a decoder's
                    for p in (model.embed.weight, model.head.weight):
                        torch.nn.init.normal_(p, std=0.02)
                report = plumb_trace.preflight(model, batch() if isinstance(model, Gpt) else batch()[0], groups(model))
                self.assertTrue(report.ok, report)
                self.assertEqual([c.name for c in report.checks if c.ok is not True], [], report)

    def test_changes_nothing(self):
        torch.manual_seed(2)
        model = Gpt()
        before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
        plumb_trace.preflight(model, torch.zeros(2, T, dtype=torch.int64))
        self.assertTrue(torch.equal(state, torch.get_rng_state()))
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)
        self.assertTrue(all(p.grad is None for p in model.parameters()))

    def test_prints_a_table(self):
        torch.manual_seed(2)
        report = plumb_trace.preflight(Gpt(), batch())
        lines = str(report).splitlines()
        self.assertEqual(len(lines), 1 + len(report.checks))
        self.assertRegex(str(report), r"initial loss +\d\.\d+ +ln 40 = 3\.689")
        self.assertIn("not checked", lines[-1])  # no optimiser was given


class Experts(torch.nn.Module):
    """Each position goes to one of eight."""

    def __init__(self):
        super().__init__()
        self.router, self.experts = torch.nn.Linear(D, 8), torch.nn.ModuleList([mlp() for _ in range(8)])

    def forward(self, x):
        weight, chosen = self.router(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            mine = chosen == i
            if mine.any():
                out[mine] = weight[mine][:, None] * expert(x[mine])
        return out


class Unusual(unittest.TestCase):
    """What is right in a less usual way is no fault; what breaks is one sentence."""

    def setUp(self):
        torch.manual_seed(2)
        random.seed(2)

    def check_of(self, name, model, data, optimizer=None):
        report = plumb_trace.preflight(model, data, optimizer)
        return next(c for c in report.checks if c.name == name), report

    def test_experts_that_a_batch_does_not_use(self):
        model = Gpt()
        model.h[0].mlp = Experts()
        with torch.no_grad():
            model.h[0].mlp.router.bias[3] = -1e4  # no token ever
        check, report = self.check_of("gradients", model, batch())
        self.assertIsNone(check.ok, check.value)
        self.assertIn("h.0.mlp.experts.3.", check.value)
        self.assertTrue(report.ok)

    def test_blocks_that_are_dropped_at_random(self):
        class Dropping(Gpt):
            def forward(self, idx, targets=None):
                x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
                for block in self.h:
                    x = block(x) if random.random() < 0.6 else x
                return self.lm_head(self.ln_f(x)), None

        self.assertIsNot(self.check_of("gradients", Dropping(), batch())[0].ok, False)

    def test_an_auxiliary_loss_is_not_the_loss(self):
        class Auxiliary(Gpt):
            def forward(self, idx, targets=None):
                return torch.tensor(0.01), super().forward(idx, targets)[0]

        check, _ = self.check_of("initial loss", Auxiliary(), batch())
        self.assertTrue(check.ok, check.value)

    def test_one_position(self):
        check, report = self.check_of("initial loss", Gpt(), (batch()[0][:, :1],))
        self.assertIsNone(check.ok)
        self.assertTrue(report.ok)

    def test_token_ids(self):
        x, y = batch()
        self.assertTrue(plumb_trace.preflight(Gpt(), x.int()).ok)
        for sample in (0, 2):
            bad = x.clone()
            bad[sample, 4] = V + 3
            check, _ = self.check_of("forward pass", Gpt(), (bad, y))
            self.assertRegex(check.value, f"token id {V + 3}, and the largest embedding has rows 0 to {V - 1}")
        for wrong in (x[:0], x.to(torch.uint8), x[0]):
            check, _ = self.check_of("forward pass", Gpt(), wrong)
            self.assertNotIn("\n", check.value)

    def test_optimisers(self):
        model = Gpt()
        two, one = [p for p in model.parameters() if p.dim() >= 2], [p for p in model.parameters() if p.dim() < 2]
        several = [torch.optim.AdamW(two, weight_decay=0.1), torch.optim.SGD(one, lr=0.1)]
        self.assertTrue(self.check_of("decay groups", model, batch(), several)[0].ok)
        self.assertFalse(self.check_of("decay groups", model, batch(), several[:1])[0].ok)
        with self.assertRaisesRegex(plumb_trace.TraceError, "optimizer or a list of them"):
            plumb_trace.preflight(model, batch(), 5)

    def test_a_model_that_cannot_be_copied(self):
        model = Gpt()
        model.log = io.TextIOWrapper(io.BytesIO())
        self.assertTrue(plumb_trace.preflight(model, batch()).ok)

    def test_infinities_of_a_padded_vocabulary_are_no_finding(self):
        class Padded(Gpt):
            def forward(self, idx, targets=None):
                logits = super().forward(idx)[0]
                logits[..., V - 3:] = -float("inf")
                return logits.clone(), None

        model, (x, _) = Padded(), batch()
        with beside(model) as subject:
            self.assertRegex(first_non_finite(model, subject, (x,), {}), "every module output .* is finite")
            subject.root.ln_f.register_forward_hook(lambda module, args, out: out.masked_fill(torch.rand(out.shape) < 0.1, -float("inf")))
            self.assertRegex(first_non_finite(model, subject, (x,), {}), "not finite is ln_f")


class Fails(unittest.TestCase):
    def failed(self, model, data=None, optimizer=None):
        report = plumb_trace.preflight(model, data or batch(), optimizer)
        self.assertEqual(report.ok, not [c for c in report.checks if c.ok is False])
        return [c.name for c in report.checks if c.ok is False], report

    def setUp(self):
        torch.manual_seed(2)

    def test_shapes(self):
        class Narrow(Gpt):
            def forward(self, idx, targets=None):
                logits, loss = super().forward(idx, targets)
                return logits[:, :-1], loss

        self.assertEqual(self.failed(Narrow())[0], ["shapes"])

    def test_a_forward_pass_that_breaks(self):
        names, report = self.failed(Gpt(), (torch.randint(V, (2, T + 9)),))
        self.assertEqual(names, ["forward pass"])
        self.assertIn("IndexError", str(report))

    def test_initial_loss(self):
        model = Gpt()
        with torch.no_grad():
            model.wte.weight.mul_(20)
        names, report = self.failed(model)
        self.assertEqual(names, ["initial loss"])
        self.assertIn("at most 0.6 above or 0.3 below", str(report))

    def test_causality(self):
        for name in ("leaking mask", "norm over the sequence"):
            self.assertEqual(self.failed(WRONG[name][0]())[0], [PERTURBED, BY_GRADIENT], name)
        self.assertEqual(self.failed(MORE["mask of zeros"][0]())[0], [PERTURBED, BY_GRADIENT])

    def test_causality_that_only_a_change_shows(self):
        class Routed(Gpt):
            """Chooses by the last token, as routing over a sequence does: no gradient passes."""

            def forward(self, idx, targets=None):
                logits, loss = super().forward(idx, targets)
                return logits * (1 + 0.5 * (idx[:, -1:, None] % 2)), loss

        self.assertEqual(self.failed(Routed())[0], [PERTURBED])

    def test_tying(self):
        self.assertEqual(self.failed(WRONG["two matrices though declared one"][0]())[0], ["tying"])
        model = Gpt(tied=False)
        del model.config
        with torch.no_grad():
            model.lm_head.weight.copy_(model.wte.weight)
        self.assertEqual(self.failed(model)[0], ["tying"])

    def test_gradients(self):
        class Cut(Gpt):
            def forward(self, idx, targets=None):
                logits, loss = super().forward(idx, targets)
                return logits, loss

        model = Cut()
        model.spare = torch.nn.Linear(3, 3)
        names, report = self.failed(model)
        self.assertEqual(names, ["gradients"])
        self.assertIn("spare.weight", str(report))

    def test_decay_groups(self):
        model = Gpt()
        everything = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
        names, report = self.failed(model, optimizer=everything)
        self.assertEqual(names, ["decay groups"])
        self.assertIn("decayed: ", str(report))
        some = torch.optim.AdamW([p for name, p in model.named_parameters() if "ln_1" not in name], lr=1e-3, weight_decay=0.0)
        names, report = self.failed(model, optimizer=some)
        self.assertEqual(names, ["decay groups"])
        self.assertIn("in no group: h.0.ln_1.weight", str(report))


if __name__ == "__main__":
    unittest.main()
