"""Runs as a person handles them: killed and resumed, looked at, sampled, compared, deleted; and what is refused."""

import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from rig import PLUMB, ROOT, SMALL, Folder, on_terminal, plumb, train  # noqa: E402


class Resume(Folder):
    def test_killed_at_five_random_steps_and_resumed_it_is_the_same_run(self):
        whole = train(self.folder / "whole")
        for kill in range(5):
            out = self.folder / f"killed{kill}"
            run = subprocess.Popen([PLUMB, "train", *SMALL, "--out", str(out), "--quiet"], cwd=ROOT)
            rows = random.randrange(1, 55)
            trace = out / "trace.jsonl"
            deadline = time.time() + 60
            while time.time() < deadline and run.poll() is None:
                if trace.exists() and trace.read_text().count('"loss"') >= rows:
                    break
            run.send_signal(signal.SIGKILL)
            run.wait()
            again = plumb("resume", str(out), "--json", "--quiet")
            self.assertEqual(again.returncode, 0, f"killed after row {rows}: {again.stderr}")
            answer = json.loads(again.stdout)
            for key in ("params_hash", "val_loss", "train_loss", "initial_loss"):
                self.assertEqual(answer[key], whole[key], f"{key}, killed after row {rows}")
            self.assertEqual(trace.read_bytes(), (self.folder / "whole/trace.jsonl").read_bytes())

    def test_a_run_that_is_being_written_is_not_resumed(self):
        out = self.folder / "run"
        run = subprocess.Popen([PLUMB, "train", *SMALL, "--set", "train.steps=100000", "--out", str(out), "--quiet"], cwd=ROOT)
        deadline = time.time() + 60
        while time.time() < deadline and not list(out.glob("checkpoint-15.*")):
            time.sleep(0.02)
        refused = plumb("resume", str(out))
        self.assertEqual(refused.returncode, 2)
        self.assertIn("is being written by another run", refused.stderr)
        listed = json.loads(plumb("runs", "--out", str(self.folder), "--json").stdout)["runs"]
        self.assertEqual([r["status"] for r in listed], ["running"])
        self.assertEqual(plumb("runs", "rm", "--force", str(out)).returncode, 2)
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(), 130)


    def test_what_changes_no_bit_can_change(self):
        run = plumb("train", *SMALL, "--out", str(self.folder / "whole"), "--json", "--quiet")
        whole = json.loads(run.stdout)
        shutil.copytree(self.folder / "whole", self.folder / "half")
        (self.folder / "half/checkpoint-60.safetensors").unlink()
        again = plumb("resume", str(self.folder / "half"), "--set", "train.recompute=1", "--json", "--quiet")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(json.loads(again.stdout)["params_hash"], whole["params_hash"])


class Full(Folder):
    def test_a_full_disk_is_one_sentence_and_half_of_nothing(self):
        # A limit on the size of files is the full disk that a test can have without rights: parameters do not fit in it.
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        out = self.folder / "run"
        run = plumb("train", *SMALL, "--out", str(out), "--quiet", preexec_fn=limit)
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertEqual(len(run.stderr.strip().splitlines()), 1, run.stderr)
        self.assertIn("cannot write", run.stderr)
        self.assertEqual(list(out.glob("*checkpoint*")), [])

    def test_progress_that_nobody_can_read_does_not_end_a_run(self):
        whole = train(self.folder / "whole")
        with open("/dev/full", "w") as full:
            run = plumb("train", *SMALL, "--out", str(self.folder / "full"), "--json", capture_output=False, stdout=subprocess.PIPE,
                        stderr=full)
        self.assertEqual(json.loads(run.stdout)["params_hash"], whole["params_hash"])
        run = subprocess.Popen([PLUMB, "train", *SMALL, "--out", str(self.folder / "head")], cwd=ROOT, stderr=subprocess.PIPE)
        run.stderr.close()
        self.assertEqual(run.wait(timeout=60), 0)

    def test_nohup(self):
        out = self.folder / "run"
        run = subprocess.Popen([PLUMB, "train", *SMALL, "--set", "train.steps=400", "--out", str(out), "--quiet"], cwd=ROOT,
                               preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        deadline = time.time() + 60
        while time.time() < deadline and not list(out.glob("checkpoint-15.*")):
            time.sleep(0.01)
        run.send_signal(signal.SIGHUP)
        self.assertEqual(run.wait(timeout=60), 0)


class Look(Folder):
    def test_several_at_once_then_compare_runs_and_delete(self):
        for name in ("pre", "post"):
            (self.folder / f"{name}.toml").write_text(f'[model]\nplacement = "{name}"\n')
        both = self.folder / "both"
        run = plumb("train", str(self.folder / "pre.toml"), str(self.folder / "post.toml"), *SMALL, "--out", str(both), "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        pre, post = json.loads(run.stdout)["runs"]
        self.assertEqual(pre["params_hash"], train(self.folder / "alone")["params_hash"])
        self.assertNotEqual(pre["params_hash"], post["params_hash"])
        self.assertIn("threads = 0", (both / "pre/config.toml").read_text())  # its share of the machine is not its config

        answer = json.loads(plumb("compare", str(both / "pre"), str(both / "post"), "--json").stdout)
        self.assertEqual(answer["config"]["model.placement"], ["pre", "post"])
        self.assertEqual(answer["last"]["val_loss"], [pre["val_loss"], post["val_loss"]])
        self.assertNotIn("train.lr", answer["config"])
        self.assertIn("a pre", plumb("compare", str(both / "pre"), str(both / "post")).stdout)

        listed = json.loads(plumb("runs", "--out", str(self.folder), "--json").stdout)["runs"]
        self.assertEqual(len(listed), 3)
        self.assertEqual({r["status"] for r in listed}, {"done"})
        found = json.loads(plumb("runs", "placement", "--out", str(self.folder), "--json").stdout)["runs"]
        self.assertEqual([pathlib.Path(r["run"]).name for r in found], ["post"])
        self.assertEqual(plumb("runs", "rm", str(both / "pre"), str(self.folder)).returncode, 2)
        self.assertTrue((both / "pre").exists())
        (self.folder / "link").symlink_to(both / "pre")
        for path in (self.folder / "link", f"{self.folder}/link/", f"{both}/pre/."):
            refused = plumb("runs", "rm", str(path))
            self.assertEqual(refused.returncode, 2)
            self.assertIn("is a link, or no folder's own name", refused.stderr)
        self.assertTrue((both / "pre/trace.jsonl").exists())
        self.assertEqual(plumb("runs", "rm", f"{both}/pre/").returncode, 0)
        self.assertFalse((both / "pre").exists())

    def test_a_long_path_hides_nothing_of_a_run(self):
        name = "a-run-with-a-long-name-" * 5
        train(self.folder / name)
        lines = on_terminal(80, "runs", "--out", str(self.folder))
        self.assertLessEqual(max(map(len, lines)), 80)
        for what in ("60/60", "done", "model.n_layer = 2"):
            self.assertTrue(any(what in line for line in lines), lines)
        self.assertTrue(any("…" in line and line.endswith("long-name-") for line in lines), lines)
        self.assertEqual(len(on_terminal(400, "runs", "--out", str(self.folder))), 3)

    def test_a_runs_folder_stands_for_its_config(self):
        train(self.folder / "a")
        for command in ("params", "config"):
            by_folder, by_file = (plumb(command, str(path), "--json") for path in (self.folder / "a", self.folder / "a/config.toml"))
            self.assertEqual(by_folder.returncode, 0, by_folder.stderr)
            self.assertEqual(by_folder.stdout, by_file.stdout)

    def test_what_eval_and_profile_do_not_read_is_said(self):
        train(self.folder / "a")
        for command in ("eval", "profile"):
            run = plumb(command, str(self.folder / "a"), "--set", "train.lr=1", "--set", "train.threads=1")
            self.assertIn(f"note: train.lr has no effect on `plumb {command}`", run.stderr)
            self.assertNotIn("train.threads", run.stderr)

    def test_sample_eval_and_profile(self):
        answer = train(self.folder / "a")
        run = str(self.folder / "a")
        first = json.loads(plumb("sample", run, "--prompt", "The", "--seed", "7", "--samples", "2", "--json").stdout)["texts"]
        self.assertEqual(first, json.loads(plumb("sample", run, "--prompt", "The", "--seed", "7", "--samples", "2", "--json").stdout)["texts"])
        self.assertEqual([len(t) for t in first], [16, 16])  # up to block_size, prompt included
        self.assertNotEqual(first[0], first[1])
        self.assertIn("the prompt", plumb("sample", run, "--prompt", os.fsdecode(b"\xff")).stderr)

        e = json.loads(plumb("eval", run, "--block-sizes", "8,16", "--json").stdout)
        self.assertEqual([b["block_size"] for b in e["block_sizes"]], [8, 16])
        self.assertAlmostEqual(e["block_sizes"][1]["loss"], answer["val_loss"], places=6)
        self.assertEqual(len(e["block_sizes"][0]["by_position"]), 8)

        for what in (run, f"{run}/checkpoint-60.safetensors"):
            p = json.loads(plumb("profile", what, "--json").stdout)
            self.assertEqual(len(p["layers"]), 2)
            for key in ("act_last_over_first", "grad_first_over_last", "logit_std", "adjacent_kl"):
                self.assertGreater(p[key], 0, key)
        self.assertIn("activation last / first", plumb("profile", *SMALL).stdout)

    def test_theory_beside_a_fresh_model(self):
        # Pre-LN at init: tokens of equal probability are nearly independent, so the theory must be close.
        p = json.loads(plumb("profile", "--set", "data.corpus=embedded", "--set", "model.n_layer=4", "--json").stdout)
        for layer in p["layers"]:
            self.assertLess(abs(layer["act_std"] / layer["predicted_act_std"] - 1), 0.1, layer)


class Start(Folder):
    def test_init_writes_what_train_reads(self):
        path = self.folder / "tiny.toml"
        self.assertEqual(plumb("init", "tiny", "--out", str(path)).returncode, 0)
        config = json.loads(plumb("config", str(path), "--json").stdout)["config"]
        self.assertEqual(config["model"]["n_layer"], 2)

    def test_padded_rows_train(self):
        self.assertLess(train(self.folder / "a", "--set", "data.rows=padded", "--set", "model.block_size=80")["val_loss"], 4)
        longest = max(map(len, (ROOT / "LICENSE").read_text().splitlines()))
        at = json.loads(plumb("eval", str(self.folder / "a"), "--json").stdout)["block_sizes"][0]["by_position"]
        self.assertLess(longest, 80)
        self.assertIsNone(at[-1])
        self.assertIsNotNone(at[0])

    def test_a_run_killed_before_its_first_checkpoint_leaves_a_folder_that_can_be_used(self):
        whole = train(self.folder / "whole")
        out = self.folder / "early"
        out.mkdir()
        (out / "config.toml").write_bytes((self.folder / "whole/config.toml").read_bytes())
        lines = (self.folder / "whole/trace.jsonl").read_bytes().splitlines(keepends=True)
        (out / "trace.jsonl").write_bytes(b"".join(line for line in lines if b'"row":"step"' not in line))
        (out / "checkpoint-0.safetensors.123-1.tmp").write_bytes(b"half of one")
        self.assertEqual(train(out)["params_hash"], whole["params_hash"])
        self.assertEqual(list(out.glob("*.tmp")), [])
        self.assertEqual((out / "trace.jsonl").read_bytes(), b"".join(lines))

    def test_two_that_start_in_the_same_second_get_a_folder_each(self):
        runs = [subprocess.Popen([PLUMB, "train", *SMALL, "--set", f"data.corpus={ROOT}/LICENSE", "--quiet"], cwd=self.folder)
                for _ in range(3)]
        self.assertEqual([run.wait(timeout=120) for run in runs], [0, 0, 0])
        self.assertEqual(len(list((self.folder / "runs").iterdir())), 3)

    def test_one_that_fails_does_not_hide_the_others(self):
        (self.folder / "short.txt").write_text("a text of forty characters, and no more.")
        (self.folder / "a.toml").write_text("")
        (self.folder / "b.toml").write_text(f'[data]\ncorpus = "{self.folder}/short.txt"\n')
        run = plumb("train", str(self.folder / "a.toml"), str(self.folder / "b.toml"), "--out", str(self.folder / "both"), "--json",
                    "--set", "model.n_layer=1", "--set", "train.steps=5", "--set", "train.batch_size=4")
        self.assertEqual(run.returncode, 2, run.stderr)
        good, bad = json.loads(run.stdout)["runs"]
        self.assertEqual((good["status"], bad["status"]), ("done", "failed"))
        self.assertIn("block_size", bad["error"])
        self.assertIn("b: ", run.stderr)

    def test_a_model_that_is_not_finite_can_be_looked_at(self):
        p = plumb("profile", *SMALL, "--set", "init.std=1e30", "--set", "model.norm=none", "--json")
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertTrue(json.loads(p.stdout)["non_finite"])
        self.assertIn("the first tensor that is not", p.stderr)

    def test_the_generated_corpus_has_a_floor(self):
        a = train(self.folder / "a", "--set", "data.corpus=embedded", "--set", "train.steps=2")
        self.assertLess(a["floor"], a["baselines"]["trigram"])
        self.assertLess(a["baselines"]["trigram"], a["baselines"]["unigram"])

    def test_help_is_quick(self):
        best = 1.0
        for _ in range(10):
            began = time.perf_counter()
            plumb("--help")
            best = min(best, time.perf_counter() - began)
        self.assertLess(best, 0.1)  # the goal is 20 ms; a busy machine is given room


if __name__ == "__main__":
    unittest.main()
