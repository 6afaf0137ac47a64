"""Random generators that a model's forward passes may draw from without holding them: globals of Python modules, attributes of classes, what
functions close over. They are found by what `forward` of the model's parts names, and what is named there in turn."""
import collections
import copy
import functools
import random
import sys
import types

import torch

from .twin import HARMLESS, names_in

LIBRARIES = HARMLESS | {"plumb_trace"} | set(getattr(sys, "stdlib_module_names", ())) - {"__main__"}  # whose code is not read
MOST = 50000  # things looked at: beyond are the depths of somebody's library
DEPTH = 3  # containers and plain objects in one another
UNCALLED = {"__init__", "__new__", "__init_subclass__", "__repr__", "__str__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__",
            "__deepcopy__", "__copy__", "__dir__", "__del__", "__dict__", "__weakref__", "__annotations__"}  # nobody calls them in a pass, by themselves


def kinds():
    """[(type, getter, setter)] of generators."""
    found = [(torch.Generator, torch.Generator.get_state, torch.Generator.set_state), (random.Random, lambda g: g.getstate(), lambda g, s: g.setstate(s))]
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(getattr(numpy, "random", None), "Generator"):
        found += [(numpy.random.RandomState, lambda g: g.get_state(), lambda g, s: g.set_state(s)),
                  (numpy.random.BitGenerator, lambda g: copy.deepcopy(g.state), lambda g, s: setattr(g, "state", s)),
                  (numpy.random.Generator, lambda g: copy.deepcopy(g.bit_generator.state), lambda g, s: setattr(g.bit_generator, "state", s))]
    return found


def kept(root):
    """[function that sets one generator back to the state that it has now]."""
    found, every = [], kinds()
    for generator in reached(root):
        _, get, put = next(k for k in every if isinstance(generator, k[0]))
        try:
            found.append(functools.partial(put, generator, get(generator)))
        except Exception:  # SystemRandom has no state
            pass
    return found


def reached(root):
    """The generators that the code of `root` and of its parts can name."""
    search = Search(tuple(kind for kind, *_ in kinds()))
    for module in root.modules():
        search.add(type(module))
        for name, value in vars(module).items():
            if name not in ("_parameters", "_buffers", "_modules"):
                search.add(value)
    search.run()
    return list(search.found.values())


def of_library(name):
    return not isinstance(name, str) or name.partition(".")[0] in LIBRARIES


class Search:
    """Things to look at, each once. Of a class what some function seen so far names; the rest waits for its name."""

    def __init__(self, generators):
        self.generators, self.found, self.seen, self.todo = generators, {}, {}, collections.deque()
        self.named, self.waiting = {"forward"}, collections.defaultdict(list)

    def name(self, names):
        for name in names - self.named:
            self.named.add(name)
            for part in self.waiting.pop(name, ()):
                self.add(part)

    def add(self, value, depth=0, names=()):
        key = (id(value), id(names) if isinstance(value, types.ModuleType) else None)
        if depth <= DEPTH and key not in self.seen and len(self.seen) < MOST:
            self.seen[key] = (value, names)  # kept: an id would come again
            self.todo.append((value, depth, names))

    def run(self):
        while self.todo:
            try:
                self.look(*self.todo.popleft())
            except Exception:  # somebody's object does what we have not thought of
                pass

    def look(self, value, depth, names):
        kind = type(value)
        if issubclass(kind, self.generators):
            self.found[id(value)] = value
        elif kind is types.FunctionType:
            self.function(value)
        elif issubclass(kind, types.ModuleType):
            if not of_library(value.__name__):
                for name in names & vars(value).keys():
                    self.add(vars(value)[name], 0, names)
        elif issubclass(kind, type):
            for base in value.__mro__:
                if not of_library(base.__module__):
                    for name, part in vars(base).items():
                        if name in self.named or name[:2] == name[-2:] == "__" and name not in UNCALLED:
                            self.add(part)
                        else:
                            self.waiting[name].append(part)
        elif kind in (staticmethod, classmethod, functools._lru_cache_wrapper):
            self.add(value.__func__ if kind is not functools._lru_cache_wrapper else value.__wrapped__)
        elif kind is property:
            self.add(value.fget)
        elif kind is functools.partial:
            self.parts((value.func, *value.args, *value.keywords.values()), depth)
        elif kind in (types.MethodType, types.BuiltinMethodType):  # also draw = generator.random
            self.parts((getattr(value, "__func__", None), value.__self__), depth)
        elif issubclass(kind, (list, tuple, set, dict, collections.deque)):
            self.parts(value.values() if issubclass(kind, dict) else value, depth)
        elif not of_library(kind.__module__) and not issubclass(kind, torch.Tensor):
            self.add(kind)
            self.parts(getattr(value, "__dict__", {}).values(), depth)

    def parts(self, values, depth):
        for part in list(values)[:1000]:
            self.add(part, depth + 1)

    def function(self, value):
        if of_library(value.__globals__.get("__name__")) and not value.__closure__:
            return
        names = frozenset(names_in(value.__code__))
        self.name(names)
        for cell in value.__closure__ or ():
            try:
                self.add(cell.cell_contents)
            except ValueError:  # empty
                pass
        for part in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()):
            self.add(part)
        if not of_library(value.__globals__.get("__name__")):
            for name in names & value.__globals__.keys():
                named = value.__globals__[name]
                self.add(named, 0, names)
                if isinstance(named, type):  # perhaps to make one
                    self.add(named.__init__)
