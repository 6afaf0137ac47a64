"""tools/run_tests.py must count what a gtest binary did, and never take a crash for a pass."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

RAN = "[ RUN      ] {0}\nsome output\n[{1}] {0} (3 ms)\n"


class RunTests(unittest.TestCase):
    def run_binary(self, script):
        """Runs a shell script in the place of a gtest binary; returns (exit status, tally, what was printed)."""
        with tempfile.TemporaryDirectory() as folder:
            binary, tally = os.path.join(folder, "binary"), os.path.join(folder, "tally")
            pathlib.Path(binary).write_text("#!/bin/sh\n" + script)
            os.chmod(binary, 0o755)
            command = [sys.executable, str(ROOT / "tools/run_tests.py"), "gtest", binary, "--shards", "1", "--tally", tally]
            result = subprocess.run(command, capture_output=True, text=True)
            return result.returncode, pathlib.Path(tally).read_text(), result.stdout

    def printing(self, text, status):
        return self.run_binary(f"cat <<'END'\n{text}END\nexit {status}\n")

    def test_passes_are_counted(self):
        text = RAN.format("A.one", "       OK ") + RAN.format("A.two/0", "       OK ") + RAN.format("A.b", "  SKIPPED ")
        code, tally, printed = self.printing(text, 0)
        self.assertEqual((code, tally), (0, "2 0\n"))
        self.assertIn("1 skipped", printed)

    def test_a_failure_is_counted_once_and_its_output_shown(self):
        text = RAN.format("A.one", "       OK ") + RAN.format("A.two", "  FAILED  ") + "[  FAILED  ] A.two\n"
        code, tally, printed = self.printing(text, 1)
        self.assertEqual((code, tally), (1, "1 1\n"))
        self.assertIn("A.two\nsome output", printed)

    def test_a_failure_with_parameters_is_recognised(self):
        text = "[ RUN      ] A.two/3\n[  FAILED  ] A.two/3, where GetParam() = 7 (0 ms)\n"
        self.assertEqual(self.printing(text, 1)[:2], (1, "0 1\n"))

    def test_a_crash_fails_the_test_that_was_running(self):
        text = RAN.format("A.one", "       OK ") + "[ RUN      ] A.two\n"
        code, tally, printed = self.printing(text, 139)
        self.assertEqual((code, tally), (1, "1 1\n"))
        self.assertIn("CRASHED  A.two", printed)

    def test_a_crash_after_the_last_test_is_a_failure(self):
        self.assertEqual(self.printing(RAN.format("A.one", "       OK "), 66)[:2], (1, "1 1\n"))

    def test_no_test_at_all_is_a_failure(self):
        self.assertEqual(self.printing("", 0)[:2], (1, "0 1\n"))

    def run_file(self, text):
        """Runs a Python test file; returns (exit status, tally, what was printed)."""
        with tempfile.TemporaryDirectory() as folder:
            file, tally = os.path.join(folder, "one_test.py"), os.path.join(folder, "tally")
            pathlib.Path(file).write_text(text)
            command = [sys.executable, str(ROOT / "tools/run_tests.py"), "python", file, "--tally", tally]
            result = subprocess.run(command, capture_output=True, text=True)
            return result.returncode, pathlib.Path(tally).read_text(), result.stdout

    def test_a_file_runs_under_the_python_that_its_first_line_asks_for(self):
        with tempfile.TemporaryDirectory() as folder:
            other = os.path.join(folder, "python")
            pathlib.Path(other).write_text(f'#!/bin/sh\nOTHER=yes exec {sys.executable} "$@"\n')
            os.chmod(other, 0o755)
            body = ("import os, unittest\nclass A(unittest.TestCase):\n"
                    "    def test_one(self): self.assertEqual(os.environ.get('OTHER'), 'yes')\n"
                    "    def test_two(self): self.fail('on purpose')\n"
                    "    @unittest.skip('')\n    def test_three(self): pass\n")
            code, tally, printed = self.run_file(f"# run_tests: {other}\n{body}")
            self.assertEqual((code, tally), (1, "1 1\n"), printed)
            self.assertIn("1 skipped", printed)
            self.assertEqual(self.run_file(body)[:2], (1, "0 2\n"))

    def test_a_file_whose_python_is_missing_or_breaks_is_a_failure(self):
        for other in ("/nowhere/python", "/bin/false", "scripts/nowhere.sh"):
            code, tally, _ = self.run_file(f"# run_tests: {other}\nimport unittest\n")
            self.assertEqual((code, tally), (1, "0 1\n"), other)


if __name__ == "__main__":
    unittest.main()
