# run_tests: /usr/bin/python3
"""A trace's file: whole rows or none, one writer, nobody else's file; and arguments that are wrong are one sentence."""

import copy
import os
import pathlib
import pickle
import resource
import signal
import subprocess
import sys
import unittest
import warnings

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("python", "tests/support", "tests/python")]

import plumb_trace
from hook_test import Case, batches
from modules import Gpt
from trace_rows import facts_of, steps_of

torch.set_num_threads(1)


class File(Case):
    def refused(self, pattern, call):
        with self.assertRaisesRegex(plumb_trace.TraceError, pattern) as caught:
            call()
        self.assertNotIn("\n", str(caught.exception))

    def attach(self, **options):
        return plumb_trace.attach(Gpt(n_layer=1), self.out, **options)

    def test_a_disk_that_is_full_for_a_while(self):
        """A limit on the file's size stands in for it: it, too, lets half a row be written."""
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        model = Gpt(n_layer=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            with plumb_trace.attach(model, self.out, every=1) as trace:
                self.train(model, 1, trace)
                _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
                resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(self.out) + 100, hard))
                try:
                    self.train(model, 2, trace)
                    full = pathlib.Path(self.out).read_bytes()
                finally:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
                self.train(model, 2, trace)
        self.assertTrue(full.endswith(b"\n"))
        self.assertEqual([s for s, row in steps_of(self.rows()).items() if "loss" in row], [0, 3, 4])

    def test_what_is_no_regular_file(self):
        os.mkfifo(self.out)
        self.refused("no regular file", self.attach)
        self.refused("no regular file", lambda: plumb_trace.attach(Gpt(n_layer=1), os.path.dirname(self.out)))
        self.refused("null byte", lambda: plumb_trace.attach(Gpt(n_layer=1), "a\0b"))

    def test_somebody_elses_file_stays(self):
        path = pathlib.Path(self.out)
        for text in (b"import torch\n", b"x"):
            path.write_bytes(text)
            self.refused("exists", self.attach)
            self.refused("no trace", lambda: self.attach(overwrite=True))
            self.refused("no trace", lambda: self.attach(step=3))
            self.assertEqual(path.read_bytes(), text)
        path.write_bytes(b'{"row":"hea')  # the header of a trace that was torn
        self.attach(overwrite=True).close()

    def test_two_writers_of_one_file(self):
        with self.attach() as trace:
            before = pathlib.Path(self.out).read_bytes()
            self.refused("exists", self.attach)
            script = "import sys; sys.path.insert(0, sys.argv[1])\nimport torch, plumb_trace\nplumb_trace.attach(torch.nn.Linear(2, 2), sys.argv[2], overwrite=True)"
            run = subprocess.run([sys.executable, "-c", script, str(ROOT / "python"), self.out], capture_output=True, text=True, timeout=300)
            self.assertIn("being written by another", run.stderr)
            self.assertEqual(pathlib.Path(self.out).read_bytes(), before)
            trace.log(val_loss=1.0)
        self.attach(overwrite=True).close()

    def test_a_cell_that_is_run_again_closes_the_trace_of_before(self):
        first = self.attach()
        second = self.attach(overwrite=True)
        self.refused("is closed", lambda: first.step(1.0, lr=0.1))
        second.step(2.0, lr=0.1)
        second.close()
        self.assertEqual([row["loss"] for row in steps_of(self.rows()).values()], [2.0])

    def test_arguments(self):
        for wrong in ({"tokens": "abc"}, {"tokens": -1}, {"every": True}, {"step": True}, {"every": 2.5}):
            self.refused("whole number", lambda: self.attach(**wrong))
        self.assertFalse(os.path.exists(self.out))
        with self.attach() as trace:
            for pattern, call in (("number", lambda: trace.step(torch.tensor(1j))), ("number", lambda: trace.step(1j)), ("number", lambda: trace.step("3")),
                                  ("learning rate", lambda: trace.step(1.0, lr="x")), ("above 0", lambda: trace.step(1.0, grad_scale=0)),
                                  ("optimizer", lambda: trace.step(1.0, [1])), ("name", lambda: trace.fact(5, 1)),
                                  ("JSON", lambda: trace.fact("a", {1, 2})), ("JSON", lambda: trace.fact("a", torch.float32)),
                                  ("numbers", lambda: trace.log(foo="bar"))):
                self.refused(pattern, call)
            trace.fact("a", torch.tensor(3.0))
            trace.fact("b", {"c": [1, float("nan")]})
        self.assertEqual(facts_of(self.rows()), {"a": 3.0, "b": {"c": [1, "NaN"]}})

    def test_model_and_optimiser_between_step_and_update(self):
        """Saved there, as a checkpoint may be."""
        model = Gpt(n_layer=1)
        optimizer = torch.optim.AdamW(model.parameters())
        (x, y), = batches(1)
        with plumb_trace.attach(model, self.out, every=1) as trace:
            loss = model(x, y)[1]
            loss.backward()
            trace.step(loss, optimizer)
            twins = copy.deepcopy((model, optimizer))
            pickle.loads(pickle.dumps(model))
            pickle.loads(pickle.dumps(optimizer)).step()
            before = pathlib.Path(self.out).read_bytes()
            twins[1].step()
            self.assertEqual(pathlib.Path(self.out).read_bytes(), before)
            optimizer.step()
        self.assertGreater(steps_of(self.rows())[0]["layers"]["update_ratio"][0], 0)


if __name__ == "__main__":
    unittest.main()
