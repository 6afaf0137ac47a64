"""plumb doctor on configs, on runs and on the logs of others; plumb explain of a cause."""

import json
import math
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from rig import SMALL, Folder, plumb, train  # noqa: E402


def diagnosed(*args):
    done = plumb("doctor", "--json", "--quiet", *args)
    assert done.returncode in (0, 3, 5), done.stderr
    return done.returncode, json.loads(done.stdout)


class Doctor(Folder):
    def test_a_healthy_config_is_healthy(self):
        code, d = diagnosed(*SMALL)
        self.assertEqual((code, d["verdict"], d["findings"]), (0, "healthy", []))

    def test_a_sick_config_is_sick_and_people_are_told_why(self):
        code, d = diagnosed(*SMALL, "--set", "fault.inject=no_final_norm")
        self.assertEqual((code, d["verdict"]), (3, "sick"))
        self.assertEqual([f["cause"] for f in d["findings"]], ["no_final_norm"])
        text = plumb("doctor", *SMALL, "--set", "model.final_norm=false")
        self.assertEqual(text.returncode, 3)
        self.assertIn("no_final_norm", text.stdout)
        self.assertIn("--set model.final_norm=true", text.stdout)  # the mend, to be copied
        self.assertIn("looking: the norms", text.stderr)

    def test_a_run_is_looked_into_and_its_curve_is_read(self):
        run = str(self.folder / "run")
        train(run)
        self.assertEqual(diagnosed(run)[0], 0)
        broken = str(self.folder / "broken")
        plumb("train", *SMALL, "--quiet", "--set", "fault.inject=non_finite", "--out", broken)
        code, d = diagnosed(broken)
        self.assertEqual((code, d["findings"][0]["cause"]), (3, "non_finite"))
        self.assertEqual(d["findings"][0]["first_step"], 10)

    def test_a_log_of_losses_alone(self):
        log = self.folder / "log.csv"
        stuck = [7 - 1.3 * (1 - math.exp(-i / 50)) for i in range(600)]
        log.write_text("step,loss\n" + "".join(f"{i},{v}\n" for i, v in enumerate(stuck)))
        code, d = diagnosed(str(log))
        self.assertEqual((code, d["verdict"]), (0, "healthy"))  # it fell, and nobody knows to what it should
        log.write_text("step,loss\n" + "".join(f"{i},7.0\n" for i in range(600)))
        code, d = diagnosed(str(log))
        self.assertEqual((code, d["verdict"]), (5, "undecided"))
        self.assertIn("path_skip", d["missing"])

    def test_what_is_no_patient(self):
        for args, said in ((["nowhere"], "nowhere"), (["LICENSE"], "LICENSE"), (["a.toml", "b.toml"], "name one"),
                           (["nowhere.jsonl", "--set", "train.lr=1"], "--set")):
            done = plumb("doctor", *args)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(said, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_explain_knows_causes(self):
        text = plumb("explain", "no_final_norm")
        self.assertEqual(text.returncode, 0)
        self.assertIn("how it is found", text.stdout)
        described = json.loads(plumb("explain", "no_final_norm", "--json").stdout)["causes"]
        self.assertEqual([c["name"] for c in described], ["no_final_norm"])
        self.assertIn("attention_unscaled", plumb("explain").stdout)

    def test_explain_finds_symptoms_by_their_words(self):
        by_words = plumb("explain", "the loss is stuck at ln V")
        self.assertEqual(by_words.returncode, 0, by_words.stderr)
        self.assertEqual(by_words.stdout, plumb("explain", "stuck", "at", "LN(V)").stdout)
        self.assertEqual(by_words.stdout, plumb("explain", "stuck_uniform").stdout)
        self.assertLess(by_words.stdout.index("1. head_zero"), by_words.stdout.index("lr_too_low"))
        several = json.loads(plumb("explain", "NaN", "--json").stdout)
        self.assertEqual([s["name"] for s in several["symptoms"]], ["nan_rising", "nan_sudden"])
        self.assertEqual(several["symptoms"][1]["causes"][0], "non_finite")
        self.assertIn("nan_sudden", plumb("explain", "NaN").stdout)
        self.assertIn("worse_with_depth", plumb("explain").stdout)
        # A name stays one: a component, and a cause with a slip in it.
        self.assertNotIn("symptoms", json.loads(plumb("explain", "rms", "--json").stdout))
        slip = plumb("explain", "attention_unscale")
        self.assertEqual(slip.returncode, 2)
        self.assertIn("did you mean 'attention_unscaled'?", slip.stderr)


if __name__ == "__main__":
    unittest.main()
