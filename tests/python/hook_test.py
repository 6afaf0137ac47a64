# run_tests: /usr/bin/python3
"""Tracing somebody's loop: it changes no bit, survives what loops do, writes what docs/trace.md says, and never breaks the training."""

import copy
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("python", "tests/support", "tests/python")]

import plumb_trace
from modules import T, V, EncoderStack, Gpt, GptBlock, Llama
from trace_rows import check_file, facts_of, lines_of, rows_of, steps_of

torch.set_num_threads(1)


def batches(n, samples=3, seed=0):
    draws = torch.Generator().manual_seed(seed)
    return [(torch.randint(V, (samples, T), generator=draws), torch.randint(V, (samples, T), generator=draws)) for _ in range(n)]


def loss_of(output, y):
    if isinstance(output, tuple):
        return output[1]
    return F.cross_entropy((output["logits"] if isinstance(output, dict) else output).reshape(-1, V), y.reshape(-1))


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = f"{folder.name}/trace.jsonl"
        torch.manual_seed(11)

    def train(self, model, steps=5, trace=None, accumulate=1, optimizer=None, data=None):
        """Losses of a usual loop with dropout, clipping and AdamW."""
        optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-2)
        losses = []
        for step in range(steps):
            optimizer.zero_grad()
            for x, y in (data or batches)(accumulate, seed=step):
                loss = loss_of(model(x, y) if isinstance(model, Gpt) else model(x), y) / accumulate
                loss.backward()
            if trace:
                trace.step(loss * accumulate, optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        return losses

    def rows(self):
        return check_file(self, self.out)


class SameBits(Case):
    def test_training_is_the_same_to_the_bit(self):
        for make in (Gpt, EncoderStack, Llama):
            with self.subTest(model=make.__name__):
                runs = []
                for traced in (False, True):
                    torch.manual_seed(5)
                    random.seed(5)
                    model = make()
                    trace = plumb_trace.attach(model, self.out, every=2, overwrite=True) if traced else None
                    losses = self.train(model, trace=trace)
                    if trace:
                        trace.close()
                    runs.append((losses, [p.detach().clone() for p in model.parameters()], torch.get_rng_state(), random.random()))
                self.assertEqual(runs[0][0], runs[1][0])
                for a, b in zip(runs[0][1], runs[1][1]):
                    self.assertTrue(torch.equal(a, b))
                self.assertTrue(torch.equal(runs[0][2], runs[1][2]))
                self.assertEqual(runs[0][3], runs[1][3])

    def test_buffers_of_batch_norm_stay(self):
        class Norm(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = torch.nn.BatchNorm1d(32)

            def forward(self, x):
                return self.inner(x.transpose(1, 2)).transpose(1, 2)

        model = Gpt(norm=Norm)
        twin = copy.deepcopy(model)
        torch.manual_seed(2)
        with plumb_trace.attach(model, self.out) as trace:
            self.train(model, 2, trace)
        torch.manual_seed(2)
        self.train(twin, 2)
        for (name, a), b in zip(model.named_buffers(), twin.buffers()):
            self.assertTrue(torch.equal(a, b), name)
        found = facts_of(self.rows())
        self.assertEqual((found["norm"], found["norm_axis"], found["causal"]), ("batch", "batch", False))

    def test_nothing_stays_on_the_model(self):
        model = Gpt()
        with plumb_trace.attach(model, self.out, every=1) as trace:
            self.train(model, 2, trace)
        for module in model.modules():
            self.assertFalse(module._forward_hooks or module._forward_pre_hooks, module)

    def test_a_copy_of_a_traced_model_is_not_traced(self):
        model = Gpt()
        with plumb_trace.attach(model, self.out, every=1) as trace:
            self.train(model, 1, trace)
            self.train(copy.deepcopy(model), 2)
            self.train(model, 1, trace)
        self.assertEqual(steps_of(self.rows())[1]["tokens"], 3 * T)


class Rows(Case):
    def test_the_version_is_plumbs(self):
        self.assertIn(f"project(plumb VERSION {plumb_trace.__version__} ", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))

    def test_probes_at_every_second_step_and_losses_at_all(self):
        model = Gpt()
        with plumb_trace.attach(model, self.out, every=2, config={"lr": 1e-2}) as trace:
            losses = self.train(model, 5, trace)
            trace.log(val_loss=3.25)
        rows = self.rows()
        self.assertEqual(rows[0]["config"], {"lr": 1e-2})
        steps = steps_of(rows)
        self.assertEqual([steps[i]["loss"] for i in range(5)], losses)
        self.assertEqual([steps[i]["tokens"] for i in range(5)], [3 * T * i for i in range(5)])
        self.assertEqual([i for i in steps if "update_ratio" in steps[i]["layers"]], [0, 2, 4])
        self.assertEqual([i for i in steps if "act_std" in steps[i]["layers"]], [0, 2, 4])
        self.assertEqual(steps[5], {"layers": {}, "val_loss": 3.25})

    def test_gradient_accumulation(self):
        """grad_norm is of what has been added up; the probes are of the last micro-batch."""
        model = Gpt()
        twin = copy.deepcopy(model).eval()
        model.eval()  # no dropout, so that the twin's numbers are the same
        with plumb_trace.attach(model, self.out) as trace:
            self.train(model, 1, trace, accumulate=3)
            self.train(model, 1, trace, accumulate=3)
        parts = batches(3, seed=0)
        for x, y in parts:
            (twin(x, y)[1] / 3).backward()
        norm = torch.sqrt(sum((p.grad ** 2).sum() for p in twin.parameters()))
        steps = steps_of(self.rows())
        self.assertAlmostEqual(steps[0]["grad_norm"], float(norm), delta=1e-5 * float(norm))
        self.assertAlmostEqual(steps[0]["logit_std"], twin(parts[2][0])[0].std(unbiased=False).item(), delta=1e-5)
        self.assertEqual(steps[1]["tokens"], 3 * 3 * T)

    def test_autocast_in_bfloat16(self):
        """Statistics are in full precision: only what the model itself computes in bfloat16 differs."""
        found = []
        for enabled in (False, True):
            torch.manual_seed(11)
            model, (x, y) = Llama(), batches(1)[0]
            with plumb_trace.attach(model, self.out, overwrite=True) as trace:
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
                    loss = loss_of(model(x), y)
                loss.backward()
                trace.step(loss, torch.optim.SGD(model.parameters(), lr=0.1))
            found.append((steps_of(self.rows())[0], facts_of(self.rows())))
        (want, facts), (got, facts_low) = found
        self.assertEqual(facts, facts_low)
        self.assertEqual(want["layers"].keys(), got["layers"].keys())
        for name, values in (*want["layers"].items(), *((k, [v]) for k, v in want.items() if k != "layers")):
            for w, g in zip(values, got["layers"].get(name) or [got[name]]):
                self.assertAlmostEqual(w, g, delta=0.05 * abs(w), msg=name)
        self.assertNotEqual(want["layers"]["act_std"], got["layers"]["act_std"])

    def test_evaluation_between_steps_is_not_counted(self):
        model = Gpt()
        with plumb_trace.attach(model, self.out, every=1) as trace:
            self.train(model, 1, trace)
            with torch.no_grad():
                model(*batches(1, samples=7)[0])
            self.train(model, 1, trace)
        self.assertEqual(steps_of(self.rows())[1]["tokens"], 3 * T)

    def test_frozen_parameters(self):
        model = Gpt()
        for p in (*model.wte.parameters(), *model.h[0].parameters()):
            p.requires_grad_(False)
        with plumb_trace.attach(model, self.out) as trace:
            self.train(model, 1, trace)
        layers = steps_of(self.rows())[0]["layers"]
        self.assertEqual(layers["update_ratio"][0], 0)
        self.assertGreater(layers["update_ratio"][1], 0)

    def test_activation_checkpointing_gives_the_same_numbers(self):
        class Saving(Gpt):
            reentrant = None

            def forward(self, idx, targets=None):
                x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
                for block in self.h:
                    x = block(x) if self.reentrant is None else checkpoint(block, x, use_reentrant=self.reentrant)
                logits = self.lm_head(self.ln_f(x))
                return logits, F.cross_entropy(logits.view(-1, V), targets.reshape(-1))

        found = []
        for reentrant in (None, False, True):
            torch.manual_seed(11)
            model = Saving()
            model.reentrant = reentrant
            with plumb_trace.attach(model, self.out, overwrite=True) as trace:
                self.train(model, 1, trace)
            found.append(steps_of(self.rows())[0])
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])

    def test_time_first(self):
        class TimeFirst(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Gpt(tied=False)

            def forward(self, idx):
                return self.inner(idx.t())[0].transpose(0, 1)

        (x, y), = batches(1)
        model = Gpt(tied=False).eval()
        rows = []
        for given, wrapped in ((x, model), (x.t().contiguous(), TimeFirst())):
            if wrapped is not model:
                wrapped.inner = model
            with plumb_trace.attach(wrapped, self.out, overwrite=True, batch_first=None if wrapped is model else False) as trace:
                output = wrapped(given)
                logits = output[0] if isinstance(output, tuple) else output
                loss = logits.logsumexp(-1).mean()
                loss.backward()
                trace.step(loss)
            rows.append((steps_of(self.rows())[0]["adjacent_kl"], facts_of(self.rows())["causal"]))
        self.assertAlmostEqual(rows[0][0], rows[1][0], delta=1e-6 * rows[0][0])
        self.assertEqual(rows[0][1], rows[1][1])


class Trouble(Case):
    def test_attaching_again(self):
        model = Gpt()
        trace = plumb_trace.attach(model, self.out, every=2)
        self.train(model, 3, trace)
        with self.assertRaisesRegex(plumb_trace.TraceError, "close"):
            plumb_trace.attach(model, self.out + "2")
        trace.close()
        trace.close()
        with self.assertRaisesRegex(plumb_trace.TraceError, "exists"):
            plumb_trace.attach(model, self.out)
        with self.assertRaisesRegex(plumb_trace.TraceError, "closed"):
            trace.step(1.0)
        for call in (lambda: trace.log(val_loss=1.0), lambda: trace.fact("norm", "rms")):
            with self.assertRaisesRegex(plumb_trace.TraceError, "closed"):
                call()
        # An interrupted run goes on from step 2: what it writes again is cut.
        with plumb_trace.attach(model, self.out, every=2, step=2, tokens=2 * 3 * T) as trace:
            self.train(model, 2, trace)
        rows = self.rows()
        self.assertEqual([r["step"] for r in rows if r["row"] == "step" and "loss" in r], [0, 1, 2, 3])
        self.assertEqual(steps_of(rows)[3]["tokens"], 3 * 3 * T)

    def test_a_torn_last_row_is_cut_and_a_damaged_one_refused(self):
        model = Gpt()
        with plumb_trace.attach(model, self.out) as trace:
            self.train(model, 3, trace)
        text = pathlib.Path(self.out).read_bytes()
        pathlib.Path(self.out).write_bytes(text[:-9])
        with plumb_trace.attach(model, self.out, step=3):
            pass
        self.rows()
        pathlib.Path(self.out).write_bytes(text.replace(b'"norm"', b'"nrom"', 1))
        with self.assertRaisesRegex(plumb_trace.TraceError, "checksum"):
            plumb_trace.attach(model, self.out, step=3)

    def test_wrong_arguments_are_one_sentence(self):
        model = Gpt()
        for call in (lambda: plumb_trace.attach("model"), lambda: plumb_trace.attach(model, "/nowhere/trace.jsonl"),
                     lambda: plumb_trace.attach(model, self.out, every=-1), lambda: plumb_trace.attach(model, 3),
                     lambda: plumb_trace.attach(model, self.out, blocks="layers"),
                     lambda: plumb_trace.attach(model, self.out, config=3)):
            with self.assertRaises(plumb_trace.TraceError) as caught:
                call()
            self.assertNotIn("\n", str(caught.exception))
            self.assertRegex(str(caught.exception), ";|must|takes|is a")
        with plumb_trace.attach(model, self.out) as trace:
            for call in (lambda: trace.step("3"), lambda: trace.step(torch.ones(2)), lambda: trace.step(1.0, model),
                         lambda: trace.log(step=3)):
                with self.assertRaises(plumb_trace.TraceError):
                    call()

    def test_a_wrong_argument_leaves_the_existing_trace(self):
        model, path = Gpt(), pathlib.Path(self.out)
        path.write_bytes(b"an earlier trace\n")
        loop = []
        loop.append(loop)
        for wrong in ({"batch": 3}, {"config": {"dtype": torch.float32}}, {"config": {"loop": loop}}, {"blocks": "layers"}, {"every": -1}):
            with self.assertRaises(plumb_trace.TraceError) as caught:
                plumb_trace.attach(model, self.out, overwrite=True, **wrong)
            self.assertNotIn("\n", str(caught.exception))
            self.assertEqual(path.read_bytes(), b"an earlier trace\n", wrong)
        self.assertFalse(model._forward_pre_hooks)

    def test_an_exception_in_forward_leaves_the_model_usable(self):
        model = Gpt()
        with plumb_trace.attach(model, self.out, every=1) as trace:
            self.train(model, 1, trace)
            with self.assertRaises(IndexError):
                model(torch.full((2, T), V + 3))
            self.train(model, 1, trace)
        self.assertIn("act_std", steps_of(self.rows())[1]["layers"])

    def test_what_cannot_be_traced_warns_once_and_trains_on(self):
        class Strange(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(8, 8)

            def forward(self, x):
                return self.layer(x)

        model = Strange()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with plumb_trace.attach(model, self.out, every=1) as trace:
                for _ in range(3):
                    loss = model(torch.randn(2, 8)).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    trace.step(loss, optimizer)
                    optimizer.step()
        said = [str(w.message) for w in caught if issubclass(w.category, RuntimeWarning)]
        self.assertEqual(len(said), 1, said)
        self.assertIn("token ids", said[0])
        self.assertEqual(len(steps_of(self.rows())), 3)

    def test_warnings_that_are_errors_do_not_stop_the_training(self):
        model = Gpt()
        with plumb_trace.attach(model, self.out, every=1) as trace, warnings.catch_warnings():
            warnings.simplefilter("error")
            trace.step(torch.tensor(1.0))  # no gradient: a warning
        self.assertEqual([r["loss"] for r in steps_of(self.rows()).values()], [1.0])

    @unittest.skipUnless(hasattr(os, "fork"), "no fork here")
    def test_a_child_process_leaves_the_trace_alone(self):
        model = Gpt()
        trace = plumb_trace.attach(model, self.out, every=1)
        self.train(model, 2, trace)
        before = pathlib.Path(self.out).read_bytes()
        child = os.fork()
        if child == 0:
            try:
                self.train(model, 1, trace)
                trace.log(mine=1.0)
                trace.close()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        self.assertEqual(pathlib.Path(self.out).read_bytes(), before)
        with self.assertRaises(plumb_trace.TraceError):  # still locked
            plumb_trace.attach(Gpt(), self.out, step=5)
        trace.close()

    def test_another_thread_may_evaluate_while_the_structure_is_looked_for(self):
        model, stop, broke = Gpt(), threading.Event(), []

        def evaluate():
            x, y = batches(1)[0]
            while not stop.is_set():
                try:
                    with torch.no_grad():
                        model(x, y)
                except Exception as error:
                    broke.append(error)
                    return

        thread = threading.Thread(target=evaluate)
        with plumb_trace.attach(model, self.out, every=1) as trace:
            thread.start()
            self.train(model, 2, trace)
            stop.set()
            thread.join()
        self.assertEqual(broke, [])

    def test_step_before_backward_leaves_the_gradient_norm_out(self):
        model = Gpt()
        (x, y), = batches(1)
        with plumb_trace.attach(model, self.out) as trace, self.assertWarnsRegex(RuntimeWarning, "after loss.backward"):
            trace.step(model(x, y)[1])
        self.assertNotIn("grad_norm", steps_of(self.rows())[0])

    def test_a_loss_that_is_not_finite_names_the_module(self):
        model = Gpt()
        with plumb_trace.attach(model, self.out, every=3) as trace:
            self.train(model, 1, trace)
            model.h[1].mlp[1].register_forward_hook(lambda module, args, out: out * float("nan"))
            self.train(model, 2, trace)
        rows = self.rows()
        self.assertEqual(steps_of(rows)[1]["loss"], "NaN")
        facts = [row["value"] for row in rows if row["row"] == "fact" and row["name"] == "non_finite"]
        self.assertEqual(len(facts), 1)
        self.assertIn("h.1.mlp.1", facts[0])

    def test_rows_of_a_killed_process_are_there(self):
        script = ("import sys, os; sys.path[:0] = sys.argv[1:4]\n"
                  "import torch, plumb_trace, hook_test\nfrom modules import Gpt\n"
                  "case = hook_test.Case(); model = Gpt()\n"
                  "case.train(model, 7, plumb_trace.attach(model, sys.argv[4], every=3))\nos._exit(9)\n")
        subprocess.run([sys.executable, "-c", script, str(ROOT / "python"), str(ROOT / "tests/python"), str(ROOT / "tests/support"), self.out],
                       timeout=300)
        self.assertEqual(len(steps_of(self.rows())), 7)

    def test_rows_that_wait_for_a_device(self):
        """Nothing here has one: a trace is told to wait as it would."""
        model = Gpt()
        with plumb_trace.attach(model, self.out, every=4) as trace:
            trace.waits = lambda row: True
            self.train(model, 3, trace)
            self.assertEqual(len(steps_of(rows_of(lines_of(self.out)))), 1)  # step 0 is probed and does not wait
            model.h[0].register_forward_hook(lambda module, args, out: out * float("nan"))
            self.train(model, 3, trace)
        rows = self.rows()
        self.assertEqual(sorted(steps_of(rows)), list(range(6)))
        self.assertEqual(steps_of(rows)[3]["loss"], "NaN")
        self.assertRegex(facts_of(rows)["non_finite"], "not finite.* [0-9] steps later")

    def test_a_mapping_is_taken(self):
        model = Gpt()
        with plumb_trace.attach(model, self.out, blocks="h", embedding="wte", head="lm_head", tied=True) as trace:
            self.train(model, 1, trace)
        found = facts_of(self.rows())
        self.assertEqual((found["n_layer"], found["tied"], found["tied_declared"]), (3, True, True))


if __name__ == "__main__":
    unittest.main()
