"""What hangs on somebody's modules while they are traced."""


def nothing(*_):
    """What a copy of a hook does."""


def nothing_again():
    return nothing


class Hook:
    """A hook that stays behind when its module is copied, pickled or saved: PyTorch copies a module's hooks with it, and the copy would write
    into the trace of the original. (A copied bound method would do so with a copy of its object.)"""

    def __init__(self, function):
        self.function = function

    def __call__(self, *args):
        return self.function(*args)

    def __reduce__(self):  # copy.deepcopy asks for it, too
        return nothing_again, ()
