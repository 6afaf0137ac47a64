"""The command of docs/speed.md that times plumb beside PyTorch, on a tiny model."""

import json
import os
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB_CLI", str(ROOT / "build" / os.environ.get("PLUMB_PRESET", "dev") / "plumb"))


class Step(unittest.TestCase):
    def test_the_peer_answers_bench_step(self):
        peer = f"/usr/bin/python3 {ROOT / 'bench/peers/torch/step.py'} --here --steps 2 --layers 1 --batch 2"
        run = subprocess.run([PLUMB, "bench", "step", "--rounds", "1", "--json", "--peer", peer, "--set", "model.n_layer=1",
                              "--set", "train.batch_size=2"], capture_output=True, text=True, timeout=120)
        self.assertEqual(run.returncode, 0, run.stderr)
        answer = json.loads(run.stdout)
        self.assertGreater(answer["peer_ms_per_step"], 0)
        self.assertGreater(answer["ms_per_step"], 0)


if __name__ == "__main__":
    unittest.main()
