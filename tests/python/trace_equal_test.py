# run_tests: /usr/bin/python3
"""A PyTorch trace against plumb's own: the same weights, batches and optimiser, every number of every row."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("python", "tests/support", "tests/data", "bench/peers/torch")]

import plumb_trace
from model import Config, Decoder, adamw, clip
from oracle import infer, load, read_safetensors
from trace_rows import check_file, facts_of, lines_of, rows_of, steps_of
from verse_reference import Stream

torch.set_num_threads(1)
PLUMB = os.environ.get("PLUMB_CLI", str(ROOT / "build" / os.environ.get("PLUMB_PRESET", "dev") / "plumb"))
STEPS, BATCH, BLOCK, SEED = 4, 8, 16, 5
SMALL = ["model.n_layer=3", "model.d_model=32", "model.d_ff=48", f"model.block_size={BLOCK}", f"train.batch_size={BATCH}",
         f"train.steps={STEPS}", "train.warmup=2", "train.eval_every=0", "train.checkpoint_every=0",
         "probe.every=1", "data.corpus=LICENSE", f"train.seed={SEED}", "train.threads=1"]


def tokens_of(checkpoint):
    """The training split's ids, by the checkpoint's tokenizer."""
    blob = pathlib.Path(checkpoint).read_bytes()
    header = json.loads(blob[8:8 + int.from_bytes(blob[:8], "little")])
    ids = {c: i + 1 for i, c in enumerate(json.loads(header["__metadata__"]["tokenizer"])["characters"])}
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    return [ids.get(c, 0) for c in text][:int(len(text) * 0.9)]


def batch(tokens, step):
    """Which window each sample gets is drawn by a Philox that shares no line with plumb's."""
    draws = Stream(SEED, "data")
    starts = [draws.below(len(tokens) - BLOCK, step, sample, 0) for sample in range(BATCH)]
    return tuple(torch.tensor([tokens[s + shift:s + shift + BLOCK] for s in starts]) for shift in (0, 1))


# What the hook measures; plumb's own trainer measures these and more (docs/trace.md).
HOOKED = {"loss", "lr", "grad_norm", "tokens", "logit_std", "adjacent_kl"}
HOOKED_LAYERS = {"act_std", "grad_std", "attn_entropy", "attn_max_logit", "norm_in_std", "update_ratio", "weight_rms"}


class SameNumbers(unittest.TestCase):
    def compare(self, *sets, **fields):
        """Trains STEPS steps with plumb, then its twin from plumb's first checkpoint; `fields` are the twin's that no tensor tells."""
        with tempfile.TemporaryDirectory() as folder:
            flags = [word for pair in (*SMALL, *sets) for word in ("--set", pair)]
            run = subprocess.run([PLUMB, "train", *flags, "--out", f"{folder}/run", "--quiet"], cwd=ROOT, capture_output=True,
                                 text=True, timeout=120)
            self.assertEqual(run.returncode, 0, run.stderr)
            first = f"{folder}/run/checkpoint-0.safetensors"
            tensors, tokens = {k: v for k, v in read_safetensors(first).items() if not k.startswith("optim.")}, tokens_of(first)
            ours = rows_of(lines_of(f"{folder}/run/trace.jsonl"))
            model = Decoder(infer(tensors, {"n_head": 4, **fields}))
            load(model, tensors)
            optimizer = adamw(model)
            wanted = steps_of(ours)
            with plumb_trace.attach(model, f"{folder}/torch.jsonl", every=1) as trace:
                for step in range(STEPS):
                    optimizer.param_groups[0]["lr"] = optimizer.param_groups[1]["lr"] = wanted[step]["lr"]
                    _, loss = model(*batch(tokens, step))
                    optimizer.zero_grad(set_to_none=True)
                    loss.backward()
                    trace.step(loss, optimizer)
                    clip(model)
                    optimizer.step()
            theirs = check_file(self, f"{folder}/torch.jsonl")
        got = steps_of(theirs)
        for step in range(STEPS):
            self.assertEqual(HOOKED | {"layers"}, got[step].keys())
            self.assertEqual(HOOKED_LAYERS, got[step]["layers"].keys())
            pairs = [(name, [wanted[step][name]], [got[step][name]]) for name in got[step] if name != "layers"]
            pairs += [(name, values, got[step]["layers"][name]) for name, values in wanted[step]["layers"].items()
                      if name in HOOKED_LAYERS]
            for name, want, have in pairs:
                for w, h in zip(want, have, strict=True):
                    self.assertLessEqual(abs(w - h), 1e-4 * abs(w), f"step {step} {name}: plumb {w}, PyTorch {h}")
        said, found = facts_of(ours), facts_of(theirs)
        for name in ("tied", "causal", "n_layer", "norm", "placement", "final_norm", "residual"):
            self.assertEqual(said[name], found[name], name)

    def test_pre(self):
        self.compare()

    def test_post(self):
        self.compare("model.placement=post", placement="post")

    def test_rms_norm_and_two_matrices(self):
        self.compare("model.norm=rms", "model.tied_embeddings=false")

    def test_sharp_attention(self):
        """Where entropy is far from its largest."""
        self.compare("init.std=0.3")


if __name__ == "__main__":
    unittest.main()
