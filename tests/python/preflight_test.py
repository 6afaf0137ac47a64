# run_tests: /usr/bin/python3
"""preflight passes right models, and each of its checks fails on a model that is broken for it and no other check does."""

import copy
import pathlib
import sys
import unittest

import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("python", "tests/python")]

import plumb_trace
from modules import MORE, RIGHT, T, V, WRONG, Gpt

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
