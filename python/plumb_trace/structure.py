"""The parts of a decoder-like module, found by tracing one forward pass: embedding, blocks (see blocks.py), logits and head."""
import dataclasses
import re

import torch

from . import norms as norm_probe
from .attention import FUSED
from .blocks import find_blocks, module_at, read_blocks
from .errors import TraceError
from .graph import ADD, CARRY, PRODUCT, SCALE, Recorder, tensors_in
from .isolate import cut, token_ids, uncompiled
from .scores import is_attention

ELEMENTWISE = CARRY | SCALE | ADD | {"tanh"}


@dataclasses.dataclass
class Mapping:
    """What the user says where tracing cannot tell. Paths are those of named_modules()."""
    blocks: str = None  # the container of the blocks, "transformer.h"
    embedding: str = None  # the token embedding
    head: str = None  # the module that makes the logits
    tied: bool = None  # whether the model is meant to share the embedding with the head
    batch_first: bool = None  # ids are (batch, time); False: (time, batch)


@dataclasses.dataclass
class Structure:
    """What was found; None or empty where it was not. Values are numbers of `graph`, which `drop_graph` lets go."""
    mapping: Mapping
    ids: torch.Tensor = None
    n_token: int = 0
    time_axis: int = 1
    vocab_size: int = None
    d_model: int = None
    embedding: torch.Tensor = None  # the token embedding's weight
    embedding_path: str = None
    embedded: int = None  # the value that the lookup made
    blocks: list = dataclasses.field(default_factory=list)  # [(path, module)], also of those that the traced pass did not call
    block_calls: list = dataclasses.field(default_factory=list)
    shapes: list = dataclasses.field(default_factory=list)  # a `Block` each
    norm_sites: list = dataclasses.field(default_factory=list)  # per block: a module (or its path), an ordinal of a function, or None
    softmaxes: list = dataclasses.field(default_factory=list)  # per block: (rows, keys) of each softmax, None: no attention's; or None
    reweighted: list = dataclasses.field(default_factory=list)  # per block: whether values are not seen to be summed with a softmax as it is
    logits: int = None
    logits_at: int = None  # which tensor of the output the logits are, of those of their width
    loss_at: int = None  # which tensor of the output is a number that was computed from the logits, of all numbers
    classes: int = None  # how many numbers a position's logits are
    head_weight: torch.Tensor = None
    head_path: str = None
    head_input: int = None
    result: int = None  # the stream as the model returns it
    mask_values: list = dataclasses.field(default_factory=list)  # of the blocks that have an attention
    why_not: str = None  # why no numbers of blocks can be measured, a sentence
    counted: bool = True  # whether the blocks are all there are
    beside: bool = False  # whether there is attention outside of the blocks, as in the encoder of an encoder-decoder
    graph: Recorder = None
    norms: dict = None
    hints: list = None

    def logits_of(self, output):
        """The logits in what the model returned, or None. (Models that are given targets return a loss before them.)"""
        if self.logits_at is None:
            return None
        fits = [t for t in tensors_in(output) if t.is_floating_point() and t.dim() >= 2 and t.shape[-1] == self.classes]
        return fits[min(self.logits_at, len(fits) - 1)] if fits else None

    def loss_of(self, output):
        """The model's own loss in what it returned, or None."""
        numbers = numbers_in(output)
        return numbers[self.loss_at] if self.loss_at is not None and self.loss_at < len(numbers) else None

    def by_position(self, t, samples):
        """(samples, positions, …), whatever the order of the axes and whether the first two are one."""
        if t.dim() == 2:
            t = t.reshape(samples, -1, t.shape[-1]) if self.time_axis == 1 or samples == 1 else t.reshape(-1, samples, t.shape[-1])
        return t.transpose(0, 1) if self.time_axis == 0 and t.shape[1] == samples else t

    def drop_graph(self):
        """Lets the traced pass's tensors and the copy's modules go."""
        self.graph = self.norms = self.hints = self.ids = self.embedding = self.head_weight = None
        self.block_calls, self.shapes = [], []

    def settle(self, root):
        """From here on the modules are those of `root`, the original of what was traced."""
        modules = dict(root.named_modules())
        sites = {call.path: modules.get(site) if isinstance(site, str) else site for call, site in zip(self.block_calls, self.norm_sites)}
        self.blocks = [(path, modules[path]) for path, _ in self.blocks] if not self.why_not else []
        self.norm_sites = [sites.get(path) for path, _ in self.blocks]
        found = {call.path: softmaxes for call, softmaxes in zip(self.block_calls, self.softmaxes)}
        self.softmaxes = [found.get(path) for path, _ in self.blocks]
        told = {call.path: told for call, told in zip(self.block_calls, self.reweighted)}
        alike = {type(call.module) for call in self.block_calls}
        # Of a block that was not called, what holds of all that were.
        self.reweighted = [told.get(path, any(told.values()) or type(module) not in alike) for path, module in self.blocks]
        self.drop_graph()


def inspect(subject, args, kwargs, mapping):
    """Traces one call of the subject's model, with gradients."""
    root, (args, kwargs) = subject.root, subject.fresh(args, kwargs)
    s = Structure(mapping)
    ids = token_ids(args, kwargs)
    if ids is None:
        raise TraceError("the model's arguments have no tensor of token ids (whole numbers, two dims); give it one, or trace a part "
                         "that takes ids")
    subject.rewind()
    with torch.enable_grad(), uncompiled(), Recorder(root) as graph:
        output = root(*args, **kwargs)
    s.graph, s.ids = graph, ids
    find_embedding(s, root)
    s.time_axis = time_axis(s)
    s.n_token = ids.shape[s.time_axis] if ids.dim() == 2 else ids.shape[0]
    s.norms, s.hints = norm_probe.find(graph, s.d_model or 0)
    find_blocks(s, root)
    find_logits(s, output)
    find_head(s, root)
    read_blocks(s)
    return s


def inspect_batch(subject, args, kwargs, mapping):
    """(structure, args, kwargs of the first samples). The whole batch is traced where its start is refused."""
    small = cut(args, kwargs, axis=1 if mapping.batch_first is False else 0)
    try:
        return inspect(subject, *small, mapping), *small
    except TraceError:
        raise
    except Exception:
        if small[0] is args:
            raise
    subject.renew()
    return inspect(subject, args, kwargs, mapping), args, kwargs


def time_axis(s):
    """Which axis of (two-dimensional) ids is time: the one that attention's squares are as long as."""
    if s.mapping.batch_first is not None or s.ids.dim() < 2:
        return 0 if s.mapping.batch_first is False or s.ids.dim() < 2 else 1
    first, second = s.ids.shape
    if first != second:
        for node in s.graph.nodes:
            if is_attention(s.graph, node, first) and node.name == "softmax":
                return 0
            if is_attention(s.graph, node, second) and node.name == "softmax":
                return 1
            if node.name == FUSED:
                return 0 if node.kwargs["query"].shape[-2] == first else 1
            if node.name == "multi_head_attention_forward":  # its inputs are (time, batch, features)
                return 0 if s.graph.tensors[node.inputs[0]].shape[0] == first else 1
    return 1


def lookups(graph):
    """(node, table, indices) of each embedding lookup."""
    for node in graph.nodes:
        tensors = [graph.tensors[i] for i in node.inputs]
        if node.name == "embedding" and len(tensors) >= 2:
            index, table = (0, 1) if not tensors[0].is_floating_point() else (1, 0)
            yield node, node.inputs[table], node.inputs[index]
        elif node.name in ("getitem", "index_select", "index") and len(tensors) == 2 and tensors[0].is_floating_point() and \
                tensors[0].dim() == 2 and tensors[1].dtype in (torch.int32, torch.int64) and tensors[1].dim() >= 1:
            yield node, node.inputs[0], node.inputs[1]


def find_embedding(s, root):
    graph, wanted = s.graph, s.mapping.embedding
    if wanted is not None:
        module_at(root, wanted, "embedding")
    ids = graph.number.get(id(s.ids))
    for node, table, indices in lookups(graph):
        hit = node.path == wanted if wanted is not None else ids is not None and graph.follow(indices, CARRY) == ids
        if hit:
            s.embedded, s.embedding, s.embedding_path = node.outputs[-1], graph.tensors[graph.follow(table, CARRY)], node.path
            s.vocab_size, s.d_model = graph.tensors[table].shape
            return


def numbers_in(output):
    return [t for t in tensors_in(output) if t.numel() == 1 and t.is_floating_point()]


def find_logits(s, output):
    """The output's tensor over the vocabulary; where the model returns none, what its cross-entropy read. Of several the one that is called
    logits, or the only one that the last block's output made: else there are none, since one may be an auxiliary head's."""
    graph = s.graph
    ranked = []
    for tensor in tensors_in(output):
        value = graph.number.get(id(tensor))
        if value is None or not tensor.is_floating_point() or tensor.dim() < 2:
            continue
        width = tensor.shape[-1]
        # (a row for each position, and as wide as neither the stream nor attention's weights)
        score = (width == s.vocab_size, tensor.numel() == width * s.ids.numel() and width not in (s.d_model, s.n_token), tensor.numel())
        if score[0] or score[1]:
            ranked.append((score, value))
    best = max((score for score, _ in ranked), default=None)
    several = list(dict.fromkeys(value for score, value in ranked if score == best))
    if len(several) > 1:
        several = main_logits(s, output, several)
    if len(several) == 1:
        s.logits = several[0]
        s.classes = graph.tensors[s.logits].shape[-1]
        fits = [t for t in tensors_in(output) if t.is_floating_point() and t.dim() >= 2 and t.shape[-1] == s.classes]
        s.logits_at = next(at for at, t in enumerate(fits) if graph.number.get(id(t)) == s.logits)
    elif not several:
        read = [graph.number.get(id(n.args[0] if n.args else n.kwargs.get("input"))) for n in graph.nodes if n.name == "cross_entropy"]
        read = {graph.follow(v, CARRY | {"split", "chunk"}) for v in read if v is not None}
        s.logits = read.pop() if len(read) == 1 else None  # of several losses any may be an auxiliary one
    s.result = next((graph.number.get(id(t)) for t in tensors_in(output) if t.is_floating_point() and t.dim() >= 2 and t.shape[-1] == s.d_model), None)
    if s.logits is not None:
        made = [graph.number.get(id(t)) for t in numbers_in(output)]
        s.loss_at = next((at for at, value in enumerate(made) if value is not None and graph.descends(value, {s.logits})), None)


def main_logits(s, output, values):
    """Those of several candidates that are the model's logits: one, if anything tells."""
    named = getattr(output, "logits", None) if not isinstance(output, dict) else output.get("logits")
    if isinstance(named, torch.Tensor) and s.graph.number.get(id(named)) in values:
        return [s.graph.number[id(named)]]
    last = set(s.block_calls[-1].outputs) if s.block_calls else set()
    late = [v for v in values if s.graph.descends(v, last)]
    return late if len(late) == 1 else values


def find_head(s, root):
    """The product that made the logits, and its weight: back through what acts on each element."""
    if s.logits is None:
        return
    graph, value, memo = s.graph, s.logits, {}
    sources = {s.embedded} if s.embedded is not None else set()
    node = graph.producer[value]
    while node is not None and node.name in ELEMENTWISE and node.inputs:
        moving = [i for i in dict.fromkeys(node.inputs) if graph.descends(i, sources, 0, memo)] or node.inputs[:1]
        if len([i for i in moving if graph.tensors[i].shape[-1:] == graph.tensors[s.logits].shape[-1:]]) > 1:
            return  # a sum of two heads
        node = graph.producer[moving[0]]
    if node is None or node.name not in PRODUCT:
        return
    s.head_path = node.path
    moving = [i for i in node.inputs if graph.descends(i, sources, 0, memo)]
    still = [i for i in node.inputs if i not in moving]
    if len(moving) == 1:
        s.head_input = moving[0]
    weights = [graph.tensors[graph.follow(i, CARRY)] for i in still]
    weights = [w for w in weights if w.dim() == 2]
    if len(weights) == 1:
        s.head_weight = weights[0]
    if s.mapping.head is not None:
        weight = getattr(module_at(root, s.mapping.head, "head"), "weight", None)
        s.head_path, s.head_weight = s.mapping.head, weight if weight is not None else s.head_weight


def common(paths):
    """The container of numbered siblings: "h.0", "h.1" are in "h"."""
    return re.sub(r"\.?[^.]+$", "", paths[0]) if paths else ""


__all__ = ["Mapping", "Structure", "inspect", "inspect_batch"]
