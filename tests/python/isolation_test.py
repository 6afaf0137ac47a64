# run_tests: /usr/bin/python3
"""Whatever state a model keeps, and wherever, training it is the same to the bit with a trace and without."""

import io
import pathlib
import random
import subprocess
import sys
import types
import unittest
import warnings
from unittest import mock

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("python", "tests/support", "tests/python")]

import plumb_trace
from hook_test import Case, batches
from modules import D, T, V, Gpt
from plumb_trace import twin
from trace_rows import facts_of, steps_of

torch.set_num_threads(1)
SEEN = []


class Tally:
    passes = 0


def tally(module, args, output):
    Tally.passes += 1


def small():
    return Gpt(n_layer=2)


class Keeping(Gpt):
    """A model that does something with its logits at every pass."""

    def __init__(self, keep, **state):
        super().__init__(n_layer=2)
        self.keep = keep
        for name, value in state.items():
            setattr(self, name, value)

    def forward(self, idx, targets=None):
        logits = self.keep(self, super().forward(idx)[0])
        return logits, None if targets is None else F.cross_entropy(logits.view(-1, V), targets.reshape(-1))


def counted(model, logits):
    model.passes += 1
    return logits * min(1, 0.1 * model.passes)


def remembered(model, logits):
    before, model.memory = model.memory, logits.detach()
    return logits if before is None else logits + before.mean()


def grown(model, logits):
    model.largest["logit"] = max(model.largest["logit"], logits.detach().abs().max().item())
    return logits / model.largest["logit"]


def shrunk(model, logits):
    with torch.no_grad():
        model.gain.mul_(0.9)
    return logits * model.gain


def lazy():
    model = Gpt(n_layer=2, tied=False)
    model.lm_head = torch.nn.LazyLinear(V, bias=False)
    return model


def shortened():
    model = small()
    with torch.no_grad():
        model.wte.weight.mul_(20)
    model.wte.max_norm = 1.0
    return model


def bound_forward():
    model = small()
    inner = model.h[0].forward
    model.h[0].forward = lambda x: 2 * inner(x)  # holds the original
    return model


def counting_hook():
    model, count = small(), [0]

    def hook(module, args, output):
        count[0] += 1
        return output * (1 + 0.1 * count[0])

    model.h[0].register_forward_hook(hook)
    return model


def uncopyable():
    model = small()
    model.log = io.TextIOWrapper(io.BytesIO())  # nobody can copy an open file
    model.passes = 0
    model.register_forward_pre_hook(lambda m, args: setattr(m, "passes", m.passes + 1))
    return model


def drawn_numpy(model, logits):
    return logits * (1 + 0.1 * float(model.draws.random()))


MODULES_OWN = torch.Generator()
KEPT_APART = {"drop": [random.Random()]}
DRAW = random.Random().random


class Shared:
    """Draws from what all of its kind have."""
    draws = random.Random()

    def __call__(self, model, logits):
        return logits * (1 + self.draws.random())


SHARED = Shared()


def deep(model, logits):
    return deeper(logits)


def deeper(logits):
    return logits * (1 + KEPT_APART["drop"][0].random())


def closed_over():
    draws = random.Random(3)

    def draw(model, logits):
        return logits * (1 + draws.random())

    return draw


class Dropping(Gpt):
    """Leaves a block out when a generator of this file says so (LayerDrop)."""

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        for block in self.h:
            x = block(x) * (torch.rand((), generator=MODULES_OWN) + 0.5)
        logits = self.lm_head(self.ln_f(x))
        return logits, None if targets is None else F.cross_entropy(logits.view(-1, V), targets.reshape(-1))


APART = types.ModuleType("isolation_test_apart")  # as if a file of somebody's had been imported
APART.draws = random.Random()
sys.modules[APART.__name__] = APART


class Importing(Gpt):
    """Imports where it draws."""

    def forward(self, idx, targets=None):
        import isolation_test_apart as apart

        logits = super().forward(idx)[0] * (1 + apart.draws.random())
        return logits, None if targets is None else F.cross_entropy(logits.view(-1, V), targets.reshape(-1))


class Lending(Keeping):
    """Holds a module of Python's, for all of its kind."""
    apart = APART


def seeded(generator, make):
    """Sets a generator of this file as it was, so that two runs begin alike."""
    def made():
        (generator.manual_seed if isinstance(generator, torch.Generator) else generator.seed)(3)
        return make()
    return made


STATES = {
    "a generator of its file": seeded(MODULES_OWN, lambda: Dropping(n_layer=2)),
    "a generator in a list in a dict of its file": seeded(KEPT_APART["drop"][0], lambda: Keeping(deep)),
    "a generator's method": seeded(DRAW.__self__, lambda: Keeping(lambda m, y: y * (1 + DRAW()))),
    "a generator of a class": seeded(Shared.draws, lambda: Keeping(SHARED)),
    "a generator of what forward imports": seeded(APART.draws, lambda: Importing(n_layer=2)),
    "a generator of a module that a class holds": seeded(APART.draws, lambda: Lending(lambda m, y: y * (1 + m.apart.draws.random()))),
    "a generator that a function closes over": lambda: Keeping(closed_over()),
    "a counter": lambda: Keeping(counted, passes=0),
    "a generator of its own": lambda: Keeping(lambda m, y: y + 0.1 * torch.randn(y.shape, generator=m.draws), draws=torch.Generator().manual_seed(3)),
    "a random.Random of its own": lambda: Keeping(lambda m, y: y * m.draws.random(), draws=random.Random(3)),
    "a memory": lambda: Keeping(remembered, memory=None),
    "a number in a dict": lambda: Keeping(grown, largest={"logit": 0.1}),
    "a parameter that it changes": lambda: Keeping(shrunk, gain=torch.nn.Parameter(torch.ones(1))),
    "Embedding(max_norm)": shortened,
    "a lazy layer": lazy,
    "a function that holds the original": bound_forward,
    "a hook that counts": counting_hook,
    "what cannot be copied": uncopyable,
}
try:
    import numpy

    STATES["a generator of NumPy's"] = lambda: Keeping(drawn_numpy, draws=numpy.random.default_rng(3))
    OF_NUMPY = [numpy.random.default_rng(), numpy.random.RandomState()]

    def seed_numpy():
        OF_NUMPY[0].bit_generator.state = numpy.random.PCG64(3).state
        OF_NUMPY[1].seed(3)
        return Keeping(lambda m, y: y * (1 + OF_NUMPY[0].random() + OF_NUMPY[1].random()))

    STATES["generators of NumPy's in its file"] = seed_numpy
except ImportError:
    pass


class State(Case):
    def run_one(self, make, traced, steps=3, **options):
        torch.manual_seed(5)
        model = make()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trace = plumb_trace.attach(model, self.out, every=2, overwrite=True, **options) if traced else None
            losses = self.train(model, steps, trace, optimizer=optimizer)
            if trace:
                trace.close()
        said = [str(w.message) for w in caught if issubclass(w.category, RuntimeWarning)]
        return losses, [t.detach().clone() for t in (*model.parameters(), *model.buffers())], said

    def check_same(self, make):
        plain, traced = self.run_one(make, False), self.run_one(make, True)
        self.assertEqual(plain[0], traced[0])
        for a, b in zip(plain[1], traced[1]):
            self.assertTrue(torch.equal(a, b))
        return traced[2], facts_of(self.rows())

    def test_training_is_the_same_whatever_the_model_keeps(self):
        for name, make in STATES.items():
            with self.subTest(state=name):
                said, found = self.check_same(make)
                if name == "what cannot be copied":
                    self.assertRegex(said[0], "structure: .*cannot be copied")
                    self.assertEqual((len(said), found), (1, {}))
                else:
                    self.assertEqual(said, [])
                    self.assertEqual((found["n_layer"], found["placement"], found["causal"]), (2, "pre", True))

    def test_hooks_of_others_run_as_often_as_without_a_trace(self):
        def hooked():
            SEEN.clear()
            model = small()
            model.register_forward_hook(lambda *_: SEEN.append(1) and None)  # a list of this file
            model.h[1].register_forward_hook(types.MethodType(lambda owner, *_: owner.append(2), SEEN))
            model.h[1].register_forward_pre_hook(lambda module, args: SEEN.append(3))
            model.h[0].register_forward_hook(tally)
            Tally.passes = 0
            return model

        said, found = self.check_same(hooked)
        self.assertEqual(sorted(SEEN), 3 * [1] + 3 * [2] + 3 * [3])
        self.assertEqual(Tally.passes, 3)
        self.assertEqual((said, found["causal"]), ([], True))

    def test_what_a_hook_changes_that_cannot_be_copied_is_unknown(self):
        class Outside:
            def __init__(self):
                self.file = io.TextIOWrapper(io.BytesIO())

            def leak(self, module, args, output):
                return output + output.mean(1, keepdim=True)

        def hooked():
            model = small()
            model.h[0].register_forward_hook(Outside().leak)
            return model

        said, found = self.check_same(hooked)
        self.assertEqual(set(found.values()), {"unknown"})
        self.assertRegex(" ".join(said), "hook of yours changes")

    def test_a_copy_that_calls_the_original_is_stopped(self):
        def held():
            model = small()
            table = {"inner": model.h[0].forward, "more": object()}  # not plain values: the function stays as it is
            model.h[0].forward = lambda x: table["inner"](x)
            return model

        said, found = self.check_same(held)
        self.assertEqual(found, {})
        self.assertRegex(said[0], "calls modules of the original")

    def test_a_model_that_does_not_fit_twice_is_not_copied(self):
        with mock.patch.object(twin, "room_on", lambda device: 1000):
            said, found = self.check_same(small)
        self.assertEqual(found, {})
        self.assertRegex(said[0], "copy of it .* GB are free")

    def test_arguments_that_a_pass_fills(self):
        class Caching(Gpt):
            def forward(self, idx, cache):
                if cache:
                    raise RuntimeError("the cache is full")
                cache.append(self.wte(idx))
                return super().forward(idx)[0]

        torch.manual_seed(5)
        model = Caching(n_layer=2)
        (x, y), = batches(1)
        with plumb_trace.attach(model, self.out) as trace:
            loss = F.cross_entropy(model(x, []).reshape(-1, V), y.reshape(-1))
            loss.backward()
            trace.step(loss)
        self.assertEqual(facts_of(self.rows())["n_layer"], 2)

    def test_one_storage_of_two_parameters_is_tied(self):
        def shared():
            model = Gpt(n_layer=2, tied=False)
            model.lm_head.weight = torch.nn.Parameter(model.wte.weight.data)
            return model

        self.assertIs(self.check_same(shared)[1]["tied"], True)


class Passes(Case):
    def test_a_first_batch_that_breaks_does_not_lose_the_facts(self):
        model = Gpt(n_layer=2)
        with warnings.catch_warnings(), plumb_trace.attach(model, self.out, every=1) as trace:
            warnings.simplefilter("error", RuntimeWarning)
            with self.assertRaises(IndexError):
                model(torch.full((2, T), V + 3))
            self.train(model, 2, trace)
        self.assertEqual(facts_of(self.rows())["n_layer"], 2)
        self.assertIn("act_std", steps_of(self.rows())[0]["layers"])

    def test_no_mode_stays_when_a_pass_raises(self):
        class Mode(TorchFunctionMode):
            calls = 0

            def __torch_function__(self, func, types, args=(), kwargs=None):
                Mode.calls += 1
                return func(*args, **(kwargs or {}))

        model = Gpt(n_layer=2)
        with plumb_trace.attach(model, self.out, every=1) as trace:
            self.train(model, 1, trace)
            for outside in (False, True):
                try:
                    with Mode():
                        if outside:
                            model(torch.full((2, T), V + 3))
                        with self.assertRaises(IndexError):
                            model(torch.full((2, T), V + 3))
                except IndexError:
                    pass
                before = Mode.calls
                torch.zeros(3) + 1
                self.assertEqual(Mode.calls, before)
                self.assertEqual(_get_current_function_mode_stack(), [])
            self.train(model, 1, trace)
        self.assertIn("attn_entropy", steps_of(self.rows())[1]["layers"])

    def test_a_traced_model_can_be_traced_by_jit(self):
        """In a process of its own: what goes wrong here is a crash."""
        script = ("import sys; sys.path[:0] = sys.argv[1:4]\nimport warnings; warnings.simplefilter('ignore')\n"
                  "import torch, plumb_trace\nfrom modules import *\nfrom hook_test import batches\n"
                  "class Plain(Gpt):\n    def forward(self, idx):\n        return super().forward(idx)[0]\n"
                  "model = Plain(n_layer=2).eval(); x = batches(1)[0][0]\n"
                  "trace = plumb_trace.attach(model, sys.argv[4], every=1)\n"
                  "made = torch.jit.trace(model, x)\nassert torch.equal(made(x), model(x))\n"
                  "loss = model(x).logsumexp(-1).mean(); loss.backward(); trace.step(loss)\n"
                  "made = torch.jit.trace(model, x)\nassert torch.equal(made(x), model(x))\nprint('whole')\n")
        run = subprocess.run([sys.executable, "-c", script, *(str(ROOT / f) for f in ("python", "tests/python", "tests/support")), self.out],
                             capture_output=True, text=True, timeout=300)
        self.assertEqual(run.stdout, "whole\n", run.stderr)
        self.assertEqual(facts_of(self.rows())["n_layer"], 2)

    def test_gradients_are_of_the_pass_that_the_other_numbers_are_of(self):
        (x, y), (other, _) = batches(2)
        found = []
        for more in (False, True):
            torch.manual_seed(4)
            model = Gpt(n_layer=2).eval()
            with plumb_trace.attach(model, self.out, overwrite=True) as trace:
                loss = 0 * model(other, y)[1] if more else 0
                loss = loss + model(x, y)[1]
                loss.backward()
                trace.step(loss)
            found.append(steps_of(self.rows())[0]["layers"]["grad_std"])
        for a, b in zip(*found):
            self.assertAlmostEqual(a, b, delta=1e-6 * a)

    def test_the_update_of_several_optimisers(self):
        found = []
        for several in (False, True):
            torch.manual_seed(4)
            model = Gpt(n_layer=2).eval()
            one, two = [p for p in model.parameters() if p.dim() < 2], [p for p in model.parameters() if p.dim() >= 2]
            groups = [one, two] if several else [one + two]
            optimizers = [torch.optim.SGD(g, lr=0.1) for g in groups]
            with plumb_trace.attach(model, self.out, overwrite=True) as trace:
                (x, y), = batches(1)
                loss = model(x, y)[1]
                loss.backward()
                trace.step(loss, optimizers[0])
                for optimizer in optimizers:
                    optimizer.step()
            found.append(steps_of(self.rows())[0]["layers"]["update_ratio"])
        self.assertGreater(found[0][0], 0)
        self.assertEqual(found[0], found[1])


if __name__ == "__main__":
    unittest.main()
