"""What a module normalises, found by what it ignores: a norm over an axis gives the same when its input is scaled along that axis.

No name is read and no affine parameters have to be known: they act after the normalisation and cannot hide an invariance.
"""
import torch

FUNCTIONS = {"layer_norm": ("layer", "features"), "native_layer_norm": ("layer", "features"), "rms_norm": ("rms", "features"),
             "batch_norm": ("batch", "batch"), "instance_norm": ("instance", "sequence"), "group_norm": ("group", "sample")}
# Functions that a norm written out by hand needs one of.
HINTS = {"rsqrt", "sqrt", "std", "var", "std_mean", "var_mean", "norm", "vector_norm", "linalg_vector_norm", "linalg_norm", "normalize"}
POWERS = {"pow", "__pow__", "float_power"}  # of these one whose exponent is no whole number: (mean x^2 + eps) ** -0.5


def is_hint(node):
    if node.name not in POWERS:
        return node.name in HINTS
    exponent = node.args[1] if len(node.args) > 1 else node.kwargs.get("exponent")
    return isinstance(exponent, float) and exponent != int(exponent)


def candidate(call, graph, d_model):
    """Whether a module call could be a norm: one tensor in, one of the same shape out, and only small parameters."""
    if len(call.inputs) != 1 or len(call.outputs) != 1 or call.inputs == call.outputs or call.end == call.begin:
        return False
    x, y = graph.tensors[call.inputs[0]], graph.tensors[call.outputs[0]]
    return (x.shape == y.shape and x.dim() >= 2 and x.is_floating_point() and x.numel() > 0
            and sum(p.numel() for p in call.module.parameters()) <= 4 * max(d_model, max(x.shape)))


def classify(module, like, axis=-1):
    """(kind, axis) of a norm: kind is one of layer, rms, instance, batch, group as in plumb's configs; axis is what a statistic is
    taken over: features, sequence (of a sample), batch (and positions), sample (features and positions). None: no norm.

    `like`: a tensor of the shape, type and device that the module is given; `axis`: where its features are. Runs the module a few
    times on numbers of its own: the caller keeps random state and buffers.
    """
    generator = torch.Generator().manual_seed(20)
    size, half = list(like.shape), like.dtype in (torch.float16, torch.bfloat16)
    axis %= len(size)

    def draw(shape, scale=1.0, offset=0.0):
        return (torch.randn(shape, generator=generator) * scale + offset).to(like)

    def factors(keep):
        """Powers of two, which scale without rounding; one for each index of the axes in `keep`."""
        shape = [n if i in keep else 1 for i, n in enumerate(size)]
        return 2.0 ** torch.randint(0, 3, shape, generator=generator).to(like)

    every = set(range(len(size)))
    scale = 4.0 if half else 32.0  # far above the root of any epsilon
    x = draw(size, scale, scale / 4)
    run = module.forward  # not the call: hooks of others are not ours to wake
    with torch.no_grad():
        y = run(x)
        if not isinstance(y, torch.Tensor) or y.shape != x.shape or not bool(torch.isfinite(y).all()):
            return None
        tolerance = (0.05 if half else 2e-3) * float(y.float().abs().mean())
        if tolerance == 0:
            return None

        def ignores(changed):
            gap = (run(changed).float() - y.float()).abs()
            return float(gap.max()) <= 20 * tolerance and float(gap.mean()) <= tolerance

        # A function of each element alone, such as a saturating one, can look like a norm: in a norm elements depend on each other.
        one = x.clone()
        one[(0,) * len(size)] += 16 * scale
        moved = (run(one).float() - y.float()).abs() > tolerance / 4
        moved[(0,) * len(size)] = False
        if not bool(moved.any()):
            return None
        if ignores(x * factors(every - {axis})):
            kind = "layer" if ignores(x + scale * factors(every - {axis})) else "rms"
            return (kind if of_squares(run, x, axis, kind == "layer") else "unknown"), "features"
        if len(size) > 2 and ignores(x * factors({0, axis})):
            return "instance", "sequence"
        if ignores(x * factors({axis})):
            return "batch", "batch"
        if ignores(x * factors({0})):
            return "group", "sample"
    return None


def of_squares(run, x, axis, centred):
    """Whether a norm over the features divides by the root of their mean square, not by a mean of magnitudes or the largest one: numbers of one
    magnitude and others, each measured by the root of their own mean square, then grow by the same gain. (How large they are does not matter:
    a norm ignores it.)"""
    gains = []
    for z in (x, torch.where(x < x.mean(axis, keepdim=True), -torch.ones_like(x), torch.ones_like(x)) * x.abs().mean()):
        odd = (run(z) - run(-z)).float() / 2
        z = z.float() - z.float().mean(axis, keepdim=True) if centred else z.float()
        z = z / z.pow(2).mean(axis, keepdim=True).sqrt()
        others = [i for i in range(x.dim()) if i != axis]
        gains.append((odd * z).sum(others) / (z * z).sum(others))
    return float((gains[0] - gains[1]).abs().mean()) <= 0.05 * float(gains[0].abs().mean())


def find(graph, d_model):
    """{value: Norm} of the norms that one forward called, by the value that each made; functions that stand in no norm module too."""
    found, inside = {}, set()
    for call in graph.calls:
        if not candidate(call, graph, d_model):
            continue
        like = graph.tensors[call.inputs[0]]
        axis = 1 if like.shape[-1] != d_model and like.dim() == 3 and like.shape[1] == d_model else -1
        try:
            kind = classify(call.module, like, axis)
        except Exception:  # a module that cannot be called this way is no norm that we can recognise
            kind = None
        if kind:
            found[call.outputs[0]] = Norm(call.inputs[0], *kind, call.path, call.module)
            inside.update(range(call.begin, call.end))
    for node in graph.nodes:
        if node.index in inside or node.name not in FUNCTIONS:
            continue
        kind, axis = FUNCTIONS[node.name]
        x = graph.tensors[node.inputs[0]]
        shape = node.args[1] if len(node.args) > 1 else node.kwargs.get("normalized_shape")
        if node.name in ("layer_norm", "rms_norm") and isinstance(shape, (tuple, list, torch.Size)) and len(shape) > 1:
            kind, axis = "group", "sample"
        found[node.outputs[-1]] = Norm(node.inputs[0], kind, axis, node.path, None)
        inside.add(node.index)
    hints = [n for n in graph.nodes if is_hint(n) and n.index not in inside]
    return found, hints


class Norm:
    """`input`: the value that it reads; `path`: of its module, or of the module whose forward called the function (module is None)."""
    __slots__ = ("input", "kind", "axis", "path", "module")

    def __init__(self, input, kind, axis, path, module):
        self.input, self.kind, self.axis, self.path, self.module = input, kind, axis, path, module
