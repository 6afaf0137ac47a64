# run_tests: scripts/venv.sh
"""`plumb inspect` on what the newest PyTorch saves, beside what torch_checkpoints_test.py has from the machine's own."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from inspecting import InAFolder  # noqa: E402
from torch_checkpoints_test import check_what_torch_saves  # noqa: E402


class OfTheNewestTorch(InAFolder):
    def test_what_torch_saves(self):
        check_what_torch_saves(self, sys.executable)


if __name__ == "__main__":
    unittest.main()
