"""plumb bisect: of the settings that differ, the one that hurts; of configs and of runs."""

import json
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from rig import PLUMB, ROOT, SMALL, Folder, plumb, train  # noqa: E402

MODEL = """[model]
n_layer = 2
d_model = 32
d_ff = 32
block_size = 16
[data]
corpus = "LICENSE"
[train]
batch_size = 8
warmup = 5
steps = 60
"""


class Bisect(Folder):
    def write(self, name, text):
        path = self.folder / name
        path.write_text(MODEL + text)
        return str(path)

    def test_the_setting_that_hurts_is_named(self):
        good = self.write("good.toml", 'lr = 3e-3\nthreads = 1\n')
        bad = self.write("bad.toml", 'lr = 1e-5\nthreads = 2\nadam_eps = 1e-7\n')
        done = plumb("bisect", good, bad, "--steps", "40", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("12 runs of 40 steps", done.stderr)  # good, bad, and each of the two alone is the other mended
        self.assertIn("run 12 of 12", done.stderr)
        answer = json.loads(done.stdout)
        self.assertIs(answer["worse"], True)
        settings = {s["keys"][0]: s for s in answer["settings"]}
        self.assertEqual(set(settings), {"train.lr", "train.adam_eps"})
        lr = settings["train.lr"]
        self.assertEqual((lr["verdict"], lr["good"], lr["bad"]), ("hurts alone", {"train.lr": 3e-3}, {"train.lr": 1e-5}))
        self.assertGreater(lr["alone"]["ci95"][0], 0)
        self.assertLess(lr["heals"]["ci95"][1], 0)
        self.assertEqual(settings["train.adam_eps"]["verdict"], "no effect seen")
        self.assertEqual([a["key"] for a in answer["left_aside"]], ["train.threads"])
        # The interval is that of the paired losses: 4.303 is Student's quantile of two degrees of freedom.
        pairs = [b - g for b, g in zip(answer["bad"]["losses"], answer["good"]["losses"])]
        mean = sum(pairs) / 3
        half = 4.302653 * (sum((p - mean) ** 2 for p in pairs) / 2 / 3) ** 0.5
        self.assertAlmostEqual(answer["difference"]["mean"], mean, places=9)
        self.assertAlmostEqual(answer["difference"]["ci95"][0], mean - half, places=5)

    def test_run_folders_stand_for_their_configs_and_the_losses_are_those_of_train(self):
        good, bad = str(self.folder / "good"), str(self.folder / "bad")
        first = train(good)
        train(bad, "--set", "train.lr=1e-5")
        done = plumb("bisect", good, bad, "--steps", "60")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("train.lr 0.003 -> 1e-05: hurts alone", done.stdout)
        answer = json.loads(plumb("bisect", good, bad, "--steps", "60", "--json", "--quiet").stdout)
        self.assertEqual(answer["good"]["losses"][0], first["val_loss"])  # to the bit

    def test_not_worse(self):
        good = self.write("good.toml", "lr = 1e-5\n")
        bad = self.write("bad.toml", "lr = 3e-3\n")
        done = plumb("bisect", good, bad, "--steps", "40", "--quiet")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("not worse within the interval", done.stdout)

    def test_ctrl_c(self):
        good = self.write("good.toml", "lr = 1e-3\n")
        bad = self.write("bad.toml", "lr = 1e-5\n")
        run = subprocess.Popen([PLUMB, "bisect", good, bad, "--steps", "100000"], cwd=ROOT, stderr=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
        while "run 1" not in run.stderr.readline():
            pass
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 130, said)
        self.assertIn("interrupted", said)


if __name__ == "__main__":
    unittest.main()
