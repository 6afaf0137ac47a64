"""Random generators that a model's forward passes may draw from without holding them: globals of Python modules, attributes of classes, what
functions close over. They are found by what `forward` of the model's parts names, and what is named there in turn."""
import argparse
import builtins
import collections
import copy
import functools
import gc
import itertools
import random
import sys
import types

import torch

from .twin import HARMLESS, names_in

LIBRARIES = HARMLESS | {"plumb_trace"} | set(getattr(sys, "stdlib_module_names", ())) - {"__main__"}  # whose code is not read
NAMESPACES = (types.SimpleNamespace, argparse.Namespace, collections.ChainMap, collections.UserDict, collections.UserList)  # whose attributes are somebody's all the same
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
                  (numpy.random.Generator, lambda g: copy.deepcopy(g.bit_generator.state), lambda g, s: setattr(g.bit_generator, "state", s)),
                  (numpy.random.SeedSequence, lambda g: copy.deepcopy(g.state), lambda g, s: numpy.random.SeedSequence.__init__(g, **s))]  # counts what it spawns
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
        for name, value in held_by(module):
            if name not in ("_parameters", "_buffers", "_modules"):
                search.add(value)
    search.run()
    return list(search.found.values())


def of_library(name):
    return not isinstance(name, str) or name.partition(".")[0] in LIBRARIES


def held_by(value):
    """(name, value) of an object's attributes, also of those in slots."""
    yield from getattr(value, "__dict__", {}).items()
    for base in type(value).__mro__:
        for name, slot in () if of_library(base.__module__) else vars(base).items():
            if type(slot) is types.MemberDescriptorType:
                try:
                    yield name, slot.__get__(value)
                except AttributeError:  # empty
                    pass


def imported(names, package):
    """The modules that code of a package may import by these names: absolute ones, and relative to the package or those that it is in."""
    parents = [package.rsplit(".", i)[0] for i in range(package.count(".") + 1)] if package else []
    for path in itertools.product(("", *(parent + "." for parent in parents)), names):
        module = sys.modules.get("".join(path).rstrip("."))
        if module is not None:
            yield module


class Search:
    """Things to look at, each once, or again where it is less deep in others than before. Of a class, and of a module that something holds, what
    some function seen so far names; the rest waits for its name."""

    def __init__(self, generators):
        self.generators, self.found, self.seen, self.todo = generators, {}, {}, collections.deque()
        self.named, self.waiting = {"forward"}, collections.defaultdict(list)

    def name(self, names):
        for name in names - self.named:
            self.named.add(name)
            for part in self.waiting.pop(name, ()):
                self.add(part)

    def add(self, value, depth=0, names=()):
        key = (id(value), id(names) if issubclass(type(value), types.ModuleType) else None)
        if key in self.seen:
            if depth >= self.seen[key][0]:
                return
        elif depth > DEPTH or len(self.seen) >= MOST:
            return
        self.seen[key] = (depth, value, names)  # kept: an id would come again
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
            for name in ("bit_generator", "seed_seq", "_seed_seq"):  # NumPy's; the last before 1.25
                self.add(getattr(value, name, None), depth)
        elif kind is types.FunctionType:
            self.function(value)
        elif issubclass(kind, types.ModuleType):
            if of_library(value.__name__):
                return
            self.add(kind)  # perhaps one of lazy attributes
            if not names:  # an attribute, or in a container: who names what is in it is not seen
                self.members(value, special=False)
            for name in {"__getattr__", *names} & vars(value).keys():
                self.add(vars(value)[name], 0, names)
        elif issubclass(kind, type):
            for base in value.__mro__:
                if not of_library(base.__module__):
                    self.members(base, special=True)
        elif kind in (staticmethod, classmethod):
            self.add(value.__func__)
        elif kind is functools._lru_cache_wrapper:
            self.add(value.__wrapped__)
            self.parts(gc.get_referents(value), depth)  # what it keeps: results, or a dict of them
        elif kind is property:
            self.add(value.fget)
        elif kind is functools.cached_property:
            self.add(value.func)
        elif kind in (functools.partial, functools.partialmethod):
            self.parts((value.func, *value.args, *value.keywords.values()), depth)
        elif kind in (types.MethodType, types.BuiltinMethodType):  # also draw = generator.random
            self.parts((getattr(value, "__func__", None), value.__self__), depth)
        elif issubclass(kind, (list, tuple, set, frozenset, dict, types.MappingProxyType, collections.deque)):
            self.parts(value.values() if issubclass(kind, (dict, types.MappingProxyType)) else value, depth)
            self.object(value, kind, depth)  # perhaps a class of its own
        elif not issubclass(kind, torch.Tensor):
            self.object(value, kind, depth)

    def object(self, value, kind, depth):
        if not of_library(kind.__module__) or kind in NAMESPACES:
            self.add(kind)
            self.parts((part for _, part in held_by(value)), depth)

    def members(self, holder, special):
        for name, part in vars(holder).items():
            if name in self.named or special and name[:2] == name[-2:] == "__" and name not in UNCALLED:
                self.add(part)
            else:
                self.waiting[name].append(part)

    def parts(self, values, depth):
        for part in itertools.islice(values, 1000):
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
            self.parts(vars(value).values(), 0)
            for module in imported(names - value.__globals__.keys(), value.__globals__.get("__package__")):
                self.add(module, 0, names)
            scopes = collections.ChainMap(value.__globals__, vars(builtins))
            for named in map(scopes.get, names):
                self.add(named, 0, names)
                if issubclass(type(named), type):  # perhaps to make one
                    self.add(named.__init__)
