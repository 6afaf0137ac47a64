"""A run's trace against docs/trace.schema.json by Debian's jsonschema, its checksums by zlib, its names by docs/trace.md."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB_CLI", str(ROOT / "build" / os.environ.get("PLUMB_PRESET", "dev") / "plumb"))
SCHEMA = json.loads((ROOT / "docs/trace.schema.json").read_text(encoding="utf-8"))
TABLE = re.compile(r"^\| `(\w+)` \| (number|per layer) \| (\S+) \| (.*) \|$", re.MULTILINE)
METRICS = TABLE.findall((ROOT / "docs/trace.md").read_text(encoding="utf-8"))
SMALL = ["model.n_layer=2", "model.d_model=32", "model.d_ff=32", "model.block_size=16", "train.batch_size=8", "train.steps=6",
         "train.warmup=2", "train.eval_every=3", "probe.every=2", "data.corpus=LICENSE"]

# Runs under the interpreter that the Debian package is for, whichever runs this file. Standard input: {schema, rows}; output:
# for each row the first error, or null.
VALIDATE = """
import json, sys
import jsonschema
job = json.load(sys.stdin)
jsonschema.Draft202012Validator.check_schema(job["schema"])
validator = jsonschema.Draft202012Validator(job["schema"])
first = (next(validator.iter_errors(row), None) for row in job["rows"])
json.dump([error and error.message for error in first], sys.stdout)
"""


def errors_of(rows):
    run = subprocess.run(["/usr/bin/python3", "-c", VALIDATE], input=json.dumps({"schema": SCHEMA, "rows": rows}),
                         capture_output=True, text=True, timeout=120)
    if run.returncode != 0:
        raise AssertionError(run.stderr)
    return json.loads(run.stdout)


def train(folder, *sets):
    flags = [word for pair in (*SMALL, *sets) for word in ("--set", pair)]
    return subprocess.run([PLUMB, "train", *flags, "--out", f"{folder}/run", "--quiet"], cwd=ROOT, capture_output=True,
                          text=True, timeout=120)


def no_constant(word):
    raise ValueError(f"{word} is not JSON")


def lines_of(folder):
    text = pathlib.Path(folder, "run/trace.jsonl").read_bytes()
    assert text.endswith(b"\n")
    return text[:-1].split(b"\n")


def rows_of(lines):
    return [json.loads(line, parse_constant=no_constant) for line in lines]


class Run(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            run = train(folder)
            if run.returncode != 0:
                raise AssertionError(run.stderr)
            cls.lines = lines_of(folder)
        cls.rows = rows_of(cls.lines)

    def test_every_row_is_valid(self):
        for row, error in zip(self.rows, errors_of(self.rows), strict=True):
            self.assertIsNone(error, row)
        self.assertEqual(self.rows[0]["row"], "header")
        self.assertEqual({row["row"] for row in self.rows[1:]}, {"fact", "step"})

    def test_every_checksum_is_zlibs(self):
        for line in self.lines:
            body, crc = re.fullmatch(rb'(.*),"crc":"([0-9a-f]{8})"\}', line).groups()
            self.assertEqual(f"{zlib.crc32(body):08x}".encode(), crc, line)

    def test_losses_at_every_step_and_probes_at_every_second(self):
        steps = [row for row in self.rows if row["row"] == "step"]
        self.assertEqual([row["step"] for row in steps if "loss" in row], list(range(6)))
        self.assertEqual([row["step"] for row in steps if "layers" in row], [0, 2, 4])
        self.assertEqual([row["step"] for row in steps if "adjacent_kl" in row], [0, 2, 4])
        for name in ("act_std", "grad_std", "attn_entropy", "attn_max_logit", "norm_in_std", "weight_rms", "update_ratio"):
            self.assertEqual([row["step"] for row in steps if name in row.get("layers", {})], [0, 2, 4], name)
        self.assertEqual([row["step"] for row in steps if "val_loss" in row], [3, 6])
        for row in steps:
            for name, values in row.get("layers", {}).items():
                self.assertEqual(len(values), 2, name)

    def test_every_name_is_documented(self):
        per_layer = {name: kind == "per layer" for name, kind, _, _ in METRICS}
        for row in self.rows:
            if row["row"] != "step":
                continue
            for name in row.keys() - {"row", "step", "layers", "crc"}:
                self.assertIs(per_layer.get(name), False, name)
            for name in row.get("layers", {}):
                self.assertIs(per_layer.get(name), True, name)

    def test_a_run_that_breaks_writes_no_null(self):
        with tempfile.TemporaryDirectory() as folder:
            run = train(folder, "train.lr=1e30", "train.warmup=0")
            self.assertEqual(run.returncode, 4, run.stderr)
            rows = rows_of(lines_of(folder))
        last = [row for row in rows if row["row"] == "step"][-1]
        self.assertTrue({last["loss"], last["grad_norm"]} & {"NaN", "Infinity"}, last)
        self.assertEqual([error for error in errors_of(rows) if error], [])


class Schema(unittest.TestCase):
    def test_has_the_metrics_of_the_table_and_no_others(self):
        step = SCHEMA["$defs"]["step"]["properties"]
        described = {name: ("number", text) for name, text in step.items() if name not in ("row", "crc", "step", "layers")}
        described.update({name: ("per layer", text) for name, text in step["layers"]["properties"].items()})
        self.assertGreater(len(METRICS), 10)
        self.assertEqual(set(described), {name for name, *_ in METRICS})
        for name, kind, unit, meaning in METRICS:
            with self.subTest(name=name):
                self.assertEqual(described[name][0], kind)
                self.assertEqual(described[name][1]["description"], meaning if unit == "-" else f"{meaning} ({unit})")
                self.assertEqual(described[name][1]["$ref"], "#/$defs/number" if kind == "number" else "#/$defs/per_layer")

    # Each bad row differs from a good one by what its name says, so that nothing else can be what is refused.
    def test_broken_rows_are_refused(self):
        header = {"row": "header", "schema": "plumb-trace/1", "producer": "x 1", "config": None, "crc": "00ff00ff"}
        fact = {"row": "fact", "name": "tied", "value": None}
        step = {"row": "step", "step": 3, "loss": 1.5, "new": 2, "layers": {"act_std": [1, "NaN"], "new": ["-Infinity"]},
                "crc": "00ff00ff"}
        good = [header, fact, step, {**step, "loss": "Infinity"}, {**step, "new": {"a": [1]}}, {"row": "picture", "data": None}]
        self.assertEqual(errors_of(good), [None] * len(good))

        def without(row, key):
            return {k: v for k, v in row.items() if k != key}

        bad = {
            "no row": without(step, "row"),
            "row is a number": {**step, "row": 1},
            "no object": [step],
            "no schema": without(header, "schema"),
            "another schema": {**header, "schema": "plumb-trace/2"},
            "no producer": without(header, "producer"),
            "config is text": {**header, "config": "n_layer = 12"},
            "no name": without(fact, "name"),
            "no value": without(fact, "value"),
            "no step": without(step, "step"),
            "half a step": {**step, "step": 2.5},
            "step before the first": {**step, "step": -1},
            "NaN as null": {**step, "loss": None},
            "NaN of another metric as null": {**step, "new": None},
            "number as text": {**step, "loss": "1.5"},
            "another spelling of NaN": {**step, "loss": "nan"},
            "text for a metric that is not known": {**step, "new": "high"},
            "an array for a scalar": {**step, "loss": [1.5]},
            "layers is an array": {**step, "layers": [1, 2]},
            "a layer metric is a number": {**step, "layers": {"act_std": 1}},
            "a layer metric that is not known is a number": {**step, "layers": {"new": 1}},
            "NaN of a layer as null": {**step, "layers": {"act_std": [1, None]}},
            "crc of 7 digits": {**step, "crc": "0ff00ff"},
            "crc of 9 digits": {**step, "crc": "000ff00ff"},
            "crc in capitals": {**step, "crc": "00FF00FF"},
            "crc is a number": {**step, "crc": 12345678},
        }
        for (name, row), error in zip(bad.items(), errors_of(list(bad.values())), strict=True):
            self.assertIsNotNone(error, f"{name}: {row}")


if __name__ == "__main__":
    unittest.main()
