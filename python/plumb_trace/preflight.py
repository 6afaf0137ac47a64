"""Checks of a model before it is trained, each of which has caught a real fault: `print(preflight(model, batch))`."""
import dataclasses
import math

import torch
import torch.nn.functional as F

from . import causal as causality, facts
from .errors import TraceError
from .isolate import as_call, beside, token_ids, uncompiled, unwrap, with_ids
from .structure import Mapping, inspect_batch

LOSS_ABOVE, LOSS_BELOW = 0.6, 0.3  # nats around ln V: logits of standard deviation 1 cost about 0.5


@dataclasses.dataclass
class Check:
    """One check. `ok` is None where it could not be made; then `value` says why."""
    name: str
    value: str
    expected: str
    ok: bool = None


class Report:
    """`checks`, `ok` (no check failed), `facts`; prints as a table."""

    def __init__(self, checks, found):
        self.checks, self.facts = checks, found

    @property
    def ok(self):
        return all(check.ok is not False for check in self.checks)

    def __str__(self):
        words = {True: "ok", False: "FAILED", None: "not checked"}
        rows = [("check", "found", "expected", ""), *((c.name, c.value, c.expected, words[c.ok]) for c in self.checks)]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        return "\n".join("  ".join([*(cell.ljust(w) for cell, w in zip(row, widths)), row[3]]).rstrip() for row in rows)

    __repr__ = __str__


def preflight(model, batch, optimizer=None, *, blocks=None, embedding=None, head=None, tied=None, batch_first=None):
    """Checks an untrained model on one batch: shapes, the initial loss against ln V, causality by changing later tokens and by gradient,
    tying, gradients of every parameter, and which parameters the optimiser decays.

    batch: what model(...) takes: token ids, a tuple such as (ids, targets), or a dict of keywords. The other arguments are those of
    `attach`. Returns a Report; random state, buffers and gradients stay as they are. Raises TraceError when the batch cannot be run.
    """
    root = unwrap(model)
    if not isinstance(root, torch.nn.Module):
        raise TraceError(f"preflight takes a torch.nn.Module, not {type(model).__name__}; give it the model itself")
    args, kwargs = as_call(batch)
    groups = groups_of(optimizer)
    with beside(root, or_itself=True) as subject:
        try:
            s, *small = inspect_batch(subject, args, kwargs, Mapping(blocks, embedding, head, tied, batch_first))
            reach = gradients(s, subject, args, kwargs)  # before other passes: they may change what the traced one kept
            found = facts.facts_of(s, subject)
            changed, gradient = causality.causality(s, subject, *small)
            output = whole(subject, args, kwargs)
        except TraceError:
            raise
        except Exception as error:
            return Report([Check("forward pass", first_line(error) + about_ids(root, args, kwargs), "runs on the batch", False)], {})
        found["causal"] = causality.verdict(changed, gradient)
        checks = [shapes(s, found), initial_loss(s, output, args, kwargs),
                  causal("causal, by changing later tokens", changed), causal("causal, by gradient", gradient),
                  tying(found), reach, decay(root, groups)]
        s.drop_graph()
    return Report(checks, found)


def first_line(error):
    """An exception in one line."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def groups_of(optimizer):
    """The parameter groups of an optimiser, or of several in a list; None without one."""
    if optimizer is None:
        return None
    several = optimizer if isinstance(optimizer, (list, tuple)) else [optimizer]
    for one in several:
        if not hasattr(one, "param_groups"):
            raise TraceError(f"optimizer= is an optimizer or a list of them, not {type(one).__name__}; give what trains the model")
    return [group for one in several for group in one.param_groups]


def whole(subject, args, kwargs):
    """What the model makes of the whole batch."""
    args, kwargs = subject.fresh(args, kwargs)
    subject.rewind()
    with torch.no_grad(), uncompiled():
        return subject.root(*args, **kwargs)


def about_ids(root, args, kwargs):
    """What else to say of a pass that broke: token ids that no table of the model's has a row for, or of an unusual type."""
    ids = token_ids(args, kwargs)
    rows = max((m.num_embeddings for m in root.modules() if isinstance(m, torch.nn.Embedding)), default=None)
    if ids is None or ids.numel() == 0:
        return "; the batch has no token" if ids is not None else ""
    low, high = int(ids.min()), int(ids.max())
    if rows is not None and (low < 0 or high >= rows):
        return f"; the batch has token id {low if low < 0 else high}, and the largest embedding has rows 0 to {rows - 1}"
    return f"; token ids are {ids.dtype}, which usually are int64" if ids.dtype != torch.int64 else f"; the batch is {tuple(ids.shape)}"


def shapes(s, found):
    ids, graph = tuple(s.ids.shape), s.graph
    check = Check("shapes", "no logits were found", f"logits ({', '.join(map(str, ids))}, {s.vocab_size})")
    if s.logits is None or s.vocab_size is None:
        return check
    logits = tuple(graph.tensors[s.logits].shape)
    check.value = f"logits {logits}"
    check.ok = logits[-1] == s.vocab_size and math.prod(logits[:-1]) == math.prod(ids)
    streams = {tuple(graph.tensors[v].shape) for call in s.block_calls for v in call.outputs[:1] if graph.tensors[v].is_floating_point()}
    if check.ok and len(streams) > 1:
        check.value, check.ok = f"blocks give {sorted(streams)}", False
        check.expected = "every block gives the shape that it takes"
    return check


def targets_of(ids, args, kwargs):
    """Labels of the ids' shape among the arguments."""
    for t in (kwargs.get("labels"), kwargs.get("targets"), *args, *kwargs.values()):
        if isinstance(t, torch.Tensor) and t is not ids and t.dtype in (torch.int32, torch.int64) and t.shape == ids.shape and not is_mask(t):
            return t
    return None


def is_mask(t):
    return bool(((t == 0) | (t == 1)).all()) or bool((t.reshape(-1, t.shape[-1])[0] == torch.arange(t.shape[-1], device=t.device)).all())


def initial_loss(s, output, args, kwargs):
    if s.vocab_size is None:
        return Check("initial loss", "no vocabulary was found", "about ln V")
    want = math.log(s.vocab_size)
    check = Check("initial loss", "no loss and no logits were found",
                  f"ln {s.vocab_size} = {want:.3f}, at most {LOSS_ABOVE} above or {LOSS_BELOW} below")
    own = s.loss_of(output)
    if own is not None:
        loss = float(own)
    else:
        ids, logits = token_ids(args, kwargs), s.logits_of(output)
        if logits is None or logits.numel() != ids.numel() * s.vocab_size:
            return check
        targets = targets_of(ids, args, kwargs)
        time = s.time_axis if ids.dim() == 2 else 0
        logits = logits.float().reshape(*ids.shape, s.vocab_size)
        if targets is None and ids.shape[time] < 2:
            check.value = "no targets were given, and a single position has no next token"
            return check
        if targets is None:
            logits, targets = logits.narrow(time, 0, ids.shape[time] - 1), ids.narrow(time, 1, ids.shape[time] - 1)
        loss = float(F.cross_entropy(logits.reshape(-1, s.vocab_size), targets.reshape(-1).long()))
    check.value = f"{loss:.3f}"
    check.ok = -LOSS_BELOW <= loss - want <= LOSS_ABOVE
    return check


def causal(name, answer):
    return Check(name, {True: "no position sees a later token", False: "a position sees later tokens"}.get(answer, facts.UNKNOWN),
                 "no position sees a later token", answer if isinstance(answer, bool) else None)


def tying(found):
    declared, tied = found["tied_declared"], found["tied"]
    check = Check("tying", {True: "embedding and head are one tensor", False: "two tensors"}.get(tied, facts.UNKNOWN),
                  {True: "one tensor, as declared", False: "two tensors, as declared"}.get(declared, "one tensor, or two of their own values"))
    if isinstance(tied, bool):
        check.ok = tied == declared if isinstance(declared, bool) else not found.get("tied_equal", False)
        if found.get("tied_equal"):
            check.value = "two tensors of equal values, which training will part"
    return check


PASSES = 4  # with other tokens, to find experts that these did not reach


def gradients(s, subject, args, kwargs):
    """Every trainable parameter reaches the logits with finite numbers. Experts, or blocks that are dropped at random, may be left out by one
    pass; what a few passes do not reach and has a sibling that they do is not taken for a fault."""
    check = Check("gradients", "no logits were found", "every trainable parameter has a finite one")
    named = [(name, p) for name, p in subject.root.named_parameters() if p.requires_grad]
    if s.logits is None or not s.graph.tensors[s.logits].requires_grad:
        return check
    try:
        found = reached(s.graph.tensors[s.logits], named)
        for _ in range(PASSES):
            missing = [name for name, _ in named if found[name] is None]
            if not missing or not all(has_sibling(name, found) for name in missing):
                break
            for name, g in reached(logits_of_others(s, subject, args, kwargs), named).items():
                found[name] = g if found[name] is None else found[name]
    except Exception as error:
        check.value = first_line(error)
        return check
    missing = [name for name, g in found.items() if g is None]
    bad = [name for name, g in found.items() if g is not None and not bool(torch.isfinite(g).all())]
    spared = bool(missing) and all(has_sibling(name, found) for name in missing)
    check.ok = False if bad or missing and not spared else None if missing else True
    check.value = (f"not finite: {', '.join(bad[:3])}" if bad else f"{PASSES + 1} passes did not use {', '.join(missing[:3])}" if spared
                   else f"none reaches {', '.join(missing[:3])}" if missing else f"{len(named)} parameters have one")
    return check


def reached(logits, named):
    """{name: gradient or None} of a loss of these logits."""
    logits = logits.float()
    targets = torch.zeros(logits.numel() // logits.shape[-1], dtype=torch.int64, device=logits.device)
    loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets)
    return dict(zip((name for name, _ in named), torch.autograd.grad(loss, [p for _, p in named], allow_unused=True, retain_graph=True)))


def logits_of_others(s, subject, args, kwargs):
    """Logits of the batch with token ids drawn anew."""
    args, kwargs = subject.fresh(args, kwargs)
    ids = token_ids(args, kwargs)
    args, kwargs = with_ids(args, kwargs, torch.randint_like(ids, s.vocab_size))
    with torch.enable_grad(), uncompiled():  # the random state moves on from pass to pass
        return s.logits_of(subject.root(*args, **kwargs))


def has_sibling(name, found):
    """Whether a parameter of the same name in a module beside this one, of the same numbered list, has a gradient."""
    parts = name.split(".")
    for at in (i for i, part in enumerate(parts) if part.isdigit()):
        for other, g in found.items():
            theirs = other.split(".")
            if g is not None and len(theirs) == len(parts) and theirs[at].isdigit() and theirs[:at] + theirs[at + 1:] == parts[:at] + parts[at + 1:]:
                return True
    return False


def decay(root, groups):
    """No weight decay on gains, biases and whatever has fewer than two dims; every trainable parameter in one group."""
    check = Check("decay groups", "give optimizer= to check", "decay on parameters of two dims or more only; each in one group")
    if groups is None:
        return check
    names = {id(p): name for name, p in root.named_parameters() if p.requires_grad}
    seen = [id(p) for group in groups for p in group["params"]]
    decayed = [names[id(p)] for group in groups if group.get("weight_decay", 0) for p in group["params"]
               if p.dim() < 2 and id(p) in names]
    absent = [name for i, name in names.items() if i not in seen]
    twice = [name for i, name in names.items() if seen.count(i) > 1]
    check.ok = not (decayed or absent or twice)
    for what, which in (("decayed", decayed), ("in no group", absent), ("in two groups", twice)):
        if which:
            check.value = f"{what}: {', '.join(which[:3])}{' …' if len(which) > 3 else ''}"
            break
    else:
        check.value = f"{len(names)} parameters, none of fewer than two dims is decayed"
    return check
