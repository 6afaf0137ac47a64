"""plumb ablate on a run, on a checkpoint and on a config: what it prints, and what it leaves as it was."""

import hashlib
import json
import pathlib
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from rig import PLUMB, ROOT, SMALL, Folder, on_terminal, plumb, train  # noqa: E402

PROXIES = {"perturbation", "grad_norm", "grad_times_weight", "activation"}


def answered(*args):
    done = plumb("ablate", "--json", *args)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


class Ablate(Folder):
    def setUp(self):
        super().setUp()
        self.run_folder = self.folder / "run"

    def trained(self, *more):
        train(self.run_folder, *more)
        return str(self.run_folder)

    def test_a_run_part_by_part(self):
        run = self.trained()
        checkpoint = sorted(self.run_folder.glob("*.safetensors"))[-1]
        before = hashlib.sha256(checkpoint.read_bytes()).hexdigest()
        a, _ = answered(run, "--draws", "1", "--sequences", "32", "--slots", "dead")
        self.assertEqual(before, hashlib.sha256(checkpoint.read_bytes()).hexdigest())
        self.assertEqual((a["step"], a["sequences"], a["ladder"]), (60, 32, []))
        names = [p["part"] for p in a["parts"]]
        for name in ["positions", "blocks.0.attn", "blocks.1.attn.head.3", "blocks.1.attn.qk", "blocks.0.attn.v",
                     "blocks.0.attn.o", "blocks.0.ffn", "blocks.1.ffn.norm.gamma", "final_norm"]:
            self.assertIn(name, names)
        for p in a["parts"]:
            self.assertEqual(set(p["proxies"]), PROXIES)
            low, high = p["delta_zero"]["ci95"]
            self.assertLessEqual(low, p["delta_zero"]["mean"])
            self.assertGreaterEqual(high, p["delta_zero"]["mean"])
            self.assertAlmostEqual(p["loss_zero"] - a["loss"], p["delta_zero"]["mean"], 9)
        self.assertEqual(set(a["proxy_rank"]), PROXIES)
        self.assertEqual(a["proxy_rank"]["activation"]["n"], 4)
        self.assertEqual(a["proxy_rank"]["grad_norm"]["heads"]["n"], 8)

        again, _ = answered(str(checkpoint), "--draws", "1", "--sequences", "32", "--slots", "dead", "--set", "train.threads=1")
        self.assertEqual(a["parts"], again["parts"])  # the same bits

        text = plumb("ablate", run, "--draws", "0", "--sequences", "32", "--sort").stdout
        self.assertIn("held-out", text)
        self.assertNotIn("Spearman", text)
        first = [line for line in text.splitlines() if line.startswith(("blocks", "final", "positions"))][0].split()[0]
        most = max(a["parts"], key=lambda p: p["delta_zero"]["mean"])
        self.assertEqual(first, most["part"])
        for line in on_terminal(80, "ablate", run, "--draws", "1", "--sequences", "4"):
            self.assertLessEqual(len(line), 80, line)

    def test_parts_that_were_never_there(self):
        a, said = answered(*SMALL, "--train", "4", "--seeds", "2", "--set", "model.position=none")
        self.assertEqual((a["loss"], a["parts"]), (None, []))
        arms = {r["arm"]: r for r in a["ladder"]}
        self.assertNotIn("no positions", arms)
        self.assertEqual(len(arms["no norms"]["losses"]), 2)
        self.assertEqual(len(arms["no norms"]["delta"]["ci95"]), 2)
        self.assertIsNone(arms["whole"]["delta"])
        self.assertIn("left", said)
        self.assertIn("uniform", a["baselines"])

    def test_faults_and_missing_texts_are_told(self):
        text = self.folder / "text.txt"
        text.write_bytes((ROOT / "LICENSE").read_bytes())
        run = self.trained("--set", f"data.corpus={text}", "--set", "fault.inject=no_final_norm")
        a, said = answered(run, "--draws", "0")
        self.assertIn("FAULT", said)
        self.assertEqual(a["faults"], ["no_final_norm"])
        self.assertNotIn("final_norm", [p["part"] for p in a["parts"]])
        text.write_bytes((ROOT / "LICENSE").read_bytes() * 2)
        self.assertIn("not the text", answered(run, "--draws", "0")[1])
        text.unlink()
        gone = plumb("ablate", run)
        self.assertEqual(gone.returncode, 2)
        self.assertIn(str(text), gone.stderr)
        self.assertEqual((gone.stderr.replace("note: FAULT", "").count("\n"), gone.stdout), (2, ""))

    def test_a_config_is_no_trained_model(self):
        a, said = answered(*SMALL, "--draws", "0", "--sequences", "4")
        self.assertIn("not trained", said)
        gains = [p for p in a["parts"] if p["kind"] == "norm_gain"]
        self.assertTrue(gains)
        self.assertEqual({p["delta_zero"]["mean"] for p in gains}, {0})  # they start at 1

    def test_ctrl_c(self):
        run = subprocess.Popen([PLUMB, "ablate", *SMALL, "--train", "100000"], cwd=ROOT, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        time.sleep(1)
        run.send_signal(signal.SIGINT)
        out, said = run.communicate(timeout=60)
        self.assertEqual((run.returncode, out), (130, ""), said)


if __name__ == "__main__":
    unittest.main()
