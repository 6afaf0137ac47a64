"""What the tests of `plumb inspect` share."""

import array
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tiny_checkpoints as tiny  # noqa: E402

PLUMB = os.environ.get("PLUMB_CLI", str(ROOT / "build" / os.environ.get("PLUMB_PRESET", "dev") / "plumb"))


def run(*args, timeout=120):
    return subprocess.run([PLUMB, *map(str, args)], cwd=ROOT, capture_output=True, text=True, timeout=timeout)


def inspect(*args):
    done = run("inspect", *args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def case(name):
    return next(c for c in tiny.CASES if c.name == name)


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def expect(self, answer, truth, what=None):
        self.assertEqual({k: answer[k] for k in truth}, truth, f"{what}: {answer['evidence']}")


def normal(rng, n, std=1.0):
    return array.array("f", [rng.gauss(0, std) for _ in range(n)])
