"""Facts about a traced model: what a trace's `fact` rows say. "unknown" where the pass does not show it, never a guess."""
import math

import torch

from .attention import FUSED
from .graph import ADD, CARRY, PRODUCT, SCALE
from .scores import ATTENTION, axes_of, is_attention
from .structure import common, lookups

UNKNOWN = "unknown"
# What configs call the wish that the head share the embedding's matrix.
TIED_NAMES = ("tie_word_embeddings", "tied_embeddings", "tie_embeddings", "tie_weights", "weight_tying", "tied")


def facts_of(s, subject):
    """{name: value} of everything but causality, which needs more passes (`causal`). A reading that breaks is unknown, alone."""
    found = {"n_layer": len(s.block_calls) if s.block_calls and s.counted else UNKNOWN, "d_model": d_model(s), "vocab_size": s.vocab_size or UNKNOWN}
    readings = ((lambda: tying(s, subject), ("tied", "tied_declared")),
                (lambda: block_facts(s), ("norm", "norm_axis", "placement", "residual", "skip_after_norm")),
                (lambda: {"final_norm": final_norm(s)}, ("final_norm",)),
                (lambda: dict(zip(("position", "position_first"), position(s))), ("position", "position_first")),
                (lambda: attention_facts(s), ("attention", "mask_value", "n_head", "n_kv_head")),
                (lambda: {"parts": parts(s)}, ("parts",)))
    for read, names in readings:
        try:
            found.update(read())
        except Exception:  # somebody's model does what we have not thought of
            found.update({name: UNKNOWN for name in names})
    return found


def d_model(s):
    """The embedding's width, where anything else shows that it is the stream's: it may be projected."""
    shown = s.block_calls or s.beside or s.head_input is not None and s.graph.tensors[s.head_input].shape[-1] == s.d_model
    return s.d_model if s.d_model and shown else UNKNOWN


def one_of(values):
    values = list(dict.fromkeys(values))
    return UNKNOWN if not values else values[0] if len(values) == 1 else "mixed"


def declared_tied(s, root):
    if s.mapping.tied is not None:
        return s.mapping.tied
    for name in ("config", "cfg", "args", "hparams"):
        config = getattr(root, name, None)
        for key in TIED_NAMES:
            value = config.get(key) if isinstance(config, dict) else getattr(config, key, None)
            if isinstance(value, bool):
                return value
    return UNKNOWN


def tying(s, subject):
    """tied: one tensor serves as embedding and head. tied_equal: two tensors of equal values, a copy that training parts."""
    declared = declared_tied(s, subject.root)
    a, b = s.embedding, s.head_weight
    if a is None or b is None:
        return {"tied": UNKNOWN, "tied_declared": declared}
    parameters = {id(p) for p in subject.root.parameters()}
    if id(a) not in parameters or id(b) not in parameters:
        return {"tied": a is b or UNKNOWN, "tied_declared": declared}
    one, two = subject.twin.theirs(a), subject.twin.theirs(b)  # (a copy of two parameters of one storage has two storages)
    tied = a is b or (one.data_ptr() == two.data_ptr() and a.shape == b.shape and one.data_ptr() != 0)
    found = {"tied": tied, "tied_declared": declared}
    if not tied:
        found["tied_equal"] = a.shape == b.shape and bool(torch.equal(a, b))
    return found


def block_facts(s):
    if not s.shapes:
        return {name: UNKNOWN for name in ("norm", "norm_axis", "placement", "residual", "skip_after_norm")}
    norms = {id(n): n for shape in s.shapes for n in shape.norms}
    # Norms of the stream that no branch was seen to read belong to it too; those of heads (queries, keys) do not.
    inside = range(s.block_calls[0].begin, s.block_calls[-1].end)
    hints = [n for n in s.hints if n.index in inside]
    known = [s.norms[v] for v in s.norms if s.graph.tensors[v].shape[-1] == s.d_model and s.graph.producer[v].index in inside]
    if not norms:
        norms = {id(n): n for n in known}
    kind = one_of(n.kind for n in norms.values()) if norms else UNKNOWN if hints else "none"
    axis = one_of(n.axis for n in norms.values()) if norms else UNKNOWN if hints else "none"
    placement = one_of(shape.placement for shape in s.shapes)
    if placement in ("none", "mixed") and hints:  # a norm that was written out by hand, or what else needs a root
        placement = kind = axis = UNKNOWN
    return {"norm": kind, "norm_axis": axis, "placement": placement, "residual": one_of(shape.residual for shape in s.shapes),
            "skip_after_norm": one_of(shape.skip_after_norm for shape in s.shapes)}


def final_norm(s):
    """Whether a norm stands between the last block and the head."""
    if not s.block_calls or s.head_input is None:
        return UNKNOWN
    graph, end = s.graph, s.block_calls[-1].end
    last = {v for v in s.block_calls[-1].outputs}
    behind = list(graph.ancestors(s.head_input, stop=lambda v: v in last, begin=end))
    if not last & set(behind):
        return UNKNOWN
    if any(v in s.norms for v in behind if v not in last):
        return True
    names = {graph.producer[v].index for v in behind if graph.producer[v] is not None}
    return UNKNOWN if any(n.index in names and n.index >= end for n in s.hints) else False


def summands(s, value):
    """What a value is the sum of, through copies, scales and norms."""
    graph, todo, seen = s.graph, [value], set()
    while todo:
        v = todo.pop()
        if v in seen:
            continue
        seen.add(v)
        node = graph.producer[v]
        if v in s.norms:
            todo.append(s.norms[v].input)
        elif node is not None and node.name in ADD | SCALE:
            todo += node.inputs
        elif node is not None and node.name in CARRY and not any(node is n for n, *_ in lookups(graph)):
            todo.append(node.inputs[0])
        yield v


def position(s):
    """(kind, index of the first position): learned, sinusoidal, rope or bias."""
    if not s.block_calls or s.embedded is None:
        return UNKNOWN, UNKNOWN
    graph = s.graph
    source = next((v for v in s.block_calls[0].inputs if graph.descends(v, {s.embedded})), None)
    if source is None:
        return UNKNOWN, UNKNOWN
    tables = {node.outputs[-1]: (table, indices) for node, table, indices in lookups(graph)}
    for v in summands(s, source):
        t = graph.tensors[v]
        if v == s.embedded or not t.is_floating_point() or t.dim() < 2 or t.shape[-1] != s.d_model or graph.descends(v, {s.embedded}):
            continue
        if v in tables:
            index = graph.tensors[tables[v][1]]
            row = index.reshape(-1, index.shape[-1])[0] if index.dim() else index
            if s.time_axis == 0 and index.dim() == 2 and index.shape[-1] == 1:
                row = index[:, 0]
            if row.numel() == s.n_token > 1 and bool((row[1:] - row[:-1] == 1).all()):
                table = graph.tensors[graph.follow(tables[v][0], CARRY)]
                return table_kind(table, t), int(row[0])
            continue
        base = graph.tensors[graph.follow(v, CARRY)]
        if s.n_token not in t.shape[:-1]:
            continue
        if isinstance(base, torch.nn.Parameter) and table_kind(base, t) == "learned":
            return "learned", (t.storage_offset() - base.storage_offset()) // base.stride(-2) if shares(t, base) else UNKNOWN
        if isinstance(base, torch.nn.Parameter) or not base.requires_grad:
            return sinusoid(t)
    return rotation(s)


def shares(view, base):
    return view.data_ptr() >= base.data_ptr() and view.data_ptr() < base.data_ptr() + base.numel() * base.element_size()


def table_kind(table, rows):
    """A parameter is learned, unless it is frozen and holds sines and cosines."""
    if isinstance(table, torch.nn.Parameter) and table.requires_grad:
        return "learned"
    kind = sinusoid(rows)[0]
    return "learned" if isinstance(table, torch.nn.Parameter) and kind == UNKNOWN else kind


def sinusoid(t):
    """Rows of sines and cosines: pairs whose squares sum to one. The fastest pair turns by one radian a position."""
    row = t.detach().reshape(-1, t.shape[-1])[0].cpu().double()
    half = row.numel() // 2
    for sine, cosine in ((row[0:2 * half:2], row[1:2 * half:2]), (row[:half], row[half:2 * half])):
        size = sine * sine + cosine * cosine
        if bool((size - size[0]).abs().max() < 1e-4 * size[0]) and float(size[0]) > 0:
            return "sinusoidal", steps_of(math.atan2(float(sine[0]), float(cosine[0])))
    return UNKNOWN, UNKNOWN


def steps_of(angle):
    """A turn as a whole number of radians, 0 to 6; unknown where it is none."""
    turn = (angle + 0.05) % (2 * math.pi) - 0.05
    return round(turn) if abs(turn - round(turn)) < 0.05 else UNKNOWN


def attentions(s):
    """[attention nodes] of each block that has any."""
    return [nodes for nodes in (attention_in(s, c) for c in s.block_calls) if nodes]


def attention_in(s, call):
    return [n for n in s.graph.nodes[call.begin:call.end] if is_attention(s.graph, n, s.n_token)]


def query_key(s, node):
    """The values of queries and keys that an attention read, or (None, None)."""
    if node.name == FUSED:
        return tuple(s.graph.number.get(id(node.kwargs.get(name))) for name in ("query", "key"))
    if node.name == "softmax":
        for v in s.graph.ancestors(node.inputs[0]):
            made = s.graph.producer[v]
            if made is not None and made.name in PRODUCT and len(made.inputs) >= 2:
                return made.inputs[-2], made.inputs[-1]
    return None, None


def projection(graph):
    """Where a way back from the scores ends: what a product made."""
    return lambda v: graph.producer[v] is not None and graph.producer[v].name in PRODUCT


def rotation(s):
    """Rotary positions: queries multiplied by cosines and sines that do not depend on the tokens; else a bias on the scores."""
    graph = s.graph
    for node in next(iter(attentions(s)), []):
        query, _ = query_key(s, node)
        if query is None:
            continue
        waves = []
        for v in graph.ancestors(query, stop=projection(graph)):
            made = graph.producer[v]
            if made is None or made.name not in SCALE:
                continue
            for i in made.inputs:
                t = graph.tensors[i]
                if s.n_token in t.shape[:-1] and not graph.descends(i, {s.embedded}):
                    waves.append(t.detach())
        first = first_angle(waves, s.n_token)
        if first is not None:
            return "rope", first
        if score_bias(s, node):
            return "bias", UNKNOWN
    return UNKNOWN, UNKNOWN


def first_angle(waves, n_token):
    """The first position of rotation tables, in steps of the fastest pair (one radian); None where they are no rotation."""
    def rows(t):
        t = t.movedim(list(t.shape).index(n_token), 0)
        return t.reshape(n_token, -1)[:, :t.shape[-1]]

    for t in waves:
        if t.is_complex() and bool(((t.abs() - 1).abs() < 1e-3).all()):
            return steps_of(float(rows(t).angle()[0, 0]))
    real = [t.cpu().double() for t in waves if not t.is_complex()]
    for a in range(len(real)):
        for b in range(a + 1, len(real)):
            if real[a].shape != real[b].shape:
                continue
            size = real[a] ** 2 + real[b] ** 2
            if float((size - size.mean()).abs().max()) > 1e-2 * float(size.mean()) or float(real[a].std()) == 0:
                continue
            one, two = rows(real[a]), rows(real[b])
            cosine, sine = (one, two) if float(one[0].sum()) > float(two[0].sum()) else (two, one)
            return steps_of(math.atan2(float(sine[0, 0]), float(cosine[0, 0])))
    return None


def added_to_scores(s, node):
    """Values that are added to the scores of an attention and do not depend on the tokens."""
    graph = s.graph
    if node.name in ATTENTION:
        mask = node.kwargs.get("attn_mask")
        return [mask] if isinstance(mask, torch.Tensor) else []
    found = []
    for v in graph.ancestors(node.inputs[0], stop=projection(graph)):
        made = graph.producer[v]
        if made is not None and made.name in ADD:
            found += [graph.tensors[i] for i in made.inputs if not graph.descends(i, {s.embedded})]
    return found


def past_pairs(s, node, t):
    """What a mask or bias holds for pairs of a position with itself and earlier ones; None where it has no square of positions."""
    rows, keys = axes_of(s.graph, node, s.n_token)
    if t.dim() < -min(rows, keys) or not t.shape[rows] == t.shape[keys] == s.n_token:
        return None
    return t.detach().movedim((rows, keys), (-2, -1))[..., torch.ones(s.n_token, s.n_token, dtype=torch.bool, device=t.device).tril()]


def score_bias(s, node):
    """Whether what is added to the scores of pairs that are visible differs among them: where nothing but a mask is added it has two values."""
    for t in added_to_scores(s, node):
        past = past_pairs(s, node, t) if t.is_floating_point() else None
        if past is None:
            continue
        seen = torch.unique(past.float())
        seen = seen[(seen > -100) | (seen == -math.inf)] if seen.numel() > 2 else seen  # masks may add up
        if seen.numel() > 2 or seen.numel() == 2 and bool(torch.isfinite(seen).all()) and -1 < float(seen[0]) and float(seen[0]) != 0:
            return True
    return False


def lowers_visible(s, node, t):
    """Whether what is added lowers visible pairs as much: a bias by distance, not a mask."""
    past = past_pairs(s, node, t) if t.dtype != torch.bool else None
    return past is not None and bool((past <= -100).any())


def mask_value(s, node):
    """What scores of masked pairs become (are lowered by): -Infinity, a number, "none" without a mask, or unknown."""
    for t in added_to_scores(s, node):
        hides = not t.all() if node.name == FUSED else t.any()  # in a mask of truth values
        low = float(t.detach().min()) if t.dtype != torch.bool else -math.inf if bool(hides) else 0.0
        if low <= -100 and not lowers_visible(s, node, t):
            return low
    if node.name in ATTENTION:
        return -math.inf if node.name == FUSED and node.kwargs.get("is_causal") is True else UNKNOWN
    graph = s.graph
    for v in graph.ancestors(node.inputs[0], stop=projection(graph)):
        made = graph.producer[v]
        if made is None:
            continue
        if made.name == "masked_fill":
            value = made.args[2] if len(made.args) > 2 else made.kwargs.get("value")
            return float(value)
        if made.name == "where" and len(made.args) > 2:
            values = [a for a in made.args[1:3] if not isinstance(a, torch.Tensor) or graph.number.get(id(a)) is not None
                      and not graph.descends(graph.number[id(a)], {s.embedded})]
            if len(values) == 1:
                return float(values[0].min()) if isinstance(values[0], torch.Tensor) else float(values[0])
        if made.name in SCALE:
            still = [graph.tensors[i] for i in made.inputs if not graph.descends(i, {s.embedded})]
            if any(past_pairs(s, node, t) is not None and bool((t == 0).any()) for t in still):
                return 0.0
    return UNKNOWN


def attention_facts(s):
    """Of the blocks' first attentions; "mixed" where they are seen to differ."""
    every = [facts_of_one(s, nodes[0]) for nodes in attentions(s)]
    s.mask_values = [found["mask_value"] for found in every]
    return {name: "mixed" if len({found[name] for found in every} - {UNKNOWN}) > 1 else every[0][name] if every else UNKNOWN
            for name in ("attention", "mask_value", "n_head", "n_kv_head")}


def facts_of_one(s, node):
    graph = s.graph
    kind = {"softmax": "softmax", "multi_head_attention_forward": "mha"}.get(node.name, "sdpa")
    found = {"attention": kind, "mask_value": mask_value(s, node), "n_head": UNKNOWN, "n_kv_head": UNKNOWN}
    if kind == "mha":
        found["n_head"] = found["n_kv_head"] = node.args[4] if len(node.args) > 4 else node.kwargs.get("num_heads", UNKNOWN)
        return found
    query, key = query_key(s, node)
    n_head = heads_of(s, node, query)
    if n_head is None:
        return found
    found["n_head"] = n_head
    widths, (q_from, k_from) = zip(projected(s, query), projected(s, key))
    d_head = summed(graph, node, query)
    if None in widths or d_head is None:
        return found
    heads = widths[1] / d_head
    if q_from == k_from and widths[0] == widths[1] and widths[0] > n_head * d_head:
        heads = (heads - n_head) / 2  # one product for queries, keys and values
    elif widths[0] != n_head * d_head:
        return found
    if heads in range(1, n_head + 1):
        found["n_kv_head"] = int(heads)
    return found


def heads_of(s, node, query):
    """How many heads: what is beside the samples and the squares of scores; None where that does not show."""
    graph, samples = s.graph, s.ids.numel() // s.n_token
    if query is None:
        return None
    if node.name == FUSED:
        return graph.tensors[query].shape[-3] if graph.tensors[query].dim() == 4 else None
    shape = list(graph.tensors[node.outputs[-1]].shape)
    for axis in sorted(axes_of(graph, node, s.n_token)):  # counted from the end
        del shape[axis]
    if len(shape) < 2:
        return None
    if shape[0] == samples:
        return math.prod(shape[1:])  # also heads in groups
    return shape[0] if len(shape) == 2 and shape[1] == samples else None


def summed(graph, node, query):
    """How long the axis is that scores are summed over: a head's width."""
    if node.name == FUSED:
        return graph.tensors[query].shape[-1]
    made = next((n for n in reversed(graph.nodes[:node.index]) if n.name in PRODUCT and len(n.inputs) >= 2 and n.inputs[-2] == query), None)
    if made is None or made.name != "einsum":
        return graph.tensors[query].shape[-1] if made is not None else None
    text = made.args[0] if made.args and isinstance(made.args[0], str) else ""
    given, arrow, out = text.replace(" ", "").partition("->")
    one, comma, two = given.partition(",")
    both = [c for c in one if c in two and c not in out]
    if not arrow or not comma or "," in two or "." in text or len(both) != 1:
        return None
    return graph.tensors[query].shape[one.index(both[0])]


def projected(s, value):
    """(width, value): how many numbers a position's keys (or queries) of all heads are, at the projection or where it is split."""
    graph = s.graph
    while True:
        node = graph.producer[value]
        if node is None:
            return None, None
        if node.name in PRODUCT or node.name in ("split", "chunk"):
            return graph.tensors[value].shape[-1], value
        moving = [i for i in node.inputs if graph.descends(i, {s.embedded})]
        if not moving:
            return None, None
        value = moving[0]


def parts(s):
    """Paths of what was found; those in a block are relative to it and are those of the first one with an attention."""
    found = {"embedding": s.embedding_path, "blocks": common([p for p, _ in s.blocks]) if s.blocks else None, "head": s.head_path}
    at = next((i for i, c in enumerate(s.block_calls) if s.blocks and attention_in(s, c)), None)
    if at is not None:
        call, shape, prefix = s.block_calls[at], s.shapes[at], s.block_calls[at].path + "."

        def child(path):
            return path[len(prefix):].split(".")[0] if path.startswith(prefix) else None

        found["attention"] = next((child(n.path) for n in attention_in(s, call)), None)
        found["norms"] = list(dict.fromkeys(n.path[len(prefix):] for n in shape.norms if n.path.startswith(prefix)))
        plain = [b for b in shape.branches if not b.attention]
        node = s.graph.producer[s.norms[plain[0].value].input if plain[0].after else plain[0].value] if len(plain) == 1 else None
        found["ffn"] = child(node.path) if node is not None and call.begin <= node.index < call.end else None
    return {name: value for name, value in found.items() if value}
