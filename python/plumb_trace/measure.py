"""What is measured of a probed step: hooks on blocks and norms, and a torch function mode that sees attention. Values stay tensors where
the model is; nothing waits for the device until they are written.

Definitions are those of plumb's probes: population standard deviations, sums in double, statistics of low-precision tensors in float.
"""
import math

import torch
from torch import overrides
from torch.overrides import TorchFunctionMode

from .attention import FUSED, Stats, fused_arguments, multi_head, scaled_dot_product, score_axes, softmax_axis, sum_dtype
from .graph import KWARG_HOOKS, name_of, tensors_in
from .hooks import ALWAYS, Hook
from .norms import FUNCTIONS

CHUNK = 1 << 22  # logits at a time
SEVERAL = object()  # in the place of a loss's logits: there were losses of more than one tensor, or it could not be told


def std(t):
    """Population standard deviation of all elements."""
    t = t.detach()
    return torch.std(t if t.dtype == torch.float64 else t.float(), unbiased=False)


def adjacent_kl(logits):
    """Mean KL(P_{t+1} || P_t) in nats of logits (samples, positions, classes); None for fewer than two positions."""
    samples, positions, classes = logits.shape
    if positions < 2:
        return None
    total, step = 0, max(1, min(positions - 1, CHUNK // classes))
    some = max(1, CHUNK // (classes * positions))
    for b in range(0, samples, some):
        for t in range(0, positions - 1, step):
            log_p = torch.log_softmax(logits[b:b + some, t:t + step + 1].detach().to(sum_dtype(logits)), -1)
            p, zero = log_p[:, 1:].exp(), torch.zeros((), dtype=log_p.dtype, device=log_p.device)
            total = total + torch.where(p == 0, zero, p * (log_p[:, 1:] - log_p[:, :-1])).sum()
    return total / (samples * (positions - 1))


def norm_of(tensors):
    """L2 norm of all elements of all tensors, a tensor; None without any."""
    tensors = [t.coalesce().values() if t.is_sparse else t for t in tensors]
    if not tensors:
        return None
    by_kind = {}
    for t in tensors:
        by_kind.setdefault((t.device, t.dtype), []).append(t)
    parts = []
    for (device, dtype), group in by_kind.items():
        if dtype != torch.float32:
            norms = [torch.linalg.vector_norm(t, dtype=sum_dtype(t)) for t in group]
        elif device.type == "cpu":
            # Squares of 1e20 overflow, but double takes several times as long, so only those that need it are summed again.
            norms = [n if math.isfinite(n) else torch.linalg.vector_norm(t, dtype=torch.float64)
                     for n, t in zip(torch._foreach_norm(group), group)]
        else:
            try:
                norms = torch._foreach_norm(group, 2, sum_dtype(group[0]))
            except TypeError:  # PyTorch before 2.4
                norms = torch._foreach_norm(group)
        parts.append(torch.linalg.vector_norm(torch.stack([n.to(sum_dtype(n)) for n in norms])))
    first = parts[0]
    return torch.linalg.vector_norm(torch.stack([p.to(first) for p in parts])) if len(parts) > 1 else first


def squares(t):
    return torch.linalg.vector_norm(t, dtype=sum_dtype(t)) ** 2


def matrices(module):
    """A block's weight matrices: parameters of two dims or more, shared ones once."""
    return [p for p in module.parameters() if p.dim() >= 2]


def weight_rms(parameters):
    count = sum(p.numel() for p in parameters)
    return torch.sqrt(sum(squares(p.detach()) for p in parameters) / count) if count else None


def update_ratio(before, parameters):
    """‖after - before‖ / ‖before‖ over all matrices of a block."""
    moved = sum(squares(p.detach().float() - b.float()) for b, p in zip(before, parameters))
    return torch.sqrt(moved / sum(squares(b) for b in before)) if before else None


def without_autocast(device):
    return torch.autocast(device_type=device.type if device.type in ("cuda", "cpu", "xpu") else "cpu", enabled=False)


class Capture(TorchFunctionMode):
    """Hooks of one probed step. `results` after its last forward and backward: {name: number or list}, tensors or None inside.

    `trouble(name, error)` is told of what could not be measured. Each forward begins anew, so with gradient accumulation the last
    micro-batch is what was measured."""

    def __init__(self, root, structure, low, trouble):
        super().__init__()
        self.root, self.structure, self.low, self.trouble = root, structure, low, trouble
        self.handles, self.on = [], False
        self.passes = 0  # forward passes so far
        self.mixed = False  # whether a backward pass may be of several forward passes
        self.reset()

    def reset(self):
        n = len(self.structure.blocks)
        self.act, self.grad, self.norm_in = [None] * n, [None] * n, [None] * n
        self.attention, self.ordinal, self.softmaxes = [Stats() for _ in range(n)], [0] * n, [0] * n
        self.logit_std = self.kl = self.block = self.loss_input = None

    def install(self):
        modules = {}
        for i, (_, module) in enumerate(self.structure.blocks):
            self.handles.append(module.register_forward_pre_hook(self.guard("block", self.enter_block(i))))
            always = {"always_call": True} if ALWAYS else {}
            self.handles.append(module.register_forward_hook(self.guard("act_std", self.leave_block(i)), **always))
        for site in self.structure.norm_sites:
            if isinstance(site, torch.nn.Module):
                modules[id(site)] = site
        for site in modules.values():
            extra = {"with_kwargs": True} if KWARG_HOOKS else {}
            self.handles.append(site.register_forward_pre_hook(self.guard("norm_in_std", self.enter_norm), **extra))

    def remove(self):
        self.stop()
        for handle in self.handles:
            handle.remove()
        self.handles = []

    def start(self):
        """At the beginning of a forward pass."""
        self.stop()
        self.mixed = self.passes > 0 and (self.mixed or all(g is None for g in self.grad))
        self.reset()
        self.passes += 1
        self.on = True
        self.__enter__() if ALWAYS else push_below(self)

    def stop(self):
        if self.on:
            self.on = False
            self.__exit__(None, None, None) if ALWAYS else take_out(self)

    def guard(self, name, function):
        """A hook that never breaks the model, keeps no graph, and computes in full precision under autocast."""
        def hook(*args):
            try:
                function(*args)
            except Exception as error:  # whatever it is: the model goes on
                self.trouble(name, error)
        return Hook(hook)

    def quiet(self, device):
        """Our own sums: no gradients, no autocast. (The mode does not see what its own handlers call; hooks would be seen.)"""
        return torch.no_grad(), without_autocast(device)

    def enter_block(self, i):
        def enter(module, args):
            self.block, self.ordinal[i], self.softmaxes[i] = i, 0, 0
        return enter

    def leave_block(self, i):
        def leave(module, args, output):
            self.block = None
            d = self.structure.d_model
            t = next((t for t in tensors_in(output) if t.is_floating_point() and t.dim() >= 2 and d in (None, t.shape[-1])), None)
            if t is None or not self.on and (self.mixed or not t.requires_grad):
                return  # an evaluation between backward and step; what checkpointing runs again has gradients, of one pass or another
            no_grad, no_cast = self.quiet(t.device)
            with no_grad, no_cast:
                self.act[i] = std(t)
            if t.requires_grad:
                t.register_hook(self.guard("grad_std", self.take_gradient(i, self.passes)))
        return leave

    def take_gradient(self, i, of):
        def take(g):
            if of == self.passes:  # an earlier forward pass's gradient is not what the other numbers are of
                self.grad[i] = std(g)
        return take

    def enter_norm(self, module, args, kwargs=None):
        i = self.block
        if i is None or self.norm_in[i] is not None or self.structure.norm_sites[i] is not module:
            return
        x = next(tensors_in((args, kwargs)))
        no_grad, no_cast = self.quiet(x.device)
        with no_grad, no_cast:
            self.norm_in[i] = std(x)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if self.on:
            name = name_of(func)
            if name in LOOKS:
                try:
                    if name == FUSED:
                        args, kwargs = (), fused_arguments(func.__name__, args, kwargs)
                    LOOKS[name][0](self, name, args, kwargs, result)
                except Exception as error:
                    self.trouble(LOOKS[name][1], error)
        return result

    def see_attention(self, name, args, kwargs, result):
        i = self.block
        if i is None or self.structure.reweighted[i]:
            return
        first = next(tensors_in((args, kwargs)))
        no_grad, no_cast = self.quiet(first.device)
        with no_grad, no_cast:
            if name == FUSED:
                scaled_dot_product(self.attention[i], self.low, **kwargs)
            elif name == "multi_head_attention_forward":
                multi_head(self.attention[i], self.low, args, kwargs)
            else:
                self.see_softmax(i, first.detach(), softmax_axis(args, kwargs, first.dim()))

    def see_softmax(self, i, scores, axis):
        """Rows of scores run along the axis of their softmax, whichever it is."""
        ordinal, self.softmaxes[i] = self.softmaxes[i], self.softmaxes[i] + 1
        known, n_token = self.structure.softmaxes[i], self.structure.n_token
        if known is None:  # the block was dropped in the pass that looked
            axes = score_axes(scores.shape, axis, n_token)
        else:
            axes = known[ordinal] if ordinal < len(known) else None
        if axes is None or scores.dim() < -min(axes) or axis != scores.dim() + axes[1] or not scores.shape[axes[0]] == scores.shape[axes[1]] == n_token:
            return
        scores = scores.movedim(axes[1], -1)
        for part in scores.split(max(1, CHUNK // (scores[0].numel() or 1))):
            self.attention[i].add(part, self.low)

    def see_norm(self, name, args, kwargs, result):
        i = self.block
        if i is None:
            return
        ordinal, self.ordinal[i] = self.ordinal[i], self.ordinal[i] + 1
        if self.structure.norm_sites[i] == ordinal and not isinstance(self.structure.norm_sites[i], torch.nn.Module):
            x = next(tensors_in((args, kwargs)))
            no_grad, no_cast = self.quiet(x.device)
            with no_grad, no_cast:
                self.norm_in[i] = std(x)

    def see_loss(self, name, args, kwargs, result):
        """The logits of a model that returns none, at least when it gets targets. Of several losses any may be an auxiliary one."""
        before, self.loss_input = self.loss_input, SEVERAL
        read = args[0] if args else kwargs["input"]
        if before is None or before is not SEVERAL and (before.data_ptr(), before.shape) == (read.data_ptr(), read.shape):
            self.loss_input = read

    def finish(self, output, by_position):
        """At the end of a forward pass: the logits. `by_position` puts them into (samples, positions, classes)."""
        self.stop()
        logits = self.structure.logits_of(output)
        if logits is None:
            logits = self.loss_input
        self.loss_input = None
        if logits is None or logits is SEVERAL or not logits.is_floating_point():
            return
        no_grad, no_cast = self.quiet(logits.device)
        with no_grad, no_cast:
            self.logit_std = std(logits)
            logits = by_position(logits)
            if logits.dim() == 3:
                self.kl = adjacent_kl(logits)

    def results(self):
        """({name: tensor}, {name: [tensor or None, a block]}); what nothing was seen of is left out."""
        values = {"adjacent_kl": self.kl, "logit_std": self.logit_std}
        entropy = [a.entropy() if a.sum is not None else None for a in self.attention]
        layers = {"act_std": self.act, "attn_entropy": entropy, "grad_std": self.grad,
                  "attn_max_logit": [a.max for a in self.attention], "norm_in_std": self.norm_in}
        return ({name: v for name, v in values.items() if v is not None},
                {name: v for name, v in layers.items() if any(x is not None for x in v)})


def push_below(mode):
    """Enters a mode below all others, so that whoever leaves his own leaves his own, whenever ours goes. For PyTorch before 2.1, where ours
    goes late when a forward pass raises."""
    above = []
    while overrides._len_torch_function_stack():
        above.append(overrides._pop_mode())
    for m in (mode, *reversed(above)):
        overrides._push_mode(m)


def take_out(mode):
    """Leaves a mode wherever it is among others."""
    above = []
    while overrides._len_torch_function_stack():
        top = overrides._pop_mode()
        if top is mode:
            break
        above.append(top)
    for m in reversed(above):
        overrides._push_mode(m)


# What looks at a function's calls, and what is left out where that goes wrong.
LOOKS = {**{name: (Capture.see_attention, "attn_entropy") for name in (FUSED, "multi_head_attention_forward", "softmax")},
         "cross_entropy": (Capture.see_loss, "logits"), **{name: (Capture.see_norm, "norm_in_std") for name in FUNCTIONS}}


def numbers(values):
    """Python floats of tensors of no dims (None: NaN), with one copy from the device where all are on one."""
    tensors = [v for v in values if isinstance(v, torch.Tensor)]
    if len({t.device for t in tensors}) == 1 and tensors[0].device.type not in ("cpu", "mps"):
        found = iter(torch.stack([t.detach().double() for t in tensors]).tolist())
    else:
        found = iter([float(t) for t in tensors])
    return [next(found) if isinstance(v, torch.Tensor) else math.nan if v is None else float(v) for v in values]
