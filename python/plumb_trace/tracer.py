"""A trace of somebody's training loop: `attach`, then `trace.step(loss, optimizer)` after each backward pass."""
import atexit
import contextlib
import math
import os
import sys
import time
import warnings
import weakref

import torch

from . import causal, facts, measure
from .errors import TraceError
from .finite import first_non_finite
from .graph import KWARG_HOOKS
from .hooks import ALWAYS, Hook, Leash, Watch
from .isolate import as_call, beside, inside, require_alone, spread, token_ids, unwrap, waits_for_nobody
from .structure import Mapping, inspect_batch
from .version import VERSION
from .writer import Writer, require_json

FLUSH_SECONDS = 5.0  # rows of an accelerator wait this long at most
FLUSH_ROWS = 25
TRIES = 3  # forward passes before which the structure is looked for, where looking breaks
attached = weakref.WeakKeyDictionary()  # module -> its open Trace


def rank():
    distributed = torch.distributed
    ready = distributed.is_available() and distributed.is_initialized()
    return (distributed.get_rank(), distributed.get_world_size()) if ready else (0, 1)


def attach(model, out="trace.jsonl", every=25, *, step=0, tokens=0, overwrite=False, config=None, update_ratio=True, batch=None,
           blocks=None, embedding=None, head=None, tied=None, batch_first=None):
    """Begins a trace of `model` in the file `out`. Three lines in a training loop:

        trace = plumb_trace.attach(model, out="trace.jsonl", every=25)
        ...
        loss.backward()
        trace.step(loss, optimizer)   # after backward, before clipping and optimizer.step()

    Every step has loss, lr, grad_norm and tokens; every `every` steps have the probes too (0: never). The first forward pass with
    gradients is preceded by a few passes of a copy of the model over its first two samples, which find the model's parts; they are written
    as facts. Nothing that is computed changes.

    model: any module, also inside DistributedDataParallel (only rank 0 writes) or torch.compile (probed steps run uncompiled).
    step, tokens: updates applied and tokens seen so far; with step > 0 an existing trace is cut there and gone on with. overwrite: replaces an existing
    trace, and closes one of the same file that this process has open.
    config: a dict for the trace's header. update_ratio: keeps a copy of the blocks' matrices during the update of a probed step.
    batch: what model(...) takes, to find the parts with instead of the first batch: a short one where memory is scarce, or any where
    arguments cannot be seen (PyTorch 1.13 with keywords only).
    blocks, embedding, head: paths of named_modules(), where tracing cannot tell; tied: whether the head is meant to share the
    embedding; batch_first=False: ids are (time, batch).

    Returns a Trace. Raises TraceError for a wrong argument; later trouble warns once and leaves that number out.
    """
    root = unwrap(model)
    if not isinstance(root, torch.nn.Module):
        raise TraceError(f"attach takes a torch.nn.Module, not {type(model).__name__}; give it the model that the loop calls")
    for name, value in (("every", every), ("step", step), ("tokens", tokens)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise TraceError(f"{name}={value!r} must be a whole number, 0 or more")
    if overwrite and isinstance(out, (str, os.PathLike)):
        for trace in list(attached.values()):  # a notebook's cell that is run again
            if os.path.realpath(trace.path) == os.path.realpath(out):
                trace.close()
    if root in attached:
        raise TraceError(f"this model already writes {attached[root].path}; call close() on that trace first")
    if config is not None and not isinstance(config, dict):
        raise TraceError(f"config is a dict or None, not {type(config).__name__}")
    for name, path in (("blocks", blocks), ("embedding", embedding), ("head", head)):
        if path is not None and path not in dict(root.named_modules()):
            raise TraceError(f"the model has no module '{path}' ({name}=); take a path from model.named_modules()")
    if rank()[0] != 0:
        return Silent()
    mapping = Mapping(blocks, embedding, head, tied, batch_first)
    given = as_call(batch) if batch is not None else None
    # Last of all, when nothing else can be wrong: it may replace a file.
    writer = Writer(out, f"plumb_trace {VERSION}", config, step, overwrite)
    return Trace(model, root, writer, every, step, tokens, update_ratio, mapping, given)


class Silent:
    """The trace of a process that is not the first: all of it is there, nothing is done."""
    path = None

    def step(self, loss, optimizer=None, **_):
        pass

    def log(self, **_):
        pass

    def fact(self, name, value):
        pass

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Trace(Silent):
    """See `attach`. A context manager: leaving it closes the trace."""

    def __init__(self, model, root, writer, every, step, tokens, update_ratio, mapping, given):
        self.root, self.writer, self.every, self.now, self.mapping, self.given = root, writer, every, step, mapping, given
        self.path, self.watches_update = writer.path, update_ratio
        self.structure = self.capture = self.before = self.stance = self.update_handle = self.watch = self.failure = None
        self.inspected = self.closed = self.told_non_finite = False
        self.tries, self.process = 0, os.getpid()
        self.warned, self.pending, self.flushed = set(), [], time.monotonic()
        self.tokens, self.step_tokens, self.usual_tokens, self.world = tokens, 0, 0, rank()[1]
        self.last_call = None
        self.spread, self.independent = spread(root), waits_for_nobody(model)
        extra = {"with_kwargs": True} if KWARG_HOOKS else {}
        always = {"always_call": True} if ALWAYS else {}
        self.handles = [root.register_forward_pre_hook(Hook(self.entered), **extra), root.register_forward_hook(Hook(self.left), **always)]
        self.counts_outside = model is not root and hasattr(model, "_orig_mod")
        if self.counts_outside:
            self.handles.append(model.register_forward_pre_hook(Hook(self.counted), **extra))
        attached[root] = self
        atexit.register(self.close)
        self.arm()

    # The user's side.

    def step(self, loss, optimizer=None, *, lr=None, grad_scale=1.0):
        """Writes the row of the update that comes next. Call it after backward and before clipping, optimizer.step() and zero_grad().

        loss: the mean loss in nats a token, a tensor or a number; with gradient accumulation the mean over the micro-batches is
        yours to give. optimizer: its first group's `lr` is written; or give `lr`. grad_scale: what the loss was multiplied by
        before backward, such as GradScaler.get_scale(); gradients are divided by it.

        grad_norm is of the gradients as they stand (all micro-batches, averaged over ranks under DDP); probes are of the last
        micro-batch on this rank.
        """
        if self.elsewhere():
            return
        self.require_open()
        if not is_number(loss):
            raise TraceError("trace.step takes the step's loss, one number or a tensor of one element, as its first argument")
        if optimizer is not None and not hasattr(optimizer, "param_groups"):
            raise TraceError(f"trace.step takes the optimizer as its second argument, not {type(optimizer).__name__}")
        if lr is not None and not is_number(lr):
            raise TraceError(f"trace.step takes the learning rate as a number (lr=), not {type(lr).__name__}")
        if not is_number(grad_scale) or not float(grad_scale) > 0:
            raise TraceError(f"trace.step takes what the loss was multiplied by as a number above 0 (grad_scale=), not {grad_scale!r}")
        if self.failure is not None:  # the loop's own forward pass went well, ours did not
            self.trouble("the model's structure", self.failure)
        try:
            self.measure_update()
            self.one_step(loss, optimizer, lr, grad_scale)
        except Exception as error:  # the training goes on, whatever happened here
            self.trouble("step", error)
        self.now += 1
        self.arm()

    def log(self, **numbers):
        """Writes numbers of your own, measured after the updates so far: trace.log(val_loss=3.2)."""
        if self.elsewhere():
            return
        self.require_open()
        for name, value in numbers.items():
            if name in ("row", "step", "layers", "crc"):
                raise TraceError(f"'{name}' is a key of every row; log it under another name")
            if not is_number(value):
                raise TraceError(f"trace.log takes numbers, and {name} is {type(value).__name__}; other things are facts")
        self.flush()
        with self.careful("log"):
            self.writer.step(self.now, {name: float(value) for name, value in numbers.items()})

    def fact(self, name, value):
        """Writes a fact; the last row of a name counts, so this corrects what was found."""
        if self.elsewhere():
            return
        self.require_open()
        if not isinstance(name, str):
            raise TraceError(f"trace.fact takes a name and a value, and the name is {type(name).__name__}; give it as text")
        if isinstance(value, torch.Tensor):
            value = value.item() if value.numel() == 1 else value.tolist()
        require_json(value, f"the fact {name}")
        with self.careful("fact"):
            self.writer.fact(name, value)

    def close(self):
        """Takes every hook off the model and writes what is pending. The model can be attached again."""
        if self.closed or self.elsewhere():
            return
        self.closed = True
        if self.failure is not None:
            self.trouble("the model's structure", self.failure)
        with self.careful("update_ratio"):
            self.measure_update()
        self.flush()
        self.disarm()
        for handle in self.handles:
            handle.remove()
        attached.pop(self.root, None)
        atexit.unregister(self.close)
        self.writer.close()
        self.last_call = self.structure = self.given = None

    def __exit__(self, *_):
        self.close()

    def __reduce__(self):
        return Silent, ()  # a copy of a loop that holds its trace must not write into the file of the original

    # What happens in a step.

    def elsewhere(self):
        """In a child of the process that attached: the file is the parent's, which goes on with it."""
        return os.getpid() != self.process

    def require_open(self):
        if self.closed:
            raise TraceError(f"the trace {self.path} is closed; attach the model again to go on")

    @contextlib.contextmanager
    def careful(self, name):
        try:
            yield
        except Exception as error:
            self.trouble(name, error)

    def trouble(self, name, error):
        if name not in self.warned:
            self.warned.add(name)
            try:
                warnings.warn(f"plumb_trace leaves out {name}: {type(error).__name__}: {error}", RuntimeWarning, stacklevel=2)
            except RuntimeWarning as told:  # a filter makes errors of warnings, and the training goes on all the same
                print(f"warning: {told}", file=sys.stderr)

    def probed(self):
        return self.every > 0 and self.now % self.every == 0

    def arm(self):
        """Before a step: whether its forward pass is watched."""
        self.disarm()
        if self.closed or not self.probed() and self.inspected:
            return
        stance = getattr(getattr(torch, "compiler", None), "set_stance", None)
        if stance:
            with self.careful("compiled models"):
                self.stance = stance("force_eager")

    def disarm(self):
        if self.watch:
            self.watch.remove()
            self.watch = None
        if self.capture:
            self.capture.remove()
            self.capture = None
        if self.stance is not None:
            with self.careful("compiled models"):
                self.stance.__exit__(None, None, None)  # the user's own is back
            self.stance = None

    def counted(self, module, args, kwargs=None):
        """A compiled model's call, seen from outside."""
        if not inside() and torch.is_grad_enabled():
            with self.careful("tokens"):
                self.count(args, kwargs or {})

    def count(self, args, kwargs):
        ids = token_ids(args, kwargs)
        self.step_tokens += ids.numel() if ids is not None else 0
        self.last_call = (args, kwargs)

    def entered(self, module, args, kwargs=None):
        if module is not self.root or inside() or self.closed or not torch.is_grad_enabled() or self.elsewhere():
            return None
        with self.careful("forward"):
            call = (args, kwargs or {})
            if token_ids(*call) is None and self.given is not None:
                call = self.given
            if not self.counts_outside:
                self.count(*call)
            if not self.inspected:
                self.find_structure(*(self.given or call))
            if self.probed() and self.structure is not None:
                if self.capture is None:
                    self.capture = measure.Capture(self.root, self.structure, self.mask_low, self.trouble)
                    self.capture.install()
                self.capture.start()
                if not ALWAYS:
                    return self.leashed(args, kwargs)
        return None

    def leashed(self, args, kwargs):
        """The arguments as they are, in a tuple that ends the watch of this pass when the pass lets it go."""
        leash, capture, of = Leash(args), self.capture, self.capture.passes
        leash.over = lambda: capture.stop() if capture.passes == of else None
        return (leash, kwargs) if KWARG_HOOKS else leash

    def left(self, module, args, output):
        if module is not self.root or inside() or self.closed or self.elsewhere():
            return
        if self.watch is not None:
            with self.careful("hooks"):
                self.end_watch()
        if self.capture is None or not self.capture.on:
            return
        with self.careful("logits"):
            samples = self.samples_of(self.last_call)
            self.capture.finish(output, lambda t: self.structure.by_position(t, samples))

    def end_watch(self):
        """After the first forward pass: what was found without hooks that change the pass is not true of it."""
        watch, self.watch = self.watch, None
        watch.remove()
        if watch.mattered:
            self.trouble("facts", TraceError("a hook of yours changes what the model computes, and cannot be copied with it"))
            for name in self.found:
                self.writer.fact(name, facts.UNKNOWN)

    def samples_of(self, call):
        ids = token_ids(*call)
        return ids.shape[1 - self.structure.time_axis] if ids is not None and ids.dim() == 2 else 1

    def find_structure(self, args, kwargs):
        """Once: the parts of the model, as facts. Runs a copy of it several times on the first samples. Where that breaks, the batch may be one
        that breaks the loop's own pass too, and the next one is tried."""
        self.tries += 1
        self.failure, self.inspected = None, True
        try:
            require_alone(self.root, self.independent)
            with beside(self.root) as subject:
                structure, *small = inspect_batch(subject, args, kwargs, self.mapping)
                self.found = facts.facts_of(structure, subject)
                self.found["causal"] = causal.fact(structure, subject, *small)
                structure.settle(self.root)
        except Exception as error:
            self.failure, self.inspected = error.with_traceback(None), self.tries >= TRIES
            error.__context__ = None  # whose frames hold the copy
            return
        for name, value in self.found.items():
            self.writer.fact(name, value)
        self.mask_low = max(map(mask_low, structure.mask_values), default=-math.inf)
        self.structure = structure
        if structure.why_not:
            self.trouble("the numbers of blocks", TraceError(structure.why_not))
        paths = [path for (path, _), told in zip(structure.blocks, structure.reweighted) if told]
        if paths:
            self.trouble("attn_entropy and attn_max_logit", TraceError(
                f"what the softmax gives in {', '.join(paths)} is changed before values are summed with it, or that sum does not show"))
        if subject.twin.left_out:
            self.watch = Watch(self.root, subject.twin.left_out)

    def one_step(self, loss, optimizer, lr, grad_scale):
        if lr is None and optimizer is not None and optimizer.param_groups:
            lr = optimizer.param_groups[0]["lr"]
        gradients = [p.grad.detach() for p in self.root.parameters() if p.grad is not None]
        norm = measure.norm_of(gradients) if not self.spread else None
        if self.spread:  # the norm of all would wait for processes that do not ask for it
            self.trouble("grad_norm", TraceError("gradients that are spread over processes are not added up"))
        elif norm is None:
            self.trouble("grad_norm", TraceError("no parameter has a gradient; call trace.step after loss.backward() and before "
                                                 "zero_grad()"))
        row = {"loss": loss.detach().clone() if isinstance(loss, torch.Tensor) else float(loss), "lr": lr,
               "grad_norm": norm / grad_scale if norm is not None else None, "tokens": float(self.tokens)}
        layers = {}
        if self.probed() and self.capture is not None:
            with self.careful("probes"):
                self.capture.stop()
                values, layers = self.capture.results()
                row.update(values)
                if grad_scale != 1 and "grad_std" in layers:
                    layers["grad_std"] = [g / grad_scale if g is not None else None for g in layers["grad_std"]]
            with self.careful("weight_rms"), torch.no_grad():
                matrices = [measure.matrices(module) for _, module in self.structure.blocks]
                if any(matrices):
                    layers["weight_rms"] = [measure.weight_rms(m) for m in matrices]
                if self.watches_update:
                    self.before = (self.now, [(m, [p.detach().clone() for p in m]) for m in matrices])
                    self.await_update(optimizer)
        self.usual_tokens = self.step_tokens or self.usual_tokens
        self.tokens += self.usual_tokens * self.world
        self.step_tokens = 0
        # A GradScaler meets infinite gradients as a matter of course: then only the loss can break a run.
        telling = ("loss", "grad_norm") if grad_scale == 1 else ("loss",)
        self.pending.append((self.now, {k: v for k, v in row.items() if v is not None}, layers, telling))
        if not self.waits(row) or layers or len(self.pending) >= FLUSH_ROWS or time.monotonic() - self.flushed > FLUSH_SECONDS:
            self.flush()

    def waits(self, row):
        """Whether writing a row now would wait for a device."""
        return any(isinstance(v, torch.Tensor) and v.device.type != "cpu" for v in row.values())

    def await_update(self, optimizer):
        """Measures the update right after it, where one optimiser makes all of it and has hooks; else at the next step, before the next one."""
        if hasattr(optimizer, "register_step_post_hook"):
            moved = {id(p) for group in optimizer.param_groups for p in group["params"]}
            if all(id(p) in moved for m, _ in self.before[1] for p in m if p.requires_grad):
                self.update_handle = optimizer.register_step_post_hook(Hook(lambda *_: self.measure_update()))

    def measure_update(self):
        if self.before is None:
            return
        (step, kept), self.before = self.before, None
        if self.update_handle is not None:
            self.update_handle.remove()
            self.update_handle = None
        with self.careful("update_ratio"), torch.no_grad():
            ratios = [measure.update_ratio(before, m) for m, before in kept]
            if any(r is not None for r in ratios):
                self.flush()
                self.writer.step(step, {}, {"update_ratio": measure.numbers(ratios)})

    def flush(self):
        """Writes the rows that wait, with one wait for the device."""
        rows, self.pending, self.flushed = self.pending, [], time.monotonic()
        with self.careful("rows"):
            flat = [v for _, values, layers, _ in rows for v in (*values.values(), *(x for xs in layers.values() for x in xs))]
            found = iter(measure.numbers(flat))
            for step, values, layers, telling in rows:
                values = {name: next(found) for name in values}
                layers = {name: [next(found) for _ in xs] for name, xs in layers.items()}
                self.writer.step(step, values, layers)
                if not self.told_non_finite and not all(math.isfinite(values.get(k, 0)) for k in telling):
                    self.told_non_finite = True
                    self.find_non_finite(step)

    def find_non_finite(self, step):
        reason = "unknown"
        if self.last_call is not None:
            with self.careful("the first non-finite output"):
                require_alone(self.root, self.independent)
                with beside(self.root) as subject:
                    reason = first_non_finite(self.root, subject, *self.last_call)
                    if subject.twin.left_out:
                        reason += " (without hooks that cannot be copied)"
        late = self.now - step
        self.writer.fact("non_finite", reason + (f" (looked for {late} steps later)" if late > 0 else ""))


def is_number(value):
    """A real number, or a tensor of one."""
    if isinstance(value, torch.Tensor):
        return value.numel() == 1 and not value.is_complex()
    return not isinstance(value, (str, bytes, complex)) and hasattr(value, "__float__")


def mask_low(value):
    """Scores at this and below are masked pairs."""
    return value / 2 if isinstance(value, float) and math.isfinite(value) and value <= -100 else -math.inf
