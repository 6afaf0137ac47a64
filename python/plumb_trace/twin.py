"""A copy of somebody's model that may be run beside his training: whatever a forward pass changes (parameters under no_grad, buffers,
generators of the model's own, counters, caches, lazy parameters) changes in the copy.

Copied with it: hooks that torch put there (weight norm), that belong to the model, or whose function holds only plain values and tensors.
Others are left out, since running them more often could change what their owner counts; `hooks.Watch` tells whether they mattered.
"""
import collections
import contextlib
import copy
import copyreg
import functools
import os
import threading
import types

import torch

from .errors import TraceError

HOOKS = ("_forward_pre_hooks", "_forward_hooks")  # of all kinds these are copied, as far as they can be
PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size, types.BuiltinFunctionType)
# Whose modules and classes a function may use and still touch nothing of others; and what it may not call.
HARMLESS = {"torch", "builtins", "math", "numpy", "random", "functools", "itertools", "collections", "operator"}
OUTWARD = {"print", "open", "exec", "eval", "input", "globals", "__import__"}


class Foreign(Exception):
    """A function reaches what cannot be copied."""


class Twin:
    """`root` is the copy of `original`. `left_out`: {path: kinds of hooks that the copy lacks}."""

    def __init__(self, original):
        self.original, self.root, self.left_out = original, None, {}
        self.renew()

    def renew(self):
        """A new copy, as the original is."""
        self.root = None
        require_room(self.original)
        memo = {}
        try:
            with copyable():
                for module in self.original.modules():
                    memo.update({id(v): type(v)() for name, v in vars(module).items() if name.endswith("_hooks") and isinstance(v, dict)})
                    detach_into(memo, vars(module))
                self.root = copy.deepcopy(self.original, memo)
        except Exception as error:
            raise TraceError(f"the model cannot be copied, and is not run beside the training itself ({type(error).__name__}: {error})") from None
        self.pairs = {id(mine): theirs for theirs, mine in zip(tensors_of(self.original), tensors_of(self.root))}
        self.left_out = {}
        for (path, theirs), mine in zip(self.original.named_modules(), self.root.modules()):
            self.settle(path, theirs, mine, memo)

    def settle(self, path, theirs, mine, memo):
        """Functions do not copy themselves: those that hold the original's tensors or modules would work on them."""
        for name, value in list(vars(mine).items()):
            if isinstance(value, (types.FunctionType, functools.partial)):
                with contextlib.suppress(Foreign):
                    vars(mine)[name] = carried(value, memo)
        for kind in HOOKS:
            for key, hook in getattr(theirs, kind).items():
                try:
                    getattr(mine, kind)[key] = hook_for(hook, memo)
                except Foreign:
                    self.left_out.setdefault(path, set()).add(kind)

    def theirs(self, tensor):
        """The original's parameter or buffer of which `tensor` is the copy; else `tensor`."""
        found = self.pairs.get(id(tensor), tensor)
        return tensor if torch.nn.parameter.is_lazy(found) else found


def tensors_of(root):
    return (*root.parameters(), *root.buffers())


def hook_for(hook, memo):
    """The copy of a hook. Raises Foreign where it may reach what is not the model's."""
    if type(hook).__module__.partition(".")[0] in ("torch", "plumb_trace"):  # such as weight norm's; ours copy themselves into nothing
        return copy.deepcopy(hook, memo)
    return portable(hook, memo, 0)


def carried(function, memo, depth=0):
    """A function of the same code, whose closure, defaults and globals are copies. Raises Foreign where they are more than plain."""
    if isinstance(function, functools.partial):
        keywords = {k: portable(v, memo, depth) for k, v in function.keywords.items()}
        return functools.partial(portable(function.func, memo, depth), *(portable(a, memo, depth) for a in function.args), **keywords)
    if function.__module__ and function.__module__.partition(".")[0] == "torch":
        return function
    if depth > 8:
        raise Foreign
    if ("carried", id(function)) in memo:
        return memo["carried", id(function)]
    names = set(names_in(function.__code__))
    if names & OUTWARD:
        raise Foreign
    cells = tuple(types.CellType() for _ in function.__closure__ or ())
    made = types.FunctionType(function.__code__, dict(function.__globals__), function.__name__, None, cells or None)
    memo["carried", id(function)] = made  # before its cells: a function may hold itself
    try:
        for cell, theirs in zip(cells, function.__closure__ or ()):
            with contextlib.suppress(ValueError):  # an empty cell
                cell.cell_contents = portable(theirs.cell_contents, memo, depth)
        made.__globals__.update({n: portable(function.__globals__[n], memo, depth) for n in names if n in function.__globals__})
        made.__defaults__ = portable(function.__defaults__, memo, depth)
        made.__kwdefaults__ = portable(function.__kwdefaults__, memo, depth)
    except Foreign:
        del memo["carried", id(function)]
        raise
    return made


def names_in(code):
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_in(constant)


def portable(value, memo, depth):
    """A copy of a plain value, of containers of such, of a tensor, a generator or a module of the model."""
    if isinstance(value, (types.ModuleType, type)):
        if (value.__name__ if isinstance(value, types.ModuleType) else value.__module__).partition(".")[0] not in HARMLESS:
            raise Foreign
        return value
    if isinstance(value, PLAIN):
        return value
    if id(value) in memo:
        return memo[id(value)]
    if isinstance(value, (types.FunctionType, functools.partial)):
        return carried(value, memo, depth + 1)
    if isinstance(value, types.MethodType) and id(value.__self__) in memo:
        return types.MethodType(value.__func__, memo[id(value.__self__)])
    if depth < 8 and type(value) in (dict, collections.OrderedDict, collections.defaultdict) and len(value) < 10000:
        memo[id(value)] = made = copy.copy(value)
        made.update({key: portable(part, memo, depth + 1) for key, part in value.items()})
        return made
    if depth < 8 and type(value) in (list, tuple, set, collections.deque) and len(value) < 10000:
        return memo.setdefault(id(value), type(value)(portable(part, memo, depth + 1) for part in value))
    if isinstance(value, (torch.Tensor, torch.Generator)):
        return copied(value, memo)
    raise Foreign


def copied(value, memo=None):
    """A deep copy, also of tensors in the middle of a graph, which PyTorch refuses to copy."""
    memo = {} if memo is None else memo
    with copyable():
        detach_into(memo, value)
        return copy.deepcopy(value, memo)


def detach_into(memo, value, depth=0, seen=None):
    """Enters into `memo` copies of the computed tensors and the views in `value`: containers and plain objects, some levels deep."""
    seen = set() if seen is None else seen
    if id(value) in seen or len(seen) > 100000 or depth > 8 or isinstance(value, (*PLAIN, types.ModuleType, type, torch.nn.Module)):
        return
    seen.add(id(value))
    if isinstance(value, torch.nn.Parameter):
        return
    if isinstance(value, torch.Tensor):
        if (not value.is_leaf or value._base is not None) and id(value) not in memo:
            memo[id(value)] = value.detach().clone().requires_grad_(value.requires_grad)
        return
    if isinstance(value, dict):
        inner = list(value.values())
    elif isinstance(value, (list, tuple, set, collections.deque)):
        inner = list(value)
    else:
        inner = list(vars(value).values()) if hasattr(value, "__dict__") and not callable(value) else []
    for part in inner:
        detach_into(memo, part, depth + 1, seen)


def new_generator(device, state):
    generator = torch.Generator(device)
    generator.set_state(state)
    return generator


@contextlib.contextmanager
def copyable():
    """Generators of PyTorch's and locks can be copied in here."""
    more = {torch.Generator: lambda g: (new_generator, (g.device, g.get_state())),
            type(threading.Lock()): lambda _: (threading.Lock, ()), type(threading.RLock()): lambda _: (threading.RLock, ())}
    more = {kind: how for kind, how in more.items() if kind not in copyreg.dispatch_table}
    copyreg.dispatch_table.update(more)
    try:
        yield
    finally:
        for kind in more:
            copyreg.dispatch_table.pop(kind, None)


def require_room(root):
    """Raises where a copy would take memory that is not there: an allocation too many can end the training, or its process."""
    needed = collections.Counter()
    for t in tensors_of(root):
        if not torch.nn.parameter.is_lazy(t):
            needed[t.device] += t.numel() * t.element_size()
    for device, size in needed.items():
        free = room_on(device)
        if free is not None and size > 0.9 * free:
            raise TraceError(f"looking at the model takes a copy of it ({size / 1e9:.1f} GB on {device}), and {free / 1e9:.1f} GB are free")


def room_on(device):
    """Bytes that are free, or None where nothing tells."""
    try:
        if device.type == "cuda":
            return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        if device.type != "cpu":
            return None
        with open("/proc/meminfo", encoding="ascii") as file:
            free = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))
        group = "/sys/fs/cgroup/memory."
        if os.path.exists(group + "max"):
            with open(group + "max", encoding="ascii") as most, open(group + "current", encoding="ascii") as used:
                limit = most.read().strip()
                free = min(free, int(limit) - int(used.read())) if limit != "max" else free
        return free
    except (OSError, StopIteration, ValueError, RuntimeError):
        return None
