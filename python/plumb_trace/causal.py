"""Whether a position's output depends on later tokens, tested twice: by changing them, and by the gradient at them."""
import torch

from .facts import UNKNOWN
from .isolate import with_ids

SHOWS = 10  # the past must show by so many times what the future may, or a test says nothing


def causality(s, subject, args, kwargs):
    """(by perturbation, by gradient): True where no position's output depends on later tokens, False where one does, else unknown.
    Outputs are the logits, or the last block's where there are none."""
    if s.ids is None or s.n_token < 2 or s.embedded is None or not s.block_calls or s.beside:
        return UNKNOWN, UNKNOWN
    gradient = by_gradient(s)  # first: other passes may change what the traced one kept for it
    return by_change(s, subject, args, kwargs), gradient


def fact(s, subject, args, kwargs):
    return verdict(*causality(s, subject, args, kwargs))


def verdict(changed, gradient):
    """The fact `causal` of both tests: one leak is enough."""
    return False if False in (changed, gradient) else True if True in (changed, gradient) else UNKNOWN


def outputs_of(s, subject, args, kwargs, ids=None):
    """The outputs of one run, by position, for these token ids."""
    kept = []
    args, kwargs = subject.fresh(args, kwargs)
    if ids is not None:
        args, kwargs = with_ids(args, kwargs, ids)
    subject.rewind()
    handle = s.blocks[-1][1].register_forward_hook(lambda module, a, out: kept.append(out)) if s.logits_at is None and s.blocks else None
    try:
        with torch.no_grad():
            output = subject.root(*args, **kwargs)
    finally:
        if handle:
            handle.remove()
    logits = s.logits_of(output)
    if logits is None:
        logits = kept[-1] if isinstance(kept[-1], torch.Tensor) else kept[-1][0]
    return by_position(s, logits).float()


def by_position(s, t):
    return s.by_position(t, s.ids.numel() // s.n_token)


def by_change(s, subject, args, kwargs):
    try:
        base = outputs_of(s, subject, args, kwargs)
        if base.shape[1] != s.n_token or not bool(torch.isfinite(base).all()):
            return UNKNOWN
        if not torch.equal(base, outputs_of(s, subject, args, kwargs)):
            return UNKNOWN  # a pass differs from the one before it: what a change of tokens does cannot be told
        half = any(p.dtype not in (torch.float32, torch.float64) for p in subject.root.parameters()) or autocast_on()
        allowed = (1e-2 if half else 1e-5) * float(base.std())

        def moved(begin, end):
            """How the outputs move when the tokens from begin to end become others."""
            changed = s.ids.clone()
            some = changed.narrow(s.time_axis if s.ids.dim() == 2 else 0, begin, end - begin)
            some.copy_((some + max(1, (1 + s.vocab_size // 2) % s.vocab_size)) % s.vocab_size)
            return (outputs_of(s, subject, args, kwargs, changed) - base).abs()

        leaks = any(float(moved(first, s.n_token)[:, :first].max()) > allowed for first in sorted({1, s.n_token // 2, s.n_token - 1}))
        # Where not even the past shows (a head or projections that start at zero), the future could not either.
        half_way = s.n_token // 2
        shows = not leaks and float(moved(0, half_way)[:, half_way:].max()) > SHOWS * allowed
        if not torch.equal(base, outputs_of(s, subject, args, kwargs)):
            return UNKNOWN  # what other tokens left behind (rows that Embedding(max_norm) shortens) moved it, not a look ahead
        return False if leaks else True if shows else UNKNOWN
    except Exception:
        return UNKNOWN


def autocast_on():
    """Whether autocast is active on the processor or an accelerator."""
    try:
        return torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")
    except TypeError:  # PyTorch before 2.4
        return torch.is_autocast_enabled() or torch.is_autocast_cpu_enabled()


def by_gradient(s):
    """From the traced pass itself: the gradient of early outputs at the embedding of later tokens."""
    graph = s.graph
    embedded = graph.tensors[s.embedded]
    logits = graph.tensors[s.logits] if s.logits is not None else graph.tensors[s.block_calls[-1].outputs[0]]
    if not embedded.requires_grad or not logits.requires_grad:
        return UNKNOWN
    try:
        logits = by_position(s, logits)
        if logits.shape[1] != s.n_token:
            return UNKNOWN
        past = False
        weights = torch.linspace(0.5, 1.5, logits.shape[-1], device=logits.device, dtype=logits.dtype)
        for t in sorted({0, s.n_token // 2 - 1, s.n_token - 2}):
            gradient, = torch.autograd.grad((logits[:, t] * weights).sum(), embedded, retain_graph=True)
            gradient = by_position(s, gradient).float()
            if not bool(torch.isfinite(gradient).all()):
                return UNKNOWN
            allowed = 1e-6 * float(gradient.abs().max())
            if float(gradient[:, t + 1:].abs().max()) > allowed:
                return False
            past |= t > 0 and float(gradient[:, :t].abs().max()) > SHOWS * allowed
        return True if past else UNKNOWN
    except Exception:
        return UNKNOWN
