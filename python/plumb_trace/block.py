"""Where one block's norms sit and whether its skip paths are whole, read from the graph between its input and its output.

The output is taken apart into summands. One of them is the block's input (the identity path), or a norm of it, or nothing of the kind;
the others are branches. Each branch is followed back to where it reads the stream.
"""
import dataclasses
import itertools

import torch

from .graph import ADD, CARRY, PRODUCT, SCALE
from .scores import ATTENTION, is_attention

SAME = {"contiguous", "to", "type", "type_as", "float", "half", "bfloat16", "double", "clone", "alias", "view_as", "expand_as"}  # nothing moves


class Opaque(Exception):
    """The graph does not show where a value came from."""


@dataclasses.dataclass
class Term:
    kind: str  # in: the block's input; norm: what a norm made; op: what another function made
    value: int
    norm: object = None
    factor: float = 1.0  # what the sum takes it by; None: not by one number, or nothing is known of it


@dataclasses.dataclass
class Branch:
    value: int
    attention: bool
    after: object  # the norm on the branch's output, or None
    before: list  # norms between the stream and the branch
    direct: bool  # it reads the stream itself, too
    sources: set  # the values of the stream that it reads, before the norm


@dataclasses.dataclass
class Block:
    placement: str = "unknown"  # pre, post, sandwich, post_branch, parallel, none
    residual: str = "unknown"  # add, none, partial
    skip_after_norm: object = "unknown"
    attn_norm: object = None  # the norm of the attention branch
    norms: list = dataclasses.field(default_factory=list)
    branches: list = dataclasses.field(default_factory=list)


def faithful(graph, base, end):
    """Whether a value that copies, views and casts made of another is the same numbers in the same places, up to the order of the axes, and
    lets the gradient pass."""
    a, b = graph.tensors[base], graph.tensors[end]
    if a.requires_grad and not b.requires_grad:
        return False
    if graph.stale(base) or graph.stale(end):  # the numbers are gone: by what the functions are
        while end != base:
            node = graph.producer[end]
            if node.name not in SAME:
                return False
            end = node.inputs[0]
        return True
    a, b = a.detach(), b.detach()
    if a.is_complex() or b.is_complex():
        return a.shape == b.shape and bool((a == b).all())
    tolerance = max(1e-6, 4 * max(torch.finfo(t.dtype).eps if t.is_floating_point() else 0 for t in (a, b)))
    orders = itertools.permutations(range(a.dim())) if a.dim() <= 4 else [tuple(range(a.dim()))]
    for order in orders:
        moved = a.permute(order)
        if b.dim() != a.dim() and order[-1] == a.dim() - 1 and b.shape[-1:] == a.shape[-1:] and a.numel() == b.numel():
            moved = moved.reshape(b.shape)  # positions in one axis, or apart again
        if moved.shape == b.shape and torch.allclose(moved.float(), b.float(), rtol=tolerance, atol=tolerance * float(a.abs().max())):
            return True
    return False


class Reader:
    """One block: `begin` is its first node, `source` and `out` its input and output."""

    def __init__(self, graph, norms, source, out, begin, n_token):
        self.graph, self.norms, self.source, self.out, self.begin, self.n_token = graph, norms, source, out, begin, n_token
        self.memo, self.term_memo = {}, {}

    def depends(self, value):
        return self.graph.descends(value, {self.source}, self.begin, self.memo)

    def terms(self, value):
        """The summands of a value, but for those that do not depend on the block's input. Raises Opaque."""
        if value not in self.term_memo:
            self.term_memo[value] = self.find_terms(value)
        return self.term_memo[value]

    def find_terms(self, value):
        if value == self.source:
            return [Term("in", value)]
        if value in self.norms and self.depends(value):
            return [Term("norm", value, self.norms[value])]
        node = self.graph.producer[value]
        if node is None and self.graph.tensors[value].grad_fn is not None:
            raise Opaque  # no function that we saw made it, and yet it was computed
        if node is None or node.index < self.begin or not self.depends(value):
            return []
        if node.name == "opaque":
            raise Opaque
        if node.name in ADD:
            return [t for i, factor in self.shares(node) for t in self.times(self.terms(i), factor)]
        if node.name in CARRY:
            base = self.start_of(value)
            return self.times(self.terms(base), 1.0 if faithful(self.graph, base, value) else None)
        if node.name == "neg":
            return self.times(self.terms(node.inputs[0]), -1.0)
        if node.name in SCALE:
            moving = [i for i in node.inputs if self.depends(i)]
            if len(moving) == 1:
                return self.times(self.terms(moving[0]), self.scale_of(node, moving[0]))
        return [Term("op", value)]

    def times(self, terms, factor):
        """Terms taken by a factor; by 0 there are none, and a way around that changes its sign is none that we know (not even twice)."""
        def product(term):
            if factor == 0:
                return 0
            return None if factor is None or term.factor is None or factor < 0 and term.kind != "op" else term.factor * factor

        return [dataclasses.replace(t, factor=product(t)) for t in terms if product(t) != 0]

    def shares(self, node):
        """[(value, factor)] of a sum."""
        alpha = node.kwargs.get("alpha", 1)
        alpha = alpha if isinstance(alpha, (int, float)) else None
        if node.name == "lerp":
            weight = node.args[2] if len(node.args) > 2 else node.kwargs.get("weight")
            weight = self.number(weight)
            factors = [None if weight is None else 1 - weight, weight]
        elif node.name == "addcmul":
            factors = [1, None, None]
        else:
            one, two = (1, alpha) if node.name == "add" else (1, None if alpha is None else -alpha)
            factors = [two, one] if node.name == "rsub" else [one, two]
        found = {}
        for i, factor in zip(node.inputs, factors):
            found[i] = factor if i not in found else None if None in (factor, found[i]) else found[i] + factor
        return found.items()

    def number(self, value):
        """A number, or what all elements of a tensor are that does not depend on the block's input; None where there is no such."""
        if isinstance(value, torch.Tensor):
            i = self.graph.number.get(id(value))
            if value.numel() == 0 or value.is_complex() or i is not None and self.depends(i):
                return None
            low, high = float(value.detach().min()), float(value.detach().max())
            return low if low == high else None
        return float(value) if isinstance(value, (int, float)) else None

    def scale_of(self, node, moving):
        others = [a for a in node.args if a is not self.graph.tensors[moving]]
        if len(node.args) != 2 or len(others) != 1 or node.kwargs:
            return None
        number = self.number(others[0])
        if node.name == "mul" or number is None:
            return number
        return 1 / number if number and others[0] is node.args[1] else None

    def start_of(self, value):
        """What a value is a copy of, through whatever carries it on, back to the input or a norm."""
        while True:
            node = self.graph.producer[value]
            if value == self.source or value in self.norms or node is None or node.index < self.begin or node.name not in CARRY:
                return value
            value = node.inputs[0]

    def on_stream(self, value):
        """Whether a value is the stream: the input or a norm of it, perhaps with branches added."""
        return any(t.kind == "in" or t.kind == "norm" and self.on_stream(t.norm.input) for t in self.terms(value))

    def holds_input(self, value):
        try:
            return any(t.kind == "in" for t in self.terms(value))
        except Opaque:
            return False

    def near(self, value):
        """Whether a value is made of the stream without a product."""
        for term in self.terms(value):
            if term.kind == "in" or term.kind == "norm" and self.near(term.norm.input):
                return True
            made = self.graph.producer[term.value]
            if term.kind == "op" and made.name not in PRODUCT | ATTENTION and any(self.near(i) for i in made.inputs if self.depends(i)):
                return True
        return False

    def base(self, value):
        """What a value is a copy or a view of."""
        while value != self.source:
            node = self.graph.producer[value]
            if node is None or node.name not in CARRY:
                break
            value = node.inputs[0]
        return value

    def branch(self, term):
        after = term.norm if term.kind == "norm" else None
        found = Branch(term.value, False, after, [], False, set())
        begin = term.norm.input if after else term.value
        seen, todo = {begin}, [begin]
        while todo:
            v = todo.pop()
            if v != begin and v in self.norms and self.on_stream(self.norms[v].input):
                found.before.append(self.norms[v])
                found.sources.add(self.base(self.norms[v].input))
                continue
            if v != begin and v in self.norms and self.near(self.norms[v].input):
                raise Opaque  # a norm of something made of the stream, such as two streams side by side
            if v == self.source or v != begin and self.holds_input(v):
                found.direct = True
                found.sources.add(self.base(v))
                continue
            node = self.graph.producer[v]
            found.attention |= is_attention(self.graph, node, self.n_token)
            for i in node.inputs:
                if i not in seen and self.depends(i):
                    seen.add(i)
                    todo.append(i)
        found.before = list({id(n): n for n in found.before}.values())
        return found

    def read(self):
        block = Block()
        try:
            self.walk(block)
        except Exception:  # Opaque, or somebody's block does what we have not thought of
            return Block()
        return block

    def require_known(self, term):
        """What ends a skip path has to be a product: a function that we do not know may hold a sum."""
        if term.kind == "op" and self.graph.producer[term.value].name not in PRODUCT | ATTENTION:
            raise Opaque

    def walk(self, block):
        """From the output to the input along the skip path: norms, sums and what is neither, in that order."""
        path, value = [], self.out
        while value is not None:
            terms = self.terms(value)
            skips = [t for t in terms if t.kind == "in"]
            through = [t for t in terms if t.kind == "norm" and self.on_stream(t.norm.input)]
            if not all(t.factor is not None and t.factor > 0 for t in skips + through):
                raise Opaque  # the way around is no plain one: scrambled, cut off from the gradient, dropped, negative
            if skips:
                path.append(("add", [self.branch(t) for t in terms if t.kind != "in"], value))
                value = None
            elif len(through) == 1:
                if len(terms) > 1:
                    path.append(("add", [self.branch(t) for t in terms if t is not through[0]], value))
                path.append(("norm", through[0].norm, value))
                value = through[0].norm.input
                if value == self.source:
                    value = None
            elif len(terms) == 1:
                # Nothing but a branch: no way around it.
                self.require_known(terms[0])
                branch = self.branch(terms[0])
                path.append(("bare", [branch], value))
                sources = branch.sources - {self.source}
                value = next(iter(sources)) if len(sources) == 1 else None
            elif len(terms) > 1 and not through:
                # Branches without the stream: the one that the others were computed from stands where the stream should.
                first = min(terms, key=lambda t: t.value)
                self.require_known(first)
                path.append(("add", [self.branch(t) for t in terms if t is not first], value))
                path.append(("bare", [self.branch(first)], first.value))
                value = None
            else:
                raise Opaque
        self.judge(block, path)

    def judge(self, block, path):
        kinds = [kind for kind, *_ in path]
        block.branches = [b for kind, what, _ in path if kind != "norm" for b in what]
        on_path = [what for kind, what, _ in path if kind == "norm"]
        used = [n for b in block.branches for n in (*b.before, *([b.after] if b.after else []))] + on_path
        block.norms = sorted({id(n): n for n in used}.values(), key=lambda n: n.input)
        adds, bare = kinds.count("add"), kinds.count("bare")
        block.residual = "add" if adds and not bare else "partial" if adds else "none"
        if not block.branches:
            block.residual = "unknown"
            return
        skip_norms = {id(n) for n in on_path}
        before = [bool([n for n in b.before if id(n) not in skip_norms]) and not b.direct for b in block.branches]
        after = [b.after is not None for b in block.branches]
        attention = next((b for b in block.branches if b.attention), None)
        if not on_path:
            block.skip_after_norm = False
            block.placement = self.placement_of(block.branches, before, after)
            if block.residual == "none" and block.placement == "post_branch":
                block.placement = "post"  # without a skip path the two are one
            if attention:
                block.attn_norm = attention.before[0] if attention.before else attention.after
        elif kinds[0] == "norm" and kinds[-1] == "add" and not any(before) and not any(after) and len(on_path) == adds:
            block.placement, block.skip_after_norm = "post", False
            for (kind, norm, _), (_, what, _) in zip(path, path[1:]):
                if kind == "norm" and any(b.attention for b in what):
                    block.attn_norm = norm
        elif kinds[0] == "add" and (kinds[-1] == "norm" or any(before)) and not any(after):
            # The branch and the skip path read the same normalised stream.
            block.placement, block.skip_after_norm = "pre", True
            block.attn_norm = attention.before[0] if attention and attention.before else None

    def placement_of(self, branches, before, after):
        if any(b.direct and b.before for b in branches):
            return "unknown"
        found = {("sandwich" if a else "pre") if b else "post_branch" if a else "none" for b, a in zip(before, after)}
        if len(found) > 1:
            return "mixed"
        found = found.pop()
        from_input = all(b.sources <= {self.source} for b in branches)
        if found == "pre" and len(branches) > 1 and from_input:
            return "parallel"
        return found
