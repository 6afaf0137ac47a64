"""bench/narrow_formats.py, the script of docs/precision.md: its tables, going on after an interruption, and what it says when it cannot work."""

import hashlib
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB_CLI", str(ROOT / "build" / os.environ.get("PLUMB_PRESET", "dev") / "plumb"))
COMMAND = [sys.executable, str(ROOT / "bench/narrow_formats.py")]


class NarrowFormats(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.out = pathlib.Path(temporary.name) / "runs" / "narrow.jsonl"

    def run_script(self, *args, plumb=PLUMB):
        return subprocess.run([*COMMAND, "--out", str(self.out), *args], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "PLUMB_CLI": plumb})

    def rows(self):
        return [json.loads(line) for line in self.out.read_text(encoding="utf-8").splitlines()]

    def refused(self, run):
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        self.assertNotIn("Traceback", run.stderr)
        return run.stderr

    def test_an_entry_is_a_row_and_a_second_start_goes_on(self):
        args = ["--only", "position.none", "--steps", "4"]
        first = self.run_script(*args)
        self.assertEqual(first.returncode, 0, first.stderr)
        cells = [line.strip("| ").split(" | ") for line in first.stdout.splitlines() if line.startswith("| position")]
        self.assertEqual([row[:2] for row in cells], [["position", "none"]])
        self.assertEqual([row["status"] for row in self.rows()], ["done"] * 5)
        self.assertEqual(cells[0][2], f"*{self.rows()[0]['val_loss']:.2f}*")  # four updates do not reach the unigram baseline
        self.assertIn("[5/5", first.stderr)

        # As if it had been killed while it wrote the third line.
        lines = self.out.read_bytes().splitlines(keepends=True)
        self.out.write_bytes(b"".join(lines[:2]) + lines[2][:40])
        second = self.run_script(*args)
        self.assertEqual(second.stdout, first.stdout)
        self.assertIn("[3/3", second.stderr)
        self.assertEqual(self.out.read_bytes(), b"".join(lines))
        third = self.run_script(*args)
        self.assertEqual((third.stdout, third.stderr), (first.stdout, ""))

    def test_an_interruption_keeps_what_is_done(self):
        process = subprocess.Popen([*COMMAND, "--out", str(self.out), "--only", "position", "--steps", "100"], text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True, env={**os.environ, "PLUMB_CLI": PLUMB})
        deadline = time.monotonic() + 60
        while not (self.out.exists() and self.out.stat().st_size) and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertNotIn("Traceback", err)
        self.assertIn("interrupted", err)
        self.assertIn("| position | learned |", out)
        self.assertIn("…", out)
        self.assertGreaterEqual(len(self.rows()), 1)

    def test_fp16_loses_second_moments_and_fp32_none(self):
        run = self.run_script("--only", "cause.the defaults", "--steps", "10")
        self.assertEqual(run.returncode, 0, run.stderr)
        lost = {row["column"]: row["moments_lost"] for row in self.rows()}
        self.assertEqual(lost["fp32"], 0)
        self.assertGreater(lost["fp16_pure"], 0.1)
        self.assertIn(f"{lost['fp16_pure']:.0%}", run.stdout)

    def test_what_cannot_be_is_one_sentence(self):
        self.assertIn("/no/such/plumb", self.refused(self.run_script(plumb="/no/such/plumb")))
        self.assertIn("plumb", self.refused(self.run_script(plumb=sys.executable)))
        self.assertIn("norm", self.refused(self.run_script("--only", "norms")))
        self.out.parent.mkdir(exist_ok=True)
        self.out.write_text("{}\nmine\n")
        self.assertIn("narrow.jsonl", self.refused(self.run_script("--only", "norm.rms")))
        self.assertEqual(self.out.read_text(), "{}\nmine\n")

    def test_another_build_of_one_version_is_asked_anew(self):
        plumb = self.out.parent.parent / "plumb"
        args = ["--only", "position.none", "--steps", "2"]
        sums = []
        for build in ("one", "another"):
            plumb.write_text(f'#!/bin/sh\n# {build}\nexec "{PLUMB}" "$@"\n')
            plumb.chmod(0o755)
            run = self.run_script(*args, plumb=str(plumb))
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("[5/5", run.stderr)
            sums += [hashlib.sha256(plumb.read_bytes()).hexdigest()] * 5
        self.assertEqual([row["binary"] for row in self.rows()], sums)
        self.assertEqual(len({row["plumb"] for row in self.rows()}), 1)
        self.assertEqual(self.run_script(*args, plumb=str(plumb)).stderr, "")

    def test_the_page_has_the_rows_that_the_script_prints(self):
        with mock.patch.dict(os.environ, {"PLUMB_CLI": PLUMB}):
            spec = importlib.util.spec_from_file_location("narrow_formats", COMMAND[1])
            script = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(script)
        printed = [(family, name) for family, name, _ in script.rows_wanted(script.answered("config")["config"])]
        listed, table = [], ""
        for line in (ROOT / "docs/precision.md").read_text(encoding="utf-8").splitlines():
            cells = [cell.strip() for cell in line.strip("| ").split(" | ")] if line.startswith("|") else [""]
            if cells[0] in ("", "family", "settings", "precision"):
                table = cells[0]
            elif not cells[0].startswith("---") and table in ("family", "settings"):
                listed.append((cells[0], cells[1]) if table == "family" else ("cause", cells[0]))
        self.assertEqual(listed, printed, "rerun bench/narrow_formats.py --only FAMILY.ENTRY and add its row")


if __name__ == "__main__":
    unittest.main()
