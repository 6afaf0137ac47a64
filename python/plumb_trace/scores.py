"""Which of a graph's nodes are attention, and how the scores lie."""
import torch

from .attention import FUSED, score_axes, softmax_axis
from .graph import ADD, CARRY, IN_ORDER, PRODUCT, SCALE

SOME = 64  # rows, heads and samples that are enough to tell by
ATTENTION = {FUSED, "multi_head_attention_forward"}
PARTS = {"split", "chunk", "unbind"}


def is_attention(graph, node, n_token):
    """A fused attention, or a softmax over a square of positions."""
    return axes_of(graph, node, n_token) is not None


def axes_of(graph, node, n_token):
    """Which axes, counted from the end, of what a softmax reads are (rows, keys) of an attention; None where it is none. Those of a fused one
    are the last two of its mask."""
    if node.name in ATTENTION:
        return -2, -1
    if node.name != "softmax" or not node.outputs:
        return None
    if (node.index, n_token) not in graph.axes:
        shape = graph.tensors[node.outputs[-1]].shape
        axes = score_axes(shape, softmax_axis(node.args, node.kwargs, len(shape)), n_token)
        if axes and (of_features(graph, node, n_token) or sums_others(graph, node, n_token)):
            axes = None
        graph.axes[node.index, n_token] = axes
    return graph.axes[node.index, n_token]


def of_features(graph, node, n_token):
    """Whether what a softmax reads is the product of a parameter with a tensor that holds no square: features of each position (weights of
    experts, queries of a linear attention), of which there may be as many as positions."""
    made = graph.producer[graph.follow(node.inputs[0], CARRY | SCALE | ADD | PARTS)]
    if made is None or made.name not in PRODUCT:
        return False
    moving = [i for i in made.inputs if not isinstance(graph.tensors[graph.follow(i, CARRY)], torch.nn.Parameter)]
    return len(moving) == 1 < len(made.inputs) and list(graph.tensors[moving[0]].shape).count(n_token) < 2


def sums_others(graph, node, n_token):
    """Whether values are seen to be summed with weights that do not add up to one: the softmax ran along another axis than the keys'."""
    verdicts = []
    for user in graph.nodes[node.index + 1:]:
        for at, i in enumerate(user.inputs[-2:] if user.name in PRODUCT else ()):
            if graph.follow(i, CARRY) in node.outputs:
                verdicts.append(adds_up(graph, user, at, i, n_token))
    verdicts = [v for v in verdicts if v is not None]
    return bool(verdicts) and not any(verdicts)


def adds_up(graph, user, at, value, n_token):
    """Whether the weights that a product reads as its first (at=0) or second factor, and sums over positions with, add up to one everywhere, but
    for dropout; None where that does not show."""
    axis, weights = summed_axis(user, at, graph.tensors[value].dim()), undropped(graph, value)
    if axis is None or weights is None or weights.shape[axis] != n_token:
        return None
    some = tuple(slice(None) if j == axis % weights.dim() else slice(SOME) for j in range(weights.dim()))
    sums = weights.detach()[some].float().sum(axis)
    return bool(((sums - 1).abs() < 0.03).all()) if bool(torch.isfinite(sums).all()) else None


def meets_values(graph, node, n_token):
    """Whether values are summed with what a softmax gives, all of it and as it is, but for dropout and casts. What is made of it otherwise
    (squared, masked, mixed over heads) may not come to any product."""
    made, as_it_is, met = set(node.outputs), set(node.outputs), 0
    for user in graph.nodes[node.index + 1:]:
        hands_on = user.name in CARRY | PARTS
        read = [i for i in (user.inputs[:1] if hands_on else user.inputs) if i in made]
        if not read:
            continue
        if user.name not in PRODUCT | ATTENTION:
            made.update(user.outputs)
            as_it_is.update(user.outputs if hands_on and read[0] in as_it_is else ())
            continue
        for at, i in enumerate(user.inputs[-2:]):
            if i in as_it_is and adds_up(graph, user, at, i, n_token):
                read = [v for v in read if v != i]
                met += graph.tensors[i].numel()
        if read:
            return False
    return met >= graph.tensors[node.outputs[-1]].numel()


def undropped(graph, value):
    """What weights would be without the dropout between them and their softmax; None where that does not show."""
    dropped = graph.follow(value, CARRY - {"dropout"})
    made = graph.producer[dropped]
    seen, out = graph.tensors[value], graph.tensors[dropped]
    if graph.stale(value):
        return None
    if made is None or made.name != "dropout":
        return seen
    given = graph.tensors[made.inputs[0]]
    if graph.stale(made.inputs[0]):
        return None
    if graph.follow(value, IN_ORDER) == dropped:
        return given.reshape(seen.shape)
    if seen.data_ptr() < out.data_ptr() or not seen.stride() or given.stride() != out.stride() or seen.device != out.device:
        return None
    offset = seen.storage_offset() - out.storage_offset()
    if seen.data_ptr() - out.data_ptr() != offset * out.element_size() or seen.dtype != out.dtype or seen.numel() != out.numel():
        return None  # a copy of it
    return given.as_strided(seen.shape, seen.stride(), given.storage_offset() + offset)


def summed_axis(node, at, dims):
    """Which axis a product sums over of its first (at=0) or second factor, from the end; None where that is not clear."""
    if node.name in ("matmul", "mm", "bmm", "baddbmm", "addmm"):
        return -1 if at == 0 else -2 if dims > 1 else None
    text = node.args[0] if node.name == "einsum" and node.args and isinstance(node.args[0], str) else ""
    given, _, out = text.replace(" ", "").partition("->")
    factors = given.split(",")
    if not out or len(factors) != 2:
        return None
    both = [c for c in factors[0] if c in factors[1] and c not in out and c.isalpha()]
    mine = factors[at].split("...")[-1]
    return mine.index(both[0]) - len(mine) if len(both) == 1 and both[0] in mine else None
