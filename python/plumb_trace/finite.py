"""Where a NaN or an infinity was first, found by running the same batch again with a look at each module's output."""
import torch

from .graph import tensors_in
from .isolate import uncompiled


class Found(Exception):
    """Ends the replay."""


def not_finite(t):
    """Which elements are a finding. The infinities of masks are none: squares (of positions), and columns of nothing but -Infinity (logits
    of a vocabulary that is padded)."""
    bad = ~torch.isfinite(t)
    if t.dtype.is_floating_point and t.dim() >= 2 and bool(bad.any()):
        if t.shape[-1] == t.shape[-2]:
            return torch.isnan(t)
        low = t == -float("inf")
        bad &= ~low.reshape(-1, t.shape[-1]).all(0)
    return bad


def first_non_finite(root, subject, args, kwargs):
    """One sentence: the first parameter, module output or gradient that is not finite. `subject` is a copy of `root` that may run."""
    for name, p in root.named_parameters():
        if not bool(torch.isfinite(p.detach()).all()):
            return f"the parameter {name} is not finite"
    handles, names = [], {module: name or "the model" for name, module in subject.root.named_modules()}
    args, kwargs = subject.fresh(args, kwargs)

    def look(module, arguments, output):
        for t in tensors_in(output):
            bad = not_finite(t)
            if bool(bad.any()):
                first = int(bad.reshape(-1).to(torch.uint8).argmax())
                raise Found(f"the first module output that is not finite is {names[module]} ({type(module).__name__}; element {first} "
                            f"is {float(t.reshape(-1)[first])})")

    for module in names:
        handles.append(module.register_forward_hook(look))
    try:
        with torch.no_grad(), uncompiled():
            subject.root(*args, **kwargs)
    except Found as found:
        return str(found)
    finally:
        for handle in handles:
            handle.remove()
    for name, p in root.named_parameters():
        if p.grad is not None and not bool(torch.isfinite(p.grad).all()):
            return f"every module output of a replay is finite; the first gradient that is not is {name}'s"
    return "every module output and every gradient of a replay is finite; the loss function or the sum of gradients overflowed"
