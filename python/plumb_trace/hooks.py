"""What hangs on somebody's modules while they are traced."""
import torch

from .graph import KWARG_HOOKS, tensors_in, version

ALWAYS = "always_call" in torch.nn.Module.register_forward_hook.__code__.co_varnames


def recorded():
    """Whether a forward pass is being recorded by what our hooks would be written into: a compiler, torch.jit.trace, a CUDA graph."""
    compiler = getattr(torch, "compiler", None)
    return (compiler is not None and getattr(compiler, "is_compiling", bool)() or torch.jit.is_tracing()
            or torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


def nothing(*_):
    """What a copy of a hook does."""


def nothing_again():
    return nothing


class Hook:
    """A hook that stays behind when its module is copied, pickled or saved: PyTorch copies a module's hooks with it, and the copy would write
    into the trace of the original. (A copied bound method would do so with a copy of its object.) Silent where a pass is recorded."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *args):
        return None if recorded() else self.function(*args)

    def __reduce__(self):  # copy.deepcopy asks for it, too
        return nothing_again, ()


class Leash(tuple):
    """Arguments of a forward pass that tell when it is over, also by an exception: PyTorch before 2.1 calls no hook then, but lets the
    arguments go."""
    over = None

    def __del__(self):
        if self.over is not None:
            self.over()


class Watch:
    """Whether hooks that a copy lacks change what their modules get or give, seen in one of the loop's own forward passes: a hook of ours before
    them and one behind them. left_out: {path: kinds of hooks}, as a Twin has it."""

    def __init__(self, root, left_out):
        self.mattered, self.handles, self.before = "_forward_pre_hooks" in left_out.get("", ()), [], {}
        modules = dict(root.named_modules())
        for path, kinds in left_out.items():
            module = modules[path]
            if "_forward_pre_hooks" in kinds and path:
                self.around(module._forward_pre_hooks, lambda f, m=module: m.register_forward_pre_hook(f, **self.with_kwargs()), self.inputs)
            if "_forward_hooks" in kinds:
                self.around(module._forward_hooks, module.register_forward_hook, self.outputs)

    def with_kwargs(self):
        return {"with_kwargs": True} if KWARG_HOOKS else {}

    def around(self, hooks, register, what):
        def first(module, *values):
            self.before[module, what] = what(values)

        def last(module, *values):
            self.mattered |= self.before.get((module, what)) != what(values)

        first, last = register(Hook(first)), register(Hook(last))
        hooks.move_to_end(first.id, last=False)
        self.handles += [first, last]

    def inputs(self, values):
        return [(id(t), version(t)) for t in tensors_in(values)]

    def outputs(self, values):
        return [(id(t), version(t)) for t in tensors_in(values[-1])]

    def remove(self):
        for handle in self.handles:
            handle.remove()
        self.handles, self.before = [], {}
