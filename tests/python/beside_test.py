# run_tests: /usr/bin/python3
"""What loops do beside training while a trace is open: copies of the model, evaluation, state of their own, several processes."""

import copy
import io
import pathlib
import sys
import types
import unittest
import warnings
from unittest import mock

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("python", "tests/support", "tests/python")]

import plumb_trace
from hook_test import Case, batches
from modules import Gpt
from plumb_trace.isolate import isolated
from plumb_trace.measure import norm_of
from trace_rows import facts_of, steps_of

torch.set_num_threads(1)


def through_a_file(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    try:
        return torch.load(file, weights_only=False)
    except TypeError:  # PyTorch 1.13's does not take the argument in this call
        file.seek(0)
        return torch.load(file)


class Copies(Case):
    def bytes(self):
        return pathlib.Path(self.out).read_bytes()

    def test_a_copy_writes_nothing_whenever_it_was_made(self):
        (x, y), = batches(1)
        for how in (copy.deepcopy, through_a_file):
            for when in ("before the first step", "between forward and step", "after a step"):
                with self.subTest(how=how.__name__, when=when):
                    model = Gpt()
                    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                    with plumb_trace.attach(model, self.out, every=1, overwrite=True) as trace:
                        twin = how(model) if when == "before the first step" else None
                        before = self.bytes()
                        if twin:
                            twin(x, y)[1].backward()
                        self.assertEqual(self.bytes(), before)
                        loss = model(x, y)[1]
                        loss.backward()
                        if when == "between forward and step":
                            twin = how(model)
                            with torch.no_grad():
                                twin.h[0].attn.c_proj.weight.mul_(1e3)
                            twin(x, y)[1].backward()
                        trace.step(loss, optimizer)
                        optimizer.step()
                        twin = twin or how(model)
                        before = self.bytes()
                        twin(x, y)[1].backward()
                        self.assertEqual(self.bytes(), before)
                    steps = steps_of(self.rows())
                    self.assertEqual(list(steps), [0])
                    self.assertLess(steps[0]["layers"]["act_std"][0], 10)

    def test_a_copied_trace_is_silent(self):
        model = Gpt()
        with plumb_trace.attach(model, self.out) as trace:
            before = self.bytes()
            twin = copy.deepcopy({"model": model, "trace": trace})["trace"]
            twin.step(1.0)
            twin.log(val_loss=2.0)
            twin.close()
            self.assertEqual(self.bytes(), before)
            self.train(model, 1, trace)
        self.assertEqual(list(steps_of(self.rows())), [0])


class Buffers(Case):
    def test_buffers_that_a_forward_replaces_or_registers_are_put_back(self):
        class Counting(Gpt):
            def __init__(self):
                super().__init__()
                self.register_buffer("count", torch.zeros(()))
                self.register_buffer("cache", None)

            def forward(self, *args):
                self.count = self.count + 1
                if not torch.is_grad_enabled():
                    self.cache = torch.ones(3)
                    self.h[0].register_buffer("late", torch.ones(2))
                return super().forward(*args)

        model = Counting()
        (x, y), = batches(1)
        with plumb_trace.attach(model, self.out):
            model(x, y)[1].backward()
        self.assertEqual(float(model.count), 1)
        self.assertIsNone(model.cache)
        self.assertNotIn("late", dict(model.h[0].named_buffers()))


class Evaluation(Case):
    def test_evaluation_between_backward_and_step_is_not_measured(self):
        (x, y), (other, _) = batches(2)
        found = []
        for evaluates in (False, True):
            torch.manual_seed(4)
            model = Gpt().eval()
            with plumb_trace.attach(model, self.out, overwrite=True) as trace:
                loss = model(x, y)[1]
                loss.backward()
                if evaluates:
                    with torch.no_grad():
                        model(other)
                trace.step(loss, torch.optim.SGD(model.parameters(), lr=0.1))
            found.append(steps_of(self.rows())[0])
        self.assertEqual(found[0], found[1])


class Outputs(Case):
    def test_logits_are_found_where_targets_change_what_the_model_returns(self):
        class LossFirst(Gpt):
            def forward(self, idx, targets=None):
                logits, loss = super().forward(idx, targets)
                return {"logits": logits} if targets is None else {"loss": loss, "logits": logits}

        class LossOnly(Gpt):
            def forward(self, idx, targets=None):
                logits, loss = super().forward(idx, targets)
                return {"logits": logits} if targets is None else {"loss": loss}

        (x, y), = batches(1)
        found = []
        for make, batch in ((Gpt, None), (LossFirst, None), (LossFirst, (x,)), (LossOnly, None), (LossOnly, (x,))):
            torch.manual_seed(4)
            model = make().eval()
            with plumb_trace.attach(model, self.out, overwrite=True, batch=batch) as trace:
                output = model(x, y)
                loss = output["loss"] if isinstance(output, dict) else output[1]
                loss.backward()
                trace.step(loss)
            found.append({name: steps_of(self.rows())[0].get(name) for name in ("logit_std", "adjacent_kl")})
        self.assertGreater(found[0]["logit_std"], 0)
        for other in found[1:3]:
            self.assertEqual(other, found[0])
        for other in found[3:]:  # cross-entropy reads samples and positions as one axis
            self.assertAlmostEqual(other["logit_std"], found[0]["logit_std"], delta=1e-6)
            self.assertAlmostEqual(other["adjacent_kl"], found[0]["adjacent_kl"], delta=1e-6)


def several():
    """As in the first of two processes."""
    answers = {"is_available": True, "is_initialized": True, "get_world_size": 2, "get_rank": 0}
    return mock.patch.multiple(torch.distributed, create=True, **{name: lambda *_, a=a: a for name, a in answers.items()})


class Counting(Gpt):
    passes = 0

    def forward(self, *args):
        self.passes += 1
        return super().forward(*args)


class SeveralProcesses(Case):
    def warned(self, model):
        """Trains two steps with a loss that breaks; returns the warnings."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with plumb_trace.attach(model, self.out, every=1, overwrite=True) as trace:
                self.train(model, 1, trace)
                trace.step(float("nan"))
        return " ".join(str(w.message) for w in caught if issubclass(w.category, RuntimeWarning))

    def test_a_model_that_may_wait_for_others_is_run_by_the_loop_only(self):
        model = Counting()
        with several():
            said = self.warned(model)
        self.assertEqual(model.passes, 1)
        self.assertRegex(said, "structure: .*without DistributedDataParallel")
        self.assertEqual(facts_of(self.rows()), {"non_finite": "unknown"})
        self.assertEqual(steps_of(self.rows())[0]["tokens"], 0)
        self.assertGreater(steps_of(self.rows())[0]["grad_norm"], 0)

    def test_a_model_that_is_spread_over_processes(self):
        class FSDPModule:
            pass

        class Sharded(FSDPModule, Counting):
            pass

        class DTensor(torch.nn.Parameter):
            pass

        tensor_parallel = Counting()
        tensor_parallel.ln_f.weight = DTensor(torch.ones_like(tensor_parallel.ln_f.weight))
        for model in (Sharded(), tensor_parallel):
            said = self.warned(model)
            self.assertEqual(model.passes, 1)
            self.assertRegex(said, "structure: .*spread over processes")
            self.assertNotIn("grad_norm", steps_of(self.rows())[0])
            with self.assertRaisesRegex(plumb_trace.TraceError, "spread"):
                plumb_trace.preflight(model, batches(1)[0])


class Device(types.SimpleNamespace):
    """A namespace such as torch.xpu with one generator, whose state is `drawn` numbers."""
    drawn = 7

    def __getattr__(self, name):
        if name.startswith("is_"):
            return lambda: True
        if name.startswith("get_rng_state"):
            return lambda: self.drawn
        if name.startswith("set_rng_state"):
            return lambda state: setattr(self, "drawn", state)
        raise AttributeError(name)


class RandomState(Case):
    def test_of_every_accelerator(self):
        devices = {name: Device() for name in ("cuda", "xpu", "mps")}
        with mock.patch.multiple(torch, create=True, **devices), mock.patch.object(torch.backends, "mps", Device(), create=True):
            with isolated(Gpt()) as rewind:
                for device in devices.values():
                    device.drawn = 8
                rewind()
                self.assertEqual([device.drawn for device in devices.values()], [7, 7, 7])
                for device in devices.values():
                    device.drawn = 9
        self.assertEqual({name: device.drawn for name, device in devices.items()}, {"cuda": 7, "xpu": 7, "mps": 7})


class Numbers(Case):
    def test_large_gradients_have_a_finite_norm(self):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            norm = norm_of([torch.full((4,), 1e25, dtype=dtype), torch.ones(3, dtype=dtype)])
            self.assertAlmostEqual(float(norm), 2e25, delta=1e23)
        self.assertTrue(torch.isinf(norm_of([torch.tensor([1.0, float("inf")])])))

    def test_divergence_between_positions_of_one_sample(self):
        """However the one sample's ids are laid out: (1, time), (time, 1), (time)."""
        class TimeFirst(torch.nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def forward(self, idx):
                return self.inner(idx.reshape(1, -1))[0].reshape(*idx.shape, -1)

        torch.manual_seed(4)
        model = Gpt().eval()
        x, _ = batches(1, samples=1)[0]
        found = []
        for ids, batch_first in ((x, None), (x.t(), False), (x[0], None)):
            with plumb_trace.attach(TimeFirst(model), self.out, overwrite=True, batch_first=batch_first) as trace:
                loss = trace.root(ids).logsumexp(-1).mean()
                loss.backward()
                trace.step(loss)
            found.append((steps_of(self.rows())[0].get("adjacent_kl"), facts_of(self.rows())["causal"]))
        self.assertGreater(found[0][0], 0)
        self.assertEqual(found, [found[0]] * 3)


if __name__ == "__main__":
    unittest.main()
