"""Which modules of a traced pass are its blocks, and what each looks like.

Blocks are siblings that take and give the stream and mix positions: by attention, or by what a gradient shows (recurrence, convolution).
Where the sums of the residual stream stand outside of these modules, the blocks are what lies between one branch's source and the next's:
they can be read, but nothing can be measured at their ends. What cannot be told is not counted.
"""
import collections

import torch

from . import norms as norm_probe
from .block import Block, Reader
from .errors import TraceError
from .graph import ADD, CARRY, PRODUCT, SCALE, Call
from .scores import axes_of, is_attention, meets_values

LISTS = (torch.nn.ModuleList, torch.nn.Sequential, torch.nn.ModuleDict)
# Functions that act on each position alone when they act along the features.
ALONE = (CARRY | SCALE | ADD | set(norm_probe.FUNCTIONS) - {"batch_norm", "instance_norm", "group_norm"}
         | {"linear", "gelu", "relu", "silu", "sigmoid", "tanh", "pow", "neg", "square", "exp", "rsqrt", "sqrt", "chunk", "split", "leaky_relu"})


def module_at(root, path, what):
    modules = dict(root.named_modules())
    if path not in modules:
        near = [p for p in modules if p.rpartition(".")[2] == path.rpartition(".")[2]] or [p for p in modules if p.count(".") < 2 and p]
        raise TraceError(f"the model has no module '{path}' ({what}=); it has {', '.join(near[:8])}")
    return modules[path]


def streams(graph, values, d_model):
    """Which values are shaped like the stream: floating tensors whose last axis is the stream's."""
    tensors = graph.tensors
    return [v for v in dict.fromkeys(values) if tensors[v].is_floating_point() and tensors[v].dim() >= 2
            and (d_model is None or tensors[v].shape[-1] == d_model)]


def stream_of(graph, call, d_model):
    """(input, output) values of a block call: floating tensors of one shape whose last axis is the stream's; (None, None)."""
    source = next(iter(streams(graph, call.inputs, d_model)), None)
    if source is None:
        return None, None
    shape = graph.tensors[source].shape
    out = next((v for v in streams(graph, call.outputs, d_model) if graph.tensors[v].shape == shape and v != source), None)
    return (source, out) if out is not None else (None, None)


def groups_of(s):
    """{(parent or pattern of paths, class or None): calls} of modules that take and give the stream and are called once. A pattern, such as
    layers.*.0, joins what stands at one place in several lists."""
    graph = s.graph
    times = collections.Counter(call.path for call in graph.calls)
    groups = collections.defaultdict(list)
    for call in graph.calls:
        if not call.path or times[call.path] != 1 or stream_of(graph, call, s.d_model)[0] is None:
            continue
        parts = call.path.split(".")
        groups[".".join(parts[:-1]), type(call.module)].append(call)
        groups[".".join(parts[:-1]), None].append(call)
        for i, part in enumerate(parts[:-1]):
            if part.isdigit():
                groups[".".join([*parts[:i], "*", *parts[i + 1:]]), type(call.module)].append(call)
    return groups


def find_blocks(s, root):
    """The siblings of one class that hold an attention each; of several such groups the largest, then those in a list, then the
    outermost; with those of their list that mix positions in another way. Without any visible attention, the siblings with most
    parameters that mix positions."""
    graph, groups, modules = s.graph, groups_of(s), dict(root.named_modules())
    attention = [n.index for n in graph.nodes if is_attention(graph, n, s.n_token)]

    def holds_attention(call):
        return any(call.begin <= i < call.end for i in attention)

    if s.mapping.blocks is not None:
        module_at(root, s.mapping.blocks, "blocks")
        chosen = groups.get((s.mapping.blocks, None))
        if not chosen:
            raise TraceError(f"blocks='{s.mapping.blocks}' holds no module that takes and gives the stream; name the list of blocks")
        set_blocks(s, chosen)
    else:
        choose(s, groups, modules, attention, holds_attention)
    if not s.block_calls:
        s.why_not = "no blocks were found; name their list with blocks="
        return
    if s.mapping.blocks is None and mixers_elsewhere(s, modules):
        s.counted = False
    s.beside = any(not any(call.begin <= i < call.end for call in s.block_calls) and weighs(graph, graph.nodes[i]) for i in attention)
    if s.beside and s.mapping.blocks is None:
        s.why_not = (f"there is attention outside of {s.block_calls[0].path} and its like, as in an encoder-decoder, whose facts a decoder's do "
                     "not tell; name the list to measure with blocks=")
        s.block_calls, s.blocks = [], []


def mixers_elsewhere(s, modules):
    """Whether other lists hold modules that mix positions too."""
    def apart(call):
        return all(call.end <= b.begin or call.begin >= b.end for b in s.block_calls)

    ours = {b.path.rpartition(".")[0] for b in s.block_calls}
    return any(isinstance(modules.get(parent), LISTS) and parent not in ours and apart(call) and any(p.dim() >= 2 for p in call.module.parameters())
               and mixes(s, call) for call in s.graph.calls for parent in [call.path.rpartition(".")[0]] if stream_of(s.graph, call, s.d_model)[0] is not None)


def weighs(graph, node):
    """Whether what looks like attention is used as such, and is no softmax of logits that happen to be as many as positions."""
    if node.name != "softmax":
        return True
    return any(n.name in PRODUCT and any(graph.follow(i, CARRY) in node.outputs for i in n.inputs) for n in graph.nodes[node.index:])


def choose(s, groups, modules, attention, holds_attention):
    ranked = []
    for (parent, kind), calls in groups.items():
        in_list = isinstance(modules.get(parent), LISTS)
        if kind is None and not (in_list and all(holds_attention(c) for c in calls)):
            continue
        with_attention = [c for c in calls if holds_attention(c)]
        weight = sum(p.numel() for c in calls for p in c.module.parameters())
        if with_attention:
            ranked.append(((1, len(with_attention), in_list, -parent.count("."), kind is None), with_attention, parent))
        elif not attention and len(calls) > 1 and all(mixes(s, c) for c in calls):
            ranked.append(((0, weight, in_list, -parent.count("."), False), calls, parent))
    if ranked:
        _, calls, parent = max(ranked, key=lambda r: r[0])
        if not isinstance(modules.get(parent), LISTS):
            return set_blocks(s, calls)
        calls = with_others(s, calls, groups[parent, None])
        set_blocks(s, calls)
        called = {call.module for call in s.graph.calls}
        kinds = {type(c.module) for c in calls}
        missing = [m for m in modules[parent].children() if type(m) in kinds and m not in called]
        if missing:  # dropped in this pass, or never called: what is measured is numbered as the list is
            s.counted, ours = False, {*missing, *(c.module for c in calls)}
            s.blocks = [(f"{parent}.{name}".strip("."), m) for name, m in modules[parent].named_children() if m in ours]


def with_others(s, blocks, siblings):
    """The blocks and those of their siblings that mix positions without attention. Plain feed-forward siblings are sub-layers where they stand
    after one block each; elsewhere the blocks cannot be counted."""
    begin = min(c.begin for c in blocks)
    found, kinds = [], []
    for call in sorted(siblings, key=lambda c: c.begin):
        mixing = True if call in blocks else mixes(s, call)
        if call.begin < begin and not mixing or not any(p.dim() >= 2 for p in call.module.parameters()):
            continue
        if mixing is None:
            s.counted = False
            return blocks
        kinds.append(mixing)
        if mixing:
            found.append(call)
    plain = kinds.count(False)
    if plain and kinds != [True, False] * plain:
        # A head behind the blocks is not of the stream's width; what follows the last block may be anything.
        trailing = len(kinds) - 1 - kinds[::-1].index(True)
        if False in kinds[:trailing]:
            s.counted = False
    return found


def mixes(s, call):
    """Whether a position of a module's output depends on others: True, False, or None where that does not show."""
    graph, (source, out) = s.graph, stream_of(s.graph, call, s.d_model)
    alone = all(n.name in ALONE for n in graph.nodes[call.begin:call.end])
    try:
        given, made = graph.tensors[source], s.by_position(graph.tensors[out], s.ids.numel() // s.n_token)
        if made.requires_grad and given.requires_grad and s.n_token > 1 and made.shape[1] == s.n_token:
            weights = torch.linspace(0.5, 1.5, made.shape[-1], device=made.device, dtype=made.dtype)
            shown = False
            for t in (0, s.n_token - 1):
                gradient, = torch.autograd.grad((made[:, t] * weights).sum(), given, retain_graph=True, allow_unused=True)
                if gradient is not None:
                    gradient = s.by_position(gradient, s.ids.numel() // s.n_token).abs().float()
                    shown |= float(gradient.sum() - gradient[:, t].sum()) > 1e-6 * float(gradient.sum())
            if shown:
                return True
    except RuntimeError:  # changed in place since
        pass
    return False if alone else None


def set_blocks(s, calls):
    s.block_calls = sorted(calls, key=lambda c: c.begin)
    s.blocks = [(c.path, c.module) for c in s.block_calls]


def read_blocks(s):
    """Shapes and norm sites of the blocks, once the head is known."""
    known = lift(s)
    for call in s.block_calls:
        source, out = stream_of(s.graph, call, s.d_model)
        shape = Block()
        if known and source is not None and not two_streams(s, call, source):
            shape = Reader(s.graph, s.norms, source, out, call.begin, s.n_token).read()
        s.shapes.append(shape)
        s.norm_sites.append(norm_site(s, call, shape.attn_norm))
        softmaxes = [n for n in s.graph.nodes[call.begin:call.end] if n.name == "softmax"]
        s.softmaxes.append([axes_of(s.graph, n, s.n_token) for n in softmaxes])
        s.reweighted.append(any(axes and not meets_values(s.graph, n, s.n_token) for n, axes in zip(softmaxes, s.softmaxes[-1])))


def two_streams(s, call, source):
    """Whether a block gives more than one tensor of the stream's shape: the sum may be carried beside its branch."""
    shape = s.graph.tensors[source].shape
    made = [v for v in streams(s.graph, call.outputs, s.d_model) if s.graph.tensors[v].shape == shape and v not in call.inputs]
    return len(made) > 1


def bypassed(s, call, source, target):
    """Whether a later value depends on `source`, which a call reads, by a way around the call."""
    outputs = set(call.outputs)
    return source in s.graph.ancestors(target, stop=lambda v: v in outputs or v == source)


def lift(s):
    """Where every block's input, or what a norm of it reads, goes around it into the next's, the modules are branches: blocks are then from
    source to source. False where they are, and the last one's end does not show."""
    final = s.head_input if s.head_input is not None else s.result
    if not s.block_calls or final is None and s.logits is None:
        return True
    read = [stream_of(s.graph, call, s.d_model)[0] for call in s.block_calls]
    for sources in (read, [before_norm(s, v) for v in read]):
        ends = [*sources[1:], s.logits if final is None else final]
        if None not in sources and all(bypassed(s, *span) for span in zip(s.block_calls, sources, ends)):
            break
    else:
        return True
    names = s.block_calls[0].path
    s.why_not = f"the residual sums stand outside of modules ({names} is a branch), so that nothing can be measured at the blocks' ends"
    calls, s.blocks = [], []
    if final is None:
        return False
    last = [v for v in (before_norm(s, final), final) if v is not None]
    for call, source, end in zip(s.block_calls, sources, ends[:-1] + last[:1]):
        made, maker = s.graph.producer[source], s.graph.producer[end]
        span = Call(call.path, call.module, [source], made.index + 1 if made else 0)
        span.outputs, span.end = [end], maker.index + 1 if maker else len(s.graph.nodes)
        calls.append(span)
    s.block_calls = calls
    if len(last) == 2:  # the last norm may be the model's or its last block's: as the other blocks have it
        shapes = [Reader(s.graph, s.norms, c.inputs[0], c.outputs[0], c.begin, s.n_token).read() for c in calls]
        others = {(x.placement, x.residual) for x in shapes[:-1]}
        if (shapes[-1].placement, shapes[-1].residual) not in others:
            calls[-1].outputs, calls[-1].end = [final], s.graph.producer[final].index + 1
    return True


def before_norm(s, value):
    """What the norm reads that made a value; None where no norm did."""
    made = s.graph.producer[value]
    while value not in s.norms and made is not None and made.name in CARRY:
        value = made.inputs[0]
        made = s.graph.producer[value]
    return s.norms[value].input if value in s.norms else None


def norm_site(s, call, norm):
    """How a probed step finds the attention branch's norm: its module's path, or the how-manieth norm function of the block it is."""
    if norm is None:
        return None
    if norm.module is not None:
        return norm.path
    node = s.graph.producer[next(v for v, n in s.norms.items() if n is norm)]
    same = [n for n in s.graph.nodes[call.begin:call.end] if n.name in norm_probe.FUNCTIONS]
    return same.index(node)


