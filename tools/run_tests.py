#!/usr/bin/env python3
"""Runs tests and counts them.

  run_tests.py gtest BINARY [--filter F] [--shards N] [--name NAME] [--tally FILE] [--may-be-empty]
  run_tests.py python [FILE ...] [--slow] [--tally FILE]

`gtest` runs the binary in parallel shards and reads what each prints, so a shard that crashes or hangs still yields the
tests that it finished, and the one that it was in is counted as failed. `python` runs the unittest files given, by default
every tests/**/*_test.py but those named *_slow_test.py, or with --slow only those; each in a process of its own, as many
at once as there are processors (slow ones, which time things, one after another). A file whose first line is
"# run_tests: COMMAND" runs under the Python that COMMAND names, or prints when it is a script of ours. With --tally the
counts are appended to FILE as "PASSED FAILED". Exit status 1 when anything failed, or when nothing ran and
--may-be-empty was not given.
"""

import argparse
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUN = re.compile(r"\[ RUN      \] (\S+)")
END = re.compile(r"\[(       OK |  FAILED  |  SKIPPED )\] (\S+?),? .*\(\d+ ms\)")


def read_shard(text):
    """Splits what a gtest binary printed into {test: (verdict, its output)}; an unfinished test is "CRASHED"."""
    tests, current, lines = {}, None, []
    for line in text.splitlines():
        started, ended = RUN.search(line), END.search(line)
        if started:
            current, lines = started.group(1), []
            tests[current] = ("CRASHED", "")
        elif ended and ended.group(2) == current:
            tests[current] = (ended.group(1).strip(), "\n".join(lines))
            current = None
        else:
            lines.append(line)
    if current:
        tests[current] = ("CRASHED", "\n".join(lines))
    return tests


def run_shards(binary, pattern, count, timeout):
    """Runs all shards at once; returns ({test: (verdict, output)}, [trouble with a whole shard])."""
    tests, trouble, running = {}, [], []
    with tempfile.TemporaryDirectory() as folder:
        for shard in range(count):
            log = open(os.path.join(folder, str(shard)), "w+", errors="replace")
            environment = dict(os.environ, GTEST_TOTAL_SHARDS=str(count), GTEST_SHARD_INDEX=str(shard))
            command = [binary, f"--gtest_filter={pattern}", "--gtest_color=no"]
            running.append((subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment), log))
        deadline = time.monotonic() + timeout
        for shard, (process, log) in enumerate(running):
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                trouble.append(f"shard {shard} was stopped after {timeout} s")
            log.seek(0)
            text = log.read()
            log.close()
            found = read_shard(text)
            tests.update(found)
            if process.returncode != 0 and all(verdict in ("OK", "SKIPPED") for verdict, _ in found.values()):
                trouble.append(f"shard {shard} ended with status {process.returncode}:\n" + text[-4000:])
    return tests, trouble


def gtest(arguments):
    start = time.monotonic()
    try:
        tests, trouble = run_shards(arguments.binary, arguments.filter, arguments.shards, arguments.timeout)
    except OSError as error:
        tests, trouble = {}, [f"{arguments.binary} cannot be run: {error.strerror}"]
    for name, (verdict, output) in sorted(tests.items()):
        if verdict in ("FAILED", "CRASHED"):
            print(f"{verdict}  {name}\n{output}")
    for text in trouble:
        print(f"FAILED  {arguments.name}: {text}")
    verdicts = [verdict for verdict, _ in tests.values()]
    failed = verdicts.count("FAILED") + verdicts.count("CRASHED") + len(trouble)
    return verdicts.count("OK"), failed, verdicts.count("SKIPPED"), time.monotonic() - start


def python_of(file):
    """The interpreter that a file's first line asks for. Raises OSError or CalledProcessError."""
    with open(file, encoding="utf-8") as text:
        asked = re.match(r"# run_tests: (\S+)$", text.readline().rstrip())
    if not asked:
        return sys.executable
    if asked[1].endswith(".sh"):
        return subprocess.run([ROOT / asked[1]], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    return asked[1]


def run_apart(file):
    """Runs one file in a process of its own; prints its output in one piece. Returns (passed, failed, skipped)."""
    with tempfile.TemporaryDirectory() as folder:
        tally = os.path.join(folder, "tally")
        try:
            command = [python_of(file), __file__, "python", file, "--here", "--tally", tally]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"FAILED  {file}: {error}")
            return 0, 1, 0
        if not os.path.exists(tally):
            print(f"{done.stdout}FAILED  {file}: broke off without counting its tests (status {done.returncode})")
            return 0, 1, 0
        print(done.stdout, end="", flush=True)
        with open(tally) as text:
            return tuple(map(int, text.read().split()))


def run_here(file):
    """Runs one file in this process. Returns (passed, failed, skipped)."""
    module_spec = importlib.util.spec_from_file_location("_".join(file.with_suffix("").parts[-2:]), file)
    module = importlib.util.module_from_spec(module_spec)
    try:
        module_spec.loader.exec_module(module)
        suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    except Exception as error:  # a file that cannot be loaded is a failed test, whatever it raised
        print(f"FAILED  {file}: {type(error).__name__}: {error}")
        return 0, 1, 0
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=0).run(suite)
    broken = [test for test, _ in result.failures + result.errors] + result.unexpectedSuccesses
    failed = len({getattr(test, "test_case", test).id() for test in broken})  # some of a test's parts, or all: one test
    return max(0, result.testsRun - failed - len(result.skipped)), failed, len(result.skipped)


def python(arguments):
    start = time.monotonic()
    every = sorted((ROOT / "tests").rglob("*_test.py"))
    files = [pathlib.Path(name) for name in arguments.files] or [
        file for file in every if file.name.endswith("_slow_test.py") == arguments.slow]
    if arguments.here:
        counts = [run_here(file) for file in files]
    else:
        # The longest files come first, by the only measure at hand: an uneven end would leave a processor idle.
        files.sort(key=lambda file: -file.stat().st_size if file.exists() else 0)
        with ThreadPoolExecutor(1 if arguments.slow else len(os.sched_getaffinity(0))) as pool:
            counts = list(pool.map(run_apart, files))
    return *map(sum, zip((0, 0, 0), *counts)), time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description="Runs tests and counts them.")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("gtest")
    one.add_argument("binary")
    one.add_argument("--filter", default="*")
    one.add_argument("--shards", type=int, default=len(os.sched_getaffinity(0)))
    one.add_argument("--timeout", type=float, default=3600)
    one.add_argument("--name", default="plumb_tests")
    two = commands.add_parser("python")
    two.add_argument("files", nargs="*")
    two.add_argument("--slow", action="store_true")
    two.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # whatever the files' first lines say
    two.set_defaults(name="Python tests")
    for command in (one, two):
        command.add_argument("--tally")
        command.add_argument("--may-be-empty", action="store_true")
    arguments = parser.parse_args()
    if arguments.command == "python" and arguments.here:
        arguments.name = pathlib.Path(arguments.files[0]).stem

    passed, failed, skipped, seconds = (gtest if arguments.command == "gtest" else python)(arguments)
    if passed + failed == 0 and not arguments.may_be_empty:
        print(f"FAILED  {arguments.name}: no test ran")
        failed = 1
    if arguments.tally:
        with open(arguments.tally, "a") as tally:
            tally.write(f"{passed} {failed}{f' {skipped}' if arguments.command == 'python' and arguments.here else ''}\n")
    word = "ok      " if failed == 0 else "FAILED  "
    left_out = f", {skipped} skipped" if skipped else ""
    print(f"{word}{arguments.name}: {passed} passed, {failed} failed{left_out} ({seconds:.1f} s)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
