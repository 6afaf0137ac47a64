"""Where one block's norms sit and whether its skip paths are whole, read from the graph between its input and its output.

The output is taken apart into summands. One of them is the block's input (the identity path), or a norm of it, or nothing of the kind;
the others are branches. Each branch is followed back to where it reads the stream.
"""
import dataclasses

from .graph import ADD, CARRY, PRODUCT, SCALE

ATTENTION = {"scaled_dot_product_attention", "multi_head_attention_forward"}


class Opaque(Exception):
    """The graph does not show where a value came from."""


@dataclasses.dataclass
class Term:
    kind: str  # in: the block's input; norm: what a norm made; op: what another function made
    value: int
    norm: object = None


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


def is_attention(graph, node, n_token):
    """A fused attention, or a softmax over a square of positions."""
    if node.name in ATTENTION:
        return True
    if node.name != "softmax" or not node.outputs:
        return False
    shape = graph.tensors[node.outputs[-1]].shape
    return len(shape) >= 3 and shape[-1] == shape[-2] == n_token


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
            return [t for i in dict.fromkeys(node.inputs) for t in self.terms(i)]
        if node.name in CARRY:
            return self.terms(node.inputs[0])
        if node.name in SCALE:
            moving = [i for i in node.inputs if self.depends(i)]
            if len(moving) == 1:
                return self.terms(moving[0])
        return [Term("op", value)]

    def on_stream(self, value):
        """Whether a value is the stream: the input or a norm of it, perhaps with branches added."""
        return any(t.kind == "in" or t.kind == "norm" and self.on_stream(t.norm.input) for t in self.terms(value))

    def holds_input(self, value):
        try:
            return any(t.kind == "in" for t in self.terms(value))
        except Opaque:
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
        except (Opaque, RecursionError):
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
