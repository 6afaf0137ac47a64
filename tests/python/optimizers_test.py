# run_tests: /usr/bin/python3
"""Runs of plumb against the same runs in PyTorch, for each optimiser, decay, clipping and what is minimised beside the loss:
the loss at every step, and the parameters at the end."""

import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("tests/python", "tests/support", "tests/optim")]

from optim_reference import newton_schulz
from trace_equal_test import PLUMB, SMALL, batch, tokens_of
from trace_rows import lines_of, rows_of, steps_of

from model import Decoder, clip
from oracle import infer, load, read_safetensors

torch.set_num_threads(1)
STEPS, PEAK, DECAY = 6, 0.02, 0.05
HIDDEN = (".q.weight", ".k.weight", ".v.weight", ".o.weight", ".in.weight", ".out.weight")


def agc(model, limit):
    """Brock et al. 2021, eq. 3, with the clamps of their code; the tied embedding is the classifier."""
    for name, p in model.named_parameters():
        if name == "embed.weight":
            continue
        dims = 1 if p.dim() > 1 else 0
        weight, grad = p.norm(dim=dims, keepdim=True), p.grad.norm(dim=dims, keepdim=True)
        longest = limit * weight.clamp(min=1e-3)
        p.grad.copy_(torch.where(grad < longest, p.grad, p.grad * longest / grad.clamp(min=1e-6)))


class Rule:
    """Decoupled decay, then torch.optim's rule without any; Muon's hidden matrices by its authors' definition."""

    def __init__(self, model, kind, momentum=None, independent=False):
        self.independent, self.momentum, self.hidden = independent, momentum, {}
        parameters = dict(model.named_parameters())
        self.matrices = [p for p in parameters.values() if p.dim() > 1]
        if kind == "muon":
            self.hidden = {p: torch.zeros_like(p) for name, p in parameters.items() if name.endswith(HIDDEN)}
        rest = [p for p in parameters.values() if p not in self.hidden]
        self.rule = (torch.optim.SGD(rest, lr=1, momentum=momentum) if kind == "sgd" else
                     torch.optim.AdamW(rest, lr=1, betas=(0.9, 0.95), eps=1e-8, weight_decay=0))

    @torch.no_grad()
    def step(self, lr):
        for p in self.matrices:
            p.mul_(1 - DECAY * (lr / PEAK if self.independent else lr))
        for p, buf in self.hidden.items():
            buf.mul_(self.momentum).add_(p.grad)
            p.add_(newton_schulz(p.grad.add(buf, alpha=self.momentum)), alpha=-lr * 0.2 * math.sqrt(max(p.shape)))
        self.rule.param_groups[0]["lr"] = lr
        self.rule.step()


class SameRun(unittest.TestCase):
    def compare(self, *sets, kind="adamw", momentum=None, independent=False, z_loss=0.0, smoothing=0.0, lam=0.0, tolerance=1e-4):
        with tempfile.TemporaryDirectory() as folder:
            sets = (*SMALL, f"train.steps={STEPS}", f"train.lr={PEAK}", f"train.weight_decay={DECAY}", f"train.optimizer={kind}",
                    *sets)
            flags = [word for pair in sets for word in ("--set", pair)]
            run = subprocess.run([PLUMB, "train", *flags, "--out", f"{folder}/run", "--quiet"], cwd=ROOT, capture_output=True,
                                 text=True, timeout=120)
            self.assertEqual(run.returncode, 0, run.stderr)
            first = f"{folder}/run/checkpoint-0.safetensors"
            start = {k: v for k, v in read_safetensors(first).items() if not k.startswith("optim.")}
            end = read_safetensors(f"{folder}/run/checkpoint-{STEPS}.safetensors")
            tokens, ours = tokens_of(first), steps_of(rows_of(lines_of(f"{folder}/run/trace.jsonl")))
        model = Decoder(infer(start, {"n_head": 4}))
        load(model, start)
        rule = Rule(model, kind, momentum, independent)
        for step in range(STEPS):
            x, y = batch(tokens, step)
            logits, loss = model(x, y)
            flat = logits.reshape(-1, logits.shape[-1])
            objective = F.cross_entropy(flat, y.reshape(-1), label_smoothing=smoothing)
            objective = objective + z_loss * torch.logsumexp(flat, -1).square().mean()
            model.zero_grad(set_to_none=True)
            objective.backward()
            row = ours[step]
            self.assertLessEqual(abs(row["loss"] - loss.item()), tolerance * abs(row["loss"]), f"step {step}")
            self.assertEqual("objective" in row, bool(z_loss or smoothing))
            if "objective" in row:
                self.assertLessEqual(abs(row["objective"] - objective.item()), tolerance * abs(row["objective"]), f"step {step}")
            if lam:
                agc(model, lam)
            clip(model)
            rule.step(row["lr"])
        for name, p in model.named_parameters():
            moved = torch.from_numpy(end[name] - start[name].astype(end[name].dtype))
            apart = (p.detach() - torch.from_numpy(end[name].copy())).norm()
            self.assertLessEqual(apart.item(), 100 * tolerance * moved.norm().item(), name)
        return end

    def test_adamw(self):
        end = self.compare()
        self.assertIn("optim.m.embed.weight", end)
        self.assertIn("optim.v.embed.weight", end)

    def test_independent_decay(self):
        self.compare("train.decay=independent", "train.min_lr=0.005", independent=True)

    def test_sgd(self):
        end = self.compare("train.momentum=0.8", kind="sgd", momentum=0.8)
        self.assertIn("optim.momentum.embed.weight", end)

    def test_sgd_with_adaptive_clipping(self):
        self.compare("train.agc=0.02", kind="sgd", momentum=0.9, lam=0.02)

    def test_muon(self):
        end = self.compare(kind="muon", momentum=0.95, tolerance=3e-4)
        self.assertIn("optim.momentum.blocks.0.attn.q.weight", end)
        self.assertIn("optim.m.embed.weight", end)

    def test_z_loss_and_label_smoothing(self):
        self.compare("train.z_loss=0.01", "train.label_smoothing=0.1", z_loss=0.01, smoothing=0.1)


if __name__ == "__main__":
    unittest.main()
