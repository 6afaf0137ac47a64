# run_tests: /usr/bin/python3
"""Which random generators are found that a model draws from without holding them, wherever they are kept."""

import builtins
import collections
import functools
import pathlib
import random
import sys
import types
import unittest
from unittest import mock

import numpy
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python")]

from plumb_trace import generators


def module_of(name, **parts):
    """A Python module as an import leaves it, without a file."""
    made = types.ModuleType(name)
    made.__package__ = name.rpartition(".")[0]
    vars(made).update(parts)
    return made


def code_in(package, text):
    """A model whose forward is `text`, written in a module of `package`."""
    home = module_of(f"{package}.models", torch=torch)
    exec(f"class Model(torch.nn.Module):\n    def forward(self, x):\n        {text}", vars(home))
    return home.Model()


def model_that(forward, **state):
    """A model whose class has this forward and the attributes `state`."""
    return type("Model", (torch.nn.Module,), {"__module__": __name__, "forward": forward, **state})()


def holding(**state):
    model = model_that(lambda self, x: x)
    vars(model).update(state)
    return model


class Slotted:
    __slots__ = ("draws", "empty")


class Narrow(Slotted):
    __slots__ = ()


class Lookup(types.ModuleType):
    """A Python module that makes its attributes when they are asked for."""

    @property
    def GEN(self):
        return Lazily.made[0]


class Bag(dict):
    pass


class Lazily:
    made = []

    @functools.cached_property
    def draws(self):
        return Lazily.made[0]

    half = functools.partialmethod(lambda self, low, x: x * Lazily.made[0].uniform(low, 1), 0.5)


class Long(list):
    """Counts what is taken of it."""
    taken = 0

    def __iter__(self):
        for part in range(3000):
            Long.taken += 1
            yield part


class Found(unittest.TestCase):
    def setUp(self):
        self.draws = random.Random(1)

    def check(self, model, found=True):
        reached = any(g is self.draws for g in generators.reached(model))
        self.assertEqual(reached, found)

    def test_in_modules_that_are_imported_inside_of_a_function(self):
        noise = module_of("somebody.deep.noise", GEN=self.draws, other=random.Random(2))
        deep = module_of("somebody.deep", noise=noise, KEPT=self.draws)
        there = {"somebody": module_of("somebody", deep=deep), "somebody.deep": deep, "somebody.deep.noise": noise, "noise_alone": noise}
        with mock.patch.dict(sys.modules, there):
            for text in ("import noise_alone; return x * noise_alone.GEN.random()", "import noise_alone as n; return x * n.GEN.random()",
                         "from noise_alone import GEN; return x * GEN.random()", "import somebody.deep.noise; return somebody.deep.noise.GEN",
                         "from somebody.deep import noise; return noise.GEN", "from .noise import GEN; return GEN", "from . import noise; return noise.GEN",
                         "from ..deep.noise import GEN; return GEN", "from ..deep import KEPT; return KEPT", "from . import KEPT; return KEPT"):
                with self.subTest(text):
                    self.check(code_in("somebody.deep", text))
            self.check(code_in("somebody.deep", "import noise_alone; return x * noise_alone.other.random()"), False)
            self.check(code_in("elsewhere", "from .noise import GEN; return GEN"), False)

    def test_in_modules_that_something_holds(self):
        noise = module_of("noise", GEN=self.draws, inner=module_of("noise.inner", GEN=self.draws))
        draw = lambda self, x: x * self.lib.GEN.random()
        self.check(model_that(draw, lib=noise))
        self.check(model_that(lambda self, x: x * self.libs["one"].GEN.random(), libs={"one": noise}))
        self.check(model_that(lambda self, x: x * noise.inner.GEN.random()))  # it closes over it
        self.check(model_that(lambda self, x: x * self.lib.other.random(), lib=noise), False)
        model = model_that(draw)
        model.lib = noise
        self.check(model)

    def test_in_attributes_of_all_sorts(self):
        def drawn(x):
            return x * drawn.draws.random()

        slotted, bag, drawn.draws = Narrow(), Bag(), self.draws
        slotted.draws = bag.draws = self.draws
        for state in (slotted, bag, types.SimpleNamespace(draws=self.draws), drawn):
            with self.subTest(type(state).__name__):
                self.check(holding(state=state))

    def test_of_what_a_class_makes_methods_of(self):
        with mock.patch.object(Lazily, "made", [self.draws]):
            self.check(model_that(lambda self, x: x * self.lazily.draws.random(), lazily=Lazily()))
            self.check(model_that(lambda self, x: self.lazily.half(x), lazily=Lazily()))

    def test_in_containers_of_the_library(self):
        held = {"draws": self.draws}
        for state in (types.MappingProxyType(held), frozenset([self.draws]), collections.ChainMap({}, held), collections.UserDict(held),
                      collections.UserList([self.draws])):
            with self.subTest(type(state).__name__):
                self.check(holding(state=state))

    def test_behind_what_keeps_results(self):
        for keep in (functools.lru_cache, functools.cache, functools.lru_cache(maxsize=2)):
            factor = keep(lambda x: x * self.draws.random())
            self.check(model_that(lambda self, x: factor(x)))
            made = [self.draws]
            kept = keep(made.pop)
            kept()  # from here on nothing else has it
            self.check(model_that(lambda self, x: x * kept().random()))

    def test_in_names_of_all_modules(self):
        with mock.patch.object(builtins, "GEN_OF_ALL", self.draws, create=True):
            self.check(code_in("anywhere", "return x * GEN_OF_ALL.random()"))
            self.check(code_in("anywhere", "return x"), False)

    def test_in_attributes_that_a_module_makes_when_asked(self):
        noise = module_of("lazy_noise", made={"GEN": self.draws})
        exec("def __getattr__(name):\n    return made[name]", vars(noise))
        with mock.patch.dict(sys.modules, {"lazy_noise": noise}):
            for text in ("import lazy_noise; return x * lazy_noise.GEN.random()", "from lazy_noise import GEN; return x * GEN.random()"):
                self.check(code_in("anywhere", text))
        self.check(model_that(lambda self, x: x * self.lib.GEN.random(), lib=noise))
        with mock.patch.object(Lazily, "made", [self.draws]):
            self.check(model_that(lambda self, x: x * self.lib.GEN.random(), lib=Lookup("lookup")))

    def test_as_deep_as_the_shortest_way_to_it(self):
        held = types.SimpleNamespace(draws=self.draws)
        self.check(holding(far=[[[held]]]), False)
        self.check(holding(far=[[[held]]], near=[[held]]))
        self.check(holding(near=[[held]], far=[[[held]]]))
        loop = [self.draws]
        loop.append(loop)
        self.check(holding(loop=loop))

    def test_of_a_long_container_the_beginning(self):
        Long.taken = 0
        self.check(holding(first=Long(), second=collections.deque([self.draws])))
        self.assertLessEqual(Long.taken, 1001)

    def test_one_that_cannot_be_looked_at_hides_no_other(self):
        class Unbound:  # as a proxy of something that is not there yet
            @property
            def __class__(self):
                raise RuntimeError("unbound")

        generator = torch.Generator()
        home = module_of("proxies.models", torch=torch, A=Unbound(), G=generator, Z=Unbound())
        exec("class Model(torch.nn.Module):\n    def forward(self, x):\n        return A, Z, torch.rand((), generator=G)", vars(home))
        self.assertEqual([id(g) for g in generators.reached(home.Model())], [id(generator)])


class SetBack(unittest.TestCase):
    """What NumPy's seeds have given away, directly and through what was made of them."""

    def test_spawned_seeds(self):
        seed, source = numpy.random.SeedSequence([5, 6], spawn_key=(1,)), numpy.random.default_rng(7)
        inner = getattr(source.bit_generator, "seed_seq", None) or source.bit_generator._seed_seq
        inner.spawn(2)

        def forward(self, x):
            return x, seed, source

        set_back = generators.kept(model_that(forward))

        def drawn():
            return [numpy.random.default_rng(s).random() for s in (*seed.spawn(2), *inner.spawn(1))] + [source.random()]

        first = drawn()
        for put in set_back:
            put()
        self.assertEqual(drawn(), first)
        self.assertNotEqual(drawn(), first)


if __name__ == "__main__":
    unittest.main()
