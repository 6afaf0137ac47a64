# run_tests: /usr/bin/python3
"""What tracing finds of modules written in different manners is what is true of them; six of the twelve are wrong on purpose."""

import pathlib
import sys
import tempfile
import unittest
import warnings

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("python", "tests/support", "tests/python")]

import plumb_trace
from modules import MORE, RIGHT, T, V, WRONG, Gpt, eager
from trace_rows import check_file, facts_of, steps_of

torch.set_num_threads(1)


def traced(test, model, batch=None, **options):
    """Facts and the joined row of step 0, of one step of training. Any warning is an error."""
    batch = torch.randint(V, (3, T)) if batch is None else batch
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with plumb_trace.attach(model, f"{folder}/trace.jsonl", **options) as trace:
            output = model(batch)
            logits = output["logits"] if isinstance(output, dict) else output[0] if isinstance(output, tuple) else output
            loss = torch.nn.functional.cross_entropy(logits.reshape(-1, V), batch.reshape(-1))
            loss.backward()
            trace.step(loss, torch.optim.SGD(model.parameters(), lr=0.1))
        rows = check_file(test, f"{folder}/trace.jsonl")
    return facts_of(rows), steps_of(rows)[0]


class Facts(unittest.TestCase):
    def check(self, modules):
        for name, (make, truth) in modules.items():
            with self.subTest(module=name):
                torch.manual_seed(3)
                found, row = traced(self, make())
                self.assertEqual({key: found.get(key) for key in truth}, truth)
                wanted = {"act_std", "grad_std", "attn_entropy", "attn_max_logit", "norm_in_std", "weight_rms", "update_ratio"}
                no_norm = truth["norm"] == "none" or truth["residual"] == "unknown"
                self.assertEqual(set(row["layers"]), wanted - ({"norm_in_std"} if no_norm else set()))

    def test_six_right_modules(self):
        self.check(RIGHT)

    def test_six_wrong_modules(self):
        self.check(WRONG)

    def test_others(self):
        self.check(MORE)

    def test_causality_that_nothing_shows_is_unknown(self):
        # Without a mask, but with nothing yet that would carry another token's content: silent is not causal.
        def unmasked():
            return Gpt(attend=lambda q, k, v: eager(q, k, v, 0.0))

        def zeroed(model, part):
            with torch.no_grad():
                for name, p in model.named_parameters():
                    if part in name:
                        p.zero_()
            return model

        self.assertEqual(traced(self, unmasked())[0]["causal"], False)
        self.assertEqual(traced(self, zeroed(unmasked(), "c_proj"))[0]["causal"], "unknown")
        untied = Gpt(attend=lambda q, k, v: eager(q, k, v, 0.0), tied=False)
        self.assertEqual(traced(self, zeroed(untied, "lm_head"))[0]["causal"], "unknown")

    def test_a_forward_that_does_not_repeat_is_no_leak(self):
        class Counting(Gpt):
            passes = 0

            def forward(self, idx, targets=None):
                self.passes += 1
                logits, *rest = super().forward(idx)
                return logits * (1 + 0.1 * self.passes), *rest

        self.assertIs(traced(self, Counting())[0]["causal"], True)  # by gradient

    def test_a_leak_among_two_symbols(self):
        class Two(Gpt):
            """Only a change of tokens shows this leak: the last token is read as a number."""

            def forward(self, idx, targets=None):
                logits, *rest = super().forward(idx)
                return logits + idx[:, -1:, None].float(), *rest

        model = Two()
        model.wte = torch.nn.Embedding(2, 32)
        model.lm_head = torch.nn.Linear(32, 2, bias=False)
        report = plumb_trace.preflight(model, torch.randint(2, (3, T)))
        self.assertIs(report.facts["causal"], False)

    def test_parts_are_named(self):
        found, _ = traced(self, Gpt())
        self.assertEqual(found["parts"], {"embedding": "wte", "blocks": "h", "head": "lm_head", "attention": "attn", "ffn": "mlp",
                                          "norms": ["ln_1", "ln_2"]})


if __name__ == "__main__":
    unittest.main()
