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
from modules import MORE, RIGHT, T, V, WRONG, Gpt
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

    def test_parts_are_named(self):
        found, _ = traced(self, Gpt())
        self.assertEqual(found["parts"], {"embedding": "wte", "blocks": "h", "head": "lm_head", "attention": "attn", "ffn": "mlp",
                                          "norms": ["ln_1", "ln_2"]})


if __name__ == "__main__":
    unittest.main()
