"""Parameter counts of `plumb params` against PyTorch modules, on 20 random configs. Needs Debian's python3-torch."""

import json
import os
import pathlib
import random
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB_CLI", str(ROOT / "build" / os.environ.get("PLUMB_PRESET", "dev") / "plumb"))


def random_config(rng):
    n_head = rng.choice([1, 2, 4, 8])
    return {
        "n_layer": rng.randint(1, 9),
        "n_head": n_head,
        "d_model": n_head * rng.randint(1, 24),
        "d_ff": rng.randint(1, 400),
        "block_size": rng.randint(1, 200),
        "vocab_size": rng.randint(2, 3000),
        "norm": rng.choice(["layer", "rms", "none"]),
        "placement": rng.choice(["pre", "post"]),
        "tied_embeddings": rng.choice([True, False]),
        "attention_bias": rng.choice([True, False]),
        "ffn_bias": rng.choice([True, False]),
    }


def flags(config):
    keys = {"vocab_size": "data.vocab_size", "attention_bias": "model.attention.bias", "ffn_bias": "model.ffn.bias"}
    for name, value in config.items():
        yield "--set"
        yield f"{keys.get(name, 'model.' + name)}={str(value).lower() if isinstance(value, bool) else value}"


class ParamsAgainstTorch(unittest.TestCase):
    def test_twenty_random_configs(self):
        rng = random.Random(7)
        configs = [random_config(rng) for _ in range(20)]
        peer = subprocess.run(
            ["/usr/bin/python3", str(ROOT / "bench/peers/torch/params.py"), "-"],
            input=json.dumps(configs), capture_output=True, text=True, check=True)
        for config, want in zip(configs, json.loads(peer.stdout)):
            with self.subTest(config=config):
                run = subprocess.run([PLUMB, "params", *flags(config), "--json"], capture_output=True, text=True)
                self.assertEqual(run.returncode, 0, run.stderr)
                got = json.loads(run.stdout)
                self.assertEqual(got["total"], want["total"])
                self.assertEqual(got["parts"], want["parts"])


if __name__ == "__main__":
    unittest.main()
