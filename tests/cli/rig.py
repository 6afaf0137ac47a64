"""What the tests of the command line share: the binary, a small model, a folder of their own."""

import fcntl
import json
import os
import pathlib
import pty
import struct
import subprocess
import tempfile
import termios
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB_CLI", str(ROOT / "build" / os.environ.get("PLUMB_PRESET", "dev") / "plumb"))
# Seconds of training; the text is one that every clone has.
SMALL = ["--set", "model.n_layer=2", "--set", "model.d_model=32", "--set", "model.d_ff=32", "--set", "model.block_size=16",
         "--set", "train.batch_size=8", "--set", "train.steps=60", "--set", "train.warmup=5", "--set", "data.corpus=LICENSE",
         "--set", "train.checkpoint_every=15", "--set", "train.eval_every=30"]


def plumb(*args, **more):
    return subprocess.run([PLUMB, *args], **{"cwd": ROOT, "capture_output": True, "text": True, "timeout": 120, **more})


def on_terminal(columns, *args):
    """The lines that a terminal of so many columns shows."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    run = subprocess.Popen([PLUMB, *args], cwd=ROOT, stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:  # how Linux says that nobody writes there any more
        pass
    os.close(ours)
    assert run.wait(timeout=60) == 0, shown
    return shown.decode().splitlines()


def train(out, *more):
    """The answer of a small training that must end well."""
    run = plumb("train", *SMALL, *more, "--out", str(out), "--json")
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


class Folder(unittest.TestCase):
    """A test with a temporary folder."""

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()
