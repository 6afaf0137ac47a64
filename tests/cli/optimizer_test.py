"""The optimiser's settings on the command line: names, what has no effect, a bigger batch's learning rate, resuming."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from rig import SMALL, Folder, plumb, train


def settings(*more):
    run = plumb("config", "--json", *more)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)["config"]["train"]


class Names(unittest.TestCase):
    def test_an_unknown_optimizer_is_refused_with_the_nearest(self):
        run = plumb("config", "--set", "train.optimizer=adam")
        self.assertEqual(run.returncode, 2)
        self.assertEqual(run.stdout, "")
        self.assertIn("train.optimizer (--set): unknown optimizer 'adam'; did you mean 'adamw'?", run.stderr)

    def test_the_commented_config_lists_them(self):
        self.assertRegex(plumb("config").stdout, r"# optimizer = \"adamw\" +# update rule \(adamw, muon, sgd\)")


class ScaleBatch(unittest.TestCase):
    """Krizhevsky's and Malladi's rules: linear for SGD, the square root for what does not see the gradient's size."""

    def test_adaptive_rules_take_the_square_root_and_sgd_the_factor(self):
        for optimizer, factor in (("adamw", 2), ("muon", 2), ("sgd", 4)):
            t = settings("--scale-batch", "4", "--set", f"train.optimizer={optimizer}", "--set", "train.min_lr=1e-4")
            self.assertEqual(t["batch_size"], 128)
            self.assertAlmostEqual(t["lr"], 3e-3 * factor, places=15)
            self.assertAlmostEqual(t["min_lr"], 1e-4 * factor, places=15)
            self.assertEqual(t["steps"], 1200)

    def test_it_is_said_and_written_down(self):
        run = plumb("config", "--scale-batch", "0.25")
        self.assertIn("train.batch_size 32 -> 8; train.lr 0.003 -> 0.0015, times the square root of 0.25 for adamw", run.stderr)
        self.assertIn("\nbatch_size = 8 ", run.stdout)
        self.assertIn("\nlr = 0.0015 ", run.stdout)

    def test_a_batch_that_is_no_whole_number_is_refused(self):
        run = plumb("config", "--scale-batch", "0.3")
        self.assertEqual(run.returncode, 2)
        self.assertIn("--scale-batch 0.3 would make train.batch_size 9.6 instead of 32", run.stderr)


class Runs(Folder):
    def test_what_another_rule_reads_is_said_to_have_no_effect(self):
        run = plumb("train", *SMALL, "--set", "train.steps=1", "--set", "train.optimizer=sgd", "--set", "train.beta1=0.5", "--out",
                    str(self.folder / "run"))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn('train.beta1 = 0.5 has no effect: train.optimizer = "sgd" does not read it', run.stderr)

    def test_an_optimizer_cannot_change_on_the_way(self):
        out = self.folder / "run"
        train(out, "--set", "train.steps=2", "--set", "train.optimizer=muon")
        run = plumb("resume", str(out), "--set", "train.optimizer=sgd")
        self.assertEqual(run.returncode, 2)
        self.assertIn("train.optimizer cannot change when a run is resumed", run.stderr)
        answer = train(self.folder / "other", "--set", "train.steps=2", "--set", "train.optimizer=sgd", "--from", str(out))
        self.assertEqual(answer["status"], "done")

    def test_losses_are_told_without_what_else_is_minimised(self):
        plain = train(self.folder / "a", "--set", "train.steps=1")
        more = train(self.folder / "b", "--set", "train.steps=1", "--set", "train.z_loss=1", "--set", "train.label_smoothing=0.5")
        self.assertEqual(plain["initial_loss"], more["initial_loss"])
        self.assertEqual(plain["train_loss"], more["train_loss"])


if __name__ == "__main__":
    unittest.main()
