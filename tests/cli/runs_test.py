"""Runs as a person handles them: killed and resumed, looked at, sampled, compared, deleted; and what is refused."""

import json
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB_CLI", str(ROOT / "build" / os.environ.get("PLUMB_PRESET", "dev") / "plumb"))
SMALL = ["--set", "model.n_layer=2", "--set", "model.d_model=32", "--set", "model.d_ff=32", "--set", "model.block_size=16",
         "--set", "train.batch_size=8", "--set", "train.steps=60", "--set", "train.warmup=5", "--set", "data.corpus=LICENSE",
         "--set", "train.checkpoint_every=15", "--set", "train.eval_every=30"]


def plumb(*args, cwd=ROOT, **more):
    return subprocess.run([PLUMB, *args], cwd=cwd, capture_output=True, text=True, timeout=120, **more)


def train(out, *more):
    run = plumb("train", *SMALL, *more, "--out", str(out), "--json")
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


class Folder(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()

    def refused(self, pattern, *args, **more):
        run = plumb(*args, **more)
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertEqual(run.stdout, "")
        self.assertEqual(len(run.stderr.strip().splitlines()), 1, run.stderr)
        self.assertRegex(run.stderr, pattern)


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
        self.refused("is being written by another run", "resume", str(out))
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(), 130)

    def test_what_is_refused(self):
        train(self.folder / "a", "--set", "train.steps=3")
        run = str(self.folder / "a")
        self.refused("train.lr cannot change when a run is resumed", "resume", run, "--set", "train.lr=1")
        self.refused("there is no run", "resume", str(self.folder / "b"))
        self.refused("name the run", "resume")
        checkpoint = self.folder / "a/checkpoint-3.safetensors"
        checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
        for other in (self.folder / "a").glob("checkpoint-0*"):
            other.unlink()
        self.refused("checkpoint-3", "resume", run)
        self.refused("checkpoint-3", "sample", run)
        checkpoint.write_bytes(b"\x08\x00\x00\x00\x00\x00\x00\x00{}      ")
        self.refused("checkpoint-3", "eval", run)
        self.refused("checkpoint-3", "train", *SMALL, "--from", run, "--out", str(self.folder / "c"))
        self.assertFalse((self.folder / "c").exists())


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

    def test_an_output_that_cannot_be(self):
        self.refused("/proc/x", "train", *SMALL, "--quiet", "--out", "/proc/x/run")


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
        self.refused("is no run folder", "runs", "rm", str(both / "pre"), str(self.folder))
        self.assertTrue((both / "pre").exists())
        (self.folder / "link").symlink_to(both / "pre")
        for path in (self.folder / "link", f"{self.folder}/link/", f"{both}/pre/", f"{both}/pre/."):
            self.refused("is a link, or no folder's own name", "runs", "rm", str(path))
        self.assertTrue((both / "pre/trace.jsonl").exists())
        self.assertEqual(plumb("runs", "rm", str(both / "pre")).returncode, 0)
        self.assertFalse((both / "pre").exists())

    def test_sample_eval_and_profile(self):
        answer = train(self.folder / "a")
        run = str(self.folder / "a")
        first = json.loads(plumb("sample", run, "--prompt", "The", "--seed", "7", "--samples", "2", "--json").stdout)["texts"]
        self.assertEqual(first, json.loads(plumb("sample", run, "--prompt", "The", "--seed", "7", "--samples", "2", "--json").stdout)["texts"])
        self.assertEqual([len(t) for t in first], [16, 16])  # up to block_size, prompt included
        self.assertNotEqual(first[0], first[1])
        self.refused("learned positions end at block_size 16", "sample", run, "--tokens", "16")
        self.refused("the prompt", "sample", run, "--prompt", os.fsdecode(b"\xff"))

        e = json.loads(plumb("eval", run, "--block-sizes", "8,16", "--json").stdout)
        self.assertEqual([b["block_size"] for b in e["block_sizes"]], [8, 16])
        self.assertAlmostEqual(e["block_sizes"][1]["loss"], answer["val_loss"], places=6)
        self.assertEqual(len(e["block_sizes"][0]["by_position"]), 8)
        self.refused("learned positions end at block_size 16", "eval", run, "--block-sizes", "32")
        self.refused("only 1135 targets", "eval", run, "--block-sizes", "5000")
        self.refused("temperature", "sample", run, "--temperature", "nan")
        self.refused("--block-sizes '8,x'", "eval", run, "--block-sizes", "8,x")

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
        self.refused("is there already", "init", "--out", str(path))
        self.refused("unknown preset 'tinny'; did you mean 'tiny'", "init", "tinny")

    def test_padded_rows_train(self):
        self.assertLess(train(self.folder / "a", "--set", "data.rows=padded", "--set", "model.block_size=80")["val_loss"], 4)

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
