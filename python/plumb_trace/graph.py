"""What one forward pass of a module computed: which function made which tensor of which, in which module.

A `Recorder` is a torch function mode, so it sees calls as the model's author wrote them (`softmax`, `layer_norm`, `x + y`), above
autocast and autograd. It changes no value. Functions that call others (`F.cross_entropy`) are one node.

What no torch function made (a custom autograd function, a kernel of another library) is a value without a producer; whoever
reads the graph has to answer "unknown" when he meets one.
"""
import torch
from torch.overrides import TorchFunctionMode

from .attention import FUSED, fused_arguments

KWARG_HOOKS = "with_kwargs" in torch.nn.Module.register_forward_pre_hook.__code__.co_varnames
ADD = {"add", "sub", "rsub", "lerp", "addcmul"}
# Functions whose result carries the values of their first tensor: a copy, a view, a cast, or noise on top of it.
# IN_ORDER keeps all of them, one after another as they were.
IN_ORDER = {"contiguous", "to", "type", "type_as", "float", "half", "bfloat16", "double", "clone", "view", "view_as", "reshape", "flatten", "unflatten",
            "squeeze", "unsqueeze", "detach", "requires_grad", "alias", "data"}
CARRY = IN_ORDER | {"dropout", "transpose", "permute", "movedim", "swapaxes", "t", "T", "mT", "expand", "expand_as", "getitem", "narrow", "dropout1d",
                    "feature_dropout", "rearrange"}
SCALE = {"mul", "div", "truediv"}
PRODUCT = {"linear", "matmul", "mm", "bmm", "addmm", "addbmm", "baddbmm", "einsum", "conv1d", "bilinear", "tensordot", "mv"}


def tensors_in(value, depth=0):
    """The tensors in arguments or a result, in order: nested lists, tuples, dicts and dataclass-like outputs."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for v in value.values():
            yield from tensors_in(v, depth + 1)
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from tensors_in(v, depth + 1)
    elif depth < 3 and hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from tensors_in(getattr(value, name, None), depth + 1)


def name_of(func):
    """`add` for torch.add, Tensor.__add__, __radd__ and add_; `rsub` for what takes its first from its second; `T` for the attribute's getter."""
    name = getattr(func, "__name__", "")
    if name == "__get__":
        return getattr(getattr(func, "__self__", None), "__name__", name)
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
        if name[1:] in ("add", "sub", "mul", "truediv", "div", "matmul") and name[0] in "ir" and name not in ("rsub", "rtruediv", "rdiv"):
            name = name[1:]
    return name.strip("_")


class Node:
    """One call of a function. `inputs` and `outputs` are values' numbers; `path` is the innermost module's. A fused attention has all of its
    arguments in `kwargs`."""
    __slots__ = ("index", "name", "inputs", "outputs", "path", "args", "kwargs")

    def __init__(self, index, name, inputs, outputs, path, args, kwargs):
        self.index, self.name, self.inputs, self.outputs = index, name, inputs, outputs
        self.path, self.args, self.kwargs = path, args, kwargs


class Call:
    """One call of a module: `begin` and `end` are the nodes inside of it."""
    __slots__ = ("path", "module", "inputs", "outputs", "begin", "end")

    def __init__(self, path, module, inputs, begin):
        self.path, self.module, self.inputs, self.begin = path, module, inputs, begin
        self.outputs, self.end = [], begin


class Recorder(TorchFunctionMode):
    """`with Recorder(root) as graph: root(...)` fills `nodes`, `calls` and `tensors`. A tensor that is changed in place is a new value."""

    def __init__(self, root):
        super().__init__()
        self.nodes, self.calls, self.tensors, self.producer, self.versions = [], [], [], [], []
        self.number = {}  # id of a tensor object -> its newest value; `tensors` keeps the objects, so no id comes twice
        self.stack, self.handles = [], []
        self.busy = False  # what we ask a tensor ourselves is no part of the graph
        self.paths = {module: path for path, module in root.named_modules()}
        self.axes = {}  # what scores.axes_of found

    def value(self, tensor, producer=None, new=False):
        number = self.number.get(id(tensor))
        if number is None or new:
            if producer is None and self.stack and tensor._base is not None:  # (arguments of the root are where all begins)
                # PyTorch 1.13 does not show x[:3] to a mode. The view tells what it is a view of.
                producer = self.node("getitem", [self.value(tensor._base)], (tensor._base,))
            number = len(self.tensors)
            self.number[id(tensor)] = number
            self.tensors.append(tensor)
            self.versions.append(version(tensor))
            self.producer.append(producer)
            if producer is not None:
                producer.outputs.append(number)
        return number

    def node(self, name, inputs, args=(), kwargs=None):
        node = Node(len(self.nodes), name, inputs, [], self.stack[-1].path if self.stack else "", args, kwargs or {})
        self.nodes.append(node)
        return node

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        inputs = list(tensors_in((args, kwargs)))
        before = [version(t) for t in inputs]
        result = func(*args, **kwargs)
        if not self.busy:
            if name_of(func) == FUSED:
                args, kwargs = (), fused_arguments(func.__name__, args, kwargs)
            self.note(name_of(func), inputs, before, result, args, kwargs)
        return result

    def note(self, name, inputs, before, result, args, kwargs):
        changed = [t for t, v in zip(inputs, before) if version(t) != v]
        known = {id(t) for t in inputs}
        made = [t for t in tensors_in(result) if id(t) not in known]
        if not made and not changed:
            return
        node = self.node(name, [self.value(t) for t in inputs], args, kwargs)
        for t in (*changed, *made):
            self.value(t, node, new=True)

    def __enter__(self):
        for module, path in self.paths.items():
            extra = {"with_kwargs": True} if KWARG_HOOKS else {}
            self.handles.append(module.register_forward_pre_hook(self.enter, **extra))
            self.handles.append(module.register_forward_hook(self.leave))
        return super().__enter__()

    def __exit__(self, *error):
        for handle in self.handles:
            handle.remove()
        return super().__exit__(*error)

    def enter(self, module, args, kwargs=None):
        self.busy = True
        inputs = [self.value(t) for t in tensors_in((args, kwargs))]
        self.stack.append(Call(self.paths.get(module, "?"), module, inputs, len(self.nodes)))
        self.busy = False

    def leave(self, module, args, result):
        self.busy = True
        call = self.stack.pop()
        made = list(tensors_in(result))
        unknown = [t for t in made if id(t) not in self.number and t._base is None]
        if unknown:  # the module is one opaque function
            node = self.node("opaque", call.inputs)
            for t in unknown:
                self.value(t, node)
        call.outputs = [self.value(t) for t in made]
        call.end = len(self.nodes)
        self.calls.append(call)
        self.busy = False

    # Reading the graph.

    def follow(self, value, names):
        """Back from `value` through functions called `names`, along their first tensor."""
        while True:
            node = self.producer[value]
            if node is None or node.name not in names or not node.inputs:
                return value
            value = node.inputs[0]

    def descends(self, value, sources, begin=0, memo=None):
        """Whether `value` was computed from one of `sources` by nodes from `begin` on."""
        memo = {} if memo is None else memo
        todo = [value]
        while todo:
            v = todo[-1]
            if v in memo:
                todo.pop()
                continue
            node = self.producer[v]
            if v in sources:
                memo[v] = True
            elif node is None or node.index < begin:
                memo[v] = False
            else:
                open_inputs = [i for i in node.inputs if i not in memo]
                if open_inputs:
                    todo.extend(open_inputs)
                    continue
                memo[v] = any(memo[i] for i in node.inputs)
            todo.pop()
        return memo[value]

    def stale(self, value):
        """Whether the tensor of a value was changed in place since."""
        return version(self.tensors[value]) != self.versions[value]

    def ancestors(self, value, stop=lambda v: False, begin=0):
        """Values that `value` was computed from, itself first; not past those that `stop` accepts (they are given too)."""
        seen, todo = {value}, [value]
        while todo:
            v = todo.pop()
            yield v
            node = self.producer[v]
            if node is None or node.index < begin or stop(v):
                continue
            for i in node.inputs:
                if i not in seen:
                    seen.add(i)
                    todo.append(i)


def version(tensor):
    try:
        return tensor._version
    except RuntimeError:  # tensors of inference mode have none
        return 0
