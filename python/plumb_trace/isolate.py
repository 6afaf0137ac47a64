"""Running somebody's model beside his training without leaving a trace in it: a copy runs, and random state stays as it is."""
import contextlib
import threading
import random
import sys
import warnings

import torch

from . import generators
from .errors import TraceError
from .hooks import Hook
from .twin import Twin, copied


depth = 0  # how many `isolated` are open


def inside():
    """Whether a forward pass is one of ours, which no trace counts or measures."""
    return depth > 0


def spread(root):
    """Whether parameters are spread over processes (by FSDP or as distributed tensors), told by names: importing them takes seconds."""
    return (any(c.__name__ in ("FullyShardedDataParallel", "FSDPModule") for m in root.modules() for c in type(m).__mro__)
            or any(type(p).__name__ == "DTensor" for p in root.parameters()))


def waits_for_nobody(model):
    """Whether `model` is in a DistributedDataParallel: what is in there computes on its own, and only the wrapper talks to others."""
    while hasattr(model, "_orig_mod"):
        model = model._orig_mod
    return isinstance(model, torch.nn.parallel.DistributedDataParallel)


def require_alone(root, independent=True):
    """Raises where a pass of one process, as ours are, could wait for ever for the others to make it too."""
    distributed = torch.distributed
    several = distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
    why = ("a model that is spread over processes" if spread(root)
           else "a model with SyncBatchNorm" if several and any(isinstance(m, torch.nn.SyncBatchNorm) for m in root.modules())
           else "one of several processes' models without DistributedDataParallel" if several and not independent else None)
    if why:
        raise TraceError(f"{why} may not run on one process alone, so its structure stays unread; preflight it in a process of its own")


def device_generators():
    """(getter, setter) of the random state of every accelerator in use. Those that nothing has woken stay asleep."""
    found = []
    for name in ("cuda", "xpu"):
        device = getattr(torch, name, None)
        if device is not None and device.is_available() and device.is_initialized():
            found.append((device.get_rng_state_all, device.set_rng_state_all))
    backend = getattr(torch.backends, "mps", None)
    if backend is not None and backend.is_available() and hasattr(getattr(torch, "mps", None), "get_rng_state"):  # PyTorch 2.0
        found.append((torch.mps.get_rng_state, torch.mps.set_rng_state))
    return found


@contextlib.contextmanager
def isolated(root, code=None):
    """Keeps the random state of Python, NumPy and PyTorch, generators that the code of `code` (else of `root`) names, and the buffers of `root`,
    and sets them back at the end. Yields a function that sets the random state back at once, so that two runs draw the same dropout."""
    global depth
    require_alone(root)
    numpy = sys.modules.get("numpy")
    state = (random.getstate(), numpy and numpy.random.get_state(), torch.get_rng_state())
    others = generators.kept(root if code is None else code)
    devices = [(set_state, get_state()) for get_state, set_state in device_generators()]
    tables = [(m, dict(m._buffers)) for m in root.modules()]  # a forward pass may put another tensor in a buffer's place
    buffers = [(b, b.detach().clone()) for b in root.buffers()]

    def rewind():
        random.setstate(state[0])
        if numpy:
            numpy.random.set_state(state[1])
        torch.set_rng_state(state[2])
        for set_state, kept in devices:
            set_state(kept)
        for set_back in others:
            set_back()

    depth += 1
    try:
        with warnings.catch_warnings(), without_global_hooks(), without_autocast_cache():
            warnings.simplefilter("ignore")  # of the model's: they would be ours, and hide those of the training itself
            yield rewind
    finally:
        depth -= 1
        rewind()
        with torch.no_grad():
            for module, kept in tables:
                module._buffers.clear()
                module._buffers.update(kept)
            for buffer, kept in buffers:
                if not torch.equal(buffer, kept):
                    buffer.copy_(kept)


@contextlib.contextmanager
def without_global_hooks():
    """Hooks on every module are not ours to wake."""
    tables = [t for name, t in vars(torch.nn.modules.module).items() if name.startswith("_global_") and name.endswith("_hooks")
              and isinstance(t, dict)]
    kept = [dict(t) for t in tables]
    for table in tables:
        table.clear()
    try:
        yield
    finally:
        for table, hooks in zip(tables, kept):
            table.clear()
            table.update(hooks)


@contextlib.contextmanager
def without_autocast_cache():
    """Weights that our passes cast are not kept until the loop's autocast ends."""
    enabled = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(enabled)


class Subject:
    """What is looked at: `root` is run as often as it takes, each time `fresh` arguments; `rewind` sets the random state back."""

    def __init__(self, twin, rewind):
        self.twin, self.rewind = twin, rewind

    @property
    def root(self):
        return self.twin.root

    def renew(self):
        """After a run that broke: the model as it was."""
        self.twin.renew()
        self.rewind()

    def fresh(self, args, kwargs):
        """Copies of the arguments: a forward pass may fill a cache that it is given."""
        return copied((args, kwargs))


class Itself:
    """In a twin's place where nothing is being trained and the model cannot be copied."""
    left_out = {}

    def __init__(self, root):
        self.root = root

    def renew(self):
        pass

    def theirs(self, tensor):
        return tensor


@contextlib.contextmanager
def beside(root, or_itself=False):
    """Yields a Subject, a copy of `root`. Raises TraceError where there can be none (unless `or_itself`), or where the copy runs modules of
    `root`'s own."""
    require_alone(root)
    try:
        twin = Twin(root)
    except TraceError:
        if not or_itself:
            raise
        with isolated(root) as rewind:
            yield Subject(Itself(root), rewind)
        return
    paths = {module: path or "the model itself" for path, module in root.named_modules()}

    ours = threading.get_ident()

    def touched(module, *_):
        if threading.get_ident() != ours:  # somebody else's thread uses the model itself
            return
        raise TraceError(f"a copy of the model still calls modules of the original ({paths[module]}), and is not run beside the training")

    with isolated(torch.nn.Identity(), root) as rewind:
        handles = [module.register_forward_pre_hook(Hook(touched)) for module in paths]
        try:
            yield Subject(twin, rewind)
        finally:
            for handle in handles:
                handle.remove()


@contextlib.contextmanager
def uncompiled():
    """Compiled modules run as written in here (from PyTorch 2.6 on; before, nothing is done)."""
    stance = getattr(getattr(torch, "compiler", None), "set_stance", None)
    with stance("force_eager") if stance else contextlib.nullcontext():
        yield


def unwrap(model):
    """The user's own module inside of DistributedDataParallel, DataParallel and torch.compile."""
    while True:
        if isinstance(model, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)):
            model = model.module
        elif hasattr(model, "_orig_mod"):
            model = model._orig_mod
        else:
            return model


def as_call(batch):
    """(args, kwargs) of model(...) for a batch: a dict is keywords, a tuple or list is arguments, a tensor the only one."""
    if isinstance(batch, dict) or hasattr(batch, "keys"):
        return (), dict(batch)
    if isinstance(batch, (tuple, list)):
        return tuple(batch), {}
    if isinstance(batch, torch.Tensor):
        return (batch,), {}
    raise TraceError(f"a batch is a tensor, a tuple of arguments or a dict of keywords, not {type(batch).__name__}; give what "
                     "model(...) takes")


def token_ids(args, kwargs):
    """The first integer tensor of two dims (or one), `input_ids` before all others; None when there is none."""
    named = [kwargs[name] for name in ("input_ids", "idx", "tokens") if name in kwargs]
    whole = [t for t in (*named, *args, *kwargs.values()) if isinstance(t, torch.Tensor) and not t.is_floating_point()
             and t.dtype != torch.bool and 1 <= t.dim() <= 2]
    return next((t for t in whole if t.dim() == 2), whole[0] if whole else None)


def cut(args, kwargs, samples=2, axis=0):
    """The same call for the first samples of the batch, where all tensors agree on how many there are; else the call itself."""
    ids = token_ids(args, kwargs)
    if ids is None or ids.dim() < 2 or ids.shape[axis] <= samples:
        return args, kwargs
    size = ids.shape[axis]
    tensors = [t for t in (*args, *kwargs.values()) if isinstance(t, torch.Tensor) and t.dim() > 0]
    if any(t.dim() <= axis or t.shape[axis] != size for t in tensors):
        return args, kwargs

    def part(value):
        return value.narrow(axis, 0, samples) if isinstance(value, torch.Tensor) and value.dim() > 0 else value

    return tuple(part(a) for a in args), {key: part(value) for key, value in kwargs.items()}


def with_ids(args, kwargs, ids):
    """The call with other token ids."""
    old = token_ids(args, kwargs)

    def put(value):
        return ids if value is old else value

    return tuple(put(a) for a in args), {key: put(value) for key, value in kwargs.items()}
